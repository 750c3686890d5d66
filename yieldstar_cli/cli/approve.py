"""`ys approve`: sends the decision that an execution waits for: yes."""

from __future__ import annotations

import typer

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.arguments import ExecutionId, LiteralId, call_of
from yieldstar_cli.cli.deciding import Note, decide

EXAMPLES = ("ys approve refund-7", "ys approve refund-7 --note 'as agreed with Ann'")
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
    """Say yes to an execution that waits for a decision.

    As ys send ID decision ok:=true by=$USER, and only where an execution waits on the queue
    decision (else exit 6).
    """
    return decide(call_of(context), execution_id, literal, ok=True, note=note)
