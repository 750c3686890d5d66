"""Which schema a file has, and how it gets the one this program reads (spec K7)."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import NamedTuple

import apsw

from yieldstar_cli.clock import Clock
from yieldstar_cli.errors import (
    CorruptFile,
    DiskFull,
    ForeignFile,
    NoDatabase,
    SchemaTooNew,
    StorageError,
)
from yieldstar_cli.ids import Chance
from yieldstar_cli.storage.sqlite import shape
from yieldstar_cli.storage.sqlite.database import BEGIN_READ, Database

#: "ystr": how `file(1)` and every version of this program know our databases.
APPLICATION_ID = 0x79737472
#: The schema that this program reads and writes; the number of the last migration.
SCHEMA_VERSION = 6
CREATED_BY = "yieldstar-cli"

READ_APPLICATION = "PRAGMA application_id"
READ_VERSION = "PRAGMA user_version"
COUNT_OBJECTS = "SELECT count(*) FROM sqlite_schema"
COUNT_PAGES = "PRAGMA page_count"
READ_PAGE_SIZE = "PRAGMA page_size"
#: What a log holds of a page besides the page, in bytes.
FRAME_HEADER = 24
# PRAGMA takes no bindings: the numbers are our own constants.
SIGN = f"PRAGMA application_id = {APPLICATION_ID:d}"
# Answers "busy" without waiting where another process is at it.
FOLD_IN = "PRAGMA wal_checkpoint(PASSIVE)"
NAME_FILE = """
INSERT INTO file (one, uuid, created_at, created_by)
VALUES (1, :uuid, :now, :by)
"""
# Claims made without a worker stand under row 0; it never lives, so nobody buries it.
ADD_CALLER = """
INSERT INTO workers (n, name, host, pid, slot, nonce, boot_id, device, inode,
                     started_at, lease_until_at, stopped_at, how)
VALUES (0, 'caller', '', 0, -1, x'', '', 0, 0, :now, 0, :now, 'stopped')
"""


def version_of(db: Database, newest: int = SCHEMA_VERSION) -> int:
    """The file's schema version; 0 for an empty file. Writes nothing.

    Raises ForeignFile, SchemaTooNew, CorruptFile.
    """
    if db.connection.in_transaction:
        return _version_of(db, newest)
    # One view for all questions: between two of them another process may set the file up, and
    # half of what an empty file says with half of what ours says is another program's file.
    db.rows(BEGIN_READ)
    try:
        version = _version_of(db, newest)
        _refuse_cut_short(db)
    finally:
        db.rollback()
    return version


def _version_of(db: Database, newest: int) -> int:
    application = int(db.rows(READ_APPLICATION)[0][0])
    version = int(db.rows(READ_VERSION)[0][0])
    if application == 0 and version == 0 and not db.rows(COUNT_OBJECTS)[0][0]:
        return 0
    if application != APPLICATION_ID:
        raise ForeignFile(
            f"{db.path} is a database of another program",
            why=("It was not touched.",),
            remedy=("Name another file with --db.",),
        )
    if version > newest:
        raise SchemaTooNew(
            f"{db.path} was written by a newer version: schema {version}, "
            f"this one reads up to {newest}",
            why=("It was not touched.",),
            remedy=("Install the newer version: pip install --upgrade yieldstar-cli",),
        )
    if version < 1:
        raise CorruptFile(f"{db.path} says schema {version}", why=("It was not touched.",))
    shape.require(db, version)
    return version


def _refuse_cut_short(db: Database) -> None:
    """Refuse a file that lacks pages which are in its log neither.

    It was cut short, or an older copy was put beside the log of a killed process: SQLite would
    take the one for the other's. Within a view nobody can take pages away, only move them over.
    """
    pages, size = (int(db.rows(sql)[0][0]) for sql in (COUNT_PAGES, READ_PAGE_SIZE))
    held = _size_of(db.path) // size + _size_of(f"{db.path}-wal") // (size + FRAME_HEADER)
    if pages > held:
        raise CorruptFile(
            f"{db.path} is damaged: {pages} pages belong to it, {held} are there",
            why=("It was cut short, or an older file was put beside a log. It was not touched.",),
            remedy=("Restore a backup of the file, with no -wal file beside it.",),
        )


def _size_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def require_current(db: Database) -> None:
    """Refuse a file that would have to be written before it can be read."""
    version = version_of(db)
    if version == 0:
        raise NoDatabase(
            f"{db.path} is empty",
            why=("No execution has been admitted to it yet.",),
            remedy=("ys init", "ys trigger WORKFLOW"),
        )
    if version < SCHEMA_VERSION:
        raise NoDatabase(
            f"{db.path} has the older schema {version}",
            why=("A command that writes brings it up to date, after a backup.",),
            remedy=("ys init",),
        )


class Migrations(NamedTuple):
    """A folder of `NNNN_name.sql` files, the newest of which makes schema `newest`."""

    folder: Path
    newest: int

    def statements(self, target: int) -> list[str]:
        """The statements that lead to schema `target`."""
        (file,) = (f for f in self.folder.iterdir() if f.name.startswith(f"{target:04d}_"))
        statements, waiting = [], ""
        for line in file.read_text("utf-8").splitlines():
            waiting += line.split("--")[0].rstrip() + "\n"
            if waiting.rstrip().endswith(";"):
                statements.append(waiting.strip())
                waiting = ""
        assert not waiting.strip(), f"{file.name} ends within a statement"
        return statements


def bring_up_to_date(
    db: Database, clock: Clock, chance: Chance, migrations: Migrations | None = None
) -> None:
    """Set up an empty file, or migrate an older one after a backup, in one transaction.

    Of two processes one does it, while the other waits and finds it done. The tables are then
    folded from the log into the file, so that a copy of the file alone is one of ours, too.
    """
    migrations = migrations or ours()
    if version_of(db, migrations.newest) == migrations.newest:
        return
    with db.atomic():
        version = version_of(db, migrations.newest)
        if 0 < version < migrations.newest:
            _back_up(db, version)
        for target in range(version + 1, migrations.newest + 1):
            for statement in migrations.statements(target):
                db.rows(statement)
            if target == 1:
                _sign(db, clock, chance)
        if version < migrations.newest:
            db.rows(set_version(migrations.newest))
    db.rows(FOLD_IN)


def ours() -> Migrations:
    """The migrations that this program brings along."""
    return Migrations(Path(__file__).parent / "migrations", SCHEMA_VERSION)


def set_version(version: int) -> str:
    """The statement that writes the schema's version; PRAGMA takes no bindings."""
    return f"PRAGMA user_version = {int(version)}"


def _sign(db: Database, clock: Clock, chance: Chance) -> None:
    now = clock.now_ms()
    db.rows(SIGN)
    db.rows(NAME_FILE, {"uuid": chance.seed(), "now": now, "by": CREATED_BY})
    db.rows(ADD_CALLER, {"now": now})


def _back_up(db: Database, version: int) -> None:
    """Copy the file as it is to `<path>.schema-<version>.bak`, mode 0600, for good.

    The caller holds the write lock, so nothing changes meanwhile; a connection of its own reads.
    """
    target = f"{db.path}.schema-{version}.bak"
    partial = f"{target}.partial"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        _copy(db, partial)
        os.replace(partial, target)
        # Its name, too, has to be there before the migration is.
        folder = os.open(os.path.dirname(target), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        kind = DiskFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StorageError
        raise kind(
            f"{target} cannot be written: {error.strerror}",
            why=("A backup is made before a file is brought up to date. Nothing was changed.",),
            remedy=(f"ls -ld {partial}* {os.path.dirname(target)}",),
        ) from error


def _copy(db: Database, target: str) -> None:
    flags = apsw.SQLITE_OPEN_NOFOLLOW
    try:
        with contextlib.ExitStack() as opened:
            source = apsw.Connection(db.path, flags=flags | apsw.SQLITE_OPEN_READONLY)
            opened.callback(source.close)
            copy = apsw.Connection(target, flags=flags | apsw.SQLITE_OPEN_READWRITE)
            opened.callback(copy.close)
            backup = copy.backup("main", source, "main")
            # Forced: what an unfinished copy says at its end would hide what went wrong.
            opened.callback(backup.close, True)
            while not backup.done:
                backup.step(1_000)
            backup.finish()
    except apsw.Error as error:
        raise db.translated(error) from error
