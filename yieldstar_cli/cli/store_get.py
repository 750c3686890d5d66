"""`ys store get`: the state of a store, as it is now."""

from __future__ import annotations

import typer

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.arguments import call_of
from yieldstar_cli.cli.opened import open_reading, project_of
from yieldstar_cli.cli.showing import print_value
from yieldstar_cli.cli.store_telling import shown, store_document
from yieldstar_cli.cli.store_words import Reveal, StoreId, StoreWords, find_store, read_words

EXAMPLES = ("ys store get Stock widget", "ys store get Stock widget --json")
EXITS = (exits.DONE, exits.NOT_FOUND, exits.DATABASE)


def command(
    context: typer.Context,
    words: StoreWords = None,
    literal: StoreId = None,
    reveal: Reveal = False,
) -> int:
    """Print the state of a store.

    As JSON: indented and with secrets masked for people, exact in a pipe. With --json also its
    version and instance, and when it was written. Loads no module.
    """
    call = call_of(context)
    meant = read_words("get", words, literal)
    project = project_of(call)
    record = find_store(project, open_reading(call, project), meant, "get")
    if call.settings.json:
        call.print_document(store_document(record))
        return exits.DONE
    print_value(call, record.state, reveal=reveal)
    call.flush()
    when = call.times.ago(record.updated_at)
    call.hint(f"{shown(record)}, version {record.version}, written {when}.")
    return exits.DONE
