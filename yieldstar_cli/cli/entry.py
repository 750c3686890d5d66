"""Where `ys` begins."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from yieldstar_cli.cli.quick import served


def main(argv: Sequence[str] | None = None) -> int:
    """Run `ys` with `argv` (default: the process's words) and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_closed_streams()
    try:
        short = served(words)
        status = _flushed(_by_typer(words) if short is None else short)
    except KeyboardInterrupt:
        return 130
    if argv is None and short is not None:
        # All is said and closed. To take the modules apart would cost as much as half of the work.
        os._exit(status)
    return status


def _by_typer(words: list[str]) -> int:
    from yieldstar_cli.cli.app import run

    return run(words)


def _open_closed_streams() -> None:
    """Where the caller closed a stream (`ys list >&-`), let what goes there go nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _flushed(status: int) -> int:
    """`status`, once everything printed has left; a reader that went away is no failure."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            from yieldstar_cli.cli.edge import silence

            silence(stream)
    return status
