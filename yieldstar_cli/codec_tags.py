"""Values taken apart into plain JSON, and put together again (spec V1).

It walks with one stack frame per level of nesting, so that the deepest value allowed fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from enum import Enum
from typing import Any

import msgspec

from yieldstar_cli import codec
from yieldstar_cli.codec import MARK, MAX_DEPTH, DecodeError
from yieldstar_cli.codec_atoms import READ_ATOM, WRITE_ATOM, Refused, checked_text
from yieldstar_cli.codec_words import Where, advice, key_step, named, path_text, shown
from yieldstar_cli.errors import UnserializableValue

#: The parts of a container, each with its step, and what makes a tree of the packed parts.
Opened = tuple[list[tuple[str, Any]], Callable[[list[Any]], Any]]

_to_json = msgspec.json.Encoder().encode


def pack(value: object, place: str, limit: int) -> bytes:
    """The JSON of `value`, not yet proved. Raises UnserializableValue."""
    return _to_json(_Packer(place, limit).pack(value, None, 0))


# --- taking apart ----------------------------------------------------------------------------


class _Packer:
    """One walk through a value; counts its parts against the limit."""

    def __init__(self, place: str, limit: int) -> None:
        self.place = place
        self.limit = limit
        self.parts = 0

    def pack(self, value: Any, where: Where, depth: int) -> Any:
        """The tree of plain JSON values that stands for `value`."""
        kind = type(value)
        atom = WRITE_ATOM.get(kind)
        if atom is not None:
            try:
                return atom(value)
            except Refused as refusal:
                raise self.refuse(where, str(refusal)) from None
        try:
            opened = open_container(value)
        except Refused as refusal:
            raise self.refuse(where, str(refusal)) from None
        if opened is None:
            raise self.refuse(where, f"{named(value)} cannot be stored; {advice(value)}")
        if depth >= MAX_DEPTH:
            raise self.refuse(where, _why_so_deep(where, value))
        parts, build = opened
        self.parts += len(parts)
        if self.parts > self.limit:
            raise codec.too_large(self.place, self.parts, self.limit)
        packed: list[Any] = []
        for step, part in parts:
            packed.append(self.pack(part, (where, step, id(value)), depth + 1))
        return build(packed)

    def refuse(self, where: Where, reason: str) -> UnserializableValue:
        """The refusal of the part at `where`."""
        return UnserializableValue(path_text(self.place, where), reason)


def _why_so_deep(where: Where, value: object) -> str:
    met = {id(value)}
    while where is not None:
        where, _, container = where
        if container in met:
            return "the value contains itself; store plain data without cycles"
        met.add(container)
    return f"nested deeper than {MAX_DEPTH} levels; store it flat"


def open_container(value: Any) -> Opened | None:
    """The parts of `value` and how to rebuild; None for what cannot be stored."""
    kind = type(value)
    if kind is list or kind is tuple:
        tag = "tuple" if kind is tuple else None
        return [(f"[{index}]", item) for index, item in enumerate(value)], _array(tag)
    if kind is dict:
        return _open_dict(value)
    if kind is set or kind is frozenset:
        return [("[*]", item) for item in value], _sorted_array(kind.__name__)
    if isinstance(value, msgspec.Struct):
        return _open_struct(value)
    if is_dataclass(kind):
        names = codec.attribute_names(value)
        parts = [(f".{name}", _attribute(value, name)) for name in names]
        return parts, lambda packed: dict(zip(names, packed, strict=True))
    if isinstance(value, Enum):
        return [("", value.value)], lambda packed: packed[0]
    return None


def _open_dict(value: dict[Any, Any]) -> Opened:
    for key in value:
        if type(key) is not str:
            raise Refused(
                f"the key {shown(key)} is {named(key)}, not str; use text keys or a list of pairs"
            )
        checked_text(key)
    keys = list(value)
    return (
        [(key_step(key), item) for key, item in value.items()],
        lambda packed: dict(zip(keys, packed, strict=True)),
    )


def _open_struct(value: msgspec.Struct) -> Opened:
    config = type(value).__struct_config__
    names = codec.attribute_names(value)
    encoded = [*type(value).__struct_encode_fields__, *names[len(value.__struct_fields__) :]]
    parts = [(name, _attribute(value, name)) for name in names]
    head: list[Any] = [] if config.tag is None else [config.tag]
    if config.array_like:
        if any(part is msgspec.UNSET for _, part in parts):
            raise Refused("an UNSET field of an array_like Struct cannot be stored; give it None")
        listed = _array(None)
        return [(f".{name}", part) for name, part in parts], lambda packed: listed(head + packed)
    kept = [
        (key, name, part)
        for key, (name, part) in zip(encoded, parts, strict=True)
        if part is not msgspec.UNSET
    ]
    tag = {} if config.tag is None else {config.tag_field: config.tag}
    keys = [key for key, _, _ in kept]
    return (
        [(f".{name}", part) for _, name, part in kept],
        lambda packed: tag | dict(zip(keys, packed, strict=True)),
    )


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name)
    except Exception:
        raise Refused(f"{named(value)} has no value for its field {name!r}") from None


def _array(tag: str | None) -> Callable[[list[Any]], Any]:
    def build(packed: list[Any]) -> list[Any]:
        if tag is not None:
            return [MARK, tag, *packed]
        # A list that looks like a tag is itself tagged, so that it stays a list.
        return [MARK, "list", *packed] if packed and packed[0] == MARK else packed

    return build


def _sorted_array(tag: str) -> Callable[[list[Any]], Any]:
    # By text: the order of a set differs from process to process.
    return lambda packed: [MARK, tag, *sorted(packed, key=_to_json)]


def _set_or_list(kind: Any) -> Callable[[list[Any]], Any]:
    def build(items: list[Any]) -> Any:
        try:
            return kind(items)
        except TypeError:
            # A set of Structs is a list of dicts until its annotation is applied.
            return items

    return build


_READ_ARRAY: dict[str, Callable[[list[Any]], Any]] = {
    "list": lambda items: items,
    "tuple": tuple,
    "set": _set_or_list(set),
    "frozenset": _set_or_list(frozenset),
}


def unpack(node: Any) -> Any:
    """The values that a tree of plain JSON stands for. Changes `node`. Raises DecodeError."""
    kind = type(node)
    if kind is dict:
        for key, item in node.items():
            if type(item) is list or type(item) is dict:
                node[key] = unpack(item)
        return node
    if kind is not list:
        return node
    tag = None
    if node and node[0] == MARK:
        tag = node[1] if len(node) > 1 and type(node[1]) is str else ""
        node = node[2:]
        read = READ_ATOM.get(tag)
        if read is not None:
            try:
                return read(*node)
            except (TypeError, ValueError, ArithmeticError, LookupError) as error:
                raise DecodeError(f"the value tagged {tag!r} is damaged: {error}") from None
    for index, item in enumerate(node):
        if type(item) is list or type(item) is dict:
            node[index] = unpack(item)
    if tag is None:
        return node
    if tag not in _READ_ARRAY:
        raise DecodeError(f"the tag {tag!r} is not known; was it written by a newer version?")
    return _READ_ARRAY[tag](node)
