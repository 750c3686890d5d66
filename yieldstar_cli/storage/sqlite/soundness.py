"""Tells a damaged file from a fault of ours, once something has gone wrong (spec E13)."""

from __future__ import annotations

import os

from yieldstar_cli.errors import CorruptFile
from yieldstar_cli.storage.sqlite.connection import open_connection

# Reads the whole file: nothing for the ordinary way. Where two pages stand in each other's place
# the quick check may see nothing; this one compares rows with indexes, too.
FIRST_FLAW = "PRAGMA integrity_check(1)"


def refuse_damaged(path: str | os.PathLike[str]) -> None:
    """Read all of the file at `path`, writing nothing; raises CorruptFile where it is not whole.

    Raises the StorageError family where it cannot be opened.
    """
    db = open_connection(path, readonly=True)
    try:
        flaw = str(db.rows(FIRST_FLAW)[0][0])
    finally:
        db.close()
    if flaw != "ok":
        raise CorruptFile(
            f"{db.path} is damaged",
            why=(flaw.splitlines()[-1], "Nothing was changed."),
            remedy=("Restore a backup of the file.",),
        )
