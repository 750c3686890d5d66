"""Draws `ys show --history`: every resolution with its raw value, in the order applied."""

from __future__ import annotations

from yieldstar_cli.cli.facts import Facts
from yieldstar_cli.cli.render import safe, values
from yieldstar_cli.cli.render.terminal import Look
from yieldstar_cli.cli.render.times import Times
from yieldstar_cli.cli.steps import name_of
from yieldstar_cli.failures_view import summarize
from yieldstar_cli.model import Entry

_NAME = 20


def history_lines(facts: Facts, *, reveal: bool, look: Look, times: Times) -> list[str]:
    """The table; says so when there is nothing in it."""
    record = facts.record
    head = f"{safe.visible(record.execution_id)}    history, incarnation {record.incarnation}"
    if not facts.entries:
        pruned = record.pruned_at is not None
        return [head, f"  {'it is no longer kept' if pruned else 'no step has ended yet'}"]
    lines = [head, f"  #   {'operation':<{_NAME}}  {'at':<12}  value"]
    for number, entry in enumerate(facts.entries, 1):
        glyph = look.g("⊘" if entry.withdrawn else "✓" if entry.ok else "✗")
        style = "dim" if entry.withdrawn else "good" if entry.ok else "bad"
        name = name_of(entry)
        if entry.attempt > 1:
            name += f", try {entry.attempt}"
        at = times.at(entry.at)
        left = f"{safe.pad(look.clip(safe.visible(name), _NAME), _NAME)}  {at:<12}  "
        room = look.width - 7 - safe.cells(left)
        value = _value(entry, room, reveal, look)
        lines.append(f"{number:>3} {look.paint(style, glyph)} {left}{value}".rstrip())
    return lines


def _value(entry: Entry, room: int, reveal: bool, look: Look) -> str:
    if not entry.ok:
        return look.clip(safe.visible(summarize(entry.value)), max(1, room))
    return values.pairs(entry.value, max(1, room), reveal=reveal, ellipsis=look.g("…"))
