"""Random nested programs give the same history, outcome and calls whatever crashed when."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.programs import CALLS, program, programs
from yieldstar_cli import codec
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.engine import assembly
from yieldstar_cli.model import Claimed, Delivery, ExecutionRecord
from yieldstar_cli.testing import Bench, Killed
from yieldstar_cli.worker.ports import StepCall

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))


class FixedChance:
    """The same seeds in every run, so that runs can be compared."""

    def __init__(self) -> None:
        self._count = 0

    def execution_suffix(self) -> str:
        return "aaaaaaaa"

    def seed(self) -> bytes:
        self._count += 1
        return bytes([self._count % 256]) * 16


def seen(bench: Bench) -> Any:
    """What must not depend on crashes: history, outcome, log lines, status."""
    record = bench.record("p")
    return (
        [
            (e.position, e.kind, e.step_key, e.ok, stable(e.value), e.at, e.withdrawn)
            for e in bench.history("p")
        ],
        record.status,
        stable(str(record.outcome)),
        [(line.index, line.text) for line in bench.storage.reader.logs(record.number)],
        record.status_value_json,
    )


def stable(text: str) -> str:
    """Error texts without their tracebacks, which name memory addresses and line numbers."""
    return text if '"traceback"' not in text else text.split('"traceback"')[0]


def some_time(call: StepCall) -> int:
    """A duration in virtual milliseconds that hangs on nothing but the step and its attempt."""
    return (sum(call.step_key.encode()) * 7 + call.attempt * 501) % 2_000


def play(
    nodes: Any,
    *,
    workers: int = 1,
    residents: int = 100,
    kill_at: int | None = None,
    duration: Callable[[StepCall], int] | None = None,
    commit_ms: int = 0,
) -> Any:
    """One run of a program; returns what was seen, its calls and how many points it passed."""
    CALLS.clear()
    with Bench(
        program,
        clock=ManualClock(),
        chance=FixedChance(),
        residents=residents,
        duration=duration,
        commit_ms=commit_ms,
    ) as bench:
        bench.admit("program", {"nodes": nodes}, execution_id="p")
        for _ in range(workers):
            bench.start_worker()
        bench.points.kill_at(kill_at)
        killed = False
        try:
            bench.run()
        except Killed:
            killed = True
        if killed:
            bench.crash()
            bench.points.kill_at(None)
            for _ in range(workers):
                bench.start_worker()
            bench.run()
        return seen(bench), Counter(CALLS), list(bench.points.names)


@RELAXED
@given(programs, st.sampled_from([(100, 1), (0, 1), (100, 2)]))
def test_a_crash_at_any_point_changes_nothing(nodes: Any, way: tuple[int, int]) -> None:
    """spec R2, R4, R7; cases 113-115, 125-130, 221-226: history, outcome, calls are the same.

    At every commit and call, with residents, without, and with two workers. A step that was
    interrupted before its record may run again, nothing else.
    """
    reference, calls, points = play(nodes)
    # A branch that awaits itself waits for ever; every other program ends.
    assert reference[1] in ("completed", "suspended")

    residents, workers = way
    for index in range(len(points)):
        again, repeated, passed = play(nodes, residents=residents, workers=workers, kill_at=index)

        assert again == reference, f"killed at {passed[index : index + 1]}"
        assert not calls - repeated
        assert sum((repeated - calls).values()) <= most_interrupted(passed, index)


def most_interrupted(points: list[str], index: int) -> int:
    """How many step calls were under way or unrecorded when the worker was killed at `index`."""
    commits = [
        i
        for i, name in enumerate(points[:index])
        if name.endswith(":after") and name.startswith("commit")
    ]
    since = commits[-1] if commits else 0
    return sum(1 for name in points[since : index + 1] if name.startswith("call"))


@RELAXED
@given(programs)
def test_residents_and_other_workers_change_nothing(nodes: Any) -> None:
    """spec R6; B57, B58: with residents, without, and with two workers alternating."""
    reference, calls, _ = play(nodes)

    assert play(nodes, residents=0)[:2] == (reference, calls)
    assert play(nodes, workers=2)[:2] == (reference, calls)


@RELAXED
@given(programs)
def test_steps_that_take_time_give_the_same_with_residents_and_without(nodes: Any) -> None:
    """spec R4, R6, R10; B58: completions that overlap are applied one by one, alike."""
    reference, calls, _ = play(nodes, duration=some_time)

    assert play(nodes, residents=0, duration=some_time)[:2] == (reference, calls)
    assert play(nodes, workers=2, duration=some_time)[:2] == (reference, calls)


@RELAXED
@given(programs, st.sampled_from([0, 1, 30, 700]), st.booleans())
def test_without_a_fault_each_attempt_is_called_once(
    nodes: Any, commit_ms: int, timed: bool
) -> None:
    """spec R2, R4; promise G4: whatever ends while a commit is under way."""
    _, calls, _ = play(nodes, duration=some_time if timed else None, commit_ms=commit_ms)

    assert not [call for call, count in calls.items() if count > 1]


@RELAXED
@given(programs, st.integers(0, 200), st.integers(0, 200))
def test_what_was_recorded_stays_and_replays_whenever_the_worker_dies(
    nodes: Any, first: int, second: int
) -> None:
    """spec R2, R4, R5; cases 113, 115, 126: steps take time, the worker is killed twice.

    What was recorded before a kill begins the history after it, no recorded step is called
    again, the code never diverges, and the whole history replays to the same outcome.
    """
    CALLS.clear()
    with Bench(program, clock=ManualClock(), chance=FixedChance(), duration=some_time) as bench:
        bench.admit("program", {"nodes": nodes}, execution_id="p")
        for kill_at in (first, second):
            bench.points.reset()
            bench.points.kill_at(kill_at)
            with contextlib.suppress(Killed):
                bench.run()
            before = bench.history("p")
            bench.crash()
            CALLS.clear()
            bench.points.reset()
            bench.run()
            after = bench.history("p")
            done = {entry.step_key for entry in before if entry.kind in ("step", "poll")}

            assert after[: len(before)] == before
            assert not done & {key for _, key, _ in CALLS}

        record = bench.record("p")
        assert record.problem is None
        assert replayed(bench) == outcome_of(record)


def replayed(bench: Bench) -> Any:
    """What a fresh driver makes of the recorded history alone."""
    record = bench.record("p")
    definition = bench.definitions["program", 1]
    claimed = Claimed(
        Delivery("p", 1, record.number),
        "program",
        1,
        record.params_json,
        record.context_json,
        1,
        FixedChance().seed(),
        record.started_at or 0,
        None,
        tuple(bench.history("p")),
        0,
        (),
        0,
        record.operations,
        None,
        0,
    )
    driver = assembly.assemble(definition, claimed)
    driver.seed = seed_of(bench)
    assembly.run(driver, claimed)
    assert driver.fault is None
    outcome = driver.value if driver.finished else None
    driver.drop()
    return outcome


def seed_of(bench: Bench) -> bytes:
    row = bench.storage.db.row("SELECT seed FROM executions", {})
    return bytes(row[0])


def outcome_of(record: ExecutionRecord) -> Any:
    return codec.decode(record.outcome.result) if record.outcome is not None else None
