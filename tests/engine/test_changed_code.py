"""Code that changes under a running execution (spec R5, R11, E12)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.helpers import START, MakeRig, Rig, called, definition_of, keys
from yieldstar_cli.engine.step import Step


def load(n: Any = None) -> Any:
    return n


def pack(n: Any = None) -> Any:
    return n


def ship(n: Any = None) -> Any:
    return n


async def before(step: Step) -> Any:
    a = await step.run(load, 1)
    b = await step.run(pack, 2)
    await step.sleep("1h")
    return [a, b]


def stands_at_the_sleep(rig: MakeRig, body: Any = before) -> Rig:
    """`load` and `pack` are recorded, the sleep waits, the worker is gone."""
    x = rig(body)
    x.to(60_000)
    assert keys(x.result) == ["load", "pack"]
    return x


def problem(x: Rig) -> str:
    found = x.record.problem
    assert found is not None
    return f"{found.code}: {found.message}"


def test_operations_added_or_removed_ahead_are_fine(rig: MakeRig) -> None:
    """spec R5: ahead of where the execution stands anything may change."""

    async def after(step: Step) -> Any:
        a = await step.run(load, 1)
        b = await step.run(pack, 2)
        c = await step.run(ship, 3)
        await step.timer("1s")
        return [a, b, c]

    x = stands_at_the_sleep(rig)
    x.restart(after)
    found = x.go()

    assert found.result == [1, 2, 3]
    assert keys(found) == ["load", "pack", "ship", "timer"]
    assert called(found) == ["load", "pack", "ship"]


async def renamed(step: Step) -> Any:
    await step.run(load, 1)
    await step.using(key="wrap").run(pack, 2)


async def reordered(step: Step) -> Any:
    await step.run(pack, 2)
    await step.run(load, 1)


async def removed(step: Step) -> Any:
    return await step.run(load, 1)


async def inserted(step: Step) -> Any:
    await step.run(load, 1)
    await step.run(ship, 1)
    await step.run(pack, 2)


async def became_a_timer(step: Step) -> Any:
    await step.run(load, 1)
    await step.using(key="pack").sleep("1s")


async def became_a_poll(step: Step) -> Any:
    await step.run(load, 1)
    await step.poll(pack, 2)


async def moved_into_a_branch(step: Step) -> Any:
    async def branch() -> Any:
        return await step.run(pack, 2)

    await step.run(load, 1)
    await step.spawn(branch())


async def asks_for_nothing(step: Step) -> Any:
    return 1


@pytest.mark.parametrize(
    ("changed", "recorded", "code"),
    [
        (renamed, "step 'pack'", "step 'wrap'"),
        (reordered, "step 'load'", "step 'pack'"),
        (removed, "step 'pack'", "the function has returned"),
        (inserted, "step 'pack'", "step 'ship'"),
        (became_a_timer, "step 'pack'", "timer 'pack'"),
        (became_a_poll, "step 'pack'", "poll 'pack'"),
        (moved_into_a_branch, "step 'pack'", "step 'moved-into-a-branch"),
        (asks_for_nothing, "step 'load'", "the function has returned"),
    ],
)
def test_recorded_steps_that_the_code_does_not_ask_for_hold_the_execution(
    rig: MakeRig, changed: Any, recorded: str, code: str
) -> None:
    """cases 121, 122, 123, 131, B70; spec R5: position, recorded and code, not terminal."""
    x = stands_at_the_sleep(rig)
    status = x.record.status
    x.restart(changed)
    x.bench.clock.advance(3_600_000)
    found = x.go()
    said = problem(x)

    assert found.record.status == status
    assert found.record.outcome is None
    assert said.startswith("DIVERGED: ")
    assert f"recorded: {recorded}" in said
    assert "entry 1" in said if "load" in recorded else "entry 2" in said
    if "branch" not in code:
        assert code in said
    assert "test_changed_code.py:" in said
    assert found.record.held is not None
    assert found.record.held.until_at is None
    # Nothing was started, nothing written.
    assert called(found) == ["load", "pack"]
    assert keys(found) == ["load", "pack"]


def test_the_remedy_is_said(rig: MakeRig) -> None:
    """B70; spec R5: what to do stands beside it."""
    x = stands_at_the_sleep(rig)
    x.restart(renamed)
    x.bench.clock.advance(3_600_000)
    x.go()

    assert "put the code back, or keep the old key with step.using(key=...)" in problem(x)


@pytest.mark.parametrize("changed", [renamed, reordered, removed, became_a_timer])
def test_code_that_is_put_back_completes(rig: MakeRig, changed: Any) -> None:
    """case 121; spec R5, E12: a wake ends the hold; nothing ran twice, the problem is gone."""
    x = stands_at_the_sleep(rig)
    x.restart(changed)
    x.bench.clock.advance(3_600_000)
    x.go()
    x.restart(before)
    assert x.go().record.held is not None

    x.bench.storage.executions.wake("x")
    found = x.go()

    assert found.result == [1, 2]
    assert called(found) == ["load", "pack"]
    assert found.record.problem is None
    assert found.record.held is None


def test_a_changed_module_ends_the_hold(rig: MakeRig) -> None:
    """spec E12: until the module's file changes; another worker's start, not sooner than 5 min."""
    x = stands_at_the_sleep(rig)
    x.restart(renamed, module_state="broken")
    x.bench.clock.advance(3_600_000)
    x.go()
    now = x.bench.clock.now_ms()
    ends = x.bench.storage.deliveries.end_code_holds

    assert ends(now, {("w", 1): "broken"}, quiet_ms=300_000) == 0
    assert ends(now, {("v", 1): "mended"}, quiet_ms=300_000) == 0
    assert ends(now, {("w", 1): "mended"}, quiet_ms=300_000) == 1
    x.restart(before, module_state="mended")
    assert x.go().result == [1, 2]


def test_a_worker_that_starts_tries_again_after_a_while(rig: MakeRig) -> None:
    """spec E12: at most once in five minutes; the problem counts and keeps its first moment."""
    x = stands_at_the_sleep(rig)
    x.restart(renamed, module_state="broken")
    x.bench.clock.advance(3_600_000)
    x.go()
    ends = x.bench.storage.deliveries.end_code_holds
    first = x.record.problem
    x.bench.clock.advance(299_999)
    assert ends(x.bench.clock.now_ms(), {("w", 1): "broken"}, quiet_ms=300_000) == 0
    x.bench.clock.advance(1)
    assert ends(x.bench.clock.now_ms(), {("w", 1): "broken"}, quiet_ms=300_000) == 1
    x.go()
    second = x.record.problem

    assert first is not None
    assert second is not None
    assert (first.count, second.count) == (1, 2)
    assert second.first_at == first.first_at
    assert second.last_at > first.last_at


def test_a_bare_wake_and_a_timer_do_not_end_a_hold(rig: MakeRig) -> None:
    """spec E12: `request_wake` alone does not; `ys wake --at` lets it end at that moment."""
    x = stands_at_the_sleep(rig)
    x.restart(renamed)
    x.bench.clock.advance(3_600_000)
    delivered = x.go().record.deliveries
    x.bench.storage.executions.request_wake("x", x.bench.clock.now_ms())
    assert x.to(4_000_000).record.deliveries == delivered

    x.restart(before)
    x.bench.storage.executions.wake("x", x.bench.clock.now_ms() + 60_000)
    assert x.to(4_059_999).record.deliveries == delivered
    found = x.go()

    assert found.result == [1, 2]
    assert found.record.updated_at >= START + 4_060_000


def test_one_held_execution_does_not_hold_up_the_others(rig: MakeRig) -> None:
    """spec E12; case 297: fifty others complete."""
    x = stands_at_the_sleep(rig)
    for n in range(50):
        x.bench.admit("w", execution_id=f"y{n}")

    async def after(step: Step) -> Any:
        return await step.run(ship, 1)

    x.restart(after)
    x.bench.clock.advance(3_600_000)
    x.go()

    assert x.record.held is not None
    assert {x.bench.record(f"y{n}").status for n in range(50)} == {"completed"}
    assert {x.bench.record(f"y{n}").deaths for n in range(50)} == {0}


# --- new operations in the replayed part ------------------------------------------------------


def test_a_new_operation_that_nothing_waits_for_starts_when_replay_ends(rig: MakeRig) -> None:
    """spec R5: spawned between recorded ones, its entry stands after them."""

    async def after(step: Step) -> Any:
        a = await step.run(load, 1)
        new = step.spawn(step.run(ship, 3))
        b = await step.run(pack, 2)
        await step.sleep("1h")
        return [a, b, await new]

    x = stands_at_the_sleep(rig)
    x.restart(after)
    x.bench.storage.executions.request_wake("x", x.bench.clock.now_ms())
    found = x.go()

    assert found.result == [1, 2, 3]
    assert keys(found) == ["load", "pack", "ship", "sleep"]


def test_a_new_operation_that_is_waited_for_in_the_replayed_part_diverges(rig: MakeRig) -> None:
    """spec R5: awaited alone, in a select or through a branch, where recorded ones are left."""

    async def after(step: Step) -> Any:
        await step.run(load, 1)
        new = step.spawn(step.run(ship, 3))
        await step.select(new)
        await step.run(pack, 2)

    x = stands_at_the_sleep(rig)
    x.restart(after)
    x.bench.clock.advance(3_600_000)
    x.go()

    assert "recorded: step 'pack'" in problem(x)
    assert "code:     step 'ship' at test_changed_code.py:" in problem(x)


# --- patched ----------------------------------------------------------------------------------


async def patched_early(step: Step) -> Any:
    """`before`, with a new first step behind a patch."""
    first = await step.run(ship, 0) if step.patched("ship-first") else None
    a = await step.run(load, 1)
    b = await step.run(pack, 2)
    await step.sleep("1h")
    return [first, a, b]


def test_a_patch_takes_the_old_arm_where_recorded_entries_remain(rig: MakeRig) -> None:
    """case 138; spec R5: executions under way finish the old way, with no marker."""
    x = stands_at_the_sleep(rig)
    x.restart(patched_early)
    x.to(120_000)
    x.restart()
    found = x.go()

    assert found.result == [None, 1, 2]
    assert keys(found) == ["load", "pack", "sleep"]


def test_a_patch_takes_the_new_arm_in_new_executions_and_replays_so(rig: MakeRig) -> None:
    """case 138; spec R5: a marker, in the next commit, before any effect."""

    async def asks_again(step: Step) -> Any:
        first = await patched_early(step)
        return [*first, step.patched("ship-first")]

    x = rig(asks_again)
    x.to(60_000)
    assert keys(x.result) == ["ship-first", "ship", "load", "pack"]
    x.restart()
    found = x.go()

    assert found.result == [0, 1, 2, True]
    assert called(found) == ["ship", "load", "pack"]
    assert [e.kind for e in found.history].count("patch") == 1


def test_the_first_answer_of_a_patch_holds(rig: MakeRig) -> None:
    """spec R5: false in the replayed part stays false ahead of it, in later deliveries too."""

    async def after(step: Step) -> Any:
        seen = [step.patched("p")]
        await step.run(load, 1)
        seen.append(step.patched("p"))
        await step.run(pack, 2)
        seen.append(step.patched("p"))
        await step.sleep("1h")
        seen.append(step.patched("p"))
        await step.sleep("1h")
        return [*seen, step.patched("p")]

    x = stands_at_the_sleep(rig)
    x.restart(after)
    x.bench.clock.advance(3_600_000)
    x.to(3_700_000)
    x.restart()

    assert x.go().result == [False] * 5


def test_a_patch_ahead_of_the_recorded_part_takes_the_new_arm(rig: MakeRig) -> None:
    """spec R5: once none remain it is true, with a marker."""

    async def after(step: Step) -> Any:
        a = await step.run(load, 1)
        b = await step.run(pack, 2)
        new = await step.run(ship, 3) if step.patched("ship-too") else None
        await step.sleep("1h")
        return [a, b, new]

    x = stands_at_the_sleep(rig)
    x.restart(after)
    x.bench.storage.executions.request_wake("x", x.bench.clock.now_ms())
    x.to(120_000)
    x.restart()
    found = x.go()

    assert found.result == [1, 2, 3]
    assert keys(found) == ["load", "pack", "ship-too", "ship", "sleep"]


def test_a_leftover_marker_is_no_divergence(rig: MakeRig) -> None:
    """spec R5: the call of `patched` may be taken out once no old execution is left."""

    async def after(step: Step) -> Any:
        first = await step.run(ship, 0)
        a = await step.run(load, 1)
        b = await step.run(pack, 2)
        await step.sleep("1h")
        return [first, a, b]

    x = rig(patched_early)
    x.to(60_000)
    x.restart(after)

    assert x.go().result == [0, 1, 2]


def test_a_second_patch_beside_a_recorded_marker(rig: MakeRig) -> None:
    """spec R5: asked where only a marker is left, its own stands after it."""

    async def first(step: Step) -> Any:
        await step.run(load, 1)
        step.patched("one")
        await step.sleep("1h")
        return "first"

    async def second(step: Step) -> Any:
        await step.run(load, 1)
        seen = [step.patched("two"), step.patched("one")]
        await step.sleep("1h")
        return seen

    x = rig(first)
    x.to(60_000)
    assert keys(x.result) == ["load", "one"]
    x.restart(second)
    x.bench.storage.executions.request_wake("x", x.bench.clock.now_ms())
    x.to(120_000)
    x.restart()
    found = x.go()

    assert found.result == [True, True]
    assert keys(found) == ["load", "one", "two", "sleep"]


def test_a_patch_in_a_branch_while_steps_run(rig: MakeRig) -> None:
    """spec R4, R5: the marker is durable before what follows it starts."""

    async def branch(step: Step) -> Any:
        await step.sleep("1s")
        return await step.run(ship, 1) if step.patched("p") else None

    async def w(step: Step) -> Any:
        slow = step.spawn(step.run(load, 0))
        return [await step.spawn(branch(step)), await slow]

    x = rig(w, duration=lambda call: 5_000)
    x.until(lambda: "branch:ship" in called(x.result))
    assert keys(x.result) == ["branch:sleep", "p"] or keys(x.result) == ["sleep", "p"]
    x.restart()

    assert x.go().result == [1, 0]


@pytest.mark.parametrize("name", ["", "a:b", "a#2", " "])
def test_a_patch_has_a_name_like_a_key(rig: MakeRig, name: str) -> None:
    """spec R3, R5."""

    async def w(step: Step) -> Any:
        return step.patched(name)

    assert isinstance(rig(w).go().error, ValueError)


# --- versions and names -----------------------------------------------------------------------


def test_a_running_execution_stays_on_its_version(rig: MakeRig) -> None:
    """case 137; spec R11: new ones take what they were admitted with; the missing one waits."""

    async def second(step: Step) -> Any:
        return "second"

    x = stands_at_the_sleep(rig)
    x.restart()
    only_new = definition_of(second, version=2)
    x.bench.definitions = {only_new.key: only_new}
    x.bench.admit("w", execution_id="y", version=2)
    x.bench.clock.advance(3_600_000)
    x.bench.run()
    waiting = x.record

    assert x.bench.result("y").result == "second"
    assert (waiting.status, waiting.delivery, waiting.held) == ("suspended", None, None)
    old = definition_of(before)
    x.bench.crash()
    x.bench.definitions = {only_new.key: only_new, old.key: old}
    assert x.go().result == [1, 2]


def test_an_execution_whose_workflow_nobody_has_loaded_waits_unclaimed(rig: MakeRig) -> None:
    """cases 294, B68; spec E12: due, not claimed, no problem; it runs once the code appears."""
    x = rig(before)
    x.bench.admit("gone", execution_id="y")
    x.go()
    unknown = x.bench.record("y")

    assert (unknown.status, unknown.deliveries, unknown.problem) == ("admitted", 0, None)
    assert unknown.due_at == START
    x.bench.crash()
    known = definition_of(before, "gone")
    x.bench.definitions = {known.key: known}
    x.bench.run()
    assert x.bench.result("y").result == [1, 2]


def test_steps_that_iterate_over_a_set_replay_by_key(rig: MakeRig) -> None:
    """B57; spec R3, R4: with given keys another order is no divergence while they run at once."""
    orders = [["red", "green", "blue"], ["blue", "red", "green"]]

    async def w(step: Step) -> Any:
        order = orders.pop(0) if len(orders) > 1 else orders[0]
        held = {c: step.spawn(step.using(key=c).run(load, c)) for c in order}
        await step.all(list(held.values()))
        await step.sleep("1h")
        return {c: h.result() for c, h in sorted(held.items())}

    x = rig(w)
    x.to(60_000)
    x.restart()

    assert x.go().result == {"blue": "blue", "green": "green", "red": "red"}
