"""Writes JSON documents: valid, ASCII-safe, on one line, recorded values as they are stored."""

from __future__ import annotations

import re
from json.encoder import encode_basestring_ascii
from typing import Any

# Outside ASCII, and DEL, which a terminal would act on.
_UNSAFE = re.compile(r"[^\x20-\x7e]")


class Raw(str):
    """JSON text that stands in a document as it is."""

    __slots__ = ()


def raw(json_text: str) -> Raw:
    """A recorded value, to stand in a document exactly as it is stored, tags included."""
    return Raw(json_text)


def dumps(document: object) -> str:
    """`document` as JSON text of printable ASCII characters only, without a line feed."""
    match document:
        case None:
            return "null"
        case Raw():
            return _UNSAFE.sub(_escape, document)
        case str():
            return encode_basestring_ascii(document)
        case bool():
            return "true" if document else "false"
        case int():
            return int.__repr__(document)
        case dict():
            return f"{{{','.join(f'{_name(name)}:{dumps(of)}' for name, of in document.items())}}}"
        case list() | tuple():
            return f"[{','.join(map(dumps, document))}]"
        case _:
            return _of_other(document)


def _name(name: Any) -> str:
    return encode_basestring_ascii(name) if isinstance(name, str) else f'"{_of_other(name)}"'


def _of_other(document: object) -> str:
    import msgspec  # Of a kind that the documents of the hot commands do not hold.

    return _UNSAFE.sub(_escape, msgspec.json.encode(document).decode())


def _escape(match: re.Match[str]) -> str:
    # Such characters can only stand inside strings, where \\u escapes mean the same.
    point = ord(match[0])
    if point < 0x10000:
        return f"\\u{point:04x}"
    point -= 0x10000
    return f"\\u{0xD800 + (point >> 10):04x}\\u{0xDC00 + (point & 0x3FF):04x}"
