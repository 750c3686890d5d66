"""`ys store list`: the stores of the database."""

from __future__ import annotations

from typing import Annotated

import typer

from yieldstar_cli.cli import documents, exits
from yieldstar_cli.cli.arguments import call_of
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.opened import open_reading, project_of
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.store_telling import store_document
from yieldstar_cli.model import StoreRecord

EXAMPLES = ("ys store list", "ys store list Stock --json")
EXITS = (exits.DONE, exits.DATABASE)

_HEADINGS = ("store", "id", "version", "written")


def command(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(help="Only those of this name.", metavar="[NAME]")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("-n", "--limit", help="The first N of them.", metavar="N", min=1)
    ] = None,
) -> int:
    """List the stores, or those of one name.

    In the order of name and ID. In a pipe: name, ID, version and updated_at by TAB; with -q name
    and ID only. With --json the states too. Loads no module.
    """
    call = call_of(context)
    project = project_of(call)
    stores = open_reading(call, project).stores
    found = stores.find(name=name, limit=limit, states=call.settings.json)
    if call.settings.json:
        call.print_document([store_document(record) for record in found])
    elif call.settings.quiet:
        call.print_lines("\t".join(_named(record)) for record in found)
    elif not call.drawn:
        call.print_lines("\t".join(_cells(record)) for record in found)
    else:
        _draw(call, name, found)
    return exits.DONE


def _named(record: StoreRecord) -> tuple[str, str]:
    return safe.visible(record.name), safe.visible(record.store_id)


def _cells(record: StoreRecord) -> tuple[str, ...]:
    moment = documents.moment(record.updated_at) or ""
    return (*_named(record), str(record.version), moment)


def _draw(call: Call, name: str | None, found: list[StoreRecord]) -> None:
    from yieldstar_cli.cli.render.table import columns

    if not found:
        what = "" if name is None else f" called {safe.visible(name)}"
        call.print(f"There is no store{what}.")
        return
    times = call.times
    rows = [
        (*_named(record), str(record.version), times.ago(record.updated_at)) for record in found
    ]
    call.print_lines(columns(_HEADINGS, rows, call.look, shrink=(1, 0)))
