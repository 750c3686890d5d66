"""Suspects: executions that may kill their worker run in a process of their own (spec L5)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

#: This program again; -P: nothing of the current directory is imported, whatever its name.
PYTHON = (sys.executable, "-P", "-m", "yieldstar_cli")
#: How many run at once.
MOST = 1


class Suspects:
    """Starts worker processes that deliver one suspect each, and sees them end.

    `words` are the options that such a worker shares with this one.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._command = [*PYTHON, "worker", "--alone", "next", *words]
        self._running: list[subprocess.Popen[bytes]] = []

    def __bool__(self) -> bool:
        return bool(self._running)

    def start(self) -> bool:
        """Start one more, unless enough are running."""
        if len(self._running) >= MOST:
            return False
        self._running.append(subprocess.Popen(self._command, stdin=subprocess.DEVNULL))
        return True

    def ended(self) -> bool:
        """True if one has ended since the last call, however."""
        before = len(self._running)
        self._running = [process for process in self._running if process.poll() is None]
        return len(self._running) < before
