"""Branches: how they are scheduled, cancelled and cleaned up (spec R1, O4)."""

from __future__ import annotations

import asyncio
import gc

import pytest

from tests.engine.helpers import START, MakeRig, called, keys, moments
from yieldstar_cli import failures
from yieldstar_cli.engine.operations import BranchCancelled
from yieldstar_cli.engine.step import Step
from yieldstar_cli.errors import Cancelled
from yieldstar_cli.model import Failed
from yieldstar_cli.worker.ports import StepCall


def give(value: object = None) -> object:
    return value


async def give_async(value: object = None) -> object:
    return value


def fail(text: str = "no") -> None:
    raise ValueError(text)


def a_second(call: StepCall) -> int:
    return 1_000


def withdrawn(x: object) -> list[tuple[str, bool]]:
    return [(e.step_key, e.withdrawn) for e in x.history]  # type: ignore[attr-defined]


def test_branches_run_side_by_side(rig: MakeRig) -> None:
    """spec R1, operations table: three branches of 10 s take 10 s."""

    async def branch(step: Step, n: int) -> int:
        await step.sleep("10s")
        return n

    async def w(step: Step) -> list[int]:
        held = [step.spawn(branch(step, n)) for n in range(3)]
        return [await h for h in reversed(held)]

    found = rig(w).go()

    assert found.result == [2, 1, 0]
    assert moments(found) == [10_000] * 3


def test_a_spawned_branch_runs_without_being_awaited(rig: MakeRig) -> None:
    """spec, operations table: it runs at once, awaited or not."""

    async def branch(step: Step) -> None:
        await step.run(give, 1)
        await step.run(give, 2)

    async def w(step: Step) -> None:
        step.spawn(branch(step))
        await step.sleep("1s")

    assert keys(rig(w).go()) == ["branch:give", "branch:give#2", "sleep"]


def test_two_identical_steps_at_once_get_their_own_results(rig: MakeRig) -> None:
    """case 126: one done before the restart, one after."""

    async def w(step: Step) -> list[object]:
        a, b = step.spawn(step.run(give, "a")), step.spawn(step.run(give, "b"))
        return [await a, await b]

    x = rig(w, duration=lambda call: 3_000 if call.step_key == "give" else 1_000)
    x.to(2_000)
    assert keys(x.result) == ["give#2"]
    x.restart()

    assert x.go().result == ["a", "b"]


def test_the_error_of_a_branch_is_raised_where_it_is_awaited(rig: MakeRig) -> None:
    """spec, operations table; case 129: an awaited one raises, an unawaited one harms nobody."""

    async def branch(step: Step) -> None:
        await step.run(give)
        raise KeyError("lost")

    async def w(step: Step) -> str:
        step.spawn(branch(step))
        step.spawn(step.run(fail))
        held = step.spawn(branch(step))
        await step.sleep("1s")
        try:
            await held
        except KeyError as error:
            return repr(error)
        return ""

    found = rig(w).go()

    assert found.result == "KeyError('lost')"


def test_the_recorded_error_says_where_in_the_branch_it_arose(rig: MakeRig) -> None:
    """spec E11: the traceback of a failure leads to the branch's own line."""

    async def pick_and_break(step: Step) -> None:
        raise KeyError("lost")

    async def w(step: Step) -> None:
        await step.spawn(pick_and_break(step))

    found = rig(w).go()

    assert isinstance(found.record.outcome, Failed)
    view = failures.view_error(found.record.outcome.error)
    assert view.where is not None
    assert view.where.function.endswith("pick_and_break")
    assert "in pick_and_break" in view.traceback


def test_an_unawaited_failing_step_does_not_fail_the_workflow(rig: MakeRig) -> None:
    """case 129."""

    async def w(step: Step) -> str:
        step.spawn(step.run(fail))
        await step.sleep("1s")
        return "fine"

    found = rig(w).go()

    assert found.result == "fine"
    assert [(e.step_key, e.ok) for e in found.history] == [("fail", False), ("sleep", True)]


def test_work_that_is_open_at_the_end_is_cancelled_and_given_to_nobody(rig: MakeRig) -> None:
    """case 112; spec O4, R4: the outcome is recorded at once; branches clean up."""
    cleaned = []

    async def branch(step: Step) -> None:
        try:
            await step.sleep("1h")
        except Cancelled:
            cleaned.append("branch")
            raise

    async def w(step: Step) -> str:
        step.spawn(branch(step))
        step.spawn(step.run(give, "left"))
        step.timer("2h")
        await step.sleep(0)
        return "done"

    found = rig(w, duration=a_second).go()

    assert found.result == "done"
    assert cleaned == ["branch"]
    assert found.record.due_at is None
    assert keys(found) == ["sleep"]


def test_what_a_branch_returns_or_raises_after_the_end_changes_nothing(rig: MakeRig) -> None:
    """spec O4: the same happens to branches still open when the function ends."""

    async def stubborn(step: Step) -> str:
        try:
            await step.sleep("1h")
        except Cancelled:
            raise ValueError("late") from None
        return ""

    async def w(step: Step) -> str:
        step.spawn(stubborn(step))
        await step.sleep(0)
        return "done"

    assert rig(w).go().result == "done"


# --- cancel --------------------------------------------------------------------------------------


def test_cancel_ends_a_branch_and_every_branch_it_spawned(rig: MakeRig) -> None:
    """spec O4: `Cancelled` at its await, plain clean-up runs, innermost branches too."""
    cleaned = []

    async def leaf(step: Step, n: int) -> None:
        try:
            await step.sleep("1h")
        finally:
            cleaned.append(f"leaf {n}")

    async def tree(step: Step) -> None:
        try:
            step.spawn(leaf(step, 1))
            step.spawn(step.run(give))
            await step.all([leaf(step, 2), leaf(step, 3)])
        finally:
            cleaned.append("tree")

    async def w(step: Step) -> list[object]:
        held = step.spawn(tree(step))
        await step.sleep("1s")
        held.cancel()
        try:
            await held
        except BranchCancelled as error:
            await step.sleep("1h")
            return [held.done(), str(error), sorted(cleaned)]
        return []

    x = rig(w, duration=lambda call: 2_000)
    found = x.go()

    assert found.result == [
        True,
        "the branch was cancelled",
        ["leaf 1", "leaf 2", "leaf 3", "tree"],
    ]
    assert withdrawn(x) == [("sleep", False), ("tree:give", True), ("sleep#2", False)]


def test_further_operations_in_a_cancelled_branch_raise_again(rig: MakeRig) -> None:
    """spec O4: every kind of operation, in `finally` as well."""
    seen = []

    async def branch(step: Step) -> None:
        held = step.timer("1h")
        done = step.timer(0)
        await done
        try:
            await step.sleep("1h")
        except Cancelled:
            for attempt in (
                lambda: step.run(give),
                lambda: step.sleep(0),
                lambda: held,
                lambda: done,
                lambda: step.select(held),
                lambda: step.all([held]),
                lambda: step.timeout(held, 1),
                lambda: step.spawn(step.run(give)),
            ):
                try:
                    await attempt()  # type: ignore[misc]
                except Cancelled:
                    seen.append("again")
            raise

    async def w(step: Step) -> None:
        held = step.spawn(branch(step))
        await step.sleep("1s")
        held.cancel()
        await step.sleep("1s")

    found = rig(w).go()

    assert found.status == "completed"
    assert seen == ["again"] * 8
    assert called(found) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_branch_that_swallows_its_cancel_is_cut_off(rig: MakeRig) -> None:
    """spec O4: a loop that catches everything ends after a hundred rounds.

    Python itself says so in the end, when it takes the coroutine's memory back.
    """
    rounds = []

    async def stubborn(step: Step) -> None:
        while True:
            try:
                await step.sleep("1h")
            except BaseException:
                rounds.append(1)

    async def w(step: Step) -> str:
        held = step.spawn(stubborn(step))
        await step.sleep("1s")
        held.cancel()
        try:
            await held
        except BranchCancelled:
            return "cut off"
        return ""

    found = rig(w).go()

    gc.collect()

    assert found.result == "cut off"
    assert 100 <= len(rounds) <= 302


def test_a_cancelled_branch_may_return_a_value(rig: MakeRig) -> None:
    """spec O4: clean-up that ends in a value is that branch's result."""

    async def branch(step: Step) -> str:
        try:
            await step.sleep("1h")
        except Cancelled:
            return "as far as it got"
        return "all"

    async def w(step: Step) -> object:
        held = step.spawn(branch(step))
        await step.sleep("1s")
        held.cancel()
        held.cancel()
        return await held

    assert rig(w).go().result == "as far as it got"


def test_a_branch_that_is_cancelled_before_it_began_never_runs(rig: MakeRig) -> None:
    """spec O4: a coroutine, and an operation that is a branch such as a select."""
    seen = []

    async def branch(step: Step) -> None:
        seen.append("ran")

    async def w(step: Step) -> list[bool]:
        held = [step.spawn(branch(step)), step.spawn(step.select(step.timer("1h")))]
        for h in held:
            h.cancel()
        await step.sleep("1s")
        return [h.done() for h in held]

    found = rig(w).go()

    assert found.result == [True, True]
    assert seen == []


def test_a_handle_that_a_cancelled_branch_waited_for_is_awaited_no_longer(rig: MakeRig) -> None:
    """spec O3, O4: its timer costs no wake any more, and may be awaited by others."""

    async def branch(step: Step, held: object) -> None:
        await step.all([held, step.sleep("20s")])  # type: ignore[list-item]

    async def w(step: Step) -> bool:
        timer = step.timer("10s")
        waiting = step.spawn(branch(step, timer))
        await step.sleep("1s")
        waiting.cancel()
        await step.sleep("1h")
        seen = timer.done()
        await timer
        return seen

    x = rig(w)
    early = x.to(5_000)
    assert early.record.due_at == START + 3_601_000
    found = x.go()

    assert found.result is False
    assert keys(found) == ["sleep", "sleep#2", "branch:timer"]


def test_a_branch_may_cancel_itself(rig: MakeRig) -> None:
    """spec O4: it ends at its next operation."""

    async def branch(step: Step, held: list[object]) -> None:
        held[0].cancel()  # type: ignore[attr-defined]
        await step.run(give)

    async def w(step: Step) -> str:
        held: list[object] = []
        held.append(step.spawn(branch(step, held)))
        try:
            await held[0]  # type: ignore[misc]
        except BranchCancelled:
            return "cancelled"
        return ""

    found = rig(w).go()

    assert found.result == "cancelled"
    assert called(found) == []


def test_cancel_after_the_end_changes_nothing(rig: MakeRig) -> None:
    """spec O4: harmless, for branches and for spawned operations."""

    async def branch(step: Step) -> str:
        return "branch"

    async def w(step: Step) -> list[object]:
        held = [step.spawn(branch(step)), step.spawn(step.run(give, "step"))]
        await step.all(held)
        for h in held:
            h.cancel()
        return await step.all(held)

    assert rig(w).go().result == ["branch", "step"]


def test_a_sync_step_of_a_cancelled_branch_is_let_to_end_and_kept_for_people(
    rig: MakeRig,
) -> None:
    """spec O4, R4: given to nobody, recorded as withdrawn, passed over on replay."""

    async def branch(step: Step) -> None:
        await step.run(give, "left behind")

    async def w(step: Step) -> str:
        held = step.spawn(branch(step))
        await step.sleep("500ms")
        held.cancel()
        await step.sleep("10s")
        await step.run(give, "next")
        return "done"

    x = rig(w, duration=a_second)
    x.to(5_000)
    assert withdrawn(x) == [("sleep", False), ("branch:give", True)]
    x.restart()
    found = x.go()

    assert found.result == "done"
    assert called(found) == ["branch:give", "give"]


def test_an_async_step_of_a_cancelled_branch_is_cancelled(rig: MakeRig) -> None:
    """spec O4: nothing of it is recorded."""

    async def branch(step: Step) -> None:
        await step.run(give_async, 1)

    async def w(step: Step) -> str:
        held = step.spawn(branch(step))
        await step.sleep("500ms")
        held.cancel()
        await step.sleep("10s")
        return "done"

    x = rig(w, duration=a_second)
    found = x.go()

    assert found.result == "done"
    assert keys(found) == ["sleep", "sleep#2"]


def test_a_sync_step_that_runs_on_holds_up_neither_the_function_nor_its_end(
    rig: MakeRig,
) -> None:
    """spec O4: what it returns after the end is dropped, with a line in the output."""

    async def branch(step: Step) -> None:
        await step.run(give, "slow")

    async def w(step: Step) -> str:
        held = step.spawn(branch(step))
        await step.sleep("500ms")
        held.cancel()
        await step.sleep("500ms")
        return "done"

    x = rig(w, duration=lambda call: 60_000)
    found = x.to(2_000)
    assert found.result == "done"
    found = x.go()

    assert keys(found) == ["sleep", "sleep#2"]
    assert [e.step_key for e in found.events if e.kind == "dropped"] == ["branch:give"]


def test_a_withdrawn_entry_is_passed_over_wherever_it_stands(rig: MakeRig) -> None:
    """spec R4: between other entries, and after everything the function asked for."""

    async def branch(step: Step) -> None:
        await step.run(give, "left")

    async def w(step: Step) -> list[object]:
        held = step.spawn(branch(step))
        await step.sleep("500ms")
        held.cancel()
        first = await step.using(key="first").run(give, 1)
        held = step.spawn(branch(step))
        await step.sleep("500ms")
        held.cancel()
        second = await step.using(key="second").run(give, 2)
        await step.sleep("1h")
        return [first, second]

    x = rig(w, duration=lambda call: 2_000 if "branch" in call.step_key else 1_000)
    x.to(10_000)
    entries = withdrawn(x)
    x.restart()
    found = x.go()

    assert ("branch:give", True) in entries
    assert ("branch#2:give", True) in entries
    assert found.result == [1, 2]
    assert len(called(found)) == 4


def test_a_retry_pause_ends_with_its_branch(rig: MakeRig) -> None:
    """spec O1, O4: a cancel ends the pause; no further attempt."""
    from yieldstar_cli.engine.retry import RetryPolicy

    async def branch(step: Step) -> None:
        await step.using(retry=RetryPolicy(attempts=5, first="1m")).run(fail)

    async def w(step: Step) -> str:
        held = step.spawn(branch(step))
        await step.sleep("1s")
        held.cancel()
        await step.sleep("1h")
        return "done"

    found = rig(w).go()

    assert found.result == "done"
    assert called(found) == ["branch:fail"]
    assert moments(found) == [1_000, 3_601_000]


def test_a_spawned_step_may_be_cancelled(rig: MakeRig) -> None:
    """spec O4: awaited later it raises; what it returned is kept for people."""

    async def w(step: Step) -> str:
        held = step.spawn(step.run(give, 1))
        await step.sleep("500ms")
        held.cancel()
        try:
            await held
        except BranchCancelled:
            await step.sleep("5s")
            return "cancelled"
        return ""

    x = rig(w, duration=a_second)
    found = x.go()

    assert found.result == "cancelled"
    assert withdrawn(x) == [("sleep", False), ("give", True), ("sleep#2", False)]


def test_waiting_for_a_branch_that_another_cancels(rig: MakeRig) -> None:
    """spec O4: select takes the cancelled one for done, all raises it."""

    async def long(step: Step) -> None:
        await step.sleep("1h")

    async def cancels(step: Step, target: object) -> None:
        await step.sleep("1s")
        target.cancel()  # type: ignore[attr-defined]

    async def w(step: Step) -> list[object]:
        one, two = step.spawn(long(step)), step.spawn(long(step))
        step.spawn(cancels(step, one))
        won = await step.select(one, step.timer("1m"))
        step.spawn(cancels(step, two))
        try:
            await step.all([two])
        except BranchCancelled:
            return [won is one, "raised"]
        return []

    assert rig(w).go().result == [True, "raised"]


def test_cancelled_is_no_exception_that_a_broad_except_takes(rig: MakeRig) -> None:
    """spec O4, C6: `Cancelled` is a BaseException; a raised one elsewhere is a failure."""

    async def branch(step: Step) -> str:
        try:
            await step.sleep("1h")
        except Exception:
            return "swallowed"
        return ""

    async def w(step: Step) -> str:
        held = step.spawn(branch(step))
        await step.sleep(0)
        held.cancel()
        try:
            return str(await held)
        except BranchCancelled:
            return "ended"

    assert rig(w).go().result == "ended"


def test_cancels_replay_alike_with_residents_and_without(rig: MakeRig) -> None:
    """case 227, spec R4: what a cancel withdrew stays withdrawn, in every delivery."""

    async def branch(step: Step, n: int) -> int:
        await step.sleep(n)
        await step.run(give, n)
        await step.sleep(n)
        return n

    async def w(step: Step) -> list[object]:
        held = [step.spawn(branch(step, n)) for n in range(1, 5)]
        await step.sleep(3)
        held[3].cancel()
        held[1].cancel()
        await step.sleep(10)
        return [h.result() for h in (held[0], held[2])] + [h.done() for h in held]

    with_residents = rig(w, duration=a_second).go()
    without = rig(w, residents=0, duration=a_second).go()
    crashed = rig(w, duration=a_second)
    crashed.to(3_500)
    crashed.restart()

    assert with_residents.result == [1, 3, True, True, True, True]
    assert ("branch#2:give", True) in [(e.step_key, e.withdrawn) for e in with_residents.history]
    assert keys(without) == keys(with_residents)
    assert without.result == crashed.go().result == with_residents.result


def test_the_driver_uses_no_event_loop(rig: MakeRig) -> None:
    """spec R1: no asyncio in the function and its branches."""
    seen = []

    async def branch() -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            seen.append("none")

    async def w(step: Step) -> None:
        await step.spawn(branch())

    assert rig(w).go().status == "completed"
    assert seen == ["none"]
