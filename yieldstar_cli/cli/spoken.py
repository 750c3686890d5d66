"""Reads what the words of a call say: which call it is, its spans and its moments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yieldstar_cli import clock
from yieldstar_cli.cli.call import Call
from yieldstar_cli.errors import UsageError

if TYPE_CHECKING:
    import typer


def call_of(context: typer.Context) -> Call:
    """This call."""
    call = context.find_root().obj
    assert isinstance(call, Call)
    return call


def read_span(option: str, text: str | None) -> int | None:
    """Milliseconds of a span such as 10m, not negative; None where none was given."""
    if text is None:
        return None
    try:
        span = clock.span_ms(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}", remedy=("ys help times",)) from None
    if span < 0:
        raise UsageError(f"{option}: must not be negative: {text!r}", remedy=("ys help times",))
    return span


def read_moment(option: str, text: str | None, now_ms: int) -> int | None:
    """UTC milliseconds of a moment such as 09:30; None where none was given."""
    if text is None:
        return None
    try:
        return clock.read_moment(text, now_ms)
    except ValueError as error:
        raise UsageError(f"{option}: {error}", remedy=("ys help times",)) from None
