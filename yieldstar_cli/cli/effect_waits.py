"""Says of a wait for an effect whether it is in doubt, and who holds it now."""

from __future__ import annotations

from yieldstar_cli.cli.effect_words import effect_name
from yieldstar_cli.cli.facts import Awaited, Facts
from yieldstar_cli.cli.render.times import Times
from yieldstar_cli.cli.steps import Operation
from yieldstar_cli.failures_view import summarize
from yieldstar_cli.nouns import dataclass


@dataclass(frozen=True, slots=True)
class EffectWords:
    """What there is to say of one open effect."""

    name: str
    state: str
    ready: bool = False
    earliest_at: int | None = None
    #: It was not looked at.
    unknown: bool = False
    #: Another sentence: why it is in doubt.
    note: str = ""
    #: The execution that holds it, where that is worth following.
    awaited: Awaited | None = None


def effect_words(wait: Operation, facts: Facts, times: Times) -> EffectWords:
    """The effect as it stands now, against what this execution knows of it (spec F1)."""
    record = facts.effects.get(wait.label)
    name = effect_name(wait.label, record)
    now = facts.now_ms
    if wait.due_at is not None:
        return _in_doubt(wait, wait.due_at, name, now, times)
    if wait.effect is None:
        state = "runs with the next delivery"
        if wait.state == "running":
            state = f"running since {times.at(wait.started_at or now)}"
        return EffectWords(name, state, earliest_at=now)
    if record is None:
        return EffectWords(name, "not looked at", unknown=True)
    if record.status == "settled":
        return EffectWords(name, f"{record.settled_by} settled it", ready=True, earliest_at=now)
    if record.holder is None:
        return EffectWords(name, "nobody tries it any more", ready=True, earliest_at=now)
    if record.holder == facts.record.execution_id:
        return EffectWords(name, "another branch of it tries it", earliest_at=now)
    awaited = facts.awaited.get(record.holder)
    state = f"{record.holder} tries it"
    if awaited is not None and awaited.facts is not None and not awaited.above:
        return EffectWords(name, state, awaited=awaited)
    return EffectWords(name, state, earliest_at=now, unknown=awaited is None)


def _in_doubt(wait: Operation, due_at: int, name: str, now: int, times: Times) -> EffectWords:
    """Nobody can say whether it was done: it is looked up after a pause."""
    errors = [one.error for one in wait.attempts if one.error is not None]
    note = "Nobody knows yet whether it was done."
    if errors:
        said = summarize(errors[-1])
        stop = "" if said.endswith((".", "!", "?", "…")) else "."
        note = f"Nobody knows yet whether it was done; the last error: {said}{stop}"
    if due_at <= now:
        return EffectWords(name, "its pause is over", ready=True, earliest_at=now, note=note)
    state = f"in doubt; looks it up again {times.coming(due_at)}"
    return EffectWords(name, state, earliest_at=due_at, note=note)
