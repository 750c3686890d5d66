"""Workflows of every kind for the simulator, and the outside world that their steps touch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from yieldstar_cli import (
    EffectAnswer,
    Step,
    StepTimeout,
    not_found,
    settled,
    this_step,
    unknown,
    workflow,
)


class Outside:
    """What steps do to the world, told by the world that runs now."""

    def __init__(self) -> None:
        #: How often each step of each execution was called: (execution, function, arguments).
        self.calls: Counter[tuple[str, str, str]] = Counter()
        self.charges: dict[str, int] = {}
        #: Charges that were done although they stood already.
        self.charged_again: list[str] = []
        #: Told of every call before it does anything.
        self.called: Callable[[str, str], None] = lambda execution_id, name: None
        #: How many more times `deadly` ends the process.
        self.deaths: Counter[str] = Counter()
        #: How the payment service behaves next: "ok", "lost before", "lost after", "unknown".
        self.moods: list[str] = []


class Died(BaseException):
    """The process is gone in the middle of a step."""


class NoAnswer(Exception):
    """The connection broke."""


OUTSIDE = Outside()


def begin(outside: Outside) -> None:
    """From now on the steps touch this one."""
    global OUTSIDE
    OUTSIDE = outside


def note(name: str, *args: Any) -> str:
    """A step was called; answers the execution."""
    execution_id = this_step().execution_id
    OUTSIDE.calls[execution_id, name, repr(args)] += 1
    OUTSIDE.called(execution_id, name)
    return execution_id


# --- steps ---------------------------------------------------------------------------------------


def load_order(order: int) -> dict[str, int]:
    """The order as the shop has it."""
    note("load_order", order)
    return {"order": order, "cents": order * 100}


async def charge_card(order: dict[str, int]) -> str:
    """The card is charged."""
    note("charge_card", order["order"])
    return f"paid {order['cents']}"


def fails_twice(n: int) -> int:
    """Works at its third try."""
    note("fails_twice", n)
    if this_step().attempt < 3:
        raise ConnectionError("not yet")
    return n * 3


def square(n: int) -> int:
    """n times n."""
    note("square", n)
    return n * n


def deadly(n: int) -> int:
    """Takes the process with it, the first times."""
    execution_id = note("deadly", n)
    if OUTSIDE.deaths[execution_id] > 0:
        OUTSIDE.deaths[execution_id] -= 1
        raise Died
    return n


def find_charge(effect_id: str, cents: int) -> EffectAnswer[str]:
    """Asks the payment service whether it has charged."""
    mood = OUTSIDE.moods.pop() if OUTSIDE.moods else "ok"
    if mood == "unknown":
        return unknown
    if mood.startswith("lost"):
        raise NoAnswer
    return settled(f"receipt {cents}") if effect_id in OUTSIDE.charges else not_found


async def charge_once(effect_id: str, cents: int) -> str:
    """The payment service charges, whether it has done so before or not."""
    mood = OUTSIDE.moods.pop() if OUTSIDE.moods else "ok"
    if mood == "lost before":
        raise NoAnswer
    if effect_id in OUTSIDE.charges:
        OUTSIDE.charged_again.append(effect_id)
    OUTSIDE.charges[effect_id] = cents
    if mood == "lost after":
        raise NoAnswer
    return f"receipt {cents}"


# --- workflows -----------------------------------------------------------------------------------


@workflow
async def charge_order(step: Step, n: int) -> str:
    """Wait, load, charge."""
    await step.sleep("10m")
    order = await step.run(load_order, n)
    return await step.run(charge_card, order)


@workflow
async def stubborn(step: Step, n: int) -> int:
    """A step that works at its third try."""
    from yieldstar_cli import RetryPolicy

    return await step.using(retry=RetryPolicy(attempts=5)).run(fails_twice, n)


@workflow
async def leaf(step: Step, n: int) -> int:
    """A child that sleeps and answers."""
    await step.sleep(n + 1)
    return await step.run(square, n)


@workflow
async def fan_out(step: Step, n: int) -> int:
    """Children, summed up."""
    return sum(await step.all([step.child(leaf, {"n": i}) for i in range(n)]))


class Stock(msgspec.Struct):
    """Things to take."""

    things: list[int] = []
    taken: int = 0


def take_first(stock: Stock) -> int | None:
    """The first thing, if any."""
    return stock.things[0] if len(stock.things) else None


def remove(stock: Stock, thing: int) -> None:
    """The claim on it."""
    stock.things.remove(thing)
    stock.taken += 1


@workflow
async def taker(step: Step, n: int) -> int:
    """Takes one thing from the shared stock, unless none comes in time."""
    stock = await step.store(Stock, "shared", initial=Stock())
    try:
        return await step.timeout(stock.take(take_first, remove), "2h")
    except StepTimeout:
        return -1


@workflow
async def supplier(step: Step, n: int) -> int:
    """Puts n things into the shared stock, one update each."""
    stock = await step.store(Stock, "shared", initial=Stock())
    for i in range(n):

        def put(s: Stock, i: int = i) -> None:
            s.things.append(i)

        await stock.update(put)
    return n


@workflow
async def patient(step: Step, n: int) -> str:
    """A message in time, or not."""
    try:
        return f"got {await step.timeout(step.message('box', int), '1h')}"
    except StepTimeout:
        return "late"


@workflow
async def reader(step: Step, n: int, total: int = 0) -> int:
    """Sums up its messages up to a negative one, continuing as new on the way.

    Not for ever: the judge reads every incarnation, and the file keeps the last few.
    """
    read = 0
    while True:
        value = await step.message("box", int)
        if value < 0:
            return total
        total += value
        read += 1
        if read == 3 and step.event.incarnation < 4:
            return await step.continue_as({"n": n, "total": total})


@workflow
async def racer(step: Step, n: int) -> str:
    """Two children race; the loser's handle goes along and is awaited later."""
    fast = step.child(leaf, {"n": n % 3})
    slow = step.child(leaf, {"n": 40})
    first = await step.select(fast, slow)
    await step.sleep("1s")
    return f"{'fast' if first is fast else 'slow'} {await slow} {await fast}"


@workflow
async def tree(step: Step, n: int) -> int:
    """A chain of children that wait for a message which never comes."""
    if n > 0:
        return await step.child(tree, {"n": n - 1}) + 1
    await step.message("never")
    return 0


@workflow
async def fatal_flow(step: Step, n: int) -> int:
    """A step that ends its process, the first times."""
    return await step.run(deadly, n)


@workflow
async def once_charged(step: Step, n: int) -> str:
    """Executions that share an effect."""
    return await step.effect(
        f"charge-{n % 3}",
        operation="charge",
        input=(n % 3) * 100,
        lookup=find_charge,
        perform=charge_once,
        retry_in="5s",
    )


FLOWS = [
    charge_order,
    stubborn,
    fan_out,
    taker,
    supplier,
    patient,
    reader,
    racer,
    tree,
    fatal_flow,
    once_charged,
]
ALL = [*FLOWS, leaf]
