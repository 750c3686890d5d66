"""`ys help`: the page of a command or of a topic."""

from __future__ import annotations

from typing import Annotated

import typer

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.topics import SUMMARIES, TOPICS
from yieldstar_cli.cli.verbs import ACTIONS, NAMES
from yieldstar_cli.cli.words import nearest
from yieldstar_cli.errors import UsageError

EXAMPLES = ("ys help exit-codes", "ys help trigger")
EXITS = (exits.DONE, exits.USAGE)


def command(
    context: typer.Context,
    topic: Annotated[
        str | None, typer.Argument(help="A command or a topic.", metavar="[COMMAND|TOPIC]")
    ] = None,
    action: Annotated[
        str | None, typer.Argument(help="An action of the command.", metavar="[ACTION]")
    ] = None,
) -> None:
    """Show a help page: a command, or a topic such as exit-codes."""
    call: Call = context.find_root().obj
    if topic is None:
        call.print_lines(_overview())
    elif action is not None:
        call.print_lines(_page_of_action(context, topic, action))
    elif topic in TOPICS:
        call.write(TOPICS[topic])
    elif topic in NAMES:
        call.print_lines(_page_of(context, topic))
    else:
        known = (*NAMES, *TOPICS)
        matches = nearest(topic, known)
        hint = f". Did you mean {' or '.join(matches)}?" if matches else ""
        raise UsageError(
            f"there is no help page {topic!r}{hint}",
            remedy=tuple(f"ys help {match}" for match in matches[:1]) or ("ys help",),
        )


def _overview() -> list[str]:
    lines = ["ys help trigger", "ys help exit-codes", "", "Topics:"]
    lines += [f"  {name:<12}{summary}" for name, summary in SUMMARIES.items()]
    return [*lines, "", *safe.wrap(f"Commands: {', '.join(NAMES)}", 80, " " * 10)]


def _page_of_action(context: typer.Context, verb: str, action: str) -> list[str]:
    if action not in [found.name for found in ACTIONS.get(verb, ())]:
        page = (f"ys help {verb}",) if verb in (*NAMES, *TOPICS) else ("ys help",)
        raise UsageError(f"there is no help page {f'{verb} {action}'!r}", remedy=page)
    return _page_of(context, verb, action)


def _page_of(context: typer.Context, verb: str, action: str | None = None) -> list[str]:
    from yieldstar_cli.cli.app import build

    command = build(verb, action)
    root = context.find_root()
    with command.make_context(verb, [], parent=root, resilient_parsing=True) as page:
        return command.get_help(page).split("\n")
