"""Redraws a few lines in place on a terminal; the last picture stays in the scrollback."""

from __future__ import annotations

import os
from typing import TextIO

from yieldstar_cli.cli.render.terminal import Look

_ERASE_BELOW = "\x1b[J"
# A line that wrapped would make the way back wrong.
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"


class Canvas:
    """The lines last drawn, which the next drawing replaces."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn: list[str] = []

    def draw(self, lines: list[str], look: Look) -> None:
        """Put `lines` where the last ones stood; a dumb terminal gets them below."""
        if lines == self._drawn:
            return
        height = _height(self._stream)
        if len(lines) > height - 1:
            hidden = len(lines) - height + 2
            lines = [*lines[: height - 2], look.g("…") + f" {hidden} more lines"]
        back = f"\r\x1b[{len(self._drawn)}A" if self._drawn else ""
        if os.environ.get("TERM") == "dumb":
            self._stream.write("".join(f"{line}\n" for line in lines))
        else:
            text = "".join(f"{line}\n" for line in lines)
            self._stream.write(back + _ERASE_BELOW + _NO_WRAP + text + _WRAP)
        self._stream.flush()
        self._drawn = lines


def _height(stream: TextIO) -> int:
    try:
        return max(3, os.get_terminal_size(stream.fileno()).lines)
    except (OSError, ValueError):
        return 24
