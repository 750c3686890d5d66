"""The workflows that are measured: steps that do nothing, so that what is left is the engine."""

from yieldstar_cli import Step, workflow


async def add_one(n: int) -> int:
    """A step on the worker's event loop."""
    return n + 1


def add_one_on_a_thread(n: int) -> int:
    """The same as a sync step, which runs on the worker's thread pool."""
    return n + 1


@workflow
async def one_step(step: Step, n: int = 0) -> int:
    """One async step."""
    return await step.run(add_one, n)


@workflow
async def one_sync_step(step: Step, n: int = 0) -> int:
    """One sync step."""
    return await step.run(add_one_on_a_thread, n)


@workflow
async def many_steps(step: Step, steps: int = 10) -> int:
    """Steps one after the other, each given the result of the one before."""
    n = 0
    for _ in range(steps):
        n = await step.run(add_one, n)
    return n


@workflow
async def rounds(step: Step, count: int = 100) -> int:
    """A step and a short durable sleep, over and over."""
    n = 0
    for _ in range(count):
        n = await step.run(add_one, n)
        await step.sleep("1ms")
    return n


@workflow
async def steps_then_sleep(step: Step, steps: int = 0) -> int:
    """Steps, then a timer that nobody waits for: what a restarted worker has to replay."""
    n = 0
    for _ in range(steps):
        n = await step.run(add_one, n)
    await step.sleep("30d")
    return n
