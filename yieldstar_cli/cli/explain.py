"""`ys explain`: in sentences, what an execution waits for and what would wake it."""

from __future__ import annotations

import typer

from yieldstar_cli.cli import exits, identify
from yieldstar_cli.cli.arguments import ExecutionId, LiteralId, call_of
from yieldstar_cli.cli.beyond import look_beyond
from yieldstar_cli.cli.explaining import explain_document
from yieldstar_cli.cli.facts import Facts, gather
from yieldstar_cli.cli.opened import crew, open_reading, project_of, workflow_tags
from yieldstar_cli.cli.verdict import judge
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

    What it waits for, followed to the end: an awaited execution and what that waits for in turn.
    What would wake it and when at the earliest, whether something is wrong, and the command that
    helps.
    """
    call = call_of(context)
    project = project_of(call)
    storage = open_reading(call, project)
    word, is_literal = identify.one_word(execution_id, literal)
    record = identify.find_one(call, project, storage, word, literal=is_literal, complete=True)
    people = crew(call, project, storage, everyone=True)
    with storage.atomic():
        facts = look_beyond(
            storage,
            gather(storage, record, people, call.clock.now_ms()),
            workflow_tags(project, storage),
        )
        ahead = _ahead(storage, facts)
    verdict = judge(facts, call.times, ahead=ahead)
    if call.settings.json:
        call.print_document(explain_document(facts, verdict))
        return
    from yieldstar_cli.cli.render.explain import explain_lines

    call.print_lines(explain_lines(facts, verdict, call.look, call.times))


def _ahead(storage: Storage, facts: Facts) -> int:
    """How many others are due, free to be claimed, for longer than it."""
    record = facts.record
    if record.due_at is None or record.due_at > facts.now_ms or record.delivery is not None:
        return 0
    others = storage.reader.find(
        due_by=record.due_at, sort="due", limit=_MOST_AHEAD, payloads=False
    )
    return sum(
        1
        for other in others
        if other.number != record.number
        and other.delivery is None
        and other.held is None
        and other.paused is None
        and other.poisoned_at is None
        and facts.crew.has(other.workflow_id, other.version)
    )
