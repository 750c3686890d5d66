"""Checks an event before it is admitted: its ID, names, params and context (spec E2, E4, R1)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from yieldstar_cli.clock import moment_ms
from yieldstar_cli.errors import InvalidExecutionEvent, UnserializableValue
from yieldstar_cli.json_text import Json

WORKFLOW_ID = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,99}")
LONGEST_ID_BYTES = 255
LAST_VERSION = 2**31 - 1


def checked_id(execution_id: object, place: str = "execution_id") -> str:
    """`execution_id` exactly as given. Raises InvalidExecutionEvent. Source: spec E2."""
    if not isinstance(execution_id, str):
        raise _invalid(place, f"must be text, not {type(execution_id).__name__}")
    try:
        size = len(execution_id.encode("utf-8"))
    except UnicodeEncodeError:
        raise _invalid(place, "is not valid text: it holds a lone surrogate") from None
    if size == 0:
        raise _invalid(place, "is empty")
    if size > LONGEST_ID_BYTES:
        raise _invalid(place, f"has {size} bytes; the most is {LONGEST_ID_BYTES}")
    if not execution_id.isprintable():
        raise _invalid(place, f"holds a character that is not printable: {execution_id!a}")
    if execution_id != execution_id.strip():
        raise _invalid(place, f"begins or ends with a space: {execution_id!a}")
    return execution_id


def checked_workflow(workflow_id: object) -> str:
    """`workflow_id` as given. Raises InvalidExecutionEvent. Source: spec R1."""
    if not isinstance(workflow_id, str) or not WORKFLOW_ID.fullmatch(workflow_id):
        raise _invalid(
            "workflow_id",
            f"must be letters, digits and dashes, 1 to 100 of them, not {_short(workflow_id)}",
        )
    return workflow_id


def checked_version(version: object) -> int:
    """`version` as given. Raises InvalidExecutionEvent."""
    if isinstance(version, bool) or not isinstance(version, int):
        raise _invalid("version", f"must be a whole number, not {_short(version)}")
    if not 1 <= version <= LAST_VERSION:
        raise _invalid("version", f"must be 1 or more, not {_short(version)}")
    return version


def checked_moment(at: int) -> int:
    """`at` in milliseconds. Raises InvalidExecutionEvent."""
    try:
        return moment_ms(at)
    except ValueError as error:
        raise _invalid("at", str(error)) from None


def encoded_params(params: object, limit: int) -> str:
    """`params` as the text that is stored. Raises InvalidExecutionEvent. Source: spec E4."""
    return _encoded(params, "params", limit)


def encoded_context(context: object, limit: int) -> str:
    """`context` as the text that is stored. Raises InvalidExecutionEvent. Source: spec E4."""
    if context is None or (type(context) is dict and not context):
        return "{}"
    if isinstance(context, Json):
        return _encoded(context, "context", limit)
    if not isinstance(context, Mapping):
        raise _invalid("context", f"must map names to values, not be {type(context).__name__}")
    for name in context:
        if not isinstance(name, str):
            raise _invalid("context", f"names must be text, not {_short(name)}")
    return _encoded(dict(context), "context", limit)


def _encoded(value: object, place: str, limit: int) -> str:
    if isinstance(value, Json):
        return _ready(value, place, limit)
    from yieldstar_cli import codec

    try:
        return codec.encode(value, place=place, limit=limit)
    except UnserializableValue as error:
        raise _invalid(error.place, error.reason) from error


def _ready(text: str, place: str, limit: int) -> str:
    """Text that the codec has made before; whether it fits is still ours to say."""
    try:
        size = len(text) if text.isascii() else len(text.encode("utf-8"))
    except UnicodeEncodeError:
        raise _invalid(place, "is not valid text: it holds a lone surrogate") from None
    if size > limit:
        raise _invalid(place, f"has {size} bytes; the most is {limit}")
    return str(text)


def _short(value: object) -> str:
    return ascii(value)[:80] if isinstance(value, str | int | float) else type(value).__name__


def _invalid(place: str, reason: str) -> InvalidExecutionEvent:
    return InvalidExecutionEvent(place, reason)
