"""Judges one execution: what it waits for, whether that is as it should be, what would help."""

from __future__ import annotations

from dataclasses import dataclass, field

from yieldstar_cli.cli.facts import Facts, seen_at
from yieldstar_cli.cli.render.times import Times, rough, short, took
from yieldstar_cli.cli.steps import Operation, operations
from yieldstar_cli.cli.typed import typed
from yieldstar_cli.failures import summarize
from yieldstar_cli.model import CancelledOutcome, Completed, ExecutionRecord, Failed, Status


@dataclass(slots=True)
class Verdict:
    """The judgement, in sentences."""

    #: "fine", "stuck" or "unknown".
    judgement: str
    #: One sentence: the state and the reason.
    headline: str
    #: Further sentences: where it stands, who works here.
    notes: list[str] = field(default_factory=list)
    #: Operations that are open, as `explain` lists them.
    waits: list[Operation] = field(default_factory=list)
    earliest_at: int | None = None
    #: Commands, or labelled commands ("Start one here: ys worker").
    remedies: list[str] = field(default_factory=list)


def judge(facts: Facts, times: Times, *, ahead: int = 0) -> Verdict:
    """What there is to say about an execution; `ahead` are due before it."""
    record = facts.record
    if record.status.terminal:
        return Verdict("fine", _ended(facts, times), remedies=_once_more(record))
    waits = [operation for operation in operations(facts) if operation.finished_at is None]
    if record.delivery is not None and facts.expired_at is None:
        verdict = _running(facts, times)
    elif record.poisoned_at is not None:
        verdict = _poisoned(facts, times)
    elif record.held is not None and (
        record.held.until_at is None or record.held.until_at > facts.now_ms
    ):
        verdict = _held(facts, times)
    elif record.delivery is not None:
        verdict = _expired(facts, times)
    elif record.due_at is None:
        verdict = _needs_wake(facts)
    elif record.due_at > facts.now_ms:
        verdict = _waiting(facts, times, waits)
    else:
        verdict = _due(facts, times, ahead)
    verdict.waits = waits
    if verdict.judgement != "stuck" and verdict.earliest_at is None:
        verdict.earliest_at = record.due_at
    return verdict


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
            return f"It failed {when}, {span} after its admission: {summarize(error)}."
        case CancelledOutcome(reason):
            because = f": {reason}" if reason else ""
            return f"It was cancelled {when}{because}."
        case None:
            return "It has ended, and its outcome is not in the record."


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
    return Verdict("fine", headline, [f"Worker {delivery.worker} has it, under a live lease."])


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
    if not facts.crew.alive:
        return _without_worker(verdict, facts)
    return verdict


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


def _waiting(facts: Facts, times: Times, waits: list[Operation]) -> Verdict:
    record = facts.record
    assert record.due_at is not None
    coming = times.coming(record.due_at)
    first = min(
        (wait for wait in waits if wait.due_at is not None),
        key=lambda wait: wait.due_at or 0,
        default=None,
    )
    if record.status is Status.ADMITTED:
        headline = f"It was admitted for later; it starts {coming}."
    elif first is None or first.due_at != record.due_at:
        headline = f"It wakes {coming}, as was asked for."
    elif first.state == "retrying":
        headline = f"Waiting to try {first.step_key} again (try {first.attempt}); {coming}."
    else:
        headline = f"Waiting for {_timer_words(first)}; wakes {coming}."
    verdict = Verdict("fine", headline)
    if not facts.crew.alive:
        verdict.notes.append("No worker is running now; then one must be.")
    return verdict


def _timer_words(wait: Operation) -> str:
    if not wait.label:
        return wait.name
    base = wait.step_key.partition("#")[0]
    return f"the {base} of {wait.label}" if base in ("sleep", "timer", "timeout") else wait.name


def _due(facts: Facts, times: Times, ahead: int) -> Verdict:
    record, crew = facts.record, facts.crew
    assert record.due_at is not None
    waited = facts.now_ms - record.due_at
    verdict = Verdict("fine", f"It has been due for {short(waited)}.")
    verdict.earliest_at = facts.now_ms
    if waited < 1000:
        verdict.headline = "It is due now."
    if not crew.alive:
        if waited >= 1000:
            verdict.headline = f"It has been due for {rough(waited)} and nobody has taken it."
        return _without_worker(verdict, facts)
    if not crew.has(record.workflow_id, record.version):
        return _without_code(verdict, facts)
    if ahead:
        verdict.notes.append(f"{ahead:,} others have been due for longer and go first.")
    names = ", ".join(row.name for row in crew.alive[:3])
    verdict.notes.append(f"A worker is alive ({names}) and will take it.")
    _add_problem(verdict, facts, times)
    return verdict


def _without_worker(verdict: Verdict, facts: Facts) -> Verdict:
    verdict.judgement = "stuck"
    last = facts.crew.last
    if last is None:
        verdict.notes.append("No worker has run on this database yet.")
    else:
        how = f", {last.how}" if last.how else ""
        since = facts.now_ms - seen_at(last)
        # The one that just died or stopped was seen until now.
        ago = f"has been seen for {rough(since)}" if since >= 1000 else "is running now"
        verdict.notes.append(f"No worker {ago} (last: {last.name}{how}).")
    verdict.remedies.append("Start one here: ys worker")
    return verdict


def _without_code(verdict: Verdict, facts: Facts) -> Verdict:
    """Workers live, and none has loaded its workflow (spec E12)."""
    record, crew = facts.record, facts.crew
    verdict.judgement = "stuck"
    verdict.headline = (
        f"{verdict.headline.rstrip('.')}, and no live worker has loaded {record.workflow_id}"
        f"{f' version {record.version}' if record.version != 1 else ''} (UNKNOWN_WORKFLOW)."
    )
    broken = dict(pair for row in crew.alive for pair in row.broken)
    for file, message in broken.items():
        verdict.notes.append(f"{file} does not load: {message}")
    if not broken:
        verdict.notes.append("No module of theirs registers that name.")
    verdict.remedies += ["Put the file right, or back: ys workflows", "Check: ys doctor"]
    return verdict
