"""Makes a large file out of a small one: copies of executions that were really run."""

from __future__ import annotations

from dataclasses import dataclass

import apsw
from scene import BenchmarkFailed, Scene

EXECUTIONS = "executions"
TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
#: Tables with a column `n` that is not an execution's number.
OTHERS = ("workers",)


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    is_moment: bool


def fill(scene: Scene, count: int, *, earlier: bool = True) -> None:
    """Copy the executions of `scene`, with all rows of theirs, until there are `count`.

    The copies are as if they had happened one millisecond earlier each, or, without `earlier`, at
    the very same moments. No process may have the file open.
    """
    connection = apsw.Connection(str(scene.db))
    try:
        connection.pragma("synchronous", "off")
        connection.pragma("cache_size", -500_000)
        tables = _tables(connection)
        connection.execute("BEGIN IMMEDIATE")
        have = _have(connection)
        while have < count:
            for table, columns in tables.items():
                connection.execute(
                    _copying(table, columns, earlier=earlier),
                    {"by": have, "most": count - have},
                )
            if _have(connection) == have:
                raise BenchmarkFailed("there is nothing to copy")
            have = _have(connection)
        connection.execute("COMMIT")
        connection.pragma("synchronous", "full")
        connection.pragma("wal_checkpoint(truncate)")
    finally:
        connection.close()


def _have(connection: apsw.Connection) -> int:
    return int(connection.execute(f"SELECT ifnull(max(n), 0) FROM {EXECUTIONS}").get)


def _tables(connection: apsw.Connection) -> dict[str, list[_Column]]:
    found = {}
    for (table,) in connection.execute(TABLES).fetchall():
        columns = [
            _Column(name, kind == "INTEGER" and (name == "at" or name.endswith("_at")))
            for name, kind, hidden in connection.execute(
                "SELECT name, type, hidden FROM pragma_table_xinfo(?)", (table,)
            )
            if not hidden  # derived columns come by themselves
        ]
        if table not in OTHERS and any(column.name == "n" for column in columns):
            found[str(table)] = columns
    return found


def _copying(table: str, columns: list[_Column], *, earlier: bool) -> str:
    names = ", ".join(column.name for column in columns)
    values = ", ".join(_value(column, earlier=earlier) for column in columns)
    return f"INSERT INTO {table} ({names}) SELECT {values} FROM {table} WHERE n <= :most"


def _value(column: _Column, *, earlier: bool) -> str:
    if column.name == "n":
        return "n + :by"
    if column.name == "execution_id":
        return "printf('copy-%09d', n + :by)"
    if column.is_moment and earlier:
        return f"{column.name} - :by"
    return column.name
