"""Tells the workers of a database that something became due: a datagram after the commit.

It carries nothing and promises nothing: a worker that misses it sees the commit at its next
look. So nobody waits for it, and whatever is wrong with it is no error.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from contextlib import suppress


def bell_path(database: str, slot: int) -> str:
    """The socket of the worker in `slot`, beside the database."""
    return f"{database}-bell-{slot}"


def ring(database: str, slots: Iterable[int]) -> None:
    """Ring the bells of the workers in `slots`; those that are gone do not hear it."""
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for slot in slots:
            with suppress(OSError):
                sender.sendto(b"!", bell_path(database, slot))


class Bell:
    """The worker's end, mode 0600. Without one (a path too long for a socket) it stays silent."""

    def __init__(self, database: str, slot: int) -> None:
        self._path = bell_path(database, slot)
        self._socket: socket.socket | None = None
        # The slot's lock is ours, so whatever lies there is a dead worker's.
        with suppress(OSError):
            os.unlink(self._path)
        bell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            bell.setblocking(False)
            # The socket's file takes its mode from the descriptor's, narrowed by the umask.
            os.fchmod(bell.fileno(), 0o600)
            bell.bind(self._path)
            os.chmod(self._path, 0o600)
        except OSError:
            bell.close()
        else:
            self._socket = bell

    @property
    def descriptor(self) -> int | None:
        """What to wait for, or None."""
        return None if self._socket is None else self._socket.fileno()

    def heard(self) -> None:
        """Take what has rung, however often."""
        with suppress(OSError):
            while self._socket is not None and self._socket.recv(16):
                pass

    def close(self) -> None:
        """Take the bell away."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            with suppress(OSError):
                os.unlink(self._path)
