"""The global options, as typer options that work before and after the verb."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperOption

from yieldstar_cli.cli.call import Call
from yieldstar_cli.errors import UsageError

CHOICES = {"color": ("auto", "always", "never"), "times": ("relative", "local", "utc")}


def global_options(*, hidden: bool) -> list[TyperOption]:
    """Fresh options for one command; `hidden` leaves them out of its help page."""

    def option(*names: str, keep: Callable[..., None] = _keep, **words: Any) -> TyperOption:
        return TyperOption(
            param_decls=list(names), callback=keep, expose_value=False, hidden=hidden, **words
        )

    return [
        option("--db", metavar="PATH", help="Database file. [YS_DB; ys.db of the project]"),
        option("-C", "--directory", metavar="DIR", help="Look for the project from DIR upwards."),
        option(
            "--trust-dir",
            metavar="DIR",
            multiple=True,
            keep=_add,
            help="Accept files here although others may write them. Repeatable.",
        ),
        option("--json", is_flag=True, help="One JSON document on stdout; errors as JSON too."),
        option("-q", "--quiet", is_flag=True, help="Less talk; `list -q` prints IDs only."),
        option("-v", "--verbose", count=True, keep=_count, help="More talk. Repeatable."),
        option("--color", metavar="WHEN", help="auto, always or never. [YS_COLOR]"),
        option("--times", metavar="STYLE", help="relative, local or utc, for people."),
        option("--debug", is_flag=True, help="Show the traceback of an error."),
        option("-h", "--help", is_flag=True, is_eager=True, keep=_help, help="Show this page."),
        option("--version", is_flag=True, is_eager=True, keep=_version, help="Print the version."),
    ]


def _keep(context: typer.Context, param: Any, value: Any) -> None:
    if value in (None, False):
        return
    allowed = CHOICES.get(param.name)
    if allowed is not None and value not in allowed:
        raise UsageError(f"--{param.name} is {', '.join(allowed[:-1])} or {allowed[-1]}")
    setattr(_call(context).settings, param.name, value)


def _add(context: typer.Context, param: Any, value: Any) -> None:
    del param
    settings = _call(context).settings
    settings.trust_dirs = (*settings.trust_dirs, *(value or ()))


def _count(context: typer.Context, param: Any, value: Any) -> None:
    del param
    _call(context).settings.verbose += value or 0


def _help(context: typer.Context, param: Any, value: Any) -> None:
    del param
    if value and not context.resilient_parsing:
        # Not typer's own printing: that switches to UTF-8 where the stream speaks ASCII.
        _call(context).print(context.get_help().rstrip("\n"))
        raise typer.Exit


def _version(context: typer.Context, param: Any, value: Any) -> None:
    del param
    if value:
        from yieldstar_cli import __version__

        _call(context).print(f"ys {__version__}")
        raise typer.Exit


def _call(context: typer.Context) -> Call:
    call = context.find_root().obj
    assert isinstance(call, Call)
    return call
