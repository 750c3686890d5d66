"""`ys store`: looks at stores and writes them; each action has a module of its own."""

from __future__ import annotations

import typer

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.verbs import ACTIONS
from yieldstar_cli.errors import UsageError

EXAMPLES = ("ys store get Stock widget", "ys store set Stock widget left=10")
EXITS = (
    exits.DONE,
    exits.CONFLICT,
    exits.NOT_FOUND,
    exits.BAD_VALUE,
    exits.DATABASE,
    exits.UNKNOWN_COMMIT,
)


def command(context: typer.Context) -> None:
    """Look at stores, or write them and wake who waits on them.

    A store is a state that executions share, by the name of its type and an ID. Whatever is
    written wakes the executions that it concerns, in the same transaction.
    """
    if context.invoked_subcommand is None:
        actions = [action.name for action in ACTIONS["store"]]
        raise UsageError(
            f"which action? ys store {', '.join(actions[:-1])} or {actions[-1]}",
            remedy=("ys store --help",),
        )
