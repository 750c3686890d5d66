"""Says who paused an execution or asked for it to be cancelled, and how that is undone or done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yieldstar_cli.cli.facts import Facts
from yieldstar_cli.cli.render.times import Times
from yieldstar_cli.cli.typed import typed, word
from yieldstar_cli.model import Paused

if TYPE_CHECKING:
    from yieldstar_cli.cli.verdict import Verdict


def marks(facts: Facts) -> list[Paused]:
    """Every mark that keeps it from being claimed, its own first (spec E14)."""
    own = facts.record.paused
    return list(dict.fromkeys([*([own] if own is not None else []), *facts.pauses]))


def scope_words(mark: Paused) -> str:
    """What a mark stands on: "itself" is left to the caller."""
    if mark.scope == "workflow":
        return f"The workflow {mark.workflow_id} is paused"
    if mark.scope == "all":
        return "Everything here is paused"
    return "It is paused"


def resume_line(mark: Paused, execution_id: str) -> str:
    """The command that lifts a mark."""
    if mark.scope == "workflow":
        return f"ys resume --workflow {word(mark.workflow_id or '')}"
    if mark.scope == "all":
        return "ys resume --all"
    return f"ys resume {typed(execution_id)}"


def paused_headline(facts: Facts, times: Times) -> str:
    """Who paused it, when and why."""
    return _sentence(marks(facts)[0], times)


def _sentence(mark: Paused, times: Times) -> str:
    why = f": {mark.reason}" if mark.reason else ""
    return f"{scope_words(mark)} by {mark.by} since {times.past(mark.at)}{why}."


def add_pauses(verdict: Verdict, facts: Facts, times: Times, *, told: bool = False) -> None:
    """Add every mark, and the command that lifts it; the first is `told` already."""
    found = marks(facts)
    verdict.notes += [_sentence(mark, times) for mark in (found[1:] if told else found)]
    verdict.remedies += [f"Go on: {resume_line(mark, facts.record.execution_id)}" for mark in found]


def add_cancel(verdict: Verdict, facts: Facts, times: Times) -> None:
    """Add that somebody asked for it to be cancelled, and what that waits for (spec C6)."""
    record, asked = facts.record, facts.record.cancel
    if asked is None:
        return
    why = f": {asked.reason}" if asked.reason else ""
    text = f"It was asked to cancel at {times.past(asked.at)}{why}."
    kept = record.poisoned_at is not None or record.paused is not None or facts.held
    if asked.told:
        verdict.notes.append(f"{text} Its function knows, and is cleaning up.")
    elif not kept:
        verdict.notes.append(f"{text} Its next delivery tells the function.")
        return
    else:
        verdict.notes.append(f"{text} That waits until it goes on.")
    verdict.remedies.append(f"End it at once: ys cancel {typed(record.execution_id)} --now")
