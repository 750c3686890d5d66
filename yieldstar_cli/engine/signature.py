"""What a workflow's function takes and gives, from its resolved annotations (spec R1, O2)."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
import types
from collections.abc import Callable
from typing import Any, Never, NoReturn, get_type_hints

from yieldstar_cli.errors import InvalidWorkflow


def params_of(fn: Callable[..., Any], *, skip_first: bool) -> tuple[Any, bool]:
    """The type that params decode to, and whether it was made of plain keyword arguments.

    `(None, False)` for a function without params. A single argument whose type is a Struct or
    a dataclass is the params themselves; anything else is plain typed keyword arguments.
    """
    taken = list(inspect.signature(fn).parameters.values())[1 if skip_first else 0 :]
    if not taken:
        return None, False
    _check_kinds(fn, taken)
    hints = resolved_hints(fn)
    for param in taken:
        if param.name not in hints:
            raise InvalidWorkflow(
                f"argument `{param.name}` of {fn.__name__} has no type",
                why=("Params are checked against it when an execution is triggered.",),
                remedy=(f"{param.name}: str, or a msgspec.Struct that holds all of them",),
            )
    only = taken[0]
    if len(taken) == 1 and only.kind is not only.KEYWORD_ONLY and is_record(hints[only.name]):
        _check_storable(fn, "params", hints[only.name])
        return hints[only.name], False
    from yieldstar_cli.params import struct_from_signature

    try:
        return struct_from_signature(fn, skip_first=skip_first), True
    except (TypeError, ValueError, NameError, AttributeError) as error:
        raise InvalidWorkflow(f"the arguments of {fn.__name__} cannot be params: {error}") from None


def result_of(fn: Callable[..., Any]) -> Any:
    """The return type of a workflow, or Any. Raises InvalidWorkflow for what cannot be stored."""
    annotated = resolved_hints(fn).get("return", Any)
    if annotated in (NoReturn, Never):
        return Any
    _check_storable(fn, "result", annotated)
    return annotated


def check_steps(fn: Callable[..., Any]) -> None:
    """Raise InvalidWorkflow if a step that `fn` runs by name has a result that cannot be stored.

    Seen are `….run(function, …)` and `….poll(function, …)`, where the function is one of the
    module's globals; others are met when they run (spec O2).
    """
    for step in step_functions(fn):
        try:
            annotated = _resolve(_only_return(step), step).get("return", Any)
        except Exception as error:
            code = step.__code__
            raise InvalidWorkflow(
                f"the result type of step {step.__name__} ({code.co_filename}:"
                f"{code.co_firstlineno}) cannot be resolved: {error}",
                remedy=("import the name in the module itself, not only for type checkers",),
            ) from None
        if annotated not in (NoReturn, Never):
            _check_storable(step, "result", annotated)


def step_functions(fn: Callable[..., Any]) -> list[types.FunctionType]:
    """The global functions that `fn` gives to `run` or `poll`, each once."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return []
    found: dict[str, types.FunctionType] = {}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        first = node.args[0] if node.args else None
        if node.func.attr in ("run", "poll") and isinstance(first, ast.Name):
            named = inspect.unwrap(fn).__globals__.get(first.id)
            if isinstance(named, types.FunctionType):
                found[first.id] = named
    return list(found.values())


def _only_return(fn: Callable[..., Any]) -> dict[str, Any]:
    return {name: hint for name, hint in fn.__annotations__.items() if name == "return"}


def is_record(annotation: Any) -> bool:
    """Whether `annotation` is a msgspec.Struct or a dataclass, so can be a workflow's params."""
    if not isinstance(annotation, type):
        return False
    return dataclasses.is_dataclass(annotation) or hasattr(annotation, "__struct_fields__")


def resolved_hints(fn: Callable[..., Any]) -> dict[str, Any]:
    """`typing.get_type_hints` of `fn`, `step` left aside: its class need not be imported."""
    try:
        first = next(iter(inspect.signature(fn).parameters), "")
        step = first if inspect.iscoroutinefunction(fn) else ""
        annotations = {name: hint for name, hint in fn.__annotations__.items() if name != step}
        return _resolve(annotations, fn)
    except Exception as error:
        raise InvalidWorkflow(
            f"an annotation of {fn.__name__} cannot be resolved: {error}",
            why=("Values are stored and read back by their types, so these must exist.",),
            remedy=("define or import the name in the module itself, for more than type checkers",),
        ) from None


def _check_storable(fn: Callable[..., Any], what: str, annotated: Any) -> None:
    from yieldstar_cli.codec import check_type

    try:
        check_type(annotated)
    except (TypeError, ValueError, NameError, AttributeError) as error:
        raise InvalidWorkflow(
            f"the {what} of {fn.__name__} cannot be stored: {error}",
            why=("Values are read back as the type that is annotated.",),
        ) from None


def _resolve(annotations: dict[str, Any], fn: Callable[..., Any]) -> dict[str, Any]:
    holder = type("Holder", (), {"__annotations__": annotations})
    namespace = getattr(inspect.unwrap(fn), "__globals__", {})
    return get_type_hints(holder, globalns=namespace, include_extras=True)


def _check_kinds(fn: Callable[..., Any], taken: list[inspect.Parameter]) -> None:
    for param in taken:
        if param.kind in (param.VAR_POSITIONAL, param.VAR_KEYWORD):
            raise InvalidWorkflow(
                f"{fn.__name__} takes *{param.name}, which cannot be checked or stored by name",
                remedy=(f"{param.name}: list[str] or dict[str, str], as one argument",),
            )
        if param.kind is param.POSITIONAL_ONLY and len(taken) > 1:
            raise InvalidWorkflow(
                f"argument `{param.name}` of {fn.__name__} is positional only",
                why=("Params are given by name.",),
                remedy=("leave out the / in its signature",),
            )
