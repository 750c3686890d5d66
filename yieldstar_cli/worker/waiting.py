"""What a driver's open operations wait for, as the dispatcher and the file see it (spec R10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yieldstar_cli.engine.operations import DurableHandle
from yieldstar_cli.model import Kind, Wait

if TYPE_CHECKING:
    from yieldstar_cli.engine.driver import Driver
    from yieldstar_cli.worker.tries import Tries


def due_timers(driver: Driver, now: int) -> list[DurableHandle[Any]]:
    """Timers that are awaited and whose moment has come."""
    return [
        handle
        for handle in driver.open.values()
        if handle.kind is Kind.TIMER
        and handle.waiters
        and handle.due_at is not None
        and handle.due_at <= now
    ]


def startable(driver: Driver, tries: Tries, now: int) -> list[DurableHandle[Any]]:
    """Steps and polls whose next attempt may begin, in the order they were issued."""
    return [
        handle
        for handle in driver.open.values()
        if handle.work is not None
        and handle not in tries
        and (handle.retry_at is None or handle.retry_at <= now)
    ]


def next_moment(driver: Driver, tries: Tries) -> int | None:
    """The earliest moment among what is awaited now, or None."""
    moments = [
        handle.due_at
        if handle.kind is Kind.TIMER
        else (handle.retry_at if handle not in tries else None)
        for handle in driver.open.values()
        if handle.kind is not Kind.TIMER or handle.waiters
    ]
    return min((moment for moment in moments if moment is not None), default=None)


def open_waits(driver: Driver, tries: Tries) -> tuple[Wait, ...]:
    """The open operations that wait, for `show` and `explain`."""
    found: list[Wait] = []
    for handle in driver.open.values():
        if handle.kind is Kind.TIMER:
            if handle.waiters:
                found.append(_wait(handle, handle.due_at, "waiting", 1))
        elif handle.retry_at is not None and handle not in tries:
            found.append(_wait(handle, handle.retry_at, "retrying", handle.attempts + 1))
    return tuple(found)


def _wait(handle: DurableHandle[Any], due_at: int | None, state: str, attempt: int) -> Wait:
    return Wait(handle.kind, handle.key, handle.label, handle.issued_at, due_at, state, attempt)
