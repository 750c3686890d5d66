"""Waiting for the first, for all, and for no longer than a while (spec O4, O6)."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.helpers import MakeRig, called, keys, moments
from yieldstar_cli.engine.authoring import workflow
from yieldstar_cli.engine.operations import BranchCancelled
from yieldstar_cli.engine.step import Step
from yieldstar_cli.errors import StepTimeout
from yieldstar_cli.testing import Bench
from yieldstar_cli.worker.ports import StepCall

PASSES = 200


def give(value: object = None) -> object:
    return value


async def give_async(value: object = None) -> object:
    return value


def fail(text: str = "no") -> None:
    raise ValueError(text)


def takes(**spans: int) -> object:
    """How long each step's call takes, in milliseconds, by key."""
    return lambda call: spans.get(call.step_key.replace("-", "_"), 0)


@workflow
async def race(step: Step, spans: list[int]) -> list[int]:
    """Races handles of mixed kinds; each is ready after its span."""

    async def branch(n: int) -> int:
        await step.sleep(spans[n])
        return n

    handles = []
    for n, span in enumerate(spans):
        match n % 4:
            case 0:
                handles.append(step.timer(span))
            case 1:
                handles.append(step.spawn(branch(n)))
            case 2:
                handles.append(step.spawn(step.sleep(span)))
            case _:
                handles.append(step.spawn(step.using(key=f"take-{span}").run(give, n)))
    won = await step.select(*handles)
    return [[h is won for h in handles].index(True), int(step.now().timestamp())]


def duration(call: StepCall) -> int:
    key = call.step_key.split("#")[0]
    return int(key.removeprefix("take-")) * 1000 if key.startswith("take-") else 0


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.lists(st.integers(1, 5), min_size=2, max_size=16), st.integers(0, 40))
def test_the_first_that_is_ready_wins_and_ties_go_to_the_first_named(
    spans: list[int], kill_at: int
) -> None:
    """case 221, 224; spec O6: 2 to 16 handles of mixed kinds, the same on every replay."""
    first = min(spans)
    with Bench(race, duration=duration) as bench:
        bench.admit("race", {"spans": spans}, execution_id="x")
        begun = bench.clock.now_ms() // 1000
        bench.run_to((begun + first) * 1000 - 1)
        if kill_at % 2:
            bench.crash()
        bench.run()
        found = bench.result("x")

    # A step that was under way when the worker was killed begins again.
    still = [n for n, s in enumerate(spans) if s == first and (n % 4 != 3 or not kill_at % 2)]
    if still:
        assert found.result[0] in still
        # A branch's timer is named when the branch runs: after the timers named by the select.
        kinds = [n for n in still if n % 4 != 1] or still
        assert found.result[0] == kinds[0]
        assert found.result[1] == begun + first
    assert found.status == "completed"


def test_at_the_same_millisecond_the_first_named_wins(rig: MakeRig) -> None:
    """case 224; spec O6: named first in the select, not made first."""

    async def w(step: Step) -> str:
        a, b = step.timer("1s"), step.timer("1s")
        won = await step.select(b, a)
        return "b" if won is b else "a"

    x = rig(w)
    x.to(500)
    x.restart()

    assert x.go().result == "b"


def test_what_became_ready_first_wins_however_late_the_look(rig: MakeRig) -> None:
    """spec O6: a timer's moment counts, not the order of naming, when a worker comes late."""

    async def w(step: Step) -> str:
        late, early = step.timer("20s"), step.timer("10s")
        won = await step.select(late, early)
        return "early" if won is early else "late"

    x = rig(w)
    x.to(5_000)
    x.restart()
    x.bench.clock.advance(3_600_000)

    assert x.go().result == "early"


def test_a_timer_that_was_due_beats_a_step_that_returned_later(rig: MakeRig) -> None:
    """spec O6, R10: a step's return counts from when it returned."""

    async def w(step: Step) -> str:
        work = step.spawn(step.run(give, 1))
        won = await step.select(work, step.timer("2s"))
        return "work" if won is work else "timer"

    assert rig(w, duration=takes(give=1_999)).go().result == "work"
    assert rig(w, duration=takes(give=2_001)).go().result == "timer"


def test_a_handle_that_is_resolved_already_wins(rig: MakeRig) -> None:
    """spec O6: over what is not, and among several such the first named."""

    async def w(step: Step) -> list[int]:
        done = [step.spawn(step.run(give, n)) for n in range(3)]
        await step.all(done)
        due = step.timer(0)
        order = [due, done[2], done[0], done[1]]
        won = await step.select(*order)
        again = await step.select(done[1], due)
        return [order.index(won), [done[1], due].index(again)]

    assert rig(w).go().result == [1, 0]


def test_select_of_nothing_is_an_error(rig: MakeRig) -> None:
    """spec, operations table."""

    async def w(step: Step) -> None:
        await step.select()

    found = rig(w).go()

    assert found.status == "failed"
    assert "select of nothing" in str(found.error)


@pytest.mark.parametrize("what", ["operation", "coroutine", "value"])
def test_select_takes_handles_only(rig: MakeRig, what: str) -> None:
    """spec R3."""

    async def branch() -> None:
        return None

    async def w(step: Step) -> str:
        made = {"operation": step.run(give), "coroutine": branch(), "value": 5}
        try:
            await step.select(made[what])  # type: ignore[type-var]
        except TypeError as error:
            await made["operation"]  # type: ignore[misc]
            await made["coroutine"]  # type: ignore[misc]
            return str(error)
        return "taken"

    assert "select takes handles" in rig(w).go().result


def test_select_says_how_what_it_was_given_becomes_handles(rig: MakeRig) -> None:
    """spec R3: a list is given one by one, an operation is spawned, a number is neither."""

    async def w(step: Step) -> list[str]:
        said = []
        operation = step.run(give)
        for wrong in ([step.timer("1s")], operation, 5):
            try:
                await step.select(wrong)  # type: ignore[type-var]
            except TypeError as error:
                said.append(str(error).partition(": ")[2])
        await operation
        return said

    assert rig(w).go().result == [
        "give them one by one, step.select(*handles)",
        "write step.spawn(...) around it",
        "a moment is step.timer(...), a message step.message(...)",
    ]


def test_each_of_many_handles_wins_once(rig: MakeRig) -> None:
    """B45; spec O4: losers stay good and can be raced and awaited again."""

    async def w(step: Step) -> list[int]:
        left = {step.timer(n): n for n in (3, 1, 2)}
        work = step.spawn(step.run(give, 9))
        left[work] = 9  # type: ignore[index]
        order = []
        while left:
            won = await step.select(*left)
            order.append(left.pop(won))
            await won
        return order

    x = rig(w, duration=takes(give=2_500))
    x.to(1_500)
    x.restart()

    found = x.go()

    assert sorted(found.result) == [1, 2, 3, 9]
    assert found.result[:2] == [1, 2]


def test_a_failing_branch_that_wins_does_not_raise(rig: MakeRig) -> None:
    """B46; spec, operations table: `select` does not raise, `.result()` does; alike on replay."""

    async def w(step: Step) -> list[object]:
        work = step.spawn(step.run(fail, "broken"))
        won = await step.select(work, step.timer("1s"))
        await step.sleep("1m")
        try:
            won.result()
        except ValueError as error:
            return [won is work, won.done(), str(error)]
        return []

    x = rig(w)
    x.to(30_000)
    x.restart()

    assert x.go().result == [True, True, "broken"]


def test_the_timer_of_a_race_does_not_wait_for_the_slow_one(rig: MakeRig) -> None:
    """B47; spec O4: the timer wins at its moment, the other goes on and can be awaited."""

    async def slow(step: Step) -> str:
        await step.sleep("10s")
        return "done"

    async def w(step: Step) -> list[object]:
        work = step.spawn(slow(step))
        late = step.timer("2s")
        won = await step.select(work, late)
        at = step.now().timestamp()
        return [won is late, at, await work, step.now().timestamp() - at]

    found = rig(w).go()

    assert found.result[0] is True
    assert found.result[2:] == ["done", 8]
    assert moments(found) == [2_000, 10_000]


def test_the_next_step_after_a_race_runs(rig: MakeRig) -> None:
    """B43: a race, two steps and a second race, across crashes; it completes."""

    async def w(step: Step) -> int:
        hour = step.timer("1h")
        work = step.spawn(step.run(give, 1))
        assert await step.select(work, hour) is work
        total = 0
        for n in (2, 3):
            total += await step.run(give, n)  # type: ignore[operator]
        second = step.spawn(step.using(key="second").run(give, 4))
        assert await step.select(hour, second) is second
        return total

    x = rig(w)
    x.recorded("give#2")
    x.restart()

    found = x.go()

    assert found.result == 5
    assert moments(found) == [0, 0, 0, 0]


def test_the_timer_of_a_lost_race_leaves_nothing_due(rig: MakeRig) -> None:
    """cases 153, 154, B35; spec O3, O4: at its old moment there is nothing to claim."""

    async def w(step: Step) -> None:
        short, long = step.timer("1s"), step.timer("10s")
        await step.select(short, long)
        await step.sleep("1h")

    x = rig(w)
    found = x.to(5_000)
    delivered = found.record.deliveries

    assert found.record.due_at == x.bench.clock.now_ms() - 5_000 + 3_601_000
    assert x.to(100_000).record.deliveries == delivered
    assert [w.step_key for w in x.bench.storage.reader.waits(x.record.number)] == ["sleep"]


def test_two_hundred_races_need_one_delivery(rig: MakeRig) -> None:
    """case 228; spec R4: there is no limit on rounds in one delivery."""

    async def w(step: Step) -> int:
        won = 0
        for n in range(PASSES):
            work = step.spawn(step.run(give, n))
            won += await step.select(step.timer("1h"), work) is work
        return won

    found = rig(w).go()

    assert found.result == PASSES
    assert found.record.deliveries == 1


def test_the_history_grows_by_one_entry_per_race(rig: MakeRig) -> None:
    """case 231: the winner is recorded, the loser leaves nothing."""

    async def w(step: Step) -> None:
        hour = step.timer("1h")
        for _ in range(20):
            await step.select(step.timer("1s"), hour)

    found = rig(w).go()

    assert len(found.history) == 20
    assert found.record.due_at is None


def test_a_race_inside_races_and_joins(rig: MakeRig) -> None:
    """case 222: nested select and all, the same after a crash at any of its moments."""

    async def inner(step: Step, n: int) -> int:
        a, b = step.timer(n), step.timer(2)
        won = await step.select(a, b)
        await step.run(give, n)
        return n if won is a else 0

    async def w(step: Step) -> list[object]:
        both = step.spawn(step.all([inner(step, 1), inner(step, 3)]))
        won = await step.select(both, step.timer(5))
        return [won is both, both.result()]

    results = []
    for crash_ms in (None, 500, 1_000, 1_500, 2_000, 3_000):
        x = rig(w)
        if crash_ms is not None:
            x.to(crash_ms)
            x.restart()
        results.append((x.go().result, keys(x.result)))

    assert all(result == results[0] for result in results)
    assert results[0][0] == [True, [1, 0]]


def test_a_losers_late_result_is_no_divergence(rig: MakeRig) -> None:
    """cases 223, 225; spec O4: the losing step goes on, is recorded and replays."""

    async def w(step: Step) -> object:
        work = step.spawn(step.run(give, 7))
        await step.select(work, step.timer("1s"))
        await step.sleep("10s")
        await step.sleep("10s")
        return await work

    x = rig(w, duration=takes(give=3_000))
    x.to(12_000)
    x.restart()
    found = x.go()

    assert found.result == 7
    assert called(found) == ["give"]
    assert keys(found) == ["timer", "give", "sleep", "sleep#2"]


# --- all ---------------------------------------------------------------------------------------


def test_all_gives_the_results_in_the_order_given(rig: MakeRig) -> None:
    """case 127; spec, operations table: whatever order they end in."""

    async def branch(step: Step) -> str:
        await step.sleep("3s")
        return "branch"

    async def w(step: Step) -> list[object]:
        done = step.spawn(step.run(give, "before"))
        await done
        held = step.spawn(step.using(key="held").run(give, "held"))
        return await step.all(
            [branch(step), step.timer("2s"), done, held, step.run(give_async, "async"), done]
        )

    found = rig(w, duration=takes(held=1_000)).go()

    assert found.result == ["branch", None, "before", "held", "async", "before"]


def test_a_fan_out_of_a_hundred_joins_in_order(rig: MakeRig) -> None:
    """case 127: 100 steps that end in another order than they began, killed in the middle."""

    async def w(step: Step) -> list[object]:
        return await step.all(step.using(key=f"part-{n}").run(give, n) for n in range(100))

    def span(call: StepCall) -> int:
        return (int(call.step_key.removeprefix("part-")) * 37) % 101 * 10

    x = rig(w, duration=span)
    x.to(500)
    x.restart()
    found = x.go()

    assert found.result == list(range(100))
    assert len(found.history) == 100
    assert keys(found) != sorted(keys(found))


def test_all_of_nothing_is_an_empty_list(rig: MakeRig) -> None:
    """spec, operations table."""

    async def w(step: Step) -> list[object]:
        return await step.all([])

    found = rig(w).go()

    assert found.result == []
    assert found.history == ()


def test_all_raises_the_first_failure_at_once_and_the_rest_go_on(rig: MakeRig) -> None:
    """case 128; spec, operations table: the others' results are recorded."""

    async def w(step: Step) -> list[object]:
        slow = step.spawn(step.using(key="slow").run(give, "slow"))
        try:
            await step.all([slow, step.using(key="bad").run(fail, "first"), step.run(fail, "2nd")])
        except ValueError as error:
            return [str(error), slow.done(), step.now().timestamp(), await slow]
        return []

    x = rig(w, duration=takes(slow=9_000, bad=1_000, fail=2_000))
    found = x.go()

    assert found.result[:2] == ["first", False]
    assert found.result[3] == "slow"
    assert keys(found) == ["bad", "fail", "slow"]


def test_all_raises_a_failure_that_was_recorded_before(rig: MakeRig) -> None:
    """spec, operations table: the first recorded, whatever stands first in the list."""

    async def w(step: Step) -> str:
        late = step.spawn(step.using(key="late").run(fail, "late"))
        early = step.spawn(step.using(key="early").run(fail, "early"))
        await step.sleep("5s")
        try:
            await step.all([step.timer("1h"), late, early])
        except ValueError as error:
            return str(error)
        return ""

    assert rig(w, duration=takes(late=2_000, early=1_000)).go().result == "early"


def test_the_same_failure_may_be_awaited_again_and_again(rig: MakeRig) -> None:
    """spec, handles: awaited any number of times; each time the same error, no longer trace."""

    async def w(step: Step) -> list[str]:
        work = step.spawn(step.run(fail, "same"))
        said = []
        for _ in range(5):
            try:
                await work
            except ValueError as error:
                depth, trace = 0, error.__traceback__
                while trace is not None:
                    depth, trace = depth + 1, trace.tb_next
                said.append(f"{error} {depth}")
        return said

    found = rig(w).go()

    assert len(found.result) == 5
    assert len(set(found.result[1:])) == 1


def test_all_takes_nothing_else(rig: MakeRig) -> None:
    """spec, operations table: a value is a slip, such as a call that was awaited already."""

    async def w(step: Step) -> None:
        await step.all([5])  # type: ignore[list-item]

    assert "coroutine or a handle, not int" in str(rig(w).go().error)


def test_spawn_takes_a_coroutine(rig: MakeRig) -> None:
    """spec, operations table: a handle needs none; a function that was not called is a slip."""

    async def branch() -> None:
        return None

    async def w(step: Step) -> list[str]:
        said = []
        for slip in (step.timer(1), branch, 5):
            try:
                step.spawn(slip)  # type: ignore[arg-type]
            except TypeError as error:
                said.append(str(error))
        return said

    found = rig(w).go()

    assert "is a handle already" in found.result[0]
    assert "not function" in found.result[1]
    assert "not int" in found.result[2]


# --- handles -------------------------------------------------------------------------------------


def test_a_handle_tells_whether_it_is_done_and_its_result(rig: MakeRig) -> None:
    """spec, handles: `.done()`, `.result()` gives the value or raises."""

    async def w(step: Step) -> list[object]:
        good, bad = step.spawn(step.run(give, 3)), step.spawn(step.run(fail, "bad"))
        seen: list[object] = [good.done()]
        try:
            good.result()
        except RuntimeError as error:
            seen.append("not done" in str(error))
        await step.select(good)
        await step.select(bad)
        seen += [good.done(), good.result(), await good, await good, bad.done()]
        try:
            bad.result()
        except ValueError as error:
            seen.append(str(error))
        return seen

    assert rig(w).go().result == [False, True, True, 3, 3, 3, True, "bad"]


def test_an_operation_is_awaited_once(rig: MakeRig) -> None:
    """spec, operations table: what may be awaited again is a handle."""

    async def w(step: Step) -> str:
        once = step.run(give, 1)
        await once
        try:
            await once
        except RuntimeError as error:
            return str(error)
        return ""

    assert "already awaited" in rig(w).go().result


# --- timeout -------------------------------------------------------------------------------------


def test_what_is_done_in_time_gives_its_result(rig: MakeRig) -> None:
    """spec, operations table: an operation, a branch or a handle; its error is raised as it is."""

    async def branch(step: Step) -> str:
        await step.sleep("1s")
        return "branch"

    async def w(step: Step) -> list[object]:
        seen = [
            await step.timeout(step.run(give, "step"), "10s"),
            await step.timeout(branch(step), "10s"),
            await step.timeout(step.spawn(step.run(give, "held")), "10s"),
        ]
        try:
            await step.timeout(step.run(fail, "its own"), "10s")
        except ValueError as error:
            seen.append(str(error))
        return seen

    found = rig(w).go()

    assert found.result == ["step", "branch", "held", "its own"]
    assert found.record.due_at is None


def test_a_branch_that_takes_too_long_is_cancelled_with_its_clean_up(rig: MakeRig) -> None:
    """spec, operations table, O4: StepTimeout, and the branch gets `Cancelled`."""
    cleaned = []

    async def branch(step: Step) -> None:
        try:
            await step.sleep("1h")
        finally:
            cleaned.append(step)

    async def w(step: Step) -> str:
        try:
            await step.timeout(branch(step), "2s")
        except StepTimeout as error:
            return str(error)
        return ""

    found = rig(w).go()

    assert "2s" in found.result
    assert len(cleaned) == 1
    assert moments(found) == [2_000]


def test_a_handle_that_takes_too_long_is_only_no_longer_awaited(rig: MakeRig) -> None:
    """spec, operations table: it goes on and can be awaited again."""

    async def branch(step: Step) -> str:
        await step.sleep("10s")
        return "went on"

    async def w(step: Step) -> list[object]:
        held = step.spawn(branch(step))
        try:
            await step.timeout(held, "2s")
        except StepTimeout:
            return [held.done(), await held]
        return []

    assert rig(w).go().result == [False, "went on"]


def test_a_step_that_takes_too_long_is_given_to_nobody(rig: MakeRig) -> None:
    """spec, operations table, O4: what it returned is kept for people, also on replay."""

    async def w(step: Step) -> str:
        try:
            await step.timeout(step.run(give, "late"), "2s")
        except StepTimeout:
            await step.sleep("1m")
            return "too late"
        return ""

    x = rig(w, duration=takes(give=3_000))
    x.to(10_000)
    assert [(e.step_key, e.withdrawn) for e in x.history] == [("timeout", False), ("give", True)]
    x.restart()

    assert x.go().result == "too late"


def test_a_timeout_that_is_over_at_once_starts_nothing(rig: MakeRig) -> None:
    """spec R10: it looks at its waits before it starts any step."""

    async def w(step: Step) -> str:
        try:
            await step.timeout(step.run(give), 0)
        except StepTimeout:
            return "over"
        return ""

    found = rig(w).go()

    assert found.result == "over"
    assert called(found) == []


def test_a_wait_that_is_ready_goes_before_a_step_in_every_round(rig: MakeRig) -> None:
    """spec R10: not only in the first look; what it withdraws never starts."""

    async def w(step: Step) -> list[str]:
        await step.run(give, 1)
        with contextlib.suppress(StepTimeout):
            await step.timeout(step.using(key="never").run(give), 0)
        work = step.spawn(step.using(key="later").run(give, 2))
        won = await step.select(work, step.timer(0))
        return ["work" if won is work else "timer", str(await work)]

    found = rig(w).go()

    assert found.result == ["timer", "2"]
    assert called(found) == ["give", "later"]


def test_a_cancelled_timeout_takes_what_it_spawned_with_it(rig: MakeRig) -> None:
    """spec O4: the branch that a timeout spawned ends with the branch that waits for it."""
    seen = []

    async def inner(step: Step) -> None:
        try:
            await step.sleep("1h")
        finally:
            seen.append("inner")

    async def outer(step: Step) -> None:
        await step.timeout(inner(step), "30m")

    async def w(step: Step) -> str:
        held = step.spawn(outer(step))
        await step.sleep("1s")
        held.cancel()
        try:
            await held
        except BranchCancelled:
            return "cancelled"
        return ""

    found = rig(w).go()

    assert found.result == "cancelled"
    assert seen == ["inner"]
    assert found.record.due_at is None
