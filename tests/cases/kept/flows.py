"""The workflows of the kept files. Never changed: what was recorded was recorded with these."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from yieldstar_cli import RetryableError, RetryPolicy, Step, this_step, workflow

HOURLY = RetryPolicy(attempts=5, first="1h", factor=1, max="1h")


class Declined(Exception):
    """An error whose __init__ takes more than its message."""

    def __init__(self, card: str, limit: int) -> None:
        super().__init__(f"{card} is over {limit}")
        self.card = card
        self.limit = limit


@dataclass
class Receipt:
    """What loading an order gives."""

    order: int
    total: Decimal
    paid: bool | None = None


def load(order: int) -> Receipt:
    return Receipt(order, Decimal("12.50"))


def charge(total: Decimal) -> str:
    return f"charged {total}"


def decline(card: str) -> None:
    raise Declined(card, 100)


def flaky(answer: str) -> str:
    if this_step().attempt < 3:
        raise RetryableError("not yet")
    return answer


def ready() -> str | None:
    return "ready" if this_step().attempt > 2 else None


@workflow
async def sleeps(step: Step, order: int) -> dict[str, Any]:
    """Typed results, chance, a patch, logs and a status around a sleep."""
    receipt = await step.run(load, order)
    drawn = [step.random(), str(step.uuid())]
    new = step.patched("charge-twice")
    step.log.info("loaded %s", receipt.order)
    step.set_status({"loaded": order})
    await step.sleep("1h")
    step.log.info("slept")
    charged = await step.run(charge, receipt.total)
    drawn.append(str(step.uuid()))
    return {"charged": charged, "drawn": drawn, "new": new, "at": step.now()}


@workflow
async def races(step: Step) -> list[str]:
    """A step loses a race, a timer wins, a second race awaits the loser."""
    first = step.timer("1h")
    second = step.spawn(step.using(retry=RetryPolicy(first="90m", max="5h")).run(flaky, "late"))
    won = []
    for left in ([second, first], [second, step.timer("10h")]):
        winner = await step.select(*left)
        won.append("step" if winner is second else "timer")
    return won


@workflow
async def retries(step: Step) -> str:
    """Stands between two tries."""
    return await step.using(retry=HOURLY).run(flaky, "done")


@workflow
async def polls(step: Step) -> str | None:
    """Stands between two looks."""
    return await step.poll(ready, every="1h", attempts=5)


@workflow
async def branches(step: Step) -> list[Any]:
    """Side by side: a loop, one cancelled in its step, and one that fails and is caught."""

    async def loop() -> list[str]:
        got = []
        for n in range(3):
            got.append(await step.run(charge, Decimal(n)))
            await step.sleep("40m")
        return got

    async def doomed() -> None:
        await step.using(key="slow").run(charge, Decimal(9))

    async def failing() -> str:
        try:
            await step.run(decline, "visa")
        except Declined as error:
            await step.sleep("50m")
            return f"{error.card} {error.limit} {error}"
        return ""

    handles = [step.spawn(loop()), step.spawn(failing())]
    cancelled = step.spawn(doomed())
    await step.sleep("30m")
    cancelled.cancel()
    return [await step.timeout(handles[0], "5h"), await handles[1]]


@workflow
async def fails(step: Step) -> None:
    """Ends with an error that was recorded before the sleep."""
    caught: Exception | None = None
    try:
        await step.run(decline, "amex")
    except Declined as error:
        caught = error
    await step.sleep("1h")
    assert caught is not None
    raise caught


@workflow
def plain(order: int) -> int:
    """One step."""
    return order + 1


ALL = (sleeps, races, retries, polls, branches, fails, plain)
