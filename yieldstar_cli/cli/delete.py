"""`ys delete`: forgets the history and values of executions that have ended."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from yieldstar_cli.cli import exits, identify
from yieldstar_cli.cli.arguments import ExecutionIds, LiteralIds, call_of
from yieldstar_cli.cli.asking import Yes, agreed
from yieldstar_cli.cli.opened import open_writing, project_of
from yieldstar_cli.cli.pruning import Erase, Tally, erase, forget
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.steering import answer_of, find_all, look_at, tell, told_if_unknown
from yieldstar_cli.cli.typed import typed
from yieldstar_cli.errors import ExecutionNeeded
from yieldstar_cli.model import ExecutionRecord
from yieldstar_cli.storage.contract import Storage
from yieldstar_cli.storage.upkeep import Chosen

EXAMPLES = ("ys delete order-42", "ys delete order-42 --yes --erase")
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
    erased: Erase = False,
    yes: Yes = False,
) -> int:
    """Forget the history and values of executions that have ended.

    ID, workflow, status and moments stay, so the ID is never used again. One that is open, or that
    an open one waits for, started or was started by, is refused. Asks first; without a terminal
    --yes is needed. Of several IDs all go or none.
    """
    call = call_of(context)
    project = project_of(call)
    words = identify.words_of(execution_ids or [], literals or [])
    storage = open_writing(call, project)
    records = find_all(call, project, storage, words)
    chosen = Chosen(execution_ids=[record.execution_id for record in records])
    _refuse_needed(storage, records, chosen)
    which = typed(records[0].execution_id) if len(records) == 1 else f"{len(records):,} executions"
    question = f"Forget history and values of {which}? The ID stays in use."
    if not agreed(call, safe.visible(question), yes=yes, tries=False):
        return exits.DONE
    with told_if_unknown("they are deleted", look_at(records)):
        done = forget(call, project, storage, chosen)
        _refuse_kept(done)
    gone = set(done.execution_ids)
    answers = [
        answer_of(name, "deleted" if name in gone else "unchanged")
        for name in (record.execution_id for record in records)
    ]
    mark = call.look.paint("good", call.look.g("✓"))
    lines = [
        f"{mark} Deleted what {safe.visible(a['execution_id'])} did; its ID stays in use."
        if call.drawn and a["answer"] == "deleted"
        else f"{call.look.g('·')} {safe.visible(a['execution_id'])} was pruned already."
        if call.drawn
        else f"{safe.visible(a['execution_id'])}\t{a['answer']}"
        for a in answers
    ]
    tell(call, answers, lines, single=len(words) == 1)
    if erased:
        erase(call, storage)
    return exits.DONE


def _refuse_needed(storage: Storage, records: Sequence[ExecutionRecord], chosen: Chosen) -> None:
    for record in records:
        if not record.status.terminal:
            name = typed(record.execution_id)
            raise ExecutionNeeded(
                f"{record.execution_id} has not ended: it is {record.status}",
                why=("Nothing was changed.",),
                remedy=(f"ys wait {name}", f"ys cancel {name} --now, then ys delete {name}"),
            )
    _refuse_kept(Tally.of(storage.upkeep.prunable(chosen)))


def _refuse_kept(tally: Tally) -> None:
    for one in tally.kept:
        raise ExecutionNeeded(
            f"{one.execution_id} is still needed: {one.kept}",
            why=("It was not deleted.",),
            remedy=(f"ys show {typed(one.execution_id)}",),
        )
