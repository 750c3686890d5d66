"""A check of `ys doctor`: a database that has a second name, under which its log is not seen."""

from __future__ import annotations

import os
from pathlib import Path

from yieldstar_cli.cli.findings import Finding


def several_names(database: Path) -> list[Finding]:
    """A finding where the file has hard links. SQLite names the log after the name it is given.

    Two processes that open one file by two names do not see each other's commits and locks.
    """
    try:
        names = os.lstat(database).st_nlink
    except OSError:
        return []
    if names < 2:
        return []
    text = (
        f"{database} has {names} names (hard links): who opens it by another one sees neither its "
        "log nor its locks, and both together damage it."
    )
    remedy = f"find {database.parent} -samefile {database.name}; keep one name, copy with cp"
    return [Finding("SEVERAL_NAMES", "warning", text, remedy, file=str(database))]
