"""What a store's state says to a waiting operation, or to an update: pure (spec S2, S4, S5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from yieldstar_cli import codec, failures
from yieldstar_cli.digests import digests
from yieldstar_cli.engine.storing import changed, state_of
from yieldstar_cli.engine.values import encode_result
from yieldstar_cli.engine.views import Readings, plain, view
from yieldstar_cli.errors import StoreMissing
from yieldstar_cli.model import ChangeStore, Kind

if TYPE_CHECKING:
    from yieldstar_cli.engine.store_handles import StoreAsk, StoreChange, StoreRef, StoreWatch
    from yieldstar_cli.model import StoreRecord


@dataclass(frozen=True, slots=True)
class Ended:
    """The operation ends with this: its value, or its error, as JSON text."""

    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """The operation ends once this is committed."""

    intent: ChangeStore


def answer(ask: StoreAsk[Any], record: StoreRecord | None, limit: int) -> Ended:
    """What `get` or `select` gives of the state as it was read."""
    if record is None:
        return _missing(ask.store)
    readings = Readings()
    try:
        state = state_of(record.state, ask.store)
        if ask.fn is None:
            found = {"instance": record.instance, "version": record.version, "state": record.state}
            return Ended(True, codec.encode(found))
        value = plain(ask.fn(view(state, readings)))
    except BaseException as error:  # whatever the author's function raises is data here
        return Ended(False, failures.encode_error(error))
    finally:
        readings.close()
    return Ended(*encode_result(value, ask.result_type, f"result of {ask.key}", limit))


def update(change: StoreChange[Any], record: StoreRecord | None) -> Ended | Change:
    """The change that an update makes of the state as it was read."""
    if record is None:
        return _missing(change.store)
    assert change.fn is not None, "an update has a function"
    try:
        text = changed(record.state, change.store, change.fn)
    except BaseException as error:  # whatever the author's function raises is data here
        return Ended(False, failures.encode_error(error))
    return Change(_intent(Kind.STORE_UPDATE, change.store, record, text, None))


def watch(handle: StoreWatch[Any], record: StoreRecord | None, limit: int) -> Ended | Change | None:
    """What a wait comes to; None if it waits on, and what it read in vain is noted on it."""
    if record is None:
        return _missing(handle.store)
    readings = Readings()
    try:
        found = handle.fn(view(state_of(record.state, handle.store), readings))
        matched = bool(found) if handle.kind is Kind.STORE_WHEN else found is not None
        if matched:
            return _matched(handle, record, plain(found), limit)
        paths = readings.paths()
    except BaseException as error:  # whatever the author's function raises is data here
        return Ended(False, failures.encode_error(error))
    finally:
        # A view that its function kept is of no use from now on.
        readings.close()
    handle.instance = record.instance
    handle.readings = digests(msgspec.json.decode(record.state), paths)
    return None


def _matched(
    handle: StoreWatch[Any], record: StoreRecord, value: Any, limit: int
) -> Ended | Change:
    ok, text = encode_result(value, handle.result_type, f"result of {handle.key}", limit)
    if not ok or handle.claim is None:
        return Ended(ok, text)
    claim = handle.claim

    def taken(state: Any) -> None:
        claim(state, codec.decode(text, handle.result_type))

    state = changed(record.state, handle.store, taken)
    return Change(_intent(Kind.STORE_TAKE, handle.store, record, state, text))


def _intent(
    kind: Kind, store: StoreRef, record: StoreRecord, state: str, result: str | None
) -> ChangeStore:
    return ChangeStore(
        "",
        0,
        str(kind),
        store.name,
        store.store_id,
        record.instance,
        record.version,
        state,
        result,
    )


def _missing(store: StoreRef) -> Ended:
    return Ended(False, failures.encode_error(StoreMissing(f"there is no store {store.label}")))


__all__ = ["Change", "Ended", "answer", "update", "watch"]
