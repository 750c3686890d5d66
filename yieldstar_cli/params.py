"""Params on their way in: checked against what a workflow declares, defaults filled in (spec V4).

Params come from `-p` options (`coerce`), from programs (`validate`); what a workflow declares is
a Struct, a dataclass or plain keyword arguments (`struct_from_signature`), and is described for
those who have not loaded its module in `params_describe`.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from yieldstar_cli.strict_json import JsonError, parse_json


@dataclass(frozen=True, slots=True)
class Pair:
    """One `-p` option: `a.b=text`, or `a.b:=JSON` with `is_json`."""

    path: str
    text: str
    is_json: bool = False


def signature(type_: Any) -> str:
    """What a workflow takes, in one line: `order: int, note: str = ""`."""
    parts = [
        f"{field.name}: {field.type_text}" + ("" if field.required else f" = {field.default_text}")
        for field in table(describe(type_))
    ]
    return ", ".join(parts) or "no params"


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
        raise _invalid(type_, "params", f"expected a JSON object, got {value_text(base)}")
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
        raise _invalid(type_, "params", f"{pair.path!r} is no parameter name")
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
            raise _invalid(type_, place, f"given beside {both}, which holds it; give one of them")
    if len(same) == 1:
        return
    at = None if info is None else _type_at(type_, info, steps, same[0])
    if at is None or not params_text.is_list(at) or any(pair.is_json for pair in same):
        raise _invalid(
            type_,
            place,
            f"given {len(same)} times, but it takes one value",
            (f"-p {_option(same[-1])}",),
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
                raise _invalid(type_, f"{place}.{step}", at)
            raise _unknown(type_, place, step, names, pair, steps[:number], steps[number + 1 :])
        info = found
        place += f".{step}"
    return info


def _unknown(
    type_: Any,
    place: str,
    name: str,
    names: list[str],
    pair: Pair | None = None,
    before: tuple[str, ...] = (),
    after: tuple[str, ...] = (),
) -> InvalidParams:
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(names)}"
    remedy: tuple[str, ...] = ()
    if near and pair is not None:
        path = ".".join((*before, near[0], *after))
        remedy = (f"-p {_option(Pair(path, pair.text, pair.is_json))}",)
    return _invalid(type_, f"{place}.{name}", f"there is no such parameter{hint}", remedy)


def _option(pair: Pair) -> str:
    return shlex.quote(f"{pair.path}{':' if pair.is_json else ''}={pair.text[:200]}")


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
        raise _invalid(type_, place, str(error).removeprefix(f"{place}: ")) from None
    except params_text.Misfit as misfit:
        got = " and ".join(value_text(pair.text) for pair in same[:5])
        fixed = Pair(first.path, misfit.suggestion) if misfit.suggestion is not None else None
        remedy = (f"-p {_option(fixed)}",) if fixed and len(same) == 1 else ()
        raise _invalid(type_, place, f"expected {misfit.expected}, got {got}", remedy) from None


def _put(type_: Any, tree: dict[str, Any], steps: tuple[str, ...], value: Any, place: str) -> None:
    for step in steps[:-1]:
        below = tree.get(step)
        if below is not None and not isinstance(below, dict):
            raise _invalid(type_, place, f"{step} is {value_text(below)} already, not an object")
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
        raise _invalid(
            type_, place, f"expected {type_.__name__} or a mapping, got {type(value).__name__}"
        )
    return _checked(type_, dict(value), place)


def _checked(type_: Any, tree: dict[str, Any], place: str) -> Any:
    """The instance of `type_` that `tree` makes."""
    try:
        _refuse_unknown(type_, type_info(type_), tree, place)
        made = codec.roomy(partial(msgspec.convert, dec_hook=_path_hook), tree, type_)
    except msgspec.ValidationError as error:
        raise _misfit(type_, tree, str(error), place) from None
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise _invalid(type_, place, str(error) or type(error).__name__) from None
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
        raise _invalid(type_, f"{place}.{where}" if where else place, said) from None


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
                raise _unknown(type_, place, str(name), list(fields))


# --- words -------------------------------------------------------------------------------------


def _invalid(type_: Any, place: str, reason: str, remedy: Sequence[str] = ()) -> InvalidParams:
    why = () if type_ is None else (f"It takes: {signature(type_)}",)
    return InvalidParams(f"{place}: {reason}", why=why, remedy=remedy)


def _misfit(type_: Any, tree: Any, message: str, place: str) -> InvalidParams:
    """msgspec's sentence with the place and the value that was given."""
    said, _, where = message.partition(" - at `")
    path = where.rstrip("`").removeprefix("$")
    missing = re.fullmatch(r"Object missing required field `(.+)`", said)
    if missing:
        name = missing.group(1)
        option = f"{path}.{name}".lstrip(".")
        remedy = (f"-p {option}=…",) if "[" not in option else ()
        return _invalid(type_, f"{place}{path}.{name}", "it has to be given", remedy)
    known, value = _look(tree, path)
    wrong = re.match(r"Expected `(.+)`, got `(.+)`$", said)
    if wrong:
        got = value_text(value) if known else wrong.group(2)
        return _invalid(type_, place + path, f"expected {wrong.group(1)}, got {got}")
    got = f", got {value_text(value)}" if known else ""
    return _invalid(type_, place + path, codec.readable(said) + got)


def _look(tree: Any, path: str) -> tuple[bool, Any]:
    for name, index in re.findall(r"\.([^.\[]+)|\[([^\]]*)\]", path):
        try:
            tree = tree[name] if name else tree[int(index)]
        except (KeyError, IndexError, TypeError, ValueError):
            return False, None
    return True, tree


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
