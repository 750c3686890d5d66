"""How a refused value and its place are put into words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any

import msgspec

from yieldstar_cli.errors import UnserializableValue

#: Where in a value we are: the way to the container, a step `.name` or `[0]`, the container.
Where = tuple[Any, str, int] | None


def path_text(place: str, where: Where) -> str:
    """The place as people write it: `params.items[3].price`; the middle of a long one cut."""
    steps: list[str] = []
    while where is not None:
        where, step, _ = where
        steps.append(step)
    if len(steps) > 40:
        steps[20:-20] = ["…"]
    return place + "".join(reversed(steps))


def key_step(key: str) -> str:
    """The step to a dict's item: `.name`, or `["any text"]`."""
    if key.isascii() and key.isidentifier() and len(key) <= 61:
        return f".{key}"
    short = key if len(key) <= 60 else key[:60] + "…"
    return "[" + msgspec.json.encode(short).decode() + "]"


def named(value: Any) -> str:
    """The type of `value` with its article: `an int`, `a threading.Lock`."""
    kind = type(value)
    name = kind.__qualname__
    module = kind.__module__
    full = name if module in ("builtins", "__main__") else f"{module}.{name}"
    return f"{'an' if full[:1].lower() in 'aeiou' else 'a'} {full}"


def advice(value: Any) -> str:
    """What to do with a value whose type cannot be stored."""
    if hasattr(value, "__await__"):
        return "await it, and pass what it gives"
    kinds: Iterable[type] = (str, int, float, list, dict, tuple, set, bytes, datetime)
    for base in kinds:
        if isinstance(value, base):
            return f"pass {base.__name__}(...) of it, or a Struct or dataclass"
    return "pass plain data, a Struct or a dataclass"


def changed_kind(ours: Any, back: Any) -> str:
    """Why a value that would come back as another type is refused, and what to write."""
    if isinstance(ours, msgspec.Struct | Enum) or is_dataclass(ours):
        name = type(ours).__name__
        return (
            f"{named(ours)} would come back as {type(back).__name__}; annotate it, so that the "
            f"declared type leads to {name} (-> {name} for a result)"
        )
    return (
        f"{type(ours).__name__} {shown(ours)} would come back as {type(back).__name__} "
        f"{shown(back)}; the declared type does not fit"
    )


def shown(value: object) -> str:
    """`repr(value)`, short, whatever it does."""
    try:
        text = repr(value)
    except Exception:
        # An int of more than 4,300 digits, for one.
        return f"<{type(value).__name__}>"
    return text if len(text) <= 60 else text[:59] + "…"


def readable(message: str) -> str:
    """msgspec's sentence in our manner: `expected int, got str at items[3].price`."""
    said, _, where = message.partition(" - at `")
    said = said.replace("`", "").replace("Expected", "expected", 1).replace("Object", "object", 1)
    if not where:
        return said
    return f"{said} at {where.rstrip('`').removeprefix('$').removeprefix('.')}"


def too_large(place: str, size: int, limit: int) -> UnserializableValue:
    """The refusal of a value beyond the limit (spec V2)."""
    return UnserializableValue(
        place,
        f"{size:,} bytes of JSON are more than the limit of {limit:,}; write the data to a file "
        "or table of your own and pass its name",
    )
