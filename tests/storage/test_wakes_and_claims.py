"""Wakes, claims, tokens and leases on SQLite, beyond RFC 001's rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.storage.kit import LEASE_MS, WORKFLOWS, admit, claim, claim_one, entry, ids, new_worker
from yieldstar_cli.clock import LAST_MOMENT, ManualClock
from yieldstar_cli.errors import ExecutionNotFound, StaleDelivery
from yieldstar_cli.model import CancelledOutcome, Completed, Delivery, Failed, Round, Suspended
from yieldstar_cli.storage.sqlite.storage import SqliteStorage


@pytest.mark.parametrize("at", [-1, 1.5e300, float("nan"), LAST_MOMENT + 1, "soon", True, None])
def test_a_wake_at_no_moment_is_refused(storage: SqliteStorage, at: int) -> None:
    """case 47: typed refusal, no overflow; the record keeps its due time."""
    admit(storage, "a", at=5)

    with pytest.raises(ValueError, match=r"moment|between|number"):
        storage.executions.request_wake("a", at)

    record = storage.executions.get("a")
    assert record is not None
    assert record.due_at == 5


def test_a_wake_in_the_past_means_now(storage: SqliteStorage, clock: ManualClock) -> None:
    """cases 48, 49: at or before now is due; a moment later is not."""
    admit(storage, "a", at=clock.now_ms() + 100)

    storage.executions.request_wake("a", 0)

    assert ids(storage.executions.claim_due(clock.now_ms())) == ["a"]


def test_a_wake_of_an_execution_admitted_for_later_starts_it_now(storage: SqliteStorage) -> None:
    """spec E6: on an execution admitted for later a wake starts it now."""
    admit(storage, "a", at=10_000)

    assert storage.executions.wake("a", 500) == "requested"

    assert ids(storage.executions.claim_due(500)) == ["a"]


def test_a_wake_neither_resolves_nor_changes_the_record(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """case 44; spec E6: a wake says only "look again"; unknown IDs stay unknown."""
    admit(storage, "a")
    before = storage.executions.get("a")
    clock.advance(50)

    storage.executions.request_wake("a", clock.now_ms())
    with pytest.raises(ExecutionNotFound, match="no execution 'b'"):
        storage.executions.wake("b")

    assert storage.executions.get("a") == before
    assert storage.reader.counts() == {"admitted": 1}


@pytest.mark.parametrize("outcome", [Completed("1"), Failed("{}"), CancelledOutcome("no")])
def test_every_terminal_state_ignores_wakes(
    storage: SqliteStorage, outcome: Completed | Failed | CancelledOutcome
) -> None:
    """cases 45, 46; spec E10: becoming terminal clears what is pending; later: ignored."""
    admit(storage, "a", at=1)
    (delivery,) = storage.executions.claim_due(1)
    storage.executions.request_wake("a", 2)

    storage.executions.acknowledge(delivery, outcome)

    assert storage.executions.request_wake("a", 3) == "ignored"
    assert storage.executions.wake("a") == "ignored"
    record = storage.executions.get("a")
    assert record is not None
    assert (record.due_at, record.covered_due_at, record.delivery) == (None, None, None)


@pytest.mark.parametrize(("own", "asked"), [(None, 7), (5, None), (5, 7), (7, 5), (None, None)])
def test_after_a_suspension_the_earliest_moment_counts(
    storage: SqliteStorage, own: int | None, asked: int | None
) -> None:
    """cases 41, 54; invariant I10; spec E9: own waits and later wakes merge; none is none."""
    admit(storage, "a", at=1)
    (delivery,) = storage.executions.claim_due(1)
    if asked is not None:
        storage.executions.request_wake("a", asked)

    answer = storage.executions.acknowledge(delivery, Suspended(own))

    record = storage.executions.get("a")
    assert record is not None
    expected = min((moment for moment in (own, asked) if moment is not None), default=None)
    assert record.due_at == expected
    assert answer == Suspended(expected)


def test_a_clock_set_back_loses_no_wake(storage: SqliteStorage, clock: ManualClock) -> None:
    """cases 55, 93: kept, and delivered when due."""
    admit(storage, "a")
    due = clock.now_ms()

    clock.advance(-3_600_000)

    assert storage.executions.claim_due(clock.now_ms()) == []
    assert ids(storage.executions.claim_due(due)) == ["a"]


def test_claims_are_fair_to_age_and_admission(storage: SqliteStorage) -> None:
    """case 58: due first, then admission order; the limit is respected and nobody starves."""
    with storage.atomic():
        for n in range(1_000):
            admit(storage, f"e-{n:04d}", at=1_000 - n // 10)

    claimed: list[str] = []
    for _ in range(40):
        batch = ids(storage.executions.claim_due(1_000, limit=25))
        assert len(batch) == 25
        claimed += batch

    assert claimed == [f"e-{n + k:04d}" for n in range(990, -10, -10) for k in range(10)]


def test_tokens_rise_and_are_never_the_same(storage: SqliteStorage) -> None:
    """case 61; invariant I6: each claim has a new token, rising for each execution."""
    admit(storage, "a", at=1)
    tokens = []
    for _ in range(50):
        (delivery,) = storage.executions.claim_due(1)
        tokens.append(delivery.token)
        storage.executions.release(delivery)

    assert tokens == sorted(set(tokens))


def test_a_worker_claims_only_what_it_has_loaded(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """cases 22, 89, 294; B12; spec R11: 2,000 others that are due hide nothing, and stay."""
    now = clock.now_ms()
    worker = new_worker(storage, now)
    with storage.atomic():
        for n in range(2_000):
            storage.executions.admit(workflow_id="unknown", execution_id=f"u-{n}", at=1)
        storage.executions.admit(workflow_id="w", execution_id="old", version=1, at=2)
        storage.executions.admit(workflow_id="w", execution_id="new", version=2, at=3)

    assert ids(claim(storage, now, worker, limit=1)) == ["old"]
    assert ids(claim(storage, now, worker)) == []
    assert storage.deliveries.next_due(WORKFLOWS) is None
    assert storage.deliveries.next_due([("w", 2)]) == 3
    assert storage.reader.find(running=True)[0].execution_id == "old"


def test_a_claim_brings_all_that_a_driver_needs(storage: SqliteStorage, clock: ManualClock) -> None:
    """spec R4, R7: event, seed, history, retries and first claim, read in one transaction."""
    now = clock.now_ms()
    worker = new_worker(storage, now)
    admit(storage, "a", params={"n": 1}, context={"c": 2})

    (first,) = claim(storage, now, worker)
    storage.deliveries.record(
        first.delivery, Round(entries=(entry(0, at=now),), outcome=Suspended(now))
    )
    clock.advance(1_000)
    (second,) = claim(storage, clock.now_ms(), worker)

    assert (first.params_json, first.context_json) == ('{"n":1}', '{"c":2}')
    assert (first.history, first.operations, first.last_moment) == ((), 0, None)
    assert (first.started_at, second.started_at) == (now, now)
    assert first.seed == second.seed
    assert second.history == (entry(0, at=now),)
    assert (second.operations, second.last_moment) == (1, now)
    assert second.delivery.token == first.delivery.token + 1


def test_a_resident_is_given_only_what_it_lacks(storage: SqliteStorage, clock: ManualClock) -> None:
    """spec R6: `known` says how many leading entries the caller has."""
    now = clock.now_ms()
    worker = new_worker(storage, now)
    number = admit(storage, "a")
    delivery = claim_one(storage, now, worker)
    entries = tuple(entry(n, at=now) for n in range(5))
    storage.deliveries.record(delivery, Round(entries=entries, outcome=Suspended(now)))
    asked = []

    def known(record: int, incarnation: int) -> int:
        asked.append((record, incarnation))
        return 3

    (claimed,) = claim(storage, now, worker, known=known)

    assert asked == [(number, 1)]
    assert claimed.first_position == 3
    assert claimed.history == entries[3:]
    assert claimed.operations == 5


def test_a_lease_that_ends_gives_the_claim_to_others(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """cases 59, 60, 75; spec E8, L1, L2: not before its end; the lost delivery is kept."""
    first = new_worker(storage, clock.now_ms(), name="first")
    second = new_worker(storage, clock.now_ms() + 10 * LEASE_MS, name="second")
    number = admit(storage, "a")
    admitted_at = clock.now_ms()
    lost = claim_one(storage, clock.now_ms(), first)
    storage.executions.request_wake("a", clock.now_ms() + 1)

    assert storage.workers.renew(first, clock.now_ms() + LEASE_MS + 500)
    clock.advance(LEASE_MS + 499)
    assert claim(storage, clock.now_ms(), second) == []
    assert storage.deliveries.next_due(WORKFLOWS, worker=second) == clock.now_ms() + 1
    clock.advance(1)
    taken = claim_one(storage, clock.now_ms(), second)

    assert taken.token == lost.token + 1
    (kept,) = storage.reader.lost_deliveries(number)
    assert (kept.token, kept.worker, kept.how) == (lost.token, "first", "lease ended")
    assert (kept.started_at, kept.ended_at) == (admitted_at, clock.now_ms())
    record = storage.executions.get("a")
    assert record is not None
    assert (record.deaths, record.due_at, record.covered_due_at) == (0, None, admitted_at)
    with pytest.raises(StaleDelivery):
        storage.deliveries.record(lost, Round(entries=(entry(0),)))


def test_a_renewal_revives_a_lease_that_nobody_took(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """case 64; spec L2: a lease that ended without a later claim goes on with the next renewal."""
    first = new_worker(storage, clock.now_ms())
    second = new_worker(storage, clock.now_ms() + 10 * LEASE_MS)
    admit(storage, "a")
    delivery = claim_one(storage, clock.now_ms(), first)
    clock.advance(LEASE_MS * 2)

    assert storage.workers.renew(first, clock.now_ms() + LEASE_MS)

    assert claim(storage, clock.now_ms(), second) == []
    assert storage.executions.acknowledge(delivery, Completed("1")) == Completed("1")


def test_a_renewed_lease_covers_a_long_step(storage: SqliteStorage, clock: ManualClock) -> None:
    """case 78; B11, B13: three leases long with renewal: one claim in all; none while it sleeps."""
    first = new_worker(storage, clock.now_ms())
    second = new_worker(storage, clock.now_ms() + 10**9)
    admit(storage, "a")
    delivery = claim_one(storage, clock.now_ms(), first)

    for _ in range(9):
        clock.advance(LEASE_MS // 3)
        assert storage.workers.renew(first, clock.now_ms() + LEASE_MS)
        assert claim(storage, clock.now_ms(), second) == []
    storage.executions.acknowledge(delivery, Suspended(clock.now_ms() + 6 * 3_600_000))

    for _ in range(359):
        clock.advance(60_000)
        assert claim(storage, clock.now_ms(), second) == []
    clock.advance(60_000)
    assert claim_one(storage, clock.now_ms(), second).token == 2


def test_a_worker_never_takes_over_from_itself(storage: SqliteStorage, clock: ManualClock) -> None:
    """spec E8, L4: its own late renewal must not run an execution twice in one process."""
    worker = new_worker(storage, clock.now_ms())
    admit(storage, "a")
    claim_one(storage, clock.now_ms(), worker)

    clock.advance(LEASE_MS * 2)

    assert claim(storage, clock.now_ms(), worker) == []


def test_a_take_over_respects_limit_names_and_age(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec E7, E8: lapsed claims and due executions are one queue, oldest first."""
    first = new_worker(storage, clock.now_ms())
    second = new_worker(storage, clock.now_ms() + 10 * LEASE_MS)
    for n in range(4):
        admit(storage, f"lapsed-{n}", at=10 * n)
    storage.executions.admit(workflow_id="other", execution_id="other", at=1)
    claim(storage, clock.now_ms(), first, workflows=[*WORKFLOWS, ("other", 1)])
    for n in range(4):
        admit(storage, f"due-{n}", at=10 * n + 5)
    clock.advance(LEASE_MS)

    taken = claim(storage, clock.now_ms(), second, limit=5)
    rest = claim(storage, clock.now_ms(), second)

    assert ids(taken) == ["lapsed-0", "due-0", "lapsed-1", "due-1", "lapsed-2"]
    assert ids(rest) == ["due-2", "lapsed-3", "due-3"]


def test_one_named_execution_can_be_claimed_alone(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec L5: `only` names the one to claim, free or lapsed."""
    first = new_worker(storage, clock.now_ms())
    second = new_worker(storage, clock.now_ms() + 10 * LEASE_MS)
    for name in ("a", "b", "c"):
        admit(storage, name)

    assert ids(claim(storage, clock.now_ms(), first, only="b")) == ["b"]
    assert ids(claim(storage, clock.now_ms(), first, only="b")) == []
    clock.advance(LEASE_MS)
    assert ids(claim(storage, clock.now_ms(), second, only="b")) == ["b"]
    assert ids(claim(storage, clock.now_ms(), second)) == ["a", "c"]


@pytest.mark.parametrize("token", [0, 2, -1, 2**40])
def test_an_unknown_token_changes_nothing(
    storage: SqliteStorage, clock: ManualClock, token: int
) -> None:
    """cases 62, 63, 67, 70: refused, and the record is as before."""
    number = admit(storage, "a")
    storage.executions.claim_due(clock.now_ms())
    before = storage.db.rows("SELECT * FROM executions")
    forged = Delivery("a", token, number)

    with pytest.raises(StaleDelivery):
        storage.executions.acknowledge(forged, Completed("1"))
    with pytest.raises(StaleDelivery):
        storage.deliveries.record(forged, Round(entries=(entry(0),), logs=()))
    with pytest.raises(StaleDelivery):
        storage.executions.release(forged)
    with pytest.raises(StaleDelivery, match="'nobody'"):
        storage.executions.acknowledge(Delivery("nobody", 1), Suspended())

    assert storage.db.rows("SELECT * FROM executions") == before
    assert storage.reader.history(number, 1) == []


def test_a_delivery_can_be_named_by_its_id_alone(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """RFC 001: a delivery is an execution ID and a token; the number only saves a look-up."""
    admit(storage, "a")
    (delivery,) = storage.executions.claim_due(clock.now_ms())

    answer = storage.executions.acknowledge(Delivery("a", delivery.token), Completed("1"))

    assert answer == Completed("1")


def test_a_token_is_dead_once_it_was_acknowledged_or_released(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """case 77; spec L2: until acknowledge or release, whichever is first."""
    admit(storage, "a")
    (acked,) = storage.executions.claim_due(clock.now_ms())
    storage.executions.acknowledge(acked, Suspended(clock.now_ms()))
    with pytest.raises(StaleDelivery):
        storage.deliveries.record(acked, Round(entries=(entry(0),)))
    (released,) = storage.executions.claim_due(clock.now_ms())
    storage.executions.release(released)

    for outcome in (Suspended(), Completed("1")):
        with pytest.raises(StaleDelivery):
            storage.executions.acknowledge(released, outcome)


def test_an_answer_that_was_lost_is_given_again(storage: SqliteStorage, clock: ManualClock) -> None:
    """cases 65, 66; spec L2: same token again: first stays, also while a later claim is open."""
    admit(storage, "a")
    (first,) = storage.executions.claim_due(clock.now_ms())
    storage.executions.acknowledge(first, Suspended(clock.now_ms()))
    (second,) = storage.executions.claim_due(clock.now_ms())

    assert isinstance(storage.executions.acknowledge(first, Suspended()), Suspended)
    assert isinstance(storage.executions.acknowledge(first, Completed("2")), Suspended)
    storage.executions.acknowledge(second, Suspended())

    with pytest.raises(StaleDelivery):
        storage.executions.acknowledge(first, Suspended())


def test_a_released_delivery_is_due_again_at_its_old_time(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """cases 79, 87, 298; spec E8, K2: old time, counted for nothing, merged with later wakes."""
    number = admit(storage, "a", at=40)
    (delivery,) = storage.executions.claim_due(clock.now_ms())
    storage.executions.request_wake("a", 90)

    storage.executions.release(delivery, how="handed back")

    record = storage.executions.get("a")
    assert record is not None
    assert (record.due_at, record.covered_due_at, record.deaths) == (40, None, 0)
    assert [lost.how for lost in storage.reader.lost_deliveries(number)] == ["handed back"]


def test_the_last_twenty_lost_deliveries_are_kept(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec E5; B14: start, end and how; `deliveries` counts every claim."""
    number = admit(storage, "a", at=1)
    for _ in range(25):
        (delivery,) = storage.executions.claim_due(clock.now_ms())
        clock.advance(10)
        storage.executions.release(delivery)

    lost = storage.reader.lost_deliveries(number)

    assert [each.token for each in lost] == list(range(6, 26))
    assert all(each.ended_at - each.started_at == 10 for each in lost)
    record = storage.executions.get("a")
    assert record is not None
    assert record.deliveries == 25


def test_an_expired_claim_is_not_shown_as_running(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """B02, B16: `running` asks for claims whose lease has not ended; the record says since when."""
    worker = new_worker(storage, clock.now_ms(), name="gone")
    admit(storage, "a")
    claim_one(storage, clock.now_ms(), worker)
    assert ids_of_running(storage) == ["a"]

    clock.advance(3_600_000)

    assert ids_of_running(storage) == []
    record = storage.executions.get("a")
    assert record is not None
    assert record.delivery is not None
    assert record.delivery.worker == "gone"
    assert record.delivery.expires_at == clock.now_ms() - 3_600_000 + LEASE_MS


def ids_of_running(storage: SqliteStorage) -> list[str]:
    return [record.execution_id for record in storage.reader.find(running=True)]


def test_an_idle_poll_writes_nothing(db_path: Path, clock: ManualClock) -> None:
    """case 91: of an empty or not-due database: file and log are as they were."""
    storage = SqliteStorage(db_path, create=True, clock=clock)
    worker = new_worker(storage, clock.now_ms())
    admit(storage, "later", at=clock.now_ms() + 1)
    before = {file.name: file.read_bytes() for file in db_path.parent.glob("ys.db*")}

    for _ in range(100):
        assert claim(storage, clock.now_ms(), worker) == []
        assert storage.executions.claim_due(clock.now_ms()) == []
        assert storage.deliveries.next_due(WORKFLOWS) == clock.now_ms() + 1

    after = {file.name: file.read_bytes() for file in db_path.parent.glob("ys.db*")}
    assert after["ys.db"] == before["ys.db"]
    assert after["ys.db-wal"] == before["ys.db-wal"]
    storage.close()


def test_a_commit_by_another_is_noticed(db_path: Path, clock: ManualClock) -> None:
    """design: `changes` differs after any commit by anyone else, and not without one."""
    storage = SqliteStorage(db_path, create=True, clock=clock)
    other = SqliteStorage(db_path, clock=clock)
    seen = storage.changes()
    assert storage.changes() == seen

    admit(other, "a")

    assert storage.changes() != seen
    storage.close()
    other.close()


def test_claims_read_an_index_and_not_the_table(storage: SqliteStorage) -> None:
    """B97: the cost of a poll is what is due, not how many executions sleep."""
    from yieldstar_cli.storage.sqlite import claims

    names = (
        "DUE_NUMBERS",
        "CLAIM_TAGGED",
        "CLAIM_ONLY",
        "ENDED_OR_LAPSED",
        "LAPSED",
        "DUE",
        "TAGGED",
    )
    for name in (*names, "TAGGED", "NEXT_DUE", "NEXT_TAGGED", "NEXT_LEASE_END"):
        statement = getattr(claims, name)
        narrow = dict.fromkeys(re.findall(r":(\w+)", statement), 1)
        plan = [row[3] for row in storage.db.rows(f"EXPLAIN QUERY PLAN {statement}", narrow)]
        assert not [step for step in plan if step.startswith("SCAN executions")], plan
        # By tag or not, what is due comes in order: a limit ends the reading.
        sorted_apart = [step for step in plan if "TEMP B-TREE" in step]
        assert not sorted_apart or name == "LAPSED", plan


def test_what_a_round_asks_is_found_by_an_index(storage: SqliteStorage) -> None:
    """B97: the cost of a round is what it writes and what is ready, not what is open."""
    from yieldstar_cli.storage.sqlite import actions, consequences, endings, looks, tokens, waits

    for module in (actions, consequences, endings, looks, tokens, waits):
        for name, sql in vars(module).items():
            if isinstance(sql, str) and name.isupper() and not name.startswith("_"):
                bindings = dict.fromkeys(re.findall(r":(\w+)", sql)) or (None,) * sql.count("?")
                plan = storage.db.rows(f"EXPLAIN QUERY PLAN {sql}", bindings)
                assert [row[3] for row in plan if row[3].startswith("SCAN")] == [], name
