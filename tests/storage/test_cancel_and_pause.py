"""What people do to executions from outside: cancel them, pause them (spec C6, E14)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.storage.kit import WORKFLOWS, admit, claim, claim_one, entry, ids, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import (
    ExecutionIdConflict,
    ExecutionNotFound,
    InvalidExecutionEvent,
    StaleDelivery,
)
from yieldstar_cli.model import (
    Attempt,
    CancelledOutcome,
    CancelRequested,
    Completed,
    Delivery,
    Ended,
    Failed,
    LostDelivery,
    Outcome,
    Paused,
    Round,
    Start,
    Suspended,
    Wait,
)
from yieldstar_cli.storage.sqlite.storage import SqliteStorage


@pytest.fixture
def worker(storage: SqliteStorage, clock: ManualClock) -> int:
    return new_worker(storage, clock.now_ms())


@pytest.fixture
def delivery(storage: SqliteStorage, clock: ManualClock, worker: int) -> Delivery:
    """The open first delivery of the execution a."""
    admit(storage, "a")
    return claim_one(storage, clock.now_ms(), worker)


def is_quiet(storage: SqliteStorage, execution_id: str, outcome: Outcome) -> bool:
    """Whether it has ended like this and nothing of it is left to come."""
    record = storage.executions.get(execution_id)
    assert record is not None
    nothing = (None, None, None, None, None, (), None)
    found = (
        record.due_at,
        record.covered_due_at,
        record.delivery,
        record.held,
        record.paused,
        record.needs,
        record.poisoned_at,
    )
    marked = storage.db.rows(
        "SELECT n FROM executions WHERE n = :n AND paused IS NOT NULL", {"n": record.number}
    )
    waits = storage.reader.waits(record.number)
    retries = storage.db.rows("SELECT * FROM retries WHERE n = :n", {"n": record.number})
    return (record.outcome, found, marked, waits, retries) == (outcome, nothing, [], [], [])


# --- cancel ---------------------------------------------------------------------------------


def test_what_was_never_claimed_is_cancelled_at_once(
    storage: SqliteStorage, clock: ManualClock, worker: int
) -> None:
    """case 270; spec C6: no code of it ever runs, also where it was admitted for later."""
    admit(storage, "a")
    admit(storage, "b", at=clock.now_ms() + 1_000)

    assert storage.steering.cancel("a", reason="enough") == "cancelled"
    assert storage.steering.cancel("b") == "cancelled"

    assert is_quiet(storage, "a", CancelledOutcome("enough"))
    assert is_quiet(storage, "b", CancelledOutcome(None))
    assert claim(storage, clock.now_ms() + 9_999, worker) == []


def test_a_suspended_execution_is_due_for_its_cancellation(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """case 271; spec C6: its next delivery finds the request, and its timers are gone with it."""
    asleep = Wait("timer", "t", "1d", 5, 10**14, "waiting")
    storage.deliveries.record(delivery, Round(waits=(asleep,), outcome=Suspended(10**14)))

    assert storage.steering.cancel("a", reason="enough") == "requested"
    told = claim_one(storage, clock.now_ms(), worker)
    look = storage.deliveries.look(told, queues={})
    storage.deliveries.record(
        told, Round(entries=(entry(0),), told=True, outcome=CancelledOutcome("enough"))
    )

    assert look.cancel == CancelRequested(clock.now_ms(), "enough")
    assert is_quiet(storage, "a", CancelledOutcome("enough"))
    assert storage.deliveries.next_due(WORKFLOWS) is None


def test_a_running_delivery_is_nudged_and_cannot_suspend_past_the_request(
    storage: SqliteStorage, worker: int, delivery: Delivery
) -> None:
    """case 272; spec C6, R10: and once the function was told, it may suspend for its clean-up."""
    storage.steering.cancel("a")

    assert storage.deliveries.nudged(worker) == [(delivery.number, 1)]
    assert storage.deliveries.record(delivery, Round(entries=(entry(0),))).ready
    refused = storage.deliveries.record(delivery, Round(outcome=Suspended(5)))
    assert (refused.outcome, refused.ready) == (None, True)
    told = Round(entries=(entry(1),), told=True, outcome=Suspended(5))
    assert storage.deliveries.record(delivery, told).outcome == Suspended(5)

    record = storage.executions.get("a")
    assert record is not None
    assert record.cancel is not None
    assert record.cancel.told
    assert storage.deliveries.look(delivery, queues={}).cancel is None


def test_a_told_execution_is_not_told_again(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """case 275; spec C6: once for ever; a second request neither wakes nor changes the first."""
    storage.steering.cancel("a", reason="first")
    asked = clock.now_ms()
    storage.deliveries.record(delivery, Round(entries=(entry(0),), told=True, outcome=Suspended()))
    clock.advance(9)

    for _ in range(3):
        assert storage.steering.cancel("a", reason="second") == "requested"

    record = storage.executions.get("a")
    assert record is not None
    assert record.cancel == CancelRequested(asked, "first", told=True)
    assert claim(storage, clock.now_ms(), worker) == []


@pytest.mark.parametrize("now", [False, True])
def test_what_has_ended_ignores_a_cancellation(
    storage: SqliteStorage, delivery: Delivery, now: bool
) -> None:
    """case 273; spec E10: and says so."""
    storage.executions.acknowledge(delivery, Completed("1"))
    before = storage.db.rows("SELECT * FROM executions")

    assert storage.steering.cancel("a", now=now) == "ignored"
    assert storage.db.rows("SELECT * FROM executions") == before


@pytest.mark.parametrize("unknown", ["nobody", "", " a", "\ud800"])
def test_what_nobody_knows_cannot_be_steered(storage: SqliteStorage, unknown: str) -> None:
    """case 274."""
    with pytest.raises(ExecutionNotFound):
        storage.steering.cancel(unknown)
    with pytest.raises(ExecutionNotFound):
        storage.steering.cancel(unknown, now=True)
    with pytest.raises(ExecutionNotFound):
        storage.steering.pause(execution_id=unknown, by="me")
    with pytest.raises(ExecutionNotFound):
        storage.steering.resume(execution_id=unknown)


def test_a_request_outlives_the_worker_that_never_saw_it(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """case 281; spec C6, E8: the next delivery looks, and finds it."""
    storage.steering.cancel("a", reason="enough")

    storage.workers.bury(worker, "died", {}, max_deaths=5)

    again = claim_one(storage, clock.now_ms(), new_worker(storage, clock.now_ms()))
    cancel = storage.deliveries.look(again, queues={}).cancel
    assert cancel is not None
    assert cancel.reason == "enough"


def test_a_delivery_that_never_looks_is_due_again_for_the_request(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec E9, C6: a dispatcher of RFC 001 ends its delivery as it asked; nothing is lost."""
    storage.steering.cancel("a")

    assert storage.executions.acknowledge(delivery, Suspended()) == Suspended(clock.now_ms())
    assert ids(claim(storage, clock.now_ms(), worker)) == ["a"]


def test_the_id_of_a_cancelled_execution_stays_taken(storage: SqliteStorage) -> None:
    """cases 282, 283; spec E3, E6, M1."""
    admit(storage, "a")
    storage.steering.cancel("a")

    with pytest.raises(ExecutionIdConflict):
        admit(storage, "a")
    assert storage.executions.request_wake("a", 5) == "ignored"
    assert storage.inbox.send("a", "q", "1", ttl_ms=9) == "refused"


def test_a_message_to_what_has_ended_leaves_no_trace(storage: SqliteStorage) -> None:
    """case B52; spec M1: a thousand of them store nothing and make nothing due."""
    admit(storage, "a")
    storage.steering.cancel("a")
    before = storage.db.connection.total_changes()

    answers = {storage.inbox.send("a", "q", str(n), ttl_ms=9) for n in range(1_000)}

    assert answers == {"refused"}
    assert storage.db.connection.total_changes() == before


# --- cancel --now ---------------------------------------------------------------------------


def test_a_cancellation_at_once_ends_what_nothing_else_could(
    storage: SqliteStorage, clock: ManualClock, worker: int
) -> None:
    """spec C6: the way out for held, poisoned, paused and tagged executions."""
    for name in ("held", "poisoned", "paused", "tagged"):
        admit(storage, name)
    held, poisoned, paused, tagged = (
        claim_one(storage, clock.now_ms(), worker, only=name)
        for name in ("held", "poisoned", "paused", "tagged")
    )
    storage.executions.release(held, problem=("X", "y"), held=True)
    tried = Attempt("pay", "step", 1, 1, 2, "error", '"e"', 3)
    wait = Wait("timer", "t", "1d", 5, 10**14, "waiting")
    changes = Round(attempts=(tried,), waits=(wait,), outcome=Suspended(5))
    storage.deliveries.record(paused, changes)
    storage.deliveries.record(tagged, Round(outcome=Suspended(5), needs=("gpu",)))
    storage.steering.pause(execution_id="paused", by="me")
    alone = new_worker(storage, clock.now_ms(), alone=True)
    storage.executions.release(poisoned)
    claim_one(storage, clock.now_ms(), alone, only="poisoned")
    storage.workers.bury(alone, "died", {poisoned.number: 0}, max_deaths=1)

    for name in ("held", "poisoned", "paused", "tagged"):
        assert storage.steering.cancel(name, reason="out", now=True) == "cancelled"
        assert is_quiet(storage, name, CancelledOutcome("out"))
    assert storage.deliveries.next_due(WORKFLOWS, tags=("gpu",)) is None


def test_a_delivery_that_was_ended_from_outside_is_told_at_its_next_commit(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec C6, E10, L2: its token is dead, nothing more of it is recorded, and people see it."""
    began = clock.now_ms()
    clock.advance(7)

    assert storage.steering.cancel("a", now=True) == "cancelled"

    for changes in (Round(entries=(entry(0),)), Round(outcome=Completed("1"))):
        assert storage.deliveries.record(delivery, changes).outcome == CancelledOutcome(None)
    with pytest.raises(StaleDelivery):
        storage.executions.release(delivery)
    assert storage.reader.history(delivery.number, 1) == []
    assert storage.reader.lost_deliveries(delivery.number) == [
        LostDelivery(1, "w-1", began, began + 7, "cancelled")
    ]


def test_a_cancellation_at_once_takes_its_linked_descendants_along(
    storage: SqliteStorage, clock: ManualClock, worker: int
) -> None:
    """case 276; spec C4, C6: whatever they do; detached ones, and theirs, run on."""
    family = {"c": False, "c/g": False, "c/g/d": False, "x": True, "x/y": False}
    admit(storage, "a")
    for name, detached in family.items():
        above = "a" if "/" not in name else f"a/{name.rpartition('/')[0]}"
        delivery = claim_one(storage, clock.now_ms(), worker, only=above)
        start = Start("k", 5, f"a/{name}", "w", 1, "1", detached=detached)
        storage.deliveries.record(delivery, Round(actions=(start,)))
        storage.executions.release(delivery)
    busy = claim_one(storage, clock.now_ms(), worker, only="a/c/g")

    assert storage.steering.cancel("a", reason="out", now=True) == "cancelled"

    assert is_quiet(storage, "a", CancelledOutcome("out"))
    assert is_quiet(storage, "a/c", CancelledOutcome("its parent a cancelled"))
    assert is_quiet(storage, "a/c/g", CancelledOutcome("its parent a/c cancelled"))
    assert is_quiet(storage, "a/c/g/d", CancelledOutcome("its parent a/c/g cancelled"))
    late = storage.deliveries.record(busy, Round(entries=(entry(1),)))
    assert late.outcome == CancelledOutcome("its parent a/c cancelled")
    assert ids(claim(storage, clock.now_ms(), worker)) == ["a/x", "a/x/y"]


def test_a_chain_of_ten_thousand_descendants_ends_without_recursion(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec C4: depth costs time, never the process."""
    depth = 10_000
    with storage.atomic():
        for n in range(depth):
            admit(storage, f"e{n}")
        storage.db.rows("UPDATE executions SET parent = n - 1, token = 1 WHERE n > 1")

    assert storage.steering.cancel("e0", now=True) == "cancelled"

    assert storage.reader.counts() == {"cancelled": depth}


@pytest.mark.parametrize("now", [False, True])
def test_whoever_waits_for_it_is_woken_by_its_cancellation(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery, now: bool
) -> None:
    """spec C2, C4: an end from outside is an end."""
    admit(storage, "b")
    wait = Wait("child", "b", "", 5, None, "waiting", target="b")
    storage.deliveries.record(delivery, Round(waits=(wait,), outcome=Suspended()))

    assert storage.steering.cancel("b", reason="out", now=now) == "cancelled"

    again = claim_one(storage, clock.now_ms(), worker)
    ended = Ended("b", "b", clock.now_ms(), CancelledOutcome("out"))
    assert storage.deliveries.look(again, queues={}).ended == (ended,)


@pytest.mark.parametrize("now", [False, True])
def test_a_cancellation_that_races_a_completion_leaves_one_outcome(
    db_path: Path, storage: SqliteStorage, clock: ManualClock, worker: int, now: bool
) -> None:
    """case 278; spec E10: a hundred races over two connections; both callers are told the same."""
    answers: dict[str, str] = {}

    def cancel_all(others: SqliteStorage, barrier: threading.Barrier, names: list[str]) -> None:
        for name in names:
            barrier.wait(30)
            answers[name] = others.steering.cancel(name, reason="out", now=now)

    names = [f"e{n}" for n in range(100)]
    for name in names:
        admit(storage, name)
    claimed = {
        c.delivery.execution_id: c for c in claim(storage, clock.now_ms(), worker, limit=200)
    }
    barrier = threading.Barrier(2)
    outcomes: dict[str, Outcome | None] = {}
    with_another: list[SqliteStorage] = []

    def other_thread() -> None:
        other = SqliteStorage(db_path, clock=clock)
        with_another.append(other)
        cancel_all(other, barrier, names)
        other.close()

    thread = threading.Thread(target=other_thread)
    thread.start()
    for name in names:
        barrier.wait(30)
        changes = Round(outcome=Completed("1"))
        outcomes[name] = storage.deliveries.record(claimed[name].delivery, changes).outcome
    thread.join(30)

    for name in names:
        record = storage.executions.get(name)
        assert record is not None
        assert record.outcome == outcomes[name]
        won = isinstance(record.outcome, CancelledOutcome)
        assert (answers[name] == "cancelled") == won
        assert answers[name] in ({"cancelled", "ignored"} if now else {"requested", "ignored"})
    assert len(answers) == len(names)


# --- pause ----------------------------------------------------------------------------------------


def test_a_paused_execution_is_woken_as_usual_and_not_claimed(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec E14: who, when, why; and on resume everything that came meanwhile counts."""
    storage.deliveries.record(delivery, Round(outcome=Suspended(5)))
    mark = Paused("execution", "alice", clock.now_ms(), "stock-taking")

    assert storage.steering.pause(execution_id="a", by="alice", reason="stock-taking") == "paused"
    assert storage.steering.pause(execution_id="a", by="bob") == "unchanged"

    record = storage.executions.get("a")
    assert record is not None
    assert record.paused == mark
    assert storage.executions.request_wake("a", clock.now_ms()) == "requested"
    assert storage.inbox.send("a", "q", "1", ttl_ms=9) == "delivered"
    assert storage.executions.claim_due(clock.now_ms()) == []
    assert claim(storage, clock.now_ms(), worker, only="a") == []
    assert storage.deliveries.next_due(WORKFLOWS, worker=99) is None

    assert storage.steering.resume(execution_id="a") == "resumed"
    assert storage.steering.resume(execution_id="a") == "unchanged"
    assert ids(claim(storage, clock.now_ms(), worker)) == ["a"]


@pytest.mark.parametrize("workflow_id", ["w", None])
def test_a_paused_workflow_or_file_admits_and_claims_nothing(
    storage: SqliteStorage, clock: ManualClock, worker: int, workflow_id: str | None
) -> None:
    """spec E14: what is new is paused as well; other workflows go on unless all are paused."""
    both = [("w", 1), ("other", 1)]
    admit(storage, "a")
    scope, name = ("workflow", "w") if workflow_id else ("all", None)

    assert storage.steering.pause(workflow_id=workflow_id, by="alice") == "paused"
    assert storage.steering.pause(workflow_id=workflow_id, by="bob", reason="x") == "unchanged"
    admit(storage, "b")
    storage.executions.admit(workflow_id="other", execution_id="c")

    mark = Paused(scope, "alice", clock.now_ms(), None, name)
    assert storage.steering.pauses() == [mark]
    record = storage.executions.get("b")
    assert record is not None
    assert record.paused == mark
    now, others = clock.now_ms(), ["c"] if workflow_id else []
    due = storage.deliveries.next_due(both)
    assert due == (now if workflow_id else None)
    assert ids(claim(storage, now, worker, workflows=both)) == others
    assert storage.executions.claim_due(now) == []

    assert storage.steering.resume(workflow_id=workflow_id) == "resumed"
    assert storage.steering.resume(workflow_id=workflow_id) == "unchanged"
    assert storage.steering.pauses() == []
    assert {"a", "b"} <= set(ids(claim(storage, now, worker, workflows=both)))


def test_running_deliveries_are_told_of_a_pause(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec E14: those of the workflow, or all; and each may suspend though something is ready."""
    storage.executions.admit(workflow_id="other", execution_id="b")
    other = claim_one(storage, clock.now_ms(), worker, workflows=[("other", 1)])

    def paused() -> tuple[bool, bool]:
        looks = (storage.deliveries.look(each, queues={}) for each in (delivery, other))
        first, second = (look.paused for look in looks)
        return first, second

    storage.steering.pause(workflow_id="w", by="me")
    assert storage.deliveries.nudged(worker) == [(delivery.number, 1)]
    assert paused() == (True, False)
    storage.steering.pause(by="me")
    assert storage.deliveries.nudged(worker) == [(delivery.number, 2), (other.number, 1)]
    assert paused() == (True, True)
    storage.steering.pause(execution_id="b", by="me")
    assert storage.deliveries.nudged(worker) == [(delivery.number, 2), (other.number, 2)]


def test_a_paused_delivery_may_suspend_and_is_due_for_what_was_ready(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec E14, R10: everything waits for resume, and nothing is forgotten until then."""
    wait = Wait("message", "q", "", 5, None, "waiting", queue="q")
    storage.deliveries.record(delivery, Round(waits=(wait,)))
    storage.steering.pause(execution_id="a", by="me")
    storage.inbox.send("a", "q", "1", ttl_ms=9)

    suspended = storage.deliveries.record(delivery, Round(outcome=Suspended(10**14)))

    assert suspended.outcome == Suspended(clock.now_ms())
    assert claim(storage, clock.now_ms(), worker) == []
    storage.steering.resume(execution_id="a")
    assert ids(claim(storage, clock.now_ms(), worker)) == ["a"]


def test_a_lease_that_ends_under_a_pause_is_not_taken_over_before_the_resume(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec E14, L2: neither by its own mark nor by one above it."""
    admit(storage, "b")
    claim_one(storage, clock.now_ms(), worker)
    storage.steering.pause(execution_id="a", by="me")
    clock.advance(10**6)
    later, now = new_worker(storage, clock.now_ms()), clock.now_ms()
    storage.steering.pause(workflow_id="w", by="me")

    assert claim(storage, now, later) == []
    assert storage.executions.claim_due(now) == []
    assert storage.deliveries.next_due(WORKFLOWS, worker=later) is None
    storage.steering.resume(workflow_id="w")
    assert storage.deliveries.next_due(WORKFLOWS, worker=later) is not None
    assert ids(claim(storage, now, later)) == ["b"]
    assert storage.deliveries.next_due(WORKFLOWS, worker=later) is None
    storage.steering.resume(execution_id="a")
    assert ids(claim(storage, now, later)) == ["a"]


def test_a_pause_of_what_has_ended_is_ignored(storage: SqliteStorage, delivery: Delivery) -> None:
    """spec E14, E10: and an end takes the mark away."""
    storage.steering.pause(execution_id="a", by="me")
    storage.deliveries.record(delivery, Round(outcome=Failed('"e"')))

    assert is_quiet(storage, "a", Failed('"e"'))
    assert storage.steering.pause(execution_id="a", by="me") == "ignored"
    assert storage.steering.resume(execution_id="a") == "ignored"


def test_a_name_that_no_workflow_has_cannot_be_paused(storage: SqliteStorage) -> None:
    """spec R1, E14: nor can an empty one pause the file by accident."""
    for wrong in ("", "1w", "a b", "\ud800"):
        with pytest.raises(InvalidExecutionEvent):
            storage.steering.pause(workflow_id=wrong, by="me")
        with pytest.raises(InvalidExecutionEvent):
            storage.steering.resume(workflow_id=wrong)

    assert storage.steering.pauses() == []


def test_words_that_are_no_text_are_kept_as_escapes(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec V3: a reason from anywhere breaks nobody's commit."""
    storage.steering.pause(by="\ud800", reason="a\0b")
    storage.steering.pause(execution_id="a", by="\ud800", reason="\udc80")
    storage.steering.cancel("a", reason="\ud800")

    record = storage.executions.get("a")
    assert record is not None
    assert record.paused == Paused("execution", "\\ud800", clock.now_ms(), "\\udc80")
    assert record.cancel == CancelRequested(clock.now_ms(), "\\ud800")
    assert storage.steering.pauses() == [Paused("all", "\\ud800", clock.now_ms(), "a\\x00b")]


def test_ending_at_once_what_was_asked_to_cancel_keeps_the_reason(
    storage: SqliteStorage, delivery: Delivery
) -> None:
    """case 280; spec C6: pressing on with --now and no word of one's own means the first wish."""
    storage.steering.cancel("a", reason="fraud")

    answer = storage.steering.cancel("a", now=True)

    record = storage.executions.get("a")
    assert answer == "cancelled"
    assert record is not None
    assert record.outcome == CancelledOutcome("fraud")
