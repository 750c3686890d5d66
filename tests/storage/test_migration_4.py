"""A file of schema 3 becomes one of schema 4: it reads the same, and has effects (spec K7, F1)."""

from __future__ import annotations

import gzip
from pathlib import Path

import apsw
import pytest

from tests.storage.kit import claim_one, new_worker
from tests.storage.test_migration_2 import KEPT, asked, columns_of, contents
from tests.storage.test_migration_3 import OF_SCHEMA_2
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import NoDatabase
from yieldstar_cli.model import (
    Delivery,
    ExecutionRecord,
    HoldEffect,
    Round,
    SettleEffect,
    Suspended,
    Wait,
)
from yieldstar_cli.storage.sqlite import schema
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

#: What schema 3 has and no earlier one: a store, and a wait for it.
OF_SCHEMA_3 = """
INSERT INTO stores (name, store_id, instance, version, state, created_at, updated_at)
VALUES ('Stock', 'main', 'one', 3, '{"left":0}', 5, 6);
UPDATE waits
   SET store_name = 'Stock', store_id = 'main', store_instance = 'one', store_read = '[]'
 WHERE n = (SELECT min(n) FROM waits);
PRAGMA user_version = 3;
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file of schema 3, in the middle of its executions."""
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress(KEPT.read_bytes()))
    path.chmod(0o600)
    connection = apsw.Connection(str(path))
    migrations = schema.ours()
    with connection:
        for statement in migrations.statements(2):
            connection.execute(statement)
        connection.execute(OF_SCHEMA_2)
        for statement in migrations.statements(3):
            connection.execute(statement)
        connection.execute(OF_SCHEMA_3)
    connection.close()
    return path


def test_a_file_of_schema_3_reads_the_same_afterwards(old: Path) -> None:
    """spec K7: every column of every table, in one transaction, after a backup."""
    columns = columns_of(old)
    before = contents(old, columns)
    held = {table for table, found in before.items() if found}
    assert {"executions", "history", "waits", "messages", "pauses", "stores"} <= held
    assert not {"effects", "effect_reports"} & set(columns)

    SqliteStorage(old).close()

    assert contents(old, columns) == before
    assert contents(Path(f"{old}.schema-3.bak"), columns) == before
    storage = SqliteStorage(old, readonly=True)
    assert storage.db.rows("PRAGMA integrity_check") == [("ok",)]
    assert storage.effects.find() == []
    assert storage.stores.get("Stock", "main") is not None
    assert all(wait.effect is None for n in range(20) for wait in storage.reader.waits(n))
    storage.close()


def test_a_file_of_schema_3_is_built_like_a_new_one(old: Path, tmp_path: Path) -> None:
    """spec K7: the same tables, indexes and checks, letter for letter."""
    SqliteStorage(old).close()
    SqliteStorage(tmp_path / "new.db", create=True).close()

    sql = "SELECT type, name, replace(sql, '\"', '') FROM sqlite_schema ORDER BY 1, 2"
    assert asked(old, sql) == asked(tmp_path / "new.db", sql)
    assert asked(old, "PRAGMA user_version") == [(schema.SCHEMA_VERSION,)]


def test_an_execution_of_schema_3_waits_for_an_effect(old: Path) -> None:
    """spec K7, R11, F1: what began before there were effects is woken by one."""
    clock = ManualClock()
    clock.advance(10**8)
    storage = SqliteStorage(old, clock=clock)
    first, second = storage.reader.find(limit=2, statuses=["suspended"])
    worker = new_worker(storage, clock.now_ms())

    def claimed(record: ExecutionRecord) -> Delivery:
        key = [(record.workflow_id, record.version)]
        now = clock.now_ms()
        return claim_one(storage, now, worker, only=record.execution_id, workflows=key)

    for record in (first, second):
        storage.executions.request_wake(record.execution_id, clock.now_ms())
    holder, waiter = claimed(first), claimed(second)
    hold = HoldEffect("pay", clock.now_ms(), "pay-1", "charge", "5")
    begun = storage.deliveries.record(holder, Round(actions=(hold,)))
    ended = tuple((wait.kind, wait.step_key) for wait in storage.reader.waits(waiter.number))
    wait = Wait("effect", "pay", "pay-1", clock.now_ms(), None, "waiting", effect="pay-1")
    storage.deliveries.record(waiter, Round(unwait=ended, waits=(wait,), outcome=Suspended()))

    settle = SettleEffect("pay", clock.now_ms(), "pay-1", '"done"')
    storage.deliveries.record(holder, Round(actions=(settle,)))

    assert [hold.state for hold in begun.holds] == ["certain"]
    assert claimed(second).token == waiter.token + 1
    storage.close()


def test_a_reader_does_not_migrate_schema_3(old: Path) -> None:
    """spec K7: it says what would, and touches nothing."""
    before = old.read_bytes()

    with pytest.raises(NoDatabase, match="older schema 3"):
        SqliteStorage(old, readonly=True)

    assert old.read_bytes() == before
