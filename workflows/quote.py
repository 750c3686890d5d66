"""Two suppliers are asked at once; what is there when the time is up wins.

ys trigger quote -p item=chair -p fast=200 -p slow=5000
"""

import asyncio

import msgspec

from yieldstar_cli import Step, workflow


class Ask(msgspec.Struct):
    """What to ask for."""

    item: str
    fast: int = 200
    """How long the first supplier thinks, in milliseconds."""
    slow: int = 5000
    """How long the second one does."""


class Offer(msgspec.Struct):
    """What a supplier wants for it."""

    supplier: str
    cents: int


async def ask_supplier(supplier: str, item: str, thinks_ms: int) -> Offer:
    """An async step: it runs on the worker's event loop, many at once."""
    await asyncio.sleep(thinks_ms / 1000)
    return Offer(supplier, 100 * len(item) + len(supplier))


@workflow
async def quote(step: Step, p: Ask) -> Offer | None:
    """The first offer that comes within two seconds, or nothing."""
    near = step.spawn(step.run(ask_supplier, "Near & Co", p.item, p.fast))
    far = step.spawn(step.run(ask_supplier, "Far Ltd", p.item, p.slow))
    late = step.timer("2s")
    won = await step.select(near, far, late)
    if won is late:
        return None
    return near.result() if won is near else far.result()
