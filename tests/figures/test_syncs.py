"""How often a delivery waits for the disk: spec R2 in figures; no time is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.figures.flows import cost_of, many_steps, one_step, rounds
from tests.figures.meters import metered
from yieldstar_cli import Step, workflow
from yieldstar_cli.testing import Bench

#: One for the claim, which executions that are due together share, and one for all the rest.
CLAIM = 1


@workflow
async def message_then_end(step: Step) -> Any:
    return await step.message("go")


@workflow
async def message_after_message(step: Step) -> None:
    await step.message("go")
    await step.message("go")


@workflow
async def timer_then_end(step: Step) -> None:
    await step.sleep("1h")


@workflow
async def timer_after_timer(step: Step) -> None:
    await step.sleep("1h")
    await step.sleep("30d")


@workflow
async def raced(step: Step) -> str:
    box = step.message("go")
    won = await step.select(box, step.timer("30d"))
    step.set_status("raced")
    return "message" if won is box else "timer"


def send(bench: Bench) -> None:
    bench.send("x", "go", 1)
    bench.run_to(bench.clock.now_ms() + 1_000)


def an_hour_later(bench: Bench) -> None:
    bench.run_to(bench.clock.now_ms() + 3_600_000)


def wake(bench: Bench) -> None:
    bench.storage.executions.wake("x")
    bench.run_to(bench.clock.now_ms() + 1_000)


@pytest.mark.parametrize(
    ("flow", "moved", "status"),
    [
        (message_then_end, send, "completed"),
        (message_after_message, send, "suspended"),
        (timer_then_end, an_hour_later, "completed"),
        (timer_after_timer, an_hour_later, "suspended"),
        (raced, send, "completed"),
        (timer_then_end, wake, "suspended"),
    ],
    ids=["message-end", "message-message", "timer-end", "timer-timer", "select", "bare-wake"],
)
def test_a_delivery_that_starts_no_new_effect_waits_for_the_disk_once(
    flow: Any, moved: Callable[[Bench], None], status: str
) -> None:
    """spec R2, R4: what was applied, and the suspension or the end, are one commit."""
    with metered() as meter, Bench(flow) as bench:
        bench.admit(flow, execution_id="x")
        bench.run_to(bench.clock.now_ms() + 1_000)
        worker = bench.workers[0]
        delivered = worker.delivered
        sends = syncs_of_the_outside(bench, meter, moved)

        assert bench.record("x").status == status
        assert worker.delivered == delivered + 1
        assert sends <= CLAIM + 1


def syncs_of_the_outside(bench: Bench, meter: Any, moved: Callable[[Bench], None]) -> int:
    """The worker's syncs while something happens; the outside's own commit is not counted."""
    before = bench.storage.db.connection.total_changes()
    meter.reset()
    moved(bench)
    outside = 1 if bench.storage.db.connection.total_changes() != before else 0
    return int(meter.syncs) - outside


def test_a_one_step_execution_waits_for_the_disk_once_beside_its_claim() -> None:
    """spec R2: its first round has nothing to write; its result and its end are one commit."""
    assert cost_of(one_step).syncs <= CLAIM + 1


def test_a_claim_is_shared_by_all_that_are_due_together() -> None:
    """spec E7: a hundred executions, one commit to claim them all; one each for their ends, which
    a real worker's writer shares as well. The checkpoints of the log add a few.
    """
    assert cost_of(one_step, executions=100).syncs <= CLAIM + 100 + 8


def test_a_step_waits_for_the_disk_once() -> None:
    """spec R2: the next step starts only when the one before is durable."""
    assert cost_of(many_steps, {"count": 100}).syncs <= CLAIM + 100 + 8


def test_a_round_that_starts_a_step_waits_once_more() -> None:
    """spec R2: the timer's end is durable before the step that follows it starts."""
    assert cost_of(rounds, {"count": 100}).syncs <= 100 * (CLAIM + 2) + 16
