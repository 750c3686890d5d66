"""Cases of the file and its claims that need a set-up of their own."""

from __future__ import annotations

import threading
from pathlib import Path

import apsw
import pytest

from tests.storage.kit import admit, claim, claim_one, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import ExecutionIdConflict, UnsafeFilesystem
from yieldstar_cli.model import CancelledOutcome, Completed, Failed, Outcome, Suspended
from yieldstar_cli.storage.sqlite.storage import SqliteStorage


@pytest.fixture
def no_shared_memory() -> object:
    """Every database opened now is on a file system that lacks what a write-ahead log needs."""
    usual = apsw.vfs_names()[0]
    apsw.set_default_vfs("unix-dotfile")
    yield
    apsw.set_default_vfs(usual)


@pytest.mark.usefixtures("no_shared_memory")
def test_a_file_system_without_write_ahead_log_is_refused_with_the_reason(tmp_path: Path) -> None:
    """B23; spec E13: refused, with where to put it; nothing is promised that cannot be kept."""
    with pytest.raises(UnsafeFilesystem) as refused:
        SqliteStorage(str(tmp_path / "ys.db"), create=True)

    assert "cannot use a write-ahead log" in refused.value.message
    assert refused.value.remedy == ("Put the database on a local disk: --db PATH",)


ENDS: list[Outcome] = [Completed("1"), Failed('{"name":"E"}'), CancelledOutcome("not wanted")]


@pytest.mark.parametrize("outcome", ENDS, ids=lambda outcome: type(outcome).__name__)
def test_an_id_stays_in_use_whatever_the_outcome(
    storage: SqliteStorage, clock: ManualClock, outcome: Outcome
) -> None:
    """case 3; spec E3: completed, failed and cancelled ones conflict, and change by no byte."""
    admit(storage, "a")
    (delivery,) = storage.executions.claim_due(clock.now_ms())
    storage.executions.acknowledge(delivery, outcome)
    before = storage.db.rows("SELECT * FROM executions")

    with pytest.raises(ExecutionIdConflict) as refused:
        admit(storage, "a")

    status = {"Completed": "completed", "Failed": "failed"}.get(type(outcome).__name__, "cancelled")
    assert (refused.value.workflow_id, refused.value.status) == ("w", status)
    assert storage.db.rows("SELECT * FROM executions") == before


def test_a_wake_that_comes_while_a_claim_is_written_counts_as_after_it(
    db_path: Path, clock: ManualClock
) -> None:
    """cases 51, 56: it waits for the claim's transaction; then it is due after the delivery."""
    storage = SqliteStorage(str(db_path), clock=clock, create=True)
    admit(storage, "a", at=5)
    worker = new_worker(storage, clock.now_ms())
    answers: list[str] = []

    def wake() -> None:
        other = SqliteStorage(str(db_path), clock=clock)
        began.set()
        answers.append(other.executions.request_wake("a", 9))
        other.close()

    began = threading.Event()
    waker = threading.Thread(target=wake)
    with storage.atomic():
        delivery = claim_one(storage, clock.now_ms(), worker)
        waker.start()
        assert began.wait(20)
        assert answers == []
    waker.join(20)
    claimed = storage.executions.get("a")
    storage.executions.acknowledge(delivery, Suspended())

    assert answers == ["requested"]
    assert claimed is not None
    assert (claimed.covered_due_at, claimed.due_at) == (5, 9)
    record = storage.executions.get("a")
    assert record is not None
    assert record.due_at == 9
    storage.close()


def test_a_claim_that_fails_within_its_transaction_claims_nothing(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """cases 56, 68, 86: undone with all it covered; the next claim is the first."""
    admit(storage, "a", at=5)
    worker = new_worker(storage, clock.now_ms())
    before = storage.db.rows("SELECT * FROM executions")

    def interrupted() -> None:
        with storage.atomic():
            claim_one(storage, clock.now_ms(), worker)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert storage.db.rows("SELECT * FROM executions") == before
    assert claim_one(storage, clock.now_ms(), worker).token == 1


def test_deliveries_are_counted_for_each_execution(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """cases 286, 287, 288, 293; B14; spec E5: the first claim is 1, each later one adds one.

    Releases count as deliveries and for nothing else.
    """
    worker = new_worker(storage, clock.now_ms())
    for name in ("a", "b"):
        admit(storage, name, at=5)

    def counts() -> tuple[int, int]:
        a, b = storage.executions.get("a"), storage.executions.get("b")
        assert a is not None
        assert b is not None
        assert a.deaths == b.deaths == 0
        return a.deliveries, b.deliveries

    assert counts() == (0, 0)
    for n in range(1, 6):
        (only,) = claim(storage, clock.now_ms(), worker, only="a")
        assert counts() == (n, 0)
        storage.executions.release(only.delivery)
    claim_one(storage, clock.now_ms(), worker, only="b")

    assert counts() == (5, 1)


def test_of_eight_threads_that_claim_one_execution_one_wins(
    storage: SqliteStorage, db_path: Path, clock: ManualClock
) -> None:
    """case 82; spec E7, L4: a connection each, all at once; one claim, one token."""
    workers = [new_worker(storage, clock.now_ms()) for _ in range(8)]
    admit(storage, "a")
    line = threading.Barrier(8)
    found: list[list[str]] = []

    def race(worker: int) -> None:
        own = SqliteStorage(str(db_path), clock=clock)
        line.wait(20)
        claimed = claim(own, clock.now_ms(), worker)
        found.append([each.delivery.execution_id for each in claimed])
        own.close()

    threads = [threading.Thread(target=race, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert sorted(found) == [[]] * 7 + [["a"]]
    assert storage.db.rows("SELECT token FROM executions") == [(1,)]


def test_what_was_claimed_and_not_acknowledged_comes_back(
    db_path: Path, clock: ManualClock
) -> None:
    """B07; spec E8: claim 10, acknowledge 3, exit: 7 come back, with their wakes as they were."""
    storage = SqliteStorage(str(db_path), clock=clock, create=True)
    worker = new_worker(storage, clock.now_ms())
    for n in range(10):
        admit(storage, f"e{n}", at=n)
    for each in claim(storage, clock.now_ms(), worker)[:3]:
        storage.executions.acknowledge(each.delivery, Suspended())
    storage.close()

    storage = SqliteStorage(str(db_path), clock=clock)
    storage.workers.bury(worker, "died", {}, max_deaths=5)
    second = new_worker(storage, clock.now_ms())
    again = claim(storage, clock.now_ms(), second)

    assert [each.delivery.execution_id for each in again] == [f"e{n}" for n in range(3, 10)]
    records = [storage.executions.get(f"e{n}") for n in range(3, 10)]
    assert [r and r.covered_due_at for r in records] == list(range(3, 10))
    storage.close()


@pytest.mark.parametrize("most", [1, 3, 7])
def test_how_many_deaths_are_too_many_is_a_setting(
    storage: SqliteStorage, clock: ManualClock, most: int
) -> None:
    """case 290; spec L5: parked at that many while alone, not one sooner."""
    admit(storage, "a")
    poisoned = []
    for death in range(most):
        doomed = new_worker(storage, clock.now_ms(), alone=True)
        delivery = claim_one(storage, clock.now_ms(), doomed, suspects=death >= 2)
        storage.workers.bury(doomed, "died", {delivery.number: 1}, max_deaths=most)
        record = storage.executions.get("a")
        assert record is not None
        poisoned.append(record.poisoned_at is not None)
        clock.advance(300_000)

    assert poisoned == [False] * (most - 1) + [True]
