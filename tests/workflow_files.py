"""Workflow directories for tests: written, loaded, and undone again."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

#: A module with one workflow.
ONE = """
    from yieldstar_cli import workflow

    @workflow
    async def {name}(step) -> str:
        return "{name}"
"""


def write(directory: Path, name: str, text: str) -> Path:
    """Write a module that only its owner may change, with a new modification time."""
    path = directory / name
    path.parent.mkdir(exist_ok=True, mode=0o755)
    previous = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(dedent(text))
    path.chmod(0o644)
    # A file written twice within one tick of the clock still changed.
    os.utime(path, ns=(previous + 1_000_000_000, previous + 1_000_000_000))
    return path


@contextmanager
def own_directory(parent: Path) -> Iterator[Path]:
    """A workflow directory in `parent`; what loading it did to Python is undone."""
    path, hooks, modules = list(sys.path), list(sys.path_hooks), set(sys.modules)
    directory = parent / "workflows"
    directory.mkdir(mode=0o755)
    try:
        yield directory
    finally:
        sys.path[:], sys.path_hooks[:] = path, hooks
        sys.path_importer_cache.clear()
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(parent)):
                del sys.modules[name]
