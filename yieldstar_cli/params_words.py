"""How params that do not fit are answered: place, what was expected, a right option (spec V3)."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Sequence
from typing import Any

from yieldstar_cli import codec
from yieldstar_cli.errors import InvalidParams
from yieldstar_cli.params_describe import describe
from yieldstar_cli.params_plain import Pair
from yieldstar_cli.params_table import table, value_text


def signature(type_: Any) -> str:
    """What a workflow takes, in one line: `order: int, note: str = ""`."""
    parts = [
        f"{field.name}: {field.type_text}" + ("" if field.required else f" = {field.default_text}")
        for field in table(describe(type_))
    ]
    return ", ".join(parts) or "no params"


def invalid(type_: Any, place: str, reason: str, remedy: Sequence[str] = ()) -> InvalidParams:
    """The refusal at `place`, with the signature of what is declared."""
    why = () if type_ is None else (f"It takes: {signature(type_)}",)
    return InvalidParams(f"{place}: {reason}", why=why, remedy=remedy)


def does_not_fit(type_: Any, tree: Any, message: str, place: str) -> InvalidParams:
    """msgspec's sentence with the place and the value that was given."""
    said, _, where = message.partition(" - at `")
    path = where.rstrip("`").removeprefix("$")
    missing = re.fullmatch(r"Object missing required field `(.+)`", said)
    if missing:
        name = missing.group(1)
        option = f"{path}.{name}".lstrip(".")
        remedy = (f"-p {option}=…",) if "[" not in option else ()
        return invalid(type_, f"{place}{path}.{name}", "it has to be given", remedy)
    known, value = _look(tree, path)
    wrong = re.match(r"Expected `(.+)`, got `(.+)`$", said)
    if wrong:
        got = value_text(value) if known else wrong.group(2)
        return invalid(type_, place + path, f"expected {wrong.group(1)}, got {got}")
    got = f", got {value_text(value)}" if known else ""
    return invalid(type_, place + path, codec.readable(said) + got)


def _look(tree: Any, path: str) -> tuple[bool, Any]:
    for name, index in re.findall(r"\.([^.\[]+)|\[([^\]]*)\]", path):
        try:
            tree = tree[name] if name else tree[int(index)]
        except (KeyError, IndexError, TypeError, ValueError):
            return False, None
    return True, tree


def no_such(name: str, names: list[str]) -> tuple[str | None, str]:
    """The nearest of `names`, if any is near, and the sentence that refuses `name`."""
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        return near[0], f"there is no such parameter; did you mean {near[0]}?"
    return None, f"there is no such parameter; there are: {', '.join(names) or 'none'}"


def option_text(pair: Pair) -> str:
    """The option as it is typed at a shell."""
    return shlex.quote(f"{pair.path}{':' if pair.is_json else ''}={pair.text[:200]}")
