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
            corrected(argv, "", ""),
            "",
            "".join(traceback.format_exception(error)),
        )
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return path
