"""Problems, holds, deaths of workers and poison (spec E12, L3, L5)."""

from __future__ import annotations

import pytest

from tests.storage.kit import LEASE_MS, WORKFLOWS, admit, claim, claim_one, entry, ids, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import StaleDelivery
from yieldstar_cli.model import Completed, Delivery, Held, Problem, Round, Suspended
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.storage.sqlite.workers import pause_ms

MAX_DEATHS = 5


@pytest.fixture
def worker(storage: SqliteStorage, clock: ManualClock) -> int:
    return new_worker(storage, clock.now_ms() + 1_000 * LEASE_MS, name="healthy")


def hold(
    storage: SqliteStorage, clock: ManualClock, worker: int, *, module: str = "m1"
) -> Delivery:
    """Admit "a" and let its delivery end with a fault of the code."""
    admit(storage, "a")
    delivery = claim_one(storage, clock.now_ms(), worker)
    storage.executions.release(
        delivery, problem=("DIVERGED", "not as recorded"), held=True, module=module
    )
    return delivery


def kill(
    storage: SqliteStorage, clock: ManualClock, *, alone: bool = False, how: str = "died"
) -> None:
    """A worker claims "a", runs its code, and dies."""
    doomed = new_worker(storage, clock.now_ms(), name="doomed", alone=alone)
    suspects = storage.executions.get("a").deaths >= 2  # type: ignore[union-attr]
    delivery = claim_one(storage, clock.now_ms(), doomed, suspects=suspects)
    marked = {delivery.number: clock.now_ms()}
    assert storage.workers.bury(doomed, how, marked, max_deaths=MAX_DEATHS) == 1


def held_of(storage: SqliteStorage) -> Held | None:
    record = storage.executions.get("a")
    assert record is not None
    return record.held


# --- problems and holds ------------------------------------------------------------------------


def test_a_problem_is_counted_until_a_delivery_is_acknowledged(
    storage: SqliteStorage, clock: ManualClock, worker: int
) -> None:
    """case 100; spec E12: code, message, first and last seen, count; gone with the next ack."""
    admit(storage, "a")
    start = clock.now_ms()
    for n in range(3):
        delivery = claim_one(storage, clock.now_ms(), worker)
        storage.executions.release(delivery, problem=("DISK_FULL", f"no room {n}"))
        clock.advance(10)

    record = storage.executions.get("a")
    assert record is not None
    assert record.problem == Problem("DISK_FULL", "no room 2", start, start + 20, 3)

    delivery = claim_one(storage, clock.now_ms(), worker)
    storage.executions.release(delivery, problem=("DIVERGED", "other"))
    record = storage.executions.get("a")
    assert record is not None
    assert record.problem == Problem("DIVERGED", "other", start + 30, start + 30, 1)

    delivery = claim_one(storage, clock.now_ms(), worker)
    storage.executions.acknowledge(delivery, Suspended())
    record = storage.executions.get("a")
    assert record is not None
    assert record.problem is None


def test_an_odd_problem_text_is_stored_escaped(
    storage: SqliteStorage, clock: ManualClock, worker: int
) -> None:
    """B84, B85: an error text with a NUL or a surrogate must not lose the error."""
    admit(storage, "a")
    delivery = claim_one(storage, clock.now_ms(), worker)

    storage.executions.release(delivery, problem=("X", "a\0b \ud83d 'x' \"y\""))

    record = storage.executions.get("a")
    assert record is not None
    assert record.problem is not None
    assert record.problem.message == "a\\x00b \\ud83d 'x' \"y\""


def test_a_hold_until_a_moment_ends_then(
    storage: SqliteStorage, clock: ManualClock, worker: int
) -> None:
    """cases 80, 293; spec E12: due, but not claimed before; the wakes keep their time."""
    admit(storage, "a", at=5)
    delivery = claim_one(storage, clock.now_ms(), worker)
    until = clock.now_ms() + 700

    storage.executions.release(
        delivery, problem=("DISK_FULL", "no room"), held=True, held_until=until
    )

    assert held_of(storage) == Held(clock.now_ms(), until, "DISK_FULL")
    assert storage.executions.claim_due(until - 1) == []
    assert storage.deliveries.next_due(WORKFLOWS) == until
    (claimed,) = claim(storage, until, worker)
    assert held_of(storage) is None
    storage.executions.release(claimed.delivery)
    record = storage.executions.get("a")
    assert record is not None
    assert record.due_at == 5


def test_a_fault_of_the_code_is_held_until_an_event(
    storage: SqliteStorage, clock: ManualClock, worker: int
) -> None:
    """spec E12: a message or timer does not end a hold, and so `request_wake` does not."""
    hold(storage, clock, worker)

    storage.executions.request_wake("a", 0)

    assert storage.executions.claim_due(clock.now_ms() + 10**9) == []
    assert storage.deliveries.next_due(WORKFLOWS) is None
    assert held_of(storage) == Held(clock.now_ms(), None, "DIVERGED")


def test_ys_wake_ends_a_hold(storage: SqliteStorage, clock: ManualClock, worker: int) -> None:
    """spec E12: `ys wake` is a wake and the end of the hold."""
    hold(storage, clock, worker)

    assert storage.executions.wake("a") == "requested"

    assert held_of(storage) is None
    assert ids(claim(storage, clock.now_ms(), worker)) == ["a"]


def test_ys_wake_at_lets_the_hold_end_then(
    storage: SqliteStorage, clock: ManualClock, worker: int
) -> None:
    """spec E12: `ys wake --at T`."""
    hold(storage, clock, worker)

    storage.executions.wake("a", clock.now_ms() + 900)

    assert storage.executions.claim_due(clock.now_ms() + 899) == []
    assert ids(storage.executions.claim_due(clock.now_ms() + 900)) == ["a"]


@pytest.mark.parametrize(
    ("module", "after_ms", "ended"),
    [("m1", 0, 0), ("m2", 0, 1), ("m1", 299_999, 0), ("m1", 300_000, 1)],
)
def test_a_code_hold_ends_with_new_code_or_a_late_start(
    storage: SqliteStorage,
    clock: ManualClock,
    worker: int,
    module: str,
    after_ms: int,
    ended: int,
) -> None:
    """spec E12: the module changed, or a worker starts and 5 minutes have passed."""
    hold(storage, clock, worker, module="m1")
    clock.advance(after_ms)

    count = storage.deliveries.end_code_holds(
        clock.now_ms(), {("w", 1): module, ("other", 1): "x"}, quiet_ms=300_000
    )

    assert count == ended
    assert len(claim(storage, clock.now_ms(), worker)) == ended


def test_code_holds_of_other_workflows_and_timed_holds_stay(
    storage: SqliteStorage, clock: ManualClock, worker: int
) -> None:
    """spec E12: only the holds that the changed module caused end."""
    hold(storage, clock, worker)
    admit(storage, "b")
    delivery = claim_one(storage, clock.now_ms(), worker)
    storage.executions.release(
        delivery, problem=("DISK_FULL", "x"), held=True, held_until=clock.now_ms() + 5_000
    )

    assert storage.deliveries.end_code_holds(clock.now_ms(), {("w", 2): "m2"}, quiet_ms=0) == 0
    assert storage.deliveries.end_code_holds(clock.now_ms(), {("w", 1): "m2"}, quiet_ms=0) == 1
    assert ids(claim(storage, clock.now_ms(), worker)) == ["a"]


# --- deaths and poison ----------------------------------------------------------------------------


def test_the_back_off_doubles_to_five_minutes() -> None:
    """spec E12: at once the first time, then 1 s doubling to 5 min."""
    seconds = [pause_ms(n) / 1_000 for n in range(1, 14)]

    assert seconds == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert pause_ms(10_000) == 300_000


def test_a_worker_that_was_ended_claims_nothing_more(
    storage: SqliteStorage, clock: ManualClock, worker: int
) -> None:
    """spec L2, L3; case 85: it stood still meanwhile; nobody would ever take its claims back."""
    admit(storage, "a")
    stood_still = new_worker(storage, clock.now_ms(), name="stood still")
    storage.workers.bury(stood_still, "lease ended", {}, max_deaths=MAX_DEATHS)

    late = claim(storage, clock.now_ms(), stood_still)

    assert late == []
    assert ids(claim(storage, clock.now_ms(), worker)) == ["a"]


def test_a_dead_worker_s_claims_come_back(
    storage: SqliteStorage, clock: ManualClock, worker: int
) -> None:
    """cases 84, 297; B01, B101; spec L3, L5: the one whose code ran counts a death."""
    for name in ("a", "b"):
        admit(storage, name)
    doomed = new_worker(storage, clock.now_ms(), name="doomed")
    running, begun = (each.delivery for each in claim(storage, clock.now_ms(), doomed))

    count = storage.workers.bury(doomed, "died", {running.number: 1}, max_deaths=MAX_DEATHS)

    assert count == 2
    a, b = storage.executions.get("a"), storage.executions.get("b")
    assert a is not None
    assert b is not None
    assert (a.deaths, b.deaths) == (1, 0)
    assert a.problem is not None
    assert a.problem.code == "WORKER_DIED"
    assert b.problem is None
    assert ids(claim(storage, clock.now_ms(), worker)) == ["a", "b"]
    for delivery in (running, begun):
        (lost,) = storage.reader.lost_deliveries(delivery.number)
        assert (lost.worker, lost.how) == ("doomed", "died")
        with pytest.raises(StaleDelivery):
            storage.executions.acknowledge(delivery, Completed("1"))
    (row,) = [each for each in storage.workers.all() if each.number == doomed]
    assert (row.how, row.stopped_at) == ("died", clock.now_ms())


def test_a_worker_is_buried_once(storage: SqliteStorage, clock: ManualClock) -> None:
    """spec L3: of two that notice a death, one ends the claims; nothing is counted twice."""
    admit(storage, "a")
    doomed = new_worker(storage, clock.now_ms())
    delivery = claim_one(storage, clock.now_ms(), doomed)

    assert storage.workers.bury(doomed, "died", {delivery.number: 1}, max_deaths=1) == 1
    died_at = clock.now_ms()
    clock.advance(500)
    assert storage.workers.bury(doomed, "lease ended", {delivery.number: 1}, max_deaths=1) == 0
    assert storage.workers.stop(doomed, "stopped") == 0
    (row,) = storage.workers.all()
    assert (row.how, row.stopped_at) == ("died", died_at)

    record = storage.executions.get("a")
    assert record is not None
    assert record.deaths == 1


def test_what_recorded_something_new_counts_no_death(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec L5: unless something new was recorded; and that forgives the deaths before it."""
    admit(storage, "a")
    kill(storage, clock)
    doomed = new_worker(storage, clock.now_ms())
    delivery = claim_one(storage, clock.now_ms(), doomed)
    storage.deliveries.record(delivery, Round(entries=(entry(0),)))

    storage.workers.bury(doomed, "died", {delivery.number: 1}, max_deaths=MAX_DEATHS)

    record = storage.executions.get("a")
    assert record is not None
    assert record.deaths == 0
    assert record.held is None


@pytest.mark.parametrize("how", ["lease ended", "rebooted", "stopped"])
def test_other_ends_of_a_worker_count_no_death(
    storage: SqliteStorage, clock: ManualClock, how: str
) -> None:
    """case 298; spec L5: a reboot or a lease that merely ended does not count."""
    admit(storage, "a")

    kill(storage, clock, how=how)

    record = storage.executions.get("a")
    assert record is not None
    assert (record.deaths, record.problem) == (0, None)


def test_a_graceful_stop_gives_the_claims_back_at_once(
    storage: SqliteStorage, clock: ManualClock, worker: int
) -> None:
    """cases 87, 298; spec K2, L5: released, counted for nothing."""
    admit(storage, "a")
    stopping = new_worker(storage, clock.now_ms())
    delivery = claim_one(storage, clock.now_ms(), stopping)

    assert storage.workers.stop(stopping, "stopped") == 1
    assert storage.workers.stop(stopping, "stopped") == 0

    assert not storage.workers.renew(stopping, 10**14)
    assert ids(claim(storage, clock.now_ms(), worker)) == ["a"]
    assert [each.how for each in storage.reader.lost_deliveries(delivery.number)] == ["released"]


def test_claims_handed_back_wait_for_the_process_to_end(
    storage: SqliteStorage, clock: ManualClock, worker: int
) -> None:
    """spec K2: claimable when the kernel frees the lock, so a step never runs in two places."""
    admit(storage, "a")
    leaving = new_worker(storage, clock.now_ms(), name="leaving")
    delivery = claim_one(storage, clock.now_ms(), leaving)

    assert storage.workers.stop(leaving, "handed back") == 1
    assert claim(storage, clock.now_ms(), worker) == []
    assert leaving in {row.number for row in storage.workers.all(living=True)}
    storage.workers.bury(leaving, "died", {delivery.number: 1}, max_deaths=1)

    record = storage.executions.get("a")
    assert record is not None
    assert (record.deaths, record.problem, record.poisoned_at) == (0, None, None)
    assert [x.how for x in storage.reader.lost_deliveries(delivery.number)] == ["handed back"]
    assert ids(claim(storage, clock.now_ms(), worker)) == ["a"]


def test_deaths_are_held_longer_and_longer(storage: SqliteStorage, clock: ManualClock) -> None:
    """spec E12, L5: at once the first time, then with back-off, delivered alone from the second."""
    admit(storage, "a")
    for deaths, pause in ((1, 0), (2, 1_000), (3, 2_000), (4, 4_000)):
        kill(storage, clock, alone=deaths > 2)
        record = storage.executions.get("a")
        assert record is not None
        assert record.deaths == deaths
        assert record.poisoned_at is None
        if pause:
            assert record.held == Held(clock.now_ms(), clock.now_ms() + pause, "WORKER_DIED")
        clock.advance(pause)
    kill(storage, clock, alone=True)
    record = storage.executions.get("a")
    assert record is not None
    assert (record.deaths, record.poisoned_at) == (MAX_DEATHS, clock.now_ms())


def test_a_suspect_is_claimed_only_as_one(
    storage: SqliteStorage, clock: ManualClock, worker: int
) -> None:
    """spec L5: from the second death on it is delivered alone; the healthy ones go on."""
    admit(storage, "a")
    kill(storage, clock)
    kill(storage, clock)
    admit(storage, "b")
    clock.advance(1_000)

    assert storage.deliveries.next_due(WORKFLOWS, suspects=True) == clock.now_ms()
    assert ids(claim(storage, clock.now_ms(), worker)) == ["b"]
    assert storage.deliveries.next_due(WORKFLOWS) is None
    assert ids(claim(storage, clock.now_ms(), worker, suspects=True)) == ["a"]


def test_only_a_death_while_alone_poisons(storage: SqliteStorage, clock: ManualClock) -> None:
    """cases 289, 292, 295; B15; spec L5: parked, not terminal, naming count and cause."""
    admit(storage, "a")
    for _ in range(MAX_DEATHS + 2):
        kill(storage, clock, alone=False)
        clock.advance(300_000)
    record = storage.executions.get("a")
    assert record is not None
    assert record.poisoned_at is None

    kill(storage, clock, alone=True)

    record = storage.executions.get("a")
    assert record is not None
    assert (record.status, record.poisoned_at) == ("admitted", clock.now_ms())
    assert record.deaths == MAX_DEATHS + 3
    assert record.problem is not None
    assert record.problem.count == MAX_DEATHS + 3
    assert storage.executions.claim_due(clock.now_ms() + 10**9) == []
    storage.executions.request_wake("a", 0)
    assert storage.executions.claim_due(clock.now_ms() + 10**9) == []


def test_ys_wake_gives_a_poisoned_one_five_more(
    storage: SqliteStorage, clock: ManualClock, worker: int
) -> None:
    """case 295; spec L5: it never opens a terminal record, and the deaths begin again."""
    admit(storage, "a")
    storage.db.rows("UPDATE executions SET deaths = 5, poisoned_at = 1")

    storage.executions.wake("a")

    record = storage.executions.get("a")
    assert record is not None
    assert (record.deaths, record.poisoned_at, record.held) == (0, None, None)
    assert ids(claim(storage, clock.now_ms(), worker)) == ["a"]


def test_ys_wake_at_holds_a_poisoned_one_until_then(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec E12, L5: its old wakes keep their time, yet it is not claimed before T."""
    admit(storage, "a", at=1)
    storage.db.rows("UPDATE executions SET deaths = 5, poisoned_at = 1")

    storage.executions.wake("a", clock.now_ms() + 60)

    assert storage.executions.claim_due(clock.now_ms() + 59) == []
    assert ids(storage.executions.claim_due(clock.now_ms() + 60)) == ["a"]


def test_a_poisoned_one_holds_up_no_other(
    storage: SqliteStorage, clock: ManualClock, worker: int
) -> None:
    """cases 291, 299; spec L5: others unaffected; `held` and `poisoned_at` are shown."""
    with storage.atomic():
        for n in range(100):
            admit(storage, f"e-{n}")
    storage.db.rows("UPDATE executions SET poisoned_at = 1 WHERE execution_id = 'e-50'")

    claimed = ids(claim(storage, clock.now_ms(), worker, limit=200))

    assert len(claimed) == 99
    assert "e-50" not in claimed


# --- the workers' own rows -------------------------------------------------------------------


def test_a_worker_is_described_by_what_it_loaded(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec E12: `show` and `doctor` derive from names and load errors who could run what."""
    first = new_worker(storage, clock.now_ms(), name="one")
    second = new_worker(storage, clock.now_ms(), name="two", alone=True)
    storage.workers.describe(first, [("w", 1), ("v", 2)], [("bad.py", "SyntaxError: x")])
    storage.workers.stop(second, "stopped")

    two, one = storage.workers.all()
    assert one.workflows == (("w", 1), ("v", 2))
    assert one.broken == (("bad.py", "SyntaxError: x"),)
    assert (one.name, one.how, one.alone) == ("one", None, False)
    assert (two.name, two.how, two.alone) == ("two", "stopped", True)
    assert storage.workers.all(living=True) == [one]


def test_old_workers_are_forgotten(storage: SqliteStorage, clock: ManualClock) -> None:
    """A worker started by cron every minute must not fill the file; numbers stay unique."""
    living = new_worker(storage, clock.now_ms(), name="living")
    with storage.atomic():
        numbers = []
        for _ in range(1_100):
            number = new_worker(storage, clock.now_ms())
            storage.workers.stop(number, "stopped")
            numbers.append(number)

    rows = storage.workers.all()

    assert len(rows) <= 1_002
    assert rows[-1].number == living
    assert len(set(numbers)) == 1_100


def test_an_unknown_worker_is_neither_renewed_nor_buried(storage: SqliteStorage) -> None:
    """case 76: refused, nothing done."""
    assert storage.workers.renew(99, 10**14) is False
    assert storage.workers.stop(99, "handed back") == 0
    assert storage.workers.bury(99, "died", {}, max_deaths=5) == 0
