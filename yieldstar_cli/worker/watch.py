"""Watches the loop's thread from another one: does it come back, and if not, where is it (R12)."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable
from types import FrameType

from yieldstar_cli.worker.ports import Loop

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES = tuple(
    path + os.sep
    for path in {
        sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
    }
    if path
)


class Stepping:
    """What the loop's thread steps just now; written there, read by the keeper (spec R12)."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        #: (says what is stepped, when that began by the monotonic clock, in milliseconds).
        self.now: tuple[Callable[[], str], float] | None = None

    def begin(self, describe: Callable[[], str], since_ms: float) -> None:
        """A function is entered, or goes on."""
        self.now = (describe, since_ms)

    def end(self) -> None:
        """It came to its next await, or to its end."""
        self.now = None


class LoopWatch:
    """Says when the loop's thread stays in one place too long (spec R12)."""

    def __init__(
        self,
        loop: Loop,
        stepping: Stepping,
        slow: Callable[[str], None],
        loop_thread: int,
        *,
        check_ms: int,
        slow_ms: int,
        stuck_ms: int,
    ) -> None:
        self._loop = loop
        self._stepping = stepping
        self._slow = slow
        self._loop_thread = loop_thread
        self._check_ms = check_ms
        self._slow_ms = slow_ms
        self._stuck_ms = stuck_ms
        #: What was told of last: a stepping, the loop itself (this object), or nothing.
        self._told: object = None
        #: The author's frame seen at the last tick; held, since a freed one's identity is used
        #: again, and only while the loop owes a sign of life.
        self._frame_seen: FrameType | None = None
        self._asked_since: float | None = None
        self._silent_ms = 0.0
        self._last_ms: float | None = None

    @property
    def stuck(self) -> bool:
        """True while the loop has made no progress for `stuck_ms` of this process's own time."""
        return self._silent_ms >= self._stuck_ms

    def tick(self, now_ms: float) -> None:
        """Look at the loop, and ask it for a sign of life."""
        if self._asked_since is None:
            self._asked_since = now_ms
            self._silent_ms = 0.0
            self._told = None
            self._frame_seen = None
            self._loop.post(self._answer)
        elif self._last_ms is not None:
            # Time in which the whole process stood still (SIGSTOP, a sleeping machine) is not
            # the loop's: no gap between two ticks counts for more than a few.
            self._silent_ms += min(now_ms - self._last_ms, 4 * self._check_ms)
        self._last_ms = now_ms
        self._tell_if_slow(now_ms)

    def _answer(self) -> None:
        self._asked_since = None

    def _tell_if_slow(self, now_ms: float) -> None:
        stepping = self._stepping.now
        if stepping is not None:
            describe, since = stepping
            if now_ms - since > self._slow_ms and self._told is not stepping:
                place = whereabouts(self._loop_thread)
                if place is None:
                    return  # The time goes into its values, not into its code.
                self._told = stepping
                self._slow(
                    f"{describe()} has not come to its next await for {_seconds(now_ms - since)}: "
                    f"it is at {place}; move that work into a step"
                )
        elif self._silent_ms > 0:
            self._tell_if_held()

    def _tell_if_held(self) -> None:
        """Report code of the author's that holds the loop without being stepped: an async step.

        Only if two looks find the same call of it: under load a sign of life may come late
        though nothing is wrong.
        """
        frame = _author_frame(sys._current_frames().get(self._loop_thread))
        seen, self._frame_seen = self._frame_seen, frame
        if frame is None or seen is not frame:
            return
        if self._silent_ms > self._slow_ms and self._told is None:
            self._told = self
            self._slow(
                f"the worker's event loop has been held up for {_seconds(self._silent_ms)} at "
                f"{_place(frame)}; an async step must not block: make it a plain function, "
                f"which runs in a thread"
            )


def whereabouts(thread: int) -> str | None:
    """The file and line at which the thread with this identity is, in the author's own code.

    The innermost, since it can be changed; None where no code of the author's runs.
    """
    author = _author_frame(sys._current_frames().get(thread))
    return None if author is None else _place(author)


def _author_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None:
        if not frame.f_code.co_filename.startswith((_OURS, "<", *_LIBRARIES)):
            return frame
        frame = frame.f_back
    return None


def _place(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno}, in {frame.f_code.co_name}"


def _seconds(span_ms: float) -> str:
    return f"{span_ms / 1000:.1f} s"
