"""`this_step()`: what a step function may know of itself (spec O7)."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import field

from yieldstar_cli.errors import MisplacedCall
from yieldstar_cli.model_frozen import quick_dataclass


def _never() -> bool:
    return False


@quick_dataclass(frozen=True, slots=True)
class ThisStep:
    """The running attempt of a step."""

    execution_id: str
    step_key: str
    #: From 1; a crash uses up none.
    attempt: int
    #: What `idempotency_key` is, or what makes it when it is read.
    idempotency: str | Callable[[], str] = field(repr=False, compare=False)
    #: Asked each time `cancelled` is read: whoever runs the step sets it.
    is_cancelled: Callable[[], bool] = field(default=_never, repr=False, compare=False)

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt and redelivery of this step, different for all others."""
        key = self.idempotency
        return key if isinstance(key, str) else key()

    @property
    def cancelled(self) -> bool:
        """True once nobody waits for this attempt any more: stop when it suits."""
        return self.is_cancelled()


#: Set around each step function by whoever runs it.
current: ContextVar[ThisStep | None] = ContextVar("this_step", default=None)


def this_step() -> ThisStep:
    """The step that is running this code. Raises MisplacedCall outside a step. Source: spec O7."""
    found = current.get()
    if found is None:
        raise MisplacedCall(
            "this_step() was called outside a step",
            remedy="call it in a function that runs by `await step.run(fn, …)`",
        )
    return found
