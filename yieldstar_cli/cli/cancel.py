"""`ys cancel`: asks for executions to be cancelled, or ends them at once."""

from __future__ import annotations

from typing import Annotated

import typer

from yieldstar_cli.cli import exits, identify
from yieldstar_cli.cli.arguments import ExecutionIds, LiteralIds, call_of
from yieldstar_cli.cli.asking import Yes, agreed
from yieldstar_cli.cli.cancelling import Wish, cancel, choose, filters_of, tell_cancelled, tell_plan
from yieldstar_cli.cli.opened import open_reading, open_writing, project_of
from yieldstar_cli.cli.steering import check_text, find_all
from yieldstar_cli.errors import UsageError

EXAMPLES = (
    "ys cancel order-42 --reason 'no longer wanted'",
    "ys cancel --workflow charge-order --where shop=berlin",
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
    workflow_id: Annotated[
        str | None, typer.Option("--workflow", help="Open ones of this workflow.", metavar="W")
    ] = None,
    status: Annotated[
        str | None,
        typer.Option("--status", help="Those that are admitted, or suspended.", metavar="S"),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="A param has this value. Repeatable.", metavar="K=V"),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", help="By filter: how many at most.", metavar="N", min=1)
    ] = 500,
    now: Annotated[
        bool, typer.Option("--now", help="End them at once, without any clean-up.")
    ] = False,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Why, for people.", metavar="TEXT")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("-n", "--dry-run", help="Show what would be done and change nothing.")
    ] = False,
    yes: Yes = False,
) -> int:
    """Ask for executions to be cancelled, by ID or by filter.

    The next delivery raises Cancelled at the await where the function stands, so that it may clean
    up; children are asked too, unless they were started detached. One that never began is
    cancelled at once. With --now it ends without running any code: the way out for what is held,
    poisoned or paused. Several by filter: it says how many and asks.
    """
    call = call_of(context)
    wish = Wish(now=now, reason=check_text("--reason", reason))
    filters = filters_of(workflow_id, status, where or [], limit)
    named = bool(execution_ids or literals)
    if named and filters is not None:
        raise UsageError("give IDs or a filter, not both")
    project = project_of(call)
    words = identify.words_of(execution_ids or [], literals or []) if filters is None else []
    storage = open_reading(call, project) if dry_run else open_writing(call, project)
    if filters is None:
        records = find_all(call, project, storage, words)
    else:
        records = choose(call, storage, filters)
    if dry_run:
        tell_plan(call, records, wish)
        return exits.DONE
    if filters is not None and len(records) > 1:
        how = " at once, without clean-up" if now else ""
        if not agreed(call, f"Cancel {len(records):,} executions{how}?", yes=yes):
            return exits.DONE
    done = cancel(project, storage, records, wish)
    return tell_cancelled(
        call, project, storage, done, wish, single=len(words) == 1, named=filters is None
    )
