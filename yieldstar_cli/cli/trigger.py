"""`ys trigger`: admits one execution and prints its ID; a worker runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.spoken import call_of, read_moment, read_span
from yieldstar_cli.cli.triggering import (
    Admitted,
    Asked,
    admit,
    plan,
    tell_admitted,
    tell_name,
    tell_plan,
)
from yieldstar_cli.errors import UsageError

if TYPE_CHECKING:
    # Annotations that typer alone evaluates (`app.build`).
    from typing import Annotated

    import typer

    from yieldstar_cli.cli.arguments import Workflows
    from yieldstar_cli.project import Project
    from yieldstar_cli.storage.contract import Storage

EXAMPLES = (
    "ys trigger charge-order --id order-42 -p order=42",
    "ys trigger charge-order --params @order.json --in 10m --wait",
)
EXITS = (
    exits.DONE,
    exits.CONFLICT,
    exits.NOT_FOUND,
    exits.BAD_VALUE,
    exits.BAD_NEWS,
    exits.PENDING,
    exits.CANCELLED,
    exits.DATABASE,
    exits.UNKNOWN_COMMIT,
)

_IF_EXISTS = ("fail", "show", "same")


def command(
    context: typer.Context,
    workflow_id: Annotated[
        str, typer.Argument(help="Workflow to run, e.g. charge-order.", metavar="WORKFLOW")
    ],
    execution_id: Annotated[
        str | None, typer.Option("--id", help="Execution ID; omitted: one is made.", metavar="ID")
    ] = None,
    params: Annotated[
        list[str] | None,
        typer.Option("-p", "--param", help="k=v, k:=JSON, k=@file. Repeatable.", metavar="K=V"),
    ] = None,
    whole: Annotated[
        str | None,
        typer.Option("--params", help="A whole object: JSON, @file or -.", metavar="JSON"),
    ] = None,
    carried: Annotated[
        list[str] | None,
        typer.Option("--context", help="Data carried along. Repeatable.", metavar="K=V"),
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", help="First wake at this moment.", metavar="TIME")
    ] = None,
    after: Annotated[
        str | None, typer.Option("--in", help="First wake after this span.", metavar="D")
    ] = None,
    if_exists: Annotated[
        str,
        typer.Option(
            "--if-exists",
            help="The ID exists: fail (exit 3), show it, or accept the same call.",
            metavar="fail|show|same",
        ),
    ] = "fail",
    waiting: Annotated[bool, typer.Option("--wait", help="Then wait until it has ended.")] = False,
    timeout: Annotated[
        str | None, typer.Option("--timeout", help="With --wait: at most this span.", metavar="D")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("-n", "--dry-run", help="Check everything and store nothing.")
    ] = False,
    workflows: Workflows = None,
) -> int:
    """Admit one execution of a workflow and print its ID.

    Stores the execution and its first wake in one transaction, then returns; a worker runs it.
    With --wait it goes on as ys wait does, and exits 7, 8 or 9 as that does.
    """
    call = call_of(context)
    if if_exists not in _IF_EXISTS:
        raise UsageError(f"--if-exists is fail, show or same, not {if_exists!r}")
    if timeout is not None and not waiting:
        raise UsageError("--timeout needs --wait")
    asked = Asked(
        workflow_id=workflow_id,
        execution_id=execution_id,
        params=tuple(params or ()),
        whole=whole,
        context=tuple(carried or ()),
        at=_first_wake(call, at, after),
        if_exists=if_exists,
    )
    from yieldstar_cli.cli.opened import open_writing, project_of

    project = project_of(call, workflows=workflows)
    if dry_run:
        tell_plan(call, plan(call, project, asked))
        return exits.DONE
    storage = open_writing(call, project)
    admitted = admit(call, project, storage, asked)
    if waiting:
        return _wait(call, project, storage, admitted, timeout)
    tell_admitted(call, project, storage, admitted)
    return exits.DONE


def _first_wake(call: Call, at: str | None, after: str | None) -> int | None:
    if at is not None and after is not None:
        raise UsageError("--at or --in, not both", remedy=("ys help times",))
    now = call.clock.now_ms()
    span = read_span("--in", after)
    return now + span if span is not None else read_moment("--at", at, now)


def _wait(
    call: Call, project: Project, storage: Storage, admitted: Admitted, timeout: str | None
) -> int:
    from yieldstar_cli.cli.waiting import Wanted, wait

    wanted = Wanted([admitted.record.execution_id], timeout_ms=read_span("--timeout", timeout))
    if not call.settings.json:
        tell_name(call, admitted)
        call.flush()
    return wait(call, project, storage, wanted)
