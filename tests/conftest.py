"""Fixtures that every test may use: a database's path, a clock that stands still, open storage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import effort
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.storage.sqlite.storage import SqliteStorage


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Under `make torture` every property is tried many times as often."""
    if effort.torturing():
        effort.try_harder(getattr(item, name, None) for item in items for name in ("obj", "cls"))


@pytest.fixture
def db_path(tmp_path: Path) -> Path:
    """Where a database may be made."""
    return tmp_path / "ys.db"


@pytest.fixture
def clock() -> ManualClock:
    """A clock that a test moves."""
    return ManualClock()


@pytest.fixture
def storage(db_path: Path, clock: ManualClock) -> Iterator[SqliteStorage]:
    """A new database, open for writing."""
    opened = SqliteStorage(db_path, clock=clock, create=True)
    yield opened
    opened.close()
