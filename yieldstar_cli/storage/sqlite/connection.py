"""Opens a database file safely: checks, permissions, pragmas, schema (spec E13, K5, K7)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal

import apsw

from yieldstar_cli.clock import Clock, SystemClock
from yieldstar_cli.errors import DatabaseBusy, NoDatabase, UnsafeFilesystem
from yieldstar_cli.ids import Chance, SystemChance
from yieldstar_cli.storage.sqlite import files, schema
from yieldstar_cli.storage.sqlite.database import BEGIN_WRITE, COMMIT, Database
from yieldstar_cli.storage.sqlite.translate import translate

Durability = Literal["full", "normal"]

#: How long a write waits for another process's transaction, in milliseconds.
BUSY_TIMEOUT_MS = 10_000
#: No row of ours is longer: a value of 16 MiB with room for escapes, and for a larger limit.
LONGEST_ROW = 256 * 1024 * 1024

SET_WAL = "PRAGMA journal_mode = WAL"
READ_JOURNAL = "PRAGMA journal_mode"
READ_SYNCHRONOUS = "PRAGMA synchronous"
SYNCHRONOUS = {
    # NORMAL lost acknowledged commits in half of the simulated power cuts; FULL lost none.
    "full": ("PRAGMA synchronous = FULL", 2),
    "normal": ("PRAGMA synchronous = NORMAL", 1),
}
SETTINGS = (
    # macOS: fsync alone leaves the data in the drive's cache.
    "PRAGMA fullfsync = ON",
    "PRAGMA checkpoint_fullfsync = ON",
    "PRAGMA cell_size_check = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -16000",
    # The WAL's file shrinks again after a burst.
    "PRAGMA journal_size_limit = 67108864",
)


def open_connection(
    path: str | os.PathLike[str],
    *,
    create: bool = False,
    readonly: bool = False,
    durability: Durability = "full",
    busy_timeout_ms: int = BUSY_TIMEOUT_MS,
    clock: Clock | None = None,
    chance: Chance | None = None,
    filesystem_of: Callable[[str], str] | None = None,
) -> Database:
    """Open `path`, checked, with WAL and its durability asserted, at the schema we read.

    `create` makes the file, mode 0600, where there is none. `filesystem_of` names the kind of
    file system that holds a directory. A foreign, newer or damaged file is refused with not
    one byte of it written. Source: spec E13, K5, K7.
    """
    place = files.place_of(path)
    files.check_file(place, create=create, readonly=readonly)
    files.check_filesystem(place, filesystem_of)
    if create and not readonly and not os.path.lexists(place):
        files.pre_create(place)
    if not readonly:
        files.close_to_others(place)
    if os.path.lexists(f"{place}-journal"):
        _look_without_touching(place)
    # Nobody can be writing: SQLite could not even make its side files there.
    alone = readonly and files.unchanging(place)
    db = _connect_unchanging(place) if alone else _connect(place, readonly=readonly)
    try:
        db.connection.set_busy_timeout(busy_timeout_ms)
        _harden(db.connection)
        if readonly:
            schema.require_current(db)
        else:
            schema.version_of(db)
            _set_wal(db)
            schema.bring_up_to_date(db, clock or SystemClock(), chance or SystemChance())
        if not alone:
            _settle(db, durability)
    except BaseException:
        db.close()
        raise
    if not readonly:
        # From here on the file is ours: the last one out folds the WAL into it.
        db.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    return db


def open_source(path: str | os.PathLike[str]) -> Database:
    """Open a database of ours, of this schema or an older one, to be copied; never written.

    Raises ForeignFile, SchemaTooNew, CorruptFile, NoDatabase, UntrustedPath.
    """
    place = files.place_of(path)
    files.check_file(place, create=False, readonly=True)
    # Without a log nobody has it open; then nothing is left beside it by reading it.
    alone = not os.path.lexists(f"{place}-wal")
    db = _connect_unchanging(place) if alone else _connect(place, readonly=True)
    try:
        _harden(db.connection)
        if schema.version_of(db) == 0:
            raise NoDatabase(f"{place} is empty", why=("There is nothing in it to restore.",))
    except BaseException:
        db.close()
        raise
    return db


def _connect(place: str, *, readonly: bool) -> Database:
    # No URI: "?" and "file:" in a path are plain characters.
    access = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE
    try:
        connection = apsw.Connection(place, flags=access | apsw.SQLITE_OPEN_NOFOLLOW)
    except apsw.Error as error:
        raise translate(error, place) from error
    return Database(connection, place, readonly=readonly)


def _connect_unchanging(place: str) -> Database:
    """Open the main file alone, without locks and side files, as if nobody could write it."""
    from urllib.parse import quote

    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW | apsw.SQLITE_OPEN_URI
    try:
        connection = apsw.Connection(f"file:{quote(place)}?immutable=1", flags=flags)
    except apsw.Error as error:
        raise translate(error, place) from error
    return Database(connection, place, readonly=True)


def _look_without_touching(place: str) -> None:
    """Refuse another program's file before opening it rolls its left-over journal back.

    Our own files have a rollback journal only until they are first set up.
    """
    db = _connect_unchanging(place)
    try:
        _harden(db.connection)
        schema.version_of(db)
    finally:
        db.close()


def _harden(connection: apsw.Connection) -> None:
    """Take away what a hostile file could use, before anything of it is read."""
    for option, value in (
        # Until the file is known to be ours, closing must not write to it.
        (apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1),
        (apsw.SQLITE_DBCONFIG_DEFENSIVE, 1),
        (apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
        (apsw.SQLITE_DBCONFIG_DQS_DML, 0),
        (apsw.SQLITE_DBCONFIG_DQS_DDL, 0),
        (apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0),
        (apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0),
        (apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0),
    ):
        connection.config(option, value)
    for category, most in (
        (apsw.SQLITE_LIMIT_LENGTH, LONGEST_ROW),
        (apsw.SQLITE_LIMIT_SQL_LENGTH, 100_000),
        (apsw.SQLITE_LIMIT_ATTACHED, 0),
        (apsw.SQLITE_LIMIT_TRIGGER_DEPTH, 1),
        (apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1_000),
    ):
        connection.limit(category, most)


def _set_wal(db: Database) -> None:
    mode = str(db.rows(READ_JOURNAL)[0][0])
    for _ in range(100):
        if mode == "wal":
            return
        try:
            mode = str(db.rows(SET_WAL)[0][0])
            break
        except DatabaseBusy:
            # Another process is making the same change. SQLite does not wait for that, but for
            # the lock of a transaction it does.
            db.rows(BEGIN_WRITE)
            db.rows(COMMIT)
            mode = str(db.rows(READ_JOURNAL)[0][0])
    if mode != "wal":
        raise UnsafeFilesystem(
            f"{db.path} cannot use a write-ahead log: the file system gave {mode!r}",
            why=("Without it a commit could not be promised.",),
            remedy=("Put the database on a local disk: --db PATH",),
        )


def _settle(db: Database, durability: Durability) -> None:
    statement, level = SYNCHRONOUS[durability]
    db.rows(statement)
    for setting in SETTINGS:
        db.rows(setting)
    asserted = (str(db.rows(READ_JOURNAL)[0][0]), int(db.rows(READ_SYNCHRONOUS)[0][0]))
    if asserted != ("wal", level):
        raise UnsafeFilesystem(
            f"{db.path} did not take write-ahead log and durability {durability}: {asserted}",
            remedy=("Put the database on a local disk: --db PATH",),
        )
