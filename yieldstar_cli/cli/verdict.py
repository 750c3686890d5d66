"""Judges one execution: what it waits for, whether that is as it should be, what would help."""

from __future__ import annotations

from yieldstar_cli.cli import resting, steering_words, takers
from yieldstar_cli.cli.facts import Facts
from yieldstar_cli.cli.links import Link, links_of
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.render.times import Times, rough, took
from yieldstar_cli.cli.steps import operations
from yieldstar_cli.cli.typed import typed
from yieldstar_cli.failures_view import summarize
from yieldstar_cli.model import CancelledOutcome, Completed, ExecutionRecord, Failed
from yieldstar_cli.nouns import dataclass, field

_WAITING = "Waiting "


@dataclass(slots=True)
class Verdict:
    """The judgement, in sentences."""

    #: "fine", "stuck" or "unknown".
    judgement: str
    #: One sentence: the state and the reason.
    headline: str
    #: Further sentences: where it stands, who works here.
    notes: list[str] = field(default_factory=list)
    #: What `show` tells elsewhere: unread messages.
    asides: list[str] = field(default_factory=list)
    #: Operations that are open, and what stands behind them.
    links: list[Link] = field(default_factory=list)
    #: The headline only counts what a list of `links` tells in full.
    listed: bool = False
    earliest_at: int | None = None
    #: Whose moment `earliest_at` is ("charge-43's timer"); empty where it is its own.
    earliest_of: str = ""
    #: Commands, or labelled commands ("Start one here: ys worker").
    remedies: list[str] = field(default_factory=list)

    #: The same as part of a sentence about another execution, where that is said otherwise.
    told_from_outside: str = ""

    @property
    def clause(self) -> str:
        """The headline as a part of a sentence about another execution."""
        if self.told_from_outside:
            return self.told_from_outside
        text = self.headline.removesuffix(".")
        if text.startswith(_WAITING):
            return f"it waits {text.removeprefix(_WAITING)}"
        return text[:1].lower() + text[1:]


def judge(facts: Facts, times: Times, *, ahead: int = 0) -> Verdict:
    """What there is to say about an execution; `ahead` are due before it."""
    record = facts.record
    if record.status.terminal:
        return Verdict("fine", _ended(facts, times), remedies=_once_more(record))
    waits = [operation for operation in operations(facts) if operation.finished_at is None]
    links = links_of(waits, facts, times, lambda below: judge(below, times))
    verdict = _state(facts, times, links, ahead)
    verdict.links = links
    if verdict.judgement != "stuck" and verdict.earliest_at is None:
        verdict.earliest_at = record.due_at
    steering_words.add_cancel(verdict, facts, times)
    verdict.remedies = list(dict.fromkeys(verdict.remedies))
    return verdict


def _state(facts: Facts, times: Times, links: list[Link], ahead: int) -> Verdict:
    record = facts.record
    if record.delivery is not None and facts.expired_at is None:
        return _running(facts, times)
    if record.poisoned_at is not None:
        return _poisoned(facts, times)
    if record.paused is not None:
        return _paused(facts, times)
    if facts.held:
        return _held(facts, times)
    if record.delivery is not None:
        return _expired(facts, times)
    if record.due_at is not None and record.due_at <= facts.now_ms:
        return _due_after(links, _due(facts, times, ahead))
    if record.due_at is None and not links:
        return _needs_wake(facts)
    verdict = Verdict("fine", "")
    resting.fill(verdict, facts, times, links)
    return verdict


# --- ended -------------------------------------------------------------------------------------


def _once_more(record: ExecutionRecord) -> list[str]:
    """What can still be done about a failure, which is for ever."""
    if not isinstance(record.outcome, Failed):
        return []
    return [
        f"See where: ys show {typed(record.execution_id)}",
        f"Once more, under a new ID: ys trigger {record.workflow_id} --id …",
    ]


def _ended(facts: Facts, times: Times) -> str:
    record = facts.record
    span = took(record.updated_at - record.admitted_at)
    when = f"at {times.past(record.updated_at)}"
    match record.outcome:
        case Completed():
            return f"It completed {when}, {span} after its admission."
        case Failed(error):
            said = summarize(error)
            stop = "" if said.endswith((".", "!", "?", "…")) else "."
            return f"It failed {when}, {span} after its admission: {said}{stop}"
        case CancelledOutcome(reason):
            because = f": {reason}" if reason else ""
            return f"It was cancelled {when}{because}."
        case None:
            return "It has ended, and its outcome is not in the record."


# --- with a worker -----------------------------------------------------------------------------


def _running(facts: Facts, times: Times) -> Verdict:
    delivery = facts.record.delivery
    assert delivery is not None
    steps = [run for run in facts.running if run.step_key]
    if steps:
        what = ", ".join(
            f"{run.step_key} (for {took(facts.now_ms - run.since_at)})" for run in steps
        )
        headline = f"It is running {what}."
    else:
        headline = f"It is running since {times.past(delivery.since_at)}."
    verdict = Verdict("fine", headline, [f"Worker {delivery.worker} has it, under a live lease."])
    verdict.earliest_at = facts.now_ms
    if facts.record.paused is not None:
        steering_words.add_pauses(verdict, facts, times)
        verdict.notes.append("What runs now ends first; then nothing more begins.")
    return verdict


def _expired(facts: Facts, times: Times) -> Verdict:
    delivery, ended = facts.record.delivery, facts.expired_at
    assert delivery is not None
    assert ended is not None
    if delivery.expires_at <= facts.now_ms:
        why = f"the lease of worker {delivery.worker} ended at {times.past(ended)}"
    elif any(row.name == delivery.worker and row.how == "handed back" for row in facts.crew.rows):
        why = f"worker {delivery.worker} stopped before the step had ended"
    else:
        why = f"worker {delivery.worker} is dead"
    verdict = Verdict(
        "fine", f"Its last delivery has expired: {why}.", ["The next worker takes it up again."]
    )
    verdict.earliest_at = facts.now_ms
    _add_missing(verdict, facts)
    return verdict


def _due_after(links: list[Link], verdict: Verdict) -> Verdict:
    """With what became of a store or an effect, where that is all that was waited for."""
    if len(links) == 1 and links[0].is_outside:
        what = safe.visible(f"waited for the {links[0].name}: {links[0].state}")
        verdict.told_from_outside = f"{verdict.clause}; it {what}"
        verdict.notes.insert(0, f"It {what}.")
    return verdict


def _due(facts: Facts, times: Times, ahead: int) -> Verdict:
    record, crew = facts.record, facts.crew
    assert record.due_at is not None
    waited = facts.now_ms - record.due_at
    verdict = Verdict("fine", "It is due now.")
    if waited >= 1000:
        verdict.headline = f"It has been due for {rough(waited)}."
    verdict.earliest_at = facts.now_ms
    if _add_missing(verdict, facts):
        if waited >= 1000:
            verdict.headline = f"It has been due for {rough(waited)} and nobody has taken it."
        return verdict
    if ahead:
        verdict.notes.append(f"{ahead:,} others have been due for longer and go first.")
    takers_now = crew.who_has(record.workflow_id, record.version)
    names = ", ".join(row.name for row in takers_now[:3])
    verdict.notes.append(f"A worker is alive ({names}) and will take it.")
    _add_problem(verdict, facts, times)
    return verdict


def _add_missing(verdict: Verdict, facts: Facts) -> bool:
    """Say what keeps every worker from taking it; whether anything does."""
    notes, remedies = takers.missing(facts)
    if notes:
        verdict.judgement = "stuck"
        verdict.earliest_at = None
        verdict.notes += notes
        verdict.remedies += remedies
    return bool(notes)


# --- kept back ---------------------------------------------------------------------------------


def _poisoned(facts: Facts, times: Times) -> Verdict:
    record = facts.record
    assert record.poisoned_at is not None
    verdict = Verdict(
        "stuck",
        f"It is parked as poisoned since {times.past(record.poisoned_at)}: "
        f"{record.deaths} workers died while they ran its code, the last one alone with it.",
        remedies=[f"Try it again: ys wake {typed(record.execution_id)}"],
    )
    _add_problem(verdict, facts, times)
    steering_words.add_pauses(verdict, facts, times)
    return verdict


def _paused(facts: Facts, times: Times) -> Verdict:
    verdict = Verdict("stuck", steering_words.paused_headline(facts, times))
    steering_words.add_pauses(verdict, facts, times, told=True)
    if facts.held:
        beside = _held(facts, times)
        verdict.notes += [f"Besides: {beside.headline}", *beside.notes]
        verdict.remedies += beside.remedies
    return verdict


def _held(facts: Facts, times: Times) -> Verdict:
    record = facts.record
    held = record.held
    assert held is not None
    wake = f"Try it now: ys wake {typed(record.execution_id)}"
    if held.until_at is None:
        verdict = Verdict(
            "stuck",
            f"It is held since {times.past(held.since_at)}, until its module's file changes "
            f"({held.code}).",
            remedies=[wake],
        )
    else:
        verdict = Verdict(
            "fine",
            f"It is held until {times.coming(held.until_at)} ({held.code}).",
            remedies=[wake],
        )
        verdict.earliest_at = max(held.until_at, record.due_at or 0)
    _add_problem(verdict, facts, times)
    return verdict


def _add_problem(verdict: Verdict, facts: Facts, times: Times) -> None:
    problem = facts.record.problem
    if problem is None:
        return
    often = f", {problem.count} times since {times.past(problem.first_at)}"
    verdict.notes.append(f"{problem.code}{often if problem.count > 1 else ''}: {problem.message}")


def _needs_wake(facts: Facts) -> Verdict:
    record = facts.record
    return Verdict(
        "stuck",
        "It is waiting for nothing (needs an external wake).",
        remedies=[f"Wake it: ys wake {typed(record.execution_id)}"],
    )
