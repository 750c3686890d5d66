"""Looks for an order of the calls on one execution that explains every answer (C.7; Wing, Gong).

A call that was never answered may have been done, or not. Between any two calls the workers may
have taken the execution further: that is no call, and needs no witness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

#: How the end of a cancelled execution is told.
CANCELLED = "cancelled"


class Call(NamedTuple):
    """One call: what was asked and answered, and when by a clock that all processes share."""

    op: str
    argument: str
    began: int
    #: None for a call that was never answered.
    ended: int | None
    answer: str | None


class Standing(NamedTuple):
    """What the model knows of the execution."""

    #: The params it was admitted with; None where there is none.
    params: str | None = None
    #: "open" or an outcome as it was told; None once it has ended in a way nobody has seen yet.
    end: str | None = "open"
    #: Whether a delivery has begun: then a cancellation is only asked for.
    begun: bool = False
    #: Whether it was asked for.
    cancelled: bool = False


def explains(calls: Sequence[Call]) -> bool:
    """Whether there is an order of `calls` that keeps to their times and to the model."""
    todo = tuple(sorted(calls, key=lambda call: call.began))
    seen: set[tuple[int, Standing]] = set()
    must = sum(1 << n for n, call in enumerate(todo) if call.ended is not None)
    stack = [(0, Standing())]
    while stack:
        done, standing = stack.pop()
        if done & must == must:
            return True
        if (done, standing) in seen:
            continue
        seen.add((done, standing))
        # Nothing may come before a call that had ended when it began.
        first_end = min(
            (
                call.ended
                for n, call in enumerate(todo)
                if not done >> n & 1 and call.ended is not None
            ),
            default=None,
        )
        for n, call in enumerate(todo):
            if done >> n & 1:
                continue
            if first_end is not None and call.began > first_end:
                break
            stack += [(done | 1 << n, after) for after in possible(standing, call)]
    return not todo


def possible(standing: Standing, call: Call) -> Iterable[Standing]:
    """What may stand after `call` was answered so; nothing where it cannot have been."""
    for now in moved(standing):
        answer, after = APPLY[call.op](now, call)
        if call.ended is None or call.answer == answer:
            yield after


def moved(standing: Standing) -> Iterable[Standing]:
    """What workers may have made of it meanwhile."""
    yield standing
    if standing.params is not None and standing.end == "open":
        yield standing._replace(begun=True)
        yield standing._replace(begun=True, end=None)


def _trigger(now: Standing, call: Call) -> tuple[str, Standing]:
    if now.params is None:
        return "admitted", Standing(params=call.argument)
    return "conflict", now  # once, for ever (E3)


def _get(now: Standing, call: Call) -> tuple[str, Standing]:
    if now.params is None:
        return "none", now
    if now.end is None:
        # The first to see how it ended: whatever that is, it stays so.
        told = call.answer or ""
        if told in ("none", "open") or (told == CANCELLED and not now.cancelled):
            return "never", now
        return told, now._replace(end=told)
    return now.end, now


def _wake(now: Standing, call: Call) -> tuple[str, Standing]:
    if now.params is None:
        return "none", now
    return ("requested" if now.end == "open" else "ignored"), now


def _cancel(now: Standing, call: Call) -> tuple[str, Standing]:
    if now.params is None:
        return "none", now
    if now.end != "open":
        return "ignored", now
    if not now.begun:
        return "cancelled", now._replace(end=CANCELLED, cancelled=True)
    return "requested", now._replace(cancelled=True)


APPLY = {"trigger": _trigger, "get": _get, "wake": _wake, "cancel": _cancel}
