"""A delivery that can do nothing for the moment lets the moment pass (spec R10, C6, E14, K2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from yieldstar_cli.engine.authoring import workflow
from yieldstar_cli.engine.retry import RetryPolicy
from yieldstar_cli.engine.step import Step
from yieldstar_cli.testing import Bench
from yieldstar_cli.worker.ports import StepCall

TWICE = RetryPolicy(attempts=2, first="1s")


def slow() -> str:
    return "done"


def fail() -> None:
    raise ValueError("not yet")


@workflow
async def two(step: Step) -> None:
    """Runs a step of ten seconds beside one that fails and pauses for one."""
    step.spawn(step.run(slow))
    await step.using(retry=TWICE).run(fail)


def cancel(bench: Bench) -> None:
    bench.storage.steering.cancel("x")


def pause(bench: Bench) -> None:
    bench.storage.steering.pause(execution_id="x", by="me")


def stop(bench: Bench) -> None:
    bench.workers[0].stop()


def ten_seconds(call: StepCall) -> int:
    return 10_000 if call.step_key == "slow" else 0


@pytest.mark.parametrize("kept_by", [cancel, pause, stop])
def test_a_retry_that_must_not_begin_yet_keeps_nobody_busy(
    kept_by: Callable[[Bench], None],
) -> None:
    """spec R10, C6, E14, K2: its pause is over, and a step has to end first."""
    with Bench(two, duration=ten_seconds) as bench:
        bench.admit("two", execution_id="x")
        begun = bench.clock.now_ms()
        bench.run_to(begun + 500)
        kept_by(bench)
        bench.loop.post(bench.workers[0].poll)

        for _ in range(60):
            bench.loop.step()

        assert bench.clock.now_ms() >= begun + 10_000
        assert [(e.step_key, e.attempt) for e in bench.history("x") if e.kind == "step"] == [
            ("slow", 1)
        ]
