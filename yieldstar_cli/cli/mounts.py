"""Asks the system about a place: which file system it is on, who holds a lock there."""

from __future__ import annotations

import os
from pathlib import Path

from yieldstar_cli.nouns import dataclass

_NETWORK = frozenset(
    (
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "ncpfs",
        "afs",
        "ceph",
        "glusterfs",
        "lustre",
        "9p",
        "fuse.sshfs",
        "fuse.glusterfs",
        "fuse.ceph",
        "fuse.s3fs",
        "fuse.rclone",
        "davfs",
        "fuse.davfs2",
    )
)
_MOUNTS = "/proc/self/mountinfo"
_LOCKS = "/proc/locks"
# SQLite's write lock in WAL mode is this byte of the -shm file.
_WRITE_LOCK_BYTE = 120


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system."""

    place: str
    kind: str

    @property
    def is_network(self) -> bool:
        """Whether other machines may write there too."""
        return self.kind in _NETWORK


def mount_of(path: Path, mountinfo: str | None = None) -> Mount | None:
    """The mount that holds `path`; None where the system does not say."""
    if mountinfo is None:
        try:
            mountinfo = Path(_MOUNTS).read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return None
    here = Path(os.path.realpath(path))
    best: Mount | None = None
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, kinds = left.split(" "), right.split(" ")
        if len(fields) < 5 or not kinds[0]:
            continue
        place = _unescaped(fields[4])
        # Of two mounts on one place the later one covers the earlier.
        if here.is_relative_to(place) and (best is None or len(place) >= len(best.place)):
            best = Mount(place, kinds[0])
    return best


def _unescaped(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def write_lock_holder(path: str, locks: str | None = None) -> int | None:
    """The process that holds SQLite's write lock in the `-shm` file at `path`, where known.

    Read from the system's table: opening the file to ask would drop locks of this process.
    """
    try:
        found = os.stat(path)
        if locks is None:
            locks = Path(_LOCKS).read_text(encoding="ascii")
    except OSError:
        return None
    wanted = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in locks.splitlines():
        fields = line.split()
        # "1: POSIX  ADVISORY  WRITE 4412 fe:01:1234 120 120"
        if len(fields) < 8 or fields[1] == "->" or fields[5] != wanted or fields[3] != "WRITE":
            continue
        start, end = fields[6], fields[7]
        if start.isdigit() and int(start) <= _WRITE_LOCK_BYTE:
            last = int(end) if end.isdigit() else _WRITE_LOCK_BYTE
            if last >= _WRITE_LOCK_BYTE and fields[4].isdigit():
                return int(fields[4])
    return None
