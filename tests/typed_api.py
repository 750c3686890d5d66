"""The public API as programs and authors write it, checked by mypy --strict and pyright.

Nothing here runs: that it type-checks is the test.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, assert_type
from uuid import UUID

import msgspec

from yieldstar_cli import (
    ExecutionRecord,
    ExecutionRef,
    Handle,
    Message,
    RetryPolicy,
    Runtime,
    Step,
    open_runtime,
    this_step,
    workflow,
)


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
    workflow(tags="gpu")  # type: ignore[call-overload]  # pyright: ignore
    workflow(cron="@daily")  # type: ignore[call-overload]  # pyright: ignore


def opened() -> None:
    with open_runtime(db="ys.db", workflows="workflows") as runtime:
        assert_type(runtime, Runtime)
