"""`ys show`: one screen that answers what happened to one execution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yieldstar_cli.cli import exits, identify
from yieldstar_cli.cli.beyond import look_beyond
from yieldstar_cli.cli.earlier import earlier_facts
from yieldstar_cli.cli.facts import Facts, gather
from yieldstar_cli.cli.opened import (
    crew,
    open_reading,
    project_of,
    workflow_file,
    workflow_tags,
)
from yieldstar_cli.cli.showing import Wish, print_picture, print_result, print_step, watch
from yieldstar_cli.cli.spoken import call_of
from yieldstar_cli.errors import UsageError
from yieldstar_cli.model import Status
from yieldstar_cli.nouns import replace

if TYPE_CHECKING:
    # Annotations that typer alone evaluates (`app.build`).
    from typing import Annotated

    import typer

    from yieldstar_cli.cli.arguments import ExecutionId, LiteralId

EXAMPLES = ("ys show order-42", "ys show @last --result | python3 -m json.tool")
EXITS = (
    exits.DONE,
    exits.NOT_FOUND,
    exits.BAD_NEWS,
    exits.PENDING,
    exits.CANCELLED,
    exits.DATABASE,
)

#: Seconds between two redraws of --watch, at most.
_LONGEST_PAUSE = 3_600


def command(
    context: typer.Context,
    execution_id: ExecutionId = None,
    literal: LiteralId = None,
    watching: Annotated[
        bool, typer.Option("--watch", "-w", help="Redraw on every change until it has ended.")
    ] = False,
    every: Annotated[
        float,
        typer.Option("-n", help="With --watch: seconds between redraws at least.", metavar="SEC"),
    ] = 0.1,
    history: Annotated[
        bool, typer.Option("--history", help="Every resolution in the order applied.")
    ] = False,
    step: Annotated[
        int | None,
        typer.Option("--step", help="One resolution of the history, in full.", metavar="N"),
    ] = None,
    result: Annotated[
        bool, typer.Option("--result", help="Only the result; of a failed one the error, exit 7.")
    ] = False,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Show values whose key looks secret.")
    ] = False,
    incarnation: Annotated[
        int | None,
        typer.Option("--incarnation", help="An earlier one, while it is kept.", metavar="N"),
    ] = None,
    tree: Annotated[
        bool, typer.Option("--tree", help="With its children, and theirs; many are counted.")
    ] = False,
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth", help="With --tree: so many levels of children.", metavar="N", min=1
        ),
    ] = None,
    exit_status: Annotated[
        bool, typer.Option("--exit-status", help="Exit 7 failed, 9 cancelled, 8 not ended.")
    ] = False,
) -> int:
    """Show what happened to one execution.

    Exits 0 whatever its status, since asking succeeded; --exit-status and --result change that.
    In a pipe: one field a line, TAB-separated; with --json: the document ys.execution/1.
    """
    call = call_of(context)
    wish = Wish(history=history, reveal=reveal, tree=tree, depth=depth)
    one_part = result or step is not None
    _check(wish, watching=watching, one_part=one_part, earlier=incarnation is not None)
    if not 0 <= every <= _LONGEST_PAUSE:
        raise UsageError(f"-n is 0 to {_LONGEST_PAUSE} seconds, not {every}")
    project = project_of(call)
    storage = open_reading(call, project)
    word, is_literal = identify.one_word(execution_id, literal)
    record = identify.find_one(
        call, project, storage, word, literal=is_literal, complete=not exit_status
    )

    def facts() -> Facts:
        people = crew(call, project, storage, everyone=record.status is not Status.COMPLETED)
        found = gather(storage, record, people, call.clock.now_ms())
        if incarnation is not None:
            return earlier_facts(storage, found, incarnation)
        return look_beyond(storage, found, workflow_tags(project, storage))

    wish = replace(wish, file_of=lambda opened, found: workflow_file(project, opened, found))
    if watching:
        shown = watch(call, storage, facts, wish, least_ms=every * 1000)
    else:
        shown = facts()
        if result:
            return print_result(call, shown.record, reveal=reveal)
        if step is not None:
            print_step(call, shown, step, reveal=reveal)
        else:
            print_picture(call, storage, shown, wish)
    return _status(shown) if exit_status else exits.DONE


def _check(wish: Wish, *, watching: bool, one_part: bool, earlier: bool) -> None:
    """Refuse words that do not fit together."""
    if watching and one_part:
        raise UsageError("--watch shows the whole picture: not with --result or --step")
    if wish.tree and (wish.history or one_part or earlier):
        raise UsageError(
            "--tree is a picture of its own: not with --history, --step, --result, --incarnation"
        )
    if wish.depth is not None and not wish.tree:
        raise UsageError("--depth belongs to --tree")


def _status(facts: Facts) -> int:
    return {
        Status.COMPLETED: exits.DONE,
        Status.FAILED: exits.BAD_NEWS,
        Status.CANCELLED: exits.CANCELLED,
    }.get(facts.record.status, exits.PENDING)
