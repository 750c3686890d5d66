"""JSON that a person typed: strict, so that nothing is silently something else (spec V1)."""

from __future__ import annotations

import re
from typing import Any

#: As `codec.MAX_DEPTH`, which cannot be imported from here.
_MAX_DEPTH = 500


class JsonError(ValueError):
    """The text is not strict JSON; the message is a sentence that says where."""


def parse_json(text: str, place: str = "value") -> Any:
    """The value of `text`: strict JSON, integers of any size exact.

    Raises JsonError for NaN and Infinity, a name given twice in an object, lone surrogates,
    floats too large, a byte order mark, and nesting deeper than 500. Source: spec V1.
    """
    import json

    from yieldstar_cli.codec import roomy

    _check_text(text, place)

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in items:
            if key in found:
                raise JsonError(f"{place}: the name {key!r} stands twice in one object")
            found[key] = item
        return found

    def constant(word: str) -> Any:
        raise JsonError(f"{place}: {word} is not JSON")

    decoder = json.JSONDecoder(
        object_pairs_hook=pairs,
        parse_constant=constant,
        parse_int=_integer,
        parse_float=lambda word: _float(word, place),
    )
    try:
        value = roomy(decoder.decode, text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        instead = _instead(text, error.pos) if error.msg == "Expecting value" else ""
        raise JsonError(f"{place}: not valid JSON at {where}: {error.msg}{instead}") from None
    except RecursionError:
        raise JsonError(f"{place}: nested deeper than {_MAX_DEPTH} levels") from None
    if "\\u" in text:
        _refuse_surrogates(value, place)
    return value


def _instead(text: str, at: int) -> str:
    """What to write for the word that stands where a value is expected."""
    word = re.match(r"[^\W\d]\w*|'", text[at:])
    found = "" if word is None else word.group()
    meant = {"true": "true", "false": "false", "none": "null"}.get(found.lower())
    if meant is not None:
        return f"; JSON writes {meant}"
    return '; text stands in double quotes, "…"' if found else ""


def _check_text(text: str, place: str) -> None:
    if text.startswith("\ufeff"):
        raise JsonError(f"{place}: begins with a byte order mark; save it as UTF-8 without one")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise JsonError(f"{place}: not valid UTF-8 at character {error.start + 1}") from None
    if _depth(text) > _MAX_DEPTH:
        raise JsonError(f"{place}: nested deeper than {_MAX_DEPTH} levels")


_STRING_OR_BRACKET = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]', re.DOTALL)


def _depth(text: str) -> int:
    """The deepest nesting of brackets outside strings."""
    brackets = text.count("[") + text.count("{")
    if brackets <= _MAX_DEPTH:
        return brackets
    depth = deepest = 0
    for found in _STRING_OR_BRACKET.finditer(text):
        sign = found.group()
        if sign in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif sign in "]}":
            depth -= 1
    return deepest


def _integer(word: str) -> int:
    if len(word) < 4000:
        return int(word)
    from decimal import Decimal

    # Python refuses to read more than 4,300 digits at once; Decimal does not.
    return int(Decimal(word))


def _float(word: str, place: str) -> float:
    number = float(word)
    if number in (float("inf"), float("-inf")):
        raise JsonError(f"{place}: {word[:40]} is too large for a float")
    return number


def _refuse_surrogates(value: Any, place: str) -> None:
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            todo += [*item, *item.values()]
        elif isinstance(item, list):
            todo += item
        elif isinstance(item, str) and not item.isascii():
            try:
                item.encode("utf-8")
            except UnicodeEncodeError:
                raise JsonError(
                    f"{place}: a \\u escape is half of a character pair (a lone surrogate)"
                ) from None
