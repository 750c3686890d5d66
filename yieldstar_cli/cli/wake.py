"""`ys wake`: asks for an execution to be delivered, and ends its hold."""

from __future__ import annotations

from typing import Annotated

import typer

from yieldstar_cli.cli import exits, identify
from yieldstar_cli.cli.arguments import ExecutionIds, LiteralIds, call_of, read_moment
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.opened import open_writing, project_of
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.steering import Answer, answer_of, hint_paused, hint_worker
from yieldstar_cli.model import ExecutionRecord

EXAMPLES = ("ys wake order-42", "ys wake order-42 --at +10m")
EXITS = (exits.DONE, exits.NOT_FOUND, exits.DATABASE, exits.UNKNOWN_COMMIT)


def command(
    context: typer.Context,
    execution_ids: ExecutionIds = None,
    literals: LiteralIds = None,
    at: Annotated[
        str | None,
        typer.Option("--at", help="When: +10m, 09:30, 2026-12-01T09:30.", metavar="TIME"),
    ] = None,
) -> int:
    """Ask for an execution to be delivered, now or later.

    It ends a hold and lets a poisoned execution be tried again. It fires no timer early: what
    still waits goes on waiting. Prints requested, or ignored for one that has ended.
    """
    from yieldstar_cli.runtime_open import ring_workers

    call = call_of(context)
    wake_at = read_moment("--at", at, call.clock.now_ms())
    words = identify.words_of(execution_ids or [], literals or [])
    project = project_of(call)
    storage = open_writing(call, project)
    # All of them are looked up before the first is woken.
    records = [
        identify.find_one(call, project, storage, word, literal=literal) for word, literal in words
    ]
    answers: list[Answer] = []
    for record in records:
        answer = storage.executions.wake(record.execution_id, wake_at)
        answers.append(answer_of(record.execution_id, answer))
        if not call.settings.json:
            _print(call, record, answer, wake_at)
    ring_workers(storage, project.db)
    if call.settings.json:
        call.print_document(answers[0] if len(words) == 1 else answers)
    requested = [answer for answer in answers if answer["answer"] == "requested"]
    if len(requested) == 1 and hint_paused(call, storage, requested[0]["execution_id"]):
        return exits.DONE
    if requested and wake_at is None:
        hint_worker(call, project, storage)
    return exits.DONE


def _print(call: Call, record: ExecutionRecord, answer: str, wake_at: int | None) -> None:
    name = safe.visible(record.execution_id)
    if not call.drawn:
        call.print(f"{name}\t{answer}")
    elif answer == "requested":
        when = "Due now." if wake_at is None else f"Due {call.times.coming(wake_at)}."
        call.print(f"{call.look.paint('good', call.look.g('✓'))} Wake of {name} requested. {when}")
    else:
        call.print(f"{call.look.g('·')} Wake of {name} ignored: it is {record.status}.")
