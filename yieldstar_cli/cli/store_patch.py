"""`ys store patch`: changes fields of a store's state."""

from __future__ import annotations

import typer

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.arguments import Workflows, call_of
from yieldstar_cli.cli.opened import open_writing, project_of
from yieldstar_cli.cli.store_telling import tell_written
from yieldstar_cli.cli.store_words import IfVersion, StoreFields, StoreId, read_fields
from yieldstar_cli.cli.store_writing import patch_store
from yieldstar_cli.errors import UsageError

EXAMPLES = ("ys store patch Stock widget left=10", "ys store patch Flags main beta:=true")
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
    if_version: IfVersion = None,
    workflows: Workflows = None,
) -> int:
    """Change fields of a store's state.

    Fields not given stay as they are, whoever else writes meanwhile. The state is checked as by
    ys store set.
    """
    call = call_of(context)
    meant = read_fields("patch", words, literal)
    if not meant.fields:
        raise UsageError(
            "which fields? ys store patch NAME [ID] K=V...", remedy=("ys help params",)
        )
    project = project_of(call, workflows=workflows)
    storage = open_writing(call, project)
    tell_written(call, patch_store(call, project, storage, meant, if_version=if_version))
    return exits.DONE
