"""A file from before anything could be pruned: it reads the same, is sound, and can be pruned."""

from __future__ import annotations

import gzip
from pathlib import Path

import apsw
import pytest

from tests.storage.test_migration_2 import KEPT, asked, columns_of, contents
from tests.upkeep.test_pruning import pruned
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.storage.sqlite import schema
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

#: The schema before the one that knows of pruned executions.
(BEFORE,) = (
    int(file.name[:4]) - 1
    for file in schema.ours().folder.iterdir()
    if file.name.endswith("_pruned.sql")
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file of that schema, in the middle of its executions."""
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress(KEPT.read_bytes()))
    path.chmod(0o600)
    connection = apsw.Connection(str(path))
    migrations = schema.ours()
    with connection:
        for version in range(2, BEFORE + 1):
            for statement in migrations.statements(version):
                connection.execute(statement)
        connection.execute(schema.set_version(BEFORE))
    connection.close()
    return path


def test_it_reads_the_same_and_is_sound(old: Path, tmp_path: Path) -> None:
    """spec K7: every column of every table, built like a new file, after a backup."""
    columns = columns_of(old)
    before = contents(old, columns)
    assert before["executions"]

    SqliteStorage(old).close()

    assert contents(old, columns) == before
    assert contents(Path(f"{old}.schema-{BEFORE}.bak"), columns) == before
    SqliteStorage(tmp_path / "new.db", create=True).close()
    sql = "SELECT type, name, replace(sql, '\"', '') FROM sqlite_schema ORDER BY 1, 2"
    assert asked(old, sql) == asked(tmp_path / "new.db", sql)
    storage = SqliteStorage(old, readonly=True)
    assert all(record.pruned_at is None for record in storage.reader.find(limit=None))
    assert list(storage.upkeep.breaches()) == []
    storage.close()


def test_what_ended_before_can_be_pruned(old: Path) -> None:
    """spec E3, R11: whatever wrote it."""
    storage = SqliteStorage(old, clock=ManualClock(2_000_000_000_000))
    ended = {
        record.execution_id for record in storage.reader.find(limit=None) if record.status.terminal
    }
    assert ended

    assert set(pruned(storage)) == ended

    assert list(storage.upkeep.breaches()) == []
    storage.close()
