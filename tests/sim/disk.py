"""A disk that fails when told to, and that forgets in a power cut what was not synced.

Under every database that is opened while it is in force. Shared memory and locks stay SQLite's
own, so write-ahead logging works as always.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import apsw

from tests.sim.flows import Died

SECTOR = 512


@dataclass
class _Content:
    """One file: what a power cut leaves for certain, and what came since its last sync."""

    durable: bytearray = field(default_factory=bytearray)
    #: (offset, data), or (size, None) for a truncation.
    since: list[tuple[int, bytes | None]] = field(default_factory=list)

    def settle(self) -> None:
        for offset, data in self.since:
            _put(self.durable, offset, data)
        self.since.clear()


@dataclass
class Fault:
    """What goes wrong: at the `after`th operation from now, `times` times."""

    kind: str
    after: int
    times: int
    #: Operations, counted from its first strike, after which it is mended.
    until: int | None = None


class Disk:
    """The files under one folder, as the disk has them."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: dict[str, _Content] = {}
        self._fault: Fault | None = None
        self._next: Fault | None = None
        self._frozen = False
        self.operations = 0
        #: Faults that struck.
        self.struck = 0

    def adopt(self, name: str) -> None:
        """A file that is there already, whole and synced."""
        with open(name, "rb") as file:
            self._files[name] = _Content(bytearray(file.read()))

    def renamed(self, name: str, to: str) -> None:
        """A file has another name now; what was not synced of it is as unsure as before."""
        if name in self._files:
            self._files[to] = self._files.pop(name)

    def arm(self, kind: str, *, after: int, times: int, until: int | None = None) -> None:
        """From the `after`th operation on, `times` operations of that `kind` fail.

        "eio" and "full" strike any operation that writes; "sync" only syncs; "short" writes half.
        "kill" ends the process in the middle of it, "cut" the power.
        """
        self._fault = Fault(kind, after, times, until)

    def then(self, kind: str, *, after: int, times: int, until: int | None = None) -> None:
        """The fault that comes once the armed one is over, counted from there."""
        self._next = Fault(kind, after, times, until)

    def heal(self) -> None:
        """Nothing fails any more, but for what comes next."""
        if self.struck:
            self._fault, self._next = self._next, None
        else:
            self._fault = None

    def forget(self) -> None:
        """Nothing fails from now on."""
        self._fault = self._next = None

    def freeze(self) -> None:
        """Nothing is taken note of until the cut: whoever closes a file is gone already."""
        self._frozen = True

    def cut(self, dice: Random) -> None:
        """The power fails: of what was not synced some is there, some is not, some is torn.

        Nothing may have the files open.
        """
        self._frozen = False
        for name in sorted(self._files):
            content = self._files[name]
            for offset, data in content.since:
                fate = dice.random()
                if fate < 0.4:
                    continue
                if data is not None and fate < 0.6 and len(data) > SECTOR:
                    data = data[: SECTOR * dice.randrange(1, -(-len(data) // SECTOR))]
                _put(content.durable, offset, data)
            content.since.clear()
            with open(name, "wb") as file:
                file.write(content.durable)
        for name in os.listdir(self._folder):
            if name.endswith("-shm"):
                os.unlink(os.path.join(self._folder, name))

    # --- what the files tell -----------------------------------------------------------------

    def write(self, name: str, data: bytes, offset: int) -> bytes:
        """What of `data` reaches the file; raises where nothing does."""
        kept = data
        if self._frozen:
            return kept
        fault = self._strikes("write")
        if fault is not None and fault.kind == "short":
            kept = data[: len(data) // 2]
        elif fault is not None:
            raise _error(fault, "write")
        self._content(name).since.append((offset, kept))
        return kept

    def truncate(self, name: str, size: int) -> None:
        """A file is cut to `size`."""
        if self._frozen:
            return
        fault = self._strikes("truncate")
        if fault is not None:
            raise _error(fault, "truncate")
        self._content(name).since.append((size, None))

    def sync(self, name: str) -> None:
        """What was written to the file so far stands."""
        if self._frozen:
            return
        fault = self._strikes("sync")
        if fault is not None:
            raise _error(fault, "sync")
        self._content(name).settle()

    def delete(self, name: str) -> None:
        """The file is gone."""
        if self._frozen:
            return
        self._files.pop(name, None)

    def _content(self, name: str) -> _Content:
        content = self._files.get(name)
        if content is None:
            content = self._files[name] = _Content()
        return content

    def _strikes(self, what: str) -> Fault | None:
        self.operations += 1
        fault = self._fault
        if fault is None or (fault.kind == "sync" and what != "sync"):
            return None
        fault.after -= 1
        if fault.after > 0:
            return None
        fault.times -= 1
        if fault.until is not None:
            fault.until -= 1
        if fault.times <= 0 or fault.until == 0:
            self._fault, self._next = self._next, None
        self.struck += 1
        return fault


def _put(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        return
    if len(content) < offset:
        content.extend(b"\0" * (offset - len(content)))
    content[offset : offset + len(data)] = data


class PowerLost(BaseException):
    """The machine is off."""


def _error(fault: Fault, what: str) -> BaseException:
    if fault.kind == "kill":
        return Died()
    if fault.kind == "cut":
        return PowerLost()
    if fault.kind == "full":
        return apsw.FullError(f"no room: {what}")
    return apsw.IOError(f"broken: {what}")


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        kept = self._disk.write(self._name, bytes(data), offset)
        super().xWrite(kept, offset)
        if len(kept) < len(data):
            raise apsw.FullError("no room: half of it was written")

    def xSync(self, flags: int) -> None:
        self._disk.sync(self._name)  # nothing here outlives the machine: no need to wait for it

    def xTruncate(self, size: int) -> None:
        self._disk.truncate(self._name, size)
        super().xTruncate(size)


class _Vfs(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        super().__init__("ys-simulated", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        return _File(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self._disk.delete(filename)


@contextmanager
def simulated_disk(folder: str) -> Iterator[Disk]:
    """Every database opened inside is on this disk."""
    disk = Disk(folder)
    vfs = _Vfs(disk)
    try:
        yield disk
    finally:
        vfs.unregister()


__all__ = ["Disk", "PowerLost", "simulated_disk"]
