"""A bank in memory that counts what it does, and workflows that pay through it (spec F1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from yieldstar_cli import EffectAnswer, Step, Workflow, not_found, settled, unknown, workflow
from yieldstar_cli.model import EffectRecord
from yieldstar_cli.testing import Bench


class Lost(Exception):
    """The bank's answer did not arrive."""


class Receipt(msgspec.Struct):
    """What the bank gives for a charge."""

    number: int
    amount: int


class Bank:
    """Charges as often as it is asked to: who asks twice pays twice.

    `charging` and `looking` hold what happens in the next calls, first come first served:
    "lost before", "lost after", "garbage", or for a look "unknown", "lost" and "nothing" (not
    found, whatever was done since it was asked). With nothing left there, it does as it is told.
    """

    def __init__(self) -> None:
        self.charges: Counter[str] = Counter()
        self.receipts: dict[str, Receipt] = {}
        self.calls: list[str] = []
        self.charging: list[str] = []
        self.looking: list[str] = []
        #: Called when a charge begins, before anything is done.
        self.meanwhile: Callable[[], None] | None = None

    def charge(self, effect_id: str, amount: int) -> Receipt:
        """Take the money."""
        self.calls.append("charge")
        if self.meanwhile is not None:
            self.meanwhile()
        how = self.charging.pop(0) if self.charging else ""
        if how == "lost before":
            raise Lost("no answer")
        self.charges[effect_id] += 1
        receipt = Receipt(sum(self.charges.values()), amount)
        self.receipts.setdefault(effect_id, receipt)
        if how == "lost after":
            raise Lost("no answer")
        return object() if how == "garbage" else receipt  # type: ignore[return-value]

    def look(self, effect_id: str, amount: int) -> EffectAnswer[Receipt]:
        """Say what is known of a charge."""
        self.calls.append("look")
        match self.looking.pop(0) if self.looking else "":
            case "unknown":
                return unknown
            case "nothing":
                return not_found
            case "lost":
                raise Lost("no answer")
            case "garbage":
                return "certainly"  # type: ignore[return-value]
        found = self.receipts.get(effect_id)
        return not_found if found is None else settled(found)

    async def charge_soon(self, effect_id: str, amount: int) -> Receipt:
        """The same, async."""
        return self.charge(effect_id, amount)

    async def look_soon(self, effect_id: str, amount: int) -> EffectAnswer[Receipt]:
        """The same, async."""
        return self.look(effect_id, amount)

    @property
    def taken(self) -> list[str]:
        """What was asked of it since the last time."""
        calls, self.calls = self.calls, []
        return calls


def payer(bank: Bank, *, asynchronous: bool = False) -> Workflow[..., Receipt]:
    """A workflow `pay` that charges once, under the ID and with the amount it is given."""

    @workflow
    async def pay(step: Step, order: str, amount: int = 100, operation: str = "charge") -> Receipt:
        if asynchronous:
            return await step.effect(
                order,
                operation=operation,
                input=amount,
                lookup=bank.look_soon,
                perform=bank.charge_soon,
            )
        return await step.effect(
            order, operation=operation, input=amount, lookup=bank.look, perform=bank.charge
        )

    return pay


def kept(bench: Bench, effect_id: str = "order-1") -> EffectRecord:
    """The effect as the file has it."""
    found = bench.storage.effects.get(effect_id)
    assert found is not None
    return found


def admit(bench: Bench, pay: Any, *ids: str, order: str = "order-1", **more: Any) -> None:
    """Admit executions that pay for the same order."""
    for execution_id in ids:
        bench.admit(pay, {"order": order, **more}, execution_id=execution_id)
