"""Readers, writers and whoever holds a lock beside each other on one file (B.15)."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Shop
from tests.process.shop import Shop as Project
from yieldstar_cli.errors import DatabaseBusy, YieldstarError
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

ROOT = Path(__file__).parents[2]
MIB = 1024 * 1024


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project whose steps wait for the test, for real processes."""
    return Project(tmp_path / "project")


def count(storage: SqliteStorage) -> int:
    return len(storage.reader.find(limit=None))


def fill(storage: SqliteStorage, name: str, executions: int, size: int = 500) -> None:
    for n in range(executions):
        storage.executions.admit(workflow_id="w", execution_id=f"{name}-{n}", params="x" * size)


def log_size(path: Path) -> int:
    log = Path(f"{path}-wal")
    return log.stat().st_size if log.exists() else 0


def test_a_reader_keeps_its_view_while_others_write_and_fold_the_log(db_path: Path) -> None:
    """case 312; spec E13: one view for as long as it looks, then all that came meanwhile."""
    writer = SqliteStorage(db_path, create=True)
    fill(writer, "before", 20)
    reader = SqliteStorage(db_path, readonly=True)

    seen = []
    with reader.atomic():
        for n in range(5):
            seen.append(count(reader))
            fill(writer, f"during{n}", 4)
            writer.db.rows("PRAGMA wal_checkpoint(PASSIVE)")
        seen.append(count(reader))
        assert reader.db.rows("PRAGMA integrity_check") == [("ok",)]

    assert seen == [20] * 6
    assert count(reader) == 40
    reader.close()
    writer.close()


def test_a_log_that_a_reader_keeps_from_shrinking_is_reported_and_shrinks_after(
    shop: Shop,
) -> None:
    """case 313; C.2: it grows while a view is kept open; doctor says so; afterwards it is small."""
    writer = shop.storage
    fill(writer, "first", 1)
    reader = SqliteStorage(shop.db, readonly=True)
    codes = []
    with reader.atomic():
        assert count(reader) == 1
        fill(writer, "large", 70, MIB)
        grown = log_size(shop.db)
        codes = [finding["code"] for finding in shop.ys("doctor", "--json").json["findings"]]
    reader.close()

    fill(writer, "then", 12, MIB)
    fill(writer, "after", 2)
    shrunk = log_size(shop.db)
    found = count(writer)
    shop.close()

    assert grown > 70 * MIB
    assert "LARGE_WAL" in codes
    assert shrunk <= 64 * MIB
    assert log_size(shop.db) == 0
    assert found == 85


def test_eight_writers_at_once_all_get_their_turn(db_path: Path) -> None:
    """case 314; spec E13: none waits longer than its patience, and nothing is lost."""
    SqliteStorage(db_path, create=True).close()
    together = threading.Barrier(8)
    errors: list[YieldstarError] = []

    def write(name: str) -> None:
        storage = SqliteStorage(db_path)
        together.wait()
        try:
            fill(storage, name, 15)
        except YieldstarError as error:
            errors.append(error)
        finally:
            storage.close()

    threads = [threading.Thread(target=write, args=(f"w{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    storage = SqliteStorage(db_path)
    assert count(storage) == 8 * 15
    storage.close()


LOCKER = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(60_000)
for line in sys.stdin:
    connection.execute("BEGIN IMMEDIATE" if line == "lock\\n" else "COMMIT")
    print("done", flush=True)
"""
#: Says that it is about to write, and writes.
WRITER = """
import sys
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
storage = SqliteStorage(sys.argv[1], busy_timeout_ms=60_000)
print("writes", flush=True)
storage.executions.admit(workflow_id="w", execution_id=sys.argv[2])
storage.close()
"""


def told(process: subprocess.Popen[str], line: str) -> None:
    """Tell a process, and wait until it has done so."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


def script(text: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", text, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


@contextmanager
def locker(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another program that takes the write lock when told."""
    process = script(LOCKER, str(path))
    try:
        yield process
    finally:
        process.communicate()


def test_another_program_that_holds_the_lock_most_of_the_time_delays_and_loses_nothing(
    shop: Shop, charge_order: Callable[[], Path]
) -> None:
    """case 315; case 33; K5: who reads is not delayed; who writes waits, and is done once."""
    charge_order()
    shop.admit("first")
    shop.close()
    with locker(shop.db) as other:
        for turn in range(3):
            told(other, "lock")
            writer = script(WRITER, str(shop.db), f"turn-{turn}")
            assert writer.stdout is not None
            assert writer.stdout.readline() == "writes\n"
            listed = shop.ys("list", "-q")
            assert (listed.code, len(listed.out.split())) == (0, turn + 1)
            assert writer.poll() is None
            told(other, "go")
            writer.communicate(timeout=60)
            assert writer.returncode == 0

    assert sorted(shop.ys("list", "-q").out.split()) == ["first", "turn-0", "turn-1", "turn-2"]


def test_two_databases_in_one_process_know_nothing_of_each_other(tmp_path: Path) -> None:
    """case 325: neither rows nor locks nor tokens of the one are those of the other."""
    one, other = (SqliteStorage(tmp_path / f"{n}.db", create=True) for n in range(2))

    with one.atomic():
        fill(one, "same", 3)
        fill(other, "same", 2)
        blocked = SqliteStorage(tmp_path / "0.db", busy_timeout_ms=1)
        with pytest.raises(DatabaseBusy):
            fill(blocked, "never", 1)
        blocked.close()
    (delivery, *_) = one.executions.claim_due(10**14, limit=1)

    assert (count(one), count(other)) == (3, 2)
    assert [record.delivery for record in other.reader.find(limit=None)] == [None, None]
    assert delivery.execution_id == "same-0"
    one.close()
    fill(other, "more", 1)
    assert count(other) == 3
    other.close()


def test_a_worker_that_stands_still_in_a_step_keeps_nobody_from_anything(project: Project) -> None:
    """case 316; C.2: no transaction is open while the code of a user runs.

    `stop_at_rest` returns only once the write lock is free while the worker stands still.
    """
    project.gate("a")
    project.ys("trigger", "gated", "--id", "a", "-p", "name=a", check=True)
    worker = project.start("worker")
    try:
        project.wait_entered("a")
        project.stop_at_rest(worker)

        project.ys("trigger", "simple", "--id", "b", "-p", "name=b", check=True)
        shown = project.show("a")["steps"][-1]
        project.ys("worker", "--until-idle", check=True)

        assert shown["state"] == "running"
        assert project.show("b")["status"] == "completed"
    finally:
        worker.kill()
        worker.communicate()
