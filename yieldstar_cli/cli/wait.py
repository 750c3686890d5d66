"""`ys wait`: until executions have ended; prints their outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yieldstar_cli.cli import exits, identify
from yieldstar_cli.cli.opened import open_reading, project_of
from yieldstar_cli.cli.spoken import call_of, read_span
from yieldstar_cli.cli.waiting import Wanted, wait
from yieldstar_cli.errors import UsageError
from yieldstar_cli.model import Status

if TYPE_CHECKING:
    # Annotations that typer alone evaluates (`app.build`).
    from typing import Annotated

    import typer

    from yieldstar_cli.cli.arguments import ExecutionIds, LiteralIds


EXAMPLES = ("ys wait order-42 --timeout 1h", "ys list -q charge-order | ys wait - --any")
EXITS = (
    exits.DONE,
    exits.NOT_FOUND,
    exits.BAD_NEWS,
    exits.PENDING,
    exits.CANCELLED,
    exits.DATABASE,
)


def command(
    context: typer.Context,
    execution_ids: ExecutionIds = None,
    literals: LiteralIds = None,
    any_of_them: Annotated[bool, typer.Option("--any", help="Until one has ended.")] = False,
    all_of_them: Annotated[
        bool, typer.Option("--all", help="Until all have ended (the default).")
    ] = False,
    status: Annotated[
        str | None, typer.Option("--for", help="Until it has this status.", metavar="STATUS")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", help="Give up after this span.", metavar="D")
    ] = None,
    result: Annotated[bool, typer.Option("--result", help="Print only the results.")] = False,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Show values whose key looks secret.")
    ] = False,
) -> int:
    """Wait until executions have ended and print their outcomes.

    Runs nothing itself: a worker must. Exits 7 if one failed, 9 if one was cancelled, 8 when the
    timeout has passed; then nothing was changed.
    """
    call = call_of(context)
    if any_of_them and all_of_them:
        raise UsageError("--any or --all, not both")
    if status is not None and status not in tuple(Status):
        raise UsageError(f"--for is {', '.join(Status)}, not {status!r}")
    timeout_ms = read_span("--timeout", timeout)
    words = identify.words_of(execution_ids or [], literals or [])
    project = project_of(call)
    storage = open_reading(call, project)
    records = [
        identify.find_one(call, project, storage, word, literal=literal) for word, literal in words
    ]
    if not records:
        # An empty list on stdin: nothing to wait for.
        if call.settings.json:
            call.print_document([])
        return exits.DONE
    wanted = Wanted(
        execution_ids=list(dict.fromkeys(record.execution_id for record in records)),
        any_of_them=any_of_them,
        status=status,
        timeout_ms=timeout_ms,
        result=result,
        reveal=reveal,
    )
    return wait(call, project, storage, wanted)
