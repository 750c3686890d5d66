"""Params on their way in: checked against what a workflow declares, defaults filled in (spec V4).

Params come from `-p` options (`coerce`), from programs (`validate`); what a workflow declares is
a Struct, a dataclass or plain keyword arguments (`struct_from_signature`), and is described for
those who have not loaded its module in `params_describe`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import msgspec

from yieldstar_cli import codec, params_text
from yieldstar_cli.errors import InvalidExecutionEvent, InvalidParams, UnserializableValue
from yieldstar_cli.params_describe import describe, type_info
from yieldstar_cli.params_plain import Pair, opaque
from yieldstar_cli.params_rebuild import rebuild
from yieldstar_cli.params_signature import struct_from_signature
from yieldstar_cli.params_table import NoParams, ParamField, schema, table, value_text
from yieldstar_cli.params_words import does_not_fit, invalid, no_such, option_text, signature
from yieldstar_cli.strict_json import JsonError, parse_json

# --- from the command line ---------------------------------------------------------------------


def coerce(
    type_: Any,
    pairs: Sequence[Pair],
    base: object | None = None,
    *,
    place: str = "params",
    option: str = "-p",
) -> Any:
    """Params from `-p` options over `base`, the object of `--params` (spec V4).

    With a declared type: its validated instance, defaults filled in. With None, where nothing is
    known of the workflow: a plain dict in which text is str. `place` and `option` are for the
    words of a refusal. Raises InvalidParams with the place, what was expected and what was given,
    a corrected option, and the signature; and InvalidExecutionEvent for text that cannot be
    stored, such as a lone surrogate.
    """
    if base is None:
        base = {}
    if not isinstance(base, dict):
        raise invalid(type_, place, f"expected a JSON object, got {value_text(base)}")
    tree: dict[str, Any] = dict(base)
    _Options(type_, pairs, place, option).write(tree)
    if type_ is None:
        return _storable(tree, place)
    return _checked(type_, tree, place)


class _Options:
    """The options of one call, by the steps of their paths, and the type they have to fit."""

    def __init__(self, type_: Any, pairs: Sequence[Pair], place: str, option: str) -> None:
        self.type_ = type_
        self.place = place
        self.option = option
        self.given: dict[tuple[str, ...], list[Pair]] = {}
        for pair in pairs:
            steps = tuple(pair.path.split("."))
            if not all(steps):
                raise invalid(type_, place, f"{pair.path!r} is no parameter name")
            self.given.setdefault(steps, []).append(pair)

    def write(self, tree: dict[str, Any]) -> None:
        """Put every value where its path says. Raises InvalidParams."""
        for steps, same in self.given.items():
            wanted = self.type_at(steps, same[0])
            self.check_once(steps, same, wanted)
            self.put(tree, steps, self.value(steps, wanted, same))

    def refuse(
        self, steps: tuple[str, ...], reason: str, better: Pair | None = None
    ) -> InvalidParams:
        """The refusal at `steps`, with a better option where there is one."""
        remedy = () if better is None else (f"{self.option} {option_text(better)}",)
        return invalid(self.type_, ".".join((self.place, *steps)), reason, remedy)

    def type_at(self, steps: tuple[str, ...], pair: Pair) -> Any:
        """The declared type at `steps`, or None where anything goes. Raises InvalidParams."""
        info = None if self.type_ is None else _info(self.type_, self.place)
        for number, step in enumerate(steps):
            if info is None:
                return None
            found, names = params_text.part_of(info, step)
            if found is None:
                raise self.unknown(steps, number, names, pair)
            info = found
        return info

    def unknown(
        self, steps: tuple[str, ...], number: int, names: list[str], pair: Pair
    ) -> InvalidParams:
        """The refusal of a step that the type there does not have."""
        above = ".".join((self.place, *steps[:number]))
        if not names:
            reason = f"{above} has no parts with names" if number else "it takes no params"
            return self.refuse(steps[: number + 1], reason)
        near, reason = no_such(steps[number], names)
        better = None
        if near is not None:
            path = ".".join((*steps[:number], near, *steps[number + 1 :]))
            better = Pair(path, pair.text, pair.is_json)
        return self.refuse(steps[: number + 1], reason, better)

    def check_once(self, steps: tuple[str, ...], same: list[Pair], wanted: Any) -> None:
        """Refuse a scalar that is given twice, and a part beside its whole."""
        for length in range(1, len(steps)):
            if steps[:length] in self.given:
                both = ".".join(steps[:length])
                raise self.refuse(steps, f"given beside {both}, which holds it; give one of them")
        if len(same) == 1:
            return
        if wanted is None or not params_text.is_list(wanted) or any(pair.is_json for pair in same):
            raise self.refuse(steps, f"given {len(same)} times, but it takes one value", same[-1])

    def value(self, steps: tuple[str, ...], wanted: Any, same: list[Pair]) -> Any:
        """What the text of the option, or of its repetitions, stands for."""
        first = same[0]
        try:
            if first.is_json:
                return parse_json(first.text, "")
            if wanted is None:
                return first.text
            if len(same) > 1:
                return params_text.from_texts(wanted, [pair.text for pair in same])
            return params_text.from_text(wanted, first.text)
        except JsonError as error:
            raise self.refuse(steps, str(error).removeprefix(": ")) from None
        except params_text.Misfit as misfit:
            got = " and ".join(value_text(pair.text) for pair in same[:5])
            better = None
            if misfit.suggestion is not None and len(same) == 1:
                better = Pair(first.path, misfit.suggestion)
            reason = f"expected {misfit.expected}, got {got}"
            raise self.refuse(steps, reason, better) from None

    def put(self, tree: dict[str, Any], steps: tuple[str, ...], value: Any) -> None:
        """Write `value` at `steps`, below copies of what was given whole."""
        for number, step in enumerate(steps[:-1]):
            below = tree.get(step)
            if below is not None and not isinstance(below, dict):
                what = ".".join((self.place, *steps[: number + 1]))
                raise self.refuse(steps, f"{what} is {value_text(below)}, not an object")
            below = tree[step] = dict(below or {})
            tree = below
        tree[steps[-1]] = value


def _info(type_: Any, place: str) -> Any:
    try:
        return type_info(type_)
    except TypeError as error:
        raise InvalidParams(f"{place}: this type cannot be checked: {error}") from None


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
        _refuse_unknown(type_, _known_info(type_), tree, place)
        made = codec.roomy(partial(msgspec.convert, dec_hook=_path_hook), tree, type_)
    except msgspec.ValidationError as error:
        raise does_not_fit(type_, tree, str(error), place) from None
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise invalid(type_, place, str(error) or type(error).__name__) from None
    return _settled(type_, made, place)


@lru_cache(maxsize=256)
def _known_info(type_: Any) -> Any:
    return type_info(type_)


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


def _storable(tree: dict[str, Any], place: str) -> dict[str, Any]:
    try:
        codec.encode(tree, place=place)
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
                _, reason = no_such(str(name), list(fields))
                raise invalid(type_, f"{place}.{name}", reason)


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
