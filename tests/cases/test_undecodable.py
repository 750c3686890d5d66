"""Records that no longer decode: held with a reason, never in the way of others (spec E12)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.helpers import START, MakeRig, Rig, called, keys
from tests.storage.kit import claim, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.engine.authoring import workflow
from yieldstar_cli.engine.step import Step
from yieldstar_cli.errors import UnreadableText
from yieldstar_cli.model import HISTORY_FORMAT, CancelledOutcome
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.testing import Bench

OTHERS = 20
#: A span of bytes that no text has.
NO_TEXT = "CAST(x'80FF' AS TEXT)"
TWICE = (
    "INSERT INTO history SELECT n, incarnation, 1, kind, step_key, ok, value, at, started_at,"
    " attempt, label, withdrawn FROM history WHERE n = 1"
)
ORPHAN = TWICE.replace("step_key", "'orphan'")
COUNTED = "; UPDATE executions SET operations = 2 WHERE n = 1"


def first() -> int:
    return 1


def second(n: int) -> int:
    return n + 1


async def two_steps(step: Step) -> int:
    n = await step.run(first)
    await step.sleep("10m")
    return await step.run(second, n)


@workflow
async def counted(step: Step, count: int) -> int:
    """Its params are its result, after a while."""
    await step.sleep("10m")
    return count + len(step.event.context)


def damaged(x: Rig, statement: str) -> Bench:
    """Twenty healthy ones behind `x`; then a row of `x` is spoilt as a bad disk would."""
    for n in range(OTHERS):
        x.bench.admit("w", execution_id=f"healthy-{n}")
    x.to(1_000)
    x.restart()
    x.bench.storage.db.rows(statement)
    x.bench.run_to(START + 900_000)
    return x.bench


def rows(storage: SqliteStorage, table: str = "history") -> list[Any]:
    """The rows of `x` as bytes, so that they can be read whatever they hold."""
    names = [row[1] for row in storage.db.rows(f"PRAGMA table_info({table})")]
    columns = ", ".join(f"hex({name})" for name in names)
    return storage.db.rows(f"SELECT {columns} FROM {table} WHERE n = 1")


def stands(bench: Bench) -> tuple[Any, ...]:
    """How `x` is held, read without the texts that may be spoilt."""
    return bench.storage.db.rows(
        "SELECT status, outcome, held_code, held_until, claimed_by FROM executions WHERE n = 1"
    )[0]


#: What is spoilt, and the code under which it is held.
DAMAGE = {
    "a result that is no JSON": ("UPDATE history SET value = '{' WHERE n = 1", "UNDECODABLE"),
    "a result of another type": ("UPDATE history SET value = '\"1\"' WHERE n = 1", "UNDECODABLE"),
    "an unknown tag": (
        'UPDATE history SET value = \'{"$ys":"nosuch","v":1}\' WHERE n = 1',
        "UNDECODABLE",
    ),
    "an empty result": ("UPDATE history SET value = '' WHERE n = 1", "UNDECODABLE"),
    "an error that is no JSON": (
        "UPDATE history SET ok = 0, value = 'oops' WHERE n = 1",
        "UNDECODABLE",
    ),
    "an error without a class": (
        "UPDATE history SET ok = 0, value = '[]' WHERE n = 1",
        "UNDECODABLE",
    ),
    "a result that is no text": (
        f"UPDATE history SET value = {NO_TEXT} WHERE n = 1",
        "UNDECODABLE",
    ),
    "a key that is no text": (
        f"UPDATE history SET step_key = {NO_TEXT} WHERE n = 1",
        "UNDECODABLE",
    ),
    "a wait that is no text": (f"UPDATE waits SET label = {NO_TEXT} WHERE n = 1", "UNDECODABLE"),
    "params that are no text": (
        f"UPDATE executions SET params = {NO_TEXT} WHERE n = 1",
        "UNDECODABLE",
    ),
    "a context that is no text": (
        f"UPDATE executions SET context = {NO_TEXT} WHERE n = 1",
        "UNDECODABLE",
    ),
    "a status value that is no text": (
        f"UPDATE executions SET status_value = {NO_TEXT} WHERE n = 1",
        "UNDECODABLE",
    ),
    "a wrong kind": ("UPDATE history SET kind = 'timer' WHERE n = 1", "DIVERGED"),
    "an unknown kind": ("UPDATE history SET kind = 'nosuch' WHERE n = 1", "DIVERGED"),
    "an unknown key": ("UPDATE history SET step_key = 'nosuch' WHERE n = 1", "DIVERGED"),
    "an entry too few": ("DELETE FROM history WHERE n = 1", "UNDECODABLE"),
    "a gap": ("UPDATE history SET position = 3 WHERE n = 1", "UNDECODABLE"),
    "a negative position": ("UPDATE history SET position = -1 WHERE n = 1", "UNDECODABLE"),
    "an entry twice": (TWICE, "UNDECODABLE"),
    "an entry of nobody": (ORPHAN, "UNDECODABLE"),
    "an entry twice, and counted": (
        TWICE + COUNTED,
        "DIVERGED",
    ),
    "an entry of nobody, and counted": (
        ORPHAN + COUNTED,
        "DIVERGED",
    ),
    "an entry of the far future": (
        "UPDATE history SET at = 9223372036854775807 WHERE n = 1",
        "UNDECODABLE",
    ),
    "an entry before time": ("UPDATE history SET at = -1 WHERE n = 1", "UNDECODABLE"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_whatever_is_spoilt_is_held_and_others_go_on(rig: MakeRig, what: str) -> None:
    """cases 90, 141, 296; spec E12: a typed problem, no wrong result, no step, no loop.

    The damaged rows stay as they are.
    """
    statement, code = DAMAGE[what]
    x = rig(two_steps)
    bench = damaged(x, statement)
    before = rows(bench.storage)

    bench.run_to(bench.clock.now_ms() + 86_400_000)

    assert [bench.record(f"healthy-{n}").status for n in range(OTHERS)] == ["completed"] * OTHERS
    assert stands(bench) == ("suspended", None, code, None, None)
    started = [e.step_key for e in bench.events if e.kind == "step_started"]
    assert started.count("first") == 1 + OTHERS
    assert started.count("second") == OTHERS
    assert rows(bench.storage) == before


def test_what_was_put_right_goes_on_after_a_wake(rig: MakeRig) -> None:
    """case 90; spec E12: the hold ends with `ys wake`; nothing ran twice."""
    x = rig(two_steps)
    bench = damaged(x, f"UPDATE history SET value = {NO_TEXT} WHERE n = 1")
    with pytest.raises(UnreadableText, match="not UTF-8"):
        bench.history("x")
    bench.storage.db.rows("UPDATE history SET value = '1' WHERE n = 1")

    bench.storage.executions.wake("x")
    found = x.go()

    assert found.result == 2
    assert keys(found) == ["first", "sleep", "second"]
    assert called(found) == ["first", "second"]
    assert found.record.problem is None


@pytest.mark.parametrize(
    ("column", "text", "code"),
    [
        ("params", "'{'", "INVALID_PARAMS"),
        ("params", "'{}'", "INVALID_PARAMS"),
        ("params", '\'{"count":"many"}\'', "INVALID_PARAMS"),
        ("context", "'{'", "UNDECODABLE"),
        ("context", "'[1]'", "UNDECODABLE"),
    ],
)
def test_an_event_that_no_longer_decodes_is_held(column: str, text: str, code: str) -> None:
    """case 90; spec E4, E12: never the workflow's failure, and put right it completes."""
    with Bench(counted) as bench:
        bench.admit("counted", {"count": 4}, execution_id="x", context={"shop": "berlin"})
        bench.storage.db.rows(f"UPDATE executions SET {column} = {text}")
        bench.run()
        assert stands(bench) == ("admitted", None, code, None, None) or stands(bench) == (
            "suspended",
            None,
            code,
            None,
            None,
        )

        bench.storage.db.rows(
            "UPDATE executions SET params = '{\"count\":4}', context = '{\"shop\":1}'"
        )
        bench.storage.executions.wake("x")
        bench.run()

        assert bench.result("x").result == 5


def test_a_claim_of_a_lost_worker_that_cannot_be_read_is_held(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """case 90; spec E8, E12: also where a lease ended; its wake stays pending."""
    lost = new_worker(storage, clock.now_ms())
    for name in ("a", "b"):
        storage.executions.admit(workflow_id="w", execution_id=name, at=5)
    assert len(claim(storage, clock.now_ms(), lost)) == 2
    storage.db.rows(f"UPDATE executions SET params = {NO_TEXT} WHERE execution_id = 'a'")
    clock.advance(10**9)
    other = new_worker(storage, clock.now_ms())

    claimed = claim(storage, clock.now_ms(), other)

    assert [each.delivery.execution_id for each in claimed] == ["b"]
    assert stands_like(storage) == (5, None, None, "UNDECODABLE")
    assert claim(storage, clock.now_ms(), other) == []


def stands_like(storage: SqliteStorage) -> tuple[Any, ...]:
    return storage.db.rows(
        "SELECT due_at, covered_due_at, claimed_by, held_code FROM executions WHERE n = 1"
    )[0]


def test_a_history_of_a_newer_format_is_left_to_a_worker_that_knows_it(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec R11: not claimed, whichever workflows are loaded; it stays due."""
    worker = new_worker(storage, clock.now_ms())
    for name in ("new", "old"):
        storage.executions.admit(workflow_id="w", execution_id=name)
    storage.db.rows(
        "UPDATE executions SET format = :newer WHERE execution_id = 'new'",
        {"newer": HISTORY_FORMAT + 1},
    )

    claimed = claim(storage, clock.now_ms(), worker)

    assert [each.delivery.execution_id for each in claimed] == ["old"]
    assert storage.deliveries.next_due([("w", 1)]) is None
    assert storage.executions.claim_due(clock.now_ms()) == []
    record = storage.executions.get("new")
    assert record is not None
    assert record.due_at == record.admitted_at


@pytest.mark.parametrize("text", ["'{'", "'[]'", "'{}'", "'7'", '\'{"code":1,"count":"x"}\''])
def test_a_problem_that_no_longer_reads_keeps_nobody_from_the_rest(rig: MakeRig, text: str) -> None:
    """case 90; spec E12: it is told beside the record; the next acknowledgement clears it."""
    x = rig(two_steps)
    x.to(1_000)
    x.bench.storage.db.rows(f"UPDATE executions SET problem = {text} WHERE n = 1")

    told = x.record.problem
    found = x.go()

    assert told is not None
    assert (told.code, told.message) == ("UNDECODABLE", "what was recorded here no longer reads")
    assert found.result == 2
    assert found.record.problem is None


def test_a_reason_that_no_longer_reads_is_shown_as_it_is(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """case 90: a cancelled record stays one that can be shown."""
    storage.executions.admit(workflow_id="w", execution_id="x")
    storage.db.rows(
        "UPDATE executions SET status = 'cancelled', outcome = 'not wanted', due_at = NULL"
    )

    record = storage.executions.get("x")

    assert record is not None
    assert record.outcome == CancelledOutcome("not wanted")
    assert storage.executions.claim_due(clock.now_ms()) == []
