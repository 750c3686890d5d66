"""`ys prune`: forgets the history and values of executions that ended long ago."""

from __future__ import annotations

from typing import Annotated

import typer

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.arguments import call_of, read_span
from yieldstar_cli.cli.asking import Yes, agreed
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.opened import open_reading, open_writing, project_of
from yieldstar_cli.cli.pruning import Erase, Tally, erase, forget, plan_document, tell_kept
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.steering import told_if_unknown
from yieldstar_cli.errors import UsageError
from yieldstar_cli.model import Status
from yieldstar_cli.storage.upkeep import Chosen

EXAMPLES = ("ys prune --older 30d --dry-run", "ys prune --older 7d --status completed --keep 1000")
EXITS = (exits.DONE, exits.DATABASE, exits.UNKNOWN_COMMIT)

_ENDED = tuple(str(status) for status in Status if status.terminal)


def command(
    context: typer.Context,
    older: Annotated[
        str | None, typer.Option("--older", help="Those that ended before this span.", metavar="D")
    ] = None,
    status: Annotated[
        str | None, typer.Option("--status", help="Only these, comma-separated.", metavar="S,…")
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option("--keep", help="Keep the last that ended.", metavar="N", min=1),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("-n", "--dry-run", help="Show what would be done and change nothing.")
    ] = False,
    erased: Erase = False,
    yes: Yes = False,
) -> int:
    """Forget the history and values of executions that ended long ago.

    ID, workflow, status and moments stay, so no ID is ever used again. What an open execution
    waits for, started or was started by is kept. Says how many and how much, and asks. Workers may
    go on; what was interrupted is finished by the next call. The file gets no smaller, but has
    room again; --erase rewrites it.
    """
    call = call_of(context)
    chosen = _chosen(call, older, status, keep)
    project = project_of(call)
    storage = open_reading(call, project) if dry_run else open_writing(call, project)
    plan = Tally.of(storage.upkeep.prunable(chosen))
    if dry_run:
        _tell_plan(call, plan)
        return exits.DONE
    question = f"Forget history and values of {plan.words}? IDs and statuses stay."
    if plan.execution_ids and not agreed(call, question, yes=yes):
        return exits.DONE
    with told_if_unknown("the last of them are pruned", "ys prune, the same line again"):
        done = forget(call, project, storage, chosen)
        _tell_done(call, done)
        if erased:
            erase(call, storage)
    return exits.DONE


def _chosen(call: Call, older: str | None, status: str | None, keep: int | None) -> Chosen:
    span = read_span("--older", older)
    if span is None and keep is None:
        raise UsageError(
            "which executions? Say --older, --keep, or both",
            remedy=("ys prune --older 30d --dry-run",),
        )
    statuses = _ENDED if status is None else tuple(word.strip() for word in status.split(","))
    for word in statuses:
        if word not in _ENDED:
            raise UsageError(
                f"--status is {', '.join(_ENDED)}, not {word!r}",
                why=("Only what has ended can be pruned.",),
                remedy=("ys prune --help",),
            )
    before = None if span is None else call.clock.now_ms() - span
    return Chosen(ended_before=before, statuses=statuses, keep=keep or 0)


def _tell_plan(call: Call, plan: Tally) -> None:
    if call.settings.json:
        call.print_document(plan_document(plan))
    elif call.drawn:
        call.print(f"Would prune {plan.words} of history and values. Nothing was changed.")
        tell_kept(call, plan)
    else:
        call.print_lines(f"{safe.visible(name)}\tpruned" for name in plan.execution_ids)
        call.print_lines(f"{safe.visible(one.execution_id)}\tkept" for one in plan.kept)


def _tell_done(call: Call, done: Tally) -> None:
    if call.settings.json:
        kept = [{"execution_id": one.execution_id, "why": one.kept} for one in done.kept]
        call.print_document(
            {
                "schema": "ys.pruned/1",
                "executions": len(done.execution_ids),
                "bytes": done.bytes,
                "kept": kept,
            }
        )
    elif call.drawn:
        mark = call.look.paint("good", call.look.g("✓"))
        what = f"Pruned {done.words} of history and values" if done.execution_ids else "Nothing"
        rest = "" if done.execution_ids else " to prune"
        call.print(f"{mark} {what}{rest}.")
        call.flush()
        tell_kept(call, done)
    else:
        call.print(f"{len(done.execution_ids)}\t{done.bytes}")
