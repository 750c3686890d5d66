"""Rounds of many deliveries written together come to what each written alone comes to (R4, L2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.storage.kit import admit, claim, entry, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import StaleDelivery, YieldstarError
from yieldstar_cli.model import (
    Attempt,
    CancelledOutcome,
    Completed,
    Delivery,
    Failed,
    LogLine,
    Outcome,
    Recorded,
    Round,
    Start,
    Suspended,
    Wait,
)
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.storage.sqlite.writer import GroupWriter

#: More than one statement has places for.
MANY = 300
TABLES = ("history", "attempts", "retries", "waits", "logs", "messages")
RECORDS = """
SELECT execution_id, status, outcome, due_at, covered_due_at, token, acked_token, progress_token,
       claimed_by, claimed_at, acked_at, operations, last_moment, status_value, deaths, updated_at,
       nudged, parent, cancel_told
  FROM executions
 ORDER BY n
"""


class FixedChance:
    """The same chance for everybody, so that files can be compared."""

    def execution_suffix(self) -> str:
        return "00000000"

    def seed(self) -> bytes:
        return bytes(16)


def open_storage(path: Path, clock: ManualClock) -> SqliteStorage:
    return SqliteStorage(path, create=True, clock=clock, chance=FixedChance())


def claimed(storage: SqliteStorage, clock: ManualClock, names: Sequence[str]) -> list[Delivery]:
    """Executions of these names, each under an open delivery, in that order."""
    worker = new_worker(storage, clock.now_ms())
    for name in names:
        admit(storage, name)
    found = claim(storage, clock.now_ms(), worker, limit=len(names))
    return [each.delivery for each in found]


def contents(storage: SqliteStorage) -> list[object]:
    """All that rounds leave in the file."""
    found: list[object] = list(storage.db.connection.execute(RECORDS))
    return found + [
        (table, list(storage.db.connection.execute(f"SELECT * FROM {table}"))) for table in TABLES
    ]


def rounds_of(number: int, now: int) -> Round:
    """The `number`th of many different rounds."""
    waits = (Wait("timer", "t", "1s", now, now + 1_000, "waiting"),)
    attempts = (Attempt("s", "step", 1, now, now, "error", '"boom"', now + 5),)
    child = (Start("c", now, f"child-{number}", "w", 1, "{}"),)
    outcomes: list[Outcome | None] = [
        None,
        Completed("1"),
        Failed('"boom"'),
        CancelledOutcome("why"),
    ]
    kinds = [
        Round(entries=(entry(0, at=now),), outcome=outcomes[number // 8 % 4]),
        Round(entries=(entry(0, at=now), entry(1, at=now + 1)), status_value='"half"'),
        Round(outcome=outcomes[number // 8 % 3 + 1]),
        Round(entries=(entry(0, at=now, attempt=2),), outcome=Suspended(now + 10)),
        Round(entries=(entry(0, at=now, attempt=3),), outcome=Completed("2")),
        Round(waits=waits, outcome=Suspended(now + 1_000)),
        Round(attempts=attempts, logs=(LogLine(0, now, 20, "hi"),)),
        Round(entries=(entry(0, at=now),), actions=child, outcome=Completed("3")),
    ]
    return kinds[number % 8]


def test_many_rounds_at_once_leave_what_one_after_the_other_leave(tmp_path: Path) -> None:
    """spec R4, E9, E10: rounds of every kind, more than one statement takes."""
    clock = ManualClock()
    alone, together = (open_storage(tmp_path / name, clock) for name in ("alone.db", "all.db"))
    names = [f"e-{n}" for n in range(MANY)]
    rounds = [rounds_of(n, clock.now_ms()) for n in range(MANY)]
    given = {store: claimed(store, clock, names) for store in (alone, together)}
    clock.advance(7)

    one_by_one = [alone.deliveries.record(*each) for each in zip(given[alone], rounds, strict=True)]
    at_once = together.deliveries.record_all(list(zip(given[together], rounds, strict=True)))

    assert at_once == one_by_one
    assert contents(together) == contents(alone)
    assert any(r.status_value for r in rounds), "they are of every kind"
    alone.close()
    together.close()


def test_a_dead_token_among_them_is_refused_alone(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """case 56; spec L2: it changes nothing, and keeps nothing from the others."""
    deliveries = claimed(storage, clock, ["a", "b", "c"])
    storage.executions.release(deliveries[1])
    done = Round(entries=(entry(0),), outcome=Completed("1"))

    answers = storage.deliveries.record_all([(each, done) for each in deliveries])

    assert answers[0] == answers[2] == Recorded(Completed("1"))
    assert isinstance(answers[1], StaleDelivery)
    assert [str(status(storage, name)) for name in "abc"] == ["completed", "admitted", "completed"]
    assert storage.reader.history(deliveries[1].number, 1) == []


def test_one_that_ended_elsewhere_is_told_its_outcome(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec E10: the first outcome stands."""
    deliveries = claimed(storage, clock, ["a", "b"])
    storage.steering.cancel("a", reason="enough", now=True)
    done = Round(entries=(entry(0),), outcome=Completed("1"))

    answers = storage.deliveries.record_all([(each, done) for each in deliveries])

    assert answers == [Recorded(CancelledOutcome("enough")), Recorded(Completed("1"))]
    assert storage.reader.history(deliveries[0].number, 1) == []


@pytest.mark.parametrize("broken", [0, 1, 2])
@pytest.mark.parametrize("shared", [False, True], ids=["by itself", "in a batch"])
def test_a_round_that_cannot_be_written_fails_alone(
    storage: SqliteStorage, clock: ManualClock, broken: int, shared: bool
) -> None:
    """spec R2: entries that leave a gap are refused; the other rounds stand."""
    deliveries = claimed(storage, clock, ["a", "b", "c"])
    rounds = [Round(entries=(entry(5 if n == broken else 0),)) for n in range(3)]
    asked = list(zip(deliveries, rounds, strict=True))

    if shared:
        answers = answered_by_a_writer(storage, asked)
    else:
        answers = storage.deliveries.record_all(asked)

    assert [isinstance(answer, YieldstarError) for answer in answers] == [
        n == broken for n in range(3)
    ]
    written = [len(storage.reader.history(each.number, 1)) for each in deliveries]
    assert written == [int(n != broken) for n in range(3)]


def answered_by_a_writer(
    storage: SqliteStorage, asked: list[tuple[Delivery, Round]]
) -> list[Recorded | YieldstarError]:
    answers: list[list[Recorded | YieldstarError]] = []
    errors: list[BaseException | None] = []
    writer = GroupWriter(lambda: SqliteStorage(storage.path), lambda call: call())

    def reply(answer: list[Recorded | YieldstarError], error: BaseException | None) -> None:
        answers.append(answer)
        errors.append(error)

    writer.submit(lambda s: s.deliveries.record_all(asked), reply)
    writer.close()
    assert errors == [None]
    return answers[0]


def test_an_end_among_them_wakes_who_waits_for_it(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec C2: the parent of two children that end in one commit is told of both."""
    parent, *_ = claimed(storage, clock, ["p"])
    now = clock.now_ms()
    starts = tuple(Start(f"c{n}", now, f"c{n}", "w", 1, "{}") for n in (1, 2))
    waits = tuple(
        Wait("child", f"c{n}", "", now, None, "waiting", position=n, target=f"c{n}") for n in (1, 2)
    )
    storage.deliveries.record(parent, Round(actions=starts, waits=waits, outcome=Suspended()))
    worker = new_worker(storage, now, name="w-2")
    children = [each.delivery for each in claim(storage, now, worker)]

    answers = storage.deliveries.record_all(
        [(each, Round(outcome=Completed("1"))) for each in children]
    )

    assert [answer.stirred for answer in answers if isinstance(answer, Recorded)] == [True, True]
    assert [each.delivery.execution_id for each in claim(storage, now, worker)] == ["p"]
    look = storage.deliveries.look(
        claim_of(storage, "p", parent), queues={}, depths=(), statuses=(), stores=()
    )
    assert [end.execution_id for end in look.ended] == ["c1", "c2"]


def test_what_has_happened_for_one_of_them_is_said(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec R10, C6: a request to cancel that came since the claim is answered with "look"."""
    deliveries = claimed(storage, clock, ["a", "b"])
    storage.steering.cancel("a", reason=None)

    answers = storage.deliveries.record_all(
        [(each, Round(entries=(entry(0),))) for each in deliveries]
    )

    assert answers == [Recorded(None, ready=True), Recorded(None)]


def status(storage: SqliteStorage, execution_id: str) -> str:
    record = storage.executions.get(execution_id)
    assert record is not None
    return str(record.status)


def claim_of(storage: SqliteStorage, execution_id: str, delivery: Delivery) -> Delivery:
    """The delivery of an execution as it is now."""
    record = storage.executions.get(execution_id)
    assert record is not None
    return Delivery(execution_id, record.deliveries, delivery.number)
