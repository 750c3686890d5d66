"""Opens a database file safely: checks, permissions, pragmas, schema (spec E13, K5, K7)."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import apsw

from yieldstar_cli.clock import Clock, SystemClock
from yieldstar_cli.errors import (
    DatabaseBusy,
    DatabaseReadOnly,
    ForeignFile,
    NoDatabase,
    UnsafeFilesystem,
    UntrustedPath,
)
from yieldstar_cli.ids import Chance, SystemChance
from yieldstar_cli.storage.sqlite import schema
from yieldstar_cli.storage.sqlite.database import Database
from yieldstar_cli.storage.sqlite.translate import translate

Durability = Literal["full", "normal"]

#: How long a write waits for another process's transaction, in milliseconds.
BUSY_TIMEOUT_MS = 5_000
#: No row of ours is longer: a value of 16 MiB with room for escapes, and for a larger limit.
LONGEST_ROW = 256 * 1024 * 1024

# On these, locks or shared memory do not work as WAL needs them.
_NETWORK = ("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afs", "ncpfs", "9p", "davfs")
_NETWORK_FUSE = ("sshfs", "s3fs", "rclone", "glusterfs", "davfs", "smbnetfs")
NETWORK_FILESYSTEMS = frozenset((*_NETWORK, *(f"fuse.{name}" for name in _NETWORK_FUSE)))

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
    place = _place(path)
    _check_file(place, create=create, readonly=readonly)
    _check_filesystem(place, filesystem_of or filesystem_type)
    if create and not os.path.lexists(place):
        _pre_create(place)
    db = _connect(place, readonly=readonly)
    try:
        db.connection.set_busy_timeout(busy_timeout_ms)
        _harden(db.connection)
        if readonly:
            schema.require_current(db)
        else:
            schema.version_of(db)
            _set_wal(db)
            schema.bring_up_to_date(db, clock or SystemClock(), chance or SystemChance())
        _settle(db, durability)
    except BaseException:
        db.close()
        raise
    if not readonly:
        # From here on the file is ours: the last one out folds the WAL into it.
        db.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
    return db


def _place(path: str | os.PathLike[str]) -> str:
    """The absolute path; links among its directories are followed, the file itself is not."""
    text = os.fspath(path)
    if "\0" in text or not text:
        raise NoDatabase(f"{text!r} is not a path", remedy=("Name a file with --db.",))
    folder, name = os.path.split(os.path.abspath(text))
    return os.path.join(os.path.realpath(folder), name)


def _check_file(place: str, *, create: bool, readonly: bool) -> None:
    """Refuse, in a sentence, whatever is no plain file that may be opened."""
    for beside in (place, f"{place}-wal", f"{place}-shm", f"{place}-journal"):
        if os.path.islink(beside):
            raise UntrustedPath(
                f"{beside} is a symbolic link",
                why=("A link could be turned to another file behind our back.",),
                remedy=("Name the file itself with --db.",),
            )
    try:
        mode = os.lstat(place).st_mode
    except FileNotFoundError:
        _check_absent(place, create=create and not readonly)
        return
    except OSError as error:
        raise NoDatabase(f"{place} cannot be opened: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        raise ForeignFile(
            f"{place} is {'a directory' if stat.S_ISDIR(mode) else 'not a plain file'}",
            why=("It was not touched.",),
            remedy=("Name a file with --db.",),
        )
    if not os.access(place, os.R_OK):
        raise NoDatabase(
            f"{place} may not be read", remedy=(f"Look at the permissions: ls -l {place}",)
        )
    folder = os.path.dirname(place)
    if not readonly and not (os.access(place, os.W_OK) and os.access(folder, os.W_OK)):
        what = place if not os.access(place, os.W_OK) else folder
        raise DatabaseReadOnly(
            f"{what} may not be written",
            why=("Nothing was changed.",),
            remedy=(f"Look at the permissions: ls -ld {what}",),
        )


def _check_absent(place: str, *, create: bool) -> None:
    folder = os.path.dirname(place)
    if not os.path.isdir(folder):
        raise NoDatabase(
            f"there is no directory {folder}",
            why=("Nothing was created.",),
            remedy=(f"mkdir -p {folder}",),
        )
    if not create:
        raise NoDatabase(
            f"there is no database at {place}",
            remedy=("ys init", "Name another file with --db."),
        )
    if not os.access(folder, os.W_OK):
        raise DatabaseReadOnly(
            f"{folder} may not be written",
            why=("Nothing was created.",),
            remedy=(f"Look at the permissions: ls -ld {folder}",),
        )


def _check_filesystem(place: str, filesystem_of: Callable[[str], str]) -> None:
    kind = filesystem_of(os.path.dirname(place))
    if kind in NETWORK_FILESYSTEMS:
        raise UnsafeFilesystem(
            f"{place} is on a network file system ({kind})",
            why=("Its locks and shared memory do not keep the file whole.",),
            remedy=("Put the database on a local disk: --db PATH",),
        )


def filesystem_type(folder: str, mounts: str | None = None) -> str:
    """The kind of file system that holds `folder`, as mounts name it, or "" if unknown.

    `mounts` is the text of /proc/self/mounts, which is read when it is not given.
    """
    if mounts is None:
        if not sys.platform.startswith("linux"):
            return ""
        try:
            mounts = Path("/proc/self/mounts").read_text("utf-8", "surrogateescape")
        except OSError:
            return ""
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        inside = folder == point or folder.startswith(point.rstrip("/") + "/")
        # Of two mounts at one place the later one is on top.
        if inside and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind


def _pre_create(place: str) -> None:
    """Make the empty file with mode 0600: SQLite's side files take their mode from it."""
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    try:
        # Nobody can have it open yet, so closing it drops nobody's locks.
        os.close(os.open(place, flags, 0o600))
    except FileExistsError:
        return  # Another process made it at the same moment.
    except OSError as error:
        raise DatabaseReadOnly(
            f"{place} cannot be created: {error.strerror}", why=("Nothing was created.",)
        ) from error


def _connect(place: str, *, readonly: bool) -> Database:
    # No URI: "?" and "file:" in a path are plain characters.
    access = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE
    try:
        connection = apsw.Connection(place, flags=access | apsw.SQLITE_OPEN_NOFOLLOW)
    except apsw.Error as error:
        raise translate(error, place) from error
    return Database(connection, place, readonly=readonly)


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
    for _ in range(50):
        if mode == "wal":
            return
        try:
            mode = str(db.rows(SET_WAL)[0][0])
        except DatabaseBusy:
            # Another process is making the same change, for which SQLite does not wait.
            mode = str(db.rows(READ_JOURNAL)[0][0])
        else:
            break
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
