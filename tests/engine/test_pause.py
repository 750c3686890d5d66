"""Pausing an execution, a workflow or the whole file while it works (spec E14)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.several import (
    HOUR,
    START,
    at,
    calls,
    fates,
    said,
    send,
    shown,
    status,
    waits,
)
from yieldstar_cli import RetryPolicy, Step, workflow
from yieldstar_cli.model import CancelledOutcome
from yieldstar_cli.testing import Bench

SCOPES: list[Any] = [{"execution_id": "x"}, {"workflow_id": "w"}, {}]
NAMES = ["execution", "workflow", "file"]


def give(value: Any = None) -> Any:
    return value


async def give_async(value: Any = None) -> Any:
    return value


def fail() -> None:
    raise ValueError("not yet")


def pause(bench: Bench, scope: dict[str, str]) -> str:
    return str(bench.storage.steering.pause(**scope, by="ann", reason="stock-taking"))


def resume(bench: Bench, scope: dict[str, str]) -> str:
    return str(bench.storage.steering.resume(**scope))


@workflow
async def sleeper(step: Step, span: str = "1s") -> str:
    await step.sleep(span)
    return "slept"


@workflow(id="w")
async def steps(step: Step) -> list[Any]:
    return [await step.run(give, n) for n in range(3)]


@pytest.mark.parametrize("scope", SCOPES, ids=NAMES)
def test_a_step_that_runs_ends_and_nothing_more_starts(scope: dict[str, str]) -> None:
    """spec E14: recorded, then suspended; resumed, it goes on with the next step."""
    with Bench(steps, duration=lambda call: HOUR) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 60_000)
        told = pause(bench, scope)
        at(bench, 61_000)
        running = bench.record("x").delivery is not None
        at(bench, 10 * HOUR)
        paused = bench.record("x")
        between = calls(bench, "x"), shown(bench.history("x"))
        told += resume(bench, scope)
        bench.run()

        assert told == "pausedresumed"
        assert running
        assert (paused.status, paused.delivery) == ("suspended", None)
        assert paused.paused is not None
        assert (paused.paused.by, paused.paused.reason) == ("ann", "stock-taking")
        assert between == (["give"], ["step:give"])
        assert bench.result("x").result == [0, 1, 2]
        assert calls(bench, "x") == ["give", "give#2", "give#3"]


@pytest.mark.parametrize("scope", SCOPES, ids=NAMES)
def test_what_is_paused_is_admitted_woken_and_sent_to_and_not_claimed(
    scope: dict[str, str],
) -> None:
    """spec E14: as usual; all of it is done when it is resumed."""

    @workflow(id="w")
    async def w(step: Step) -> list[Any]:
        timer = step.timer("1m")
        first = await step.message("q")
        await timer
        return [first, await step.try_message("q")]

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        pause(bench, scope)
        if "execution_id" not in scope:
            bench.admit("w", execution_id="y")
        answers = [send(bench, "x", "q", 1), send(bench, "x", "q", 2)]
        woken = bench.storage.executions.request_wake("x", START)
        at(bench, HOUR)
        before = len(bench.events)
        resume(bench, scope)
        bench.run()

        assert answers == ["delivered", "delivered"]
        assert woken == "requested"
        assert before == 0
        assert bench.result("x").result == [1, 2]
        if "execution_id" not in scope:
            assert status(bench, "y") == "suspended"


def test_a_timer_that_comes_due_meanwhile_waits_for_the_end_of_the_pause() -> None:
    """spec E14, R7: it fires late, and says so."""

    @workflow(id="w")
    async def w(step: Step) -> float:
        await step.sleep("1m")
        return step.now().timestamp() * 1000 - START

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        pause(bench, {"execution_id": "x"})
        at(bench, HOUR)
        between = status(bench, "x")
        resume(bench, {"execution_id": "x"})
        bench.run()

        assert between == "suspended"
        assert bench.result("x").result == HOUR


def test_a_retry_pause_that_ends_meanwhile_tries_after_it() -> None:
    """spec E14, O1: the count is kept."""

    @workflow(id="w")
    async def w(step: Step) -> None:
        await step.using(retry=RetryPolicy(attempts=2, first="1m")).run(fail)

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        pause(bench, {})
        at(bench, HOUR)
        between = calls(bench, "x")
        resume(bench, {})
        bench.run()

        assert between == ["fail"]
        assert calls(bench, "x") == ["fail", "fail"]
        assert status(bench, "x") == "failed"


def test_a_message_during_a_pause_is_not_taken_by_a_delivery_that_is_leaving() -> None:
    """spec E14, M2: a step still runs; the message waits for the resumption."""

    @workflow(id="w")
    async def w(step: Step) -> list[Any]:
        long = step.spawn(step.run(give, "step"))
        got = await step.message("q")
        return [got, step.now().timestamp() * 1000 - START, await long]

    with Bench(w, duration=lambda call: HOUR) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        pause(bench, {"execution_id": "x"})
        send(bench, "x", "q", 1)
        at(bench, 3 * HOUR)
        between = shown(bench.history("x")), fates(bench, "x"), bench.record("x").delivery
        resume(bench, {"execution_id": "x"})
        bench.run()

        assert between == (["step:give"], [("1", "waiting")], None)
        assert bench.result("x").result == [1, 3 * HOUR, "step"]


@pytest.mark.parametrize(
    "question", ["depth", "try", "status", "send", "child"], ids=lambda value: str(value)
)
def test_what_is_asked_as_the_last_step_ends_is_answered_after_the_pause(question: str) -> None:
    """spec E14, R10: nothing that is open when it suspends is forgotten."""

    @workflow(id="w")
    async def w(step: Step) -> Any:
        await step.run(give)
        match question:
            case "depth":
                return await step.queue_depth("q")
            case "try":
                return await step.try_message("q")
            case "status":
                return (await step.attach("x").status()).status
            case "send":
                return await step.send("y", "q")
            case _:
                return await step.child(sleeper, {})

    with Bench(w, sleeper, duration=lambda call: HOUR) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        pause(bench, {"execution_id": "x"})
        at(bench, 3 * HOUR)
        between = status(bench, "x"), bench.record("x").delivery
        resume(bench, {"execution_id": "x"})
        bench.run()

        assert between[0] in ("admitted", "suspended", "completed")
        assert between[1] is None
        assert status(bench, "x") == "completed"


def test_an_async_step_ends_too() -> None:
    """spec E14: running steps end; none is cut off."""

    @workflow(id="w")
    async def w(step: Step) -> list[Any]:
        return [await step.run(give_async, 1), await step.run(give_async, 2)]

    with Bench(w, duration=lambda call: HOUR) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        pause(bench, {})
        at(bench, 5 * HOUR)
        between = shown(bench.history("x"))
        resume(bench, {})
        bench.run()

        assert between == ["step:give-async"]
        assert bench.result("x").result == [1, 2]


def test_a_function_that_ends_with_its_last_step_completes_in_spite_of_it() -> None:
    """spec E14: there is nothing to start; its result need not wait."""

    @workflow(id="w")
    async def w(step: Step) -> Any:
        return await step.run(give, "only")

    with Bench(w, duration=lambda call: HOUR) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        pause(bench, {"execution_id": "x"})
        at(bench, 2 * HOUR)

        assert bench.result("x").result == "only"


def test_a_request_to_cancel_waits_and_now_does_not() -> None:
    """spec E14, C6: `cancel --now` works; everything else waits for resume."""
    for now in (False, True):
        with Bench(sleeper) as bench:
            bench.admit("sleeper", {"span": "1h"}, execution_id="x")
            at(bench, 1_000)
            pause(bench, {"execution_id": "x"})
            told = bench.storage.steering.cancel("x", reason="over", now=now)
            at(bench, 60_000)
            between = status(bench, "x")
            answer = resume(bench, {"execution_id": "x"})
            bench.run()

            assert (told, between) == (
                ("cancelled", "cancelled") if now else ("requested", "suspended")
            )
            assert answer == ("ignored" if now else "resumed")
            assert bench.record("x").outcome == CancelledOutcome("over")


def test_a_request_during_a_pause_in_which_a_step_still_runs_waits_too() -> None:
    """spec E14, C6: the step ends and is recorded; the function is told after the resumption."""
    with Bench(steps, duration=lambda call: HOUR) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        pause(bench, {"workflow_id": "w"})
        bench.storage.steering.cancel("x")
        at(bench, 3 * HOUR)
        between = status(bench, "x"), shown(bench.history("x"))
        resume(bench, {"workflow_id": "w"})
        bench.run()

        assert between == ("suspended", ["step:give"])
        assert status(bench, "x") == "cancelled"
        assert calls(bench, "x") == ["give"]


def test_others_go_on() -> None:
    """spec E14: one execution, or one workflow, and no other."""
    with Bench(steps, sleeper) as bench:
        for name in ("x", "y"):
            bench.admit("w", execution_id=name)
        bench.admit("sleeper", execution_id="z")
        pause(bench, {"execution_id": "x"})
        bench.run()
        first = [status(bench, one) for one in "xyz"]
        resume(bench, {"execution_id": "x"})
        pause(bench, {"workflow_id": "sleeper"})
        bench.admit("sleeper", execution_id="late")
        bench.run()

        assert first == ["admitted", "completed", "completed"]
        assert status(bench, "x") == "completed"
        assert status(bench, "late") == "admitted"


def test_a_child_that_is_paused_keeps_its_parent_waiting() -> None:
    """spec E14, C2: and the end of a pause is the end of the wait."""

    @workflow
    async def parent(step: Step) -> str:
        return await step.child(sleeper, {})

    with Bench(parent, sleeper) as bench:
        bench.admit("parent", execution_id="x")
        at(bench, 10)
        pause(bench, {"execution_id": "x/sleeper"})
        at(bench, HOUR)
        between = [(wait.kind, wait.target) for wait in waits(bench, "x")]
        resume(bench, {"execution_id": "x/sleeper"})
        bench.run()

        assert between == [("child", "x/sleeper")]
        assert bench.result("x").result == "slept"


def test_a_paused_parent_hears_of_its_child_afterwards() -> None:
    """spec E14, C2: the wake that the child's end brought stays."""

    @workflow
    async def parent(step: Step) -> str:
        return await step.child(sleeper, {})

    with Bench(parent, sleeper) as bench:
        bench.admit("parent", execution_id="x")
        at(bench, 10)
        pause(bench, {"workflow_id": "parent"})
        at(bench, HOUR)
        between = status(bench, "x"), status(bench, "x/sleeper")
        resume(bench, {"workflow_id": "parent"})
        bench.run()

        assert between == ("suspended", "completed")
        assert bench.result("x").result == "slept"


def test_two_marks_are_lifted_one_by_one() -> None:
    """spec E14: an execution goes on when none is left; asked twice it is unchanged."""
    with Bench(steps) as bench:
        bench.admit("w", execution_id="x")
        told = [pause(bench, scope) for scope in [*SCOPES, *SCOPES]]
        for scope in SCOPES:
            bench.run()
            assert status(bench, "x") == "admitted"
            told.append(resume(bench, scope))
        told.append(resume(bench, SCOPES[0]))
        bench.run()

        assert told == ["paused"] * 3 + ["unchanged"] * 3 + ["resumed"] * 3 + ["unchanged"]
        assert bench.result("x").result == [0, 1, 2]


def test_a_pause_at_every_moment_changes_nothing_but_the_time() -> None:
    """spec E14: the same history, whenever it fell and however often."""

    @workflow(id="w")
    async def w(step: Step) -> list[Any]:
        async def branch(n: int) -> Any:
            await step.sleep(20 * n)
            return await step.using(key=f"b{n}").run(give, n)

        kid = step.child(sleeper, {"span": "30ms"})
        seen = [*await step.all([branch(1), branch(2)]), await kid]
        seen.append(await step.message("q"))
        return [*seen, await step.queue_depth("q")]

    for moment in range(0, 160, 8):
        with Bench(w, sleeper, commit_ms=5, duration=lambda call: 10) as bench:
            bench.admit("w", execution_id="x")
            send(bench, "x", "q", "m")
            for turn, scope in enumerate(SCOPES):
                at(bench, moment + turn * 400)
                pause(bench, scope)
                at(bench, moment + turn * 400 + 200)
                assert bench.record("x").delivery is None
                resume(bench, scope)
            bench.run()

            assert bench.result("x").result == [1, 2, "slept", "m", 0]
            assert said(bench, "x").count("step_started") == 2
            assert bench.record("x").problem is None
