"""Makes a backup ready to be lived on, and puts it in the place of a database (spec E8, E13)."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import apsw

from yieldstar_cli.clock import Clock
from yieldstar_cli.errors import CorruptFile, StorageError
from yieldstar_cli.storage.sqlite import files, schema
from yieldstar_cli.storage.sqlite.connection import open_connection, open_source
from yieldstar_cli.storage.sqlite.copies import copy_pages, copy_view
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
        copy_view(db, partial)
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


def write_over(place: str, partial: str) -> None:
    """Make the database at `place` what `partial` is, in one transaction on the file itself.

    Whoever has it open sees the one or the other. Raises the StorageError family, CommitUnknown.
    """
    db = open_connection(place)
    try:
        source = open_source(partial)
        try:
            copy_pages(source.connection, db.connection)
        except apsw.Error as error:
            raise translate(error, place, committing=True) from error
        finally:
            source.close()
        # It stands; whether the log is emptied as well is nobody's question.
        with suppress(StorageError):
            db.rows(CHECKPOINT)
    finally:
        db.close()


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
