"""`ys explain`: in sentences, what an execution waits for and what would wake it."""

from __future__ import annotations

import typer

from yieldstar_cli.cli import documents, exits, identify
from yieldstar_cli.cli.arguments import ExecutionId, LiteralId, call_of
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.facts import Facts, gather
from yieldstar_cli.cli.opened import crew, open_reading, project_of
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.steps import Operation
from yieldstar_cli.cli.verdict import Verdict, judge
from yieldstar_cli.storage.contract import Storage

EXAMPLES = ("ys explain order-42", "ys explain @last --json")
EXITS = (exits.DONE, exits.NOT_FOUND, exits.DATABASE)

#: Further than this nobody counts who is ahead.
_MOST_AHEAD = 1_000


def command(
    context: typer.Context,
    execution_id: ExecutionId = None,
    literal: LiteralId = None,
) -> None:
    """Say in sentences what an execution waits for.

    What it waits for, what would wake it and when at the earliest, whether something is wrong,
    and the command that helps.
    """
    call = call_of(context)
    project = project_of(call)
    storage = open_reading(call, project)
    word, is_literal = identify.one_word(execution_id, literal)
    record = identify.find_one(call, project, storage, word, literal=is_literal, complete=True)
    people = crew(call, project, storage, everyone=True)
    facts = gather(storage, record, people, call.clock.now_ms())
    verdict = judge(facts, call.times, ahead=_ahead(storage, facts))
    if call.settings.json:
        call.print_document(_document(facts, verdict))
    else:
        call.print_lines(_lines(call, facts, verdict))


def _ahead(storage: Storage, facts: Facts) -> int:
    """How many others are due, unclaimed, for longer than it."""
    record = facts.record
    if record.due_at is None or record.due_at > facts.now_ms or record.delivery is not None:
        return 0
    others = storage.reader.find(
        due_by=record.due_at, sort="due", limit=_MOST_AHEAD, payloads=False
    )
    return sum(
        1
        for other in others
        if other.number != record.number and other.delivery is None and other.held is None
    )


def _lines(call: Call, facts: Facts, verdict: Verdict) -> list[str]:
    look, times, width = call.look, call.times, min(call.look.width, 80) - 1
    record = facts.record
    name, headline = safe.visible(record.execution_id), safe.visible(verdict.headline)
    if record.status.terminal:
        lines = safe.wrap(f"{name}{headline.removeprefix('It')}", width)
    else:
        lines = safe.wrap(f"{name} is {record.status}. {headline}", width)
    if len(verdict.waits) > 1:
        lines.append(f"It waits for {_count(len(verdict.waits))}:")
        lines += [
            f"  {number:>2}. {safe.pad(safe.visible(_kind(wait)), 24)}  {_when(wait, facts, call)}"
            for number, wait in enumerate(verdict.waits, 1)
        ]
    if verdict.earliest_at is not None and verdict.earliest_at > facts.now_ms:
        lines.append(f"Earliest wake: {times.coming(verdict.earliest_at)}.")
    for note in verdict.notes:
        lines += safe.wrap_lines(note, width)
    alive = facts.crew.alive
    if not record.status.terminal and verdict.judgement == "fine" and alive:
        names = safe.visible(", ".join(row.name for row in alive[:3]))
        lines.append(f"A worker is alive ({names}). Nothing is wrong.")
    column = max((len(remedy.partition(": ")[0]) for remedy in verdict.remedies), default=0) + 2
    for remedy in verdict.remedies:
        label, _, command_line = remedy.partition(": ")
        lines.append(f"  {look.g('→')} {label + ':':<{column}}{safe.visible(command_line)}")
    return lines


def _count(count: int) -> str:
    words = {2: "the first of two things", 3: "the first of three things"}
    return words.get(count, f"the first of {count} things")


def _kind(wait: Operation) -> str:
    if wait.kind == "timer":
        return f"timer {wait.label}".rstrip() if wait.label else f"timer {wait.step_key}"
    tries = f", try {wait.attempt}" if wait.attempt > 1 else ""
    return f"{wait.kind} {wait.step_key}{tries}"


def _when(wait: Operation, facts: Facts, call: Call) -> str:
    if wait.state == "running":
        return f"running since {call.times.at(wait.started_at or facts.now_ms)}"
    if wait.due_at is not None:
        words = "tries again" if wait.state == "retrying" else "fires"
        return f"{words} {call.times.coming(wait.due_at)}"
    return "runs with the next delivery"


def _document(facts: Facts, verdict: Verdict) -> documents.Document:
    return {
        "schema": "ys.explain/1",
        "execution_id": facts.record.execution_id,
        "verdict": verdict.judgement,
        "text": " ".join([verdict.headline, *verdict.notes]),
        "waits": [
            {
                "kind": wait.kind,
                "ready": wait.due_at is not None and wait.due_at <= facts.now_ms,
                "due_at": documents.moment(wait.due_at),
                "on": {"step_key": wait.step_key, "label": wait.label, "state": wait.state},
            }
            for wait in verdict.waits
        ],
        "earliest_at": documents.moment(verdict.earliest_at),
        "remedies": [remedy.partition(": ")[2] or remedy for remedy in verdict.remedies],
    }
