"""Files that earlier programs wrote go on as they would have gone on then (spec R11)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cases.kept.make import HERE, ended, entry_rows
from yieldstar_cli.model import HISTORY_FORMAT
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

FORMATS = range(1, HISTORY_FORMAT + 1)


def kept(history_format: int, folder: Path) -> Path:
    """A copy of the file that is kept of a history format."""
    path = folder / "kept.db"
    path.write_bytes(gzip.decompress((HERE / f"format_{history_format}.db.gz").read_bytes()))
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("history_format", FORMATS)
def test_a_kept_file_of_every_format_goes_on_as_it_would_have_then(
    tmp_path: Path, history_format: int
) -> None:
    """B31; spec R11: suspended in sleep, race, retry, poll and branches; all end as recorded.

    The same steps run, no recorded one again, and the histories are the same, entry for entry.
    """
    then = json.loads((HERE / f"format_{history_format}.json").read_text())

    now = ended(kept(history_format, tmp_path))

    # Through JSON, as the other was.
    assert json.loads(json.dumps(now)) == then


@pytest.mark.parametrize("history_format", FORMATS)
def test_a_kept_file_stands_in_every_kind_of_wait(tmp_path: Path, history_format: int) -> None:
    """spec R11: what is kept is worth keeping: open waits, tries, withdrawn entries, ends."""
    storage = SqliteStorage(str(kept(history_format, tmp_path)))
    records = storage.reader.find(limit=None)
    waits = {wait.state for r in records for wait in storage.reader.waits(r.number)}
    entries = [e for r in records for e in storage.reader.history(r.number, r.incarnation)]
    storage.close()

    assert {r.format for r in records} == {history_format}
    assert {str(r.status) for r in records} == {"suspended", "completed"}
    assert waits == {"waiting", "retrying"}
    assert {row[1] for row in entry_rows(entries)} >= {"step", "timer", "patch"}
    assert {e.ok for e in entries} == {True, False}
    assert {e.withdrawn for e in entries} == {True, False}
