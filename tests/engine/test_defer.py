"""What is deferred runs once the function has ended, however it ended (spec operations)."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from tests.engine.several import (
    HOUR,
    at,
    calls,
    killed_everywhere,
    shown,
    status,
)
from yieldstar_cli import Cancelled, RetryPolicy, Step, workflow
from yieldstar_cli.engine.this_step import this_step
from yieldstar_cli.testing import Bench

DONE: list[str] = []


def give(value: Any = None) -> Any:
    return value


def release(what: str) -> str:
    DONE.append(what)
    return what


def give_back(what: str) -> str:
    DONE.append(what)
    return what


def fail(what: str = "no") -> None:
    DONE.append(f"tried {what}")
    raise ValueError(what)


async def release_async(what: str) -> str:
    DONE.append(what)
    return what


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


@pytest.mark.parametrize("how", ["returns", "raises", "cancelled", "continues", "exits"])
def test_it_runs_however_the_function_ends_last_first(how: str) -> None:
    """spec operations, C6, C7: each a step of its own, before the outcome."""

    @workflow
    async def w(step: Step, turn: int = 0) -> str:
        if turn:
            return "second"
        step.defer(release, "first")
        await step.run(give, 1)
        step.defer(give_back, "second")
        step.defer(release_async, "third")
        match how:
            case "raises":
                raise ValueError("the function's own")
            case "exits":
                raise SystemExit(3)
            case "cancelled":
                await step.sleep("1h")
            case "continues":
                await step.continue_as({"turn": 1})
        return "returned"

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        if how == "cancelled":
            bench.storage.steering.cancel("x")
        bench.run()
        number = bench.record("x").number
        history = bench.storage.reader.history(number, 1)

        assert DONE == ["third", "second", "first"]
        assert [e.step_key for e in history if e.kind == "defer"] == [
            "release-async",
            "give-back",
            "release",
        ]
        assert (
            status(bench, "x")
            == {
                "returns": "completed",
                "raises": "failed",
                "exits": "failed",
                "cancelled": "cancelled",
                "continues": "completed",
            }[how]
        )
        if how == "raises":
            assert str(bench.result("x").error) == "the function's own"


def test_one_of_several_uses_has_a_counted_key() -> None:
    """spec R3: a name used again is counted in the order in which they run."""

    @workflow
    async def w(step: Step) -> None:
        await step.run(release, "plain")
        for n in range(3):
            step.defer(release, f"of {n}")

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert [(e.kind, e.step_key, e.value) for e in bench.history("x")] == [
            ("step", "release", '"plain"'),
            ("defer", "release", '"of 2"'),
            ("defer", "release#2", '"of 1"'),
            ("defer", "release#3", '"of 0"'),
        ]


def test_its_failure_is_recorded_and_changes_nothing() -> None:
    """spec operations: shown, and the next one runs all the same."""

    @workflow
    async def w(step: Step) -> str:
        step.defer(release, "after")
        step.defer(fail, "broken")
        return "fine"

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == "fine"
        assert [(e.step_key, e.ok) for e in bench.history("x")] == [
            ("fail", False),
            ("release", True),
        ]
        assert DONE == ["tried broken", "after"]


def test_it_is_tried_again_as_its_policy_says() -> None:
    """spec operations, O1: a pause of an hour holds up the outcome, and nothing else."""

    @workflow
    async def w(step: Step) -> str:
        policy = RetryPolicy(attempts=3, first="1h", max="1h", factor=1)
        step.using(retry=policy, key="undo").defer(fail, "again")
        return "fine"

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        at(bench, HOUR // 2)
        between = status(bench, "x")
        bench.run()

        assert between == "suspended"
        assert bench.result("x").result == "fine"
        assert DONE == ["tried again"] * 3
        assert shown(bench.history("x")) == ["defer:undo"]


def test_it_runs_once_whoever_dies() -> None:
    """case 277; spec operations, R2: recorded like any step; the function's end is replayed."""

    @workflow
    async def w(step: Step) -> str:
        step.defer(release, "a")
        await step.run(give, 1)
        step.defer(release, "b")
        with contextlib.suppress(ValueError):
            await step.run(fail)
        raise ValueError("end")

    def play(bench: Bench, run: Any) -> None:
        bench.admit("w", execution_id="x")
        run()

    for bench in killed_everywhere(lambda: Bench(w), play):
        assert str(bench.result("x").error) == "end"
        assert shown(bench.history("x")) == [
            "step:give",
            "step:fail",
            "defer:release",
            "defer:release#2",
        ]
        assert [e.value for e in bench.history("x")[2:]] == ['"b"', '"a"']


def test_now_runs_none_of_it() -> None:
    """spec C6, operations: `--now` is without code and deferred functions."""

    @workflow
    async def w(step: Step) -> None:
        step.defer(release, "a")
        await step.sleep("1h")

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        bench.storage.steering.cancel("x", now=True)
        bench.run()

        assert status(bench, "x") == "cancelled"
        assert DONE == []


def test_what_a_branch_defers_runs_at_the_end_of_the_function() -> None:
    """spec operations: in the order asked for, over all branches."""

    @workflow
    async def w(step: Step) -> str:
        async def branch(n: int) -> None:
            step.defer(release, f"branch {n}")

        step.defer(release, "function")
        await step.all([branch(1), branch(2)])
        await step.run(give, "work")
        return "done"

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert DONE == ["branch 2", "branch 1", "function"]
        assert calls(bench, "x")[0] == "give"


def test_a_cancelled_branch_defers_nothing_more() -> None:
    """spec O4: what it deferred before stays deferred."""

    @workflow
    async def w(step: Step) -> str:
        async def branch() -> None:
            step.defer(release, "before")
            try:
                await step.sleep("1h")
            finally:
                with contextlib.suppress(Cancelled):
                    step.defer(release, "after")

        held = step.spawn(branch())
        await step.sleep("1s")
        held.cancel()
        return "done"

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == "done"
        assert DONE == ["before"]


def test_a_cancellation_while_it_runs_comes_too_late() -> None:
    """spec C6: the function has ended; what it came to is the outcome."""

    @workflow
    async def w(step: Step) -> str:
        step.defer(release, "a")
        step.defer(release, "b")
        return "returned"

    with Bench(w, duration=lambda call: HOUR) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        told = bench.storage.steering.cancel("x")
        bench.run()

        assert told == "requested"
        assert bench.result("x").result == "returned"
        assert DONE == ["b", "a"]


def test_an_open_branch_ends_before_anything_deferred_runs() -> None:
    """spec O4, operations: nothing of the function is left when its undoing begins."""
    seen: list[str] = []

    @workflow
    async def w(step: Step) -> str:
        async def branch() -> None:
            try:
                await step.sleep("1h")
            finally:
                seen.append("branch")

        step.spawn(branch())
        step.defer(release, "undo")
        await step.sleep("1s")
        return "done"

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert [*seen, *DONE] == ["branch", "undo"]


def test_inside_it_the_step_says_which_it_is() -> None:
    """spec O7: id, key, attempt and an idempotency key of its own."""
    seen: list[Any] = []

    def look() -> None:
        found = this_step()
        seen.append([found.execution_id, found.step_key, found.attempt, found.idempotency_key])

    @workflow
    async def w(step: Step) -> None:
        await step.run(look)
        step.defer(look)
        step.defer(look)

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert [one[:3] for one in seen] == [["x", "look", 1], ["x", "look", 1], ["x", "look#2", 1]]
        assert len({one[3] for one in seen}) == 3


def test_what_cannot_be_called_is_refused_at_the_call() -> None:
    """spec V3."""

    @workflow
    async def w(step: Step) -> str:
        with pytest.raises(TypeError):
            step.defer("release")  # type: ignore[arg-type]
        return "told"

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == "told"


def test_code_that_defers_something_else_has_diverged() -> None:
    """spec R5: what ran is asked for again, or the execution is held."""

    def made(undo: Any) -> Any:
        @workflow(id="w")
        async def w(step: Step) -> str:
            step.defer(fail)
            step.defer(undo, "a")
            return "done"

        return w

    with Bench(made(release)) as bench:
        bench.admit("w", execution_id="x")
        bench.run(until=lambda: len(bench.history("x")) == 1)
        bench.crash()
        bench.definitions["w", 1] = made(give_back).definition
        bench.run()
        problem = bench.record("x").problem
        bench.crash()
        bench.definitions["w", 1] = made(release).definition
        bench.storage.executions.wake("x")
        bench.run()

        assert problem is not None
        assert problem.code == "DIVERGED"
        assert bench.result("x").result == "done"
        assert DONE == ["a", "tried no"]
