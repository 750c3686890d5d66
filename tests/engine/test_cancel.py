"""Cancelling: asked for, told once, cleaned up, passed on (spec C4, C6)."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from tests.engine.several import (
    DAY,
    HOUR,
    START,
    at,
    calls,
    fates,
    ids,
    said,
    send,
    shown,
    status,
    waits,
)
from yieldstar_cli import (
    Cancelled,
    ChildCancelled,
    ExecutionIdConflict,
    ExecutionNotFound,
    RetryPolicy,
    Step,
    workflow,
)
from yieldstar_cli.model import CancelledOutcome, Completed
from yieldstar_cli.testing import Bench, Killed

SEEN: list[Any] = []


def give(value: Any = None) -> Any:
    return value


async def give_async(value: Any = None) -> Any:
    return value


def fail() -> None:
    raise ValueError("not yet")


def tidy(what: str = "up") -> str:
    return what


def cancel(bench: Bench, execution_id: str = "x", reason: str | None = None, **more: Any) -> str:
    return str(bench.storage.steering.cancel(execution_id, reason=reason, **more))


@workflow
async def sleeper(step: Step, span: str = "1h") -> str:
    await step.sleep(span)
    return "slept"


@workflow
async def in_retry_pause(step: Step) -> None:
    await step.using(retry=RetryPolicy(attempts=9, first="1h")).run(fail)


@workflow
async def in_poll(step: Step) -> None:
    await step.poll(give, None, every="1h")


@workflow
async def in_select(step: Step) -> None:
    await step.select(step.message("q"), step.timer("1h"), step.spawn(step.sleep("2h")))


@workflow
async def in_all(step: Step) -> None:
    async def branch() -> None:
        await step.sleep("1h")

    await step.all([branch(), branch(), step.sleep("3h")])


@workflow
async def in_child(step: Step) -> None:
    await step.child(sleeper, {"span": "1h"})


@workflow
async def in_map(step: Step) -> None:
    await step.map(sleeper, [{"span": "1h"}] * 5, limit=2)


@workflow
async def in_messages(step: Step) -> None:
    await step.messages("q")


@workflow
async def in_timeout(step: Step) -> None:
    await step.timeout(step.message("q"), "1h")


WAITING: list[Any] = [
    sleeper,
    in_retry_pause,
    in_poll,
    in_select,
    in_all,
    in_child,
    in_map,
    in_messages,
    in_timeout,
]


# --- C6: where it waits ---


@pytest.mark.parametrize("w", WAITING, ids=lambda w: w.definition.workflow_id)
@pytest.mark.parametrize("restart", [False, True])
def test_what_waits_is_cancelled_at_once(w: Any, restart: bool) -> None:
    """case 271; spec C6; B77: in a sleep, a retry pause, a select; its waits are gone."""
    name = w.definition.workflow_id
    with Bench(*WAITING) as bench:
        bench.admit(name, execution_id="x")
        at(bench, 60_000)
        before = calls(bench, "x")
        if restart:
            bench.crash()
        told = cancel(bench, reason="sold out")
        at(bench, 60_001)

        assert told == "requested"
        assert bench.record("x").outcome == CancelledOutcome("sold out")
        assert waits(bench, "x") == []
        assert bench.record("x").due_at is None
        bench.run()
        assert calls(bench, "x") == before
        assert shown(bench.history("x"))[-1] == "cancel:cancel"
        assert {status(bench, one) for one in ids(bench)} == {"cancelled"}


def test_before_its_first_claim_nothing_of_it_runs() -> None:
    """case 270; spec C6: cancelled at once, also when it was admitted for later."""
    with Bench(sleeper) as bench:
        bench.admit("sleeper", execution_id="x")
        bench.admit("sleeper", execution_id="y", at=START + HOUR)
        told = [cancel(bench, "x", "no"), cancel(bench, "y")]
        bench.run()

        assert told == ["cancelled", "cancelled"]
        assert bench.record("x").outcome == CancelledOutcome("no")
        assert bench.record("y").outcome == CancelledOutcome(None)
        assert bench.events == []


def test_a_message_is_not_taken_by_a_wait_that_was_cancelled() -> None:
    """case 271; spec C6, O4: it comes while the function cleans up, and stays unread."""

    @workflow
    async def w(step: Step) -> int:
        try:
            await step.message("q")
        except Cancelled:
            await step.sleep("1m")
        return await step.queue_depth("q")

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 0)
        cancel(bench)
        at(bench, 1_000)
        send(bench, "x", "q", 1)
        bench.run()

        assert bench.result("x").result == 1
        assert fates(bench, "x") == [("1", "waiting")]


# --- steps that run ---


def test_a_sync_step_that_has_begun_ends_first_and_is_recorded() -> None:
    """case 272; spec C6: then the function gets Cancelled."""

    @workflow
    async def w(step: Step) -> None:
        await step.run(give, "done")
        await step.run(give, "never")

    with Bench(w, duration=lambda call: HOUR) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 60_000)
        cancel(bench)
        at(bench, 61_000)
        between = status(bench, "x"), shown(bench.history("x"))
        bench.run()

        assert between == ("admitted", [])
        assert [(e.kind, e.value, e.at - START) for e in bench.history("x")] == [
            ("step", '"done"', HOUR),
            ("cancel", "null", HOUR),
        ]
        assert status(bench, "x") == "cancelled"
        assert calls(bench, "x") == ["give"]


def test_a_result_that_came_before_the_cancellation_may_still_end_the_function() -> None:
    """spec C6: what the function makes of the recorded result is its outcome as ever."""

    @workflow
    async def w(step: Step) -> str:
        return str(await step.run(give, "done"))

    with Bench(w, duration=lambda call: HOUR) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 60_000)
        cancel(bench)
        bench.run()

        assert bench.result("x").result == "done"


def test_an_async_step_is_cancelled_and_nothing_of_it_recorded() -> None:
    """case 272, 284; spec C6: at once."""

    @workflow
    async def w(step: Step) -> None:
        await step.run(give_async, "done")

    with Bench(w, duration=lambda call: HOUR) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 60_000)
        cancel(bench)
        at(bench, 60_001)

        assert status(bench, "x") == "cancelled"
        assert shown(bench.history("x")) == ["cancel:cancel"]
        assert bench.history("x")[0].at == START + 60_000
        assert bench.record("x").delivery is None


def test_of_several_steps_the_sync_ones_are_waited_for() -> None:
    """case 272, 279; spec C6: no new one starts meanwhile, async ones stop at once."""

    @workflow
    async def w(step: Step) -> list[Any]:
        async def two(first: str) -> None:
            await step.using(key=first).run(give)
            await step.using(key=f"{first}-more").run(give)

        await step.all([two("a"), two("b"), step.run(give_async)])
        return []

    spans = {"two:a": 10_000, "two#2:b": 20_000, "give-async": HOUR}
    with Bench(w, duration=lambda call: spans.get(call.step_key, 1)) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 5_000)
        cancel(bench)
        bench.run()

        assert shown(bench.history("x")) == ["step:two:a", "step:two#2:b", "cancel:cancel"]
        assert sorted(calls(bench, "x")) == ["give-async", "two#2:b", "two:a"]
        assert bench.clock.now_ms() == START + 20_000


def test_a_step_that_failed_while_cancelling_is_not_tried_again() -> None:
    """B77; spec C6, O1: the try that had begun is kept; no further one."""

    @workflow
    async def w(step: Step) -> None:
        await step.using(retry=RetryPolicy(attempts=9, first="1ms")).run(fail)

    with Bench(w, duration=lambda call: 1_000) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 2_500)
        cancel(bench)
        bench.run()

        assert status(bench, "x") == "cancelled"
        assert calls(bench, "x") == ["fail"] * 3
        number = bench.record("x").number
        assert len(bench.storage.reader.attempts(number, 1)) == 3


# --- the function is told, once ---


def test_the_function_cleans_up_with_steps_of_its_own() -> None:
    """case 277; spec C6: it may start operations after it; whoever dies, each once."""

    @workflow
    async def w(step: Step) -> str:
        try:
            await step.sleep("1h")
        finally:
            await step.run(tidy, "first")
            await step.sleep("10m")
            await step.using(key="last").run(tidy)
            await step.send("other", "q", "goodbye")
        return "never"

    def play(bench: Bench, run: Any) -> None:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        bench.points.names.clear()
        cancel(bench, reason="enough")
        run()

    with Bench(w) as whole:
        play(whole, whole.run)
        points = len(whole.points.names)
    assert points > 8
    for index in (None, *range(points)):
        with Bench(w) as bench:
            bench.admit("w", execution_id="x")
            at(bench, 1_000)
            cancel(bench, reason="enough")
            bench.points.reset()
            bench.points.kill_at(index)
            with contextlib.suppress(Killed):
                bench.run()
            bench.crash()
            bench.points.reset()
            bench.run()

            assert bench.record("x").outcome == CancelledOutcome("enough")
            assert shown(bench.history("x")) == [
                "cancel:cancel",
                "step:tidy",
                "timer:sleep#2",
                "step:last",
                "send:q",
            ]
            assert fates(bench, "other") == [('"goodbye"', "buffered")]


@pytest.mark.parametrize("clean_up", ["sleep", "question", "message", "step", "child", "send"])
def test_whatever_the_clean_up_waits_for_first_is_waited_for(clean_up: str) -> None:
    """spec C6, R10: the round that tells the function ends with what it waits for then."""

    @workflow
    async def w(step: Step) -> Any:
        try:
            await step.sleep("1h")
        except Cancelled:
            match clean_up:
                case "sleep":
                    return await step.sleep("1m")
                case "question":
                    return await step.queue_depth("q")
                case "message":
                    return await step.message("q")
                case "step":
                    return await step.run(give)
                case "child":
                    return await step.child(sleeper, {"span": "1m"})
                case _:
                    return await step.send("other", "q")

    with Bench(w, sleeper) as bench:
        bench.admit("w", execution_id="x")
        send(bench, "x", "q")
        at(bench, 1_000)
        cancel(bench)
        at(bench, 61_001)

        assert status(bench, "x") == "completed"
        assert len(bench.history("x")) in (2, 3)


def test_branches_end_and_start_nothing_more() -> None:
    """spec C6, O4: every open branch gets Cancelled, then the function; plain clean-up runs."""

    @workflow
    async def w(step: Step) -> list[str]:
        order: list[str] = []

        async def branch(name: str) -> None:
            try:
                await step.sleep("1h")
            except Cancelled:
                order.append(name)
                try:
                    await step.run(give, name)
                except Cancelled:
                    order.append(f"{name} refused")
                raise

        a, b = step.spawn(branch("a")), step.spawn(branch("b"))
        try:
            await step.all([a, b])
        except Cancelled:
            order.append("function")
            assert a.done()
            assert b.done()
            await step.run(tidy)
        return order

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        cancel(bench)
        bench.run()

        assert bench.result("x").result == ["a", "a refused", "b", "b refused", "function"]
        assert calls(bench, "x") == ["tidy"]


def test_new_branches_may_be_started_while_cleaning_up() -> None:
    """spec C6: the function may start operations, and a branch that it spawns then may, too."""

    @workflow
    async def w(step: Step) -> list[Any]:
        async def later(n: int) -> int:
            await step.sleep("1s")
            return int(await step.run(give, n))

        try:
            await step.sleep("1h")
        except Cancelled:
            return await step.all([later(1), later(2)])
        return []

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        cancel(bench)
        bench.run()

        assert bench.result("x").result == [1, 2]


def test_a_function_that_swallows_it_ends_as_it_likes() -> None:
    """spec C6: a result or another exception is the outcome as ever."""

    @workflow
    async def w(step: Step, fail: bool) -> str:
        with contextlib.suppress(Cancelled):
            await step.sleep("1h")
        await step.sleep("1m")
        if fail:
            raise ValueError("after all")
        return "carried on"

    with Bench(w) as bench:
        bench.admit("w", {"fail": False}, execution_id="x")
        bench.admit("w", {"fail": True}, execution_id="y")
        at(bench, 1_000)
        told = [cancel(bench, "x"), cancel(bench, "y")]
        bench.run()

        assert told == ["requested", "requested"]
        assert bench.result("x").result == "carried on"
        assert str(bench.result("y").error) == "after all"


def test_it_is_told_once_for_ever() -> None:
    """case 275; spec C6: asked again it does not come again; the first reason stays."""

    @workflow
    async def w(step: Step) -> int:
        times = 0
        for _ in range(5):
            try:
                await step.sleep("1m")
            except Cancelled:
                times += 1
        return times

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        told = [cancel(bench, reason="first"), cancel(bench, reason="second")]
        at(bench, 2_000)
        told.append(cancel(bench, reason="third"))
        bench.crash()
        at(bench, 3_000)
        told.append(cancel(bench))
        bench.run()
        request = bench.record("x").cancel

        assert told == ["requested"] * 4
        assert bench.result("x").result == 1
        assert request is not None
        assert request.reason == "first"
        assert request.told
        assert shown(bench.history("x")).count("cancel:cancel") == 1
        assert cancel(bench) == "ignored"


def test_once_told_it_is_not_told_again_in_a_later_incarnation() -> None:
    """spec C6: one entry for ever; the request stays on the record across continue_as."""

    @workflow
    async def w(step: Step, turn: int = 0, told: int = 0) -> int:
        try:
            await step.sleep("1m")
        except Cancelled:
            told += 1
        if turn < 3:
            await step.continue_as({"turn": turn + 1, "told": told})
        return told

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        cancel(bench, reason="one")
        bench.run()

        assert bench.result("x").result == 1
        assert bench.record("x").incarnation == 4
        request = bench.record("x").cancel
        assert request is not None
        assert (request.reason, request.told) == ("one", True)


def test_a_request_in_the_window_of_a_continuation_reaches_the_next_incarnation() -> None:
    """case 249; spec C6, C7: it survives continue_as."""

    @workflow
    async def w(step: Step, turn: int = 0) -> None:
        await step.run(give, turn)
        if turn == 0:
            await step.continue_as({"turn": 1})
        await step.sleep("1h")

    for moment in range(0, 60, 5):
        with Bench(w, commit_ms=10) as bench:
            bench.admit("w", execution_id="x")
            at(bench, moment)
            cancel(bench)
            bench.run()

            assert status(bench, "x") == "cancelled"
            assert bench.record("x").updated_at < START + 1_000


def test_a_request_during_a_delivery_is_seen_at_once() -> None:
    """case 272; spec C6, R10: no step has to end for it when none is sync."""

    @workflow
    async def w(step: Step) -> str:
        slow = step.spawn(step.run(give_async))
        with contextlib.suppress(Cancelled):
            await step.message("q")
        return "swallowed" if slow.done() else "async step still open"

    with Bench(w, duration=lambda call: HOUR) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        cancel(bench)
        at(bench, 1_001)

        assert bench.result("x").result == "swallowed"


def test_a_request_survives_a_worker_that_dies_before_it_saw_it() -> None:
    """case 281; spec C6: it is on the record."""
    with Bench(sleeper) as bench:
        bench.admit("sleeper", execution_id="x")
        at(bench, 1_000)
        cancel(bench, reason="kept")
        bench.points.reset()
        bench.points.kill_at(0)
        with pytest.raises(Killed):
            bench.run()
        bench.crash()
        bench.points.reset()
        bench.run()

        assert bench.record("x").outcome == CancelledOutcome("kept")
        assert bench.record("x").updated_at == START + 1_000


def test_a_function_that_swallows_without_end_is_cut_off() -> None:
    """spec R6, C6: a branch that asks again and again for what is refused."""

    @workflow
    async def w(step: Step) -> str:
        async def stubborn() -> None:
            while True:
                with contextlib.suppress(Cancelled):
                    await step.sleep("1h")

        with contextlib.suppress(Cancelled):
            await step.spawn(stubborn())
        return "over"

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        cancel(bench)
        bench.run()

        assert bench.result("x").result == "over"


# --- it races ---


def test_of_cancel_and_completion_exactly_one_wins_and_says_so() -> None:
    """case 278; B78: at a hundred moments around the end of the function."""

    @workflow
    async def w(step: Step) -> str:
        await step.run(give, 1)
        await step.run(give, 2)
        return "done"

    answers = set()
    for moment in range(100):
        with Bench(w, commit_ms=7, duration=lambda call: 11) as bench:
            bench.admit("w", execution_id="x")
            at(bench, moment // 2)
            if moment % 2:
                bench.crash()
            told = cancel(bench, now=moment % 3 == 0)
            after = bench.record("x").outcome
            bench.run()
            final = bench.record("x").outcome

            if told == "ignored":
                assert after == final == Completed('"done"')
            elif told == "cancelled":
                assert after == final == CancelledOutcome(None)
            else:
                assert after is None
                assert final in (CancelledOutcome(None), Completed('"done"'))
            answers.add((told, type(final).__name__))
            assert cancel(bench) == "ignored"
            assert bench.record("x").outcome == final
    assert len(answers) >= 4


# --- answers ---


def test_a_finished_execution_ignores_it() -> None:
    """case 273; spec C6, E10: nothing changes, and that is said."""
    with Bench(sleeper) as bench:
        bench.admit("sleeper", {"span": "0s"}, execution_id="x")
        bench.run()
        before = bench.record("x")

        assert [cancel(bench), cancel(bench, now=True)] == ["ignored", "ignored"]
        assert bench.record("x") == before


def test_an_execution_that_is_not_there_cannot_be_cancelled() -> None:
    """case 274: not found, and nothing is kept of it."""
    with Bench(sleeper) as bench:
        for now in (False, True):
            with pytest.raises(ExecutionNotFound):
                cancel(bench, "nobody", now=now)
        assert ids(bench) == []


def test_after_it_the_id_stays_in_use_and_wakes_and_messages_are_ignored() -> None:
    """case 282, 283; spec E3, E10, M1."""
    with Bench(sleeper) as bench:
        bench.admit("sleeper", execution_id="x")
        at(bench, 1_000)
        cancel(bench)
        bench.run()

        with pytest.raises(ExecutionIdConflict):
            bench.admit("sleeper", execution_id="x")
        assert bench.storage.executions.request_wake("x", START) == "ignored"
        assert send(bench, "x", "q") == "refused"
        bench.run()
        assert status(bench, "x") == "cancelled"


# --- now ---


def test_now_ends_it_without_its_code_and_without_what_it_deferred() -> None:
    """case 284; spec C6: a step that runs is not recorded, and its worker goes on."""

    @workflow
    async def w(step: Step) -> None:
        step.defer(tidy)
        try:
            await step.run(give, 1)
        finally:
            await step.run(tidy)

    with Bench(w, sleeper, duration=lambda call: HOUR) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        told = cancel(bench, reason="at once", now=True)
        bench.admit("sleeper", {"span": "1s"}, execution_id="y")
        after = bench.record("x")
        bench.run()

        assert told == "cancelled"
        assert after.outcome == CancelledOutcome("at once")
        assert bench.record("x").outcome == after.outcome
        assert bench.history("x") == []
        assert calls(bench, "x") == ["give"]
        assert bench.result("y").result == "slept"
        assert bench.record("x").delivery is None


def test_now_makes_the_token_of_a_delivery_dead() -> None:
    """spec C6, L2, E10: a late acknowledgement answers with what stands."""
    with Bench(sleeper) as bench:
        bench.admit("sleeper", execution_id="x")
        (delivery,) = bench.storage.executions.claim_due(START)
        cancel(bench, now=True)

        answer = bench.storage.executions.acknowledge(delivery, Completed('"late"'))
        assert answer == CancelledOutcome(None)


def test_now_takes_linked_children_along_and_leaves_detached_ones() -> None:
    """case 276; spec C4, C6: three levels at once."""

    @workflow
    async def node(step: Step, depth: int) -> None:
        if depth:
            kids = [step.child(node, {"depth": depth - 1}) for _ in range(2)]
            step.child(sleeper, {"span": "1h"}, detached=True)
            await step.all(kids)
        else:
            await step.sleep("1h")

    with Bench(node, sleeper) as bench:
        bench.admit("node", {"depth": 3}, execution_id="x")
        at(bench, 1_000)
        before = bench.record("x/node/node/node").status
        cancel(bench, reason="all of it", now=True)
        after = {one: status(bench, one) for one in ids(bench)}
        bench.run()

        assert before == "suspended"
        assert {s for one, s in after.items() if "sleeper" not in one} == {"cancelled"}
        assert len([one for one in after if "sleeper" not in one]) == 15
        assert {s for one, s in after.items() if "sleeper" in one} == {"suspended"}
        assert {status(bench, one) for one in after if "sleeper" in one} == {"completed"}


def test_a_held_execution_waits_with_its_request_unless_now() -> None:
    """spec C6, E12: the way out for what is held."""

    @workflow
    async def forgetful(step: Step) -> None:
        step.run(give)  # type: ignore[unused-coroutine]  # pyright: ignore

    for now in (False, True):
        with Bench(forgetful) as bench:
            bench.admit("forgetful", execution_id="x")
            bench.run()
            told = cancel(bench, now=now)
            bench.run()
            held = bench.record("x").held

            assert told == ("cancelled" if now else "requested")
            assert status(bench, "x") == ("cancelled" if now else "admitted")
            assert (held is None) == now


# --- passed on ---


@workflow
async def level(step: Step, depth: int) -> None:
    try:
        if depth:
            await step.child(level, {"depth": depth - 1})
        else:
            await step.sleep("1h")
    finally:
        await step.using(key=f"tidy-{depth}").run(tidy)


def test_all_descendants_are_cancelled_with_their_ancestor() -> None:
    """case 214, 276; spec C4: three levels; each cleans up by itself, whoever dies."""

    for index in (None, *range(0, 40, 2)):
        with Bench(level) as bench:
            bench.admit("level", {"depth": 3}, execution_id="x")
            at(bench, 1_000)
            cancel(bench)
            bench.points.reset()
            bench.points.kill_at(index)
            with contextlib.suppress(Killed):
                bench.run()
            bench.crash()
            bench.points.reset()
            bench.run()

            names = ids(bench)
            assert len(names) == 4
            assert {status(bench, one) for one in names} == {"cancelled"}
            for depth, one in enumerate(reversed(names)):
                keys = [e.step_key for e in bench.history(one) if e.kind == "step"]
                assert keys == [f"tidy-{depth}"]
                assert bench.record(one).updated_at == START + 1_000


def test_a_child_that_is_cancelled_on_its_own_is_told_to_its_parent() -> None:
    """case 215; spec C4: the parent goes on."""

    @workflow
    async def parent(step: Step) -> str:
        try:
            await step.child(sleeper, {})
        except ChildCancelled as error:
            return str(error)
        return ""

    with Bench(parent, sleeper) as bench:
        bench.admit("parent", execution_id="x")
        at(bench, 1_000)
        cancel(bench, "x/sleeper", now=True)
        bench.run()

        assert bench.result("x").result == "x/sleeper was cancelled"


def test_children_are_asked_only_when_the_parent_has_ended() -> None:
    """spec C4: while it cleans up they run, and it can await them."""

    @workflow
    async def parent(step: Step) -> str:
        kid = step.child(sleeper, {"span": "10m"})
        try:
            await kid
        except Cancelled:
            return f"waited: {await kid}"
        return ""

    with Bench(parent, sleeper) as bench:
        bench.admit("parent", execution_id="x")
        at(bench, 1_000)
        cancel(bench)
        bench.run()

        assert bench.result("x").result == "waited: slept"


# --- together with others ---


def test_a_cancellation_goes_after_what_was_ready_before_it() -> None:
    """spec R4, O6, C6: what a look brings is applied, then the function is told."""

    @workflow
    async def w(step: Step) -> list[Any]:
        got: list[Any] = []
        try:
            got.append(await step.message("q"))
            await step.sleep("1h")
        except Cancelled:
            got.append("cancelled")
        return got

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 0)
        bench.crash()
        send(bench, "x", "q", 1)
        cancel(bench)
        bench.run()

        assert bench.result("x").result == [1, "cancelled"]


def test_code_that_changed_its_clean_up_has_not_diverged_before_it() -> None:
    """spec R5, C6: the cancel entry replays at its place in the history."""

    def made(clean: bool) -> Any:
        @workflow(id="w")
        async def w(step: Step) -> None:
            await step.run(give, 1)
            try:
                await step.sleep("1h")
            finally:
                await step.run(give, 2)
                if clean:
                    await step.run(tidy)
                await step.sleep("1m")

        return w

    with Bench(made(False)) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        cancel(bench)
        at(bench, 2_000)
        bench.crash()
        bench.definitions["w", 1] = made(True).definition
        bench.run()

        assert status(bench, "x") == "cancelled"
        assert shown(bench.history("x")) == [
            "step:give",
            "cancel:cancel",
            "step:give#2",
            "step:tidy",
            "timer:sleep#2",
        ]
        assert bench.record("x").problem is None


def test_a_cancelled_branch_and_a_cancelled_execution_are_two_things() -> None:
    """spec O4, C6: Cancelled that leaves a function nobody asked to cancel is no cancellation."""

    @workflow
    async def w(step: Step) -> None:
        raise Cancelled

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert status(bench, "x") == "failed"


def test_a_timer_of_a_cancelled_execution_is_gone_with_it() -> None:
    """case 271; spec O3: nothing is due at its moment."""
    with Bench(sleeper) as bench:
        bench.admit("sleeper", {"span": "10d"}, execution_id="x")
        at(bench, 1_000)
        cancel(bench)
        at(bench, 2_000)
        spoken = len(bench.events)
        at(bench, 20 * DAY)

        assert len(bench.events) == spoken
        assert said(bench, "x")[-1] == "cancelled"


def test_a_request_with_odd_text_is_kept_as_text() -> None:
    """case 280; spec K6: whatever it holds, it comes back as it was or made plain."""
    reason = "a\tb\u001b[31m \u202e é 日本 " + "x" * 1_000
    with Bench(sleeper) as bench:
        bench.admit("sleeper", execution_id="x")
        at(bench, 1_000)
        cancel(bench, reason=reason)
        bench.run()
        outcome = bench.record("x").outcome

        assert isinstance(outcome, CancelledOutcome)
        assert outcome.reason is not None
        assert "é 日本" in outcome.reason
        assert "\u001b[31m" not in outcome.reason or outcome.reason == reason
