"""What params a workflow declares, as data that needs no module of the author's (spec K4).

A description is JSON text: the type as nested nodes `{"k": kind, ...}`, Structs and dataclasses
with their fields, enums with their members. `rebuild` makes an equivalent type of it, which
checks and encodes alike. What has no such description (code of the author's that runs when a
value is made, types unknown here) is `opaque`: then the module has to be loaded.
"""

from __future__ import annotations

import copy
import json
from enum import Enum, Flag
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect as shape

from yieldstar_cli import codec
from yieldstar_cli.errors import UnserializableValue
from yieldstar_cli.params_table import NoParams, field_docs, type_text


class _Opaque(Exception):
    """Why a type has no description."""


#: Kinds that need no more than their name and limits.
_SIMPLE: dict[type, str] = {
    shape.AnyType: "any",
    shape.NoneType: "none",
    shape.BoolType: "bool",
    shape.IntType: "int",
    shape.FloatType: "float",
    shape.StrType: "str",
    shape.BytesType: "bytes",
    shape.DateTimeType: "datetime",
    shape.DateType: "date",
    shape.TimeType: "time",
    shape.TimeDeltaType: "timedelta",
    shape.DecimalType: "decimal",
    shape.UUIDType: "uuid",
}
_ONE_ITEM: dict[type, str] = {
    shape.ListType: "list",
    shape.SetType: "set",
    shape.FrozenSetType: "frozenset",
    shape.VarTupleType: "vartuple",
}
_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern", "tz")
_CONFIG = ("tag", "tag_field", "array_like", "forbid_unknown_fields")


def describe(type_: Any) -> str:
    """JSON text that describes the params type `type_`; None is a workflow without params.

    Never fails: what cannot be described says so (`opaque`). Source: spec K4.
    """
    try:
        node = _Describer().node(type_info(NoParams if type_ is None else type_))
    except (_Opaque, TypeError, ValueError, NameError, AttributeError) as error:
        return json.dumps({"k": "opaque", "why": str(error), "fields": _fields_of(type_)})
    return json.dumps(node)


def type_info(type_: Any) -> Any:
    """msgspec's view of `type_`, wrappers taken off. Raises TypeError for what it cannot do."""
    return bare(shape.type_info(type_))


def bare(info: Any) -> Any:
    """`info` without its wrapper of documentation."""
    while isinstance(info, shape.Metadata):
        info = info.type
    return info


# --- describing ------------------------------------------------------------------------------


class _Describer:
    """One walk over a type; knows which Structs it is inside of."""

    def __init__(self) -> None:
        self.inside: list[Any] = []

    def node(self, info: Any) -> dict[str, Any]:
        """The node of `info`. Raises _Opaque."""
        info = bare(info)
        kind = type(info)
        if kind in _SIMPLE:
            return {"k": _SIMPLE[kind], **_limits(info)}
        if kind in _ONE_ITEM:
            return {"k": _ONE_ITEM[kind], "item": self.node(info.item_type), **_limits(info)}
        if isinstance(info, shape.TupleType):
            return {"k": "tuple", "items": [self.node(item) for item in info.item_types]}
        if isinstance(info, shape.DictType):
            pair = {"key": self.node(info.key_type), "item": self.node(info.value_type)}
            return {"k": "dict", **pair, **_limits(info)}
        if isinstance(info, shape.UnionType):
            return {"k": "union", "types": [self.node(member) for member in info.types]}
        if isinstance(info, shape.LiteralType):
            return {"k": "literal", "values": list(info.values)}
        if isinstance(info, shape.CustomType) and info.cls is Path:
            return {"k": "path"}
        if isinstance(info, shape.EnumType):
            return _enum_node(info.cls)
        if isinstance(info, shape.StructType | shape.DataclassType):
            return self.record(info)
        raise _Opaque(f"{getattr(info, 'cls', kind).__name__} can only be checked by its module")

    def record(self, info: Any) -> dict[str, Any]:
        """The node of a Struct or dataclass. Raises _Opaque."""
        if any(info is outer for outer in self.inside):
            raise _Opaque(f"{info.cls.__name__} refers to itself")
        if hasattr(info.cls, "__post_init__"):
            raise _Opaque(f"{info.cls.__name__} has a __post_init__")
        self.inside.append(info)
        docs = field_docs(info.cls)
        fields = [
            {
                "name": field.name,
                "as": field.encode_name,
                "type": self.node(field.type),
                "doc": docs.get(field.name) or _described(field.type),
                **_default(info.cls, field),
            }
            for field in info.fields
        ]
        self.inside.pop()
        config = {name: getattr(info, name) for name in _CONFIG if getattr(info, name, None)}
        return {"k": "struct", "name": info.cls.__name__, "fields": fields, "config": config}


def _described(info: Any) -> str:
    """The text of `Annotated[..., Meta(description=...)]`."""
    extra = getattr(info, "extra_json_schema", None) or {}
    return str(extra.get("description", ""))


def _limits(info: Any) -> dict[str, Any]:
    found = {name: getattr(info, name, None) for name in _LIMITS}
    limits = {name: limit for name, limit in found.items() if limit is not None}
    return {"limits": limits} if limits else {}


def _enum_node(kind: type[Enum]) -> dict[str, Any]:
    custom = "_missing_" in {name for base in kind.__mro__[:-1] for name in _own(base)}
    if custom or issubclass(kind, Flag):
        raise _Opaque(f"{kind.__name__} makes members of its own")
    base = "str" if issubclass(kind, str) else "int" if issubclass(kind, int) else ""
    members = [[name, member.value] for name, member in kind.__members__.items()]
    return {"k": "enum", "name": kind.__name__, "base": base, "members": members}


def _own(base: type) -> tuple[str, ...]:
    return () if base.__module__ == "enum" else tuple(vars(base))


def _default(kind: type, field: shape.Field) -> dict[str, Any]:
    value: Any = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        factory: Any = field.default_factory
        if isinstance(factory, partial) and factory.func is copy.deepcopy:
            value = factory.args[0]
        elif factory in (list, dict, set):
            value = factory()
        else:
            raise _Opaque(f"the default of {kind.__name__}.{field.name} is made by a function")
    if value is msgspec.NODEFAULT:
        return {}
    if isinstance(value, Enum):
        return {"default": codec.encode(value.value)}
    if isinstance(value, msgspec.Struct):
        raise _Opaque(f"the default of {kind.__name__}.{field.name} is an object")
    try:
        return {"default": codec.encode(value)}
    except UnserializableValue as error:
        raise _Opaque(f"the default of {kind.__name__}.{field.name}: {error.reason}") from None


def _fields_of(type_: Any) -> list[dict[str, Any]]:
    """Name, type and default of an opaque type's fields, only for showing them."""
    try:
        info = type_info(type_)
        docs = field_docs(info.cls)
        return [
            {
                "name": field.name,
                "as": field.encode_name,
                "doc": docs.get(field.name, ""),
                "shown": _shown_type(field.type),
                **({} if field.required else {"default_shown": "…"}),
            }
            for field in info.fields
        ]
    except (TypeError, ValueError, NameError, AttributeError):
        return []


def _shown_type(info: Any) -> str:
    try:
        return type_text(_Describer().node(info))
    except _Opaque:
        return str(getattr(getattr(bare(info), "cls", None), "__name__", "…"))
