"""Workflows of the kept file of schema 1, and of all later ones. Never changed."""

from __future__ import annotations

from yieldstar_cli import RetryableError, RetryPolicy, Step, this_step, workflow

HOURLY = RetryPolicy(attempts=5, first="1h", factor=1, max="1h")


def load(order: int) -> dict[str, int]:
    return {"order": order, "cents": order * 100}


def charge(cents: int) -> str:
    return f"charged {cents}"


def flaky(answer: str) -> str:
    if this_step().attempt < 3:
        raise RetryableError("not yet")
    return answer


def break_down(order: int) -> None:
    raise LookupError(f"no order {order}")


@workflow
async def sleeps(step: Step, order: int) -> str:
    """Stands in a sleep, between two steps."""
    found = await step.run(load, order)
    step.log.info("loaded %s", order)
    await step.sleep("1h")
    return await step.run(charge, found["cents"])


@workflow
async def retries(step: Step, order: int) -> str:
    """Stands between two tries."""
    return await step.using(retry=HOURLY).run(flaky, f"done {order}")


@workflow
async def runs(step: Step, order: int) -> str:
    """Stands in the middle of a step."""
    found = await step.run(load, order)
    return await step.using(key="slow").run(charge, found["cents"])


@workflow
async def ends(step: Step, order: int) -> str:
    """Has ended."""
    return await step.run(charge, order)


@workflow
async def fails(step: Step, order: int) -> None:
    """Has failed."""
    await step.run(break_down, order)


ALL = (sleeps, retries, runs, ends, fails)
