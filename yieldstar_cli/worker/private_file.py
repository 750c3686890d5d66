"""Opens the small files beside a database that are its owner's alone (spec K5)."""

from __future__ import annotations

import errno
import os
import stat

from yieldstar_cli.errors import DatabaseReadOnly, DiskFull, StorageError, UntrustedPath


def open_private(path: str) -> int:
    """A descriptor of the file at `path`, for reading and writing; made, mode 0600, when missing.

    Raises UntrustedPath for a symbolic link, somebody else's file, or what is no file; a
    StorageError if it cannot be opened or made. Not inherited by programs that are started.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise file_error(path, error) from error
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid not in (os.geteuid(), 0):
        os.close(descriptor)
        raise UntrustedPath(
            f"{path} is not a file of yours",
            why=("Workers trust what it says about each other.",),
            remedy=(f"ls -l {path}",),
        )
    if stat.S_IMODE(found.st_mode) != 0o600 and found.st_uid == os.geteuid():
        os.fchmod(descriptor, 0o600)
    return descriptor


def file_error(path: str, error: OSError) -> StorageError | UntrustedPath:
    """What to raise when the file at `path` cannot be opened or written."""
    look = (f"ls -l {path}",)
    match error.errno:
        case errno.ELOOP:
            return UntrustedPath(
                f"{path} is a symbolic link",
                why=("It belongs beside the database and is never followed elsewhere.",),
                remedy=(f"rm {path}",),
            )
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return DatabaseReadOnly(f"{path} may not be written", remedy=look)
        case errno.ENOSPC | errno.EDQUOT:
            return DiskFull(f"there is no room for {path}", remedy=(f"df -h {path}",))
        case _:
            return StorageError(
                f"{path} cannot be used: {os.strerror(error.errno or 0)}", remedy=look
            )
