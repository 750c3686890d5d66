"""Workflows of the kept files from schema 3 on: a store that one fills and another waits for.

Never changed.
"""

from __future__ import annotations

import msgspec

from yieldstar_cli import Step, workflow


class Shelf(msgspec.Struct):
    """Things to take."""

    things: list[int] = []


def first_of(shelf: Shelf) -> int | None:
    return shelf.things[0] if len(shelf.things) else None


def without(shelf: Shelf, thing: int) -> None:
    shelf.things.remove(thing)


@workflow
async def takes(step: Step, order: int) -> int:
    """Stands in the wait for something on the shelf."""
    shelf = await step.store(Shelf, "shared", initial=Shelf())
    return await shelf.take(first_of, without)


@workflow
async def fills(step: Step, order: int) -> int:
    """Stands in a sleep before it fills the shelf."""
    shelf = await step.store(Shelf, "shared", initial=Shelf())
    await step.sleep("1h")

    def put(found: Shelf) -> None:
        found.things.append(order)

    await shelf.update(put)
    return order


ALL = (takes, fills)
