"""`@workflow`: from an author's function to a workflow, or to a clear reason why not.

What can be seen at once (the name, the options, the shape of the function) is refused at the
decorator. Annotations may name classes further down in the module, so they are resolved when
the module has loaded: the registry asks for `Workflow.definition` then (spec R1, O2).
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Coroutine
from collections.abc import Set as AbstractSet
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from yieldstar_cli import clock
from yieldstar_cli.engine.definition import Definition
from yieldstar_cli.engine.naming import check_tag
from yieldstar_cli.engine.retry import RetryPolicy, Span
from yieldstar_cli.engine.signature import check_steps, params_of, result_of
from yieldstar_cli.engine.sources import NAME
from yieldstar_cli.errors import InvalidWorkflow

if TYPE_CHECKING:
    from yieldstar_cli.engine.step import Step

P = ParamSpec("P")
R = TypeVar("R")

#: Several tags; a lone text is none of these, so that its letters are never taken for tags.
Tags = AbstractSet[str] | list[str] | tuple[str, ...]

#: Where the registry gathers what a module declares while it loads; None at other times.
gathering: ContextVar[list[Workflow[..., Any]] | None] = ContextVar("gathering", default=None)


@dataclass(frozen=True, eq=False)
class Workflow(Generic[P, R]):
    """One workflow as its author wrote it. Calling it calls the function, for direct tests.

    `P` are its params (all that follows `step`), `R` is its result. Source: spec R1.
    """

    fn: Callable[..., Any]
    workflow_id: str
    version: int = 1
    retry: RetryPolicy | None = None
    timeout: Span | None = None
    tags: frozenset[str] = frozenset()

    @cached_property
    def definition(self) -> Definition:
        """Everything resolved. Raises InvalidWorkflow for annotations that cannot be used."""
        _check_first(self.fn)
        plain = not inspect.iscoroutinefunction(self.fn)
        params_type, spread = params_of(self.fn, skip_first=not plain)
        result_type = result_of(self.fn)
        check_steps(self.fn)
        written: types.FunctionType = inspect.unwrap(self.fn)
        code = written.__code__
        return Definition(
            workflow_id=self.workflow_id,
            version=self.version,
            fn=self.fn,
            plain=plain,
            params_type=params_type,
            spread=spread,
            result_type=result_type,
            retry=self.retry,
            timeout=self.timeout,
            file=code.co_filename,
            line=code.co_firstlineno,
            doc=inspect.getdoc(self.fn) or "",
            namespace=written.__globals__,
            tags=self.tags,
        )

    def __repr__(self) -> str:
        return f"<workflow {self.workflow_id} version {self.version}>"


class StepWorkflow(Workflow[P, R]):
    """A workflow written as `async def name(step, params)`."""

    def __call__(self, step: Step, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """The author's coroutine, as calling the undecorated function gives it."""
        made: Coroutine[Any, Any, R] = self.fn(step, *args, **kwargs)
        return made


class PlainWorkflow(Workflow[P, R]):
    """A workflow written as a plain `def`: the whole function is one recorded step."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """What the author's function returns."""
        result: R = self.fn(*args, **kwargs)
        return result


class Decorator:
    """What `@workflow(...)` with options gives: it waits for the function."""

    def __init__(self, make: Callable[[Callable[..., Any]], Workflow[..., Any]]) -> None:
        self._make = make

    # A coroutine function is a callable too; the first that fits is meant.
    @overload
    def __call__(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
        self, fn: Callable[Concatenate[Step, P], Coroutine[Any, Any, R]], /
    ) -> StepWorkflow[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> PlainWorkflow[P, R]: ...
    def __call__(self, fn: Callable[..., Any], /) -> Any:
        """The workflow that `fn` is."""
        return self._make(fn)


@overload
def workflow(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
    fn: Callable[Concatenate[Step, P], Coroutine[Any, Any, R]], /
) -> StepWorkflow[P, R]: ...
@overload
def workflow(fn: Callable[P, R], /) -> PlainWorkflow[P, R]: ...
@overload
def workflow(
    *,
    id: str | None = None,
    version: int = 1,
    retry: RetryPolicy | None = None,
    timeout: Span | None = None,
    tags: Tags = (),
) -> Decorator: ...
def workflow(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    id: str | None = None,  # noqa: A002 - the author's word, as everywhere in the SDK
    version: int = 1,
    retry: RetryPolicy | None = None,
    timeout: Span | None = None,
    tags: Tags = (),
    **others: object,
) -> Any:
    """Make a workflow of a function: `@workflow`, or `@workflow(id=, version=, …)`.

    `id` defaults to the function's name with `-` for `_`. `retry` and `timeout` are the default
    for this workflow's steps; `timeout` is a span and bounds each attempt. With `tags={"gpu"}` it
    runs only on workers started with each of them: `ys worker --tag gpu`. Raises InvalidWorkflow
    for what cannot be a workflow. Source: spec R1, R11, O1, O5.
    """
    _check_options(version, retry, timeout, others)
    _check_tags(tags)

    def make(fn: Callable[..., Any]) -> Workflow[..., Any]:
        _check_function(fn)
        workflow_id = _checked_name(fn.__name__.replace("_", "-") if id is None else id, fn)
        kind = StepWorkflow if inspect.iscoroutinefunction(fn) else PlainWorkflow
        made: Workflow[..., Any] = kind(fn, workflow_id, version, retry, timeout, frozenset(tags))
        gathered = gathering.get()
        if gathered is not None:
            gathered.append(made)
        return made

    return Decorator(make) if fn is None else make(fn)


def _checked_name(workflow_id: object, fn: Callable[..., Any]) -> str:
    if isinstance(workflow_id, str) and NAME.fullmatch(workflow_id):
        return workflow_id
    raise InvalidWorkflow(
        f"{workflow_id!r} cannot be a workflow's name",
        why=("A name is a letter, then up to 99 letters, digits and hyphens.",),
        remedy=(f'@workflow(id="…") above {fn.__name__}',),
    )


def _check_options(version: object, retry: object, timeout: object, others: object) -> None:
    if isinstance(others, dict) and others:
        name = next(iter(others))
        if name in ("cron", "every"):
            raise InvalidWorkflow(
                f"@workflow({name}=…) is not supported in this version",
                why=("Left in place it would silently do nothing.",),
                remedy=("start it from cron: ys trigger NAME",),
            )
        raise InvalidWorkflow(
            f"@workflow has no option {name!r}",
            why=("It takes id, version, retry, timeout and tags.",),
        )
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version < 2**31:
        raise InvalidWorkflow(f"version must be a whole number from 1, not {version!r}")
    if retry is not None and not isinstance(retry, RetryPolicy):
        raise InvalidWorkflow(
            f"retry must be a RetryPolicy, not {type(retry).__name__}",
            remedy=('@workflow(retry=RetryPolicy(attempts=5, first="2s"))',),
        )
    if timeout is not None:
        _check_timeout(timeout)


def _check_timeout(timeout: Any) -> None:
    try:
        span = clock.span_ms(timeout, what="timeout")
    except ValueError as error:
        raise InvalidWorkflow(str(error)) from None
    if span <= 0:
        raise InvalidWorkflow(f"timeout must be longer than nothing, not {timeout!r}")


def _check_tags(tags: object) -> None:
    if isinstance(tags, str):
        raise InvalidWorkflow(
            f"tags must be a set, a list or a tuple of texts, not {tags!r}",
            why=("Of a lone text each letter would be a tag.",),
            remedy=(f"@workflow(tags={{{tags!r}}})",),
        )
    if not isinstance(tags, AbstractSet | list | tuple):
        raise InvalidWorkflow(
            f"tags must be a set, a list or a tuple of texts, not {type(tags).__name__}",
            remedy=('@workflow(tags={"gpu"})',),
        )
    for tag in tags:
        try:
            check_tag(tag)
        except ValueError as error:
            raise InvalidWorkflow(str(error), remedy=('@workflow(tags={"gpu", "ssd"})',)) from None


def _check_function(fn: Callable[..., Any]) -> None:
    if isinstance(fn, Workflow):
        raise InvalidWorkflow(f"{fn.workflow_id} is a workflow already: @workflow stands twice")
    if not isinstance(fn, types.FunctionType):
        raise InvalidWorkflow(f"@workflow belongs above a function, not {fn!r}")
    name = fn.__name__
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise InvalidWorkflow(
            f"{name} yields, and a workflow returns",
            remedy=("await step.run(…) instead of yield",),
        )
    _check_first(fn)


def _check_first(fn: Callable[..., Any]) -> None:
    """`async def` takes `step` first, a plain `def` does not take it at all (spec R1)."""
    name = fn.__name__
    try:
        first = next(iter(inspect.signature(fn).parameters.values()), None)
    except NameError:
        # Python 3.14 resolves annotations when asked: a class may stand further down.
        return
    if inspect.iscoroutinefunction(fn):
        if first is None or first.kind not in (
            first.POSITIONAL_ONLY,
            first.POSITIONAL_OR_KEYWORD,
        ):
            raise InvalidWorkflow(
                f"{name} does not take `step` as its first argument",
                remedy=(f"async def {name}(step: Step, …)",),
            )
        if not _is_step(first):
            raise InvalidWorkflow(
                f"the first argument of {name} must be `step`, not `{first.name}`",
                remedy=(f"async def {name}(step: Step, {first.name}: …)",),
            )
    elif first is not None and _is_step(first):
        raise InvalidWorkflow(
            f"{name} is a plain def, which runs as one step and takes no `step`",
            remedy=(f"async def {name}(step: Step, …)", f"def {name}(…) without `step`"),
        )


def _is_step(first: inspect.Parameter) -> bool:
    written = first.annotation
    if written is first.empty:
        return first.name == "step"
    if isinstance(written, type):
        return written.__name__ == "Step"
    if isinstance(written, str):
        return written.strip("'\"").rpartition(".")[2] == "Step"
    return False
