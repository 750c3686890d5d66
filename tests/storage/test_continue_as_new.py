"""Continue-as-new: one commit replaces the history and keeps everything else (spec C7)."""

from __future__ import annotations

import pytest

from tests.storage.kit import admit, claim, claim_one, entry, ids, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import ExecutionIdConflict, StaleDelivery
from yieldstar_cli.model import (
    HISTORY_FORMAT,
    Attempt,
    CancelledOutcome,
    CancelRequested,
    Completed,
    Continued,
    Delivery,
    Incarnation,
    LogLine,
    Round,
    Send,
    Start,
    Suspended,
    Wait,
)
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

NEXT = Continued('{"n":2}', 2)
BOTH = [("w", 1), ("w", 2)]


@pytest.fixture
def worker(storage: SqliteStorage, clock: ManualClock) -> int:
    return new_worker(storage, clock.now_ms())


@pytest.fixture
def delivery(storage: SqliteStorage, clock: ManualClock, worker: int) -> Delivery:
    """The open first delivery of the execution a."""
    admit(storage, "a", params={"n": 1}, context={"k": "v"})
    return claim_one(storage, clock.now_ms(), worker)


def rows(storage: SqliteStorage, table: str) -> int:
    return int(storage.db.rows(f"SELECT count(*) FROM {table}")[0][0])


def test_the_next_incarnation_begins_with_new_params_under_the_same_id(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """cases 232, 235; spec C7, R11: due now, without history, in the version that it asked for."""
    tried = Attempt("pay", "step", 1, 1, 2, "error", '"e"', 3)
    changes = Round(
        entries=(entry(0, at=7),),
        attempts=(tried,),
        logs=(LogLine(0, 5, 20, "first"),),
        waits=(Wait("timer", "t", "10m", 5, 10**14, "waiting"),),
        status_value='"half"',
        outcome=NEXT,
    )
    assert storage.deliveries.record(delivery, changes).outcome == NEXT
    clock.advance(1)

    (again,) = claim(storage, clock.now_ms(), worker, workflows=BOTH)

    assert (again.incarnation, again.version, again.params_json) == (2, 2, '{"n":2}')
    assert (again.history, again.retries, again.waits, again.log_count) == ((), (), (), 0)
    assert (again.operations, again.last_moment, again.started_at) == (0, 7, clock.now_ms())
    assert (again.context_json, again.status_value_json) == ('{"k":"v"}', '"half"')
    record = storage.executions.get("a")
    assert record is not None
    assert (record.status, record.format, record.due_at) == ("suspended", HISTORY_FORMAT, None)
    assert rows(storage, "waits") == rows(storage, "retries") == 0


def test_an_earlier_incarnation_can_still_be_read(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec C7: with what the last round recorded, actions included."""
    began = clock.now_ms()
    clock.advance(10)
    child = Start("pay", 8, "a/pay", "w", 1, "1")

    recorded = storage.deliveries.record(
        delivery, Round(entries=(entry(0, at=7),), actions=(child,), outcome=NEXT)
    )

    before = Incarnation(1, 1, '{"n":1}', began, clock.now_ms(), 2)
    assert storage.family.incarnations(delivery.number) == [before]
    assert storage.reader.history(delivery.number, 1) == [entry(0, at=7), *recorded.entries]
    assert storage.reader.history(delivery.number, 2) == []


def test_an_old_delivery_cannot_write_after_the_switch(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """case 233; spec C7, L2: its token is dead; only the same acknowledgement is answered alike."""
    storage.deliveries.record(delivery, Round(outcome=NEXT))
    before = storage.db.rows("SELECT * FROM executions")

    with pytest.raises(StaleDelivery):
        storage.deliveries.record(delivery, Round(entries=(entry(0),)))
    assert storage.deliveries.record(delivery, Round(outcome=NEXT)).outcome == NEXT
    assert storage.db.rows("SELECT * FROM executions") == before

    later = claim_one(storage, clock.now_ms(), worker, workflows=BOTH)
    assert storage.deliveries.record(delivery, Round(outcome=NEXT)).outcome == NEXT
    storage.deliveries.record(later, Round(outcome=Suspended()))
    with pytest.raises(StaleDelivery):
        storage.deliveries.record(delivery, Round(outcome=NEXT))
    assert len(storage.family.incarnations(delivery.number)) == 1


def test_a_suspension_is_not_taken_for_a_switch(storage: SqliteStorage, delivery: Delivery) -> None:
    """spec L2: what is answered is what was acknowledged."""
    storage.executions.acknowledge(delivery, Suspended(5))

    assert storage.executions.acknowledge(delivery, NEXT) == Suspended(5)


def test_the_last_three_earlier_incarnations_are_kept(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec C7: an execution that goes on for ever does not fill the file."""
    for n in range(1, 8):
        tried = Attempt("pay", "step", 1, 1, 2, "error", '"e"', 3)
        changes = Round(
            entries=(entry(0),),
            attempts=(tried,),
            logs=(LogLine(0, 5, 20, f"line {n}"),),
            outcome=Continued(str(n + 1), 1),
        )
        storage.deliveries.record(delivery, changes)
        delivery = claim_one(storage, clock.now_ms(), worker)

    kept = storage.family.incarnations(delivery.number)
    assert [(i.incarnation, i.params_json) for i in kept] == [(5, "5"), (6, "6"), (7, "7")]
    for table in ("history", "attempts", "logs"):
        held = storage.db.rows(f"SELECT DISTINCT incarnation FROM {table} ORDER BY 1")
        assert held == [(5,), (6,), (7,)]


def test_messages_keep_their_order_across_the_switch(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """case 238; spec C7, M2: unread ones are carried, read ones are not read again."""
    for n in range(3):
        storage.inbox.send("a", "q", str(n), ttl_ms=9)
    (first,) = storage.deliveries.look(delivery, queues={"q": (0, 1)}).arrived
    to_itself = Send("say", 5, "a", "q", "3", 9)
    storage.deliveries.record(
        delivery, Round(consumed=(first.number,), actions=(to_itself,), outcome=NEXT)
    )
    storage.inbox.send("a", "q", "4", ttl_ms=9)

    again = claim_one(storage, clock.now_ms(), worker, workflows=BOTH)

    arrived = storage.deliveries.look(again, queues={"q": (0, 9)}).arrived
    assert [message.value for message in arrived] == ["1", "2", "3", "4"]


def test_children_and_their_unread_ends_are_carried(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """cases 203, 204, 211, 242, 243; spec C1, C2, C7: without limit, also the last one started."""
    starts = [Start(f"c{n}", 5, f"a/c{n}", "w", 1, "1") for n in range(12)]
    storage.deliveries.record(delivery, Round(actions=tuple(starts[:11])))
    for n in range(5):
        child = claim_one(storage, clock.now_ms(), worker, only=f"a/c{n}")
        storage.deliveries.record(child, Round(outcome=Completed(str(n))))
    storage.deliveries.record(delivery, Round(actions=(starts[11],), outcome=NEXT))
    in_the_window = claim_one(storage, clock.now_ms(), worker, only="a/c11")
    storage.deliveries.record(in_the_window, Round(outcome=Completed("11")))

    again = claim_one(storage, clock.now_ms(), worker, only="a", workflows=BOTH)
    waits = tuple(
        Wait("child", f"c{n}", "", 5, None, "waiting", position=n, target=f"a/c{n}")
        for n in range(12)
    )
    recorded = storage.deliveries.record(again, Round(waits=waits, outcome=Suspended()))

    assert recorded.ready
    ended = storage.deliveries.look(again, queues={}).ended
    assert [e.step_key for e in ended] == ["c0", "c1", "c2", "c3", "c4", "c11"]
    assert storage.family.child_counts(again.number) == {
        ("w", "admitted"): 6,
        ("w", "completed"): 6,
    }


def test_the_end_of_an_old_wait_wakes_nobody(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec C7: what the old incarnation waited for is the old incarnation's."""
    child = Start("c", 5, "a/c", "w", 1, "1")
    wait = Wait("child", "c", "", 5, None, "waiting", target="a/c")
    storage.deliveries.record(delivery, Round(actions=(child,), waits=(wait,)))
    storage.deliveries.record(delivery, Round(outcome=NEXT))
    again = claim_one(storage, clock.now_ms(), worker, only="a", workflows=BOTH)
    running = claim_one(storage, clock.now_ms(), worker)

    storage.deliveries.record(running, Round(outcome=Completed("1")))

    assert storage.deliveries.nudged(worker) == []
    assert storage.deliveries.record(again, Round(outcome=Suspended())).outcome == Suspended(None)


def test_the_id_stays_taken_and_a_wake_is_kept_in_the_window(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """case 244; spec C7, E3: there is no moment at which the ID is free."""
    storage.executions.request_wake("a", clock.now_ms() - 50)
    storage.deliveries.record(delivery, Round(outcome=NEXT))

    with pytest.raises(ExecutionIdConflict):
        storage.executions.admit(workflow_id="w", execution_id="a")

    record = storage.executions.get("a")
    assert record is not None
    assert record.due_at == clock.now_ms() - 50


def test_a_cancellation_in_the_window_reaches_the_next_incarnation(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """case 249; spec C6: the request survives continue-as-new, before it and after it."""
    assert storage.steering.cancel("a", reason="enough") == "requested"
    asked = clock.now_ms()
    storage.deliveries.record(delivery, Round(outcome=NEXT))
    clock.advance(5)
    assert storage.steering.cancel("a", reason="again") == "requested"

    again = claim_one(storage, clock.now_ms(), worker, workflows=BOTH)

    look = storage.deliveries.look(again, queues={})
    assert look.cancel == CancelRequested(asked, "enough")
    ended = storage.deliveries.record(again, Round(told=True, outcome=CancelledOutcome("enough")))
    assert ended.outcome == CancelledOutcome("enough")


def test_deaths_problems_and_needs_are_the_old_ones(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec L5, O5, E12: something new was recorded; problems and needs were the old one's."""
    storage.deliveries.record(delivery, Round(outcome=Suspended(5), needs=("gpu",)))
    for _ in range(2):
        claim_one(storage, clock.now_ms(), worker)
        storage.workers.bury(worker, "died", {delivery.number: 0}, max_deaths=5)
        clock.advance(10_000)
        worker = new_worker(storage, clock.now_ms())
    (dying,) = claim(storage, clock.now_ms(), worker, suspects=True)
    assert dying.deaths == 2

    storage.deliveries.record(dying.delivery, Round(outcome=NEXT))

    record = storage.executions.get("a")
    assert record is not None
    assert (record.deaths, record.problem, record.needs) == (0, None, ())
    assert ids(claim(storage, clock.now_ms(), worker, workflows=BOTH)) == ["a"]


def test_a_switch_is_not_held_up_by_what_is_ready(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec C7: the function has ended; what it no longer awaits is the next one's to read."""
    wait = Wait("message", "q", "", 5, None, "waiting", queue="q")
    storage.inbox.send("a", "q", "1", ttl_ms=9)

    recorded = storage.deliveries.record(delivery, Round(waits=(wait,), outcome=NEXT))

    assert (recorded.outcome, recorded.ready) == (NEXT, False)
