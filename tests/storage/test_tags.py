"""What needs a worker with a tag: due for those at once, for others by its wakes (spec O5)."""

from __future__ import annotations

import pytest

from tests.storage.kit import WORKFLOWS, admit, claim, claim_one, entry, ids, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.model import Completed, Delivery, Round, Suspended, Wait
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

FAR = 10**14


@pytest.fixture
def worker(storage: SqliteStorage, clock: ManualClock) -> int:
    return new_worker(storage, clock.now_ms())


@pytest.fixture
def delivery(storage: SqliteStorage, clock: ManualClock, worker: int) -> Delivery:
    """The open first delivery of the execution a."""
    admit(storage, "a")
    return claim_one(storage, clock.now_ms(), worker)


def needs(
    storage: SqliteStorage, delivery: Delivery, *tags: str, due_at: int | None = None
) -> None:
    changes = Round(outcome=Suspended(due_at), needs=tags)
    assert storage.deliveries.record(delivery, changes).outcome == Suspended(due_at)


def test_a_need_is_due_at_once_for_a_worker_with_one_of_the_tags(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec O5: and for no other, whatever tags that one has."""
    needs(storage, delivery, "gpu", "ssd")
    now = clock.now_ms()

    for others in ((), ("tape",), ("GPU",)):
        assert storage.deliveries.next_due(WORKFLOWS, tags=others) is None
        assert claim(storage, now, worker, tags=others) == []
        assert claim(storage, now, worker, tags=others, only="a") == []
        assert storage.executions.claim_due(now, tags=others) == []

    assert storage.deliveries.next_due(WORKFLOWS, tags=("tape", "ssd")) == now
    assert ids(claim(storage, now, worker, tags=("tape", "ssd"))) == ["a"]
    assert storage.deliveries.next_due(WORKFLOWS, tags=("gpu",)) is None


@pytest.mark.parametrize("how", ["only", "without a worker"])
def test_every_kind_of_claim_knows_tags(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery, how: str
) -> None:
    """spec E7, O5."""
    needs(storage, delivery, "gpu", due_at=FAR)

    if how == "only":
        found = ids(claim(storage, clock.now_ms(), worker, tags=("gpu",), only="a"))
    else:
        found = ids(storage.executions.claim_due(clock.now_ms(), tags=("gpu",)))

    assert found == ["a"]


def test_others_are_due_for_its_ordinary_wakes(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec O5: they apply what came, and suspend with what is needed then."""
    needs(storage, delivery, "gpu", due_at=clock.now_ms() + 10)
    clock.advance(10)

    again = claim_one(storage, clock.now_ms(), worker)
    needs(storage, again, "tape")

    record = storage.executions.get("a")
    assert record is not None
    assert (record.needs, record.due_at) == (("tape",), None)
    assert claim(storage, clock.now_ms(), worker, tags=("gpu",)) == []
    assert ids(claim(storage, clock.now_ms(), worker, tags=("tape",))) == ["a"]


def test_a_need_ends_with_the_next_suspension_or_end(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec O5: it is what that suspension said, and stays to see while a delivery runs."""
    needs(storage, delivery, "gpu")
    again = claim_one(storage, clock.now_ms(), worker, tags=("gpu",))
    running = storage.executions.get("a")
    needs(storage, again, due_at=5)
    without = storage.executions.get("a")
    third = claim_one(storage, clock.now_ms(), worker)
    needs(storage, third, "gpu")
    last = claim_one(storage, clock.now_ms(), worker, tags=("gpu",))
    storage.deliveries.record(last, Round(outcome=Completed("1")))
    over = storage.executions.get("a")

    assert [r.needs for r in (running, without, over) if r is not None] == [("gpu",), (), ()]


def test_a_lost_claim_by_tag_is_due_again(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec E8: as any other; whoever comes first finds out what is needed by then."""
    needs(storage, delivery, "gpu", due_at=FAR)
    since = clock.now_ms()
    for _ in range(2):
        clock.advance(10**6)
        worker = new_worker(storage, clock.now_ms())
        lost = claim_one(storage, clock.now_ms(), worker, tags=("gpu",))
        record = storage.executions.get("a")
        assert record is not None
        assert (record.due_at, record.covered_due_at) == (None, since)
    storage.executions.release(lost)

    assert storage.deliveries.next_due(WORKFLOWS) == since
    assert ids(claim(storage, clock.now_ms(), worker)) == ["a"]


def test_claims_by_tag_and_others_come_oldest_first_and_once(
    storage: SqliteStorage, clock: ManualClock, worker: int
) -> None:
    """spec E7: what is due anyway and by its tag is one claim, and a limit counts all."""
    for name in ("both", "tagged", "plain"):
        admit(storage, name)
        delivery = claim_one(storage, clock.now_ms(), worker, only=name)
        wanted = () if name == "plain" else ("gpu",)
        needs(storage, delivery, *wanted, due_at=None if name == "tagged" else clock.now_ms())
        clock.advance(1)

    first = claim(storage, clock.now_ms(), worker, tags=("gpu",), limit=2)
    rest = claim(storage, clock.now_ms(), worker, tags=("gpu",))

    assert (ids(first), ids(rest)) == (["both", "tagged"], ["plain"])


def test_a_lapsed_lease_and_a_need_are_claimed_together(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec E7, L2: whatever is due, each once and in one order."""
    needs(storage, delivery, "gpu")
    for name in ("b", "c", "d"):
        admit(storage, name)
    claim_one(storage, clock.now_ms(), worker, only="b")
    both = claim_one(storage, clock.now_ms(), worker, only="c")
    needs(storage, both, "gpu", due_at=clock.now_ms())
    clock.advance(10**6)
    later = new_worker(storage, clock.now_ms())

    found = claim(storage, clock.now_ms(), later, tags=("gpu",))

    assert ids(found) == ["a", "b", "c", "d"]


def test_what_is_held_or_suspect_is_not_claimed_by_its_tag(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec E12, L5: a tag ends no hold."""
    needs(storage, delivery, "gpu")
    held = claim_one(storage, clock.now_ms(), worker, tags=("gpu",))
    until = clock.now_ms() + 500
    storage.executions.release(held, problem=("X", "y"), held=True, held_until=until)

    assert claim(storage, clock.now_ms(), worker, tags=("gpu",)) == []
    assert storage.deliveries.next_due(WORKFLOWS, tags=("gpu",)) == until
    assert claim(storage, until, worker, tags=("gpu",), suspects=True) == []
    assert ids(claim(storage, until, worker, tags=("gpu",))) == ["a"]


def test_an_event_makes_what_needs_a_tag_due_for_everybody(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """spec O5, M4: its ordinary wakes are those of any execution."""
    wait = Wait("message", "q", "", 5, None, "waiting", queue="q")
    changes = Round(entries=(entry(0),), waits=(wait,), outcome=Suspended(), needs=("gpu",))
    storage.deliveries.record(delivery, changes)

    storage.inbox.send("a", "q", "1", ttl_ms=9)

    assert ids(claim(storage, clock.now_ms(), worker)) == ["a"]


def test_a_resident_is_claimed_without_reading_its_waits(
    storage: SqliteStorage, clock: ManualClock, worker: int, delivery: Delivery
) -> None:
    """B97: who kept the coroutine knows what it waits for."""
    wait = Wait("timer", "t", "1d", 5, FAR, "waiting")
    changes = Round(entries=(entry(0),), waits=(wait,), outcome=Suspended(5))
    storage.deliveries.record(delivery, changes)

    (resident,) = claim(storage, clock.now_ms(), worker, known=lambda n, incarnation: 1)
    storage.executions.release(resident.delivery)
    (replayed,) = claim(storage, clock.now_ms(), worker, known=lambda n, incarnation: 0)

    assert (resident.waits, resident.history) == ((), ())
    assert (replayed.waits, replayed.history) == ((wait,), (entry(0),))
