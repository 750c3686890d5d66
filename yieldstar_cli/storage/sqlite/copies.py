"""Copies of a whole database at one moment, through SQLite's own backup (spec E13, K5)."""

from __future__ import annotations

import os

import apsw

from yieldstar_cli.errors import FileInTheWay
from yieldstar_cli.storage.sqlite import files
from yieldstar_cli.storage.sqlite.database import BEGIN_READ, Database
from yieldstar_cli.storage.sqlite.translate import translate

#: Between two looks at whether somebody interrupts.
PAGES_AT_ONCE = 1_000


def back_up(db: Database, target: str, *, replace: bool) -> int:
    """See `upkeep.Upkeep.back_up`."""
    place = files.place_of(target)
    check_target(db.path, place, replace=replace)
    partial = f"{place}.partial"
    files.remove(partial)
    files.pre_create(partial, alone=True)
    try:
        copy_view(db, partial)
        files.sync(partial)
        files.take_name(partial, place, replace=replace)
    finally:
        files.remove(partial)
    return os.stat(place).st_size


def check_target(source: str, place: str, *, replace: bool) -> None:
    """Refuse a place where a copy of `source` would do harm. Raises FileInTheWay, NoDatabase."""
    files.check_folder(place)
    beside = {f"{source}{suffix}" for suffix in ("", "-wal", "-shm", "-journal", "-lock", "-marks")}
    itself = os.path.exists(place) and os.path.samefile(place, source)
    if place in beside or itself:
        raise FileInTheWay(
            f"{place} belongs to the database itself",
            why=("Nothing was changed.",),
            remedy=("Name another file.",),
        )
    if os.path.lexists(place) and not replace:
        raise in_the_way(place)
    # A log beside it would be taken for the copy's own.
    for suffix in ("-wal", "-journal"):
        if os.path.lexists(f"{place}{suffix}"):
            raise FileInTheWay(
                f"{place}{suffix} is there: another database was open at {place}",
                why=("It would be taken for the copy's log. Nothing was changed.",),
                remedy=("Name another file.",),
            )


def in_the_way(place: str) -> FileInTheWay:
    """The refusal to write over a file."""
    return FileInTheWay(
        f"{place} is there already",
        why=("It was not touched.",),
        remedy=("Name another file, or say --force to replace it.",),
    )


def copy_view(db: Database, target: str) -> None:
    """Copy what one view of `db` shows; writers go on, and the copy does not begin anew."""
    own = not db.in_transaction
    if own:
        db.rows(BEGIN_READ)
    try:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
        copy = apsw.Connection(target, flags=flags)
        try:
            copy_pages(db.connection, copy)
        finally:
            copy.close()
    except apsw.Error as error:
        raise translate(error, target) from error
    finally:
        if own:
            db.rollback()


def copy_pages(source: apsw.Connection, target: apsw.Connection) -> None:
    """Make `target` page by page what `source` is, in one transaction of its own."""
    with target.backup("main", source, "main") as backup:
        while not backup.done:
            backup.step(PAGES_AT_ONCE)
