"""Writes the help pages: that of `ys` alone, of all verbs in groups, and of each verb."""

from __future__ import annotations

import inspect
import re
from typing import Any

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.verbs import ACTIONS, GROUPS, VERBS
from yieldstar_cli.nouns import dataclass

_GLOBAL = "--db --json -q -v -C --trust-dir --color --times --debug -h --version"
# "  [x>=1]", "; x>=1": how the parser writes a least number.
_RANGE = re.compile(r"  \[x>=\d+\]|; x>=\d+")


@dataclass(frozen=True, slots=True)
class Page:
    """What a verb's help page says beside its docstring and options."""

    verb: str
    examples: tuple[str, ...]
    #: Exit statuses this verb gives; usage (2) and database ones (10) are added.
    exits: tuple[int, ...]


def first_lines() -> list[str]:
    """What `ys` alone prints."""
    return [
        "ys runs durable workflows over one SQLite file.",
        "  ys init                          make a project here",
        "  ys trigger hello --id first      admit one execution",
        "  ys worker --until-idle           run what is due",
        "  ys show first                    what happened to it",
        "  ys list                          the latest executions",
        "  ys explain first                 what it waits for",
        "All commands: ys --help. Topics: ys help.",
    ]


def write_root_page(command: Any, context: Any, formatter: Any) -> None:
    """`ys --help`: the verbs in their groups, then the global options."""
    formatter.write("ys init && ys trigger hello --id first -p name=Ann\n")
    formatter.write("ys worker --until-idle && ys show first\n\n")
    formatter.write("Durable workflows from one command and one SQLite file.\n\n")
    formatter.write_usage("ys", "[OPTIONS] COMMAND [WORDS]...")
    for group in GROUPS:
        with formatter.section(group):
            formatter.write_dl([(v.name, v.summary) for v in VERBS if v.group == group])
    with formatter.section("Options, before or after the command"):
        formatter.write_dl(_records(command, context))
    formatter.write("\nMore: ys COMMAND --help, ys help exit-codes, ys help\n")


def write_verb_page(command: Any, page: Page, context: Any, formatter: Any) -> None:
    """`ys VERB --help`: examples, what it does, its words, its exit statuses."""
    _begin(command, page, formatter)
    pieces = (piece.strip("{}") for piece in command.collect_usage_pieces(context))
    formatter.write_usage(f"ys {page.verb}", " ".join(pieces))
    with formatter.section("Words and options"):
        formatter.write_dl(_records(command, context))
    _end(page, formatter)


def write_actions_page(command: Any, page: Page, formatter: Any) -> None:
    """`ys VERB --help` of a verb with actions: each in a line."""
    _begin(command, page, formatter)
    formatter.write_usage(f"ys {page.verb}", "ACTION [OPTIONS] [WORDS]...")
    with formatter.section("Actions"):
        formatter.write_dl([(action.name, action.summary) for action in ACTIONS[page.verb]])
    formatter.write(f"\nMore: ys {page.verb} ACTION --help\n")
    _end(page, formatter)


def _begin(command: Any, page: Page, formatter: Any) -> None:
    for example in page.examples:
        formatter.write(f"{example}\n")
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    for paragraph in paragraphs:
        formatter.write("\n")
        formatter.write_text(" ".join(paragraph.split()))
    formatter.write("\n")


def _end(page: Page, formatter: Any) -> None:
    formatter.write("\n")
    formatter.write_text(f"Global options (ys --help): {_GLOBAL}")
    with formatter.section("Exit status"):
        codes = sorted({*page.exits, exits.DONE, exits.USAGE})
        formatter.write_dl([(str(code), exits.meaning(code)) for code in codes])


def _records(command: Any, context: Any) -> list[tuple[str, str]]:
    records = (param.get_help_record(context) for param in command.get_params(context))
    return [(words, _RANGE.sub("", text)) for words, text in filter(None, records)]
