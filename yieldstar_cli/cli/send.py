"""`ys send`: sends a message to a queue of an execution, which may not exist yet."""

from __future__ import annotations

from typing import Annotated

import typer

from yieldstar_cli.cli import exits, identify
from yieldstar_cli.cli.arguments import LiteralIds, call_of, read_span
from yieldstar_cli.cli.opened import open_writing, project_of
from yieldstar_cli.cli.sending import hint_texts, read_message, send, takes_stdin, tell_sent
from yieldstar_cli.errors import UsageError

EXAMPLES = (
    "ys send order-42 cancel reason='no longer wanted'",
    "ys send refund-7 decision ok:=true by=ann",
)
EXITS = (
    exits.DONE,
    exits.NOT_FOUND,
    exits.BAD_VALUE,
    exits.REFUSED,
    exits.DATABASE,
    exits.UNKNOWN_COMMIT,
)


def command(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            help="Execution (an ID, @last, or - for stdin), queue, and the value's fields: "
            "k=text, k:=JSON, k=@file.",
            metavar="ID QUEUE [K=V]...",
            show_default=False,
        ),
    ] = None,
    literals: LiteralIds = None,
    data: Annotated[
        str | None,
        typer.Option("--data", help="The whole value: JSON, @file or -.", metavar="JSON"),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key",
            help="A second message with this key is answered alike and not stored.",
            metavar="KEY",
        ),
    ] = None,
    ttl: Annotated[
        str | None,
        typer.Option(
            "--ttl", help="How long it waits for an execution not yet there.", metavar="D"
        ),
    ] = None,
) -> int:
    """Send a message to a queue of an execution.

    Prints delivered where the execution exists, whether or not it waits there, and buffered where
    it does not exist yet: the message then waits for it until --ttl has passed (ys.toml:
    message_ttl, else a day). To one that has ended nothing is sent (exit 6).

    Without fields the value is an empty object.
    """
    call = call_of(context)
    given = list(words or [])
    first = [] if literals else given[:1]
    queue, *fields = given[len(first) :] or [""]
    if not queue or "=" in queue:
        raise UsageError("which execution, and which queue? ys send ID QUEUE [K=V]...")
    if identify.STDIN in first and takes_stdin(fields, data):
        raise UsageError("IDs or --data from stdin, not both")
    kept = read_span("--ttl", ttl)
    if kept == 0:
        raise UsageError("--ttl: must be longer than nothing", remedy=("ys help times",))
    project = project_of(call)
    settings = project.settings
    text = read_message(fields, data, settings.max_value)
    targets = identify.words_of(first, literals or [])
    storage = open_writing(call, project)
    sent = send(
        call,
        project,
        storage,
        targets,
        queue,
        text,
        ttl_ms=settings.message_ttl_ms if kept is None else kept,
        idempotency_key=idempotency_key,
    )
    status = tell_sent(call, project, storage, sent, single=len(targets) == 1)
    hint_texts(call, fields)
    return status
