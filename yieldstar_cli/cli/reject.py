"""`ys reject`: sends the decision that an execution waits for: no."""

from __future__ import annotations

import typer

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.arguments import ExecutionId, LiteralId, call_of
from yieldstar_cli.cli.deciding import Note, decide

EXAMPLES = ("ys reject refund-7", "ys reject refund-7 --note 'too late'")
EXITS = (
    exits.DONE,
    exits.NOT_FOUND,
    exits.REFUSED,
    exits.DATABASE,
    exits.UNKNOWN_COMMIT,
)


def command(
    context: typer.Context,
    execution_id: ExecutionId = None,
    literal: LiteralId = None,
    note: Note = None,
) -> int:
    """Say no to an execution that waits for a decision.

    As ys send ID decision ok:=false by=$USER, and only where an execution waits on the queue
    decision (else exit 6).
    """
    return decide(call_of(context), execution_id, literal, ok=False, note=note)
