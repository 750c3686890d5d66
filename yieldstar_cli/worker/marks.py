"""Which executions' code runs in which worker, in a place that outlives a killed one (spec L5).

A mapped file beside the database holds one region per worker slot. What a process has written
to a shared mapping is the kernel's, so it is there after a SIGKILL; after a power loss it need
not be. A region begins with its worker's nonce, so that no other worker's marks are taken for
those of a dead one.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct

from yieldstar_cli.nouns import dataclass
from yieldstar_cli.worker.private_file import file_error, open_private

RECORD_BYTES = 128
#: A thousand async steps, threads, and the functions being stepped.
RECORDS = 1_279
#: The nonce's record and the others; a multiple of every page size in use.
REGION_BYTES = RECORD_BYTES * (RECORDS + 1)

_NUMBER = struct.Struct("<Q")
# since when, length of the key, key: what follows the number in a record
_REST = struct.Struct("<QH110s")
_NO_KEY = struct.Struct("<QH")
_RECORD = struct.Struct("<QQH110s")
_KEY_BYTES = 110
_NONCE_BYTES = 32


@dataclass(frozen=True, slots=True)
class Mark:
    """Code of execution `number` was entered at `since_at`; `step_key` may be cut at the end."""

    number: int
    since_at: int
    step_key: str


class NoMarks:
    """Marks nobody reads: for the test kit and for programs that run no worker."""

    def enter(self, number: int, step_key: str, at_ms: int) -> int:
        """Mark nothing."""
        return -1

    def leave(self, slot: int) -> None:
        """Unmark nothing."""


class MarksFile:
    """The marks file beside a database, mode 0600, made when a worker takes a region.

    `enter` and `leave` may be called from any thread and cost about half a microsecond.
    Readers need nothing but `read`. Source: spec L5.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._map: mmap.mmap | None = None
        self._free: list[int] = []

    def take(self, slot: int, nonce: bytes) -> None:
        """Make the region of `slot` this worker's own, empty, under its `nonce`.

        Raises DiskFull or StorageError if the file cannot grow, UntrustedPath if it is not ours.
        """
        base = slot * REGION_BYTES
        head = nonce[:_NONCE_BYTES].ljust(_NONCE_BYTES, b"\0")
        descriptor = open_private(self.path)
        try:
            # Written, not ftruncated: a write never makes the file shorter under a worker that
            # takes a later region at this instant, and it takes the blocks now: a store into a
            # hole of a mapped file kills the process when the disk is full.
            _write_all(descriptor, bytes(REGION_BYTES), base)
            _write_all(descriptor, head, base)
            self._map = mmap.mmap(descriptor, REGION_BYTES, offset=base)
        except OSError as error:
            raise file_error(self.path, error) from error
        finally:
            os.close(descriptor)
        # Taken from the end: the first record first, and the last one left is the next taken,
        # so that few pages are touched.
        self._free = [RECORD_BYTES * index for index in range(RECORDS, 0, -1)]

    def enter(self, number: int, step_key: str, at_ms: int) -> int:
        """Mark that code of execution `number` is entered; returns a place for `leave`.

        Returns -1, and marks nothing, when the region is full or was never taken.
        """
        try:
            place = self._free.pop()
        except IndexError:
            return -1
        assert self._map is not None
        if step_key:
            key = step_key.encode(errors="replace")
            _REST.pack_into(self._map, place + 8, at_ms, min(len(key), _KEY_BYTES), key)
        else:
            _NO_KEY.pack_into(self._map, place + 8, at_ms, 0)
        # The number last, in one aligned store: a record is whole or free at any instant.
        _NUMBER.pack_into(self._map, place, number)
        return place

    def leave(self, slot: int) -> None:
        """Unmark."""
        if slot > 0 and self._map is not None:
            _NUMBER.pack_into(self._map, slot, 0)
            self._free.append(slot)

    def clear(self, slot: int) -> None:
        """Forget the marks of a region that no living worker holds."""
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_size >= (slot + 1) * REGION_BYTES:
                    _write_all(descriptor, bytes(REGION_BYTES), slot * REGION_BYTES)
            finally:
                os.close(descriptor)

    def read(self, slot: int, nonce: bytes) -> list[Mark]:
        """What the worker with `nonce` has marked in `slot`, oldest first; empty if nothing.

        Reads only; any process may ask, also about a living worker.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            return []
        try:
            region = os.pread(descriptor, REGION_BYTES, slot * REGION_BYTES)
        finally:
            os.close(descriptor)
        head = nonce[:_NONCE_BYTES].ljust(_NONCE_BYTES, b"\0")
        if len(region) < REGION_BYTES or region[:_NONCE_BYTES] != head:
            return []
        records = _RECORD.iter_unpack(memoryview(region)[RECORD_BYTES:])
        marks = [
            Mark(number, since_at, key[:length].decode(errors="ignore"))
            for number, since_at, length, key in records
            if number
        ]
        return sorted(marks, key=lambda mark: mark.since_at)

    def close(self) -> None:
        """Mark nothing more. What is marked stays, for whoever ends this worker's claims."""
        self._free = []
        # Not closed: a step's thread may be about to leave. It goes with its last user.
        self._map = None


def _write_all(descriptor: int, data: bytes, offset: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        offset += written
        rest = rest[written:]
