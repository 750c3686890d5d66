"""The public API as programs and authors write it, checked by mypy --strict and pyright.

Nothing here runs: that it type-checks is the test.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn, assert_type
from uuid import UUID

import msgspec

from yieldstar_cli import (
    ChildFailed,
    EffectAnswer,
    ExecutionRecord,
    ExecutionRef,
    Handle,
    Message,
    RetryPolicy,
    Runtime,
    Snapshot,
    Step,
    Store,
    not_found,
    open_runtime,
    settled,
    this_step,
    unknown,
    workflow,
)
from yieldstar_cli.engine.outside import ExecutionHandle


class ChargeOrder(msgspec.Struct):
    order: int


@dataclass
class Place:
    town: str


class Receipt(msgspec.Struct):
    charged: int


def load_total(order: int, *, currency: str = "EUR") -> int:
    return order


async def charge_card(total: int) -> Receipt:
    assert_type(this_step().idempotency_key, str)
    assert_type(this_step().attempt, int)
    assert_type(this_step().cancelled, bool)
    return Receipt(total)


@workflow
async def charge_order(step: Step, p: ChargeOrder) -> Receipt | None:
    total = await step.run(load_total, p.order, currency="USD")
    assert_type(total, int)
    receipt = await step.using(retry=RetryPolicy(attempts=5), timeout="30s").run(charge_card, total)
    assert_type(receipt, Receipt)

    near = step.spawn(step.run(charge_card, total))
    late = step.timer("15m")
    won = await step.select(near, late)
    if won is late:
        return None
    assert_type(near.result(), Receipt)
    assert_type(await step.all([near, near]), list[Receipt])
    assert_type(await step.timeout(step.run(charge_card, total), "2h"), Receipt)
    assert_type(await step.poll(load_total, p.order, every="1s", attempts=3), int)
    await step.sleep("10m")
    assert_type(step.now(), datetime)
    assert_type(step.random(), float)
    assert_type(step.uuid(), UUID)
    assert_type(step.patched("new-prices"), bool)
    assert_type(step.event.execution_id, str)
    step.set_status({"half": True})
    step.log.info("charged %s", p.order)
    return receipt


@workflow(id="greet-them", version=2, tags={"gpu", "ssd"})
async def greet(step: Step, name: str, times: int = 1) -> str:
    return name * times


@workflow
async def nothing(step: Step) -> None:
    handle: Handle[None] = step.timer("1s")
    await handle


class Cancel(msgspec.Struct):
    reason: str = "customer"


class State(msgspec.Struct):
    children: list[str]
    deadline: datetime


@workflow
async def on_the_world(step: Step, p: ChargeOrder) -> str:
    """Each operation on other executions and on messages, with the type that it gives."""
    stop = step.message("cancel", Cancel)
    anything = step.message("notes")
    batch = step.messages("orders", ChargeOrder, max=32)
    assert_type(stop, Handle[Cancel])
    assert_type(anything, Handle[Any])
    assert_type(batch, Handle[list[ChargeOrder]])
    assert_type(await step.messages("notes"), list[Any])
    assert_type(await step.try_message("cancel", Cancel), Cancel | None)
    assert_type(await step.queue_depth("cancel"), int)

    kid = step.child(charge_order, p, id="charge-1")
    small = step.child(nothing, detached=True)
    assert_type(kid.id, str)
    assert_type(kid.ref, str)
    assert_type(await kid, Receipt | None)
    assert_type(kid.result(), Receipt | None)
    assert_type(await small, None)
    assert_type(await step.child(greet, {"name": "Ann"}), str)
    assert_type(await step.child("charge-order", {"order": 1}), Any)
    assert_type(await step.handle(kid.ref, charge_order), Receipt | None)
    assert_type(await step.handle(kid.ref), Any)
    assert_type(await step.attach("greet-1", greet), str)
    assert_type(await step.attach("greet-1"), Any)
    found = await kid.status()
    assert_type(found.status, str | None)
    assert_type(found.error, str | None)
    assert_type(found.ended, bool)
    kid.cancel("too late")

    late = step.timer("15m")
    won = await step.select(stop, kid, late)
    if won is stop:
        return f"cancelled: {stop.result().reason}"
    if won is late:
        return "late"
    assert_type(kid.result(), Receipt | None)

    work = [ChargeOrder(1), ChargeOrder(2)]
    done = await step.map(charge_order, work, limit=10)
    assert_type(done, list[Receipt | None])
    named = step.map(charge_order, work, id=lambda w: f"charge-{w.order}", errors="keep")
    assert_type(await named, list[Receipt | ChildFailed | None])
    dicts = await step.map(greet, [{"name": "Ann"}], id=lambda given: str(given["name"]))
    assert_type(dicts, list[Any])
    assert_type(await step.map("charge-order", [{"order": 1}]), list[Any])
    assert_type(await step.all([kid, step.child(charge_order, p)]), list[Receipt | None])
    assert_type(await step.timeout(stop, "1h"), Cancel)
    assert_type(await step.timeout(kid, "1h"), Receipt | None)
    assert_type(await step.timeout(step.map(charge_order, work), "1h"), list[Receipt | None])

    answer = await step.send("order-43", "cancel", Cancel("sold out"), ttl="1h")
    print(answer == "delivered", answer == "buffered", answer == "refused")
    print(await step.wake("order-43") == "requested")
    step.defer(load_total, p.order, currency="EUR")
    step.defer(charge_card, 1)
    assert_type(step.event.incarnation, int)
    assert_type(step.event.operations, int)
    await step.using(tag="gpu").run(load_total, 1)
    return "done"


@workflow
async def supervisor(step: Step, s: State) -> None:
    kids = [step.handle(ref, charge_order) for ref in s.children]
    inbox, tick = step.messages("commands", Cancel), step.timer_until(s.deadline)
    won = await step.select(*kids)
    assert_type(won, ExecutionHandle[Receipt | None])
    assert_type(won.result(), Receipt | None)
    other = await step.select(inbox, tick, *kids)
    print(other is inbox, other is tick, other.done())
    await step.continue_as(State([kid.ref for kid in kids], s.deadline))


class Stock(msgspec.Struct):
    left: int = 0
    parts: dict[str, list[str]] = {}


def take_part(stock: Stock, part: str) -> None:
    stock.left -= 1


@workflow
async def on_stores(step: Step, p: ChargeOrder) -> int:
    """Each operation on stores, with the type that it gives."""
    stock = await step.store(Stock, "widget", initial=Stock())
    assert_type(stock, Store[Stock])
    assert_type(await step.store(Stock), Store[Stock])
    assert_type(await step.store(Place, str(p.order), name="places"), Store[Place])
    assert_type(await step.store(dict[str, int], "x", initial={}, name="n"), Store[dict[str, int]])
    assert_type(stock.name, str)
    assert_type(stock.id, str)

    snapshot = await stock.get()
    assert_type(snapshot, Snapshot[Stock])
    assert_type(snapshot.state, Stock)
    assert_type(snapshot.state.left, int)
    assert_type(snapshot.version, int)
    assert_type(snapshot.instance, str)
    assert_type(await stock.select(lambda s: s.left), int)
    assert_type(await stock.select(lambda s: s.parts.get("a")), list[str] | None)

    def restock(s: Stock) -> None:
        s.left += 10

    def replaced(s: Stock) -> Stock:
        return Stock(s.left)

    def first(s: Stock) -> str | None:
        return next(iter(s.parts), None)

    assert_type(await stock.update(restock), int)
    assert_type(await stock.update(replaced), int)
    assert_type(await stock.update_from(snapshot, restock), int)
    # It gives nothing: a call of it is no value.
    await stock.delete_from(snapshot)
    assert_type(await stock.when(lambda s: s.left > 1), bool)
    assert_type(await stock.when(lambda s: s.left, deadline="1h"), int)
    assert_type(await stock.when(lambda s: s.left, deadline=step.now()), int)
    assert_type(await stock.take(first, take_part), str)
    assert_type(await step.timeout(stock.take(first, take_part), "1h"), str)

    piece = step.spawn(stock.take(first, take_part))
    late = step.timer("15m")
    won = await step.select(piece, late)
    if won is late:
        return 0
    assert_type(piece.result(), str)
    assert_type(await step.all([stock.select(lambda s: s.left), stock.update(restock)]), list[int])
    return snapshot.version


async def never_comes_back(step: Step) -> NoReturn:
    await step.continue_as({"n": 1})


@workflow(retry=RetryPolicy(attempts=3, first="5m"), timeout="1h", tags=["tape"])
def backup(place: Place) -> float:
    return 1.0


@workflow
def tidy() -> int:
    return 0


def program(runtime: Runtime, moment: datetime) -> None:
    ref = runtime.trigger(charge_order, ChargeOrder(42), id="order-42", context={"by": "ann"})
    assert_type(ref, ExecutionRef[Receipt | None])
    assert_type(ref.execution_id, str)
    assert_type(runtime.wait(ref, timeout="10s"), Receipt | None)
    assert_type(runtime.wait("order-42"), Any)
    assert_type(runtime.get(ref), ExecutionRecord | None)
    assert_type(runtime.trigger(greet, {"name": "Ann"}, at=moment), ExecutionRef[str])
    assert_type(runtime.trigger(nothing), ExecutionRef[None])
    assert_type(runtime.trigger(backup, Place("Ulm")), ExecutionRef[float])
    assert_type(runtime.trigger(tidy), ExecutionRef[int])
    assert_type(runtime.trigger("charge-order", {"order": 1}), ExecutionRef[Any])
    answer = runtime.wake(ref, at=moment)
    print(answer == "requested", answer == "ignored")
    print(runtime.send(ref, "cancel", ChargeOrder(1), ttl="1h") == "buffered")
    assert_type(runtime.messages(ref), list[Message])
    print(runtime.cancel(ref, reason="late", now=True) == "cancelled")
    print(runtime.pause(ref, by="ann") == "paused", runtime.resume(workflow="greet") == "resumed")


def plain_calls(step: Step) -> None:
    assert_type(backup(Place("Ulm")), float)
    assert_type(tidy(), int)
    made = charge_order(step, ChargeOrder(1))
    made.close()


def mistakes(runtime: Runtime, step: Step) -> None:
    """Each line is wrong, and both checkers say so: an ignore that is not needed is an error."""
    runtime.trigger(charge_order, Place("Ulm"))  # type: ignore[arg-type]  # pyright: ignore
    runtime.trigger(charge_order)  # type: ignore[arg-type]  # pyright: ignore
    runtime.trigger(greet, 3)  # type: ignore[arg-type]  # pyright: ignore
    backup("Ulm")  # type: ignore[arg-type]  # pyright: ignore
    step.child(charge_order, Place("Ulm"))  # type: ignore[arg-type]  # pyright: ignore
    step.child(charge_order)  # type: ignore[arg-type]  # pyright: ignore
    step.child(nothing, id=7)  # type: ignore[call-overload]  # pyright: ignore
    step.message("cancel", max=7)  # type: ignore[call-overload]  # pyright: ignore
    step.map(charge_order, [Place("Ulm")])  # type: ignore[arg-type, unused-coroutine]  # pyright: ignore
    step.messages("cancel", max="7")  # type: ignore[call-overload]  # pyright: ignore
    step.attach(7)  # type: ignore[call-overload]  # pyright: ignore
    step.timer("1s").cancel()  # type: ignore[attr-defined]  # pyright: ignore
    step.defer(load_total, "one")  # type: ignore[arg-type]  # pyright: ignore
    step.store(Stock, 7)  # type: ignore[arg-type, unused-coroutine]  # pyright: ignore
    workflow(tags="gpu")  # type: ignore[call-overload]  # pyright: ignore
    workflow(cron="@daily")  # type: ignore[call-overload]  # pyright: ignore


async def mistakes_on_stores(stock: Store[Stock], other: Snapshot[Place]) -> None:
    """Each line is wrong, and both checkers say so."""
    await stock.select(lambda s: s.right)  # type: ignore[attr-defined]  # pyright: ignore
    await stock.update(take_part)  # type: ignore[arg-type]  # pyright: ignore
    await stock.update(lambda s: 7)  # type: ignore[arg-type, return-value]  # pyright: ignore
    await stock.update_from(other, lambda s: None)  # type: ignore[arg-type]  # pyright: ignore
    await stock.delete_from(other)  # type: ignore[arg-type]  # pyright: ignore
    await stock.when(lambda s: s.left, deadline=7.5j)  # type: ignore[arg-type]  # pyright: ignore
    await stock.take(lambda s: s.left)  # type: ignore[call-arg]  # pyright: ignore


def opened() -> None:
    with open_runtime(db="ys.db", workflows="workflows") as runtime:
        assert_type(runtime, Runtime)
        assert_type(runtime.store(Place, "home").set(Place("Ulm")).state, Place)
        assert_type(runtime.store(Place, "home").update(lambda place: place).state, Place)
        runtime.store("Place", "home", name="Place")  # type: ignore[call-overload]  # pyright: ignore


def find_charge(effect_id: str, order: ChargeOrder) -> EffectAnswer[Receipt]:
    if effect_id == "later":
        return unknown
    return settled(Receipt(order.order)) if effect_id else not_found


async def find_charge_there(effect_id: str, order: ChargeOrder) -> EffectAnswer[Receipt]:
    return find_charge(effect_id, order)


def charge(effect_id: str, order: ChargeOrder) -> Receipt:
    return Receipt(order.order)


async def charge_there(effect_id: str, order: ChargeOrder) -> Receipt:
    return Receipt(order.order)


async def charge_in_every_way(step: Step, order: ChargeOrder) -> None:
    """spec F1: plain or async, each; the result is of the type that `perform` returns."""
    plainly = await step.effect(
        "a", operation="charge", input=order, lookup=find_charge, perform=charge
    )
    assert_type(plainly, Receipt)
    there = await step.effect(
        "b", operation="charge", input=order, lookup=find_charge_there, perform=charge_there
    )
    assert_type(there, Receipt)
    mixed = await step.effect(
        "c", operation="charge", input=order, lookup=find_charge_there, perform=charge, retry_in=2
    )
    assert_type(mixed, Receipt)
    branch = step.spawn(
        step.effect("d", operation="charge", input=order, lookup=find_charge, perform=charge_there)
    )
    assert_type(await branch, Receipt)


async def mistakes_on_effects(step: Step, order: ChargeOrder, place: Place) -> None:
    """Each call is wrong, and both checkers say so."""
    await step.effect("a", operation="o", input=place, lookup=find_charge, perform=charge)  # type: ignore[arg-type]  # pyright: ignore
    await step.effect("a", operation="o", input=order, lookup=find_charge, perform=load_total)  # type: ignore[arg-type]  # pyright: ignore
    await step.effect("a", operation="o", input=order, lookup=charge, perform=charge)  # type: ignore[arg-type]  # pyright: ignore
    await step.effect("a", operation="o", input=order, perform=charge)  # type: ignore[call-overload]  # pyright: ignore
    await step.effect("a", input=order, lookup=find_charge, perform=charge)  # type: ignore[call-overload]  # pyright: ignore
    await step.effect(7, operation="o", lookup=find_charge, perform=charge)  # type: ignore[call-overload]  # pyright: ignore
    step.effect("a", operation="o", input=order, lookup=find_charge, perform=charge)  # type: ignore[unused-coroutine]  # pyright: ignore
    settled()  # type: ignore[call-arg]  # pyright: ignore
