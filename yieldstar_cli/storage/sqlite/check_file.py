"""Whether the file as a whole is sound: SQLite's own checks, its schema, its mode (E13, K7)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence

import apsw

from yieldstar_cli.errors import YieldstarError
from yieldstar_cli.storage.sqlite import schema
from yieldstar_cli.storage.sqlite.check_rules import RESTORE
from yieldstar_cli.storage.sqlite.database import Database, Row
from yieldstar_cli.storage.upkeep import Breach

INTEGRITY = "PRAGMA integrity_check(20)"
QUICK = "PRAGMA quick_check(20)"
FOREIGN_KEYS = "PRAGMA foreign_key_check"
OBJECTS = """
SELECT type, name, tbl_name, ifnull(sql, '')
  FROM sqlite_schema
 WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
"""
# One row names the file, and row 0 of the workers stands for claims without one.
OWN_ROWS = """
SELECT (SELECT count(*) FROM file), (SELECT count(*) FROM workers WHERE n = 0)
"""

_UNTRUSTED = "Nothing that the file says can be relied on before that is mended."


def file_breaches(db: Database, *, quick: bool) -> Iterator[Breach]:
    """What is wrong with the file itself."""
    try:
        for (text,) in db.rows(QUICK if quick else INTEGRITY):
            if text != "ok":
                yield Breach("DAMAGED", f"SQLite finds damage: {text}", _UNTRUSTED, RESTORE)
        for table, *_ in db.rows(FOREIGN_KEYS):
            text = f"a row of {table} refers to one that is not there"
            yield Breach("DAMAGED", text, _UNTRUSTED, RESTORE)
    except YieldstarError as error:
        yield damaged(error)
    yield from _schema_breaches(db)
    mode = stat.S_IMODE(os.stat(db.path).st_mode)
    if mode & 0o077:
        yield Breach(
            "OPEN_TO_OTHERS",
            f"others may read or write {db.path} (mode {mode:04o})",
            "What is stored is not yours alone.",
            f"chmod 600 {db.path}",
        )


def damaged(error: YieldstarError) -> Breach:
    """What could not even be asked."""
    return Breach("DAMAGED", error.message, _UNTRUSTED, RESTORE)


def _schema_breaches(db: Database) -> Iterator[Breach]:
    there, ours = _objects(db.rows(OBJECTS)), _expected()
    for what in sorted(there.keys() | ours.keys()):
        if there.get(what) == ours.get(what):
            continue
        state = "is missing" if what not in there else "is not ours"
        if what in there and what in ours:
            state = "is not as this version makes it"
        yield Breach(
            "SCHEMA",
            f"{' '.join(what)} {state}",
            "Another program changed the file; what it holds may be found slowly, or not at all.",
            RESTORE,
        )
    if db.rows(OWN_ROWS) != [(1, 1)]:
        yield Breach("SCHEMA", "the rows that name the file are not there", _UNTRUSTED, RESTORE)


def _objects(rows: Sequence[Row]) -> dict[tuple[str, str], str]:
    # How a rename quotes the name is the business of SQLite's version.
    return {
        (kind, name): " ".join((table, *sql.replace('"', "").split()))
        for kind, name, table, sql in rows
    }


def _expected() -> dict[tuple[str, str], str]:
    """The tables and indexes that our migrations make."""
    connection = apsw.Connection(":memory:")
    try:
        migrations = schema.ours()
        for version in range(1, migrations.newest + 1):
            for statement in migrations.statements(version):
                connection.execute(statement)
        return _objects(connection.execute(OBJECTS).fetchall())
    finally:
        connection.close()
