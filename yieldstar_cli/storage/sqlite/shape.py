"""Whether a file is built as ours are: nothing in it that would run on our statements (spec K7)."""

from __future__ import annotations

from pathlib import Path

from yieldstar_cli.errors import CorruptFile, ForeignFile
from yieldstar_cli.storage.sqlite.database import Database

#: `NNNN.shape` beside the migrations: what a file of that schema holds, statement by statement.
FOLDER = Path(__file__).parent / "migrations"
# A UNIQUE brings its index along, which has no statement and belongs to a table that is told.
OBJECTS = """
SELECT type, name, sql
  FROM sqlite_schema
 WHERE type <> 'index' OR sql IS NOT NULL
 ORDER BY name, type
"""


def told(db: Database) -> str:
    """What the file holds, one object a line, with its name first."""
    # Comments and line breaks are the migrations' business.
    return "".join(
        f"{type_} {name}: {' '.join((sql or '').split())}\n"
        for type_, name, sql in db.rows(OBJECTS)
    )


def kept(version: int) -> str | None:
    """What a file of schema `version` holds; None where none is known."""
    try:
        return (FOLDER / f"{version:04d}.shape").read_text("utf-8")
    except FileNotFoundError:
        return None


def require(db: Database, version: int) -> None:
    """Refuse a file of schema `version` that holds more, less or other than ours do.

    Raises ForeignFile for what is added (a trigger, a view, a table) and CorruptFile for what is
    missing or changed (a CHECK, a generated column). Writes nothing.
    """
    ours, found = kept(version), told(db)
    if ours is None or ours == found:
        return
    right, there = _by_name(ours), _by_name(found)
    added = [name for name in there if name not in right]
    if added:
        raise ForeignFile(
            f"{db.path} holds the {added[0]!r}, which is not ours",
            why=("It could run on our statements. The file was not touched.",),
            remedy=("Restore a backup of the file.",),
        )
    other = [name for name, sql in right.items() if there.get(name) != sql]
    # Without any: one of ours is there twice.
    what = f"the {other[0]!r} is not as we make it" if other else "its schema is not ours"
    raise CorruptFile(
        f"{db.path} is damaged: {what}",
        why=("The file was not touched.",),
        remedy=("Restore a backup of the file.",),
    )


def _by_name(text: str) -> dict[str, str]:
    parts = (line.partition(": ") for line in text.splitlines())
    return {name: sql for name, _, sql in parts}
