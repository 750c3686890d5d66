"""One value of the command line, from its text to what its declared type wants (spec V4)."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect as shape

from yieldstar_cli import clock
from yieldstar_cli.params_describe import bare
from yieldstar_cli.params_table import value_text
from yieldstar_cli.strict_json import JsonError, parse_json

_ARRAYS = (
    shape.ListType,
    shape.SetType,
    shape.FrozenSetType,
    shape.VarTupleType,
    shape.TupleType,
)
_RECORDS = (shape.StructType, shape.DataclassType, shape.TypedDictType)
#: Types whose text msgspec reads itself.
_READ_BY_MSGSPEC: tuple[tuple[type, str, Any], ...] = (
    (shape.DateTimeType, "datetime such as 2026-11-30T16:00:00Z", "2026-11-30T16:00:00Z"),
    (shape.DateType, "date such as 2026-11-30", "2026-11-30"),
    (shape.TimeType, "time such as 16:00:00", "16:00:00"),
    (shape.DecimalType, "Decimal such as 19.99", "19.99"),
    (shape.UUIDType, "UUID", "12345678-1234-5678-1234-567812345678"),
    (shape.BytesType, "bytes in base64", "aGVsbG8="),
)


class Misfit(Exception):
    """A text does not fit: what was expected, and a text that would."""

    def __init__(self, expected: str, suggestion: str | None = None) -> None:
        super().__init__(expected)
        self.expected = expected
        self.suggestion = suggestion


def alternatives(info: Any) -> list[Any]:
    """The members of a union, or the type itself."""
    info = bare(info)
    if isinstance(info, shape.UnionType):
        return [found for member in info.types for found in alternatives(member)]
    return [info]


def is_list(info: Any) -> bool:
    """Whether a repeated option makes a list of this type."""
    return any(isinstance(member, shape.ListType) for member in alternatives(info))


def from_texts(info: Any, texts: Sequence[str]) -> Any:
    """A list from an option that was given several times. Raises Misfit."""
    for member in alternatives(info):
        if isinstance(member, shape.ListType):
            return [from_text(member.item_type, text) for text in texts]
    raise Misfit("one value")


def from_text(info: Any, text: str) -> Any:
    """The value that `text` stands for; where `str` is allowed, the text. Raises Misfit."""
    members = alternatives(info)
    if any(isinstance(member, shape.StrType | shape.AnyType) for member in members):
        return text
    misfits: list[Misfit] = []
    for member in sorted(members, key=_rank):
        try:
            return _read(member, text)
        except Misfit as misfit:
            misfits.append(misfit)
    expected = " or ".join(dict.fromkeys(misfit.expected for misfit in misfits))
    suggestion = next((m.suggestion for m in reversed(misfits) if m.suggestion), None)
    raise Misfit(expected, suggestion)


def _rank(info: Any) -> int:
    """The stricter reading first: null, true and 1 before 1.0, and arrays last."""
    order = (shape.NoneType, shape.BoolType, shape.LiteralType, shape.EnumType, shape.IntType)
    for rank, kind in enumerate(order):
        if isinstance(info, kind):
            return rank
    if isinstance(info, _ARRAYS):
        return 20
    return 10


def _read(info: Any, text: str) -> Any:
    if isinstance(info, shape.NoneType):
        return _word(text, {"null": None})
    if isinstance(info, shape.BoolType):
        return _word(text, {"true": True, "false": False})
    if isinstance(info, shape.IntType):
        return _integer(text)
    if isinstance(info, shape.FloatType):
        return _number(text)
    if isinstance(info, shape.LiteralType):
        return _word(text, {_spelled(value): value for value in info.values})
    if isinstance(info, shape.EnumType):
        return _member(info.cls, text)
    if isinstance(info, shape.TimeDeltaType):
        return _span(text)
    if isinstance(info, shape.CustomType) and info.cls is Path:
        return Path(text)
    for kind, expected, example in _READ_BY_MSGSPEC:
        if isinstance(info, kind):
            return _by_msgspec(kind, text, expected, example)
    return _json(info, text)


def _spelled(value: object) -> str:
    return value if isinstance(value, str) else value_text(value)


def _word(text: str, words: dict[str, Any]) -> Any:
    if text in words:
        return words[text]
    synonyms = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false"}
    synonyms |= {"0": "false", "none": "null", "": "null"}
    guess = synonyms.get(text.lower(), text.lower())
    near = difflib.get_close_matches(guess, list(words), n=1, cutoff=0.5)
    raise Misfit(" or ".join(words), near[0] if near else next(iter(words), None))


def _integer(text: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]+", text):
        parsed: int = parse_json(re.sub(r"^(\+|(-?)0+(?=[0-9]))", r"\2", text.lstrip("+")))
        return parsed
    digits = re.search(r"-?[0-9]{1,18}", text)
    raise Misfit("int", str(int(digits.group())) if digits else "42")


def _number(text: str) -> float | int:
    if re.fullmatch(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        number = float(text)
        if math.isfinite(number):
            return number
    digits = re.search(r"-?[0-9]{1,18}([.,][0-9]{1,18})?", text)
    raise Misfit("float", digits.group().replace(",", ".") if digits else "1.5")


def _member(kind: type[Enum], text: str) -> Any:
    values = {_spelled(member.value): member.value for member in kind}
    names = {name: member.value for name, member in kind.__members__.items()}
    if text not in values and text in names:
        return names[text]
    return _word(text, values)


def _span(text: str) -> timedelta:
    try:
        return timedelta(milliseconds=clock.span_ms(text))
    except (ValueError, OverflowError):
        pass
    try:
        found: timedelta = msgspec.convert(text, timedelta)
    except msgspec.ValidationError:
        raise Misfit("span such as 10m", "10m") from None
    return found


def _by_msgspec(kind: type, text: str, expected: str, example: str) -> Any:
    import datetime
    from decimal import Decimal
    from uuid import UUID

    wanted: dict[type, Any] = {
        shape.DateTimeType: datetime.datetime,
        shape.DateType: datetime.date,
        shape.TimeType: datetime.time,
        shape.DecimalType: Decimal,
        shape.UUIDType: UUID,
        shape.BytesType: bytes,
    }
    try:
        return msgspec.convert(text, wanted[kind])
    except (msgspec.ValidationError, ValueError):
        raise Misfit(expected, example) from None


def _json(info: Any, text: str) -> Any:
    """Lists, tuples, sets, dicts and Structs take JSON; a list also takes one bare element."""
    if isinstance(info, shape.ListType) and not text.lstrip().startswith("["):
        return [from_text(info.item_type, text)]
    wanted: type = list if isinstance(info, _ARRAYS) else dict
    what = "a JSON array such as [1, 2]" if wanted is list else 'a JSON object such as {"a": 1}'
    try:
        value = parse_json(text)
    except JsonError as error:
        raise Misfit(f"{what} ({str(error).removeprefix('value: ')})") from None
    if isinstance(value, wanted) or getattr(info, "array_like", False):
        return value
    raise Misfit(what)


def records(info: Any) -> list[Any]:
    """The Structs, dataclasses and TypedDicts that this type allows."""
    return [member for member in alternatives(info) if isinstance(member, _RECORDS)]


def part_of(info: Any, name: str) -> tuple[Any, list[str]]:
    """The type of the part `name` of this type, or None; and the names that its Structs have."""
    names: list[str] = []
    found = None
    for record in records(info):
        fields = {field.encode_name: field.type for field in record.fields}
        names += fields
        found = found or fields.get(name)
        if found is None and name == getattr(record, "tag_field", None):
            found = shape.AnyType()
    return found or item_of(info), names


def item_of(info: Any) -> Any:
    """The type of the values of a dict that this type allows, or None."""
    for member in alternatives(info):
        if isinstance(member, shape.DictType):
            return member.value_type
        if isinstance(member, shape.AnyType):
            return member
    return None


def elements_of(info: Any) -> Any:
    """The type of the elements of an array that this type allows, or None."""
    for member in alternatives(info):
        if isinstance(member, _ARRAYS) and not isinstance(member, shape.TupleType):
            return member.item_type
    return None
