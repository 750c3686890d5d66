"""A worker's end of the line to the crew that started it: two processes, one byte a word (K1)."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from yieldstar_cli.errors import UsageError

#: What a member says: it works from now on; it has nothing to do; it has again.
READY, IDLE, BUSY = b"r", b"i", b"b"
#: What it is told: nobody has anything to do.
ALL_IDLE = b"e"

_NOT_BY_HAND = "--member is for the processes of ys worker --processes"


@dataclass(frozen=True, slots=True)
class Seat:
    """What a crew tells a member when it starts it."""

    #: The descriptor of its end of the line.
    line: int
    #: Which of the crew it is, from 0.
    number: int
    #: When the crew began, UTC milliseconds.
    begun_at: int

    @classmethod
    def read(cls, text: str) -> Seat:
        """From the word that `str` makes of it. Raises UsageError."""
        parts = text.split(":")
        if len(parts) != 3 or not all(part.isdecimal() and part.isascii() for part in parts):
            raise UsageError(_NOT_BY_HAND)
        seat = cls(*map(int, parts))
        try:
            is_line = stat.S_ISSOCK(os.fstat(seat.line).st_mode)
        except (OSError, OverflowError):
            is_line = False
        if not is_line:
            raise UsageError(_NOT_BY_HAND)
        return seat

    def __str__(self) -> str:
        return f"{self.line}:{self.number}:{self.begun_at}"


class Member:
    """The line, from this end. `on_gone` is called when the crew is no more."""

    def __init__(
        self, seat: Seat, on_all_idle: Callable[[], None], on_gone: Callable[[], None]
    ) -> None:
        self._line = socket.socket(fileno=seat.line)
        self._line.setblocking(False)
        self._line.set_inheritable(False)
        self._on_all_idle = on_all_idle
        self._on_gone = on_gone
        self._idle = False
        #: Whether all of the crew were idle once: then each ends when it is idle itself.
        self.all_idle = False

    @property
    def descriptor(self) -> int:
        """What to wait for."""
        return self._line.fileno()

    def ready(self) -> None:
        """Say that this worker has begun."""
        self._say(READY)

    def busy(self, busy: bool) -> None:
        """Say whether there is something to do here, when that changes."""
        if busy == self._idle:
            self._idle = not busy
            self._say(BUSY if busy else IDLE)

    def hear(self) -> bool:
        """Take what was said; False once nothing will be any more."""
        try:
            said = self._line.recv(64)
        except BlockingIOError:
            return True
        except OSError:
            said = b""
        if not said:
            self._on_gone()
            return False
        if ALL_IDLE in said:
            self.all_idle = True
            self._on_all_idle()
        return True

    def _say(self, word: bytes) -> None:
        with suppress(OSError):
            self._line.send(word)
