"""What one output stream can show: terminal or pipe, colour, glyphs, width."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TextIO

from yieldstar_cli.cli.render import safe
from yieldstar_cli.nouns import dataclass

# Our glyphs and what stands for them where only ASCII can be shown. Single-width, all of them.
_ASCII = {
    "○": "o",
    "▶": ">",
    "⏸": "=",
    "✓": "+",
    "✗": "x",
    "⊘": "-",
    "↻": "~",
    "→": "->",
    "·": "-",
    "…": "...",
    "━": "=",
    "┄": ".",
    "█": "#",
    "▏": "|",
    "▕": "|",
    "─": "-",
    "│": "|",
    "├": "|",
    "└": "`",
    "×": "x",
    "❱": ">",
}

STATUS_GLYPHS = {
    "admitted": "○",
    "suspended": "⏸",
    "completed": "✓",
    "failed": "✗",
    "cancelled": "⊘",
}

STATE_GLYPHS = {
    "running": "▶",
    "waiting": "⏸",
    "retrying": "↻",
    "completed": "✓",
    "failed": "✗",
    "cancelled": "⊘",
}

# Never the only sign: words and glyphs say the same (SGR codes).
_STYLES = {
    "good": "32",
    "bad": "31",
    "busy": "36",
    "wait": "33",
    "dim": "2",
    "strong": "1",
}

_STYLE_OF = {
    "admitted": "wait",
    "suspended": "wait",
    "waiting": "wait",
    "retrying": "wait",
    "running": "busy",
    "completed": "good",
    "failed": "bad",
    "cancelled": "dim",
}


def style_of(state: str) -> str:
    """The style in which a status or state word is painted."""
    return _STYLE_OF.get(state, "strong")


def wants_colour(option: str, env: Mapping[str, str], terminal: bool) -> bool:
    """Whether to colour, the first of these that says anything.

    `--color always|never`; NO_COLOR (any non-empty value); YS_COLOR always|never;
    FORCE_COLOR or CLICOLOR_FORCE (any non-empty value but 0); TERM=dumb; a terminal or not.
    """
    if option in ("always", "never"):
        return option == "always"
    if env.get("NO_COLOR"):
        return False
    if env.get("YS_COLOR") in ("always", "never"):
        return env["YS_COLOR"] == "always"
    if any(env.get(name, "") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return env.get("TERM") != "dumb" and terminal


def wants_ascii(encoding: str | None, env: Mapping[str, str]) -> bool:
    """Whether glyphs must be ASCII: YS_ASCII=1, or a stream that does not speak UTF-8."""
    if env.get("YS_ASCII", "") not in ("", "0"):
        return True
    return (encoding or "ascii").lower().replace("-", "").replace("_", "") != "utf8"


@dataclass(frozen=True, slots=True)
class Look:
    """How to draw on one stream."""

    terminal: bool
    colour: bool
    ascii: bool
    width: int

    @classmethod
    def of(cls, stream: TextIO, option: str, env: Mapping[str, str]) -> Look:
        """The look of `stream` under this environment and `--color` option."""
        terminal = stream.isatty()
        return cls(
            terminal=terminal,
            colour=wants_colour(option, env, terminal),
            ascii=wants_ascii(stream.encoding, env),
            width=_width(stream, env),
        )

    def g(self, glyphs: str) -> str:
        """`glyphs`, or what stands for them in ASCII."""
        if not self.ascii:
            return glyphs
        return "".join(_ASCII.get(glyph, glyph) for glyph in glyphs)

    def paint(self, style: str, text: str) -> str:
        """`text` in a named style; as it is where there is no colour."""
        if not self.colour or not text.strip():
            return text
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"

    def clip(self, text: str, width: int) -> str:
        """`text` cut to `width` columns."""
        return safe.clip(text, width, self.g("…"))

    def status(self, word: str) -> str:
        """A status with its glyph, painted."""
        glyph = self.g(STATUS_GLYPHS.get(word, "·"))
        return self.paint(style_of(word), f"{glyph} {word}")


def _width(stream: TextIO, env: Mapping[str, str]) -> int:
    columns = env.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns[:5]) > 0:
        return max(20, int(columns[:5]))
    try:
        return max(20, os.get_terminal_size(stream.fileno()).columns)
    except (OSError, ValueError):
        return 80


def prepare(stream: TextIO) -> None:
    """Make `stream` write a visible replacement for what its encoding cannot hold."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
