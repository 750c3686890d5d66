"""What a workflow can await, as values: operations, handles and branches (spec R3, R4, O4).

An `Operation` is what `step.run(...)` returns: it starts at its first await. A `Handle` may be
held, awaited any number of times, raced and lost. A `Branch` is one coroutine of the workflow.
None of them does anything by itself: the driver steps branches and resolves handles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from yieldstar_cli.engine import faults
from yieldstar_cli.errors import Cancelled, WorkflowError
from yieldstar_cli.model import Kind

if TYPE_CHECKING:
    from yieldstar_cli.engine.driver import Driver
    from yieldstar_cli.engine.functions import Known
    from yieldstar_cli.engine.retry import RetryPolicy

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: Where an operation stands in the author's code.
Site = tuple[str, int]


class Park:
    """What a branch yields to the driver when it waits; nothing else may be yielded."""


PARK = Park()


class BranchCancelled(WorkflowError):
    """The awaited branch, or the spawned operation, was cancelled (spec O4)."""


class ContinueAs(BaseException):
    """Thrown where the function continues as new: it ends the function there (spec C7)."""


class State(Enum):
    """Where a handle stands."""

    OPEN = 0
    RESOLVED = 1
    WITHDRAWN = 2


# Read once: a member of an Enum costs 50 ns each time it is asked for, up to Python 3.11.
_OPEN = State.OPEN


class Waiter:
    """A branch parked on some handles; the first to resolve wins."""

    __slots__ = ("branch", "winner")

    def __init__(self, branch: Branch) -> None:
        self.branch = branch
        self.winner: Handle[Any] | None = None

    def notify(self, driver: Driver, handle: Handle[Any]) -> None:
        """`handle` resolved."""
        if self.winner is None:
            self.winner = handle
            driver.make_ready(self.branch)


class Gatherer(Waiter):
    """A branch parked until all its handles resolve, or one fails."""

    __slots__ = ("missing",)

    def __init__(self, branch: Branch, missing: int) -> None:
        super().__init__(branch)
        self.missing = missing

    def notify(self, driver: Driver, handle: Handle[Any]) -> None:
        """`handle` resolved."""
        self.missing -= 1
        if self.missing == 0 or handle.failed():
            super().notify(driver, handle)


class Handle(Generic[T_co]):
    """Something that may be awaited now, later, again, or never."""

    __slots__ = (
        "_driver",
        "_error",
        "_traceback",
        "_value",
        "await_seq",
        "resolved_seq",
        "state",
        "waiters",
    )

    #: True for what the file is told of while it is awaited: a timer, a message, an execution.
    watched = False

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.state = _OPEN
        self.waiters: list[Waiter | Branch] = []
        #: When it began to be awaited: breaks ties at one look (spec O6).
        self.await_seq = 0
        self.resolved_seq = 0
        self._value: Any = None
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None

    def done(self) -> bool:
        """True once its value or error is recorded (or it was cancelled)."""
        return self.state is not _OPEN

    def result(self) -> T_co:
        """Its value; raises its error, or RuntimeError while it is open."""
        if self.state is _OPEN:
            raise RuntimeError("the handle is not done; await it, or ask .done() first")
        if self._error is not None:
            # As it was raised: awaiting it again adds nothing.
            raise self._error.with_traceback(self._traceback)
        value: T_co = self._value
        return value

    def __await__(self) -> Generator[Any, Any, T_co]:
        refused = self._driver.refusal()
        if refused is not None:
            yield from refused
        if self.state is _OPEN:
            yield from wait_any(self._driver, (self,))
        return self.result()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: await it for its value>"  # without its address

    # --- for the driver ---

    def failed(self) -> bool:
        """True when its end is an error."""
        return self._error is not None

    def enter(self, branch: Branch) -> None:
        """Called when a branch begins to await it: a lazy operation is issued here."""

    def left(self) -> None:
        """Called when an await on it was broken off by an exception."""

    def settle(self, value: Any, error: BaseException | None, state: State) -> None:
        """Resolve it and make the branches that wait for it ready, in their order."""
        self.state = state
        self._value = value
        self._error = error
        self._traceback = None if error is None else error.__traceback__
        driver = self._driver
        driver.resolutions += 1
        self.resolved_seq = driver.resolutions
        if self.waiters:
            waiters, self.waiters = self.waiters, []
            for waiter in waiters:
                waiter.notify(driver, self)


def wait_any(driver: Driver, handles: Sequence[Handle[Any]]) -> Generator[Park, None, Handle[Any]]:
    """Park the running branch until one of `handles` resolves; returns that one.

    One that is resolved already wins over those that are not; among several, the first named.
    """
    branch = driver.running_branch()
    _enter(driver, branch, handles)
    for handle in handles:
        if handle.state is not _OPEN:
            return handle
    waiter = Waiter(branch)
    yield from _park(driver, waiter, handles)
    winner = waiter.winner
    assert winner is not None, "a branch is resumed only by a resolution or an exception"
    _unpark(driver, waiter, handles)
    return winner


def wait_all(driver: Driver, handles: Sequence[Handle[Any]]) -> Generator[Park, None, list[Any]]:
    """Park the running branch until all `handles` resolve; returns their values in that order.

    Raises the first failure recorded, at once; the others go on (spec, operations table).
    """
    branch = driver.running_branch()
    _enter(driver, branch, handles)
    distinct = list(dict.fromkeys(handles))
    failed = [h for h in distinct if h.state is not _OPEN and h.failed()]
    waiting = [h for h in distinct if h.state is _OPEN]
    if not failed and waiting:
        gatherer = Gatherer(branch, len(waiting))
        yield from _park(driver, gatherer, waiting)
        if gatherer.missing:
            _unpark(driver, gatherer, waiting)
        failed = [h for h in waiting if h.state is not _OPEN and h.failed()]
    if failed:
        min(failed, key=lambda h: h.resolved_seq).result()
    return [handle.result() for handle in handles]


def _enter(driver: Driver, branch: Branch, handles: Sequence[Handle[Any]]) -> None:
    for handle in handles:
        if handle._driver is not driver:
            # Nobody would ever resolve it for this function. Kept, for whoever catches it.
            driver.fault = driver.fault or faults.foreign_handle()
            raise driver.fault
        handle.enter(branch)


def _park(
    driver: Driver, waiter: Waiter, handles: Sequence[Handle[Any]]
) -> Generator[Park, None, None]:
    for handle in handles:
        register(driver, waiter, handle)
    try:
        yield PARK
    except BaseException:
        _unpark(driver, waiter, handles)
        for handle in handles:
            handle.left()
        raise


def register(driver: Driver, waiter: Waiter | Branch, handle: Handle[Any]) -> None:
    """From now on `waiter` hears of the end of `handle`, which is open."""
    driver.awaits += 1
    if not handle.waiters:
        # Who awaits it as well takes nothing from those that have waited since (spec M2).
        handle.await_seq = driver.awaits
    handle.waiters.append(waiter)
    if handle.watched:
        driver.touched[handle] = None


def _unpark(driver: Driver, waiter: Waiter | Branch, handles: Sequence[Handle[Any]]) -> None:
    for handle in handles:
        if waiter in handle.waiters:
            handle.waiters.remove(waiter)
            if handle.watched:
                driver.touched[handle] = None


class Window(Waiter):
    """A branch that stays parked on handles and hears of every one that ends (`step.map`)."""

    __slots__ = ("ended",)

    def __init__(self, branch: Branch) -> None:
        super().__init__(branch)
        self.ended: deque[Handle[Any]] = deque()

    def notify(self, driver: Driver, handle: Handle[Any]) -> None:
        """`handle` resolved."""
        self.ended.append(handle)
        driver.make_ready(self.branch)

    def leave(self, driver: Driver, handles: Iterable[Handle[Any]]) -> None:
        """Hear no more of `handles`."""
        _unpark(driver, self, list(handles))


#: The place of what is not issued.
NOWHERE: tuple[str, str] = ("", "")
#: What is told to the file only while it is awaited (spec O3, O4).
_WATCHED = frozenset({Kind.TIMER, Kind.MESSAGE, Kind.MESSAGES, Kind.CHILD})


class DurableHandle(Handle[T_co]):
    """An operation with an entry of its own in the history: a step, a timer, a message, a child."""

    __slots__ = (
        "attempts",
        "direct",
        "due_at",
        "errors",
        "issued_at",
        "key",
        "key_base",
        "kind",
        "label",
        "place",
        "retry_at",
        "seq",
        "site",
        "watched",
        "work",
    )

    def __init__(self, driver: Driver, kind: Kind, key_base: str, label: str, site: Site) -> None:
        # As Handle does: a call less for each step.
        self._driver = driver
        self.state = _OPEN
        self.waiters = []
        self.await_seq = 0
        self.resolved_seq = 0
        self._value = None
        self._error = None
        self._traceback = None
        self.kind = kind
        self.watched = kind in _WATCHED
        self.key_base = key_base
        #: Its full key; empty until it is issued, unless it was given one when it was made.
        self.key = ""
        #: Its kind and key, once it is issued: how it is found.
        self.place = NOWHERE
        self.label = label
        self.site = site
        self.seq = 0
        self.issued_at = 0
        #: A timer's moment; for a poll the moment at which it gives up, if any.
        self.due_at: int | None = None
        self.work: Work | None = None
        #: True while it is awaited as `await step.run(...)`: broken off, it is withdrawn.
        self.direct = False
        # Where its tries stand: kept by whoever performs it.
        self.attempts = 0
        self.errors = 0
        self.retry_at: int | None = None

    def enter(self, branch: Branch) -> None:
        """Issue it on its first await."""
        if not self.seq and self.state is _OPEN:
            self._driver.issue(self, branch)

    def left(self) -> None:
        """A direct await that was broken off withdraws the operation (spec O4, C6)."""
        if self.direct and self.state is _OPEN and not self._driver.dead:
            self._driver.withdraw(self)

    def directly(self) -> Generator[Park, None, T_co]:
        """`await step.run(...)`: issue it, wait for it, give its result.

        What `wait_any` does for several, without a generator within a generator: that took a
        fifth of a step.
        """
        self.direct = True
        driver = self._driver
        branch = driver.current
        if branch is None or branch.cancelled or driver.continuing is not None:
            branch = driver.running_branch()
        self.enter(branch)
        if self.state is _OPEN:
            register(driver, branch, self)
            try:
                yield PARK
            except BaseException:
                _unpark(driver, branch, (self,))
                self.left()
                raise
        return self.result()

    @property
    def awaited(self) -> bool:
        """True while a branch waits for it."""
        return bool(self.waiters)


class SpawnedHandle(DurableHandle[T_co]):
    """An operation that was spawned; it may be cancelled."""

    __slots__ = ()

    def cancel(self) -> None:
        """Withdraw it: what it returns is given to nobody (spec O4). Harmless when done."""
        self._driver.check_running()
        if self.state is _OPEN:
            self._driver.withdraw(self)


class Work:
    """What a step or poll runs, and how often."""

    __slots__ = (
        "args",
        "asynchronous",
        "every_ms",
        "fn",
        "known",
        "kwargs",
        "max_attempts",
        "result_type",
        "retry",
        "tag",
        "timeout_ms",
    )

    def __init__(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        known: Known,
        retry: RetryPolicy | None,
        timeout_ms: int | None,
        tag: str | None = None,
    ) -> None:
        self.fn = fn
        self.args = args
        self.kwargs = kwargs
        self.known = known
        self.result_type = known.result_type
        #: True when `fn` is to be awaited.
        self.asynchronous = known.asynchronous
        self.retry = retry
        self.timeout_ms = timeout_ms
        #: What a worker must be started with to run it (spec O5).
        self.tag = tag
        #: For polls: the pause after a falsy result, and how many tries may be falsy.
        self.every_ms: int | None = None
        self.max_attempts: int | None = None


class Branch:
    """One coroutine of the workflow: the function itself, or what it spawned."""

    __slots__ = (
        "cancelled",
        "coroutine",
        "counts",
        "draws",
        "ended",
        "handle",
        "key",
        "prefix",
        "queued",
        "refused",
        "spawned",
        "throw",
    )

    def __init__(self, coroutine: Coroutine[Any, Any, Any], key: str) -> None:
        self.coroutine = coroutine
        self.key = key
        self.prefix = f"{key}:" if key else ""
        #: How often each (kind, key) was used in this branch (spec R3).
        self.counts: dict[tuple[str, str], int] = {}
        #: Draws of chance so far (spec R7).
        self.draws = 0
        self.queued = False
        self.ended = False
        self.cancelled = False
        #: How often an operation was refused because the branch is cancelled.
        self.refused = 0
        self.throw: BaseException | None = None
        self.handle: BranchHandle[Any] | None = None
        #: Branches and operations spawned here: cancelled with it.
        self.spawned: list[BranchHandle[Any] | SpawnedHandle[Any]] = []

    def notify(self, driver: Driver, handle: Handle[Any]) -> None:
        """The one handle that it is parked on resolved."""
        driver.make_ready(self)


class BranchHandle(Handle[T_co]):
    """A spawned branch; `.cancel()` ends it and every branch it spawned (spec O4)."""

    __slots__ = ("branch",)

    def __init__(self, driver: Driver, branch: Branch) -> None:
        super().__init__(driver)
        self.branch = branch
        branch.handle = self

    def cancel(self) -> None:
        """Throw `Cancelled` at its await; harmless when it has ended."""
        self._driver.check_running()
        self._driver.cancel_branch(self.branch)


class Operation(Coroutine[Any, Any, T]):
    """A coroutine that starts at its first await, and knows when it never was (spec R9)."""

    __slots__ = ("__weakref__", "_body", "_driver", "_generator", "handle", "name")

    def __init__(
        self,
        driver: Driver,
        name: str,
        site: Site,
        body: Callable[[], Generator[Any, Any, T]],
        handle: DurableHandle[T] | None = None,
    ) -> None:
        self._driver = driver
        self.name = name
        self._body: Callable[[], Generator[Any, Any, T]] | None = body
        self._generator: Generator[Any, Any, T] | None = None
        #: The durable operation that it is, if it is just one.
        self.handle = handle
        # It is to be awaited (spec R9).
        driver.unawaited[id(self)] = (name, site, driver.current)

    def use(self) -> Callable[[], Generator[Any, Any, T]]:
        """Take it: by an await, or by `spawn`, `all`, `timeout`. Once only."""
        body = self._body
        if body is None:
            raise RuntimeError(f"{self.name} was already awaited")
        self._body = None
        self._driver.unawaited.pop(id(self), None)
        return body

    def adopt(self) -> None:
        """Take it as the coroutine of a branch: from now on only the driver steps it."""
        self._generator = self._run(self.use())

    def _run(self, body: Callable[[], Generator[Any, Any, T]]) -> Generator[Any, Any, T]:
        refused = self._driver.refusal()
        return (yield from body() if refused is None else refused)

    def __await__(self) -> Generator[Any, Any, T]:
        body = self.use()
        return self._driver.refusal() or body()

    def send(self, value: Any) -> Any:
        """As a coroutine's; starts it when it has not begun."""
        if self._generator is None:
            self._generator = self.__await__()
        return self._generator.send(value)

    def throw(self, *args: Any) -> Any:
        """As a coroutine's."""
        if self._generator is None:
            self._generator = self.__await__()
        return self._generator.throw(*args)

    def close(self) -> None:
        """As a coroutine's."""
        self._driver.unawaited.pop(id(self), None)
        self._body = None
        if self._generator is not None:
            self._generator.close()

    def __del__(self) -> None:
        if self._body is not None:
            self._driver.dropped_unawaited(id(self))


class Dropped(BaseException):
    """Thrown into the coroutines of a driver that is given up (spec R6)."""


__all__ = [
    "PARK",
    "Branch",
    "BranchCancelled",
    "BranchHandle",
    "Cancelled",
    "ContinueAs",
    "Dropped",
    "DurableHandle",
    "Gatherer",
    "Handle",
    "Operation",
    "Park",
    "Site",
    "SpawnedHandle",
    "State",
    "Waiter",
    "Window",
    "Work",
    "register",
    "wait_all",
    "wait_any",
]
