"""Shows recorded values to people: `k=v` pairs, secrets masked, long ones cut with their size."""

from __future__ import annotations

import json
from typing import Any

from yieldstar_cli.cli.render import safe

MASK = "****"
_SECRET = ("password", "passwd", "token", "secret", "authorization", "apikey", "credential")
_MARK = "$ys"
_TAGGED_LISTS = ("list", "tuple", "set", "frozenset")
# A value longer than this many characters is cut before it is looked at closely.
_LONGEST = 100_000


def is_secret(key: str) -> bool:
    """Whether a key looks as if its value were secret: api_key, Authorization, dbPassword …"""
    letters = "".join(char for char in key.lower() if char.isalnum())
    return any(word in letters for word in _SECRET)


def pairs(
    json_text: str, width: int, *, reveal: bool, ellipsis: str = "…", between: str = "  "
) -> str:
    """A recorded value on one line of `width` columns: an object as `k=v k=v`, others as JSON."""
    if len(json_text) > _LONGEST:
        return _elsewhere(json_text)
    try:
        text = _one_line(_shown(_load(json_text), reveal), between)
    except RecursionError:
        return _elsewhere(json_text)
    if safe.cells(text) <= width:
        return text
    size = f" ({_size(json_text)})"
    return safe.clip(text, max(1, width - len(size)), ellipsis) + size


def full(json_text: str, *, reveal: bool) -> str:
    """A recorded value in full, as JSON with two-space indents, for people."""
    try:
        return json.dumps(_shown(_load(json_text), reveal), indent=2, ensure_ascii=False)
    except RecursionError:
        return _elsewhere(json_text)


def masked(value: Any) -> Any:
    """`value`, parsed from JSON, with what looks secret masked, at any depth it can be read at."""
    try:
        return _masked(value)
    except RecursionError:
        return MASK


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: MASK if is_secret(k) else _masked(part) for k, part in value.items()}
    if isinstance(value, list):
        return [_masked(part) for part in value]
    return value


def _one_line(value: Any, between: str) -> str:
    if isinstance(value, dict):
        return between.join(f"{safe.visible(key)}={_word(part)}" for key, part in value.items())
    return _word(value)


def _elsewhere(json_text: str) -> str:
    """Words for a value too large or too deep to be looked at here."""
    return f"{_size(json_text)} of JSON; ys show ID --json has all of it"


def _load(json_text: str) -> Any:
    try:
        return json.loads(json_text)
    except ValueError:
        return json_text


def _shown(value: Any, reveal: bool) -> Any:
    """`value` with secrets masked, a tagged value as what a person would write for it."""
    if isinstance(value, dict):
        hidden = () if reveal else tuple(filter(is_secret, value))
        return {k: MASK if k in hidden else _shown(part, reveal) for k, part in value.items()}
    if isinstance(value, list):
        if value[:1] == [_MARK] and len(value) > 2 and value[1] not in _TAGGED_LISTS:
            return _untagged(value)
        inner = value[2:] if value[:1] == [_MARK] else value
        return [_shown(part, reveal) for part in inner]
    return value


def _untagged(value: list[Any]) -> Any:
    tag, text = value[1], value[2]
    try:
        if tag == "int" and isinstance(text, str) and len(text) < 1000:
            return int(text, 16)
        if tag == "timedelta" and all(isinstance(part, int) for part in value[2:5]):
            from datetime import timedelta

            return str(timedelta(*value[2:5]))
    except (ValueError, OverflowError):
        pass  # Not what we write under this tag: shown as it stands there.
    return text


def _word(value: Any) -> str:
    """A value as one word: text as it is where that cannot be mistaken, else JSON."""
    if isinstance(value, str) and value and not set(value) & set(" \"'{}[]"):
        return safe.visible(value)
    return safe.visible(json.dumps(value, ensure_ascii=False, separators=(", ", ": ")))


def _size(text: str) -> str:
    size = len(text.encode())
    if size < 1000:
        return f"{size} B"
    return f"{size / 1000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"
