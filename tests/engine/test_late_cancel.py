"""A request to cancel that comes when the function has ended, and moments across incarnations."""

from __future__ import annotations

import pytest

from tests.engine.helpers import START, MakeRig
from yieldstar_cli.engine.step import Step
from yieldstar_cli.errors import Cancelled
from yieldstar_cli.model import CancelledOutcome, Completed


def slow() -> str:
    """Takes its time."""
    return "done"


def quick() -> str:
    """Takes none."""
    return "done"


async def slow_async() -> str:
    """Takes its time on the loop."""
    return "done"


def test_a_cancel_that_comes_while_deferred_steps_run_lets_them_all_run(rig: MakeRig) -> None:
    """spec C6, operations table: deferred functions run before the outcome; it stays as it was."""

    async def body(step: Step) -> str:
        step.defer(quick)
        step.defer(slow_async)
        step.defer(slow)
        return "returned"

    run = rig(body, duration=lambda call: 0 if call.step_key == "quick" else 5_000)
    run.to(1_000)

    answer = run.bench.storage.steering.cancel("x", reason="too late")
    run.bench.workers[0].poll()
    found = run.go()

    assert answer == "requested"
    assert found.record.outcome == Completed('"returned"')
    assert [(e.kind, e.step_key, e.ok) for e in found.history if e.kind == "defer"] == [
        ("defer", "slow", True),
        ("defer", "slow-async", True),
        ("defer", "quick", True),
    ]


@pytest.mark.parametrize("crash", [False, True])
def test_a_cancel_that_comes_when_a_function_has_continued_reaches_the_next_incarnation(
    rig: MakeRig, crash: bool
) -> None:
    """spec C6, C7: the request survives `continue_as`; that deferred steps still run is no excuse.

    Also where the worker dies between the record of the request and the switch.
    """

    async def body(step: Step) -> None:
        if step.event.incarnation == 1:
            step.defer(quick)
            step.defer(slow)
            await step.continue_as()
        try:
            await step.message("never")
        except Cancelled:
            await step.run(quick)
            raise

    run = rig(body, duration=lambda call: 0 if call.step_key == "quick" else 5_000)
    run.to(1_000)

    assert run.bench.cancel("x", reason="enough") == "requested"
    run.until(lambda: any(entry.kind == "cancel" for entry in run.history))
    assert run.record.incarnation == 1
    if crash:
        run.restart()
    found = run.go()

    assert found.record.outcome == CancelledOutcome("enough")
    assert found.record.incarnation == 2
    assert [(e.kind, e.step_key) for e in found.history] == [
        ("cancel", "cancel"),
        ("step", "quick"),
    ]


def test_now_never_goes_back_from_one_incarnation_to_the_next(rig: MakeRig) -> None:
    """spec R7: a moment is never before that of the one ahead, also across incarnations."""
    seen: list[float] = []

    async def body(step: Step) -> None:
        seen.append(step.now().timestamp() * 1_000 - START)
        if step.event.incarnation == 1:
            await step.sleep("1h")
            seen.append(step.now().timestamp() * 1_000 - START)
            await step.continue_as()

    run = rig(body)
    run.until(lambda: run.record.incarnation == 2)
    run.bench.crash()
    run.bench.clock.set(START + 60_000)

    run.go()

    assert seen[0] == 0
    assert seen[1] == seen[-1] == 3_600_000
