"""What the dispatcher needs from the outside: a loop, performers, a place for talk.

Everything here is a port: the real worker, the test kit and the simulator bring their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from yieldstar_cli.engine.attempts import StepEnd
from yieldstar_cli.model_frozen import quick_dataclass


class Cancellable(Protocol):
    """Something that can be called off."""

    def cancel(self) -> None:
        """Call it off; harmless when it has happened."""
        ...


class Performed(Cancellable, Protocol):
    """A user function that was handed over to be run."""

    @property
    def started_at(self) -> int | None:
        """When it was entered; None while it waits for its turn."""
        ...


class Loop(Protocol):
    """One thread that runs callbacks in order, and knows the time."""

    def now_ms(self) -> int:
        """UTC milliseconds since the epoch."""
        ...

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> Cancellable:
        """Run `callback` on this loop once the clock says `at_ms` or later, never earlier."""
        ...

    def post(self, callback: Callable[[], None]) -> None:
        """Run `callback` on this loop soon; callable from any thread."""
        ...


@dataclass(slots=True)
class StepCall:
    """One attempt of one step: what to run and what `this_step()` says inside it."""

    number: int
    execution_id: str
    step_key: str
    attempt: int
    #: The key, or what makes it when somebody asks.
    idempotency_key: str | Callable[[], str]
    fn: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    #: True when `fn` is a coroutine function: runs on the event loop, not in a thread.
    asynchronous: bool = False
    #: Called just before `fn`, where it runs; what it raises is raised instead of calling `fn`.
    guard: Callable[[], None] | None = None


class Performers(Protocol):
    """Where user functions run: the event loop, threads."""

    def start(self, call: StepCall, done: Callable[[StepEnd], None]) -> Performed:
        """Run `call`; `done` is called on the loop's thread, exactly once, unless cancelled.

        Cancelling stops an async step at its next await; a sync step runs on in its thread and
        what it returns is dropped (the pool grows by one meanwhile).
        """
        ...

    def running(self) -> int:
        """How many user functions are running, cancelled sync ones included."""
        ...

    def backlog(self) -> int:
        """How many sync calls wait for a thread."""
        ...


class Marks(Protocol):
    """Which executions' code runs in this process, told to whoever outlives it (spec L5)."""

    def enter(self, number: int, step_key: str, at_ms: int) -> int:
        """Mark that code of execution `number` is entered; returns a slot for `leave`."""
        ...

    def leave(self, slot: int) -> None:
        """Unmark."""
        ...


@quick_dataclass(frozen=True, slots=True)
class Event:
    """One line of what the worker does, for people and for `--json`."""

    at: int
    kind: str
    execution_id: str
    workflow_id: str = ""
    step_key: str = ""
    attempt: int = 0
    took_ms: int = 0
    due_at: int | None = None
    text: str = ""


#: Told of events. One that does nothing with some kinds may have an attribute `untold`, a
#: container of their names: most events are then not even made.
Talk = Callable[[Event], None]

__all__ = [
    "Cancellable",
    "Event",
    "Loop",
    "Marks",
    "Performers",
    "StepCall",
    "StepEnd",
    "Talk",
]
