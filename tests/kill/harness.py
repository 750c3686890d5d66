"""Runs the real `ys` and kills its own process (SIGKILL) at the Nth named point it passes.

    python -m tests.kill.harness DEADLY POINTS-FILE ys-words...

Points stand before each BEGIN, before and after each COMMIT, and before and after each call of
a step function. Their names are appended to POINTS-FILE, so that a test can tell which were
passed. With DEADLY -1 nobody is killed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

from yieldstar_cli.storage.sqlite.database import Database
from yieldstar_cli.worker.performers import ThreadedPerformers


class Points:
    """Counts the points of this process, from whichever thread."""

    def __init__(self, deadly: int, path: str) -> None:
        self._deadly = deadly
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._count = 0
        self._lock = threading.Lock()

    def reach(self, name: str) -> None:
        with self._lock:
            os.write(self._file, f"{name}\n".encode())
            if self._count == self._deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            self._count += 1


def install(points: Points) -> None:
    """Put the points around transactions and user calls."""
    begin, commit, start = Database.begin, Database.commit, ThreadedPerformers.start

    def begin_at_point(self: Database) -> None:
        if not self.readonly:
            points.reach("begin")
        begin(self)

    def commit_at_points(self: Database) -> None:
        if not self.readonly:
            points.reach("commit:before")
        commit(self)
        if not self.readonly:
            points.reach("commit:after")

    def start_at_points(self: ThreadedPerformers, call: Any, done: Any) -> Any:
        fn = call.fn

        def called(*args: Any, **kwargs: Any) -> Any:
            points.reach(f"call:{call.step_key}:before")
            value = fn(*args, **kwargs)
            points.reach(f"call:{call.step_key}:after")
            return value

        call.fn = called
        return start(self, call, done)

    Database.begin = begin_at_point  # type: ignore[method-assign]
    Database.commit = commit_at_points  # type: ignore[method-assign]
    ThreadedPerformers.start = start_at_points  # type: ignore[method-assign]


if __name__ == "__main__":
    install(Points(int(sys.argv[1]), sys.argv[2]))
    from yieldstar_cli.cli.entry import main

    sys.exit(main(sys.argv[3:]))
