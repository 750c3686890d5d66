"""The files of a workflow directory, looked at without loading one, and what a name is (R1)."""

from __future__ import annotations

import os
import re
from pathlib import Path

from yieldstar_cli.errors import UsageError

#: What a workflow may be called (spec R1).
NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,99}")

#: What tells one state of a file from another: modification time in ns, and size.
State = tuple[int, int]


def source_files(directory: Path) -> list[Path]:
    """Every `*.py` directly in `directory` but the hidden ones, sorted. Raises UsageError."""
    try:
        with os.scandir(directory) as entries:
            # os.path, since a link that leads nowhere is no file, and no error of the others.
            names = [entry.name for entry in entries if os.path.isfile(entry.path)]
    except OSError as error:
        raise UsageError(
            f"{directory} cannot be read: {error.strerror}", remedy=(f"ls -ld {directory}",)
        ) from None
    return [directory / n for n in sorted(names) if n.endswith(".py") and not n.startswith(".")]


def workflow_files(directory: Path) -> list[Path]:
    """The files that may register workflows: those whose names do not begin with `_` (R1)."""
    return [path for path in source_files(directory) if not path.name.startswith("_")]


def state_of(path: Path) -> State:
    """The state of a file: its modification time and size; of a missing one (0, -1)."""
    try:
        found = path.stat()
    except OSError:
        return 0, -1
    return found.st_mtime_ns, found.st_size
