"""Callbacks with moments, for a loop: kept by moment, called off cheaply."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

Callback = Callable[[], None]


class Timer:
    """A callback with a moment; `cancel()` calls it off, harmlessly if it has run."""

    __slots__ = ("_timers", "at_ms", "callback")

    def __init__(self, at_ms: int, callback: Callback, timers: Timers) -> None:
        self.at_ms = at_ms
        self.callback: Callback | None = callback
        self._timers = timers

    def cancel(self) -> None:
        """Call it off; harmless when it has happened."""
        if self.callback is not None:
            self.callback = None
            self._timers.forget_one()

    def fire(self) -> None:
        """Run the callback, unless it was called off; at most once."""
        callback, self.callback = self.callback, None
        if callback is not None:
            callback()


class Timers:
    """Timers by moment, those of the same moment in the order in which they were set."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = itertools.count()
        self._cancelled = 0

    def add(self, at_ms: int, callback: Callback) -> Timer:
        """Set a timer."""
        timer = Timer(at_ms, callback, self)
        heapq.heappush(self._heap, (at_ms, next(self._sequence), timer))
        return timer

    def next_at(self) -> int | None:
        """The earliest moment, or None."""
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
            self._cancelled = max(0, self._cancelled - 1)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Timer | None:
        """The earliest timer if its moment has come, or None."""
        at = self.next_at()
        if at is None or at > now_ms:
            return None
        return heapq.heappop(self._heap)[2]

    def forget_one(self) -> None:
        """Note a cancelled timer; sweep when they are most of what is kept.

        Every step with a time limit sets a timer and calls it off: without the sweep a limit of
        a day would keep a day's worth of them.
        """
        self._cancelled += 1
        if self._cancelled > 64 and self._cancelled * 2 > len(self._heap):
            self._heap = [item for item in self._heap if item[2].callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0
