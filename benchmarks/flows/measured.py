"""The workflows that are measured: steps that do nothing, so that what is left is the engine."""

import time

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
async def many_sync_steps(step: Step, steps: int = 10) -> int:
    """The same with sync steps."""
    n = 0
    for _ in range(steps):
        n = await step.run(add_one_on_a_thread, n)
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


@workflow
async def parts_between_messages(step: Step, steps: int, parts: int) -> int:
    """Steps, then a message, over and over: the worker that sends it on may be another one."""
    n = 0
    for _ in range(parts):
        for _ in range(steps):
            n = await step.run(add_one, n)
        await step.message("go")
    return n


@workflow
async def one_message(step: Step) -> object:
    """What somebody sends."""
    return await step.message("go")


@workflow
async def until(step: Step, moment: int) -> None:
    """Everybody sleeps until the same moment, in UTC milliseconds."""
    await step.sleep_until(moment)


@workflow
async def at_once(step: Step, n: int) -> int:
    """A child with nothing to do."""
    return n


@workflow
async def fan_out(step: Step, count: int, child: str = "one-step") -> int:
    """Children all at once, joined in their order."""
    results = await step.map(child, [{"n": n} for n in range(count)])
    return len(results)


def text_of(length: int) -> str:
    """A result of a known size."""
    return "x" * length


@workflow
async def steps_with_results(step: Step, steps: int, length: int) -> int:
    """Steps whose results take room in the file."""
    for _ in range(steps):
        await step.run(text_of, length)
    return steps


def burn(milliseconds: int) -> int:
    """Keep the interpreter busy with pure Python."""
    until_s = time.thread_time() + milliseconds / 1e3
    turns = 0
    while time.thread_time() < until_s:
        turns += 1
    return turns


@workflow
async def burning(step: Step, milliseconds: int) -> None:
    """One CPU-bound step."""
    await step.run(burn, milliseconds)
