"""Turns what SQLite reports into the errors that callers know, in one place."""

from __future__ import annotations

import apsw

from yieldstar_cli.errors import (
    CommitUnknown,
    CorruptFile,
    DatabaseBusy,
    DatabaseReadOnly,
    DiskFull,
    NoDatabase,
    StorageError,
    UntrustedPath,
    YieldstarError,
)
from yieldstar_cli.storage.sqlite.files import NO_ROOM

_NOT_AS_BUILT = ("unsupported file format", "no such table", "no such column", "no such index")


def translate(
    exc: BaseException, path: str, *, committing: bool = False, system_errno: int = 0
) -> YieldstarError:
    """The error a caller meets for `exc`; the caller raises it `from exc`.

    `committing` says that the COMMIT itself raised: an I/O error then leaves it open whether the
    transaction stands (spec V3), unless the system said that there was no room for it.
    """
    if isinstance(exc, apsw.BusyError | apsw.LockedError):
        return DatabaseBusy(
            f"{path} is locked: another process has been writing for too long",
            why=("Nothing was changed.",),
            remedy=("ys doctor",),
        )
    if _out_of_room(exc, system_errno):
        return DiskFull(
            f"there is no room left to write {path}",
            why=("Nothing was changed.",),
            remedy=("Free some space, then try again.",),
        )
    if isinstance(exc, apsw.IOError) and committing:
        return CommitUnknown(
            f"writing {path} failed in the commit: it may or may not stand",
            why=(_detail(exc),),
            remedy=("ys doctor",),
        )
    if isinstance(exc, apsw.ReadOnlyError | apsw.PermissionsError | apsw.AuthError):
        return DatabaseReadOnly(
            f"{path} may not be written",
            why=("Nothing was changed.",),
            remedy=(f"Look at the permissions: ls -l {path}",),
        )
    if isinstance(exc, apsw.NotADBError):
        return CorruptFile(
            f"{path} is not a database",
            why=("It was not touched.",),
            remedy=("Name another file with --db.",),
        )
    if isinstance(exc, apsw.CorruptError | apsw.FormatError) or _is_built_otherwise(exc):
        return CorruptFile(
            f"{path} is damaged",
            why=(_detail(exc), "Nothing was changed."),
            remedy=("Restore a backup of the file.",),
        )
    if isinstance(exc, apsw.ConnectionClosedError | apsw.CursorClosedError):
        return StorageError(f"{path} was closed", why=("Nothing was changed.",))
    if isinstance(exc, apsw.CantOpenError):
        return _cannot_open(exc, path)
    return StorageError(
        f"{path}: {_detail(exc)}", why=("Nothing was changed.",), remedy=("ys doctor",)
    )


def _is_built_otherwise(exc: BaseException) -> bool:
    # Our statements are constants: where one does not fit the file, the file is not whole.
    return isinstance(exc, apsw.SQLError) and str(exc).startswith(_NOT_AS_BUILT)


def _out_of_room(exc: BaseException, system_errno: int) -> bool:
    # A file-size limit shows as a failed write with EFBIG; the transaction is undone either way.
    if isinstance(exc, apsw.FullError):
        return True
    return isinstance(exc, apsw.IOError) and system_errno in NO_ROOM


def _cannot_open(exc: apsw.CantOpenError, path: str) -> YieldstarError:
    if getattr(exc, "extendedresult", 0) == apsw.SQLITE_CANTOPEN_SYMLINK:
        return UntrustedPath(
            f"{path} is a symbolic link",
            why=("A link could be turned to another file behind our back.",),
            remedy=("Name the file itself with --db.",),
        )
    return NoDatabase(
        f"{path} cannot be opened",
        why=(_detail(exc),),
        remedy=(f"Look at the permissions: ls -ld {path}",),
    )


def _detail(exc: BaseException) -> str:
    return f"{type(exc).__name__}: {exc}"
