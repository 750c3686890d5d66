"""The arguments and options that several verbs share, as typer's annotations."""

from __future__ import annotations

from typing import Annotated

import typer

from yieldstar_cli.cli.spoken import call_of, read_moment, read_span

__all__ = ["call_of", "read_moment", "read_span"]

ExecutionId = Annotated[
    str | None,
    typer.Argument(help="Execution ID, or @last.", metavar="ID", show_default=False),
]
ExecutionIds = Annotated[
    list[str] | None,
    typer.Argument(
        help="Execution IDs, @last, or - for stdin.", metavar="ID...", show_default=False
    ),
]
LiteralId = Annotated[
    str | None,
    typer.Option("--id", help="An execution ID, taken literally.", metavar="ID"),
]
LiteralIds = Annotated[
    list[str] | None,
    typer.Option("--id", help="An execution ID, taken literally. Repeatable.", metavar="ID"),
]
OfWorkflow = Annotated[
    str | None,
    typer.Option("--workflow", help="All executions of this workflow.", metavar="W"),
]
Everything = Annotated[bool, typer.Option("--all", help="The whole database.")]
Workflows = Annotated[
    str | None,
    typer.Option("--workflows", help="Directory of the workflow modules.", metavar="DIR"),
]
