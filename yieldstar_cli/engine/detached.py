"""Copies of decoded values that share nothing with them, and how their fields are stored."""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
from msgspec.structs import force_setattr

from yieldstar_cli.codec import attribute_names

#: Values without parts that nobody can change: their own copies.
ATOMS: frozenset[type] = frozenset(
    {
        *(type(None), bool, str, int, float, bytes, type(msgspec.UNSET)),
        *(date, datetime, time, timedelta, Decimal, UUID, type(Path())),
    }
)


@dataclass(frozen=True, slots=True)
class Names:
    """How the fields of a Struct or dataclass are called in the stored JSON."""

    stored: dict[str, str]
    #: The key that says which type of a union it is.
    tag: str | None
    #: Its fields have no places of their own there, or code of its own finds them.
    whole: bool


@lru_cache(maxsize=1024)
def encode_names(kind: Any) -> Names | None:
    """The stored names of the fields of `kind`; None for what is no Struct or dataclass."""
    own_access = any("__getattribute__" in base.__dict__ for base in kind.__mro__[:-1])
    if issubclass(kind, msgspec.Struct):
        config = kind.__struct_config__
        stored = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
        tag = None if config.tag is None else config.tag_field
        return Names(stored, tag, own_access or config.array_like)
    if is_dataclass(kind):
        return Names({field.name: field.name for field in fields(kind)}, None, own_access)
    return None


def detached(value: Any) -> Any:
    """A copy of `value`, recursively; views in it become the values they show, all read.

    No code of the author's runs for Structs and dataclasses. One stack frame per level, so that
    the deepest value that can be stored fits.
    """
    from yieldstar_cli.engine.views import View, whole

    kind: Any = type(value)
    if kind in ATOMS:
        return value
    if issubclass(kind, View):
        value = whole(value)
        kind = type(value)
    if kind is list or kind is tuple:
        items: list[Any] = []
        for item in value:
            # A comprehension would be another frame.
            items.append(item if type(item) in ATOMS else detached(item))  # noqa: PERF401
        return items if kind is list else tuple(items)
    if kind is dict:
        copied: dict[Any, Any] = {}
        for key, item in value.items():
            # The same key, unless it is a view.
            copied[detached(key)] = item if type(item) in ATOMS else detached(item)
        return copied
    if kind is set or kind is frozenset:
        return kind(map(detached, value))
    if issubclass(kind, Enum):
        return value
    if encode_names(kind) is None:
        return copy.deepcopy(value)
    return _detached_object(value, kind)


def _detached_object(value: Any, kind: type) -> Any:
    fresh = copy.copy(value) if issubclass(kind, msgspec.Struct) else object.__new__(kind)
    put: Any = force_setattr if issubclass(kind, msgspec.Struct) else object.__setattr__
    declared = encode_names(kind)
    for name in attribute_names(value):
        try:
            item = object.__getattribute__(value, name)
        except AttributeError:
            continue
        item = item if type(item) in ATOMS else detached(item)
        if declared is not None and name in declared.stored:
            put(fresh, name, item)
        else:
            vars(fresh)[name] = item
    return fresh
