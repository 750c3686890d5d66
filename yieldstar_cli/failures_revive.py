"""Recorded errors back to exceptions, without importing or constructing anything (spec O2)."""

from __future__ import annotations

import builtins
import types
from collections.abc import Mapping
from typing import Any

from yieldstar_cli import codec, errors
from yieldstar_cli.codec import DecodeError
from yieldstar_cli.errors import StepFailed
from yieldstar_cli.failures_text import message_of


def decode_error(text: str, namespace: Mapping[str, Any]) -> Exception:
    """The exception that `encode_error` recorded, as a workflow may catch it.

    Its class is the first of the recorded MRO that is a builtin, one of our own errors, or named
    in `namespace` (the globals of the workflow's module), directly or as attribute of a module
    there. If that is only `Exception`, is no `Exception`, or is `StopIteration` or
    `StopAsyncIteration`, it is a `StepFailed` with the recorded name. `__init__` is not called
    and `str()` gives the recorded message. Raises DecodeError for damaged text. Source: spec O2.
    """
    found = codec.decode(text)
    try:
        return _revive(found, namespace)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DecodeError(f"the recorded error is damaged: {error!r}") from None


def _revive(found: dict[str, Any], namespace: Mapping[str, Any]) -> Exception:
    message: str = found["message"]
    kind = _first_known(found["mro"], namespace)
    members = tuple(_revive(member, namespace) for member in found.get("members", ()))
    revived = None
    if kind is not None and (members or not issubclass(kind, BaseExceptionGroup)):
        revived = _made(kind, found, members, message)
    if revived is None:
        revived = StepFailed(message, found["name"])
    if "notes" in found:
        revived.__notes__ = list(found["notes"])
    if "cause" in found:
        revived.__cause__ = _revive(found["cause"], namespace)
    return revived


# --- which class ------------------------------------------------------------------------------


def _first_known(mro: list[list[str]], namespace: Mapping[str, Any]) -> type[Exception] | None:
    """The class to revive as; None asks for StepFailed."""
    for module, qualname in mro:
        kind: type[BaseException] | None = _named(module, qualname, namespace)
        if kind is not None:
            if kind is Exception or not issubclass(kind, Exception):
                return None
            if issubclass(kind, StopIteration | StopAsyncIteration):
                return None
            return kind
    return None


def _named(module: str, qualname: str, namespace: Mapping[str, Any]) -> Any:
    if module == "builtins":
        return _within(vars(builtins).get(qualname), [], module, qualname)
    if module == errors.__name__:
        return _within(vars(errors).get(qualname), [], module, qualname)
    first, *rest = qualname.split(".")
    places = [namespace.get(first), *namespace.values()]
    for value in places:
        kind = _within(value, rest, module, qualname)
        if kind is not None:
            return kind
    for value in namespace.values():
        # vars(), not getattr(): a module's own __getattr__ may import.
        if isinstance(value, types.ModuleType):
            kind = _within(vars(value).get(first), rest, module, qualname)
            if kind is not None:
                return kind
    return None


def _within(value: Any, names: list[str], module: str, qualname: str) -> Any:
    """The class `names` below `value`, if it is an exception class of that very name."""
    for name in names:
        if not isinstance(value, type):
            return None
        value = vars(value).get(name)
    if (
        isinstance(value, type)
        and issubclass(value, BaseException)
        and value.__module__ == module
        and value.__qualname__ == qualname
    ):
        return value
    return None


# --- making one without its __init__ --------------------------------------------------------------


def _made(
    kind: type[Exception], found: dict[str, Any], members: tuple[Exception, ...], message: str
) -> Exception | None:
    """An instance of `kind`, or of a subclass that only speaks the recorded message."""
    plain = _filled(kind, found, members)
    if plain is not None and _says(plain, message):
        return plain
    if "args" not in found and not members:
        # Its arguments could not be stored; most classes say their only argument.
        plain = _filled(kind, {**found, "args": codec.encode([message])}, members)
        if plain is not None and _says(plain, message):
            return plain
    try:
        speaking = type(
            kind.__name__,
            (kind,),
            {
                "__module__": kind.__module__,
                "__qualname__": kind.__qualname__,
                "__doc__": kind.__doc__,
                "__str__": lambda self: message,
            },
        )
    except BaseException:
        return None
    return _filled(speaking, found, members)


def _filled(
    kind: type[Exception], found: dict[str, Any], members: tuple[Exception, ...]
) -> Exception | None:
    args = tuple(_stored(found.get("args"), []))
    made = _new(kind, (found.get("group", ""), members) if members else args)
    if made is None:
        return None
    try:
        if not members:
            made.args = args
        for name, text in found.get("slots", {}).items():
            descriptor = _descriptor(kind, name)
            if descriptor is not None:
                _set_slot(descriptor, made, _stored(text, None))
        vars(made).update({name: _stored(text, None) for name, text in _attrs(found)})
    except BaseException:
        return None
    return made


def _attrs(found: dict[str, Any]) -> list[tuple[str, str]]:
    return list(found.get("attrs", {}).items())


def _new(kind: type[Exception], args: tuple[Any, ...]) -> Exception | None:
    """`kind.__new__`; where the class's own does not take these arguments, its builtin base's."""
    base = next(cls for cls in kind.__mro__ if cls.__module__ == "builtins")
    for maker in (kind, base):
        try:
            made = maker.__new__(kind, *args)
        except BaseException:  # noqa: S112 - the next maker, or StepFailed
            continue
        if type(made) is kind:
            return made
    return None


def _descriptor(kind: type, name: str) -> Any:
    for base in kind.__mro__:
        found = vars(base).get(name)
        if isinstance(found, types.MemberDescriptorType):
            return found
    return None


def _set_slot(descriptor: Any, made: Exception, value: Any) -> None:
    try:
        descriptor.__set__(made, value)
    except (AttributeError, TypeError):
        # Read-only in C, and set by __new__ already.
        return


def _stored(text: str | None, default: Any) -> Any:
    if text is None:
        return default
    try:
        return codec.decode(text)
    except DecodeError:
        return default


def _says(error: Exception, message: str) -> bool:
    return message_of(error, max(len(message.encode()), 1)) == message and _sound(error)


def _sound(error: Exception) -> bool:
    try:
        str(error)
    except BaseException:
        return False
    return True
