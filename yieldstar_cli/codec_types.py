"""Annotations as the codec understands them: what a recorded value decodes to (spec O2)."""

from __future__ import annotations

import types
from collections import abc
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, Never, NoReturn, Union, cast, get_args, get_origin
from uuid import UUID

import msgspec


def check_type(type_: Any) -> None:
    """Raise TypeError, with a sentence, if no value can be decoded as `type_` (spec O2)."""
    decoder(type_)
    try:
        hash(type_)
    except TypeError:
        _look_through(type_)
    else:
        _look_through_once(type_)


def _look_through(type_: Any) -> None:
    from msgspec import inspect as shape

    todo: list[Any] = [shape.type_info(relaxed(type_))]
    seen: set[int] = set()
    while todo:
        info = todo.pop()
        if id(info) in seen:
            continue
        seen.add(id(info))
        if isinstance(info, shape.CustomType) and info.cls is not Path:
            raise TypeError(
                f"values of type {info.cls.__name__} cannot be stored; use plain data, a Struct "
                "or a dataclass"
            )
        for name in ("type", "item_type", "value_type"):
            todo += [below] if (below := getattr(info, name, None)) is not None else []
        for name in ("types", "item_types", "fields"):
            todo += getattr(info, name, ())


@lru_cache(maxsize=1024, typed=True)
def _look_through_once(type_: Any) -> None:
    """A loop asks for the same type again with each message, and so does each replay of it."""
    _look_through(type_)


def decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    """msgspec's decoder for `type_`. Raises TypeError with a sentence if there is none."""
    try:
        return cached_decoder(type_)
    except TypeError:
        # Not hashable, or not a type msgspec knows: the second call tells.
        pass
    try:
        return msgspec.json.Decoder(relaxed(type_))
    except (TypeError, ValueError, NameError, AttributeError) as error:
        name = getattr(type_, "__name__", None) or repr(type_)
        raise TypeError(f"values of type {name} cannot be stored: {error}") from None


@lru_cache(maxsize=1024, typed=True)
def cached_decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    """`decoder`, for what can be hashed and decoded; raises TypeError for the rest."""
    return msgspec.json.Decoder(relaxed(type_))


#: Annotations that say nothing of how a value is stored.
_ANYTHING: tuple[Any, ...] = (
    object,
    NoReturn,
    Never,
    abc.Iterable,
    abc.Collection,
    abc.Container,
    abc.Hashable,
    abc.Sized,
)


#: Types whose values say in the text what they are.
_TAGGED: frozenset[Any] = frozenset(
    {
        *(list, dict, tuple, set, frozenset, bytes),
        *(datetime, date, time, timedelta, Decimal, UUID, Path),
        *(type(None), bool, str, int, float),
    }
)


def relaxed(type_: Any) -> Any:
    """`type_` as msgspec shall read it, wider where tags say more than the annotation.

    `float` is `int | float`: an int is a float to every type checker, so `-> float` may return 1,
    and it comes back as 1. `object`, `Iterable` and a union such as `datetime | str`, which
    msgspec cannot tell apart by text but tags can, are Any.
    """
    if type_ is float:
        return int | float
    origin = get_origin(type_)
    if type_ in _ANYTHING or origin in _ANYTHING:
        return Any
    args = get_args(type_)
    if origin in (Union, types.UnionType):
        union: Any = Union[tuple(relaxed(arg) for arg in args)]  # noqa: UP007 - built from parts
        return Any if _told_apart_by_tags(union) else union
    if origin in (list, set, frozenset, tuple, dict) and args:
        return cast(Any, origin)[tuple(arg if arg is ... else relaxed(arg) for arg in args)]
    return type_


def _told_apart_by_tags(union: Any) -> bool:
    """Whether msgspec refuses a union that holds nothing an annotation would be needed for."""
    if any(_needs_annotation(member) for member in get_args(union)):
        return False
    try:
        msgspec.json.Decoder(union)
    except TypeError:
        return True
    return False


def _needs_annotation(type_: Any) -> bool:
    origin = get_origin(type_)
    if origin in (list, set, frozenset, tuple, dict, Union):
        return any(_needs_annotation(arg) for arg in get_args(type_) if arg is not ...)
    return type_ is not Any and type_ not in _TAGGED
