"""A request to cancel that comes when the function has ended, and moments across incarnations."""

from __future__ import annotations

from tests.engine.helpers import START, MakeRig
from yieldstar_cli.engine.step import Step
from yieldstar_cli.model import Completed


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
