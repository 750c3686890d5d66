"""Writes what a file of each schema holds, as its migrations make it, for `shape.require`.

To be run after a migration was added; a test says when that is due.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw

from yieldstar_cli.storage.sqlite import schema, shape
from yieldstar_cli.storage.sqlite.database import Database


def shapes() -> Iterator[tuple[Path, str]]:
    """Each file, and what it should hold."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "ys.db")
        db = Database(apsw.Connection(path), path, readonly=False)
        for version in range(1, schema.SCHEMA_VERSION + 1):
            for statement in schema.ours().statements(version):
                db.rows(statement)
            yield shape.FOLDER / f"{version:04d}.shape", shape.told(db)
        db.close()


if __name__ == "__main__":
    for file, text in shapes():
        file.write_text(text, encoding="utf-8")
