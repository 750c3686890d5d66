"""Writes JSON documents: valid, ASCII-safe, on one line, recorded values as they are stored."""

from __future__ import annotations

import re

import msgspec

# Outside ASCII, and DEL, which a terminal would act on.
_UNSAFE = re.compile(r"[^\x20-\x7e]")


def raw(json_text: str) -> msgspec.Raw:
    """A recorded value, to stand in a document exactly as it is stored, tags included."""
    return msgspec.Raw(json_text.encode())


def dumps(document: object) -> str:
    """`document` as JSON text of printable ASCII characters only, without a line feed."""
    return _UNSAFE.sub(_escape, msgspec.json.encode(document).decode())


def _escape(match: re.Match[str]) -> str:
    # Such characters can only stand inside strings, where \\u escapes mean the same.
    point = ord(match[0])
    if point < 0x10000:
        return f"\\u{point:04x}"
    point -= 0x10000
    return f"\\u{0xD800 + (point >> 10):04x}\\u{0xDC00 + (point & 0x3FF):04x}"
