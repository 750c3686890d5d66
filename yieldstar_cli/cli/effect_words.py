"""Says of an effect of the outside world how it stands, and what did not agree with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from yieldstar_cli.cli.render import values
from yieldstar_cli.cli.render.times import took
from yieldstar_cli.failures_view import view_error
from yieldstar_cli.model import EffectRecord, EffectReport

if TYPE_CHECKING:
    from yieldstar_cli.cli.steps import Operation

#: A result or an input is shown in so many columns.
_VALUE = 60


def effect_name(effect_id: str, record: EffectRecord | None) -> str:
    """`effect order-41 (charge)`."""
    return f"effect {effect_id}" if record is None else f"effect {effect_id} ({record.operation})"


def step_note(step: Operation, own: str, effects: Mapping[str, EffectRecord], now_ms: int) -> str:
    """What stands below an effect's line: who tries it, when it is looked up; often nothing.

    `own` is the ID of the execution whose step it is.
    """
    record = effects.get(step.label)
    if record is None:
        return ""
    said = _standing(step, own, record, now_ms)
    return f"{effect_name(step.label, record)}: {said}" if said else ""


def _standing(step: Operation, own: str, record: EffectRecord, now_ms: int) -> str:
    if step.finished_at is not None:
        if step.state == "completed" and record.settled_by not in (None, own):
            return f"settled by {record.settled_by}"
        if step.state != "completed" and record.status == "pending" and not _refused(step):
            return "it stays open; whoever asks next looks it up"
        return ""
    if step.state == "retrying" and step.due_at is not None:
        left = step.due_at - now_ms
        return f"in doubt, looks again {f'in {took(left)}' if left > 0 else 'now'}"
    if step.effect is None:
        return ""
    if record.status == "settled":
        return f"settled by {record.settled_by}"
    if record.holder is None:
        return "nobody tries it any more"
    if record.holder == own:
        return "another branch tries it"
    return f"another execution tries it ({record.holder})"


def _refused(step: Operation) -> bool:
    """Whether it was another operation's, or another input's: not its own to leave open."""
    return step.value is not None and view_error(step.value).name == "EffectMismatch"


def disagreements(record: EffectRecord) -> Iterator[EffectReport]:
    """Its reports, less those of a late result that is the one that stands."""
    for report in record.reports:
        if report.kind != "late" or (record.result is not None and report.result != record.result):
            yield report


def report_words(record: EffectRecord, report: EffectReport, *, reveal: bool = False) -> str:
    """One disagreement in a sentence, with both sides of it."""
    who = report.execution_id
    if report.kind == "mismatch":
        asked = _call(report.operation or "", report.input, reveal=reveal)
        mine = _call(record.operation, record.input, reveal=reveal)
        return f"{who} asked for {asked}; this ID is {mine}"
    brought = shown(report.result, reveal=reveal)
    stands = shown(record.result, reveal=reveal)
    late = " after its delivery was over" if report.kind == "late" else ""
    return f"{who} brought another result{late}: {brought}; what stands is {stands}"


def _call(operation: str, given: str | None, *, reveal: bool) -> str:
    return f"{operation} of {shown(given, reveal=reveal)}"


def shown(json_text: str | None, *, reveal: bool) -> str:
    """A recorded value on one line: secrets masked, a long one cut with its size."""
    if json_text is None:
        return "nothing"
    return values.pairs(json_text, _VALUE, reveal=reveal, between=", ") or "nothing"
