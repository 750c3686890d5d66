"""Prints the version, and help pages that were made beforehand from the typer app."""

from __future__ import annotations

import os
import sys

from yieldstar_cli import __version__

#: The pages are made for this width: typer makes none wider.
_WIDTH = 80
_ROOT = "ys"
_FOLDER = os.path.join(os.path.dirname(__file__), "pages")


def page(words: list[str]) -> str | None:
    """What `--version` or `VERB --help`, and nothing else, print; None for all other words."""
    if words == ["--version"]:
        return f"ys {__version__}\n"
    *names, last = words
    if last not in ("-h", "--help") or not all(map(_is_name, names)) or _columns() < _WIDTH:
        return None
    try:
        with open(os.path.join(_FOLDER, f"{'.'.join(names or [_ROOT])}.txt"), "rb") as file:
            return file.read().decode()
    except OSError:
        return None


def print_page(text: str, words: list[str]) -> int:
    """Print what `page` found and return the exit status."""
    from yieldstar_cli.cli import edge
    from yieldstar_cli.cli.call import Call

    call = Call(argv=tuple(words))

    def write() -> int:
        call.write(text)
        return 0

    return edge.conducted(call, write)


def _is_name(word: str) -> bool:
    """Whether it can be a verb or an action: no path, no option."""
    return word.isascii() and word.isalpha() and word != _ROOT


def _columns() -> int:
    """The width that typer would find."""
    try:
        columns = int(os.environ["COLUMNS"])
    except (KeyError, ValueError):
        columns = 0
    if columns > 0:
        return columns
    try:
        found = os.get_terminal_size(sys.__stdout__.fileno()).columns if sys.__stdout__ else 0
    except (AttributeError, ValueError, OSError):
        found = 0
    return found or _WIDTH
