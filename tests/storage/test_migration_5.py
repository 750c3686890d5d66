"""A file of schema 4 becomes one of schema 5: it reads the same, from other indexes (spec K7)."""

from __future__ import annotations

import gzip
from pathlib import Path

import apsw
import pytest

from tests.storage.test_migration_2 import KEPT, asked, columns_of, contents
from tests.storage.test_migration_3 import OF_SCHEMA_2
from tests.storage.test_migration_4 import OF_SCHEMA_3
from yieldstar_cli.errors import NoDatabase
from yieldstar_cli.storage.sqlite import schema
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

#: What schema 4 has and no earlier one: an effect.
OF_SCHEMA_4 = """
INSERT INTO effects (effect_id, operation, input, status, begun_at, begun_by)
VALUES ('charge-1', 'charge', '5', 'pending', 5, 1);
PRAGMA user_version = 4;
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file of schema 4, in the middle of its executions."""
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
        for statement in migrations.statements(4):
            connection.execute(statement)
        connection.execute(OF_SCHEMA_4)
    connection.close()
    return path


def test_a_file_of_schema_4_reads_the_same_afterwards(old: Path) -> None:
    """spec K7: every column of every table, in one transaction, after a backup."""
    columns = columns_of(old)
    before = contents(old, columns)
    assert before["executions"]
    assert before["effects"]

    SqliteStorage(old).close()

    assert contents(old, columns) == before
    assert contents(Path(f"{old}.schema-4.bak"), columns) == before
    storage = SqliteStorage(old, readonly=True)
    assert storage.db.rows("PRAGMA integrity_check") == [("ok",)]
    assert sum(storage.reader.counts().values()) == len(before["executions"])
    storage.close()


def test_a_file_of_schema_4_is_built_like_a_new_one(old: Path, tmp_path: Path) -> None:
    """spec K7: the same tables, indexes and checks, letter for letter."""
    SqliteStorage(old).close()
    SqliteStorage(tmp_path / "new.db", create=True).close()

    sql = "SELECT type, name, replace(sql, '\"', '') FROM sqlite_schema ORDER BY 1, 2"
    assert asked(old, sql) == asked(tmp_path / "new.db", sql)
    assert asked(old, "PRAGMA user_version") == [(schema.SCHEMA_VERSION,)]


def test_a_reader_does_not_migrate_schema_4(old: Path) -> None:
    """spec K7: it says what would, and touches nothing."""
    before = old.read_bytes()

    with pytest.raises(NoDatabase, match="older schema 4"):
        SqliteStorage(old, readonly=True)

    assert old.read_bytes() == before
