"""The codec's exact path: written, read again, and compared part by part (spec V1, O2)."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

import msgspec

from yieldstar_cli import codec
from yieldstar_cli.codec_atoms import IDENTITY, WRITE_ATOM, Refused
from yieldstar_cli.codec_tags import open_container, pack, unpack
from yieldstar_cli.codec_types import relaxed
from yieldstar_cli.codec_words import Where, changed_kind, key_step, named, path_text, shown
from yieldstar_cli.errors import UnserializableValue


def encode_exactly(value: object, type_: Any, place: str, limit: int) -> bytes:
    """The JSON of `value`, proved to come back the same. Raises UnserializableValue."""
    raw = pack(value, place, limit)
    if len(raw) > limit:
        return raw
    try:
        back = codec.decode_unguarded(raw, type_)
        compare(value, back, place)
    except (RecursionError, UnserializableValue):
        raise
    except msgspec.DecodeError as error:
        raise _unfit(raw, type_, str(error), place) from None
    except (TypeError, Refused) as error:
        raise UnserializableValue(place, str(error)) from None
    except Exception as error:
        # Code of the author's that runs when one is made: a __post_init__, an Enum's _missing_.
        what = f"it cannot be read back: {type(error).__name__}: {error}"
        raise UnserializableValue(place, what) from None
    return raw


def _unfit(raw: bytes, type_: Any, message: str, place: str) -> UnserializableValue:
    said, where = _located(unpack(msgspec.json.decode(raw)), type_, message)
    words = codec.readable(said)
    return UnserializableValue(place + where, f"{words}; the declared type says otherwise")


def _located(tree: Any, type_: Any, message: str) -> tuple[str, str]:
    """msgspec's sentence and place, the `[...]` of a dict's item made into the item's key.

    Which item it is, is found by leaving out the others.
    """
    keys: list[str] = []
    while True:
        said, _, where = message.partition(" - at `$")
        parts = where.rstrip("`").split("[...]")
        node = tree
        for part, key in zip(parts, keys, strict=False):
            node = _below(node, part)[key]
        second = None
        if len(keys) < len(parts) - 1:
            second = _narrowed(tree, type_, _below(node, parts[len(keys)]))
        if second is None:
            steps = [*map(key_step, keys), *["[...]"] * (len(parts) - 1 - len(keys)), ""]
            return said, "".join(part + step for part, step in zip(parts, steps, strict=True))
        key, message = second
        keys.append(key)


def _narrowed(tree: Any, type_: Any, items: Any) -> tuple[str, str] | None:
    """The first item of `items`, a dict in `tree`, that does not fit, and msgspec's sentence."""
    if type(items) is not dict or len(items) > _MANY:
        return None
    every = dict(items)
    for key, item in every.items():
        items.clear()
        items[key] = item
        try:
            msgspec.convert(tree, relaxed(type_))
        except msgspec.ValidationError as error:
            return key, str(error)
    items.update(every)
    return None


#: In dicts larger than this the item is not looked for.
_MANY = 10_000


def _below(node: Any, path: str) -> Any:
    for name, index in re.findall(r"\.([^.\[]+)|\[([0-9]+)\]", path):
        try:
            node = node[name] if name else node[int(index)]
        except (KeyError, IndexError, TypeError):
            return None
    return node


def compare(ours: Any, back: Any, place: str, where: Where = None) -> None:
    """Raise UnserializableValue at the first place where `back` is not `ours`."""
    kind = type(ours)
    if kind is not type(back):
        raise UnserializableValue(path_text(place, where), changed_kind(ours, back))
    if isinstance(ours, Enum) or kind in WRITE_ATOM:
        identity = IDENTITY.get(kind)
        if identity is None:
            same = ours is back if isinstance(ours, Enum) else ours == back
        else:
            same = identity(ours) == identity(back)
        if not same:
            reason = f"{shown(ours)} would come back as {shown(back)}"
            raise UnserializableValue(path_text(place, where), reason)
        return
    mine, theirs = _parts(ours), _parts(back)
    if [step for step, _ in mine] != [step for step, _ in theirs]:
        reason = f"{named(ours)} would come back with other parts; only declared fields are stored"
        raise UnserializableValue(path_text(place, where), reason)
    for (step, part), (_, other) in zip(mine, theirs, strict=True):
        compare(part, other, place, (where, step, 0))


def _parts(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, set | frozenset):
        ordered = sorted(value, key=lambda item: pack(item, "", codec.MAX_VALUE))
        return [("[*]", item) for item in ordered]
    opened = open_container(value)
    return [] if opened is None else opened[0]
