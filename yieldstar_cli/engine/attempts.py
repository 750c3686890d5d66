"""What an ended attempt means: final, or another try and when (spec O1, polls)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yieldstar_cli import clock, ids
from yieldstar_cli.engine.retry import next_pause_ms
from yieldstar_cli.errors import StepTimeout
from yieldstar_cli.model import Kind
from yieldstar_cli.model_frozen import quick_dataclass

if TYPE_CHECKING:
    from yieldstar_cli.engine.driver import Driver
    from yieldstar_cli.engine.operations import DurableHandle


@quick_dataclass(frozen=True, slots=True)
class StepEnd:
    """How one attempt ended: a value, or an error."""

    value: Any
    error: BaseException | None
    started_at: int
    ended_at: int
    #: True for an attempt that was due too late to begin.
    never_ran: bool = False


@quick_dataclass(frozen=True, slots=True)
class Again:
    """Try again at this moment."""

    at: int


@quick_dataclass(frozen=True, slots=True)
class Final:
    """The operation ends: with the attempt's value, or with this error."""

    error: BaseException | None = None


# Made and read once: a step ends well, nearly always.
_ENDED_WELL = Final()
_POLL = Kind.POLL


def judge(driver: Driver, handle: DurableHandle[Any], end: StepEnd, now: int) -> Again | Final:
    """What follows from how an attempt of `handle` ended at `now`."""
    work = handle.work
    assert work is not None, "only steps and polls have attempts"
    if end.error is None:
        if handle.kind is not _POLL:
            return _ENDED_WELL
        try:
            falsy = not end.value
        except BaseException as error:
            # The value's own `__bool__`: such an answer ends a poll as an exception does.
            return Final(error)
        return _falsy(handle, now) if falsy else _ENDED_WELL
    if end.never_ran:
        return Final(end.error)
    failed = handle.errors + 1
    chance = ids.drawn_random(
        driver.seed, driver.incarnation, f"retry/{handle.kind}/{handle.key}", failed
    )
    try:
        pause = next_pause_ms(work.retry, end.error, failed, chance)
    except (ValueError, TypeError, OverflowError):
        # A RetryableError whose limit or pause was changed to what is none.
        pause = None
    if pause is None:
        return Final(end.error)
    at = now + pause
    deadline = _deadline(handle)
    if deadline is not None and at >= deadline:
        return Final(end.error)
    return Again(at)


def _falsy(handle: DurableHandle[Any], now: int) -> Again | Final:
    work = handle.work
    assert work is not None, "only steps and polls have attempts"
    falsy = handle.attempts + 1 - handle.errors
    if work.max_attempts is not None and falsy >= work.max_attempts:
        return Final(StepTimeout(f"{handle.key} was not true after {falsy} tries"))
    if handle.due_at is not None and now >= handle.due_at:
        return Final(_passed(handle))
    assert work.every_ms is not None, "a poll has a pause"
    at = now + work.every_ms
    deadline = _deadline(handle)
    if deadline is not None and at >= deadline:
        return Final(_out_of_time(handle, deadline))
    return Again(at if handle.due_at is None else min(at, handle.due_at))


def expired(handle: DurableHandle[Any], now: int) -> StepTimeout | None:
    """The error of an operation whose time is up before its next attempt begins."""
    deadline = _deadline(handle)
    if deadline is not None and now >= deadline:
        return _out_of_time(handle, deadline)
    if handle.kind is _POLL and handle.due_at is not None and handle.attempts:
        return _passed(handle) if now >= handle.due_at else None
    return None


def _out_of_time(handle: DurableHandle[Any], deadline: int) -> StepTimeout:
    seconds = (deadline - handle.issued_at) / 1000
    return StepTimeout(f"{handle.key} had not ended within {seconds:g} s in all")


def _passed(handle: DurableHandle[Any]) -> StepTimeout:
    assert handle.due_at is not None, "only a poll with `until` passes it"
    return StepTimeout(f"{handle.key} was not true until {clock.rfc3339(handle.due_at)}")


def must_end_at(handle: DurableHandle[Any], began: int | None, now: int) -> int | None:
    """The moment at which an attempt is out of time, or None: by its own limit, or the total one.

    `began` is when its function was entered; while it waits for a thread (None) its own limit
    does not run.
    """
    work = handle.work
    assert work is not None, "only steps and polls have attempts"
    deadline = _deadline(handle)
    if work.timeout_ms is None:
        return deadline
    own = (now if began is None else began) + work.timeout_ms
    return own if deadline is None else min(own, deadline)


def _deadline(handle: DurableHandle[Any]) -> int | None:
    work = handle.work
    if work is None or work.retry is None or work.retry.total_timeout is None:
        return None
    return handle.issued_at + clock.span_ms(work.retry.total_timeout)
