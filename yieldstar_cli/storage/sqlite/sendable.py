"""Checks a message before it is sent: its target, queue, value, key and time to live (spec M1)."""

from __future__ import annotations

from collections.abc import Sequence

from yieldstar_cli.clock import LONGEST_SPAN
from yieldstar_cli.errors import InvalidExecutionEvent, InvalidMessageEvent
from yieldstar_cli.storage.sqlite import admission

LONGEST_QUEUE_BYTES = 100
LONGEST_KEY = 255


def checked_target(execution_id: object) -> str:
    """`execution_id` as given. Raises InvalidMessageEvent. Source: spec E2."""
    try:
        return admission.checked_id(execution_id)
    except InvalidExecutionEvent as error:
        raise InvalidMessageEvent(error.message, why=error.why) from None


def checked_queue(queue: object) -> str:
    """`queue` as given. Raises InvalidMessageEvent. Source: spec M1, R3."""
    if not is_queue(queue):
        raise _invalid(
            "queue",
            f"a name has 1 to {LONGEST_QUEUE_BYTES} bytes, printable, without # / : ~, "
            f"and is not {_short(queue)}",
        )
    return str(queue)


def is_queue(queue: object) -> bool:
    """Whether a queue can have this name: what the key of an operation may be (spec R3)."""
    return (
        isinstance(queue, str)
        and queue.isprintable()
        and 1 <= len(queue.encode("utf-8")) <= LONGEST_QUEUE_BYTES
        and not set(queue) & set("#/:~")
    )


def checked_value(value: str, limit: int) -> str:
    """`value`, JSON text, as given. Raises InvalidMessageEvent. Source: spec V1, V2."""
    try:
        size = len(value) if value.isascii() else len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise _invalid("value", "is not valid text: it holds a lone surrogate") from None
    if size > limit:
        raise _invalid(
            "value",
            f"has {size} bytes; the most is {limit}",
            remedy=("Store what is large beside, and send where it is.",),
        )
    return value


def checked_key(key: object) -> str:
    """An idempotency key as given. Raises InvalidMessageEvent. Source: spec M3."""
    if not (isinstance(key, str) and key.isprintable() and 1 <= len(key) <= LONGEST_KEY):
        raise _invalid(
            "idempotency_key", f"must be 1 to {LONGEST_KEY} printable characters, not {_short(key)}"
        )
    return key


def checked_ttl(ttl_ms: object) -> int:
    """A time to live in milliseconds. Raises InvalidMessageEvent. Source: spec M1."""
    if isinstance(ttl_ms, bool) or not isinstance(ttl_ms, int) or not 0 <= ttl_ms <= LONGEST_SPAN:
        raise _invalid("ttl_ms", f"must be 0 to {LONGEST_SPAN} milliseconds, not {_short(ttl_ms)}")
    return ttl_ms


def _short(value: object) -> str:
    return ascii(value)[:80] if isinstance(value, str | int | float) else type(value).__name__


def _invalid(place: str, reason: str, *, remedy: Sequence[str] = ()) -> InvalidMessageEvent:
    return InvalidMessageEvent(f"{place}: {reason}", why=("Nothing was stored.",), remedy=remedy)
