"""How the end of an execution is awaited and told: reference, pauses between looks, result."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from yieldstar_cli import clock
from yieldstar_cli.engine.retry import Span
from yieldstar_cli.errors import (
    ExecutionCancelled,
    ExecutionFailed,
    ExecutionPruned,
    InvalidExecutionEvent,
    UndecodableRecord,
    UsageError,
)
from yieldstar_cli.model import CancelledOutcome, Completed, ExecutionRecord, Failed

R_co = TypeVar("R_co", covariant=True)

#: A moment: an aware datetime, or UTC milliseconds since the epoch.
Moment = datetime | int | float

#: How long one rests between looks, in seconds: short at first, then longer.
SHORTEST_REST = 0.001
LONGEST_REST = 0.1
#: After how many looks without a change the record is read all the same.
LOOKS = 20


@dataclass(frozen=True, slots=True)
class ExecutionRef(Generic[R_co]):
    """Names one execution; its `str()` is the execution ID. `R_co` is the result's type."""

    execution_id: str
    #: What `wait` decodes the result to.
    result_type: Any = field(default=Any, repr=False, compare=False)

    def __str__(self) -> str:
        return self.execution_id


class Pause:
    """When to look at a file that others change, and how long to rest in between."""

    def __init__(self, timeout_ms: int | None) -> None:
        self._until = None if timeout_ms is None else clock.monotonic_ms() + timeout_ms
        self._seen = -1
        self._looks = 0
        self._rest = SHORTEST_REST

    def look(self, changes: int) -> bool:
        """Whether to read now: something was committed, or none has looked for a while."""
        self._looks += 1
        if changes != self._seen:
            self._seen, self._looks, self._rest = changes, 0, SHORTEST_REST
            return True
        if self._looks >= LOOKS:
            self._looks = 0
            return True
        return False

    def rest(self) -> float | None:
        """Seconds until the next look; None once the time is up."""
        rest = self._rest
        self._rest = min(rest * 1.5, LONGEST_REST)
        if self._until is None:
            return rest
        left = (self._until - clock.monotonic_ms()) / 1000
        return None if left <= 0 else min(rest, left)


def result_of(record: ExecutionRecord, execution: str | ExecutionRef[Any]) -> Any:
    """The result of a record that has ended: typed by a reference, plain for a bare ID.

    Raises ExecutionFailed, ExecutionCancelled, ExecutionPruned where it is no longer kept, and
    UndecodableRecord for what no longer fits.
    """
    from yieldstar_cli import codec, failures

    if record.pruned_at is not None:
        raise ExecutionPruned(record.execution_id, str(record.status))
    match record.outcome:
        case Completed(result):
            wanted = execution.result_type if isinstance(execution, ExecutionRef) else Any
            try:
                return codec.decode(result, wanted)
            except codec.DecodeError as error:
                raise UndecodableRecord(
                    f"the result of {record.execution_id} is not what its workflow declares:"
                    f" {error}",
                    remedy=f"ys show {record.execution_id}",
                ) from None
        case Failed(text):
            view = failures.view_error(text)
            raise ExecutionFailed(record.execution_id, view.name, view.message)
        case CancelledOutcome(reason):
            raise ExecutionCancelled(
                f"execution {record.execution_id!r} was cancelled",
                why=(reason,) if reason else (),
                remedy=(f"ys show {record.execution_id}",),
            )
        case None:
            raise AssertionError("only a terminal record has a result")


def moment_of(at: Moment) -> int:
    """UTC milliseconds of `at`. Raises InvalidExecutionEvent for what is no moment."""
    try:
        return clock.moment_ms(at)
    except ValueError as error:
        raise InvalidExecutionEvent("at", str(error)) from None


def timeout_ms(timeout: Span) -> int:
    """Milliseconds of a span that a caller gives. Raises UsageError for what is none."""
    try:
        return clock.span_ms(timeout, what="timeout")
    except ValueError as error:
        raise UsageError(str(error)) from None
