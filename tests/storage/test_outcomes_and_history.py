"""What rounds write and outcomes keep, on SQLite beyond RFC 001's rows."""

from __future__ import annotations

import pytest

from tests.storage.kit import admit, claim, claim_one, entry, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import StaleDelivery
from yieldstar_cli.model import (
    Attempt,
    CancelledOutcome,
    Completed,
    Delivery,
    Failed,
    LogLine,
    Recorded,
    Retry,
    Round,
    Suspended,
    Wait,
)
from yieldstar_cli.storage.sqlite.storage import SqliteStorage


@pytest.fixture
def worker(storage: SqliteStorage, clock: ManualClock) -> int:
    return new_worker(storage, clock.now_ms())


@pytest.fixture
def delivery(storage: SqliteStorage, clock: ManualClock, worker: int) -> Delivery:
    """An open delivery of execution "a"."""
    admit(storage, "a")
    return claim_one(storage, clock.now_ms(), worker)


def failed_try(attempt: int, *, how: str = "error", kind: str = "step") -> Attempt:
    return Attempt(
        "pay", kind, attempt, attempt * 10, attempt * 10 + 5, how, '"boom"', attempt * 100
    )


def wait(
    step_key: str, due_at: int | None = None, state: str = "waiting", position: int = 0
) -> Wait:
    return Wait("timer", step_key, "10m", 5, due_at, state, position=position)


def test_a_round_is_one_commit_with_its_outcome(storage: SqliteStorage, delivery: Delivery) -> None:
    """case 69; design: last step result and outcome ride together."""
    outcome = Completed('{"receipt":1}')
    history = (entry(0, at=10), entry(1, at=20, withdrawn=True, label="l", started_at=9))

    recorded = storage.deliveries.record(
        delivery,
        Round(
            entries=history, logs=(LogLine(0, 3, 20, "hi"),), status_value='"50%"', outcome=outcome
        ),
    )

    record = storage.executions.get("a")
    assert record is not None
    assert recorded == Recorded(outcome)
    assert record.outcome == outcome
    assert storage.reader.history(delivery.number, 1) == list(history)
    assert storage.reader.logs(delivery.number) == [LogLine(0, 3, 20, "hi")]
    assert (record.operations, record.status_value_json) == (2, '"50%"')


def test_an_open_round_keeps_the_delivery(storage: SqliteStorage, delivery: Delivery) -> None:
    """spec R4: without an outcome nothing ends; later rounds follow on."""
    for position in range(3):
        changes = Round(entries=(entry(position, at=position),))
        assert storage.deliveries.record(delivery, changes) == Recorded()

    record = storage.executions.get("a")
    assert record is not None
    assert (record.status, record.operations) == ("admitted", 3)
    assert record.delivery is not None


@pytest.mark.parametrize("position", [0, 2, 7])
def test_a_gap_in_the_history_is_never_written(
    storage: SqliteStorage, delivery: Delivery, position: int
) -> None:
    """invariant I7: entries follow one another; a round that does not fit changes nothing."""
    storage.deliveries.record(delivery, Round(entries=(entry(0),)))
    before = storage.db.rows("SELECT * FROM executions")

    with pytest.raises(AssertionError, match="follow"):
        storage.deliveries.record(delivery, Round(entries=(entry(position),)))

    assert storage.db.rows("SELECT * FROM executions") == before
    assert storage.reader.history(delivery.number, 1) == [entry(0)]


def test_a_late_round_of_a_terminal_execution_is_told_its_outcome(
    storage: SqliteStorage, clock: ManualClock, delivery: Delivery, worker: int
) -> None:
    """case 99; spec E10: checked at every commit; nothing of the round is written."""
    outcome = CancelledOutcome("not wanted")
    storage.executions.acknowledge(delivery, outcome)

    recorded = storage.deliveries.record(delivery, Round(entries=(entry(0),), waits=(wait("t"),)))

    assert recorded == Recorded(outcome)
    assert storage.reader.history(delivery.number, 1) == []
    assert storage.reader.waits(delivery.number) == []
    assert claim(storage, clock.now_ms(), worker) == []


def test_a_dead_delivery_writes_no_row_anywhere(
    storage: SqliteStorage, clock: ManualClock, delivery: Delivery, worker: int
) -> None:
    """cases 70, 72; G5: entries, attempts, logs, waits, status: refused together."""
    storage.executions.release(delivery)
    claim_one(storage, clock.now_ms(), worker)
    everything = Round(
        entries=(entry(0),),
        attempts=(failed_try(1),),
        logs=(LogLine(0, 0, 20, "x"),),
        status_value='"x"',
        waits=(wait("t"),),
        outcome=Completed("1"),
    )
    before = storage.db.rows("SELECT * FROM executions")

    with pytest.raises(StaleDelivery) as refused:
        storage.deliveries.record(delivery, everything)

    assert refused.value.code == "STALE_DELIVERY"
    assert storage.db.rows("SELECT * FROM executions") == before
    for table in ("history", "attempts", "logs", "waits", "retries"):
        assert storage.db.rows(f"SELECT count(*) FROM {table}") == [(0,)]


@pytest.mark.parametrize(
    "outcome",
    [
        Completed("null"),
        Completed('{"a":[1,2.5,null]}'),
        Failed('{"name":"E","message":"' + "m" * 1_000_000 + '"}'),
        Failed('"\\u001b[2J \\ud800"'),
        CancelledOutcome(None),
        CancelledOutcome("a\0b 🧀"),
    ],
)
def test_an_outcome_comes_back_as_it_was(
    storage: SqliteStorage,
    clock: ManualClock,
    delivery: Delivery,
    outcome: Completed | Failed | CancelledOutcome,
) -> None:
    """cases 95, 96, 103, 105, 106: null is a result; long and odd texts stay exact."""
    storage.executions.acknowledge(delivery, outcome)

    for _ in range(50):
        clock.advance(1)
        record = storage.executions.get("a")
        assert record is not None
        assert record.outcome == outcome


def test_the_first_outcome_outlives_a_thousand_others(
    storage: SqliteStorage, delivery: Delivery
) -> None:
    """cases 97, 98; invariant I4: the bytes of the record stay the same."""
    storage.executions.acknowledge(delivery, Completed("1"))
    before = storage.db.rows("SELECT * FROM executions")

    for n in range(1_000):
        other = (Suspended(n), Failed(str(n)), Completed(str(n)), CancelledOutcome())[n % 4]
        assert storage.executions.acknowledge(delivery, other) == Completed("1")

    assert storage.db.rows("SELECT * FROM executions") == before


def test_a_terminal_record_is_quiet(storage: SqliteStorage, delivery: Delivery) -> None:
    """invariant I5; B35: no wake, lease, wait or retry is left."""
    storage.deliveries.record(
        delivery, Round(attempts=(failed_try(1),), waits=(wait("t", 500), wait("u")))
    )
    storage.executions.request_wake("a", 900)

    storage.executions.acknowledge(delivery, Failed('"e"'))

    record = storage.executions.get("a")
    assert record is not None
    assert (record.due_at, record.covered_due_at, record.delivery) == (None, None, None)
    assert storage.reader.waits(delivery.number) == []
    assert storage.db.rows("SELECT count(*) FROM retries") == [(0,)]
    assert len(storage.reader.attempts(delivery.number, 1)) == 1


def test_a_failing_transaction_keeps_everything_as_it_was(
    storage: SqliteStorage, delivery: Delivery
) -> None:
    """case 68: lease, steps and wakes exactly as before, and the same delivery goes on."""
    before = storage.db.rows("SELECT * FROM executions")

    def fail_after_writing() -> None:
        with storage.atomic():
            storage.deliveries.record(delivery, Round(entries=(entry(0),), outcome=Completed("1")))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_writing()

    assert storage.db.rows("SELECT * FROM executions") == before
    assert storage.reader.history(delivery.number, 1) == []
    assert storage.executions.acknowledge(delivery, Completed("2")) == Completed("2")


def test_attempts_add_up_and_end_with_the_resolution(
    storage: SqliteStorage, clock: ManualClock, delivery: Delivery, worker: int
) -> None:
    """spec O1: recorded retries survive; the resolution ends them, the tries stay to see."""
    storage.deliveries.record(delivery, Round(attempts=(failed_try(1), failed_try(2))))
    storage.executions.acknowledge(delivery, Suspended(clock.now_ms()))

    (again,) = claim(storage, clock.now_ms(), worker)

    assert again.retries == (Retry("pay", "step", attempts=2, errors=2, retry_at=200),)
    storage.deliveries.record(
        again.delivery, Round(entries=(entry(0, "pay", attempt=3),), outcome=Suspended(0))
    )
    (last,) = claim(storage, clock.now_ms(), worker)
    assert last.retries == ()
    assert storage.reader.attempts(delivery.number, 1) == [failed_try(1), failed_try(2)]


def test_an_empty_poll_uses_up_an_attempt_and_is_no_error(
    storage: SqliteStorage, clock: ManualClock, delivery: Delivery, worker: int
) -> None:
    """operations table, `poll`: falsy results are attempts, not errors."""
    tries = [failed_try(n, how="empty", kind="poll") for n in (1, 2)] + [failed_try(3, kind="poll")]
    storage.deliveries.record(delivery, Round(attempts=tuple(tries), outcome=Suspended(0)))

    (again,) = claim(storage, clock.now_ms(), worker)

    assert again.retries == (Retry("pay", "poll", attempts=3, errors=1, retry_at=300),)


def test_the_last_twenty_tries_of_an_operation_are_kept(
    storage: SqliteStorage, delivery: Delivery
) -> None:
    """A poll that runs for months must not fill the file."""
    for n in range(1, 60):
        storage.deliveries.record(delivery, Round(attempts=(failed_try(n),)))

    kept = storage.reader.attempts(delivery.number, 1)

    assert [each.attempt for each in kept] == list(range(40, 60))


def test_waits_are_kept_in_the_order_they_were_named(
    storage: SqliteStorage, delivery: Delivery
) -> None:
    """spec E5: `show` lists what is open; a round adds, changes and takes away what it names."""
    first = (wait("c", 3, position=0), wait("a", position=1), wait("b", 1, position=2))
    storage.deliveries.record(delivery, Round(waits=first))
    assert storage.reader.waits(delivery.number) == list(first)

    second = (wait("b", 9, state="retrying", position=2), wait("d", position=3))
    storage.deliveries.record(delivery, Round(waits=second[::-1], unwait=(("timer", "a"),)))
    assert storage.reader.waits(delivery.number) == [first[0], *second]

    storage.deliveries.record(delivery, Round(entries=(entry(0),)))
    assert storage.reader.waits(delivery.number) == [first[0], *second]
    gone = tuple(("timer", key) for key in "bcdx")
    storage.deliveries.record(delivery, Round(unwait=gone))
    assert storage.reader.waits(delivery.number) == []


def test_of_a_thousand_waits_only_the_one_that_ends_is_written(
    storage: SqliteStorage, delivery: Delivery
) -> None:
    """B97: of a thousand sleepers one wakes, and its row alone is touched."""
    waits = tuple(wait(f"t-{n}", n, position=n) for n in range(1_000))
    storage.deliveries.record(delivery, Round(waits=waits))
    before = storage.db.connection.total_changes()

    storage.deliveries.record(delivery, Round(unwait=(("timer", "t-500"),)))

    # The record's row and the one wait.
    assert storage.db.connection.total_changes() - before == 2
    assert storage.reader.waits(delivery.number) == list(waits[:500] + waits[501:])


def test_log_lines_go_on_counting_over_deliveries(
    storage: SqliteStorage, clock: ManualClock, delivery: Delivery, worker: int
) -> None:
    """spec R7: lines ride on the commit; a replay knows how many there are."""
    lines = tuple(LogLine(n, n, 20, f"line {n}") for n in range(4))
    storage.deliveries.record(delivery, Round(logs=lines[:2], outcome=Suspended(0)))

    (again,) = claim(storage, clock.now_ms(), worker)
    storage.deliveries.record(again.delivery, Round(logs=lines[2:]))

    assert again.log_count == 2
    assert storage.reader.logs(delivery.number) == list(lines)


def test_the_status_value_stays_until_the_next(storage: SqliteStorage, delivery: Delivery) -> None:
    """operations table, `set_status`: a small progress value, kept over rounds without one."""
    storage.deliveries.record(delivery, Round(status_value='"one"'))
    storage.deliveries.record(delivery, Round(entries=(entry(0),)))
    record = storage.executions.get("a")
    assert record is not None
    assert record.status_value_json == '"one"'


def test_moments_never_go_back(storage: SqliteStorage, clock: ManualClock, worker: int) -> None:
    """case 107; spec R7: the last moment and `updated_at` only grow."""
    admit(storage, "a")
    delivery = claim_one(storage, clock.now_ms(), worker)
    storage.deliveries.record(delivery, Round(entries=(entry(0, at=500),)))
    before = storage.executions.get("a")
    clock.advance(-10_000)
    storage.deliveries.record(
        delivery, Round(entries=(entry(1, at=400),), outcome=Suspended(clock.now_ms()))
    )

    (again,) = claim(storage, clock.now_ms(), worker)

    assert again.last_moment == 500
    after = storage.executions.get("a")
    assert before is not None
    assert after is not None
    assert after.updated_at == before.updated_at
    assert after.admitted_at == before.admitted_at


def test_only_the_delivery_s_own_execution_changes(
    storage: SqliteStorage, clock: ManualClock, worker: int
) -> None:
    """case 67; B06: acknowledging one never touches another."""
    for name in ("a", "b", "c"):
        admit(storage, name)
    a, _, c = (each.delivery for each in claim(storage, clock.now_ms(), worker))

    storage.executions.acknowledge(a, Completed("1"))
    storage.executions.release(c, problem=("X", "y"))

    record = storage.executions.get("b")
    assert record is not None
    assert record.delivery is not None
    assert (record.status, record.problem) == ("admitted", None)
