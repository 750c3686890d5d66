"""Values to JSON text and back, exactly or not at all (spec V1, V2, E4, O2).

Plain JSON values stand for themselves. What JSON has no word for is an array that begins with
the mark "$ys" and a tag: `["$ys","tuple",1,2]`, `["$ys","datetime","2026-11-30T16:00:00"]`. A list
of the user's that begins with "$ys" is itself written as `["$ys","list",...]`, so that it comes
back as the list it was. Enum, dataclass and Struct are plain values and objects; an annotation
has to lead to them. Nothing here ever unpickles, imports or names a class found in data.

The quick path lets msgspec write and read; `codec_exact` is the sure one, and says what is wrong
with a value that is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from itertools import repeat
from math import copysign, isfinite
from typing import Any, TypeVar, cast

import msgspec

from yieldstar_cli.codec_types import cached_decoder, check_type, decoder, relaxed
from yieldstar_cli.codec_words import readable, too_large
from yieldstar_cli.errors import UnserializableValue
from yieldstar_cli.json_text import MAX_VALUE, Json
from yieldstar_cli.strict_json import JsonError, parse_json

#: How deeply lists, dicts and the like may be nested (spec V1).
MAX_DEPTH = 500
#: Every tagged value, and nothing else, begins with this in encoded text.
MARK = "$ys"
_MARKED = f'["{MARK}",'
_MARKED_BYTES = _MARKED.encode()
#: Plain integers are those of 64 bits; others are tagged.
INT_MIN, INT_MAX = -(2**63), 2**63 - 1

_to_json = msgspec.json.Encoder().encode
_ATOMS: frozenset[type] = frozenset({type(None), bool, str, int, float})

T = TypeVar("T")


class DecodeError(ValueError):
    """The text is not what `encode` writes, or does not fit the type; says where."""


def encode(value: object, type_: Any = Any, *, place: str = "value", limit: int = MAX_VALUE) -> str:
    """The compact JSON text of `value`, which `decode(text, type_)` turns back into the same.

    "The same" is checked before it is promised: types and values, recursively; 1, 1.0 and True
    differ, -0.0 is not 0.0, NaN is NaN. Raises UnserializableValue with the exact place
    (`params.items[3].price`) for what would not come back, and for text beyond `limit` bytes.
    A `Json` is returned as it is. Source: spec V1, V2, O2.
    """
    if type(value) is Json:
        return value
    raw = _quick(value, type_)
    if raw is None:
        from yieldstar_cli import codec_exact

        raw = _or_refused(place, codec_exact.encode_exactly, value, type_, place, limit)
    if len(raw) > limit:
        raise too_large(place, len(raw), limit)
    return raw.decode("utf-8")


def encode_itself(value: object, *, place: str = "value") -> str:
    """`encode`, a dataclass or Struct by its own type: for what is sent, not declared here.

    Raises UnserializableValue. Source: spec V1.
    """
    own = type(value)
    annotated = is_dataclass(value) or hasattr(own, "__struct_fields__")
    return encode(value, own if annotated else Any, place=place)


def decode(text: str, type_: Any = Any) -> Any:
    """A fresh value from what `encode` wrote, as `type_` says. Raises DecodeError with the place.

    Source: spec V1, O2.
    """
    if type(text) is str and _MARKED not in text:
        # As nearly always, and a third of the time that the sure way takes.
        try:
            return cached_decoder(type_).decode(text)
        except Exception:  # noqa: S110  # it is read again below, which says why
            pass
    try:
        return roomy(decode_unguarded, text, type_)
    except DecodeError:
        raise
    except RecursionError:
        raise DecodeError("the value is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise DecodeError(readable(str(error))) from None
    except TypeError as error:
        raise DecodeError(str(error)) from None
    except Exception as error:
        # Code of the author's that runs when one is made: a __post_init__, an Enum's _missing_.
        raise DecodeError(f"{type(error).__name__}: {error}") from error


def settle(value: object, type_: Any, *, place: str = "value") -> Any:
    """`value` as it comes back from storage, checked against `type_`, in one pass.

    This makes the int default of a float field a float. Raises UnserializableValue where there is
    no way to write a part of it, DecodeError where the result does not fit `type_`.
    """
    from yieldstar_cli import codec_tags

    raw = _or_refused(place, codec_tags.pack, value, place, MAX_VALUE)
    return decode(raw.decode("utf-8"), type_)


def _or_refused(place: str, function: Callable[..., bytes], *args: Any) -> bytes:
    """`function(*args)`, whatever code of the value's own class does meanwhile."""
    try:
        return roomy(function, *args)
    except (UnserializableValue, MemoryError):
        raise
    except RecursionError:
        raise UnserializableValue(place, "nested too deeply; store it flat") from None
    except Exception as error:
        reason = f"it cannot be taken apart: {type(error).__name__}: {error}"
        raise UnserializableValue(place, reason) from None


# --- the quick path --------------------------------------------------------------------------


def _quick(value: object, type_: Any) -> bytes | None:
    """The text, if this is quick to know to be exact; None asks for the exact path."""
    kind = type(value)
    try:
        if kind in _ATOMS:
            if (kind is type_ or type_ is Any) and _is_plain_atom(value):
                return _to_json(value)
        elif type_ is Any:
            if not _is_plain(value):
                return None
            raw = _to_json(value)
            return None if _MARKED_BYTES in raw else raw
        raw = _to_json(value)
        if _MARKED_BYTES in raw:
            return None
        return raw if _same(value, decoder(type_).decode(raw), 0) else None
    except Exception:
        # The exact path decides, and says what is wrong.
        return None


def _is_plain_atom(value: Any) -> bool:
    if type(value) is float:
        return isfinite(value)
    return type(value) is not int or INT_MIN <= value <= INT_MAX


def _is_plain(value: object) -> bool:
    """Whether JSON as such can write `value` exactly: level by level, without recursion."""
    level: list[Any] = [value]
    parts = 0
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for container in level:
            parts += len(container)
            items: Iterable[Any] = container
            if type(container) is dict:
                for key in container:
                    if type(key) is not str:
                        return False
                items = container.values()
            elif type(container) is not list:
                return False
            for item in items:
                kind = type(item)
                if kind in _ATOMS:
                    if (kind is int or kind is float) and not _is_plain_atom(item):
                        return False
                elif kind is dict or kind is list:
                    below.append(item)
                else:
                    return False
        if parts > MAX_VALUE:
            return False
        if not below:
            return True
        if len(below) > 1000 and len(set(map(id, below))) < len(below):
            # Shared parts may multiply without end: the exact path counts them.
            return False
        level = below
    return False


def _same(ours: Any, back: Any, depth: int) -> bool:
    """Whether `back` is what was written, of types that need no tag."""
    kind = type(ours)
    if kind is not type(back) or depth > MAX_DEPTH:
        return False
    if kind in _ATOMS:
        if kind is str or kind is bool or ours is None:
            return bool(ours == back)
        return _is_plain_atom(ours) and bool(
            ours == back and (kind is not float or copysign(1.0, ours) == copysign(1.0, back))
        )
    if kind is list:
        return len(ours) == len(back) and all(map(_same, ours, back, repeat(depth + 1)))
    if kind is dict:
        return list(ours) == list(back) and all(
            type(key) is str and _same(item, back[key], depth + 1) for key, item in ours.items()
        )
    if isinstance(ours, Enum):
        return ours is back
    if isinstance(ours, msgspec.Struct) and not kind.__dictoffset__:
        # It has no attributes beside its fields.
        for name in kind.__struct_fields__:
            if not _same(getattr(ours, name), getattr(back, name), depth + 1):
                return False
        return True
    if isinstance(ours, msgspec.Struct) or is_dataclass(kind):
        names = attribute_names(ours)
        return attribute_names(back) == names and all(
            _same(getattr(ours, name), getattr(back, name), depth + 1) for name in names
        )
    return ours is msgspec.UNSET


def attribute_names(value: Any) -> list[str]:
    """The attributes that make up a Struct or dataclass, undeclared ones included."""
    if isinstance(value, msgspec.Struct):
        names = list(value.__struct_fields__)
    else:
        names = [field.name for field in fields(value)]
    extra = getattr(value, "__dict__", None)
    if extra:
        names += [name for name in extra if name not in names]
    return names


# --- decoding --------------------------------------------------------------------------------


def decode_unguarded(text: str | bytes, type_: Any) -> Any:
    """`decode` without its errors put into words."""
    if isinstance(text, Json):
        text = str(text)  # msgspec reads str itself only
    marked = _MARKED_BYTES in text if isinstance(text, bytes) else _MARKED in text
    if not marked:
        return decoder(type_).decode(text)
    from yieldstar_cli import codec_tags

    tree = codec_tags.unpack(msgspec.json.decode(text))
    if type_ is Any:
        return tree
    return msgspec.convert(tree, relaxed(type_), strict=True)


# --- shared ----------------------------------------------------------------------------------


def roomy(function: Callable[..., T], *args: Any) -> T:
    """`function(*args)`; where the stack is too full for it, once more on a thread of its own.

    A nested value needs a stack level per level; how much is left depends on the caller.
    """
    try:
        return function(*args)
    except RecursionError:
        pass
    import threading

    ended: list[tuple[bool, Any]] = []

    def run() -> None:
        try:
            ended.append((True, function(*args)))
        except BaseException as error:
            ended.append((False, error))

    thread = threading.Thread(target=run, name="yieldstar-deep-value")
    thread.start()
    thread.join()
    good, answer = ended[0]
    if not good:
        raise answer
    return cast(T, answer)


__all__ = [
    "MAX_DEPTH",
    "MAX_VALUE",
    "DecodeError",
    "Json",
    "JsonError",
    "check_type",
    "decode",
    "encode",
    "encode_itself",
    "parse_json",
    "readable",
    "settle",
    "too_large",
]
