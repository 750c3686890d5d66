"""Judges an execution that rests: what its open waits are, and which of them comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yieldstar_cli.cli import takers
from yieldstar_cli.cli.facts import Facts
from yieldstar_cli.cli.links import Link
from yieldstar_cli.cli.render.times import Times
from yieldstar_cli.cli.steps import Operation
from yieldstar_cli.model import Kind, Status

if TYPE_CHECKING:
    from yieldstar_cli.cli.verdict import Verdict

#: From so many awaited executions on they are counted, and one of them is followed.
FAN = 5
#: So many names of waits stand in one sentence.
_NAMED = 4


def fill(verdict: Verdict, facts: Facts, times: Times, links: list[Link]) -> None:
    """What it waits for, when that can come at the earliest, and whether it can come at all."""
    verdict.headline = _headline(facts, times, links)
    verdict.listed = len(links) > 1 and not (fan_words(facts, links) and shown(links)[1])
    verdict.told_from_outside = _from_outside(links, times)
    _fill_earliest(verdict, facts, times, links)
    if links and all(link.stuck for link in links):
        verdict.judgement = "stuck"
        if len(links) == 1 and links[0].verdict is not None:
            verdict.notes += links[0].verdict.notes
    elif links and all(link.stuck or link.unknown for link in links):
        verdict.judgement = "unknown"
    if len(links) == 1 and links[0].note:
        verdict.notes.append(links[0].note)
    for link in links if len(links) < FAN else shown(links)[0]:
        verdict.remedies += link.remedies
    _add_unread(verdict, facts, links)
    _add_missing(verdict, facts, links)


def _headline(facts: Facts, times: Times, links: list[Link]) -> str:
    record = facts.record
    due_at = record.due_at
    if not links:
        assert due_at is not None
        if record.status is Status.ADMITTED:
            return f"It was admitted for later; it starts {times.coming(due_at)}."
        return f"It wakes {times.coming(due_at)}, as was asked for."
    if len(links) == 1:
        return _single(links[0], times)
    fan = fan_words(facts, links)
    if fan is not None:
        kept, left_out = shown(links)
        if not left_out:
            return f"Waiting for {fan}."
        return f"Waiting for {fan}; {kept[0].operation.target} is {kept[0].state}."
    names = ", ".join(link.name for link in links[:_NAMED])
    more = f" and {len(links) - _NAMED} more" if len(links) > _NAMED else ""
    return f"Waiting for the first of {len(links)} things: {names}{more}."


def _single(link: Link, times: Times) -> str:
    wait = link.operation
    if wait.due_at is not None and link.is_moment and not link.ready:
        coming = times.coming(wait.due_at)
        if wait.kind == Kind.TIMER:
            return f"Waiting for {timer_words(wait)}; wakes {coming}."
        if wait.kind == Kind.EFFECT:
            return f"Waiting to look {link.name} up again (try {wait.attempt}); {coming}."
        return f"Waiting to try {wait.step_key} again (try {wait.attempt}); {coming}."
    article = "the " if wait.store is not None else ""
    return f"Waiting for {article}{link.name}: {link.state}."


def _from_outside(links: list[Link], times: Times) -> str:
    """`it waits for its sleep of 10m until 12:10:00`: moments without their distance."""
    if len(links) != 1 or links[0].ready or not links[0].is_moment:
        return ""
    wait = links[0].operation
    if wait.due_at is None:
        return ""
    at = times.at(wait.due_at)
    if wait.kind == Kind.TIMER:
        return f"it waits for its {timer_words(wait).removeprefix('the ')} until {at}"
    if wait.kind == Kind.EFFECT:
        return f"it looks {links[0].name} up again at {at} (try {wait.attempt})"
    return f"it tries {wait.step_key} again at {at} (try {wait.attempt})"


def timer_words(wait: Operation) -> str:
    """A timer in a sentence: `the sleep of 10m`."""
    if not wait.label:
        return wait.name
    base = wait.step_key.partition("#")[0]
    return f"the {base} of {wait.label}" if base in ("sleep", "timer", "timeout") else wait.name


def fan_words(facts: Facts, links: list[Link]) -> str | None:
    """`3 of 100 children`, where it waits for several executions and nothing else."""
    if len(links) < 2 or not all(link.is_execution for link in links):
        return None
    if len(links) < FAN and facts.children <= len(links):
        return None
    # Of very many not all were looked at; those that were speak for them.
    mine = all(link.name.startswith("child ") for link in links if link.awaited is not None)
    if mine and facts.children >= len(links):
        return f"{len(links):,} of {facts.children:,} children"
    return f"{len(links):,} executions"


def shown(links: list[Link]) -> tuple[list[Link], int]:
    """The links to tell of, and how many awaited executions are left out.

    Of many awaited executions the most telling one stands for all: one that is stuck, else the
    one that can end first.
    """
    executions = [link for link in links if link.is_execution]
    if len(executions) < FAN:
        return links, 0
    best = min(executions, key=_telling)
    kept = [link for link in links if not link.is_execution or link is best]
    return kept, len(executions) - 1


def _telling(link: Link) -> tuple[bool, bool, int]:
    at = link.earliest_at
    return not link.stuck, link.verdict is None, 2**62 if at is None else at


def _fill_earliest(verdict: Verdict, facts: Facts, times: Times, links: list[Link]) -> None:
    record = facts.record
    moments = [(link.earliest_at, link) for link in links if link.earliest_at is not None]
    verdict.earliest_at = record.due_at
    if not moments:
        return
    at, link = min(moments, key=lambda pair: pair[0])
    if record.due_at is not None and record.due_at <= at:
        if record.due_at < at:
            coming = times.coming(record.due_at)
            verdict.notes.append(f"It wakes {coming}, as was asked for; that ends no wait.")
        return
    verdict.earliest_at = at
    if link.awaited is not None and not link.ready:
        verdict.earliest_of = _whose(link)


def _whose(link: Link) -> str:
    """`charge-43's timer fires`: the first moment of an awaited execution, told from outside."""
    target = link.awaited.execution_id if link.awaited is not None else link.operation.target
    below = link.verdict
    if below is None:
        return f"{target} wakes"
    if below.earliest_of:
        return below.earliest_of
    for inner in below.links:
        if inner.earliest_at == below.earliest_at and inner.operation.due_at is not None:
            if inner.operation.kind == Kind.TIMER:
                return f"{target}'s timer fires"
            if inner.operation.store is not None:
                return f"{target}'s deadline passes"
            if inner.operation.kind == Kind.EFFECT:
                return f"{target} looks {inner.name} up again"
            return f"{target} tries {inner.operation.step_key} again"
    return f"{target} is delivered"


def _add_unread(verdict: Verdict, facts: Facts, links: list[Link]) -> None:
    """Messages that wait in queues which nobody reads now."""
    awaited = {link.operation.queue for link in links}
    others = {q: count for q, count in facts.unread.items() if count and q not in awaited}
    if not others:
        return
    total = sum(others.values())
    queues = ", ".join(f'"{queue}" ({count:,})' for queue, count in sorted(others.items())[:5])
    more = ", …" if len(others) > 5 else ""
    word = "message waits" if total == 1 else "messages wait"
    verdict.asides.append(f"{total:,} {word} unread in queues it does not wait on: {queues}{more}.")


def _add_missing(verdict: Verdict, facts: Facts, links: list[Link]) -> None:
    if not facts.crew.alive:
        # What it waits for may have said so already.
        if not any(note.startswith("No worker ") for note in verdict.notes):
            verdict.notes.append("No worker is running now; then one must be.")
        # Where one must start anyway, with a tag or at once, that one will do for the rest.
        if not any(remedy.startswith("Start one") for remedy in verdict.remedies):
            verdict.remedies.append(f"Start one by then: {takers.start_line(facts)}")
        return
    notes, remedies = takers.missing(facts)
    if notes:
        verdict.judgement = "stuck"
        verdict.earliest_at = None
        verdict.notes += notes
        verdict.remedies += remedies
