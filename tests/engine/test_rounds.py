"""Deliveries, rounds and commits: what is recorded never runs again (spec R2, R4, R10, E7-E9)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.helpers import START, MakeRig, Rig, called, definition_of, keys, moments
from yieldstar_cli.engine.authoring import workflow
from yieldstar_cli.engine.step import Step
from yieldstar_cli.engine.this_step import this_step
from yieldstar_cli.testing import Bench, Killed
from yieldstar_cli.worker.dispatcher import CLAIM_BATCH
from yieldstar_cli.worker.ports import StepCall

LEDGER: list[str] = []


def note(value: Any = None) -> Any:
    LEDGER.append(f"{this_step().execution_id} {this_step().step_key}")
    return value


def give(value: Any = None) -> Any:
    return value


@pytest.fixture(autouse=True)
def _empty_ledger() -> None:
    LEDGER.clear()


async def three_steps(step: Step) -> list[Any]:
    first = await step.run(note, 1)
    await step.sleep("1m")
    return [first, await step.run(note, 2), await step.run(note, 3)]


def commits(x: Rig) -> int:
    return len([n for n in x.bench.points.names if n.startswith("commit") and "after" in n])


# --- nothing runs twice -----------------------------------------------------------------------


def test_a_recorded_step_never_runs_again_in_a_hundred_redeliveries(rig: MakeRig) -> None:
    """case 113; spec R2: replayed from the top each time, without residents."""
    x = rig(three_steps, residents=0)
    for n in range(100):
        x.to(100 + n)
        x.bench.storage.executions.request_wake("x", x.bench.clock.now_ms())
        if n % 10 == 0:
            x.restart()
    found = x.go()

    assert found.result == [1, 2, 3]
    assert found.record.deliveries > 90
    assert LEDGER == ["x note", "x note#2", "x note#3"]


def test_a_crash_at_every_point_runs_only_the_interrupted_step_again(rig: MakeRig) -> None:
    """cases 114, 115, B74; spec R2, R4: before the record it runs again, after it never."""
    reference = rig(three_steps)
    outcome = reference.go().record.outcome
    names = list(reference.bench.points.names)
    history = [(e.step_key, e.value, e.at) for e in reference.history]
    for index, name in enumerate(names):
        LEDGER.clear()
        x = rig(three_steps)
        x.bench.points.kill_at(index)
        with pytest.raises(Killed):
            x.go()
        x.bench.points.reset()
        x.restart()
        x.go()

        assert x.record.outcome == outcome, name
        assert [(e.step_key, e.value, e.at) for e in x.history] == history, name
        again = len(LEDGER) - 3
        began = name.startswith("call") and name.endswith(":after")
        unrecorded = name.startswith("commit") and name.endswith(":before")
        assert again == (1 if began else again if unrecorded else 0), name
        assert 0 <= again <= 1, name


def test_an_interrupted_step_has_the_same_key_and_number(rig: MakeRig) -> None:
    """case 114; spec K2: documented at-least-once."""
    x = rig(three_steps)
    x.bench.points.kill_at(name="call:note:after")
    with pytest.raises(Killed):
        x.go()
    x.bench.points.reset()
    x.restart()
    found = x.go()

    assert found.calls[:2] == (("note", 1), ("note", 1))
    assert LEDGER[:2] == ["x note", "x note"]


def test_a_step_error_is_replayed_without_running(rig: MakeRig) -> None:
    """case 116: the same name and message."""

    def breaks() -> None:
        LEDGER.append("ran")
        raise LookupError("widget")

    async def w(step: Step) -> str:
        try:
            await step.run(breaks)
        except LookupError as error:
            await step.sleep("1h")
            return repr(error)
        return ""

    x = rig(w)
    x.to(60_000)
    x.restart()

    assert x.go().result == "LookupError('widget')"
    assert LEDGER == ["ran"]


# --- commits ----------------------------------------------------------------------------------


def test_no_step_starts_before_what_led_to_it_is_durable(rig: MakeRig) -> None:
    """spec R2: seen from inside each step, the file holds all that went before."""
    seen: list[list[str]] = []

    def look(n: int) -> int:
        seen.append([e.step_key for e in x.history])
        return n

    async def w(step: Step) -> None:
        await step.run(look, 1)
        step.patched("p")
        await step.sleep("1s")
        await step.run(look, 2)
        await step.all([step.run(look, 3), step.run(look, 4)])

    x = rig(w)
    x.go()

    assert seen == [
        [],
        ["look", "p", "sleep"],
        ["look", "p", "sleep", "look#2"],
        ["look", "p", "sleep", "look#2"],
    ]


def test_steps_one_after_the_other_cost_one_commit_each(rig: MakeRig) -> None:
    """spec R4, design: the last result rides with the outcome; a claim is the only other one."""

    async def w(step: Step) -> int:
        for n in range(10):
            await step.run(give, n)
        return 1

    x = rig(w)
    x.go()

    assert commits(x) == 1 + 10


def test_steps_that_return_together_share_a_commit(rig: MakeRig) -> None:
    """spec R4: one round collects what has happened."""

    async def w(step: Step) -> int:
        await step.all([step.run(give, n) for n in range(50)])
        return 1

    x = rig(w)
    x.go()

    assert commits(x) <= 4


def test_a_delivery_that_finds_nothing_ready_suspends_alike(rig: MakeRig) -> None:
    """spec R4, E6: the same waits and moments, no entry."""

    async def w(step: Step) -> None:
        await step.select(step.timer("1h"), step.timer("2h"))

    x = rig(w)
    first = x.to(1_000).record
    waits = x.bench.storage.reader.waits(first.number)
    x.restart()
    x.bench.storage.executions.request_wake("x", START + 2_000)
    second = x.to(3_000).record

    assert second.deliveries == 2
    assert second.due_at == first.due_at
    assert x.bench.storage.reader.waits(first.number) == waits


# --- waits are live while steps run -----------------------------------------------------------


def test_a_timer_fires_while_a_step_runs(rig: MakeRig) -> None:
    """spec R10: it is applied at its moment, in the same delivery."""

    async def w(step: Step) -> list[float]:
        slow = step.spawn(step.using(key="slow").run(give))
        seen = []
        for _ in range(3):
            await step.sleep("1s")
            seen.append(step.now().timestamp() * 1000 - START)
        await slow
        return seen

    x = rig(w, duration=lambda call: 10_000)
    found = x.go()

    assert found.result == [1_000, 2_000, 3_000]
    assert moments(found) == [1_000, 2_000, 3_000, 10_000]
    assert found.record.deliveries == 1


def test_the_waits_of_a_running_delivery_are_in_the_file(rig: MakeRig) -> None:
    """spec R10, E5: registered while steps run; gone once they ended."""

    async def w(step: Step) -> None:
        slow = step.spawn(step.using(key="slow").run(give))
        await step.select(slow, step.timer("1h"))

    x = rig(w, duration=lambda call: 10_000)
    x.to(5_000)
    assert [w.step_key for w in x.bench.storage.reader.waits(x.record.number)] == ["timer"]
    x.go()
    assert x.bench.storage.reader.waits(x.record.number) == []


def test_a_wake_during_a_delivery_is_due_after_it(rig: MakeRig) -> None:
    """spec E9: later wakes merge apart and are not covered."""

    async def w(step: Step) -> None:
        await step.run(give)
        await step.sleep("1h")

    x = rig(w, duration=lambda call: 10_000)
    x.to(5_000)
    x.bench.storage.executions.request_wake("x", START + 20_000)
    x.to(15_000)
    assert x.record.due_at == START + 20_000
    x.to(25_000)

    assert x.record.deliveries == 2
    assert x.record.due_at == START + 3_610_000


def test_after_a_crash_a_timer_that_is_due_beats_the_second_run_of_a_step(rig: MakeRig) -> None:
    """spec R10: it looks at its waits before it starts any step."""

    async def w(step: Step) -> str:
        work = step.spawn(step.run(note, 1))
        won = await step.select(work, step.timer("10s"))
        return "work" if won is work else "timer"

    x = rig(w, duration=lambda call: 60_000)
    x.to(5_000)
    x.restart()
    x.bench.clock.set(START + 20_000)
    found = x.go()

    assert found.result == "timer"
    assert LEDGER == []


# --- many -------------------------------------------------------------------------------------


@workflow
async def small(step: Step, n: int) -> int:
    """One step and one sleep."""
    value: int = await step.run(give, n)
    await step.sleep("1s")
    return value


def test_more_than_one_claim_takes_are_each_delivered_once(rig: MakeRig) -> None:
    """spec E7; cases 286-288: oldest first; deliveries are counted per execution, from 1."""
    many = CLAIM_BATCH + 20
    with Bench(small) as bench:
        for n in range(many):
            bench.admit("small", {"n": n}, execution_id=f"s{n}")
        bench.run()
        results = [bench.result(f"s{n}") for n in range(many)]

    assert [r.result for r in results] == list(range(many))
    assert {r.record.deliveries for r in results} == {2}
    assert {len(r.calls) for r in results} == {1}


def test_two_workers_share_a_file_and_deliver_each_execution_once(rig: MakeRig) -> None:
    """spec L4, E7."""
    with Bench(small, duration=lambda call: 100) as bench:
        for n in range(60):
            bench.admit("small", {"n": n}, execution_id=f"s{n}")
        for _ in range(3):
            bench.start_worker()
        bench.run()
        results = [bench.result(f"s{n}") for n in range(60)]

    assert [r.result for r in results] == list(range(60))
    assert {len(r.calls) for r in results} == {1}


def test_a_thousand_recorded_steps_replay_in_a_moment(rig: MakeRig) -> None:
    """case 136, B62: there is no limit on steps; a replay costs what is replayed."""
    import time

    async def w(step: Step) -> int:
        total = 0
        for n in range(1_000):
            total += await step.run(give, n)
        await step.sleep("1h")
        return total

    x = rig(w)
    x.until(lambda: x.record.status == "suspended")
    x.restart()
    began = time.perf_counter()
    found = x.go()

    assert found.result == 499_500
    assert len(called(found)) == 1_000
    assert time.perf_counter() - began < 10


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(st.lists(st.integers(1, 2_000), min_size=9, max_size=9), st.integers(0, 6_000))
def test_branches_whose_steps_take_any_time_never_diverge(spans: list[int], crash: int) -> None:
    """B58: three branches of three steps, killed anywhere; never a false alarm."""

    async def branch(step: Step, name: str) -> list[Any]:
        return [await step.using(key=f"{name}{n}").run(give, f"{name}{n}") for n in range(3)]

    async def w(step: Step) -> list[Any]:
        return await step.all([branch(step, name) for name in "abc"])

    def span(call: StepCall) -> int:
        name = call.step_key.rsplit(":", 1)[1]
        return spans["abc".index(name[0]) * 3 + int(name[1])]

    with Bench(duration=span) as bench:
        made = definition_of(w)
        bench.definitions = {made.key: made}
        bench.admit("w", execution_id="x")
        bench.run_to(START + crash)
        before = bench.history("x")
        bench.crash()
        bench.run()
        found = bench.result("x")

    assert found.result == [[f"{name}{n}" for n in range(3)] for name in "abc"]
    assert found.record.problem is None
    assert list(found.history[: len(before)]) == before


# --- plain functions --------------------------------------------------------------------------


@workflow
def backup(shop: str = "main") -> str:
    """A plain def: one recorded step."""
    return f"backed up {note(shop)}"


def test_a_plain_function_is_one_recorded_step(rig: MakeRig) -> None:
    """spec R1: with a record, a key, and its retries."""
    with Bench(backup) as bench:
        bench.admit("backup", {"shop": "north"}, execution_id="x")
        bench.run()
        found = bench.result("x")

    assert found.result == "backed up north"
    assert keys(found) == ["backup"]
    assert LEDGER == ["x backup"]


# --- deaths and suspects ----------------------------------------------------------------------


def die_in(x: Rig, execution_id: str) -> None:
    """The worker dies while code of `execution_id` runs in it (spec L5)."""
    (worker,) = x.bench.storage.workers.all(living=True)
    number = x.bench.record(execution_id).number
    x.bench.storage.workers.bury(worker.number, "died", {number: START}, max_deaths=5)
    x.bench.crash()


def test_deaths_count_only_against_the_execution_that_ran(rig: MakeRig) -> None:
    """cases 291, 297; spec L5: the others complete, and their counts stay at nothing."""
    x = rig(three_steps, duration=lambda call: 1_000)
    for n in range(5):
        x.bench.admit("w", execution_id=f"y{n}")
    for at in (500, 1_000):
        x.to(at)
        die_in(x, "x")
    x.go()

    assert {x.bench.record(f"y{n}").status for n in range(5)} == {"completed"}
    assert {x.bench.record(f"y{n}").deaths for n in range(5)} == {0}
    assert x.record.deaths == 2
    assert x.record.status == "admitted"


def test_a_suspect_is_delivered_only_to_a_worker_that_asks_for_it(rig: MakeRig) -> None:
    """cases 289, 292; spec L5: alone; the dispatcher says that one is due."""
    asked: list[int] = []
    x = rig(three_steps, duration=lambda call: 1_000)
    for at in (500, 1_000):
        x.to(at)
        die_in(x, "x")
    worker = x.bench.start_worker()
    worker.on_suspect = lambda: asked.append(x.bench.clock.now_ms())
    x.to(200_000)
    assert x.record.status == "admitted"
    assert asked

    x.bench.crash()
    alone = x.bench.start_worker()
    alone.claim_suspect("x")
    found = x.to(200_000 + 10_000)

    assert keys(found)[0] == "note"
    assert found.record.deaths == 0


def test_something_new_that_was_recorded_forgives_the_deaths_before(rig: MakeRig) -> None:
    """case 293; spec L5: a death counts unless something new was recorded."""
    x = rig(three_steps, duration=lambda call: 1_000)
    x.to(500)
    die_in(x, "x")
    assert x.record.deaths == 1
    found = x.go()

    assert found.result == [1, 2, 3]
    assert found.record.deaths == 0


def test_a_wake_gives_a_poisoned_execution_another_go(rig: MakeRig) -> None:
    """cases 289, 290, 295; spec L5: parked, not terminal; `ys wake` ends it."""
    x = rig(three_steps, duration=lambda call: 1_000)
    with x.bench.storage.atomic():
        x.bench.storage.db.rows(
            "UPDATE executions SET deaths = 5, poisoned_at = :now", {"now": START}
        )
    x.to(60_000)
    assert (x.record.status, x.record.deliveries) == ("admitted", 0)
    assert x.record.poisoned_at == START

    x.bench.storage.executions.wake("x")
    found = x.go()

    assert found.result == [1, 2, 3]
    assert found.record.poisoned_at is None


# --- stopping ---------------------------------------------------------------------------------


def test_a_worker_that_stops_starts_nothing_more_and_records_what_ends(rig: MakeRig) -> None:
    """case 298; spec K2: what was recorded stays, and nothing is counted."""
    x = rig(three_steps, duration=lambda call: 1_000)
    x.to(500)
    x.bench.workers[0].stop()
    x.to(5_000)
    record = x.record
    assert keys(x.result) == ["note"]
    assert (record.status, record.delivery, record.deaths) == ("suspended", None, 0)
    assert record.due_at == START + 61_000
    x.restart()
    found = x.go()

    assert found.result == [1, 2, 3]
    assert LEDGER == ["x note", "x note#2", "x note#3"]


def test_a_step_that_would_start_next_is_left_to_the_next_worker(rig: MakeRig) -> None:
    """spec K2: after the first signal no step starts; the delivery is released."""

    async def w(step: Step) -> list[Any]:
        return [await step.run(note, n) for n in range(3)]

    x = rig(w, duration=lambda call: 1_000)
    x.to(500)
    x.bench.workers[0].stop()
    x.to(5_000)
    record = x.record
    assert keys(x.result) == ["note"]
    assert (record.status, record.delivery, record.due_at) == ("admitted", None, START)
    x.restart()

    assert x.go().result == [0, 1, 2]
    assert len(LEDGER) == 3


def test_once_delivers_each_execution_once_and_leaves_what_becomes_due(rig: MakeRig) -> None:
    """spec K1: `--once`: a delivery goes on until it suspends, ends or is released."""

    async def w(step: Step) -> None:
        await step.run(note)
        await step.sleep("1s")
        await step.run(note)

    x = rig(w)
    x.bench.admit("w", execution_id="y", at=START + 10)
    worker = x.bench.start_worker()
    worker.deliver_once(START)
    x.go()

    assert x.record.deliveries == 1
    assert keys(x.result) == ["note"]
    assert x.bench.record("y").deliveries == 0
