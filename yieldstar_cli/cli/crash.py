"""Writes a crash report that only its owner can read, without params and results."""

from __future__ import annotations

import os
import platform
import tempfile
import traceback
from collections.abc import Sequence

from yieldstar_cli import __version__
from yieldstar_cli.cli.words import corrected


def write_report(argv: Sequence[str], error: BaseException) -> str:
    """Write what helps to find the bug; return the file's path (directory 0700, file 0600)."""
    directory = tempfile.mkdtemp(prefix="ys-crash-")
    path = os.path.join(directory, "report.txt")
    text = "\n".join(
        (
            f"ys {__version__}",
            f"Python {platform.python_version()} on {platform.platform()}",
            corrected(argv, "\0", "\0"),
            "",
            *_frames(error),
        )
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return path


def _frames(error: BaseException) -> list[str]:
    """Where it happened and what kind of error it was, without messages: they may quote data."""
    lines = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        lines.append(type(current).__name__)
        lines += [line.rstrip("\n") for line in traceback.format_tb(current.__traceback__)]
        current = current.__cause__ or current.__context__
    return lines
