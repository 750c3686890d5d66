"""The workflows whose figures are counted, and a count of what running them takes."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.figures.meters import metered
from yieldstar_cli import Step, workflow
from yieldstar_cli.testing import Bench


async def add_one(n: int) -> int:
    return n + 1


async def text_of(length: int) -> str:
    return "x" * length


@workflow
async def one_step(step: Step) -> int:
    return await step.run(add_one, 1)


@workflow
async def many_steps(step: Step, count: int) -> int:
    n = 0
    for _ in range(count):
        n = await step.run(add_one, n)
    return n


@workflow
async def rounds(step: Step, count: int) -> int:
    """A step and a short sleep, over and over."""
    n = 0
    for _ in range(count):
        n = await step.run(add_one, n)
        await step.sleep("1ms")
    return n


@workflow
async def texts(step: Step, count: int, length: int) -> None:
    for _ in range(count):
        await step.run(text_of, length)


@workflow
async def sleeper(step: Step) -> None:
    await step.sleep("30d")


@workflow
async def fan_out(step: Step, count: int) -> int:
    return len(await step.map(one_step, [{} for _ in range(count)]))


class Cost(NamedTuple):
    statements: int
    syncs: int


def cost_of(flow: Any, params: Any = None, *, executions: int = 1, more: Any = ()) -> Cost:
    """What a worker asks of SQLite and of the disk, from the admissions to the last end.

    The bench's writer gives every request a transaction of its own, as if each were alone in the
    world: what shares a transaction under a real worker is counted in full here.
    """
    with metered() as meter, Bench(flow, *more) as bench:
        bench.start_worker()
        bench.run()
        for n in range(executions):
            bench.admit(flow, params, execution_id=f"x{n}")
        meter.reset()
        bench.run()
        cost = Cost(meter.statements, meter.syncs)
        for n in range(executions):
            assert bench.record(f"x{n}").status == "completed"
        return cost
