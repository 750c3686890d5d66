"""Finds an earlier incarnation of an execution, as long as it is kept (spec C7)."""

from __future__ import annotations

from yieldstar_cli.cli.facts import Facts, gather_earlier
from yieldstar_cli.cli.typed import typed
from yieldstar_cli.errors import UsageError
from yieldstar_cli.storage.contract import Storage


def earlier_facts(storage: Storage, facts: Facts, incarnation: int) -> Facts:
    """The facts about one incarnation. Raises UsageError where it is not kept, or not yet there."""
    record = facts.record
    if incarnation == record.incarnation:
        return facts
    with storage.atomic():
        kept = storage.family.incarnations(record.number)
        for found in kept:
            if found.incarnation == incarnation:
                return gather_earlier(facts, storage, found)
    numbers = [*(str(found.incarnation) for found in kept), str(record.incarnation)]
    which = f"{', '.join(numbers[:-1])} and {numbers[-1]}" if len(numbers) > 1 else numbers[0]
    state = "has not begun" if incarnation > record.incarnation else "is no longer kept"
    if incarnation < 1:
        state = "never was; the first is 1"
    raise UsageError(
        f"incarnation {incarnation} of {record.execution_id} {state}",
        why=(f"Kept {'are' if len(numbers) > 1 else 'is'} {which}.",),
        remedy=(f"ys show {typed(record.execution_id)} --incarnation {numbers[0]}",),
    )
