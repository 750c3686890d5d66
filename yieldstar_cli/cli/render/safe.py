"""Makes text from data harmless and measurable: it is shown, never interpreted (spec K6)."""

from __future__ import annotations

# Shown by their short names, as Python writes them.
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Letters by category that draw nothing, so that two IDs could look alike.
_BLANK_LETTERS = frozenset("\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800")
# Controls, formats (bidi, zero-width, tags), surrogates, private, unassigned, line separators.
_HIDDEN_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_PLAIN_SPACES = frozenset((" ", "\u3000"))
# More marks than this on one letter would climb over the lines above and below.
_MOST_MARKS = 4


def visible(text: str) -> str:
    """`text` as one line in which everything that would not be seen is a visible escape.

    Control characters, bidi controls, zero-width characters, odd spaces, line separators and
    surrogates become `\\x1b`, `\\u202e` and so on. All text that comes from data passes through
    here before it reaches a terminal. Source: spec K6.
    """
    if text.isascii() and text.isprintable():
        return text
    import unicodedata

    pieces = []
    marks = 0
    for char in text:
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        hidden = (
            category in _HIDDEN_CATEGORIES
            or char in _BLANK_LETTERS
            or (category == "Zs" and char not in _PLAIN_SPACES)
            or marks > _MOST_MARKS
        )
        pieces.append(_escaped(char) if hidden else char)
    return "".join(pieces)


def visible_lines(text: str) -> list[str]:
    """`text` split at line feeds, each line made `visible`: for tracebacks and docstrings."""
    return [visible(line.rstrip("\r")) for line in text.split("\n")]


def in_one_line(text: str) -> str:
    """`text` made `visible`, its lines joined by semicolons: for lists and logs."""
    lines = [" ".join(line.split()) for line in visible_lines(text)]
    return "; ".join(line for line in lines if line)


def _escaped(char: str) -> str:
    if char in _NAMED:
        return _NAMED[char]
    point = ord(char)
    if point < 0x100:
        return f"\\x{point:02x}"
    if point < 0x10000:
        return f"\\u{point:04x}"
    return f"\\U{point:08x}"


def cells(text: str) -> int:
    """How many terminal columns `text` takes; it must have passed through `visible`."""
    if text.isascii():
        return len(text)
    return sum(_cells_of(char) for char in text)


def _cells_of(char: str) -> int:
    import unicodedata

    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def clip(text: str, width: int, ellipsis: str = "…") -> str:
    """`text` cut to at most `width` columns, with `ellipsis` where something is missing."""
    if cells(text) <= width:
        return text
    room = width - cells(ellipsis)
    if room < 0:
        return ellipsis[:width]
    kept = []
    used = 0
    for char in text:
        used += _cells_of(char)
        if used > room:
            break
        kept.append(char)
    return "".join(kept) + ellipsis


def clip_middle(text: str, width: int, ellipsis: str = "…") -> str:
    """As `clip`, for names whose ends differ: what is missing is missing before the end."""
    if cells(text) <= width:
        return text
    tail = text[-(width // 3) :] if width >= 3 else ""
    room = width - cells(tail)
    if room <= cells(ellipsis):
        return clip(text, width, ellipsis)
    return clip(text, room, ellipsis) + tail


def wrap_lines(text: str, width: int) -> list[str]:
    """Every line of `text` made `visible` and wrapped; what follows stands as far in as it does."""
    lines = []
    for line in visible_lines(text):
        indent = " " * (len(line) - len(line.lstrip(" ")))
        lines += wrap(line.lstrip(" "), width, indent)
    return lines


def pad(text: str, width: int, *, right: bool = False) -> str:
    """`text` filled with spaces to `width` columns; `right` puts it at the right."""
    fill = " " * max(0, width - cells(text))
    return fill + text if right else text + fill


def wrap(text: str, width: int, indent: str = "", first: str | None = None) -> list[str]:
    """`text` broken at spaces into lines of at most `width` columns.

    Lines begin with `indent`, the first with `first`. A word longer than a line stays whole, so
    that IDs and paths can be copied.
    """
    lines = []
    line = indent if first is None else first
    empty = True
    for word in text.split(" "):
        if not empty and cells(line) + 1 + cells(word) > width:
            lines.append(line)
            line, empty = indent, True
        line = f"{line}{word}" if empty else f"{line} {word}"
        empty = False
    lines.append(line)
    return lines
