"""`ys backup`: copies the database while others write."""

from __future__ import annotations

from typing import Annotated

import typer

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.arguments import call_of
from yieldstar_cli.cli.opened import open_reading, project_of
from yieldstar_cli.cli.pruning import size
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.typed import word

EXAMPLES = ("ys backup monday.db", "ys backup /backup/shop.db --force")
EXITS = (exits.DONE, exits.REFUSED, exits.DATABASE)


def command(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="Where the copy goes.", metavar="FILE")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace FILE if it is there already.")
    ] = False,
) -> int:
    """Copy the database as it is at one moment, while others write.

    The copy is one file, mode 0600, whole and on the disk before it gets its name. Copying the
    files by hand instead may miss what is still in the log.
    """
    call = call_of(context)
    storage = open_reading(call, project_of(call))
    count = storage.upkeep.back_up(file, replace=force)
    if call.settings.json:
        call.print_document({"schema": "ys.backup/1", "file": file, "bytes": count})
    elif call.drawn:
        mark = call.look.paint("good", call.look.g("✓"))
        call.print(f"{mark} Copied to {safe.visible(file)}, {size(count)}.")
        call.print(safe.visible(f"  Back again:  ys restore {word(file)}"))
    else:
        call.print(f"{safe.visible(file)}\t{count}")
    return exits.DONE
