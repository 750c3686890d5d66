"""Makes a backup ready to be lived on, and puts it in the place of a database (spec E8, E13)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import apsw

from yieldstar_cli.clock import Clock
from yieldstar_cli.errors import CorruptFile, StorageError
from yieldstar_cli.storage.sqlite import copies, files, schema
from yieldstar_cli.storage.sqlite.connection import open_connection, open_source
from yieldstar_cli.storage.sqlite.database import BEGIN_READ, Database
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.storage.sqlite.translate import translate

INTEGRITY = "PRAGMA integrity_check(1)"
CHECKPOINT = "PRAGMA wal_checkpoint(TRUNCATE)"

#: How the deliveries ended that were under way when the backup was made.
RESTORED = "restored"


class Prepared(NamedTuple):
    """What a backup holds."""

    executions: int
    unfinished: int
    #: Deliveries that were under way, and are due again.
    returned: int


def prepare(source: str, partial: str, clock: Clock) -> Prepared:
    """Copy `source` to `partial`, bring it up to date, and end the deliveries under way in it.

    No worker in it lives: their claims are pending again and count for nothing. Raises
    CorruptFile and what `open_source` does; `source` is never written.
    """
    discard(partial)
    db = open_source(source)
    try:
        damage = [text for (text,) in db.rows(INTEGRITY) if text != "ok"]
        if damage:
            raise CorruptFile(
                f"{source} is damaged: {damage[0]}",
                why=("Nothing was changed.",),
                remedy=("Restore another backup.",),
            )
        files.pre_create(partial, alone=True)
        copies.copy_view(db, partial)
    finally:
        db.close()
    storage = SqliteStorage(partial, clock=clock)
    try:
        returned = 0
        for worker in storage.workers.all(living=True):
            returned += storage.workers.bury(worker.number, RESTORED, {}, max_deaths=1)
        counts = storage.reader.counts()
        storage.settle()
    finally:
        storage.close()
    still = counts.get("admitted", 0) + counts.get("suspended", 0)
    return Prepared(sum(counts.values()), still, returned)


def exchange(db: Database, partial: str, kept: str) -> None:
    """Make the database that `db` has open what `partial` is; what it was is copied to `kept`.

    One transaction on the file itself: whoever has it open sees the one or the other. Nothing is
    committed to it between the copy and that. Raises the StorageError family, CommitUnknown.
    """
    while not write_over(db, partial, keep(db, kept)):
        files.remove(kept)


def keep(db: Database, kept: str) -> int:
    """Copy the database to `kept`; answers which commit that was."""
    db.rows(BEGIN_READ)
    try:
        seen = db.data_version()
        copies.back_up(db, kept, replace=False)
    finally:
        db.rollback()
    return seen


def write_over(db: Database, partial: str, seen: int) -> bool:
    """Write `partial` over it, unless something was committed since `seen`; then False."""
    target = open_connection(db.path)
    try:
        source = open_source(partial)
        try:
            if not _copied(source, target, lambda: db.data_version() == seen):
                return False
        except apsw.Error as error:
            raise translate(error, db.path, committing=True) from error
        finally:
            source.close()
        # It stands; whether the log is emptied as well is nobody's question.
        with suppress(StorageError):
            target.rows(CHECKPOINT)
    finally:
        target.close()
    return True


def _copied(source: Database, target: Database, wanted: Callable[[], bool]) -> bool:
    with target.connection.backup("main", source.connection, "main") as backup:
        # From the first page on nobody else can commit; what is not finished is undone.
        backup.step(1)
        if not wanted():
            return False
        while not backup.done:
            backup.step(copies.PAGES_AT_ONCE)
    return True


def put_in_place(place: str, partial: str) -> None:
    """Give `partial` the name `place`, where there is no file."""
    files.sync(partial)
    files.take_name(partial, place, replace=False)


def set_aside(place: str, kept: str) -> None:
    """Rename a database that cannot be opened, and what lies beside it."""
    for suffix in ("", "-wal", "-shm"):
        files.rename(f"{place}{suffix}", f"{kept}{suffix}")


def discard(partial: str) -> None:
    """Take away what an earlier restore left, or this one needs no more."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        files.remove(f"{partial}{suffix}")
    for version in range(1, schema.SCHEMA_VERSION):
        files.remove(f"{partial}.schema-{version}.bak")
