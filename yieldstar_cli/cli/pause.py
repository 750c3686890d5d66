"""`ys pause`: lets no more deliveries begin, of some executions, a workflow or the whole file."""

from __future__ import annotations

from typing import Annotated

import typer

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.arguments import Everything, ExecutionIds, LiteralIds, OfWorkflow, call_of
from yieldstar_cli.cli.opened import open_writing, project_of
from yieldstar_cli.cli.pausing import marks_of, pause_all, tell_marks
from yieldstar_cli.cli.steering import check_text

EXAMPLES = (
    "ys pause order-42 --reason 'the bank is down'",
    "ys pause --workflow charge-order",
)
EXITS = (
    exits.DONE,
    exits.NOT_FOUND,
    exits.REFUSED,
    exits.DATABASE,
    exits.UNKNOWN_COMMIT,
)


def command(
    context: typer.Context,
    execution_ids: ExecutionIds = None,
    literals: LiteralIds = None,
    workflow_id: OfWorkflow = None,
    everything: Everything = False,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Why, for people.", metavar="TEXT")
    ] = None,
) -> int:
    """Let no more deliveries begin until ys resume.

    Of these executions, of a workflow (--workflow), or of the whole database (--all). Steps that
    run end; triggers, wakes and messages are taken as usual and wait.
    """
    call = call_of(context)
    reason = check_text("--reason", reason)
    project = project_of(call)
    scope = marks_of(execution_ids or [], literals or [], workflow_id, everything=everything)
    storage = open_writing(call, project)
    marks = pause_all(call, project, storage, scope, reason)
    return tell_marks(call, storage, scope, marks)
