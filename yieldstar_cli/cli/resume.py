"""`ys resume`: takes the marks of `ys pause` away."""

from __future__ import annotations

import typer

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.arguments import Everything, ExecutionIds, LiteralIds, OfWorkflow, call_of
from yieldstar_cli.cli.opened import open_writing, project_of
from yieldstar_cli.cli.pausing import marks_of, resume_all, tell_marks

EXAMPLES = ("ys resume order-42", "ys resume --workflow charge-order")
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
) -> int:
    """Let deliveries begin again after ys pause.

    Takes the mark of these executions, of a workflow (--workflow) or of the database (--all) away.
    What is paused twice, by itself and with its workflow, goes on once both are resumed.
    """
    call = call_of(context)
    project = project_of(call)
    scope = marks_of(execution_ids or [], literals or [], workflow_id, everything=everything)
    storage = open_writing(call, project)
    marks = resume_all(call, project, storage, scope)
    return tell_marks(call, storage, scope, marks)
