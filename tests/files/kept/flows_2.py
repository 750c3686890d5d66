"""Workflows of the kept files from schema 2 on: children, messages, a switch. Never changed."""

from __future__ import annotations

from typing import Any

from yieldstar_cli import Step, workflow


@workflow
async def grows(step: Step, order: int) -> int:
    """A child that sleeps."""
    await step.sleep("1h")
    return order + 1


@workflow
async def has_child(step: Step, order: int) -> int:
    """Stands in the wait for its child."""
    return await step.child(grows, {"order": order}) * 2


@workflow
async def hears(step: Step, order: int) -> list[Any]:
    """Stands in the wait for one message, while another one lies there."""
    first = await step.message("first", int)
    return [order, first, await step.message("second", int)]


@workflow
async def goes_on(step: Step, order: int) -> int:
    """Stands in its second incarnation."""
    if step.event.incarnation == 1:
        return await step.continue_as({"order": order + 1})
    await step.sleep("1h")
    return order


@workflow
async def stops(step: Step, order: int) -> None:
    """Was cancelled."""
    await step.message("never")


ALL = (grows, has_child, hears, goes_on, stops)
