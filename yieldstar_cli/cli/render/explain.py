"""Draws `ys explain`: the sentence, the numbered waits, the earliest moment, what to type."""

from __future__ import annotations

from yieldstar_cli.cli.explaining import command
from yieldstar_cli.cli.facts import Facts
from yieldstar_cli.cli.links import Link
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.render.terminal import Look
from yieldstar_cli.cli.render.times import Times
from yieldstar_cli.cli.resting import fan_words, shown
from yieldstar_cli.cli.verdict import Verdict

_NAME, _LONGEST_NAME = 24, 34
_STATE = 16
#: More waits than this are counted.
_MOST = 12
_NUMBERS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def explain_lines(facts: Facts, verdict: Verdict, look: Look, times: Times) -> list[str]:
    """All that there is to say, within 80 columns."""
    width = min(look.width, 80) - 1
    record = facts.record
    lines = safe.wrap(_first(facts, verdict), width)
    if len(verdict.links) > 1:
        lines += _wait_lines(facts, verdict, look, width)
    if verdict.earliest_at is not None and verdict.earliest_at > facts.now_ms:
        when = times.coming(verdict.earliest_at)
        whose = f"{times.at(verdict.earliest_at)}, when {safe.visible(verdict.earliest_of)}"
        lines += safe.wrap(f"Earliest wake: {whose if verdict.earliest_of else when}.", width)
    for note in (*verdict.notes, *verdict.asides):
        lines += safe.wrap_lines(note, width)
    alive = facts.crew.alive
    if not record.status.terminal and verdict.judgement == "fine" and alive:
        names = safe.visible(", ".join(row.name for row in alive[:3]))
        lines.append(f"A worker is alive ({names}). Nothing is wrong.")
    told = _in_rows(verdict) if len(verdict.links) > 1 else set()
    return lines + _remedy_lines([r for r in verdict.remedies if r not in told], look)


def _in_rows(verdict: Verdict) -> set[str]:
    """The remedies that stand beside their waits."""
    return {link.remedies[0] for link in shown(verdict.links)[0][:_MOST] if _has_command(link)}


def _has_command(link: Link) -> bool:
    return bool(link.remedies) and not link.is_execution and not link.stuck


def _first(facts: Facts, verdict: Verdict) -> str:
    name, headline = safe.visible(facts.record.execution_id), safe.visible(verdict.headline)
    if facts.record.status.terminal:
        return f"{name}{headline.removeprefix('It')}"
    if verdict.listed:
        fan = fan_words(facts, verdict.links) or _count(len(verdict.links))
        return f"{name} is {facts.record.status}. It waits for {fan}:"
    return f"{name} is {facts.record.status}. {headline}"


def _count(count: int) -> str:
    word = _NUMBERS[count - 2] if count - 2 < len(_NUMBERS) else f"{count:,}"
    return f"the first of {word} things"


def _wait_lines(facts: Facts, verdict: Verdict, look: Look, width: int) -> list[str]:
    links, left_out = shown(verdict.links)
    lines = []
    if left_out and len(links) == 1 and verdict.headline.startswith("Waiting"):
        # The headline has told of the one that stands for all.
        return []
    if not verdict.listed:
        fan = fan_words(facts, verdict.links) or _count(len(verdict.links))
        lines.append(f"It waits for {fan}:")
    longest = max(safe.cells(safe.visible(link.name)) for link in links[:_MOST])
    column = min(_LONGEST_NAME, max(_NAME, longest))
    for number, link in enumerate(links[:_MOST], 1):
        lines += _link_lines(number, link, column, width)
        if left_out and link.is_execution:
            of_all = fan_words(facts, [x for x in verdict.links if x.is_execution])
            lines.append(f"      {look.g('…')} the most telling of {of_all}")
    if len(links) > _MOST:
        lines.append(f"      {look.g('…')} and {len(links) - _MOST:,} more")
    return lines


def _link_lines(number: int, link: Link, column: int, width: int) -> list[str]:
    name = safe.pad(safe.visible(link.name), column)
    first = f"  {number:>2}. {name}  "
    indent = " " * (6 + column + 2)
    words = safe.visible(link.state)
    if _has_command(link):
        words = f"{safe.pad(words + '.', _STATE)} {safe.visible(command(link.remedies[0]))}"
    return safe.wrap(words, max(width, 60), indent, first=first)


def _remedy_lines(remedies: list[str], look: Look) -> list[str]:
    column = max((len(remedy.partition(": ")[0]) for remedy in remedies), default=0) + 2
    lines = []
    for remedy in remedies:
        label = remedy.partition(": ")[0]
        lines.append(f"  {look.g('→')} {label + ':':<{column}}{safe.visible(command(remedy))}")
    return lines
