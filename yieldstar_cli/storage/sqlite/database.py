"""One open connection: statements, explicit transactions, and errors that callers know."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import apsw

from yieldstar_cli.errors import (
    CorruptFile,
    DatabaseBusy,
    DatabaseReadOnly,
    DiskFull,
    StorageError,
    UnreadableText,
)
from yieldstar_cli.storage.sqlite.translate import translate

Row = tuple[Any, ...]
Bindings = Mapping[str, Any] | Sequence[Any] | None

# A deferred BEGIN that writes later is refused at once, whatever the timeout: measured.
BEGIN_WRITE = "BEGIN IMMEDIATE"
BEGIN_READ = "BEGIN"
COMMIT = "COMMIT"
ROLLBACK = "ROLLBACK"
SAVEPOINT = "SAVEPOINT part"
UNDO_PART = "ROLLBACK TO part"
RELEASE_PART = "RELEASE part"
# The pragma, not the C call: that one missed commits of others.
DATA_VERSION = "PRAGMA data_version"


def joined(*parts: str) -> str:
    """One statement of constant parts that several statements share; never of data."""
    return "\n".join(parts)


def strikes_all(error: BaseException) -> bool:
    """Whether an error is the file's, and not of what was asked for."""
    if isinstance(error, UnreadableText):
        return False
    return isinstance(error, DiskFull | DatabaseBusy | CorruptFile | DatabaseReadOnly)


class Database:
    """A connection of the process that opened it, and of no other (POSIX locks do not survive
    a fork). Every error it raises is one of `errors.py`, with SQLite's own as its cause.
    """

    def __init__(self, connection: apsw.Connection, path: str, *, readonly: bool) -> None:
        self.connection = connection
        self.path = path
        self.readonly = readonly
        self._pid = os.getpid()
        self._file = _identity(path)
        self._cursor = connection.cursor()
        self._depth = 0
        self._spoiled: BaseException | None = None

    # --- statements ------------------------------------------------------------------------

    def rows(self, sql: str, bindings: Bindings = None) -> list[Row]:
        """Every row that `sql` answers."""
        if os.getpid() != self._pid:
            raise _forked(self.path)
        try:
            return self._cursor.execute(sql, bindings).fetchall()
        except apsw.Error as error:
            raise self.translated(error) from error
        except UnicodeDecodeError as error:
            raise _unreadable(self.path) from error

    def row(self, sql: str, bindings: Bindings = None) -> Row | None:
        """The first row that `sql` answers, or None. The statement runs to its end."""
        found = self.rows(sql, bindings)
        return found[0] if found else None

    def run(self, sql: str, bindings: Bindings = None) -> int:
        """Run `sql` and return how many rows it changed."""
        self.rows(sql, bindings)
        return self.connection.changes()

    def run_many(self, sql: str, bindings: Iterable[Sequence[Any]]) -> None:
        """Run `sql` once for each of `bindings`."""
        if os.getpid() != self._pid:
            raise _forked(self.path)
        try:
            self._cursor.executemany(sql, bindings)
        except apsw.Error as error:
            raise self.translated(error) from error

    def data_version(self) -> int:
        """A number that differs after any commit by another connection.

        Raises StorageError once another file, or none, stands where this one was opened.
        """
        self.refuse_if_moved()
        return int(self.rows(DATA_VERSION)[0][0])

    # --- transactions ----------------------------------------------------------------------

    def atomic(self) -> AbstractContextManager[None]:
        """A write transaction, or inside one a part that can fail by itself.

        On a connection that only reads: one unchanging view of the file.
        """
        return self._part() if self._depth else self._whole()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A write transaction, or a share in the one under way.

        Cheaper than `atomic`: if a share fails after it has changed something, the transaction
        around it cannot be committed any more (the nearest `atomic` around it undoes it).
        """
        if not self._depth:
            with self._whole():
                yield
            return
        before = self.connection.total_changes()
        try:
            yield
        except BaseException as error:
            if self.connection.total_changes() != before:
                self._spoiled = error
            raise

    def begin(self) -> None:
        """Begin a write transaction; on a connection that only reads, a view of the file."""
        if self._depth:
            raise StorageError(f"{self.path}: a transaction is already under way")
        if not self.readonly:
            self.refuse_if_moved()
        self.rows(BEGIN_READ if self.readonly else BEGIN_WRITE)
        self._depth = 1
        self._spoiled = None

    def commit(self) -> None:
        """Commit, or undo everything and raise."""
        self._depth = 0
        if self._spoiled is not None or not self.connection.in_transaction:
            cause, self._spoiled = self._spoiled, None
            self.rollback()
            raise _spoiled_part(self.path) from cause
        try:
            self._cursor.execute(COMMIT)
        except apsw.Error as error:
            translated = self.translated(error, committing=True)
            self.rollback()
            raise translated from error

    def rollback(self) -> None:
        """Undo the transaction; harmless when SQLite has done so by itself."""
        self._depth = 0
        self._spoiled = None
        # A full disk or an I/O error has often rolled back already; the first error counts.
        if self.connection.in_transaction:
            try:
                self._cursor.execute(ROLLBACK)
            except apsw.Error:
                if self.connection.in_transaction:
                    raise

    @property
    def in_transaction(self) -> bool:
        """Whether SQLite has a transaction open."""
        return self.connection.in_transaction

    @property
    def in_part(self) -> bool:
        """Whether a part that can fail by itself is under way (see `atomic`)."""
        return self._depth > 1

    @property
    def spoiled(self) -> bool:
        """Whether a failed share keeps the transaction under way from being committed."""
        return self._spoiled is not None

    @contextmanager
    def _whole(self) -> Iterator[None]:
        self.begin()
        try:
            yield
        except BaseException:
            self.rollback()
            raise
        self.commit()

    @contextmanager
    def _part(self) -> Iterator[None]:
        spoiled_before, self._spoiled = self._spoiled, None
        self.rows(SAVEPOINT)
        self._depth += 1
        try:
            yield
            if self._spoiled is not None:
                raise _spoiled_part(self.path) from self._spoiled
            self.rows(RELEASE_PART)
        except BaseException:
            if self.connection.in_transaction:
                self.rows(UNDO_PART)
                self.rows(RELEASE_PART)
            raise
        finally:
            self._depth -= 1
            self._spoiled = spoiled_before

    # --- the end ---------------------------------------------------------------------------

    def translated(self, error: apsw.Error, *, committing: bool = False) -> Exception:
        """`error` as callers know it."""
        try:
            number = self.connection.system_errno
        except apsw.ConnectionClosedError:
            number = 0
        return translate(error, self.path, committing=committing, system_errno=number)

    def refuse_if_moved(self) -> None:
        """Raise StorageError once another file, or none, stands where this one was opened.

        What was committed from then on would be seen by nobody.
        """
        if self._is_moved():
            raise StorageError(
                f"{self.path} was moved, replaced or deleted; nothing more is recorded here",
                why=("Nothing was changed.",),
                remedy=("Start again, with the file that is there now.",),
            )

    def _is_moved(self) -> bool:
        return self._file is not None and _identity(self.path) != self._file

    def close(self) -> None:
        """Close the connection; in a forked child, only forget it."""
        if os.getpid() != self._pid:
            return
        try:
            if self._is_moved():
                # SQLite would unlink the log by its name, which may be another file's by now.
                with suppress(apsw.ConnectionClosedError):
                    self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self.connection.close()
        except apsw.Error as error:
            # It is closed all the same, so it cannot be asked for more.
            raise translate(error, self.path) from error


def _identity(path: str) -> tuple[int, int] | None:
    """Which file stands there: device and inode. Never opened, which would drop our locks."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _forked(path: str) -> StorageError:
    return StorageError(
        f"{path} was opened before this process was forked",
        why=("A connection does not survive a fork.",),
        remedy=("Open the database again in the new process.",),
    )


def _unreadable(path: str) -> UnreadableText:
    return UnreadableText(
        f"{path} is damaged: a row that was asked for holds text that is not UTF-8",
        why=("Other rows may be sound. Nothing was changed.",),
        remedy=("Restore a backup of the file.",),
    )


def _spoiled_part(path: str) -> StorageError:
    return StorageError(
        f"{path}: a part of the transaction failed, so all of it was undone",
        why=("Nothing was changed.",),
    )
