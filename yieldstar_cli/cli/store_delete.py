"""`ys store delete`: deletes a store, after asking."""

from __future__ import annotations

import typer

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.arguments import call_of
from yieldstar_cli.cli.asking import Yes, agreed
from yieldstar_cli.cli.opened import open_writing, project_of
from yieldstar_cli.cli.store_telling import shown, tell_deleted
from yieldstar_cli.cli.store_words import (
    IfVersion,
    StoreId,
    StoreWords,
    find_store,
    read_words,
    unknown_store,
)
from yieldstar_cli.cli.store_writing import delete_store

EXAMPLES = ("ys store delete Stock widget", "ys store delete Stock widget --yes --if-version 3")
EXITS = (
    exits.DONE,
    exits.CONFLICT,
    exits.NOT_FOUND,
    exits.DATABASE,
    exits.UNKNOWN_COMMIT,
)


def command(
    context: typer.Context,
    words: StoreWords = None,
    literal: StoreId = None,
    if_version: IfVersion = None,
    yes: Yes = False,
) -> int:
    """Delete a store.

    Asks first; without a terminal --yes is needed. Executions that wait on it look again.
    """
    call = call_of(context)
    meant = read_words("delete", words, literal)
    project = project_of(call)
    storage = open_writing(call, project)
    record = find_store(project, storage, meant, "delete")
    question = f"Delete {shown(record)}, version {record.version}?"
    if not agreed(call, question, yes=yes, tries=False):
        return exits.DONE
    if if_version is None and not yes:
        # What a person was asked about, and nothing that came after it.
        if_version = record.version
    if not delete_store(project, storage, record, if_version=if_version):
        raise unknown_store(project, storage, meant)
    tell_deleted(call, record)
    return exits.DONE
