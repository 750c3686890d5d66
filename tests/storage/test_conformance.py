"""The conformance suite on SQLite: every row of RFC 001's tables, and of our own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.sqlite_adapter import SqliteAdapter
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.testing.conformance import (
    Adapter,
    ExecutionConformance,
    StorageAdapter,
    StorageConformance,
)


class TestSqlite(ExecutionConformance):
    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.directory = tmp_path

    def open(self, clock: ManualClock) -> Adapter:
        return SqliteAdapter(self.directory / "ys.db", clock)


class TestSqliteRooms(StorageConformance):
    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.directory = tmp_path

    def open(self, clock: ManualClock) -> StorageAdapter:
        return SqliteAdapter(self.directory / "ys.db", clock)
