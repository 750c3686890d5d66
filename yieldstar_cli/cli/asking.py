"""Asks a person before much is changed; where nobody can be asked, `--yes` must have been given."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from yieldstar_cli.cli.call import Call
from yieldstar_cli.errors import UsageError

Yes = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")]


def agreed(call: Call, question: str, *, yes: bool, tries: bool = True) -> bool:
    """Whether a person says yes to `question`; `yes` answers it beforehand.

    `tries`: the verb has a `--dry-run`. Raises UsageError without a terminal.
    """
    if yes:
        return True
    if not (sys.stdin.isatty() and call.err.isatty()):
        raise UsageError(
            f"{question} Say so with --yes",
            why=("Without a terminal nobody can be asked. Nothing was changed.",),
            remedy=(
                "the same line with --yes",
                *(("with --dry-run it shows what it would do",) if tries else ()),
            ),
        )
    call.flush()
    call.err.write(f"{question} [y/N] ")
    call.err.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    call.say("Nothing was changed.")
    return False
