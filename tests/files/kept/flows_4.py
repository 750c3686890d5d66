"""Workflows of the kept files from schema 4 on: an effect whose answer was lost. Never changed."""

from __future__ import annotations

from yieldstar_cli import EffectAnswer, Step, not_found, settled, workflow


def find_charge(effect_id: str, cents: int) -> EffectAnswer[str]:
    return settled(f"receipt {cents}") if cents else not_found


def charge_card(effect_id: str, cents: int) -> str:
    raise TimeoutError("the bank gave no answer")


@workflow
async def charges(step: Step, order: int) -> str:
    """Stands before the lookup of a charge of which nobody knows."""
    return await step.effect(
        "charge-1",
        operation="charge",
        input=order,
        lookup=find_charge,
        perform=charge_card,
        retry_in="1h",
    )


ALL = (charges,)
