"""Params on their way in: checked against what a workflow declares, defaults filled in (spec V4).

Params come from `-p` options (`coerce`), from programs (`validate`); what a workflow declares is
a Struct, a dataclass or plain keyword arguments (`struct_from_signature`), and is described for
those who have not loaded its module in `params_describe`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from yieldstar_cli import codec, params_text
from yieldstar_cli.errors import InvalidExecutionEvent, InvalidParams, UnserializableValue
from yieldstar_cli.params_describe import describe, opaque, type_info
from yieldstar_cli.params_rebuild import rebuild
from yieldstar_cli.params_signature import struct_from_signature
from yieldstar_cli.params_table import NoParams, ParamField, schema, table, value_text
from yieldstar_cli.params_words import Pair, does_not_fit, invalid, option_text, signature, unknown
from yieldstar_cli.strict_json import JsonError, parse_json

# --- from the command line ---------------------------------------------------------------------


def coerce(type_: Any, pairs: Sequence[Pair], base: object | None = None) -> Any:
    """Params from `-p` options over `base`, the object of `--params` (spec V4).

    With a declared type: its validated instance, defaults filled in. With None, where nothing is
    known of the workflow: a plain dict in which text is str. Raises InvalidParams with the place,
    what was expected and what was given, a corrected option, and the signature; and
    InvalidExecutionEvent for text that cannot be stored, such as a lone surrogate.
    """
    if base is None:
        base = {}
    if not isinstance(base, dict):
        raise invalid(type_, "params", f"expected a JSON object, got {value_text(base)}")
    tree: dict[str, Any] = dict(base)
    info = None if type_ is None else _info(type_)
    given: dict[tuple[str, ...], list[Pair]] = {}
    for pair in pairs:
        given.setdefault(_steps(type_, pair), []).append(pair)
    for steps, same in given.items():
        _check_once(type_, steps, same, info, given)
        place = "params." + ".".join(steps)
        at = _type_at(type_, info, steps, same[0])
        _put(type_, tree, steps, _value(type_, place, at, same), place)
    if type_ is None:
        return _storable(tree)
    return _checked(type_, tree, "params")


def _info(type_: Any) -> Any:
    try:
        return type_info(type_)
    except TypeError as error:
        raise InvalidParams(f"params: this type cannot be checked: {error}") from None


def _steps(type_: Any, pair: Pair) -> tuple[str, ...]:
    steps = tuple(pair.path.split("."))
    if not all(steps):
        raise invalid(type_, "params", f"{pair.path!r} is no parameter name")
    return steps


def _check_once(
    type_: Any,
    steps: tuple[str, ...],
    same: list[Pair],
    info: Any,
    given: Mapping[tuple[str, ...], object],
) -> None:
    place = "params." + ".".join(steps)
    for length in range(1, len(steps)):
        if steps[:length] in given:
            both = ".".join(steps[:length])
            raise invalid(type_, place, f"given beside {both}, which holds it; give one of them")
    if len(same) == 1:
        return
    at = None if info is None else _type_at(type_, info, steps, same[0])
    if at is None or not params_text.is_list(at) or any(pair.is_json for pair in same):
        raise invalid(
            type_,
            place,
            f"given {len(same)} times, but it takes one value",
            (f"-p {option_text(same[-1])}",),
        )


def _type_at(type_: Any, info: Any, steps: tuple[str, ...], pair: Pair) -> Any:
    """The declared type at `steps`, or None where anything goes. Raises InvalidParams."""
    place = "params"
    for number, step in enumerate(steps):
        if info is None:
            return None
        names: list[str] = []
        found = None
        for record in params_text.records(info):
            fields = {field.encode_name: field.type for field in record.fields}
            names += fields
            found = found or fields.get(step)
            if found is None and step == getattr(record, "tag_field", None):
                found = msgspec.inspect.AnyType()
        if found is None:
            found = params_text.item_of(info)
        if found is None:
            if not names:
                at = "it takes no params" if number == 0 else f"{place} has no parts with names"
                raise invalid(type_, f"{place}.{step}", at)
            raise unknown(type_, place, step, names, pair, steps[:number], steps[number + 1 :])
        info = found
        place += f".{step}"
    return info


def _value(type_: Any, place: str, at: Any, same: list[Pair]) -> Any:
    first = same[0]
    try:
        if first.is_json:
            return parse_json(first.text, place)
        if at is None:
            return first.text
        if len(same) > 1:
            return params_text.from_texts(at, [pair.text for pair in same])
        return params_text.from_text(at, first.text)
    except JsonError as error:
        raise invalid(type_, place, str(error).removeprefix(f"{place}: ")) from None
    except params_text.Misfit as misfit:
        got = " and ".join(value_text(pair.text) for pair in same[:5])
        fixed = Pair(first.path, misfit.suggestion) if misfit.suggestion is not None else None
        remedy = (f"-p {option_text(fixed)}",) if fixed and len(same) == 1 else ()
        raise invalid(type_, place, f"expected {misfit.expected}, got {got}", remedy) from None


def _put(type_: Any, tree: dict[str, Any], steps: tuple[str, ...], value: Any, place: str) -> None:
    for step in steps[:-1]:
        below = tree.get(step)
        if below is not None and not isinstance(below, dict):
            raise invalid(type_, place, f"{step} is {value_text(below)} already, not an object")
        # A copy: what was given whole is the caller's.
        below = tree[step] = dict(below or {})
        tree = below
    tree[steps[-1]] = value


# --- from programs -----------------------------------------------------------------------------


def validate(type_: Any, value: object, place: str = "params") -> Any:
    """Params that a program passes: an instance of `type_`, or a mapping that fits it.

    Returns the instance as storage gives it back, defaults filled in. `type_` None is a workflow
    without params, which takes None or an empty mapping. Raises InvalidParams, or
    InvalidExecutionEvent for a value that cannot be stored. Source: spec E4, V4.
    """
    type_ = NoParams if type_ is None else type_
    if value is None:
        value = {}
    if isinstance(value, type_):
        return _settled(type_, value, place)
    if not isinstance(value, Mapping):
        raise invalid(
            type_, place, f"expected {type_.__name__} or a mapping, got {type(value).__name__}"
        )
    return _checked(type_, dict(value), place)


def _checked(type_: Any, tree: dict[str, Any], place: str) -> Any:
    """The instance of `type_` that `tree` makes."""
    try:
        _refuse_unknown(type_, type_info(type_), tree, place)
        made = codec.roomy(partial(msgspec.convert, dec_hook=_path_hook), tree, type_)
    except msgspec.ValidationError as error:
        raise does_not_fit(type_, tree, str(error), place) from None
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise invalid(type_, place, str(error) or type(error).__name__) from None
    return _settled(type_, made, place)


def _path_hook(wanted: Any, value: Any) -> Any:
    if wanted is Path and isinstance(value, str | Path):
        return Path(value)
    raise TypeError(f"expected {getattr(wanted, '__name__', wanted)}, got {type(value).__name__}")


def _settled(type_: Any, made: Any, place: str) -> Any:
    try:
        return codec.settle(made, type_, place=place)
    except UnserializableValue as error:
        raise InvalidExecutionEvent(error.place, error.reason) from None
    except codec.DecodeError as error:
        said, _, where = str(error).partition(" at ")
        raise invalid(type_, f"{place}.{where}" if where else place, said) from None


def _storable(tree: dict[str, Any]) -> dict[str, Any]:
    try:
        codec.encode(tree, place="params")
    except UnserializableValue as error:
        raise InvalidExecutionEvent(error.place, error.reason) from None
    return tree


def _refuse_unknown(type_: Any, info: Any, value: Any, place: str) -> None:
    """Refuse names that no field has, at any depth: msgspec would pass over them."""
    todo: list[tuple[Any, Any, str]] = [(info, value, place)]
    while todo:
        info, value, place = todo.pop()
        if isinstance(value, list):
            item = params_text.elements_of(info)
            if item is not None:
                todo += [(item, part, f"{place}[{n}]") for n, part in enumerate(value)]
        if not isinstance(value, dict):
            continue
        found = params_text.records(info)
        item = params_text.item_of(info)
        fields = {field.encode_name: field.type for record in found for field in record.fields}
        tags = {getattr(record, "tag_field", None) for record in found}
        for name, part in value.items():
            below = fields.get(name, item)
            if below is not None:
                todo.append((below, part, f"{place}.{name}"))
            elif found and name not in tags:
                raise unknown(type_, place, str(name), list(fields))


__all__ = [
    "NoParams",
    "Pair",
    "ParamField",
    "coerce",
    "describe",
    "opaque",
    "rebuild",
    "schema",
    "signature",
    "struct_from_signature",
    "table",
    "validate",
]
