"""A Struct made of a function's plain typed keyword arguments (spec R1)."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import partial
from typing import Any, get_type_hints

import msgspec

from yieldstar_cli import codec


def struct_from_signature(fn: Callable[..., Any], skip_first: bool) -> Any:
    """A Struct of the plain typed keyword arguments of `fn`, or None when it takes none (R1).

    `skip_first` passes over the `step` argument. Raises TypeError with a sentence for arguments
    without a type, *args, **kwargs and positional-only ones, and for types that cannot be read.
    """
    taken = list(inspect.signature(fn).parameters.values())[1 if skip_first else 0 :]
    if not taken:
        return None
    hints = _hints(fn, {param.name for param in taken})
    fields: list[tuple[str, Any, Any]] = []
    for param in taken:
        if param.kind in (param.VAR_POSITIONAL, param.VAR_KEYWORD):
            raise TypeError(f"*{param.name} takes anything; name each argument, with its type")
        if param.kind is param.POSITIONAL_ONLY:
            raise TypeError(f"{param.name} is positional only; params are given by name")
        if param.name not in hints:
            raise TypeError(f"{param.name} has no type; write {param.name}: str, or what it is")
        fields.append((param.name, hints[param.name], _field(param.default)))
    name = "".join(part.capitalize() for part in fn.__name__.split("_")) + "Params"
    made = msgspec.defstruct(
        name, fields, kw_only=True, forbid_unknown_fields=True, module=fn.__module__
    )
    codec.check_type(made)
    return made


def _field(default: Any) -> Any:
    if default is inspect.Parameter.empty:
        return msgspec.field()
    if isinstance(default, list | dict | set) or is_dataclass(default):
        return msgspec.field(default_factory=partial(copy.deepcopy, default))
    return msgspec.field(default=default)


def _hints(fn: Callable[..., Any], names: set[str]) -> dict[str, Any]:
    """The resolved annotations of `names` only: that of `step` need not be importable."""
    wanted = {name: hint for name, hint in fn.__annotations__.items() if name in names}
    holder = type("Arguments", (), {"__annotations__": wanted})
    try:
        return get_type_hints(holder, globalns=getattr(fn, "__globals__", {}), include_extras=True)
    except NameError as error:
        raise TypeError(f"an annotation cannot be resolved: {error}") from None
