"""`ys list`: the latest executions, unfinished ones first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.facts import DECISION
from yieldstar_cli.cli.listing import COLUMNS, Filters, print_list, watch
from yieldstar_cli.cli.opened import crew, open_reading, project_of
from yieldstar_cli.cli.spoken import call_of, read_span
from yieldstar_cli.errors import UsageError
from yieldstar_cli.model import Status

if TYPE_CHECKING:
    # Annotations that typer alone evaluates (`app.build`).
    from typing import Annotated

    import typer


EXAMPLES = ("ys list --failed --since 1d", "ys list -q --failed charge-order")
EXITS = (exits.DONE, exits.DATABASE)

_SORTS = ("updated", "due", "admitted", "took")
#: As many as no file holds: what is asked for from here on is all.
_BOUNDLESS = 2**31
_ENDED = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)


def command(
    context: typer.Context,
    workflow_id: Annotated[
        str | None, typer.Argument(help="Only this workflow.", metavar="WORKFLOW")
    ] = None,
    status: Annotated[
        str | None, typer.Option("--status", help="Only these, comma-separated.", metavar="S,…")
    ] = None,
    running: Annotated[bool, typer.Option("--running", help="A worker has them now.")] = False,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Suspended, and no worker has them.")
    ] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Failed.")] = False,
    done: Annotated[bool, typer.Option("--done", help="Ended, however.")] = False,
    approvals: Annotated[
        bool, typer.Option("--approvals", help="Waiting for ys approve or ys reject.")
    ] = False,
    due: Annotated[bool, typer.Option("--due", help="Due now.")] = False,
    pruned: Annotated[
        bool, typer.Option("--pruned", help="Also those that were pruned or deleted.")
    ] = False,
    since: Annotated[
        str | None, typer.Option("--since", help="Changed within this span.", metavar="D")
    ] = None,
    older: Annotated[
        str | None, typer.Option("--older", help="Not changed within this span.", metavar="D")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="A param has this value. Repeatable.", metavar="K=V"),
    ] = None,
    sort: Annotated[
        str, typer.Option("--sort", help="updated, due, admitted or took.", metavar="KEY")
    ] = "updated",
    reverse: Annotated[bool, typer.Option("-r", "--reverse", help="The other way round.")] = False,
    limit: Annotated[
        int, typer.Option("-n", "--limit", help="How many at most.", metavar="N", min=1)
    ] = 20,
    everything: Annotated[bool, typer.Option("--all", help="No limit.")] = False,
    header: Annotated[
        bool, typer.Option("--header", help="In a pipe: a first line with the names.")
    ] = False,
    columns: Annotated[
        str | None,
        typer.Option("--columns", help="In a pipe: these, in this order.", metavar="A,B"),
    ] = None,
    watching: Annotated[
        bool, typer.Option("--watch", "-w", help="Redraw on every change; Ctrl-C ends.")
    ] = False,
) -> int:
    """List executions, unfinished ones first.

    The 20 latest; --all shows every one. In a pipe: execution_id, workflow_id, status, updated_at
    and due_at by TAB; with -q IDs only; with --json an array of ys.execution/1 without steps.
    Exits 0 also when the list is empty.
    """
    call = call_of(context)
    now = call.clock.now_ms()
    since_ms, older_ms = read_span("--since", since), read_span("--older", older)
    if sort not in _SORTS:
        raise UsageError(f"--sort is {', '.join(_SORTS[:-1])} or {_SORTS[-1]}, not {sort!r}")
    filters = Filters(
        workflow_id=workflow_id,
        statuses=_statuses(status, failed, done),
        running=running,
        waiting=waiting,
        due=due,
        awaiting=DECISION if approvals else None,
        updated_since=None if since_ms is None else now - since_ms,
        updated_before=None if older_ms is None else now - older_ms,
        where=_where(where or []),
        sort=sort,
        reverse=reverse,
        limit=None if everything or limit >= _BOUNDLESS else limit,
        pruned=pruned,
        header=header,
        columns=_columns(columns),
    )
    project = project_of(call)
    storage = open_reading(call, project)
    if watching and call.drawn and not call.settings.quiet:
        watch(call, storage, filters, lambda: crew(call, project, storage))
    else:
        print_list(call, storage, filters, lambda: crew(call, project, storage))
    return exits.DONE


def _statuses(text: str | None, failed: bool, done: bool) -> tuple[str, ...] | None:
    chosen = [word.strip() for word in text.split(",")] if text is not None else []
    for word in chosen:
        if word not in tuple(Status):
            from yieldstar_cli.cli.words import nearest

            near = nearest(word, tuple(Status))
            hint = f". Did you mean {near[0]}?" if near else ""
            raise UsageError(
                f"--status: there is no status {word!r}{hint}",
                why=(f"They are {', '.join(Status)}.",),
                remedy=("ys list --help",),
            )
    chosen += ["failed"] if failed else []
    chosen += list(_ENDED) if done else []
    return tuple(dict.fromkeys(chosen)) or None


def _where(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise UsageError(f"--where takes NAME=VALUE, such as order=42, not {pair!r}")
        found[key] = value
    return found


def _columns(text: str | None) -> tuple[str, ...]:
    if text is None:
        return COLUMNS[:5]
    chosen = tuple(word.strip() for word in text.split(","))
    for word in chosen:
        if word not in COLUMNS:
            raise UsageError(
                f"--columns: there is no column {word!r}", why=(f"They are {', '.join(COLUMNS)}.",)
            )
    return chosen
