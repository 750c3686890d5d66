"""A zoo of workflows, each showing one way of waiting, running or failing; spans are short."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec

from yieldstar_cli import (
    ChildCancelled,
    ChildFailed,
    ExecutionAdmissionError,
    InvalidMessage,
    RetryPolicy,
    Step,
    StepTimeout,
    this_step,
    workflow,
)
from yieldstar_cli.errors import Fatal, RetryableError

QUICK = RetryPolicy(attempts=3, first="20ms")


class Order(msgspec.Struct):
    id: int
    price: Decimal
    tags: tuple[str, ...] = ()


class Refused(Exception):
    def __init__(self, code: int, why: str) -> None:
        super().__init__(f"refused with {code}: {why}")
        self.code = code


@dataclass
class Point:
    x: int
    at: datetime


def load(n: int) -> Order:
    return Order(n, Decimal("12.50"), ("a", "b"))


async def fetch(n: int) -> dict[str, int]:
    await asyncio.sleep(0)
    return {"n": n}


def refuse(code: int) -> None:
    raise Refused(code, "no")


def third_time(name: str) -> str:
    if this_step().attempt < 3:
        raise ConnectionError(name)
    return f"{name} on {this_step().attempt}"


def ask_again() -> str:
    if this_step().attempt == 1:
        raise RetryableError("not yet", retry_in="10ms")
    return "now"


def give_up() -> None:
    raise Fatal("never")


def ready_after(n: int) -> int | None:
    return this_step().attempt if this_step().attempt > n else None


def plot(x: int) -> Point:
    return Point(x, datetime(2026, 1, 2, tzinfo=UTC))


def unstorable() -> object:
    return threading.Lock()


@workflow
async def sequence(step: Step, n: int) -> Order:
    """Steps one after the other, with typed results."""
    order = await step.run(load, n)
    await step.sleep("20ms")
    again = await step.run(load, order.id + 1)
    assert isinstance(again.price, Decimal)
    return again


@workflow
async def loop(step: Step) -> int:
    """The same call in a loop: key, key#2, key#3."""
    total = 0
    for i in range(3):
        total += (await step.run(fetch, i))["n"]
        await step.sleep("5ms")
    return total


@workflow
async def errors(step: Step) -> list[str]:
    """Recorded errors come back as their classes."""
    seen: list[str] = []
    try:
        await step.run(refuse, 7)
    except Refused as error:
        seen.append(f"{error} {error.code}")
    try:
        await step.run(give_up)
    except Fatal as error:
        seen.append(str(error))
    return seen


@workflow
async def retries(step: Step) -> list[str]:
    """A policy, and a step that asks for a retry by itself."""
    first = await step.using(retry=QUICK).run(third_time, "x")
    second = await step.run(ask_again)
    return [first, second]


@workflow
async def exhausted(step: Step) -> str:
    """Retries that are used up raise the last error."""
    policy = RetryPolicy(attempts=2, first="5ms")
    return await step.using(retry=policy).run(third_time, "y")


@workflow
async def polls(step: Step) -> list[object]:
    """Until truthy, and until attempts are used up."""
    found = await step.poll(ready_after, 2, every="10ms")
    try:
        await step.poll(ready_after, 9, every="5ms", attempts=2)
    except StepTimeout as error:
        return [found, str(error)]
    return [found]


@workflow
async def race(step: Step) -> str:
    """A timer against a step that is done at once; the loser is awaited again."""
    timer = step.timer("1s")
    quick = step.spawn(step.run(fetch, 1))
    won = await step.select(timer, quick)
    await timer
    return "step" if won is quick else "timer"


@workflow
async def branches(step: Step) -> list[int]:
    """Branches with keys of their own, joined in the order given."""

    async def part(n: int) -> int:
        got = await step.run(fetch, n)
        await step.sleep(f"{n * 10}ms")
        return got["n"] * 10

    return await step.all([part(1), part(2), part(3)])


@workflow
async def too_slow(step: Step) -> str:
    """A timeout cancels the branch, which cleans up."""

    async def slow() -> str:
        try:
            await step.sleep("1h")
        finally:
            step.log.info("cleaned up")
        return "never"

    try:
        return await step.timeout(slow(), "20ms")
    except StepTimeout:
        return (await step.using(key="after").run(fetch, 5)).__repr__()


@workflow
async def typed(step: Step) -> tuple[int, str]:
    """A dataclass with a moment, and chance that is the same on replay."""
    point = await step.run(plot, 4)
    later = point.at + timedelta(days=1)
    a, b = step.random(), step.uuid()
    await step.sleep("10ms")
    return point.x, f"{later.isoformat()} {a} {b}"


@workflow
async def broken_result(step: Step) -> str:
    """A result that cannot be stored fails its step."""
    try:
        await step.run(unstorable)
    except Exception as error:
        return type(error).__name__
    return "stored"


@workflow
async def patched(step: Step) -> bool:
    """A marker of changed code, and a status."""
    new = step.patched("new-arm")
    step.set_status({"arm": new})
    await step.sleep("5ms")
    return new


@workflow
async def fails(step: Step) -> None:
    """An exception that leaves the function is the outcome."""
    await step.run(fetch, 1)
    raise ValueError("out of stock")


@workflow
def plain(n: int) -> int:
    """The whole function is one recorded step."""
    return n * this_step().attempt


# --- waiting on the world ------------------------------------------------------------------------


class Command(msgspec.Struct):
    do: str
    price: Decimal = Decimal(0)


@workflow
async def grandchild(step: Step, n: int) -> Order:
    """A child's child; its result has a type of its own."""
    return await step.run(load, n)


@workflow
async def good_child(step: Step, n: int) -> int:
    """A child that has one."""
    order = await step.child(grandchild, {"n": n})
    assert isinstance(order.price, Decimal)
    return order.id + 1


@workflow
async def bad_child(step: Step) -> None:
    """A child that fails."""
    await step.run(refuse, 9)


@workflow
async def waiting_child(step: Step) -> None:
    """A child that waits until it is told to end."""
    try:
        await step.message("never")
    finally:
        await step.run(fetch, 3)


@workflow
async def children(step: Step) -> list[str]:
    """Awaited twice, failed, cancelled, asked for its status, of an ID in use; by handle."""
    good = step.child(good_child, {"n": 1})
    seen = [str(await good), str(await good), (await good.status()).status]
    try:
        await step.child(bad_child)
    except ChildFailed as error:
        seen.append(str(error))
    waiting = step.child("waiting-child")
    waiting.cancel("not needed")
    try:
        await step.handle(waiting.ref)
    except ChildCancelled as error:
        seen.append(str(error))
    try:
        await step.child(good_child, {"n": 2}, id=waiting.id)
    except ExecutionAdmissionError as error:
        seen.append(error.code)
    return seen


@workflow
async def mapped(step: Step) -> list[int]:
    """One after the other, so that they end in one order everywhere."""
    return await step.map(good_child, [{"n": n} for n in range(3)], limit=1)


@workflow
async def parent_ends(step: Step) -> str:
    """A child is left behind and cancelled, a detached one goes on."""
    step.child("waiting-child")
    away = step.child(good_child, {"n": 5}, detached=True, id="away-child")
    await step.sleep("300ms")
    return away.id


@workflow
async def inbox(step: Step) -> list[object]:
    """Messages of a type, one that is none, in a batch, asked for, counted."""
    seen: list[object] = []
    first = await step.message("commands", Command)
    assert isinstance(first.price, Decimal)
    seen.append(first.do)
    try:
        await step.message("commands", Command)
    except InvalidMessage:
        seen.append("invalid")
    seen.append(await step.queue_depth("numbers"))
    seen.append(await step.messages("numbers", int, max=2))
    seen.append(await step.try_message("numbers", int))
    seen.append(await step.try_message("numbers", int))
    won = await step.select(step.timer("10ms"), step.message("commands", Command))
    seen.append(type(won).__name__)
    return seen


@workflow
async def incarnations(step: Step, left: int, total: int = 0, ref: str | None = None) -> int:
    """Reads, begins anew with a child's handle, and hears of it there."""
    step.defer(fetch, left)
    number = await step.message("numbers", int)
    if ref is not None:
        number += await step.handle(ref, good_child)
    if left:
        child = step.child(good_child, {"n": left})
        step.set_status({"left": left})
        await step.continue_as({"left": left - 1, "total": total + number, "ref": child.ref})
    return total + number


@workflow
async def to_others(step: Step) -> list[str]:
    """Sends and wakes: to itself, to nobody, to who has ended."""
    child = step.child(good_child, {"n": 1})
    await child
    return [
        await step.send(step.event.execution_id, "mine", {"n": 1}),
        str(await step.message("mine")),
        await step.send("nobody", "queue", 1),
        await step.send(child.id, "queue", 1),
        await step.wake(child.id),
        await step.wake("nobody"),
        await step.wake(step.event.execution_id),
    ]


@workflow
async def deferred(step: Step) -> str:
    """What was deferred runs last first; one that fails changes nothing."""
    step.defer(fetch, 1)
    step.defer(refuse, 2)
    step.defer(load, 3)
    return "done"


@workflow
async def in_branches(step: Step) -> list[str]:
    """Each branch reads its own queue and has a child; one is cancelled."""

    async def reader(queue: str) -> str:
        word = await step.message(queue, str)
        return f"{word} {await step.child(good_child, {'n': len(word)})}"

    left = step.spawn(reader("none"))
    said = [await step.spawn(reader("left")), await step.spawn(reader("right"))]
    left.cancel()
    return said


ZOO = {
    sequence: {"n": 4},
    loop: {},
    errors: {},
    retries: {},
    exhausted: {},
    polls: {},
    race: {},
    branches: {},
    too_slow: {},
    typed: {},
    broken_result: {},
    patched: {},
    fails: {},
    plain: {"n": 3},
    children: {},
    mapped: {},
    parent_ends: {},
    inbox: {},
    incarnations: {"left": 3},
    to_others: {},
    deferred: {},
    in_branches: {},
}
#: What is sent to them before they are admitted: queue and value.
MAIL = {
    inbox: [
        ("commands", {"do": "start", "price": "1.50"}),
        ("commands", {"dont": "start"}),
        ("numbers", 1),
        ("numbers", 2),
        ("numbers", 3),
    ],
    incarnations: [("numbers", n) for n in range(4)],
    in_branches: [("right", "to the right"), ("left", "left")],
}
#: What they start.
FAMILY = [grandchild, good_child, bad_child, waiting_child]
