"""What is known of a function that steps run: worked out once, not each time it runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from yieldstar_cli.engine import naming
from yieldstar_cli.engine.values import result_type

#: What is known of functions that hold values of the functions around them.
Closures = WeakKeyDictionary[FunctionType, "Known"]


class Known:
    """One function: its key, what `step.run` of it is called, its result's type, its kind.

    Raises TypeError for a return annotation that cannot be resolved.
    """

    # Not the function itself: that would keep it alive.
    __slots__ = ("asynchronous", "key", "result_type", "run")

    def __init__(self, fn: Callable[..., Any]) -> None:
        #: None for what cannot be named, or cannot be run: `naming.function_key` says why.
        self.key: str | None
        try:
            self.key = naming.function_key(fn)
        except (ValueError, TypeError):
            self.key = None
        #: What errors call `step.run` of it; None for what has no name.
        name = getattr(fn, "__name__", None)
        self.run = None if name is None else f"step.run({name})"
        self.result_type: Any = result_type(fn)
        self.asynchronous = is_async(fn)


def known(fn: Callable[..., Any], closures: Closures) -> Known:
    """What is known of `fn`, which need not be one that can be run.

    It costs some 2 µs a step less to remember it. A function in a function may be a new one each
    time, and hold what its execution holds: it is remembered in `closures` for as long as it lives.
    What else can be called may say by an `__eq__` of its own that it is another: never.
    """
    if type(fn) is not FunctionType:
        return Known(fn)
    if fn.__closure__ is None:
        return _remembered(fn)
    found = closures.get(fn)
    if found is None:
        closures[fn] = found = Known(fn)
    return found


@lru_cache(maxsize=4096)
def _remembered(fn: FunctionType) -> Known:
    return Known(fn)


def is_async(fn: Callable[..., Any]) -> bool:
    """True for `async def`, also behind a partial or a callable object."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(
        getattr(fn, "__call__", None)  # noqa: B004  # asks how it is called, not whether
    )
