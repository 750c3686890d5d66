"""Whether a worker of this host still lives: one lock file, one locked byte per worker (spec L3).

The kernel drops a process's locks when it ends, however it ends, so a byte that can be locked is
a worker that is dead. A stopped process (SIGSTOP) keeps its byte: of it only the lease tells.

Why a byte that was free once stays proof: a worker locks its byte before it adds its row, adds one
row in its life, and lets go of the byte only after its row says stopped, or by its end. So a row
that lives and whose byte is free can never come alive again, and whoever ends its claims later,
by the row's number, ends the right ones, even if a newer worker has taken the byte meanwhile.
That newer worker hides the dead row from a look at the byte alone; its own row, or its memory,
shows it: of several living rows with one byte only the newest can hold it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Collection, Iterator, Sequence

from yieldstar_cli.clock import SystemClock, monotonic_ms
from yieldstar_cli.errors import StorageError
from yieldstar_cli.model import WorkerRow
from yieldstar_cli.nouns import dataclass, field
from yieldstar_cli.worker.private_file import open_private

#: More workers than this on one file is a mistake somewhere.
MOST_SLOTS = 4_096


@dataclass(slots=True)
class _Opened:
    """This process's one descriptor of one lock file, and the bytes that it holds."""

    descriptor: int
    #: slot -> the nonce of the worker that holds it.
    held: dict[int, bytes] = field(default_factory=dict)


class _Registry:
    """Every lock file this process has opened, by device and inode.

    The one exception to "no global state", because the state it mirrors is the process's own:
    POSIX record locks belong to the process, and closing *any* descriptor of a file drops *all*
    of the process's locks on it. So there may be one descriptor per file in the whole process,
    which is never closed, however many parts of a program open the same database.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.opened: dict[tuple[int, int], _Opened] = {}
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        # A forked child inherits the descriptors and none of the locks. It may go on using the
        # descriptors: what it locks with them is its own.
        self.lock = threading.Lock()
        for opened in self.opened.values():
            opened.held.clear()


_registry = _Registry()


class LockFile:
    """The lock file beside a database: mode 0600, made when missing, never deleted.

    `device` and `inode` say which file it is, `boot_id` which life of this machine: a worker's
    row carries all three, since a byte says something only about rows that agree in them.
    Raises UntrustedPath for a symbolic link, a file of somebody else or what is no file;
    StorageError if it cannot be opened. Source: spec L3, K5.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.boot_id = boot_id()
        self.device, self.inode, self._opened = _open(path)

    def acquire(self, nonce: bytes, *, avoid: Collection[int] = ()) -> int:
        """Lock the lowest free byte for the worker with `nonce` and return its slot.

        To be called after any fork, before the worker's row is added. `avoid` names slots that
        are not to be taken though free: those of dead workers whose claims nobody has ended yet.
        """
        with _registry.lock:
            for slot in range(MOST_SLOTS):
                if slot in avoid or slot in self._opened.held:
                    continue
                if self._try_lock(slot):
                    self._opened.held[slot] = nonce
                    return slot
        raise StorageError(
            f"{self.path} has no free place: {MOST_SLOTS} workers hold all of them",
            why=("Or the database is being restored just now.",),
            remedy=("ys doctor",),
        )

    def release(self, slot: int) -> None:
        """Let go of a byte of this process; harmless when it does not hold it."""
        with _registry.lock:
            if self._opened.held.pop(slot, None) is not None:
                self._unlock(slot)

    def holds(self, slot: int, nonce: bytes) -> bool:
        """True if the worker with `nonce` lives in this process and holds `slot`."""
        return self._opened.held.get(slot) == nonce

    def is_dead(self, slot: int) -> bool:
        """True if no living process holds the byte of `slot`.

        Another process's look at the same instant makes it seem held; the next look corrects it.
        """
        with _registry.lock:
            # Locking a byte that is ours would succeed, and unlocking it would lose it.
            if slot in self._opened.held:
                return False
            if not self._try_lock(slot):
                return False
            self._unlock(slot)
            return True

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """While it lasts no worker of this host can be alive, or begin; False where one is.

        Asks the kernel for every byte at once. Other questions to this file wait meanwhile.
        """
        with _registry.lock:
            # The bytes of this process's own workers would be lost in the unlocking.
            if self._opened.held or not self._try_lock(0, MOST_SLOTS):
                yield False
                return
            try:
                yield True
            finally:
                self._unlock(0, MOST_SLOTS)

    def find_dead(self, rows: Sequence[WorkerRow]) -> list[WorkerRow]:
        """Those of `rows`, workers not known to have stopped, that are certainly dead.

        Rows of another boot, another host's file system or another lock file are never among
        them: of those only the lease tells.
        """
        newest: dict[int, int] = {}
        ours = [row for row in rows if self._concerns(row)]
        for row in ours:
            newest[row.slot] = max(newest.get(row.slot, 0), row.number)
        return [row for row in ours if self._row_is_dead(row, newest[row.slot])]

    def _row_is_dead(self, row: WorkerRow, newest: int) -> bool:
        holder = self._opened.held.get(row.slot)
        if holder is not None:
            return holder != row.nonce
        return row.number < newest or self.is_dead(row.slot)

    def _concerns(self, row: WorkerRow) -> bool:
        return (row.boot_id, row.device, row.inode) == (self.boot_id, self.device, self.inode)

    def _try_lock(self, slot: int, count: int = 1) -> bool:
        try:
            fcntl.lockf(self._opened.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, count, slot)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise StorageError(
                f"{self.path} cannot be locked: {os.strerror(error.errno or 0)}",
                why=("Workers need POSIX record locks to notice each other's end.",),
                remedy=("Put the database on a local disk.",),
            ) from error
        return True

    def _unlock(self, slot: int, count: int = 1) -> None:
        fcntl.lockf(self._opened.descriptor, fcntl.LOCK_UN, count, slot)


def boot_id() -> str:
    """What tells this boot of the machine from every other one."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return f"booted-{_boot_minute()}"


def _boot_minute() -> int:
    # Elsewhere: the moment of the boot, coarse enough that two readings of it agree. Where they
    # do not, rows only seem to be of another boot, and their leases decide.
    return round((SystemClock().now_ms() - monotonic_ms()) / 60_000)


def _open(path: str) -> tuple[int, int, _Opened]:
    """The process's descriptor of the file at `path`: the one it has, or a new one."""
    with _registry.lock:
        # Looked at by name first: opening a file that is open already, and closing it again,
        # would drop the locks held on it.
        with contextlib.suppress(OSError):
            seen = os.stat(path, follow_symlinks=False)
            known = _registry.opened.get((seen.st_dev, seen.st_ino))
            if known is not None:
                return seen.st_dev, seen.st_ino, known
        descriptor = open_private(path)
        found = os.fstat(descriptor)
        key = (found.st_dev, found.st_ino)
        if key in _registry.opened:
            # The name was given to a known file between the look and the opening: this second
            # descriptor must stay open, unused, for ever.
            return *key, _registry.opened[key]
        return *key, _registry.opened.setdefault(key, _Opened(descriptor))
