"""Says of a wait for a store how that store stands, what would wake it, and what to type."""

from __future__ import annotations

import re

from yieldstar_cli.cli.facts import Facts
from yieldstar_cli.cli.render import safe, values
from yieldstar_cli.cli.render.times import Times
from yieldstar_cli.cli.steps import Operation
from yieldstar_cli.cli.typed import line, typed, word
from yieldstar_cli.digests import KIND, NOTHING, digest_at
from yieldstar_cli.model import Kind, Path, Reading, StoreRecord
from yieldstar_cli.nouns import dataclass

#: A state is shown in so many columns, and so many of the places that were read.
_STATE = 60
_PLACES = 4
#: A key that is no field is cut to so many columns.
_KEY = 32
#: A name that `ys store patch` takes as it is.
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class StoreWords:
    """What there is to say of one wait for a store."""

    name: str
    state: str
    #: It was written since, deleted, or its deadline has passed.
    ready: bool = False
    #: No write can wake it, and it has no deadline.
    stuck: bool = False
    #: It was not looked at.
    unknown: bool = False
    remedies: tuple[str, ...] = ()


def store_words(wait: Operation, store: tuple[str, str], facts: Facts, times: Times) -> StoreWords:
    """The store as it is now, against what the wait read of it in vain (spec S4, S6)."""
    shown = f"store {store[0]} {store[1]}"
    name = f"{shown} ({'take' if wait.kind == Kind.STORE_TAKE else 'when'})"
    if store not in facts.stores:
        return StoreWords(name, "not looked at", unknown=True)
    record = facts.stores[store]
    if record is None:
        return _missing(wait, name, store)
    stands = f"version {record.version} has {_short(record)}"
    if wait.instance != record.instance:
        return StoreWords(name, f"{stands}; it was made anew since", ready=True)
    if _written(wait, record):
        return StoreWords(name, f"{stands}; what it read was written since", ready=True)
    if wait.due_at is not None and wait.due_at <= facts.now_ms:
        return StoreWords(name, f"{stands}; its deadline has passed", ready=True)
    deadline = "" if wait.due_at is None else f"; its deadline is {times.at(wait.due_at)}"
    places = _places(wait.read)
    if not places:
        return StoreWords(
            name,
            f"{stands}; it read nothing of that, so no write wakes it{deadline}",
            stuck=wait.due_at is None,
            remedies=(f"End it: ys cancel {typed(facts.record.execution_id)}",),
        )
    wakes = f"a write that changes {_listed(places)} wakes it"
    return StoreWords(name, f"{stands}; {wakes}{deadline}", remedies=(_write_line(wait, record),))


def _missing(wait: Operation, name: str, store: tuple[str, str]) -> StoreWords:
    if wait.instance is None:
        make = f"Make it: {line('set', *store)} …"
        return StoreWords(name, "it does not exist yet; its making wakes this", remedies=(make,))
    words = "it does not exist any more; the next delivery raises StoreMissing"
    return StoreWords(name, words, ready=True)


def _written(wait: Operation, record: StoreRecord) -> bool:
    import msgspec

    state = msgspec.json.decode(record.state)
    return any(digest_at(state, reading.path) != reading.digest for reading in wait.read)


def _short(record: StoreRecord) -> str:
    """The state on one line: secrets masked, a long one cut with its size."""
    text = values.pairs(record.state, _STATE, reveal=False, between=", ")
    # Of one too large to be looked at only the size is told.
    return text.removesuffix("; ys show ID --json has all of it") or "nothing"


def _places(read: tuple[Reading, ...]) -> list[str]:
    """What was read, as a person would write it; what kind the whole of it is goes unsaid."""
    found = [_place(reading) for reading in read if reading.path != (KIND,)]
    return list(dict.fromkeys(found))


def _place(reading: Reading) -> str:
    path = reading.path
    if path and path[-1] == KIND:
        return f"the kind of {_dotted(path[:-1])}"
    if not path:
        return "any of it"
    missing = " (not there now)" if reading.digest == NOTHING else ""
    return f"{_dotted(path)}{missing}"


def _dotted(path: Path) -> str:
    """`items[0].sku`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _FIELD.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{safe.clip(repr(part), _KEY)}]"
    return text


def _listed(places: list[str]) -> str:
    shown = places[:_PLACES]
    if len(places) > _PLACES:
        shown.append(f"{len(places) - _PLACES:,} more")
    if len(shown) == 1:
        return shown[0]
    return f"{', '.join(shown[:-1])} or {shown[-1]}"


def _write_line(wait: Operation, record: StoreRecord) -> str:
    """Fields that were read are patched, as `set` would take the others back to their defaults."""
    first = [reading.path[0] for reading in wait.read if reading.path and reading.path != (KIND,)]
    fields = [part for part in dict.fromkeys(first) if isinstance(part, str)]
    if not fields or not all(_FIELD.fullmatch(field) for field in fields):
        return f"Write it: {line('set', record.name, record.store_id)} …"
    given = " ".join(f"{word(field)}=…" for field in fields[:_PLACES])
    return f"Write it: {line('patch', record.name, record.store_id)} {given}"


__all__ = ["StoreWords", "store_words"]
