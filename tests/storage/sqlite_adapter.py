"""SQLite as the conformance suite's adapter under test."""

from __future__ import annotations

from pathlib import Path

from yieldstar_cli.clock import ManualClock
from yieldstar_cli.storage.contract import Executions
from yieldstar_cli.storage.sqlite.storage import SqliteStorage


class SqliteAdapter:
    """One database file; `crash` leaves the old connection as a killed process would."""

    redelivery_ms = 30_000

    def __init__(self, path: Path, clock: ManualClock) -> None:
        self.path = path
        self.clock = clock
        self._left: list[SqliteStorage] = []
        self.storage = self._open()

    @property
    def executions(self) -> Executions:
        return self.storage.executions

    def restart(self) -> None:
        self.storage.close()
        self.storage = self._open()

    def crash(self) -> None:
        self._left.append(self.storage)
        self.storage = self._open()

    def close(self) -> None:
        for storage in (self.storage, *self._left):
            storage.close()

    def _open(self) -> SqliteStorage:
        return SqliteStorage(
            self.path, clock=self.clock, create=True, redelivery_ms=self.redelivery_ms
        )
