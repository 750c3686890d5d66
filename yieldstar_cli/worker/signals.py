"""What SIGTERM and SIGINT do to a worker: the first asks it to end, the second ends it (K2)."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from yieldstar_cli.worker.ports import Loop

#: The signals that end a worker. Exit statuses of the second: 130 and 143.
ENDING = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Handlers for both signals while in force; a context manager, for the main thread.

    `on_first(signal_number)` is posted to the loop. The second signal calls `on_second` in the
    handler, where it may say one thing and must not wait, and ends the process at once with
    128 + its number: nothing is lost either way. With `patience_s` the first one, too, ends the
    process (0, after `on_late`) when that has passed: code that never leaves the loop's thread
    keeps it from being heeded there. Python's handlers rather than asyncio's, so that
    the second also works while code on the loop's thread does not come back to the loop.
    """

    def __init__(
        self,
        loop: Loop,
        on_first: Callable[[int], None],
        on_second: Callable[[int], None] | None = None,
        *,
        patience_s: float | None = None,
        on_late: Callable[[], None] | None = None,
    ) -> None:
        self._loop = loop
        self._on_first = on_first
        self._on_second = on_second
        self._patience_s = patience_s
        self._on_late = on_late
        self._deadline: threading.Timer | None = None
        self._pid = os.getpid()
        self._count = 0
        self._before: dict[int, Any] = {}

    @property
    def count(self) -> int:
        """How many have come."""
        return self._count

    def __enter__(self) -> Signals:
        for number in ENDING:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        for number, handler in self._before.items():
            # None: a handler that was not made by Python and cannot be given back.
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        self._before.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            # A child that a step forked inherits the handlers, not the worker's duties.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._count += 1
        if self._count == 1:
            self._loop.post(lambda: self._on_first(number))
            if self._patience_s is not None:
                self._deadline = threading.Timer(self._patience_s, self._end_anyway)
                self._deadline.daemon = True
                self._deadline.start()
            return
        # From the third on without another word: the second's may be stuck in a full pipe.
        if self._count == 2:
            with contextlib.suppress(Exception):
                if self._on_second is not None:
                    self._on_second(number)
                sys.stderr.flush()
        os._exit(128 + number)

    def _end_anyway(self) -> None:
        """The loop did not come to heed the first signal; called in the timer's thread."""
        with contextlib.suppress(Exception):
            if self._on_late is not None:
                self._on_late()
            sys.stderr.flush()
        os._exit(0)
