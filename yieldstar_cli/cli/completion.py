"""`ys completion`: the script that lets a shell complete `ys` lines, printed or put in place."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from yieldstar_cli.cli import exits, shells
from yieldstar_cli.cli.arguments import call_of
from yieldstar_cli.cli.render import safe
from yieldstar_cli.errors import FileInTheWay, UsageError

EXAMPLES = ("ys completion bash --install", "ys completion fish | source")
EXITS = (exits.DONE, exits.REFUSED)


def command(
    context: typer.Context,
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish.", metavar="SHELL")],
    install: Annotated[
        bool, typer.Option("--install", help="Put the script where the shell looks for it.")
    ] = False,
) -> int:
    """Print the script that lets your shell complete ys lines.

    Verbs and options, and from the project's database workflows, execution IDs, queues and
    stores. With --install the script is written for this user; nothing else is changed.
    """
    call = call_of(context)
    script = shells.SCRIPTS.get(shell)
    if script is None:
        raise UsageError(f"ys completion is for {', '.join(shells.SCRIPTS)}, not {shell!r}")
    if not install:
        call.write(script)
        return exits.DONE
    place = shells.place_of(shell, os.environ)
    if place is None:
        raise UsageError("no home directory is known: HOME is not set")
    _write(place, script)
    call.print(f"Made {safe.visible(place)}.")
    call.say(shells.AFTERWARDS[shell])
    return exits.DONE


def _write(place: str, script: str) -> None:
    """Write the script; a file there that is not ours stays."""
    try:
        os.makedirs(os.path.dirname(place), mode=0o755, exist_ok=True)
        if os.path.lexists(place) and not shells.is_ours(place):
            raise FileInTheWay(
                f"{place} is in the way: it is not a script of ys",
                why=("Nothing was changed.",),
            )
        with open(place, "w", encoding="utf-8") as file:
            file.write(script)
    except OSError as error:
        raise FileInTheWay(f"{place} cannot be written: {error.strerror}") from None
