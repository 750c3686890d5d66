"""A child for each item, so many at once, results in order (spec operations, `step.map`)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.engine.several import (
    HOUR,
    START,
    at,
    ids,
    killed_everywhere,
    shown,
    status,
)
from yieldstar_cli import ChildFailed, ExecutionAdmissionError, InvalidParams, Step, workflow
from yieldstar_cli.testing import Bench


class Work(msgspec.Struct):
    n: int
    takes: str = "1s"


@workflow
async def double(step: Step, w: Work) -> int:
    await step.sleep(w.takes)
    if w.n < 0:
        raise ValueError(f"negative: {w.n}")
    return w.n * 2


def running(bench: Bench) -> int:
    """How many children are open."""
    return sum(status(bench, one) in ("admitted", "suspended") for one in ids(bench)[1:])


def test_results_come_in_the_order_of_the_items() -> None:
    """spec operations: whichever child ended first."""

    @workflow
    async def w(step: Step) -> list[int]:
        return await step.map(double, [Work(n, f"{10 - n}s") for n in range(10)])

    with Bench(w, double) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == [n * 2 for n in range(10)]
        assert ids(bench) == ["x", "x/double", *[f"x/double#{n}" for n in range(2, 11)]]


@pytest.mark.parametrize("limit", [1, 3, 10, 50])
def test_no_more_than_the_limit_are_open_at_once(limit: int) -> None:
    """spec operations: a window, not batches: the next starts when any one ends."""

    @workflow
    async def w(step: Step) -> list[int]:
        work = [Work(n, f"{1 + (n * 7) % 5}s") for n in range(20)]
        return await step.map(double, work, limit=limit)

    with Bench(w, double) as bench:
        bench.admit("w", execution_id="x")
        seen = []
        for tick in range(0, 100_000, 500):
            at(bench, tick)
            if status(bench, "x") == "completed":
                break
            seen.append(running(bench))

        assert bench.result("x").result == [n * 2 for n in range(20)]
        assert max(seen) == min(limit, 20)
        started = bench.storage.db.rows("SELECT admitted_at FROM executions WHERE n > 1")
        if limit == 3:
            assert len({moment for (moment,) in started}) > 7


def test_of_nothing_it_is_nothing() -> None:
    """spec operations."""

    @workflow
    async def w(step: Step) -> list[int]:
        return await step.map(double, [])

    with Bench(w, double) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == []
        assert bench.history("x") == []


def test_children_can_be_named_after_their_items() -> None:
    """spec operations, C3: `id=`; and a key of its own for the whole."""

    @workflow
    async def w(step: Step) -> list[int]:
        work = [Work(1), Work(2)]
        named = await step.map(double, work, id=lambda item: f"order-{item.n}")
        return [*named, *await step.using(key="again").map(double, work)]

    with Bench(w, double) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == [2, 4, 2, 4]
        assert ids(bench) == ["x", "order-1", "order-2", "x/again", "x/again#2"]


def test_the_first_failure_is_raised_and_no_more_are_started() -> None:
    """spec operations, "raise": the others go on until the execution ends."""

    @workflow
    async def w(step: Step) -> str:
        work = [Work(1, "5s"), Work(-1, "1s"), *[Work(n, "1s") for n in range(10)]]
        with pytest.raises(ChildFailed) as told:
            await step.map(double, work, limit=2)
        await step.sleep("1h")
        cause = told.value.__cause__
        return f"{told.value.execution_id}: {type(cause).__name__} {cause}"

    with Bench(w, double) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == "x/double#2: ValueError negative: -1"
        assert ids(bench) == ["x", "x/double", "x/double#2"]
        assert bench.result("x/double").result == 2


def test_kept_failures_stand_in_their_places() -> None:
    """spec operations, "keep": every item is tried; whoever dies, the same."""

    @workflow
    async def w(step: Step) -> list[Any]:
        work = [Work(n if n % 2 else -n - 1, "1s") for n in range(6)]
        done = await step.map(double, work, limit=2, errors="keep")
        return [str(d) if isinstance(d, ChildFailed) else d for d in done]

    def play(bench: Bench, run: Any) -> None:
        bench.admit("w", execution_id="x")
        run()

    for bench in killed_everywhere(lambda: Bench(w, double), play, every=3):
        assert bench.result("x").result == [
            "x/double failed: ValueError: negative: -1",
            2,
            "x/double#3 failed: ValueError: negative: -3",
            6,
            "x/double#5 failed: ValueError: negative: -5",
            10,
        ]
        assert len(ids(bench)) == 7


def test_an_id_that_is_in_use_is_no_failed_child() -> None:
    """spec C3: it is raised under "keep" as well, since nothing of it ran."""

    @workflow
    async def w(step: Step) -> str:
        with pytest.raises(ExecutionAdmissionError):
            await step.map(double, [Work(1)], id=lambda item: "x", errors="keep")
        return "told"

    with Bench(w, double) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == "told"


def test_a_wrong_item_raises_when_its_turn_comes() -> None:
    """spec C3: a wrong parameter raises at once; those before it run."""

    @workflow
    async def w(step: Step) -> str:
        with pytest.raises(InvalidParams):
            await step.map("double", [{"n": 1}, {"n": "x"}])
        return "told"

    with Bench(w, double) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == "told"
        assert ids(bench) == ["x", "x/double"]
        assert status(bench, "x/double") == "cancelled"


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": True}, {"limit": 2.5}, {"errors": "no"}])
def test_options_that_make_no_sense_are_refused_at_the_call(wrong: dict[str, Any]) -> None:
    """spec V3."""

    @workflow
    async def w(step: Step) -> str:
        with pytest.raises(ValueError, match=r"limit|errors"):
            await step.map(double, [Work(1)], **wrong)
        return "told"

    with Bench(w, double) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == "told"
        assert ids(bench) == ["x"]


def test_two_maps_go_on_beside_each_other() -> None:
    """spec R3: branches with keys of their own; one may be cut off by a timeout."""

    @workflow
    async def w(step: Step) -> list[Any]:
        async def part(lo: int) -> list[int]:
            return await step.map(double, [Work(n) for n in range(lo, lo + 3)], limit=1)

        first, second = step.spawn(part(0)), step.spawn(part(10))
        return [*await first, *await second]

    with Bench(w, double) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == [0, 2, 4, 20, 22, 24]
        assert bench.clock.now_ms() == START + 3_000
        assert "x/part:double#3" in ids(bench)
        assert "x/part#2:double#3" in ids(bench)


def test_a_map_that_is_cut_off_starts_no_more() -> None:
    """spec O4: what it started goes on as any child does; nothing waits for it."""

    @workflow
    async def w(step: Step) -> str:
        from yieldstar_cli import StepTimeout

        work = [Work(n, "10s") for n in range(9)]
        with pytest.raises(StepTimeout):
            await step.timeout(step.map(double, work, limit=2), "15s")
        await step.sleep("1h")
        return "went on"

    with Bench(w, double) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == "went on"
        assert len(ids(bench)) == 5
        assert {status(bench, one) for one in ids(bench)} == {"completed"}


def test_a_map_comes_through_a_crash_at_any_point() -> None:
    """case 196; spec C2: each child once, and the results in order."""

    @workflow
    async def w(step: Step) -> list[int]:
        return await step.map(double, [Work(n, f"{1 + n % 2}s") for n in range(5)], limit=2)

    def play(bench: Bench, run: Any) -> None:
        bench.admit("w", execution_id="x")
        run()

    for bench in killed_everywhere(lambda: Bench(w, double), play, every=3):
        assert bench.result("x").result == [0, 2, 4, 6, 8]
        assert sorted(ids(bench)) == ["x", "x/double", *[f"x/double#{n}" for n in (2, 3, 4, 5)]]
        assert len(shown(bench.history("x"))) == 10


def test_a_map_over_an_hour_costs_one_delivery_for_each_end() -> None:
    """spec M4, C2: woken when a child ends, and at no other time."""

    @workflow
    async def w(step: Step) -> list[int]:
        return await step.map(double, [Work(n, "10m") for n in range(6)], limit=1)

    with Bench(w, double) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.clock.now_ms() == START + HOUR
        assert bench.record("x").deliveries == 7
