"""Checks a store before it is written: its name, its ID and its state (spec S1, S2)."""

from __future__ import annotations

from yieldstar_cli.errors import InvalidExecutionEvent, InvalidStore
from yieldstar_cli.storage.sqlite import admission, sendable

LONGEST_NAME_BYTES = sendable.LONGEST_QUEUE_BYTES


def checked_name(name: object) -> str:
    """`name` as given. Raises InvalidStore. Source: spec S1, R3."""
    if not sendable.is_queue(name):
        raise _invalid(
            "name",
            f"a name has 1 to {LONGEST_NAME_BYTES} bytes, printable, without # / : ~, "
            f"and is not {ascii(name)[:80]}",
        )
    return str(name)


def checked_store_id(store_id: object) -> str:
    """`store_id` as given: it is checked like an execution's ID. Raises InvalidStore."""
    try:
        return admission.checked_id(store_id, "store_id")
    except InvalidExecutionEvent as error:
        raise InvalidStore(error.message, why=error.why) from None


def is_store(name: object, store_id: object) -> bool:
    """Whether there can be a store of this name and ID."""
    try:
        checked_store_id(store_id)
    except InvalidStore:
        return False
    return sendable.is_queue(name)


def checked_state(state: str, limit: int) -> str:
    """`state`, JSON text, as given. Raises InvalidStore. Source: spec V1, V2."""
    try:
        size = len(state) if state.isascii() else len(state.encode("utf-8"))
    except UnicodeEncodeError:
        raise _invalid("state", "is not valid text: it holds a lone surrogate") from None
    if size > limit:
        raise InvalidStore(
            f"state: has {size} bytes; the most is {limit}",
            why=("Nothing was stored.",),
            remedy=("Keep what is large beside, and where it is in the store.",),
        )
    return state


def _invalid(place: str, reason: str) -> InvalidStore:
    return InvalidStore(f"{place}: {reason}", why=("Nothing was stored.",))
