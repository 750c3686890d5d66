"""A worker's place at the database: its slot, lock, marks, bell and row (spec L1, L3, K3)."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from yieldstar_cli import ids
from yieldstar_cli.doorbell import Bell
from yieldstar_cli.errors import StorageError
from yieldstar_cli.worker.dispatcher import Limits
from yieldstar_cli.worker.guard import guarded_paths, install_guard
from yieldstar_cli.worker.leases import DeadWorker, find_ended
from yieldstar_cli.worker.liveness import LockFile
from yieldstar_cli.worker.marks import MarksFile

if TYPE_CHECKING:
    from yieldstar_cli.clock import Clock
    from yieldstar_cli.storage.contract import Storage, Writer

#: A worker of another boot or host whose lease ended this long ago is taken for gone.
FORGOTTEN_MS = 600_000


class Place:
    """Taken when the worker starts, before its writer exists; given back when it leaves.

    Taking it ends the claims of workers that are found dead (spec L3: at once).
    """

    def __init__(
        self,
        storage: Storage,
        path: str,
        clock: Clock,
        *,
        name: str | None,
        lease_ms: int,
        alone: bool,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._path = path
        self._file = _identity(path)
        self.lock = LockFile(f"{path}-lock")
        self.marks = MarksFile(f"{path}-marks")
        for dead in self.gone():
            storage.workers.bury(dead.row.number, dead.how, dead.marked, max_deaths=Limits().deaths)
        nonce = ids.SystemChance().seed()
        # Not the slots of workers whose end nobody has noticed yet: their marks are read then.
        slot = self.lock.acquire(nonce, avoid={dead.row.slot for dead in self._ended()})
        self.bell = Bell(str(Path(path).resolve()), slot)
        self.marks.take(slot, nonce)
        host = socket.gethostname()
        self.name = name or f"{host}:{os.getpid()}"
        self.number = storage.workers.register(
            name=self.name,
            host=host,
            pid=os.getpid(),
            slot=slot,
            nonce=nonce,
            boot_id=self.lock.boot_id,
            device=self.lock.device,
            inode=self.lock.inode,
            lease_until_at=clock.now_ms() + lease_ms,
            alone=alone,
        )
        install_guard(guarded_paths(path))

    def gone(self, found: Sequence[DeadWorker] | None = None) -> list[DeadWorker]:
        """Workers whose claims are to be ended: the dead, and those long forgotten.

        A lease that only ended ends nothing: a claim takes over (spec L2).
        """
        forgotten = self._clock.now_ms() - FORGOTTEN_MS
        return [
            dead
            for dead in (self._ended() if found is None else found)
            if dead.how == "died" or dead.row.lease_until_at < forgotten
        ]

    def leave_if_moved(self, say: Callable[[str], None]) -> None:
        """End this process at once if the database is no longer the file that it opened.

        What it wrote on would be seen by nobody. It closes nothing: SQLite would fold and unlink
        the WAL by its name, which may be another database's by now.
        """
        if _identity(self._path) == self._file:
            return
        say(f"{self._path} was moved, replaced or deleted; nothing more is recorded here")
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(StorageError.exit_code)

    def leave(self, writer: Writer, how: str, on_error: Callable[[str], None]) -> None:
        """Mark the row stopped as the writer's last act; take the bell away."""
        self.bell.close()
        number = self.number
        # The loop runs no more, so nobody hears the answer: the row itself tells.
        writer.submit(lambda storage: storage.workers.stop(number, how), lambda _, error: None)
        writer.close()
        with suppress(StorageError):
            living = {row.number for row in self._storage.workers.all(living=True)}
            if number not in living or how == "handed back":
                return
        on_error(f"worker {self.name} could not say that it stopped; its lock tells it")

    def _ended(self) -> list[DeadWorker]:
        living = self._storage.workers.all(living=True)
        return find_ended(living, self.lock, self.marks, self._clock.now_ms())


def _identity(path: str) -> tuple[int, int] | None:
    """Which file stands there: device and inode. Never opened, which would drop our locks."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
