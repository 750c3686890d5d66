"""`ys messages`: the messages of an execution and what became of them."""

from __future__ import annotations

from typing import Annotated

import typer

from yieldstar_cli.cli import documents, exits, identify
from yieldstar_cli.cli.arguments import ExecutionId, LiteralId, call_of
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.opened import open_reading, project_of
from yieldstar_cli.cli.render import document, safe, values
from yieldstar_cli.cli.render.table import columns
from yieldstar_cli.cli.render.times import Times
from yieldstar_cli.model import Message

EXAMPLES = ("ys messages order-42", "ys messages order-42 --queue cancel -n 1 --json")
EXITS = (exits.DONE, exits.NOT_FOUND, exits.DATABASE)

_HEADINGS = ("queue", "state", "sent", "key", "value")


def command(
    context: typer.Context,
    execution_id: ExecutionId = None,
    literal: LiteralId = None,
    queue: Annotated[
        str | None, typer.Option("--queue", help="Only this queue.", metavar="QUEUE")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", help="Only the newest N.", metavar="N", min=1)
    ] = None,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Show values whose key looks secret.")
    ] = False,
) -> int:
    """List the messages of an execution and what became of them.

    In the order sent; also those that wait for an execution that does not exist yet. A message is
    waiting, consumed, invalid (it did not fit its type), buffered or expired. In a pipe: queue,
    idempotency_key, state, sent_at and value by TAB.
    """
    call = call_of(context)
    word, is_literal = identify.one_word(execution_id, literal)
    project = project_of(call)
    storage = open_reading(call, project)
    name = word
    found = storage.inbox.messages(word, queue=queue, limit=limit)
    if not found and (queue is None or not storage.inbox.messages(word, limit=1)):
        record = identify.find_one(call, project, storage, word, literal=is_literal, complete=True)
        name = record.execution_id
        found = storage.inbox.messages(name, queue=queue, limit=limit)
        if record.pruned_at is not None:
            call.say(safe.visible(f"{name} was pruned; its messages are no longer kept."))
            if call.drawn:
                return exits.DONE
    if call.settings.json:
        call.print_document([_document(message) for message in found])
    elif call.drawn:
        call.print_lines(_table(call, name, queue, found, reveal=reveal))
    else:
        call.print_lines(_piped(message) for message in found)
    return exits.DONE


def _document(message: Message) -> documents.Document:
    return {
        "schema": "ys.message/1",
        "queue": message.queue,
        "idempotency_key": message.idempotency_key,
        "state": message.state,
        "sent_at": documents.moment(message.sent_at),
        "consumed_at": documents.moment(message.consumed_at),
        "expires_at": documents.moment(message.expires_at),
        "value": document.raw(message.value),
    }


def _piped(message: Message) -> str:
    cells = (
        safe.visible(message.queue),
        safe.visible(message.idempotency_key or ""),
        message.state,
        documents.moment(message.sent_at) or "",
        document.dumps(document.raw(message.value)),
    )
    return "\t".join(cells)


def _table(
    call: Call, execution_id: str, queue: str | None, found: list[Message], *, reveal: bool
) -> list[str]:
    look, times = call.look, call.times
    if not found:
        where = "" if queue is None else f", queue {safe.visible(queue)}"
        return [f"No message has been sent to {safe.visible(execution_id)}{where}."]
    rows = [
        (
            safe.visible(message.queue),
            _state(message, times),
            times.ago(message.sent_at),
            safe.visible(message.idempotency_key or ""),
        )
        for message in found
    ]
    taken = sum(max(safe.cells(row[c]) for row in (_HEADINGS, *rows)) for c in range(4))
    room = max(1, look.width - 1 - 2 * len(_HEADINGS) - taken)
    shown = (
        values.pairs(message.value, room, reveal=reveal, ellipsis=look.g("…")) for message in found
    )
    return columns(
        _HEADINGS,
        [(*row, value) for row, value in zip(rows, shown, strict=True)],
        look,
        shrink=(4, 3, 0),
    )


def _state(message: Message, times: Times) -> str:
    """What became of it; of a buffered one also how long it is kept."""
    if message.state == "buffered" and message.expires_at is not None:
        return f"buffered, expires {times.ahead(message.expires_at)}"
    return message.state
