"""Reads values that a call gives: `k=v`, `k:=JSON`, `k=@file`, whole ones as JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from yieldstar_cli.errors import InvalidParams, UsageError

if TYPE_CHECKING:
    from yieldstar_cli.params_plain import Pair

_HELP = ("ys help params",)


def read_pairs(option: str, words: Sequence[str], limit: int) -> list[Pair]:
    """The `-p` options and their like: `a.b=text`, `a.b:=JSON`, and `@file` for the text of either.

    `limit` is the most bytes of a file. Raises UsageError, InvalidParams.
    """
    from yieldstar_cli.params_plain import Pair

    pairs = []
    for word in words:
        path, sign, text = word.partition("=")
        is_json = path.endswith(":")
        path = path.removesuffix(":")
        if not sign or not path:
            raise UsageError(f"{option} takes NAME=VALUE, such as order=42", remedy=_HELP)
        if text.startswith("@"):
            text = read_file(text[1:], limit, place=f"{option} {path}")
        pairs.append(Pair(path, text, is_json))
    return pairs


def read_object(text: str | None, limit: int) -> Any:
    """The object of `--params JSON|@file|-`; None where none was given. Raises InvalidParams."""
    if text is None:
        return None
    value = read_json("--params", text, limit, place="params")
    if not isinstance(value, dict):
        raise InvalidParams(
            f"params: --params takes a JSON object, not {_kind(value)}",
            why=("Nothing was stored.",),
            remedy=_HELP,
        )
    return value


def read_json(option: str, text: str, limit: int, *, place: str = "value") -> Any:
    """The value of an option that takes JSON, `@file` or `-`. Raises UsageError, InvalidParams."""
    if text == "-":
        text = read_file("-", limit, place=option)
    elif text.startswith("@"):
        text = read_file(text[1:], limit, place=option)
    from yieldstar_cli.strict_json import JsonError, parse_json

    try:
        return parse_json(text, place)
    except JsonError as error:
        raise InvalidParams(str(error), why=("Nothing was stored.",), remedy=_HELP) from None


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "a bool", str: "a string", list: "a list"}
    return names.get(type(value), "a number")


def read_file(path: str, limit: int, *, place: str) -> str:
    """The UTF-8 text of a file, or of stdin for `-`, of at most `limit` bytes."""
    try:
        if path == "-":
            raw = sys.stdin.buffer.read(limit + 1)
        else:
            with open(path, "rb") as file:
                raw = file.read(limit + 1)
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else error
        raise UsageError(f"{place}: cannot read {path!r}: {reason}") from None
    if len(raw) > limit:
        raise InvalidParams(
            f"{place}: {path!r} holds more than {limit:,} bytes",
            why=("A value this large is not stored.",),
            remedy=("Store it beside, and pass its path.",),
        )
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidParams(f"{place}: {path!r} is not UTF-8 text: {error}") from None
