"""Functions given to stores are ordinary ones: they answer at once (spec S2)."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any


def check_pure(fn: Callable[..., Any]) -> None:
    """Raise TypeError, with a sentence, if `fn` is async or a generator. Source: spec S2."""
    if not callable(fn):
        raise TypeError(f"a store is given a function, not {type(fn).__name__}")
    written: Any = fn
    while isinstance(written, partial):
        written = written.func
    if not inspect.isroutine(written) and not isinstance(written, type):
        written = type(written).__call__
    written = inspect.unwrap(written)
    name = getattr(fn, "__name__", type(fn).__name__)
    if inspect.iscoroutinefunction(written) or inspect.isasyncgenfunction(written):
        raise TypeError(
            f"{name} is async; a function given to a store only computes: write `def`, and await "
            "in steps before or after"
        )
    if inspect.isgeneratorfunction(written):
        raise TypeError(
            f"{name} is a generator function; a function given to a store returns its answer"
        )


def refuse_lazy(answer: object) -> None:
    """Raise TypeError if `answer` would only be computed later. Source: spec S2."""
    if isinstance(answer, Awaitable | AsyncIterator | Iterator):
        if inspect.iscoroutine(answer):
            answer.close()
        raise TypeError(
            f"a function given to a store answered with a {type(answer).__name__}, which is "
            "computed later; answer with a value, such as a list"
        )
