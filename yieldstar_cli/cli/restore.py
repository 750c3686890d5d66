"""`ys restore`: puts a backup in the place of the database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.arguments import call_of
from yieldstar_cli.cli.asking import Yes, agreed
from yieldstar_cli.cli.opened import project_of, trust_of
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.steering import told_if_unknown
from yieldstar_cli.errors import NoDatabase

EXAMPLES = ("ys restore monday.db", "ys restore /backup/shop.db --yes")
EXITS = (exits.DONE, exits.REFUSED, exits.DATABASE, exits.UNKNOWN_COMMIT)


def command(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="A file that ys backup made.", metavar="FILE")],
    yes: Yes = False,
) -> int:
    """Put a backup in the place of the database.

    Everything is as it was at the moment of the backup: steps that were recorded after it run
    again. The database before it is kept beside it. Refused while workers live. Asks first;
    without a terminal --yes is needed.
    """
    call = call_of(context)
    project = project_of(call)
    trust = trust_of(call)
    trust.check_database(project.db)
    if os.path.exists(file):
        trust.check_database(Path(file))
    if not os.path.exists(project.db) and not project.may_create:
        raise NoDatabase(
            f"there is no project here and no database at {project.db}",
            why=("Nothing was created.",),
            remedy=("ys init", "--db PATH"),
        )
    question = safe.visible(
        f"Replace {project.db} with {file}? Steps recorded since then run again."
    )
    if not agreed(call, question, yes=yes, tries=False):
        return exits.DONE
    from yieldstar_cli.restoring import restore

    with told_if_unknown("the backup was restored", "ys list"):
        done = restore(str(project.db), file, call.clock)
    if call.settings.json:
        call.print_document(
            {
                "schema": "ys.restored/1",
                "executions": done.executions,
                "open": done.unfinished,
                "returned": done.returned,
                "kept": done.kept,
            }
        )
    elif call.drawn:
        mark = call.look.paint("good", call.look.g("✓"))
        count = f"{done.executions:,} execution{'s' * (done.executions != 1)}"
        call.print(f"{mark} Restored {count}, {done.unfinished:,} of them open.")
        if done.kept is not None:
            call.print(safe.visible(f"  What was there before: {done.kept}"))
    else:
        call.print(f"{done.executions}\t{done.unfinished}\t{safe.visible(done.kept or '')}")
    return exits.DONE
