"""Looks at a database's path before it is opened, and makes the file (spec K5, E13)."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

from yieldstar_cli.errors import (
    DatabaseReadOnly,
    DiskFull,
    FileInTheWay,
    ForeignFile,
    NoDatabase,
    StorageError,
    UnsafeFilesystem,
    UntrustedPath,
)

SHORTEST_DATABASE = 512
#: What the system says where there is no room.
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

# On these, locks or shared memory do not work as WAL needs them.
_NETWORK = ("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afs", "ncpfs", "9p", "davfs")
_NETWORK_FUSE = ("sshfs", "s3fs", "rclone", "glusterfs", "davfs", "smbnetfs")
NETWORK_FILESYSTEMS = frozenset((*_NETWORK, *(f"fuse.{name}" for name in _NETWORK_FUSE)))


def place_of(path: str | os.PathLike[str]) -> str:
    """The absolute path; links among its directories are followed, the file itself is not."""
    text = os.fspath(path)
    if "\0" in text or not text:
        raise NoDatabase(f"{text!r} is not a path", remedy=("Name a file with --db.",))
    folder, name = os.path.split(os.path.abspath(text))
    return os.path.join(os.path.realpath(folder), name)


def check_file(place: str, *, create: bool, readonly: bool) -> None:
    """Refuse, in a sentence, whatever is no plain file that may be opened."""
    for beside in (place, f"{place}-wal", f"{place}-shm", f"{place}-journal"):
        if os.path.islink(beside):
            raise UntrustedPath(
                f"{beside} is a symbolic link",
                why=("A link could be turned to another file behind our back.",),
                remedy=("Name the file itself with --db.",),
            )
    try:
        found = os.lstat(place)
    except FileNotFoundError:
        _check_absent(place, create=create and not readonly)
        return
    except OSError as error:
        raise NoDatabase(f"{place} cannot be opened: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise ForeignFile(
            f"{place} is {'a directory' if stat.S_ISDIR(found.st_mode) else 'not a plain file'}",
            why=("It was not touched.",),
            remedy=("Name a file with --db.",),
        )
    # SQLite would take so short a file for an empty one, and write over it.
    if 0 < found.st_size < SHORTEST_DATABASE:
        raise ForeignFile(
            f"{place} is not a database",
            why=("It was not touched.",),
            remedy=("Name another file with --db.",),
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


def check_filesystem(place: str, filesystem_of: Callable[[str], str] | None = None) -> None:
    """Refuse a network file system. `filesystem_of` names the kind that holds a directory."""
    kind = (filesystem_of or filesystem_type)(os.path.dirname(place))
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


def pre_create(place: str, *, alone: bool = False) -> None:
    """Make the empty file with mode 0600: SQLite's side files take their mode from it.

    With `alone` nobody else may be making it: raises FileInTheWay where it is there.
    """
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
    try:
        # Nobody can have it open yet, so closing it drops nobody's locks.
        made = os.open(place, flags, 0o600)
        os.fchmod(made, 0o600)  # Whatever the umask takes away.
        os.close(made)
    except FileExistsError as error:
        if alone:
            raise FileInTheWay(f"{place} is there already", why=("It was not touched.",)) from error
        return  # Another process made it at the same moment.
    except OSError as error:
        raise DatabaseReadOnly(
            f"{place} cannot be created: {error.strerror}", why=("Nothing was created.",)
        ) from error


def check_folder(place: str) -> None:
    """Refuse a directory in which no file can be made. Raises NoDatabase, DatabaseReadOnly."""
    _check_absent(place, create=True)
    if os.path.isdir(place):
        raise ForeignFile(
            f"{place} is a directory", why=("It was not touched.",), remedy=("Name a file.",)
        )


def remove(place: str) -> None:
    """Take a file away that nobody has open; harmless where there is none."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(place)


def rename(place: str, name: str) -> None:
    """Give a file another name; harmless where there is none."""
    with contextlib.suppress(FileNotFoundError):
        os.rename(place, name)


def sync(place: str) -> None:
    """Wait until a file that nobody has open is on the disk."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _unwritable(place, error) from error


def take_name(partial: str, place: str, *, replace: bool) -> None:
    """Give a finished file its name, for good, and take the one it had.

    Raises FileInTheWay where there is such a file and `replace` is not said.
    """
    try:
        if replace or not _linked(partial, place):
            os.replace(partial, place)
    except FileExistsError as error:
        raise FileInTheWay(f"{place} is there already", why=("It was not touched.",)) from error
    except OSError as error:
        raise _unwritable(place, error) from error
    sync(os.path.dirname(place))


def _linked(partial: str, place: str) -> bool:
    """Whether `partial` has the new name alone; a rename would write over what came meanwhile."""
    try:
        os.link(partial, place)
    except FileExistsError:
        raise
    except OSError as error:
        # A file system without links: a card, a disk of another system.
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
        return False
    os.unlink(partial)
    return True


def _unwritable(place: str, error: OSError) -> StorageError:
    if error.errno in NO_ROOM:
        return DiskFull(
            f"there is no room left to write {place}",
            why=("Nothing was changed.",),
            remedy=("Free some space, then try again.",),
        )
    return StorageError(f"{place} cannot be written: {error.strerror}")


def close_to_others(place: str) -> None:
    """Give an empty file of yours, about to become a database, the mode it would be made with."""
    with contextlib.suppress(OSError):
        found = os.lstat(place)
        if found.st_size == 0 and stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
            os.chmod(place, 0o600)


def unchanging(place: str) -> bool:
    """Whether nobody can be writing: a whole file in a directory that may not be written."""
    return not os.access(os.path.dirname(place), os.W_OK) and not os.path.lexists(f"{place}-wal")
