"""Named points at which a test may kill a worker: around every commit and every user call.

`commit:N:before` and `commit:N:after` stand around the Nth request that the worker writes
(`claim` or `record`), `call:KEY:before` and `call:KEY:after` around each call of a step function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from yieldstar_cli.storage.contract import Reply, Storage, Writer
from yieldstar_cli.worker.ports import Cancellable, Loop, Performed, Performers, StepCall, StepEnd


class Killed(BaseException):
    """Stands for SIGKILL: everything in memory is forgotten, the file stays as it is."""


class FaultPoints:
    """Counts the points that are passed; `kill_at(n)` makes the nth of them deadly.

    `names` lists the points passed since the last `reset`, in order.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self._kill_at: int | None = None
        self._kill_name: str | None = None
        self._commits = 0

    def kill_at(self, index: int | None = None, *, name: str | None = None) -> None:
        """Be killed at the `index`th point (from 0), or at the first with this name."""
        self._kill_at = index
        self._kill_name = name

    def reset(self) -> None:
        """Count from zero again and kill nobody."""
        self.names = []
        self._kill_at = None
        self._kill_name = None
        self._commits = 0

    def reach(self, name: str) -> None:
        """Pass a point; raises Killed if this is the deadly one."""
        index = len(self.names)
        self.names.append(name)
        if index == self._kill_at or name == self._kill_name:
            raise Killed(name)

    def commit(self) -> int:
        """The number of the commit that begins."""
        self._commits += 1
        return self._commits


class FaultyWriter:
    """A writer with a fault point before and after every commit.

    `commit_ms` is how long an answer takes to come back, in virtual milliseconds: things may
    happen meanwhile.
    """

    def __init__(self, writer: Writer, points: FaultPoints, loop: Loop, commit_ms: int = 0) -> None:
        self._writer = writer
        self._points = points
        self._loop = loop
        self._commit_ms = commit_ms

    def submit(self, request: Callable[[Storage], Any], reply: Reply) -> None:
        """As Writer.submit."""
        number = self._points.commit()
        self._points.reach(f"commit:{number}:before")
        self._writer.submit(request, self._later(reply) if self._commit_ms else reply)
        self._points.reach(f"commit:{number}:after")

    def _later(self, reply: Reply) -> Reply:
        def late(value: Any, error: BaseException | None) -> None:
            at = self._loop.now_ms() + self._commit_ms
            self._loop.call_at(at, lambda: reply(value, error))

        return late

    def close(self) -> None:
        """As Writer.close."""
        self._writer.close()


class FaultyPerformers:
    """Performers with a fault point before and after every call of a step function.

    `duration` says how long a call takes in virtual milliseconds; its function runs at the end.
    """

    def __init__(
        self,
        performers: Performers,
        points: FaultPoints,
        loop: Loop,
        duration: Callable[[StepCall], int] | None = None,
    ) -> None:
        self._performers = performers
        self._points = points
        self._loop = loop
        self._duration = duration

    def start(self, call: StepCall, done: Callable[[StepEnd], None]) -> Performed:
        """As Performers.start."""
        self._points.reach(f"call:{call.step_key}:before")

        def ended(end: StepEnd) -> None:
            self._points.reach(f"call:{call.step_key}:after")
            done(end)

        span_ms = self._duration(call) if self._duration is not None else 0
        if not span_ms:
            return self._performers.start(call, ended)
        return _Later(self._loop, span_ms, lambda: self._performers.start(call, ended))

    def running(self) -> int:
        """As Performers.running."""
        return self._performers.running()

    def backlog(self) -> int:
        """As Performers.backlog."""
        return self._performers.backlog()


class _Later:
    """A call whose function runs when its span is over; it counts as started at once."""

    def __init__(self, loop: Loop, span_ms: int, begin: Callable[[], Performed]) -> None:
        self._begin = begin
        self.started_at: int | None = loop.now_ms()
        self._under_way: Cancellable = loop.call_at(self.started_at + span_ms, self._run)

    def _run(self) -> None:
        self._under_way = self._begin()

    def cancel(self) -> None:
        """As Cancellable.cancel."""
        self._under_way.cancel()
