"""A check of `ys doctor`: effects that executions, or the world outside, do not agree about."""

from __future__ import annotations

from yieldstar_cli.cli.effect_words import disagreements, effect_name, report_words
from yieldstar_cli.cli.findings import Finding
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.typed import typed
from yieldstar_cli.model import EffectRecord, EffectReport
from yieldstar_cli.storage.contract import Storage

#: So many disputed effects are named one by one, and so many are counted.
_NAMED = 5
_MOST = 1_000


def disputed_effects(storage: Storage) -> list[Finding]:
    """A finding for each of the latest disputed effects, and how many more there are (spec F1)."""
    disputed = storage.effects.find(disputed=True, limit=_MOST)
    found = [_finding(record) for record in disputed[:_NAMED]]
    left = len(disputed) - _NAMED
    if left > 0:
        more = " or more" if len(disputed) == _MOST else ""
        word = "effect is" if left == 1 else "effects are"
        text = f"{left:,}{more} older {word} disputed, {len(disputed):,}{more} in all."
        found.append(Finding("DISPUTED_EFFECT", "warning", text, None))
    return found


def _finding(record: EffectRecord) -> Finding:
    last = list(disagreements(record))[-1]
    count = len(record.reports)
    more = f" ({count} reports)" if count > 1 else ""
    words = safe.in_one_line(report_words(record, last))
    text = f"{effect_name(record.effect_id, record)} is disputed{more}: {words}."
    return Finding("DISPUTED_EFFECT", "warning", text, f"ys show {typed(_whose(record, last))}")


def _whose(record: EffectRecord, last: EffectReport) -> str:
    """The execution whose picture has it: a late result may be of one that knows nothing of it."""
    if last.kind == "late" and record.settled_by is not None:
        return record.settled_by
    return last.execution_id


__all__ = ["disputed_effects"]
