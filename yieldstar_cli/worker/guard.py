"""Keeps user code inside a worker from opening the database's files behind our back (spec K5).

Closing any descriptor of a file drops all POSIX locks that the process holds on it, SQLite's own
and those of the worker's liveness. Our connections are opened in C, by apsw, and raise no audit
event; whoever else opens one of these files in this process is stopped before it happens.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote


class Guard:
    """Refuses `open`, `os.open` and `sqlite3.connect` of `paths`, by any name, in this process.

    A file is known by device and inode, so links are known too; one that was made after the
    guard, by its name. What is refused raises PermissionError with the way out. Python cannot
    take an audit hook away again: `lift()` leaves it in place, doing nothing.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = frozenset(os.path.realpath(path) for path in paths)
        self._names = frozenset(os.path.basename(path) for path in self._paths)
        self._files = frozenset(
            identity for path in self._paths if (identity := _identity(path)) is not None
        )
        self._lifted = False
        self._pid = os.getpid()

    def lift(self) -> None:
        """Refuse nothing any more."""
        self._lifted = True

    def hook(self, event: str, args: tuple[Any, ...]) -> None:
        """Look at one audit event. Python raises hundreds a second: the first line says no."""
        if event != "open" and event != "sqlite3.connect":
            return
        if self._lifted or not args:
            return
        path = _path_of(args[0], is_sqlite=event == "sqlite3.connect")
        # A forked child has no locks to lose.
        if path is not None and self._guards(path) and os.getpid() == self._pid:
            raise PermissionError(errno.EACCES, _REFUSAL, path)

    def _guards(self, path: str) -> bool:
        identity = _identity(path)
        if identity is not None and identity in self._files:
            return True
        return os.path.basename(path) in self._names and os.path.realpath(path) in self._paths


_REFUSAL = (
    "this worker's database may not be opened here: closing it again would drop the worker's "
    "locks on it. Use yieldstar_cli.open_runtime(), or read it from another process"
)


def install_guard(paths: Sequence[str]) -> Guard:
    """Guard `paths` from now until the process ends, or until the guard is lifted.

    To be called once the database is open, so that its WAL and shm are there to be known.
    """
    guard = Guard(paths)
    sys.addaudithook(guard.hook)
    return guard


def guarded_paths(database: str) -> tuple[str, ...]:
    """The files of a database that a worker must not have opened: itself, WAL, shm, lock."""
    return (database, f"{database}-wal", f"{database}-shm", f"{database}-lock")


def _path_of(named: object, *, is_sqlite: bool) -> str | None:
    """The path that an event names; None for descriptors and what is no path."""
    try:
        path = os.fsdecode(named)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    if is_sqlite and path.startswith("file:"):
        rest = path[len("file:") :].partition("?")[0].partition("#")[0]
        # file:///path and file://localhost/path name /path.
        if rest.startswith("//"):
            rest = "/" + rest[2:].partition("/")[2]
        path = unquote(rest)
    return path


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino
