"""A file of schema 2 becomes one of schema 3: it reads the same, and waits for stores (spec K7)."""

from __future__ import annotations

import gzip
from pathlib import Path

import apsw
import pytest

from tests.storage.kit import claim_one, new_worker
from tests.storage.test_migration_2 import KEPT, asked, columns_of, contents
from tests.storage.test_stores import FULL, STOCK, waiting_for
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import NoDatabase
from yieldstar_cli.model import Round, Suspended
from yieldstar_cli.storage.sqlite import schema
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

#: What the world waited for in schema 2: a message, an execution's end, a pause.
OF_SCHEMA_2 = """
UPDATE waits SET queue = 'approval' WHERE n = (SELECT min(n) FROM waits);
UPDATE waits SET target = 'x', target_n = 1, ready_at = 5 WHERE n = (SELECT max(n) FROM waits);
INSERT INTO messages (n, queue, state, sent_at, answer, value)
VALUES (1, 'approval', 'waiting', 5, 'delivered', '"yes"');
INSERT INTO pauses (workflow_id, by, at, reason) VALUES ('other', 'me', 5, NULL);
PRAGMA user_version = 2;
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file of schema 2, in the middle of its executions."""
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress(KEPT.read_bytes()))
    path.chmod(0o600)
    connection = apsw.Connection(str(path))
    migrations = schema.ours()
    with connection:
        for statement in migrations.statements(2):
            connection.execute(statement)
        connection.execute(OF_SCHEMA_2)
    connection.close()
    return path


def test_a_file_of_schema_2_reads_the_same_afterwards(old: Path) -> None:
    """spec K7: every column of every table, in one transaction, after a backup."""
    columns = columns_of(old)
    before = contents(old, columns)
    held = {table for table, found in before.items() if found}
    assert {"executions", "history", "waits", "messages", "pauses"} <= held
    assert "stores" not in columns

    SqliteStorage(old).close()

    assert contents(old, columns) == before
    assert contents(Path(f"{old}.schema-2.bak"), columns) == before
    storage = SqliteStorage(old, readonly=True)
    assert storage.db.rows("PRAGMA integrity_check") == [("ok",)]
    assert storage.stores.find() == []
    assert all(wait.store is None for n in range(20) for wait in storage.reader.waits(n))
    storage.close()


def test_a_file_of_schema_2_is_built_like_a_new_one(old: Path, tmp_path: Path) -> None:
    """spec K7: the same tables, indexes and checks, letter for letter."""
    SqliteStorage(old).close()
    SqliteStorage(tmp_path / "new.db", create=True).close()

    sql = "SELECT type, name, replace(sql, '\"', '') FROM sqlite_schema ORDER BY 1, 2"
    assert asked(old, sql) == asked(tmp_path / "new.db", sql)
    assert asked(old, "PRAGMA user_version") == [(schema.SCHEMA_VERSION,)]


def test_an_execution_of_schema_2_waits_for_a_store(old: Path) -> None:
    """spec K7, R11, S4: what began before there were stores is woken by one."""
    clock = ManualClock()
    clock.advance(10**8)
    storage = SqliteStorage(old, clock=clock)
    record = storage.reader.find(limit=None, statuses=["suspended"])[0]
    worker = new_worker(storage, clock.now_ms())
    workflows = [(record.workflow_id, record.version)]
    delivery = claim_one(
        storage, clock.now_ms(), worker, only=record.execution_id, workflows=workflows
    )
    seen = storage.stores.put(*STOCK, FULL)
    ended = tuple((wait.kind, wait.step_key) for wait in storage.reader.waits(delivery.number))
    waits = (waiting_for(seen, ("left",)),)
    storage.deliveries.record(delivery, Round(unwait=ended, waits=waits, outcome=Suspended()))

    storage.stores.delete(*STOCK)

    woken = claim_one(
        storage, clock.now_ms(), worker, only=record.execution_id, workflows=workflows
    )
    assert woken.token == delivery.token + 1
    storage.close()


def test_a_reader_does_not_migrate_schema_2(old: Path) -> None:
    """spec K7: it says what would, and touches nothing."""
    before = old.read_bytes()

    with pytest.raises(NoDatabase, match="older schema 2"):
        SqliteStorage(old, readonly=True)

    assert old.read_bytes() == before
