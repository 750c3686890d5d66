"""Time: the only module that reads the clock, and the one that reads and writes people's times.

Instants are integers, UTC milliseconds since the epoch; spans are integers, milliseconds.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

#: The last instant that may be stored: the end of the year 9999.
LAST_MOMENT = 253_402_300_799_999
#: The longest span that may be asked for: it must keep every moment before LAST_MOMENT.
LONGEST_SPAN = 100 * 365 * 86_400_000


class Clock(Protocol):
    """Where a component reads the time; tests and the simulator pass their own."""

    def now_ms(self) -> int:
        """UTC milliseconds since the epoch."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now_ms(self) -> int:
        """UTC milliseconds since the epoch."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until told otherwise: for tests and the simulator."""

    def __init__(self, now_ms: int = 1_000_000_000_000) -> None:
        self._now = now_ms

    def now_ms(self) -> int:
        """The moment last set."""
        return self._now

    def advance(self, span_ms: int) -> None:
        """Move on by `span_ms`, which may be negative (a clock set back)."""
        self._now += span_ms

    def set(self, now_ms: int) -> None:
        """Jump to `now_ms`."""
        self._now = now_ms


def monotonic_ms() -> float:
    """A clock for measuring spans inside one process, in milliseconds."""
    return time.monotonic() * 1000


def span_ms(span: str | float | timedelta, *, what: str = "a duration") -> int:
    """Milliseconds of `span`: a string such as "10m", seconds as a number, or a timedelta.

    Negative spans are allowed (due at once). Raises ValueError for a bare number in a string,
    for what is not a number, and for spans beyond a hundred years.
    """
    if isinstance(span, bool):
        raise ValueError(f"{what} must be a span such as '10m', not {span!r}")
    if isinstance(span, str):
        ms = _text_span_ms(span, what)
    elif isinstance(span, timedelta):
        ms = span.total_seconds() * 1000
    elif isinstance(span, int | float):
        ms = span * 1000
    else:
        raise ValueError(f"{what} must be a span such as '10m', not {type(span).__name__}")
    if ms != ms or ms in (float("inf"), float("-inf")):
        raise ValueError(f"{what} must be a number, not {span!r}")
    if abs(ms) > LONGEST_SPAN:
        raise ValueError(f"{what} of {span!r} is beyond a hundred years")
    # Up, never down: a timer must not fire early.
    whole = int(ms)
    return whole + 1 if ms > whole else whole


def _text_span_ms(text: str, what: str) -> float:
    import durationpy

    stripped = text.strip()
    if re.fullmatch(r"[+-]?[0-9.]+", stripped):
        raise ValueError(f"{text!r}: {stripped} what? Say {stripped}s or {stripped}m")
    try:
        parsed: timedelta = durationpy.from_str(stripped)
        return parsed.total_seconds() * 1000
    except (durationpy.DurationError, OverflowError, ValueError, KeyError, IndexError):
        raise ValueError(f"{what} must look like 250ms, 10m, 1h30m or 3d, not {text!r}") from None


def moment_ms(moment: datetime | float) -> int:
    """UTC milliseconds of `moment`: an aware datetime, or milliseconds since the epoch.

    Raises ValueError for a naive datetime, what is not a number, and moments past 9999.
    """
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError(f"{moment!r} has no time zone; write datetime(..., tzinfo=UTC)")
        delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
        micro = (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
        return min(-(-micro // 1000), LAST_MOMENT)
    if isinstance(moment, bool) or not isinstance(moment, int | float):
        raise ValueError(f"a moment is an aware datetime or milliseconds, not {moment!r}")
    if moment != moment or moment in (float("inf"), float("-inf")):
        raise ValueError(f"a moment must be a number, not {moment!r}")
    if not 0 <= moment <= LAST_MOMENT:
        raise ValueError(f"{moment!r} is not between 1970 and 9999")
    whole = int(moment)
    return whole + 1 if moment > whole else whole


def rfc3339(at_ms: int) -> str:
    """`at_ms` as RFC 3339 UTC text with milliseconds, which sorts as text."""
    seconds, ms = divmod(at_ms, 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{ms:03d}Z"
