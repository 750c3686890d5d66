"""The handle an author holds: every durable thing a workflow can ask for (spec, operations)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar, cast, overload
from uuid import UUID

from yieldstar_cli import clock, ids
from yieldstar_cli.engine import naming
from yieldstar_cli.engine.children import Children, fitted
from yieldstar_cli.engine.effects import Effecting
from yieldstar_cli.engine.functions import known
from yieldstar_cli.engine.messaging import Messaging
from yieldstar_cli.engine.operations import (
    DurableHandle,
    Handle,
    Operation,
    Site,
    SpawnedHandle,
    Work,
    wait_all,
    wait_any,
)
from yieldstar_cli.engine.options import Moment, Options, Span, StepEvent
from yieldstar_cli.engine.outside import direct
from yieldstar_cli.engine.storing import Storing
from yieldstar_cli.errors import StepTimeout
from yieldstar_cli.model import Kind

if TYPE_CHECKING:
    from yieldstar_cli.engine.operations import BranchHandle
    from yieldstar_cli.engine.retry import RetryPolicy

T = TypeVar("T")
P = ParamSpec("P")
H = TypeVar("H", bound=Handle[Any])

# Read once: a member of an Enum costs 50 ns each time it is asked for, up to Python 3.11.
_STEP = Kind.STEP
_NO_OPTIONS = Options()


class Step(Children, Messaging, Storing, Effecting):
    """The only door to the durable world (spec R1). Made by the worker, one per execution."""

    __slots__ = ()

    # --- running functions ---------------------------------------------------------------

    def using(
        self,
        *,
        key: str | None = None,
        retry: RetryPolicy | None = None,
        timeout: Span | None = None,
        tag: str | None = None,
    ) -> Step:
        """The same step with options for the next operation.

        `key` names the operation (spec R3); `retry`, `timeout` (of each attempt) and `tag` go
        before `run` and `poll` only. With `tag` it runs only in a worker that was started with
        that tag (spec O5). Raises ValueError for a key or a tag that may not be.
        """
        from yieldstar_cli.engine.retry import RetryPolicy

        if key is not None:
            naming.check_key(key)
        if retry is not None and not isinstance(retry, RetryPolicy):
            raise TypeError(f"retry takes a RetryPolicy, not {type(retry).__name__}")
        timeout_ms = None if timeout is None else clock.span_ms(timeout, what="timeout")
        if timeout_ms is not None and timeout_ms <= 0:
            raise ValueError(f"timeout must be longer than nothing: {timeout!r}")
        if tag is not None:
            naming.check_tag(tag)
        before = self._options or Options()
        options = Options(
            before.key if key is None else key,
            before.retry if retry is None else retry,
            before.timeout_ms if timeout_ms is None else timeout_ms,
            before.tag if tag is None else tag,
        )
        return Step(self._driver, self._given, options)

    # The first overload is what `async def` gives, the second everything else.
    @overload
    def run(
        self, fn: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    @overload
    def run(
        self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, T]: ...
    def run(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Run a sync or async function, once, and record its result or its error.

        Its error is final unless a retry policy or `RetryableError` says otherwise (spec O1).
        """
        handle = self._performed(_STEP, fn, args, kwargs, naming.call_site())
        work = handle.work
        assert work is not None, "it is performed"
        name = work.known.run or f"step.run({handle.key_base})"
        return Operation(self._driver, name, handle.site, handle.directly, handle)

    def poll(
        self,
        fn: Callable[..., Coroutine[Any, Any, T]] | Callable[..., T],
        /,
        *args: Any,
        every: Span = "5s",
        attempts: int | None = None,
        until: Span | datetime | None = None,
        **kwargs: Any,
    ) -> Coroutine[Any, Any, T]:
        """Run `fn` until its result is truthy; that is the result. One operation.

        Raises StepTimeout once `attempts` were falsy or `until` (a moment or a span) has passed.
        """
        site = naming.call_site()
        handle = self._performed(Kind.POLL, fn, args, kwargs, site)
        work = handle.work
        assert work is not None
        work.every_ms = max(0, clock.span_ms(every, what="every"))
        if attempts is not None and (type(attempts) is not int or attempts < 1):
            raise ValueError(f"attempts must be 1 or more: {attempts!r}")
        work.max_attempts = attempts
        if isinstance(until, datetime):
            handle.due_at = clock.moment_ms(until)
        elif until is not None:
            handle.due_at = self._driver.moment + clock.span_ms(until, what="until")
        name = f"step.poll({getattr(fn, '__name__', handle.key_base)})"
        return cast("Coroutine[Any, Any, T]", direct(self._driver, name, site, handle))

    # --- time ------------------------------------------------------------------------------

    def sleep(self, span: Span) -> Coroutine[Any, Any, None]:
        """Wait for `span`, durably; nothing or less is due at once (spec O3)."""
        due_at = self._after(span, "sleep")
        return self._sleep("sleep", due_at, _label(span), naming.call_site())

    def sleep_until(self, moment: Moment) -> Coroutine[Any, Any, None]:
        """Wait until `moment`, durably; one that has passed is due at once."""
        due_at = clock.moment_ms(moment)
        return self._sleep("sleep-until", due_at, clock.rfc3339(due_at), naming.call_site())

    def timer(self, span: Span) -> Handle[None]:
        """A handle that resolves `span` from now. It costs nothing unless it is awaited."""
        return self._timer("timer", self._after(span, "timer"), _label(span), naming.call_site())

    def timer_until(self, moment: Moment) -> Handle[None]:
        """A handle that resolves at `moment`. It costs nothing unless it is awaited."""
        due_at = clock.moment_ms(moment)
        return self._timer("timer-until", due_at, clock.rfc3339(due_at), naming.call_site())

    # --- combining -----------------------------------------------------------------------

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> BranchHandle[T] | SpawnedHandle[T]:
        """Start a concurrent branch, or an operation such as `step.run(f)`, and hold it."""
        self._only_key("spawn")
        if isinstance(coroutine, Handle):
            raise TypeError("this is a handle already, it needs no step.spawn")
        key = self._options.key if self._options else None
        handle: BranchHandle[T] | SpawnedHandle[T] = self._spawn(coroutine, key)
        return handle

    def select(self, *handles: H) -> Coroutine[Any, Any, H]:
        """Wait for the first of several handles and return it; losers stay good (spec O4, O6).

        It does not raise: the winner's `.result()` does.
        """
        self._no_options("select")
        if not handles:
            raise ValueError("select of nothing would wait for ever; give it one handle or more")
        for handle in handles:
            if not isinstance(handle, Handle):
                raise naming.no_handle(handle)
        driver = self._driver
        driver.check_running()

        def body() -> Generator[Any, Any, H]:
            return cast("H", (yield from wait_any(driver, handles)))

        return Operation(driver, "step.select(...)", naming.call_site(), body)

    def all(self, awaitables: Iterable[Awaitable[T]]) -> Coroutine[Any, Any, list[T]]:
        """Wait for all and return the results in the order given.

        Takes handles and coroutines. Raises the first failure recorded, at once; the rest go on.
        """
        self._no_options("all")
        given = list(awaitables)
        driver = self._driver
        driver.check_running()

        def body() -> Generator[Any, Any, list[T]]:
            driver.running_branch()
            return (yield from wait_all(driver, [self._handle_of(a) for a in given]))

        return Operation(driver, "step.all(...)", naming.call_site(), body)

    def timeout(self, awaitable: Awaitable[T], span: Span) -> Coroutine[Any, Any, T]:
        """The result of `awaitable`, or StepTimeout after `span`.

        A coroutine given to it is cancelled then; a handle is only no longer awaited.
        """
        self._only_key("timeout")
        site = naming.call_site()
        clock.span_ms(span, what="timeout")
        driver = self._driver
        driver.check_running()

        def body() -> Generator[Any, Any, T]:
            driver.running_branch()
            spawned = None if isinstance(awaitable, Handle) else self._handle_of(awaitable)
            handle: Handle[T] = spawned if spawned is not None else cast("Handle[T]", awaitable)
            timer = self._timer("timeout", self._after(span, "timeout"), _label(span), site)
            winner = yield from wait_any(driver, (handle, timer))
            if winner is handle:
                return handle.result()
            if spawned is not None:
                spawned.cancel()
            raise StepTimeout(f"not done within {_label(span)}")

        return Operation(driver, "step.timeout(...)", site, body)

    # --- time and chance that replay alike -------------------------------------------------

    def now(self) -> datetime:
        """The recorded moment of the last resolution, in UTC; it never goes back (spec R7)."""
        self._no_options("now")
        self._driver.check_running()
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=self._driver.moment)

    def random(self) -> float:
        """A float in [0, 1), the same on every replay (spec R7)."""
        self._no_options("random")
        driver = self._driver
        return ids.drawn_random(driver.seed, driver.incarnation, *driver.draw())

    def uuid(self) -> UUID:
        """A version 4 UUID, the same on every replay (spec R7)."""
        self._no_options("uuid")
        driver = self._driver
        return ids.drawn_uuid(driver.seed, driver.incarnation, *driver.draw())

    def patched(self, name: str) -> bool:
        """True where the new arm of a changed workflow is to be taken (spec R5)."""
        self._no_options("patched")
        naming.check_key(name)
        return self._driver.patched(name)

    # --- the end ---------------------------------------------------------------------------

    def defer(self, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Run `fn` once the function has ended, however it ends: the durable `finally`.

        After it has returned, raised, been cancelled or continued; the last deferred first, each
        as a step of its own, before the outcome is acknowledged. Its failure is recorded and
        changes nothing. Not run by `ys cancel --now`.
        """
        handle = self._performed(Kind.DEFER, fn, args, kwargs, naming.call_site())
        self._driver.defer(handle)

    def continue_as(self, params: object = None) -> Coroutine[Any, Any, NoReturn]:
        """End the function here and begin its next incarnation, with `params` and an empty history.

        The execution keeps its ID, its children and their unread results, unread messages and
        pending wakes. In the function only, not in a branch; `finally` blocks run, operations in
        them are refused. Raises InvalidParams at once for params that do not fit. Source: spec C7.
        """
        self._no_options("continue_as")
        driver = self._driver
        driver.check_running()
        text = fitted(driver.definition, params)

        def body() -> Generator[Any, Any, NoReturn]:
            driver.continue_as(text)
            raise AssertionError("continue_as ends the function")
            yield

        return Operation(driver, "step.continue_as(...)", naming.call_site(), body)

    # --- telling people --------------------------------------------------------------------

    def set_status(self, value: object) -> None:
        """A small progress value that `ys show` and `ys list` print; rides on the next commit."""
        from yieldstar_cli import codec

        self._no_options("set_status")
        self._driver.check_running()
        self._driver.status_value = codec.encode(value, Any, place="status", limit=4096)

    @property
    def log(self) -> logging.Logger:
        """A logger, silent during replay; its lines are kept with the execution."""
        return self._given.log()

    @property
    def event(self) -> StepEvent:
        """What the execution was admitted with (RFC 001's event), and how far it is."""
        return self._given.event()

    # --- inside ----------------------------------------------------------------------------

    def _performed(
        self, kind: Kind, fn: Callable[..., Any], args: Any, kwargs: Any, site: Site
    ) -> DurableHandle[Any]:
        driver = self._driver
        driver.check_running()
        options = self._options or _NO_OPTIONS
        definition = driver.definition
        found = known(fn, definition.closures)
        base = options.key or found.key or naming.function_key(fn)
        if found.key is None and not callable(fn):
            raise naming.not_callable(fn)
        handle: DurableHandle[Any] = DurableHandle(driver, kind, base, "", site)
        timeout_ms = options.timeout_ms
        if timeout_ms is None and definition.timeout is not None:
            timeout_ms = clock.span_ms(definition.timeout, what="timeout")
        handle.work = Work(
            fn,
            args,
            kwargs,
            found,
            options.retry or definition.retry,
            timeout_ms,
            options.tag,
        )
        return handle

    def _after(self, span: Span, what: str) -> int:
        due_at = self._driver.moment + clock.span_ms(span, what=what)
        if due_at > clock.LAST_MOMENT:
            raise ValueError(f"{what} of {span!r} ends after the year 9999")
        return due_at

    def _sleep(self, base: str, due_at: int, label: str, site: Site) -> Operation[None]:
        handle = self._timer(base, due_at, label, site)
        return direct(self._driver, f"step.{base.replace('-', '_')}(...)", site, handle)

    def _timer(self, base: str, due_at: int, label: str, site: Site) -> DurableHandle[None]:
        self._only_key(base)
        self._driver.check_running()
        key = self._options.key if self._options else None
        handle: DurableHandle[None] = DurableHandle(
            self._driver, Kind.TIMER, key or base, label, site
        )
        handle.due_at = due_at
        return handle

    def _handle_of(self, awaitable: Awaitable[T]) -> Any:
        if isinstance(awaitable, Handle):
            return awaitable
        return self._spawn(cast("Coroutine[Any, Any, T]", awaitable), None)

    def _spawn(self, coroutine: Coroutine[Any, Any, T], key: str | None) -> Any:
        driver = self._driver
        branch = driver.running_branch()
        if isinstance(coroutine, Operation) and coroutine.handle is not None:
            # An operation's own coroutine is no branch: it keeps the key it would have had.
            coroutine.use()
            made = coroutine.handle
            if isinstance(made, SpawnedHandle):
                made.key_base = key or made.key_base
                driver.issue(made, branch)
                branch.spawned.append(made)
                return made
            handle: SpawnedHandle[T] = SpawnedHandle(
                driver, made.kind, key or made.key_base, made.label, made.site
            )
            handle.work, handle.due_at = made.work, made.due_at
            driver.issue(handle, branch)
            branch.spawned.append(handle)
            return handle
        if not isinstance(coroutine, Coroutine):
            raise TypeError(f"expected a coroutine or a handle, not {type(coroutine).__name__}")
        base = key or naming.coroutine_key(coroutine)
        if isinstance(coroutine, Operation):
            coroutine.adopt()
        return driver.spawn(branch, coroutine, base)


def _label(span: Span) -> str:
    return span.strip() if isinstance(span, str) else f"{span:g}s" if _number(span) else str(span)


def _number(span: Span) -> bool:
    return isinstance(span, int | float)
