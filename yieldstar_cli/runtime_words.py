"""What a program says to other executions, as storage takes it: values, spans, who asks."""

from __future__ import annotations

import getpass
import os
from dataclasses import is_dataclass
from typing import Any

from yieldstar_cli import clock
from yieldstar_cli.engine.retry import Span
from yieldstar_cli.errors import InvalidMessageEvent, UnserializableValue, UsageError
from yieldstar_cli.failures_text import storable


def message_text(value: object, limit: int) -> str:
    """A message's value as JSON text of at most `limit` bytes.

    A Struct or a dataclass by its own type, what is inside other values as mappings. Raises
    InvalidMessageEvent with the place of what cannot be stored. Source: spec M1, V1, V2.
    """
    from yieldstar_cli import checking, codec

    try:
        if _is_record(value):
            return codec.encode(value, type(value), place="value", limit=limit)
        return codec.encode(checking.opened(value), place="value", limit=limit)
    except UnserializableValue as error:
        raise InvalidMessageEvent(str(error), why=("Nothing was stored.",)) from None


def _is_record(value: object) -> bool:
    kind = type(value)
    return is_dataclass(kind) or hasattr(kind, "__struct_fields__")


def ttl_ms(ttl: Span) -> int:
    """How long a buffered message is kept. Raises UsageError for no span, or none at all."""
    try:
        span = clock.span_ms(ttl, what="ttl")
    except ValueError as error:
        raise UsageError(str(error)) from None
    if span <= 0:
        raise UsageError(f"ttl must be longer than nothing, not {ttl!r}")
    return span


def named(execution: object) -> str:
    """The ID that is meant. Raises UsageError for what names no execution, such as None.

    Its text would: a message for "None" is buffered, and lost in silence.
    """
    from yieldstar_cli.awaiting import ExecutionRef

    if not isinstance(execution, str | ExecutionRef):
        raise UsageError(
            "an execution is named by its ID or by the reference that trigger gave,"
            f" not by {type(execution).__name__}"
        )
    return str(execution)


def checked_reason(reason: object) -> str | None:
    """`reason` as given. Raises UsageError for what is no text."""
    if reason is not None and not isinstance(reason, str):
        raise UsageError(f"a reason is text, not {type(reason).__name__}")
    return reason


def one_scope(execution: Any, workflow: str | None) -> str | None:
    """The ID of the execution that is meant, if one is. Raises UsageError for two scopes."""
    if execution is not None and workflow is not None:
        raise UsageError("an execution or a workflow, not both")
    return None if execution is None else named(execution)


def user_name() -> str:
    """Who runs this program, for the marks that people leave (spec E14)."""
    try:
        return storable(getpass.getuser())
    except (KeyError, OSError):
        # No name for this user, as in some containers.
        return f"uid {os.getuid()}"
