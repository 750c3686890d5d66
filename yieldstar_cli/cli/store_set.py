"""`ys store set`: writes the whole state of a store."""

from __future__ import annotations

from typing import Annotated

import typer

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.arguments import Workflows, call_of
from yieldstar_cli.cli.opened import open_writing, project_of
from yieldstar_cli.cli.store_telling import tell_written
from yieldstar_cli.cli.store_words import IfVersion, StoreFields, StoreId, read_fields
from yieldstar_cli.cli.store_writing import set_store
from yieldstar_cli.errors import UsageError

EXAMPLES = (
    "ys store set Stock widget left=10",
    "ys store set Stock widget --data @stock.json --if-version 3",
)
EXITS = (
    exits.DONE,
    exits.CONFLICT,
    exits.NOT_FOUND,
    exits.BAD_VALUE,
    exits.DATABASE,
    exits.UNKNOWN_COMMIT,
)


def command(
    context: typer.Context,
    words: StoreFields = None,
    literal: StoreId = None,
    data: Annotated[
        str | None,
        typer.Option("--data", help="The whole state: JSON, @file or -.", metavar="JSON"),
    ] = None,
    if_version: IfVersion = None,
    workflows: Workflows = None,
) -> int:
    """Write the whole state of a store.

    It is created where it is not there. Fields not given take the defaults of the type, which is
    the one of that name in a workflow module: the modules are loaded to find and check it.
    """
    call = call_of(context)
    meant = read_fields("set", words, literal)
    if not meant.fields and data is None:
        raise UsageError(
            "which state? ys store set NAME [ID] K=V..., or --data JSON",
            why=("With --data '{}' every field takes its default.",),
            remedy=("ys help params",),
        )
    project = project_of(call, workflows=workflows)
    storage = open_writing(call, project)
    record = set_store(call, project, storage, meant, data=data, if_version=if_version)
    tell_written(call, record)
    return exits.DONE
