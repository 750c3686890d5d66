"""Serves a hot command by the function that typer would have called."""

from __future__ import annotations

from collections.abc import Callable

from yieldstar_cli.cli import edge
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.quick.words import Asked
from yieldstar_cli.clock import Clock, SystemClock


class _Context:
    """What a command asks of typer's context: the call."""

    def __init__(self, call: Call) -> None:
        self.obj = call

    def find_root(self) -> _Context:
        """Itself."""
        return self


def serve(asked: Asked, argv: list[str], *, clock: Clock | None = None) -> int:
    """Do what was asked for and return the exit status; every error has been told by then."""
    call = Call(argv=tuple(argv), clock=clock or SystemClock())
    for name, value in asked.settings.items():
        setattr(call.settings, name, tuple(value) if isinstance(value, list) else value)
    function = _function(asked.verb)
    return edge.conducted(call, lambda: int(function(_Context(call), **asked.values) or 0))


def _function(verb: str) -> Callable[..., int | None]:
    match verb:
        case "show":
            from yieldstar_cli.cli.show import command as show

            return show
        case "list":
            from yieldstar_cli.cli.list import command as list_

            return list_
        case "trigger":
            from yieldstar_cli.cli.trigger import command as trigger

            return trigger
        case "wait":
            from yieldstar_cli.cli.wait import command as wait

            return wait
    raise AssertionError(f"{verb} is in the table, and not here")
