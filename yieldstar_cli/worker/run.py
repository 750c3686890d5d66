"""One call of a step function on its way: where it stands, and what it knows of itself."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any

from yieldstar_cli.engine.this_step import ThisStep, current
from yieldstar_cli.errors import Fatal
from yieldstar_cli.worker.ports import StepCall, StepEnd

Done = Callable[[StepEnd], None]


class State(Enum):
    """Where a run stands."""

    WAITS = "waits"
    RUNS = "runs"
    #: A plain function that runs on though it was called off.
    LINGERS = "lingers"
    OVER = "over"


class _Flag:
    """What `this_step().cancelled` asks; apart from the run, so that no reference cycle arises."""

    __slots__ = ("up",)

    def __init__(self) -> None:
        self.up = False

    def __call__(self) -> bool:
        return self.up


class Run:
    """One call on its way: waits for a place, runs, is over. What `start` returns."""

    __slots__ = ("_called_off", "_off", "call", "context", "done", "started_at", "state", "task")

    def __init__(
        self, call: StepCall, done: Done, context: contextvars.Context, off: Callable[[Run], None]
    ) -> None:
        self.call = call
        self.done = done
        self.context = context
        self.state = State.WAITS
        self.task: asyncio.Task[None] | None = None
        #: When its function was entered, UTC milliseconds; None while it waits for a place.
        self.started_at: int | None = None
        self._off = off
        self._called_off = _Flag()
        context.run(
            current.set,
            ThisStep(
                call.execution_id,
                call.step_key,
                call.attempt,
                call.idempotency_key,
                self._called_off,
            ),
        )

    @property
    def called_off(self) -> bool:
        """True once `cancel` was called: `done` is not called any more."""
        return self._called_off.up

    def cancel(self) -> None:
        """Call it off, on the loop's thread; harmless when it has happened."""
        if not self._called_off.up:
            self._called_off.up = True
            self._off(self)


def never_awaited(fn: Callable[..., Any], awaitable: Any) -> Fatal:
    """The error of a plain function that returned something to await."""
    name = getattr(fn, "__name__", None) or repr(fn)
    if inspect.iscoroutine(awaitable):
        awaitable.close()
    return Fatal(
        f"{name} is a plain function that returned a {type(awaitable).__name__}, which "
        f"nothing awaits: what it stands for did not run. Make it `async def {name}` and await "
        f"it there"
    )
