"""`ys store watch`: the state of a store whenever it changes."""

from __future__ import annotations

from typing import Annotated

import typer

from yieldstar_cli.cli import documents, exits
from yieldstar_cli.cli.arguments import call_of
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.following import follow
from yieldstar_cli.cli.opened import open_reading, project_of
from yieldstar_cli.cli.render import document, safe, values
from yieldstar_cli.cli.store_telling import store_document
from yieldstar_cli.cli.store_words import Reveal, StoreId, StoreWords, find_store, read_words
from yieldstar_cli.model import StoreRecord

EXAMPLES = ("ys store watch Stock widget", "ys store watch Stock widget --json -n 2")
EXITS = (exits.DONE, exits.NOT_FOUND, exits.DATABASE, exits.INTERRUPTED)


def command(
    context: typer.Context,
    words: StoreWords = None,
    literal: StoreId = None,
    count: Annotated[
        int | None,
        typer.Option("-n", "--count", help="End after N states.", metavar="N", min=1),
    ] = None,
    reveal: Reveal = False,
) -> int:
    """Print the state of a store whenever it changes.

    First as it is now, then until Ctrl-C; of changes in quick succession the last. In a pipe:
    version, updated_at and state by TAB; with --json a document a line. Where it is deleted,
    version and state are empty, and it goes on.
    """
    call = call_of(context)
    meant = read_words("watch", words, literal)
    project = project_of(call)
    storage = open_reading(call, project)
    first = find_store(project, storage, meant, "watch")
    told = 0
    seen: StoreRecord | None = None

    def look() -> bool | None:
        nonlocal told, seen
        record = storage.stores.get(first.name, first.store_id)
        if not told or record != seen:
            told, seen = told + 1, record
            _print(call, first, record, reveal=reveal)
            call.flush()
        return True if count is not None and told >= count else None

    follow(call, storage, look)
    return exits.DONE


def _print(call: Call, first: StoreRecord, record: StoreRecord | None, *, reveal: bool) -> None:
    if call.settings.json:
        found = store_document(first if record is None else record)
        if record is None:
            gone = ("instance", "version", "created_at", "updated_at", "state")
            found |= dict.fromkeys(gone)
        call.print_document(found)
    elif call.drawn:
        call.print(_drawn(call, record, reveal=reveal))
    elif record is None:
        call.print("\t\t")
    else:
        moment = documents.moment(record.updated_at)
        state = document.dumps(document.raw(record.state))
        call.print(f"{record.version}\t{moment}\t{state}")


def _drawn(call: Call, record: StoreRecord | None, *, reveal: bool) -> str:
    look = call.look
    if record is None:
        return f"{look.g('·')} deleted"
    head = f"{call.times.past(record.updated_at)}  {record.version}  "
    room = max(1, look.width - 1 - safe.cells(head))
    return head + values.pairs(record.state, room, reveal=reveal, ellipsis=look.g("…"))
