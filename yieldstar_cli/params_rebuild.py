"""A type made of its description, equal in what it accepts, refuses and writes (spec K4)."""

from __future__ import annotations

import copy
import datetime
import json
from decimal import Decimal
from enum import Enum
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal, Union, cast
from uuid import UUID

import msgspec

from yieldstar_cli import codec


@lru_cache(maxsize=256)
def rebuild(description: str) -> Any:
    """A type equivalent to the one described: it accepts, refuses and encodes the same.

    Dataclasses come back as Structs. The same text gives the same type. Raises ValueError for
    an opaque description.
    """
    node = json.loads(description)
    if node["k"] == "opaque":
        raise ValueError(f"the params can only be checked by their module: {node['why']}")
    return _built(node)


_SIMPLE: dict[str, Any] = {
    "any": Any,
    "none": None,
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "bytes": bytes,
    "datetime": datetime.datetime,
    "date": datetime.date,
    "time": datetime.time,
    "timedelta": datetime.timedelta,
    "decimal": Decimal,
    "uuid": UUID,
    "path": Path,
}
_ONE_ITEM: dict[str, Any] = {"list": list, "set": set, "frozenset": frozenset}


def _built(node: dict[str, Any]) -> Any:
    kind = node["k"]
    made = _built_bare(kind, node)
    if "limits" in node:
        return Annotated[made, msgspec.Meta(**node["limits"])]
    return made


def _built_bare(kind: str, node: dict[str, Any]) -> Any:
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind in _ONE_ITEM:
        return _ONE_ITEM[kind][_built(node["item"])]
    if kind == "vartuple":
        return cast(Any, tuple)[_built(node["item"]), ...]
    if kind == "tuple":
        return cast(Any, tuple)[tuple(_built(item) for item in node["items"])]
    if kind == "dict":
        return cast(Any, dict)[_built(node["key"]), _built(node["item"])]
    if kind == "union":
        return Union[tuple(_built(member) for member in node["types"])]  # noqa: UP007
    if kind == "literal":
        return cast(Any, Literal)[tuple(node["values"])]
    if kind == "enum":
        return _built_enum(node)
    return _built_struct(node)


def _built_enum(node: dict[str, Any]) -> Any:
    members = [(name, value) for name, value in node["members"]]
    mixin = {"str": str, "int": int}.get(node["base"])
    if mixin is None:
        return cast(Any, Enum)(node["name"], members)
    return cast(Any, Enum)(node["name"], members, type=mixin)


def _built_struct(node: dict[str, Any]) -> Any:
    fields = []
    for field in node["fields"]:
        type_ = _built(field["type"])
        settings: dict[str, Any] = {"name": field["as"]}
        if "default" in field:
            default = codec.decode(field["default"], type_)
            if isinstance(default, list | dict | set):
                settings["default_factory"] = partial(copy.deepcopy, default)
            else:
                settings["default"] = default
        fields.append((field["name"], type_, msgspec.field(**settings)))
    config = node["config"]
    return msgspec.defstruct(node["name"], fields, kw_only=True, module=__name__, **config)
