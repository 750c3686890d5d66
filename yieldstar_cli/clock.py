"""Time: the only module that reads the clock, and the one that reads and writes people's times.

Instants are integers, UTC milliseconds since the epoch; spans are integers, milliseconds.
"""

from __future__ import annotations

import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, TypeGuard

if TYPE_CHECKING:
    # Imported where it is used: short commands do without.
    from datetime import datetime, timedelta

#: The last instant that may be stored: the end of the year 9999.
LAST_MOMENT = 253_402_300_799_999
#: The longest span that may be asked for: it must keep every moment before LAST_MOMENT.
LONGEST_SPAN = 100 * 365 * 86_400_000
#: Milliseconds that only the rounding of a number makes.
NO_TIME = 1e-6


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


def pause_ms(span: float) -> None:
    """Do nothing for `span` milliseconds."""
    time.sleep(span / 1000)


def span_ms(span: str | float | timedelta, *, what: str = "a duration") -> int:
    """Milliseconds of `span`: a string such as "10m", seconds as a number, or a timedelta.

    Negative spans are allowed (due at once). Raises ValueError for a bare number in a string,
    for what is not a number, and for spans beyond a hundred years.
    """
    if isinstance(span, bool):
        raise ValueError(f"{what} must be a span such as '10m', not {span!r}")
    if isinstance(span, str):
        ms = _text_span_ms(span, what)
    elif isinstance(span, int | float):
        ms = span * 1000
    elif _is_timedelta(span):
        ms = span.total_seconds() * 1000
    else:
        raise ValueError(f"{what} must be a span such as '10m', not {type(span).__name__}")
    if ms != ms or ms in (float("inf"), float("-inf")):
        raise ValueError(f"{what} must be a number, not {span!r}")
    if abs(ms) > LONGEST_SPAN:
        raise ValueError(f"{what} of {span!r} is beyond a hundred years")
    # 4.017 * 1000 is a little more than 4017: what is left of a nanosecond is no time.
    nearest = round(ms)
    if nearest and abs(ms - nearest) < NO_TIME:
        return nearest
    # Up, never down: a timer must not fire early.
    whole = int(ms)
    return whole + 1 if ms > whole else whole


def _is_timedelta(span: object) -> TypeGuard[timedelta]:
    from datetime import timedelta

    return isinstance(span, timedelta)


# A step's timeout and a loop's sleep are the same text each time, and each replay reads it again.
@lru_cache(maxsize=1024)
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
    if not isinstance(moment, int | float) and (aware := _aware_ms(moment)) is not None:
        return min(aware, LAST_MOMENT)
    if isinstance(moment, bool) or not isinstance(moment, int | float):
        raise ValueError(f"a moment is an aware datetime or milliseconds, not {moment!r}")
    if moment != moment or moment in (float("inf"), float("-inf")):
        raise ValueError(f"a moment must be a number, not {moment!r}")
    if not 0 <= moment <= LAST_MOMENT:
        raise ValueError(f"{moment!r} is not between 1970 and 9999")
    whole = int(moment)
    return whole + 1 if moment > whole else whole


def _aware_ms(moment: object) -> int | None:
    """UTC milliseconds of an aware datetime, rounded up; None for what is no datetime."""
    from datetime import UTC, datetime

    if not isinstance(moment, datetime):
        return None
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone; write datetime(..., tzinfo=UTC)")
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    micro = (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    return -(-micro // 1000)


def rfc3339(at_ms: int) -> str:
    """`at_ms` as RFC 3339 UTC text with milliseconds, which sorts as text."""
    seconds, ms = divmod(at_ms, 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{ms:03d}Z"


def local(at_ms: int) -> datetime:
    """`at_ms` on the wall clock of this machine (`TZ`), with its offset.

    What no calendar holds, as only a damaged file says it, is the nearest moment that one does.
    """
    from datetime import UTC, datetime

    datable = min(max(at_ms, 0), LAST_MOMENT - 86_400_000)
    return datetime.fromtimestamp(datable // 1000, UTC).astimezone()


_CLOCK_TIME = re.compile(r"(?:(\d{4}-\d{2}-\d{2})[T ])?(\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?)(.*)")
_OFFSET = re.compile(r"|[Zz]|[+-]\d{2}:?\d{2}")


def read_moment(text: str, now_ms: int) -> int:
    """UTC milliseconds of a moment as people type it.

    `+10m` from now; `09:30` the next time it is that on the wall clock; `2026-12-01T09:30`; the
    latter two with or without an offset (`Z`, `+02:00`). Raises ValueError for anything else, and
    for a local time that the change to or from summer time skips or repeats.
    """
    from datetime import datetime

    stripped = text.strip()
    if stripped.startswith("+") and not stripped.startswith(("++", "+-")):
        return _storable(now_ms + span_ms(stripped[1:]), text)
    match = _CLOCK_TIME.fullmatch(stripped)
    if match is None or _OFFSET.fullmatch(match[3]) is None:
        if re.fullmatch(r"[0-9.]+", stripped):
            raise ValueError(f"{text!r}: {stripped} what? Say +{stripped}s, +{stripped}m or 09:30")
        raise ValueError(f"a moment looks like +10m, 09:30 or 2026-12-01T09:30, not {text!r}")
    day, clock_time, offset = match.groups()
    try:
        if day is None:
            return _next_time(clock_time + offset, now_ms)
        moment = datetime.fromisoformat(f"{day}T{clock_time}{offset}")
    except ValueError as error:
        raise ValueError(f"{text!r} is no moment: {error}") from None
    try:
        return _storable(_instant(moment) if moment.year >= 1969 else -1, text)
    except OverflowError:
        raise ValueError(f"{text!r} is not between 1970 and 9999") from None


def _next_time(clock_time: str, now_ms: int) -> int:
    from datetime import UTC, datetime, timedelta

    zone = datetime.fromisoformat(f"2000-01-01T{clock_time}").tzinfo
    today = (datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone)).date()
    for day in (today, today + timedelta(days=1)):
        at_ms = _instant(datetime.fromisoformat(f"{day}T{clock_time}"))
        if at_ms > now_ms:
            return at_ms
    raise AssertionError("one of two days in a row is ahead")


def _instant(moment: datetime) -> int:
    from datetime import UTC

    if moment.tzinfo is not None:
        return moment_ms(moment)
    first, second = moment.astimezone(UTC), moment.replace(fold=1).astimezone(UTC)
    if first == second:
        return moment_ms(first)
    written = moment.isoformat(timespec="minutes")
    offsets = [m.astimezone().isoformat(timespec="minutes") for m in (first, second)]
    if first.astimezone().replace(tzinfo=None) != moment:
        raise ValueError(f"{written} does not exist here: the clocks go forward then")
    raise ValueError(f"{written} comes twice here: write {offsets[0]} or {offsets[1]}")


def _storable(at_ms: int, text: str) -> int:
    if not 0 <= at_ms <= LAST_MOMENT:
        raise ValueError(f"{text!r} is not between 1970 and 9999")
    return at_ms
