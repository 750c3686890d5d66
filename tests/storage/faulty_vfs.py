"""A disk that fails when told to: a VFS that counts writes, syncs and truncations.

Shared memory and locks stay SQLite's own, so write-ahead logging works as always.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apsw


class Disk:
    """Counts the operations that reach the disk, and does `fault` at those it was armed for."""

    def __init__(self) -> None:
        self.count = 0
        self.first = 0
        self.last = 0
        self.fault: Callable[[str, str], None] = lambda name, what: None
        self.seen: list[str] = []
        #: Narrow the fault to one kind of operation on one kind of file.
        self.only: tuple[str, str] | None = None

    def arm(
        self,
        fault: Callable[[str, str], None],
        *,
        at: int,
        times: int = 1,
        only: tuple[str, str] | None = None,
    ) -> None:
        """Do `fault` from the `at`th operation from now (1 is the next), `times` times."""
        self.only = only
        self.first = self.count + at
        self.last = self.first + times - 1
        self.fault = fault

    def disarm(self) -> None:
        self.last = 0

    def before(self, what: str, name: str) -> None:
        """An operation is about to reach the disk."""
        self.seen.append(f"{what} {name.rsplit('/', 1)[-1]}")
        if self.only is not None and not (what == self.only[0] and name.endswith(self.only[1])):
            return
        self.count += 1
        if self.first <= self.count <= self.last:
            self.fault(what, name)


def full(what: str, name: str) -> None:
    """There is no room left."""
    raise apsw.FullError(f"no room: {what}")


def broken(what: str, name: str) -> None:
    """The disk reports an error."""
    raise apsw.IOError(f"broken: {what}")


def killed(what: str, name: str) -> None:
    """The process is gone at this instant."""
    os._exit(99)


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: object, flags: list[int]) -> None:
        self._disk = disk
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        super().__init__("unix", name, flags)  # type: ignore[arg-type]

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.before("write", self._name)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._disk.before("sync", self._name)
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:
        self._disk.before("truncate", self._name)
        super().xTruncate(size)


class _Vfs(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        super().__init__("ys-faulty", "unix", makedefault=True)

    def xOpen(self, name: object, flags: list[int]) -> _File:  # type: ignore[override]
        return _File(self._disk, name, flags)


@contextmanager
def faulty_disk() -> Iterator[Disk]:
    """Every database opened inside is on this disk."""
    disk = Disk()
    vfs = _Vfs(disk)
    try:
        yield disk
    finally:
        vfs.unregister()
