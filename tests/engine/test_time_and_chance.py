"""`now()`, `random()`, `uuid()`: the same on every replay, without entry or commit (spec R7)."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from tests.engine.helpers import START, MakeRig, called, keys
from yieldstar_cli.engine.step import Step


def give(value: Any = None) -> Any:
    return value


def test_now_is_the_moment_of_the_last_resolution(rig: MakeRig) -> None:
    """case 130; spec R7: before the first one, of the first claim; between two it stands still."""

    async def w(step: Step) -> list[int]:
        def at() -> int:
            return round(step.now().timestamp() * 1000) - START

        seen = [at(), at()]
        await step.run(give)
        seen += [at(), at()]
        await step.sleep("10s")
        return [*seen, at()]

    x = rig(w, duration=lambda call: 1_500)
    x.bench.clock.advance(250)

    assert x.go().result == [250, 250, 1_750, 1_750, 11_750]


def test_now_is_an_aware_utc_datetime(rig: MakeRig) -> None:
    """spec R7."""

    async def w(step: Step) -> list[bool]:
        return [step.now() == datetime.fromtimestamp(START / 1000, UTC), step.now().tzinfo is UTC]

    assert rig(w).go().result == [True, True]


def test_now_is_that_of_the_first_claim_however_late_the_replay(rig: MakeRig) -> None:
    """spec R7: the incarnation's first claim stores it."""

    async def w(step: Step) -> float:
        begun = step.now().timestamp() * 1000 - START
        await step.run(give)
        return begun

    x = rig(w, duration=lambda call: 10_000)
    x.bench.clock.advance(777)
    x.to(5_000)
    x.restart()
    x.bench.clock.advance(3_600_000)

    assert x.go().result == 777


def test_chance_is_the_same_on_every_replay(rig: MakeRig) -> None:
    """case 130; spec R7: drawn from the seed, with branch and count."""

    async def draws(step: Step) -> list[Any]:
        return [step.random(), str(step.uuid()), step.random()]

    async def w(step: Step) -> list[Any]:
        seen = await draws(step)
        first = await step.all([draws(step), draws(step)])
        await step.sleep("1h")
        return [*seen, *first, *await draws(step)]

    x = rig(w)
    x.to(60_000)
    before = x.record
    results = []
    for _ in range(2):
        x.restart()
        results.append(x.go().result)
    flat = [n for part in results[0] for n in (part if isinstance(part, list) else [part])]

    assert results[0] == results[1]
    assert len(set(flat)) == len(flat)
    assert before.operations == 0


def test_draws_of_one_branch_do_not_shift_those_of_another(rig: MakeRig) -> None:
    """spec R7: with branch and count, so another order of branches draws the same."""

    async def branch(step: Step, wait: int) -> float:
        await step.sleep(wait)
        return step.random()

    async def slow_first(step: Step) -> list[float]:
        return await step.all([branch(step, 2), branch(step, 1)])

    async def fast_first(step: Step) -> list[float]:
        return await step.all([branch(step, 1), branch(step, 2)])

    class SameChance:
        def execution_suffix(self) -> str:
            return "aaaaaaaa"

        def seed(self) -> bytes:
            return b"s" * 16

    a = rig(slow_first, chance=SameChance()).go().result
    b = rig(fast_first, chance=SameChance()).go().result

    assert a == b


def test_every_execution_draws_its_own(rig: MakeRig) -> None:
    """spec R7: a 128-bit seed of its own, stored at admission."""

    async def w(step: Step) -> list[Any]:
        return [step.random(), str(step.uuid())]

    x = rig(w)
    for n in range(20):
        x.bench.admit("w", execution_id=f"y{n}")
    x.go()
    drawn = [x.bench.result(f"y{n}").result for n in range(20)]

    assert len({tuple(d) for d in drawn}) == 20
    assert all(0 <= d[0] < 1 for d in drawn)
    assert all(UUID(d[1]).version == 4 for d in drawn)


def test_time_and_chance_need_no_entry_and_no_commit(rig: MakeRig) -> None:
    """case 130; spec R7: no extra turn; a claim and an outcome, whatever was drawn between."""

    async def w(step: Step) -> int:
        for _ in range(100):
            step.now()
            step.random()
            step.uuid()
        return 1

    x = rig(w)
    found = x.go()

    assert found.history == ()
    assert [n for n in x.bench.points.names if n.endswith(":after")] == [
        "commit:1:after",
        "commit:2:after",
    ]


def test_undeclared_nondeterminism_is_caught_where_it_changes_the_steps(rig: MakeRig) -> None:
    """case 131; spec R5: a branch on the real clock; the first recorded difference is named."""
    readings = iter([1.0, 2.0, 3.0])

    async def w(step: Step) -> Any:
        which = "odd" if next(readings) % 2 else "even"
        await step.using(key=which).run(give)
        await step.sleep("1h")

    assert time.time() > 0
    x = rig(w)
    x.to(60_000)
    x.restart()
    x.bench.clock.advance(3_600_000)
    record = x.go().record

    assert record.problem is not None
    assert record.problem.code == "DIVERGED"
    assert "'odd'" in record.problem.message
    assert "'even'" in record.problem.message


def test_a_loop_that_draws_logs_sleeps_and_works(rig: MakeRig) -> None:
    """B59: step bodies once, the recorded sleep stays, each line once, whatever is replayed."""

    async def w(step: Step) -> list[float]:
        drawn = []
        for n in range(5):
            r = step.random()
            drawn.append(r)
            step.log.info("round %d drew %.9f", n, r)
            await step.sleep(r * 10)
            await step.run(give, n)
        return drawn

    x = rig(w, residents=0)
    x.to(15_000)
    x.restart()
    found = x.go()

    assert called(found) == ["give", "give#2", "give#3", "give#4", "give#5"]
    assert x.logs == [f"round {n} drew {r:.9f}" for n, r in enumerate(found.result)]
    assert keys(found).count("give") == 1


@pytest.mark.parametrize("residents", [0, 10])
def test_the_event_is_what_was_admitted(rig: MakeRig, residents: int) -> None:
    """case 134; spec, operations table: read from the record at every delivery; read-only."""

    async def w(step: Step) -> list[Any]:
        seen = []
        for _ in range(2):
            event = step.event
            seen.append(
                [
                    event.execution_id,
                    event.workflow_id,
                    event.params,
                    dict(event.context),
                    event.incarnation,
                    event.operations,
                ]
            )
            try:
                event.context["user"] = "other"  # type: ignore[index]
            except TypeError:
                seen.append("read-only")
            await step.sleep("1h")
        return seen

    x = rig(w, residents=residents)
    context = {"user": "ann", "deep": [1]}
    x.bench.admit("w", execution_id="y", context=context)
    context["user"] = "changed"
    x.bench.run()

    assert x.bench.result("y").result == [
        ["y", "w", None, {"user": "ann", "deep": [1]}, 1, 0],
        "read-only",
        ["y", "w", None, {"user": "ann", "deep": [1]}, 1, 1],
        "read-only",
    ]
