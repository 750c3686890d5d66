"""The codec's exact path: every value taken apart, written, read again and compared (spec V1).

It walks with one stack frame per level of nesting, so that the deepest value allowed fits.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from math import copysign, isfinite
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

from yieldstar_cli import codec
from yieldstar_cli.codec import INT_MAX, INT_MIN, MARK, MAX_DEPTH, DecodeError
from yieldstar_cli.errors import UnserializableValue

#: Where in the value we are: the way to the container, and a step `.name`, `[0]` below it.
Where = tuple[Any, str] | None
#: The parts of a container, each with its step, and what makes a tree of the packed parts.
Opened = tuple[list[tuple[str, Any]], Callable[[list[Any]], Any]]

_to_json = msgspec.json.Encoder().encode
_DAY = timedelta(days=1)


def encode_exactly(value: object, type_: Any, place: str, limit: int) -> bytes:
    """The JSON of `value`, proved to come back the same. Raises UnserializableValue."""
    raw = pack(value, place, limit)
    if len(raw) > limit:
        return raw
    try:
        back = codec.decode_unguarded(raw, type_)
    except msgspec.DecodeError as error:
        raise _unfit(str(error), place) from None
    except TypeError as error:
        raise UnserializableValue(place, str(error)) from None
    compare(value, back, place)
    return raw


def pack(value: object, place: str, limit: int) -> bytes:
    """The JSON of `value`, not yet proved. Raises UnserializableValue."""
    return _to_json(_Packer(place, limit).pack(value, None, 0))


def _unfit(message: str, place: str) -> UnserializableValue:
    said, _, where = message.partition(" - at `$")
    words = codec.readable(said)
    return UnserializableValue(
        place + where.rstrip("`"), f"{words}; the declared type says otherwise"
    )


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
        atom = _PACK_ATOM.get(kind)
        if atom is not None:
            try:
                return atom(value)
            except _Refused as refusal:
                raise self.refuse(where, str(refusal)) from None
        try:
            opened = open_container(value)
        except _Refused as refusal:
            raise self.refuse(where, str(refusal)) from None
        if opened is None:
            raise self.refuse(where, f"{_named(value)} cannot be stored; {_advice(value)}")
        if depth >= MAX_DEPTH:
            raise self.refuse(where, self.too_deep(value))
        parts, build = opened
        self.parts += len(parts)
        if self.parts > self.limit:
            raise codec.too_large(self.place, self.parts, self.limit)
        packed: list[Any] = []
        for step, part in parts:
            packed.append(self.pack(part, (where, step), depth + 1))
        return build(packed)

    def refuse(self, where: Where, reason: str) -> UnserializableValue:
        return UnserializableValue(_path(self.place, where), reason)

    def too_deep(self, value: Any) -> str:
        # Reached only beyond the limit: a value that meets itself always gets here.
        seen: set[int] = set()
        todo, steps = [value], 0
        while todo and steps < 10 * MAX_DEPTH:
            item = todo.pop()
            steps += 1
            opened = open_container(item) if type(item) not in _PACK_ATOM else None
            if opened is None:
                continue
            if id(item) in seen:
                return "the value contains itself; store plain data without cycles"
            seen.add(id(item))
            todo += [part for _, part in opened[0]]
        return f"nested deeper than {MAX_DEPTH} levels; store it flat"


class _Refused(Exception):
    """Why a part cannot be stored."""


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
            raise _Refused(
                f"the key {key!r:.60} is {_named(key)}, not str; use text keys or a list of pairs"
            )
        _text(key)
    keys = list(value)
    return (
        [(_key_step(key), item) for key, item in value.items()],
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
            raise _Refused("an UNSET field of an array_like Struct cannot be stored; give it None")
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
    except AttributeError:
        raise _Refused(f"{_named(value)} has no value for its field {name!r}") from None


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


# --- atoms -----------------------------------------------------------------------------------


def _text(value: str) -> str:
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise _Refused(
                f"the text has a lone surrogate ({value[error.start]!a}) at character "
                f"{error.start}; it is no valid text: decode bytes with errors='replace', or "
                "store the bytes"
            ) from None
    return value


def _integer(value: int) -> Any:
    return value if INT_MIN <= value <= INT_MAX else [MARK, "int", hex(value)]


def _float(value: float) -> Any:
    return value if isfinite(value) else [MARK, "float", repr(value)]


def _zone(zone: tzinfo | None) -> tuple[str | None, str | None]:
    """The key of a ZoneInfo, and the name of a named fixed offset."""
    if zone is None:
        return None, None
    if type(zone) is ZoneInfo and zone.key is not None:
        return _text(zone.key), None
    if type(zone) is timezone:
        name = zone.tzname(None)
        return None, None if name == timezone(zone.utcoffset(None)).tzname(None) else _text(name)
    raise _Refused(
        f"the time zone is {_named(zone)}; use datetime.timezone or zoneinfo.ZoneInfo(key)"
    )


def _moment(tag: str) -> Callable[[Any], Any]:
    def write(value: Any) -> Any:
        key, name = _zone(value.tzinfo)
        bare = value.replace(tzinfo=None, fold=0) if key else value.replace(fold=0)
        packed = [MARK, tag, bare.isoformat(), key, value.fold, name]
        while packed[-1] in (None, 0):
            packed.pop()
        return packed

    return write


def _read_moment(kind: Any) -> Callable[..., Any]:
    def read(text: str, key: str | None = None, fold: int = 0, name: str | None = None) -> Any:
        value = kind.fromisoformat(text)
        zone = value.tzinfo
        if key is not None:
            zone = ZoneInfo(key)
        elif name is not None:
            zone = timezone(zone.utcoffset(None), name)
        return value.replace(tzinfo=zone, fold=fold)

    return read


_PACK_ATOM: dict[type, Callable[[Any], Any]] = {
    type(None): lambda value: value,
    bool: lambda value: value,
    str: _text,
    int: _integer,
    float: _float,
    bytes: lambda value: [MARK, "bytes", base64.b64encode(value).decode("ascii")],
    datetime: _moment("datetime"),
    time: _moment("time"),
    date: lambda value: [MARK, "date", value.isoformat()],
    timedelta: lambda value: [MARK, "timedelta", value.days, value.seconds, value.microseconds],
    Decimal: lambda value: [MARK, "decimal", str(value)],
    UUID: lambda value: [MARK, "uuid", str(value)],
    type(Path()): lambda value: [MARK, "path", _text(str(value))],
}

_READ_ATOM: dict[str, Callable[..., Any]] = {
    "int": lambda text: int(text, 16),
    "float": float,
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "datetime": _read_moment(datetime),
    "time": _read_moment(time),
    "date": date.fromisoformat,
    "timedelta": timedelta,
    "decimal": Decimal,
    "uuid": UUID,
    "path": Path,
}


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
        read = _READ_ATOM.get(tag)
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


# --- comparing -------------------------------------------------------------------------------


def compare(ours: Any, back: Any, place: str, where: Where = None) -> None:
    """Raise UnserializableValue at the first place where `back` is not `ours`."""
    kind = type(ours)
    if kind is not type(back):
        raise UnserializableValue(_path(place, where), _changed_kind(ours, back))
    if isinstance(ours, Enum) or kind in _PACK_ATOM:
        same = (
            ours is back
            if isinstance(ours, Enum)
            else _IDENTITY.get(kind, _itself)(ours) == _IDENTITY.get(kind, _itself)(back)
        )
        if not same:
            raise UnserializableValue(
                _path(place, where), f"{ours!r:.60} would come back as {back!r:.60}"
            )
        return
    mine, theirs = _parts(ours), _parts(back)
    if [step for step, _ in mine] != [step for step, _ in theirs]:
        raise UnserializableValue(
            _path(place, where), f"{_named(ours)} would come back with other parts; {_EXTRAS}"
        )
    for (step, part), (_, other) in zip(mine, theirs, strict=True):
        compare(part, other, place, (where, step))


_EXTRAS = "only declared fields can be stored"


def _parts(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, set | frozenset):
        ordered = sorted(value, key=lambda item: pack(item, "", codec.MAX_VALUE))
        return [("[*]", item) for item in ordered]
    opened = open_container(value)
    return [] if opened is None else opened[0]


def _itself(value: Any) -> Any:
    return value


def _moment_identity(value: Any) -> Any:
    return value.isoformat(), value.fold, _zone(value.tzinfo)


#: What makes two values of one type the same, where == does not say it.
_IDENTITY: dict[type, Callable[[Any], Any]] = {
    float: lambda value: "nan" if value != value else (value, copysign(1.0, value)),
    Decimal: str,
    datetime: _moment_identity,
    time: _moment_identity,
}


# --- words -----------------------------------------------------------------------------------


def _path(place: str, where: Where) -> str:
    steps: list[str] = []
    while where is not None:
        where, step = where
        steps.append(step)
    if len(steps) > 40:
        steps[20:-20] = ["…"]
    return place + "".join(reversed(steps))


def _key_step(key: str) -> str:
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,60}", key):
        return f".{key}"
    short = key if len(key) <= 60 else key[:60] + "…"
    return "[" + _to_json(short).decode() + "]"


def _named(value: Any) -> str:
    kind = type(value)
    name = kind.__qualname__
    module = kind.__module__
    full = name if module in ("builtins", "__main__") else f"{module}.{name}"
    return f"{'an' if full[:1].lower() in 'aeiou' else 'a'} {full}"


def _advice(value: Any) -> str:
    kinds: Iterable[type] = (str, int, float, list, dict, tuple, set, bytes, datetime)
    for base in kinds:
        if isinstance(value, base):
            return f"pass {base.__name__}(...) of it, or a Struct or dataclass"
    return "pass plain data, a Struct or a dataclass"


def _changed_kind(ours: Any, back: Any) -> str:
    if isinstance(ours, msgspec.Struct | Enum) or is_dataclass(ours):
        name = type(ours).__name__
        return (
            f"{_named(ours)} would come back as {type(back).__name__}; annotate it, so that the "
            f"declared type leads to {name} (-> {name} for a result)"
        )
    return (
        f"{type(ours).__name__} {ours!r:.60} would come back as {type(back).__name__} "
        f"{back!r:.60}; the declared type does not fit"
    )
