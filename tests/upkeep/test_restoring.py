"""Restoring a backup: when it is refused, what is kept, and what becomes of what was under way."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from tests.storage.kit import new_worker
from tests.storage.test_migration_2 import KEPT
from tests.upkeep.test_pruning import end
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import (
    CorruptFile,
    FileInTheWay,
    ForeignFile,
    NoDatabase,
    SchemaTooNew,
    WorkersAlive,
)
from yieldstar_cli.model import Status
from yieldstar_cli.restoring import restore
from yieldstar_cli.storage.sqlite import restores
from yieldstar_cli.storage.sqlite.database import Database
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.worker.liveness import LockFile


@pytest.fixture
def backup(storage: SqliteStorage, clock: ManualClock, tmp_path: Path) -> Path:
    """A backup with one that has ended, and another one admitted to the database after it."""
    end(storage, clock, "before")
    target = tmp_path / "backup.db"
    storage.upkeep.back_up(str(target))
    storage.executions.admit(workflow_id="w", execution_id="after")
    return target


def names(path: Path) -> list[str]:
    """Whose records a file holds; it is sound."""
    storage = SqliteStorage(path, readonly=True, clock=ManualClock())
    try:
        assert list(storage.upkeep.breaches()) == []
        return sorted(record.execution_id for record in storage.reader.find(limit=None))
    finally:
        storage.close()


def test_all_is_as_it_was_and_what_was_there_is_kept(
    backup: Path, db_path: Path, clock: ManualClock, tmp_path: Path
) -> None:
    """b.4; case 321."""
    before = backup.read_bytes()

    done = restore(str(db_path), str(backup), clock)

    assert names(db_path) == ["before"]
    assert done.kept == f"{db_path}.before-restore.bak"
    assert names(Path(str(done.kept))) == ["after", "before"]
    assert (done.executions, done.unfinished, done.returned) == (1, 0, 0)
    assert backup.read_bytes() == before
    assert not list(tmp_path.glob("*restoring*"))
    assert not list(tmp_path.glob("backup.db-*"))

    again = restore(str(db_path), str(backup), clock)
    assert again.kept == f"{db_path}.before-restore-2.bak"


def test_whoever_has_the_file_open_sees_the_new_one(
    storage: SqliteStorage, backup: Path, db_path: Path, clock: ManualClock
) -> None:
    """G1: what a program writes after it stands in the file that is there, not in another."""
    restore(str(db_path), str(backup), clock)

    assert storage.executions.get("after") is None
    storage.executions.admit(workflow_id="w", execution_id="later")
    assert names(db_path) == ["before", "later"]


def test_deliveries_that_were_under_way_are_due_again(
    storage: SqliteStorage, db_path: Path, clock: ManualClock, tmp_path: Path
) -> None:
    """spec E8, L2: at once, counted for nothing; the old token is dead."""
    storage.executions.admit(workflow_id="w", execution_id="open")
    worker = new_worker(storage, clock.now_ms())
    (claimed,) = storage.deliveries.claim(
        clock.now_ms(), worker=worker, limit=1, workflows=[("w", 1)]
    )
    storage.upkeep.back_up(str(tmp_path / "backup.db"))
    storage.workers.stop(worker, "stopped")

    done = restore(str(db_path), str(tmp_path / "backup.db"), clock)

    assert (done.unfinished, done.returned) == (1, 1)
    record = storage.executions.get("open")
    assert record is not None
    assert (record.status, record.delivery, record.deaths) == (Status.ADMITTED, None, 0)
    assert [lost.how for lost in storage.reader.lost_deliveries(record.number)] == ["restored"]
    assert storage.workers.all(living=True) == []
    other = new_worker(storage, clock.now_ms())
    (again,) = storage.deliveries.claim(clock.now_ms(), worker=other, limit=1, workflows=[("w", 1)])
    assert again.delivery.token > claimed.delivery.token
    assert names(db_path) == ["open"]


def test_what_is_committed_at_the_last_moment_is_in_the_copy_that_is_kept(
    backup: Path, db_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G1: nothing that was acknowledged is in neither of the two."""
    keep, kept = restores.keep, []

    def kept_and_written(db: Database, target: str) -> int:
        seen = keep(db, target)
        if not kept:
            other = SqliteStorage(db_path, clock=clock)
            other.executions.admit(workflow_id="w", execution_id="last moment")
            other.close()
        kept.append(target)
        return seen

    monkeypatch.setattr(restores, "keep", kept_and_written)

    done = restore(str(db_path), str(backup), clock)

    assert len(kept) == 2
    assert names(Path(str(done.kept))) == ["after", "before", "last moment"]
    assert names(db_path) == ["before"]


def test_it_is_refused_while_a_worker_lives(
    backup: Path, db_path: Path, clock: ManualClock
) -> None:
    """b.4; spec L3: the kernel says so, of a process that has only just begun, too."""
    script = (
        "import sys\n"
        "from yieldstar_cli.worker.liveness import LockFile\n"
        "LockFile(sys.argv[1]).acquire(b'x' * 16)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, f"{db_path}-lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == "held\n"

    with pytest.raises(WorkersAlive):
        restore(str(db_path), str(backup), clock)

    assert names(db_path) == ["after", "before"]
    holder.stdin.close()
    holder.wait()
    restore(str(db_path), str(backup), clock)
    assert names(db_path) == ["before"]


def test_a_worker_of_this_process_is_one_too(
    backup: Path, db_path: Path, clock: ManualClock
) -> None:
    """spec L3: and it keeps its byte."""
    lock = LockFile(f"{db_path}-lock")
    slot = lock.acquire(b"x" * 16)

    with pytest.raises(WorkersAlive):
        restore(str(db_path), str(backup), clock)

    assert lock.holds(slot, b"x" * 16)
    lock.release(slot)


def test_of_a_worker_elsewhere_the_lease_counts(
    storage: SqliteStorage, backup: Path, db_path: Path, clock: ManualClock
) -> None:
    """spec L3: of another boot or host nothing else tells."""
    new_worker(storage, clock.now_ms())

    with pytest.raises(WorkersAlive):
        restore(str(db_path), str(backup), clock)

    clock.advance(10**12)
    restore(str(db_path), str(backup), clock)
    assert names(db_path) == ["before"]


def test_no_worker_can_begin_meanwhile(db_path: Path, tmp_path: Path) -> None:
    """spec L3: every byte is held; and given back."""
    script = (
        "import sys\n"
        "from yieldstar_cli.errors import StorageError\n"
        "from yieldstar_cli.worker.liveness import LockFile\n"
        "try:\n"
        "    print(LockFile(sys.argv[1]).acquire(b'x' * 16))\n"
        "except StorageError as error:\n"
        "    print('refused')\n"
    )

    def tried() -> str:
        return subprocess.run(
            [sys.executable, "-c", script, f"{db_path}-lock"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    with LockFile(f"{db_path}-lock").alone() as alone:
        assert alone
        assert tried() == "refused"
    assert tried() == "0"


def spoilt(backup: Path, how: str) -> type[Exception]:
    """Make of a backup what cannot be restored; how it is refused."""
    match how:
        case "missing":
            backup.unlink()
            return NoDatabase
        case "empty":
            backup.write_bytes(b"")
            return NoDatabase
        case "text":
            backup.write_bytes(b"not ours" * 200)
            return CorruptFile
        case "foreign":
            backup.unlink()
            connection = apsw.Connection(str(backup))
            connection.execute("CREATE TABLE mine (x)")
            connection.close()
            return ForeignFile
        case "newer":
            connection = apsw.Connection(str(backup))
            connection.execute("PRAGMA user_version = 99")
            connection.close()
            return SchemaTooNew
    whole = bytearray(backup.read_bytes())
    last = len(whole) - 4096
    whole[last:] = b"\xff" * 4096
    backup.write_bytes(whole)
    return CorruptFile


@pytest.mark.parametrize("how", ["missing", "empty", "text", "foreign", "newer", "damaged"])
def test_what_is_no_sound_backup_is_refused(
    backup: Path, db_path: Path, clock: ManualClock, how: str, tmp_path: Path
) -> None:
    """b.4; spec K7; G10: neither file is changed."""
    refusal = spoilt(backup, how)
    before = backup.read_bytes() if backup.exists() else None

    with pytest.raises(refusal):
        restore(str(db_path), str(backup), clock)

    assert (backup.read_bytes() if backup.exists() else None) == before
    assert names(db_path) == ["after", "before"]
    assert not list(tmp_path.glob("*.bak"))
    assert not list(tmp_path.glob("*restoring*"))


def test_the_database_is_no_backup_of_itself(
    storage: SqliteStorage, db_path: Path, clock: ManualClock
) -> None:
    """It would be replaced while it is read."""
    with pytest.raises(FileInTheWay):
        restore(str(db_path), str(db_path), clock)


def test_a_damaged_database_is_replaced_and_kept(
    storage: SqliteStorage, backup: Path, db_path: Path, clock: ManualClock
) -> None:
    """What one restores for: its pages, or even its first bytes, are gone."""
    storage.close()
    whole = bytearray(db_path.read_bytes())
    whole[len(whole) - 4096 :] = b"\xff" * 4096
    db_path.write_bytes(whole)

    restore(str(db_path), str(backup), clock)
    assert names(db_path) == ["before"]

    db_path.write_bytes(b"gone" * 2_000)
    done = restore(str(db_path), str(backup), clock)
    assert names(db_path) == ["before"]
    assert done.kept is not None
    assert Path(done.kept).read_bytes() == b"gone" * 2_000


def test_a_database_of_another_program_is_not_replaced(
    storage: SqliteStorage, backup: Path, db_path: Path, clock: ManualClock
) -> None:
    """G10."""
    storage.close()
    db_path.unlink()
    connection = apsw.Connection(str(db_path))
    connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = db_path.read_bytes()

    with pytest.raises(ForeignFile):
        restore(str(db_path), str(backup), clock)

    assert db_path.read_bytes() == before


def test_where_there_is_none_it_is_made(backup: Path, clock: ManualClock, tmp_path: Path) -> None:
    """A new machine: the backup becomes the database."""
    target = tmp_path / "new.db"

    done = restore(str(target), str(backup), clock)

    assert done.kept is None
    assert names(target) == ["before"]
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_copy_made_by_hand_without_its_log_is_an_older_state_and_whole(
    storage: SqliteStorage, db_path: Path, clock: ManualClock, tmp_path: Path
) -> None:
    """B27: the docs warn of it; nothing is half there."""
    end(storage, clock, "folded")
    storage.settle()
    end(storage, clock, "in-the-log")
    # Another process would copy it; in this one an opening of the file would drop SQLite's locks.
    copied = subprocess.run(["cp", str(db_path), str(tmp_path / "copy.db")], check=True)
    assert copied.returncode == 0

    restore(str(db_path), str(tmp_path / "copy.db"), clock)

    assert names(db_path) == ["folded"]


def test_a_backup_of_an_older_schema_is_brought_up_to_date(
    storage: SqliteStorage, db_path: Path, clock: ManualClock, tmp_path: Path
) -> None:
    """spec K7: the backup itself stays as it was."""
    old = tmp_path / "old.db"
    old.write_bytes(gzip.decompress(KEPT.read_bytes()))
    before = old.read_bytes()

    done = restore(str(db_path), str(old), clock)

    assert done.executions > 0
    assert len(names(db_path)) == done.executions
    assert old.read_bytes() == before
    assert sorted(path.name for path in tmp_path.glob("*.bak")) == ["ys.db.before-restore.bak"]
