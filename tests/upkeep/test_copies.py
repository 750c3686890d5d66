"""Backups at the storage: one moment of the file, whole, on the disk, under its own name."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from tests.upkeep.test_pruning import end
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import FileInTheWay, ForeignFile, NoDatabase
from yieldstar_cli.storage.sqlite import copies
from yieldstar_cli.storage.sqlite.storage import SqliteStorage


def records(path: Path) -> list[tuple[object, ...]]:
    """Every record in a file."""
    storage = SqliteStorage(path, readonly=True, clock=ManualClock())
    try:
        assert list(storage.upkeep.breaches()) == []
        return storage.db.rows("SELECT * FROM executions ORDER BY n")
    finally:
        storage.close()


def test_a_backup_is_one_file_that_stands_alone(
    storage: SqliteStorage, clock: ManualClock, tmp_path: Path
) -> None:
    """b.4; S11; case 321: what was only in the log is in it, and others may not read it."""
    for n in range(20):
        end(storage, clock, f"e-{n}")
    before = os.umask(0)
    try:
        count = storage.upkeep.back_up(str(tmp_path / "copy.db"))
    finally:
        os.umask(before)

    found = sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("copy"))
    assert found == ["copy.db"]
    assert count == os.stat(tmp_path / "copy.db").st_size
    assert stat.S_IMODE(os.stat(tmp_path / "copy.db").st_mode) == 0o600
    assert records(tmp_path / "copy.db") == storage.db.rows("SELECT * FROM executions ORDER BY n")


def test_a_backup_is_of_one_moment_whoever_writes(
    storage: SqliteStorage,
    clock: ManualClock,
    db_path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """case 321: every commit meanwhile is in it whole, or not at all; it does not begin anew."""
    monkeypatch.setattr(copies, "PAGES_AT_ONCE", 1)
    for n in range(50):
        end(storage, clock, f"e-{n}", entries=5)
    began, over = threading.Event(), threading.Event()

    def write() -> None:
        other = SqliteStorage(db_path, clock=clock)
        n = 0
        while not over.is_set():
            end(other, clock, f"later-{n}", entries=5)
            n += 1
            began.set()
        other.close()

    writer = threading.Thread(target=write)
    writer.start()
    began.wait()
    copied = SqliteStorage(db_path, readonly=True, clock=clock)
    try:
        for n in range(5):
            copied.upkeep.back_up(str(tmp_path / f"copy-{n}.db"))
    finally:
        over.set()
        writer.join()
        copied.close()

    counts = [len(records(tmp_path / f"copy-{n}.db")) for n in range(5)]
    assert counts == sorted(counts)
    assert counts[0] > 50


def test_a_file_that_is_there_is_not_written_over(
    storage: SqliteStorage, db_path: Path, tmp_path: Path
) -> None:
    """b.4: unless that is said; what fails leaves nothing behind."""
    target = tmp_path / "copy.db"
    target.write_text("mine")

    with pytest.raises(FileInTheWay):
        storage.upkeep.back_up(str(target))
    assert target.read_text() == "mine"

    storage.upkeep.back_up(str(target), replace=True)
    assert records(target) == []
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-lock", "-marks"])
def test_the_database_and_its_own_files_are_never_the_target(
    storage: SqliteStorage, db_path: Path, suffix: str
) -> None:
    """spec K5: also not by another name, and not with --force."""
    with pytest.raises(FileInTheWay, match="belongs to the database"):
        storage.upkeep.back_up(f"{db_path}{suffix}", replace=True)

    storage.executions.admit(workflow_id="w", execution_id="still-there")


def test_a_link_to_the_database_is_not_the_target_either(
    storage: SqliteStorage, db_path: Path, tmp_path: Path
) -> None:
    """S14."""
    (tmp_path / "link.db").symlink_to(db_path)
    os.link(db_path, tmp_path / "hard.db")

    for name in ("link.db", "hard.db"):
        with pytest.raises(FileInTheWay):
            storage.upkeep.back_up(str(tmp_path / name), replace=True)

    assert (tmp_path / "link.db").is_symlink()


def test_a_log_of_another_database_would_be_taken_for_its_own(
    storage: SqliteStorage, tmp_path: Path
) -> None:
    """cases.md: side files that were left or swapped damage a database."""
    (tmp_path / "copy.db-wal").write_bytes(b"another's")

    with pytest.raises(FileInTheWay, match="-wal"):
        storage.upkeep.back_up(str(tmp_path / "copy.db"), replace=True)

    assert (tmp_path / "copy.db-wal").read_bytes() == b"another's"


def test_where_no_file_can_be_made_it_says_so(storage: SqliteStorage, tmp_path: Path) -> None:
    """b.4: 10, and nothing is created."""
    (tmp_path / "folder").mkdir()

    with pytest.raises(NoDatabase):
        storage.upkeep.back_up(str(tmp_path / "nowhere" / "copy.db"))
    with pytest.raises(ForeignFile):
        storage.upkeep.back_up(str(tmp_path / "folder"), replace=True)
