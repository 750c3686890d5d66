"""Sends a yes or a no to an execution that waits for a decision, and to no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from yieldstar_cli.cli import exits, identify
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.opened import open_writing, project_of
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.render.times import rough
from yieldstar_cli.cli.steering import (
    Ended,
    answer_of,
    check_text,
    hint_paused,
    hint_worker,
    told_if_unknown,
)
from yieldstar_cli.cli.typed import typed
from yieldstar_cli.errors import YieldstarError
from yieldstar_cli.model import ExecutionRecord, Wait
from yieldstar_cli.storage.contract import Storage

#: The queue on which workflows wait for what people decide.
QUEUE = "decision"

Note = Annotated[str | None, typer.Option("--note", help="A word to go with it.", metavar="TEXT")]


class NoDecisionAwaited(YieldstarError):
    """The execution waits for something else, or its decision is there already."""

    code = "NO_DECISION_AWAITED"
    exit_code = exits.REFUSED


def decide(
    call: Call, execution_id: str | None, literal: str | None, *, ok: bool, note: str | None
) -> int:
    """Send the decision; the exit status. Raises NoDecisionAwaited, Ended, ExecutionNotFound."""
    from yieldstar_cli.runtime_open import ring_workers
    from yieldstar_cli.runtime_words import message_text, user_name

    word, is_literal = identify.one_word(execution_id, literal)
    value: dict[str, Any] = {"ok": ok, "by": user_name()}
    if check_text("--note", note) is not None:
        value["note"] = note
    project = project_of(call)
    text = message_text(value, project.settings.max_value)
    storage = open_writing(call, project)
    record = identify.find_one(call, project, storage, word, literal=is_literal)
    look = f"ys messages {typed(record.execution_id)}"
    with told_if_unknown("the decision was sent", look), storage.atomic():
        _check_awaited(call, storage, record.execution_id)
        answer = storage.inbox.send(
            record.execution_id, QUEUE, text, ttl_ms=project.settings.message_ttl_ms
        )
    ring_workers(storage, project.db)
    name = safe.visible(record.execution_id)
    if call.settings.json:
        call.print_document(answer_of(record.execution_id, answer, queue=QUEUE))
    elif call.drawn:
        good = call.look.paint("good", call.look.g("✓"))
        call.print(f"{good} {'Approved' if ok else 'Rejected'} {name}.")
    else:
        call.print(f"{name}\t{answer}")
    if not hint_paused(call, storage, record.execution_id):
        hint_worker(call, project, storage)
    return exits.DONE


def _check_awaited(call: Call, storage: Storage, execution_id: str) -> None:
    """Refuse unless a decision is waited for and none is there yet."""
    record = storage.executions.get(execution_id)
    assert record is not None
    if record.status.terminal:
        raise Ended(record, call.times, "Nothing was sent.")
    name = typed(execution_id)
    waits = storage.reader.waits(record.number)
    if not any(wait.queue == QUEUE for wait in waits):
        raise NoDecisionAwaited(
            f"execution {execution_id!r} waits for no decision",
            why=(_instead(record, waits), "Nothing was sent."),
            remedy=(f"ys explain {name}",),
        )
    for sent in storage.inbox.messages(execution_id, queue=QUEUE, limit=1):
        if sent.state == "waiting":
            ago = rough(call.times.now_ms - sent.sent_at)
            raise NoDecisionAwaited(
                f"a decision for execution {execution_id!r} was sent {ago} ago",
                why=("It has not been read yet. Nothing was sent.",),
                remedy=(f"ys messages {name} --queue {QUEUE}", f"ys explain {name}"),
            )


def _instead(record: ExecutionRecord, waits: Sequence[Wait]) -> str:
    if not record.deliveries:
        return "It has not begun yet."
    if not waits:
        return "It waits for nothing now."
    shown = [_words(wait) for wait in waits[:3]]
    more = f" and {len(waits) - 3:,} more" if len(waits) > 3 else ""
    return f"It waits for {', '.join(shown)}{more}."


def _words(wait: Wait) -> str:
    if wait.queue is not None:
        return f"a message on {wait.queue}"
    if wait.target is not None:
        return f"the end of {wait.target}"
    return f"{wait.step_key} ({wait.label})" if wait.label else wait.step_key
