"""A file of schema 1 becomes one of schema 2: it reads the same, and it goes on (spec K7)."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests.storage.kit import new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import NoDatabase
from yieldstar_cli.model import Completed, Round
from yieldstar_cli.storage.sqlite import schema
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

KEPT = Path(__file__).parent.parent / "cases" / "kept" / "format_1.db.gz"
#: The waits have another key now; what they say is the same.
ORDERED = {"waits": "n, kind, step_key"}


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file that a program with schema 1 wrote, in the middle of its executions."""
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress(KEPT.read_bytes()))
    path.chmod(0o600)
    return path


def asked(path: Path, sql: str, *bindings: str) -> list[tuple[Any, ...]]:
    """What the file answers, to a program that knows nothing of schemas."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    rows = connection.execute(sql, bindings).fetchall()
    connection.close()
    return rows


def columns_of(path: Path) -> dict[str, list[str]]:
    """The columns of every table."""
    names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    columns = "SELECT name FROM pragma_table_info(?)"
    return {name: [row[0] for row in asked(path, columns, name)] for (name,) in asked(path, names)}


def contents(path: Path, columns: dict[str, list[str]]) -> dict[str, list[tuple[Any, ...]]]:
    """What the file holds in these columns."""
    return {
        table: asked(
            path, f"SELECT {', '.join(names)} FROM {table} ORDER BY {ORDERED.get(table, '1, 2')}"
        )
        for table, names in columns.items()
    }


def test_a_file_of_schema_1_reads_the_same_afterwards(old: Path) -> None:
    """spec K7: every column of every table, in one transaction, after a backup."""
    columns = columns_of(old)
    before = contents(old, columns)
    assert {"executions", "history", "waits"} <= {table for table, found in before.items() if found}

    SqliteStorage(old).close()

    assert contents(old, columns) == before
    assert contents(Path(f"{old}.schema-1.bak"), columns) == before
    storage = SqliteStorage(old, readonly=True)
    assert storage.db.rows("PRAGMA integrity_check") == [("ok",)]
    assert schema.version_of(storage.db) == schema.SCHEMA_VERSION
    storage.close()


def test_a_migrated_file_is_built_like_a_new_one(old: Path, tmp_path: Path) -> None:
    """spec K7: the same tables, indexes and checks, letter for letter."""
    SqliteStorage(old).close()
    SqliteStorage(tmp_path / "new.db", create=True).close()

    def built(path: Path) -> list[tuple[Any, ...]]:
        rows = asked(path, "SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2")
        return [(kind, name, (sql or "").replace('"', "")) for kind, name, sql in rows]

    assert built(old) == built(tmp_path / "new.db")


def test_a_migrated_execution_goes_on(old: Path) -> None:
    """spec K7, R11: claims, waits and derived columns work on what was there before."""
    clock = ManualClock()
    clock.advance(10**8)
    storage = SqliteStorage(old, clock=clock)
    records = storage.reader.find(limit=None, statuses=["suspended"])
    assert records
    worker = new_worker(storage, clock.now_ms())

    claimed = storage.deliveries.claim(
        clock.now_ms(),
        worker=worker,
        limit=100,
        workflows=[(record.workflow_id, record.version) for record in records],
    )
    for each in claimed:
        assert list(each.history) == storage.reader.history(each.delivery.number, 1)
        assert list(each.waits) == storage.reader.waits(each.delivery.number)
        storage.deliveries.record(each.delivery, Round(outcome=Completed("1")))

    assert {each.delivery.execution_id for each in claimed} == {r.execution_id for r in records}
    assert all(each.waits for each in claimed)
    assert storage.reader.find(limit=None, statuses=["suspended"]) == []
    storage.close()


def test_a_reader_does_not_migrate(old: Path) -> None:
    """spec K7: it says what would, and touches nothing."""
    before = old.read_bytes()

    with pytest.raises(NoDatabase, match="older schema 1"):
        SqliteStorage(old, readonly=True)

    assert old.read_bytes() == before
