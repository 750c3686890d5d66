"""Writes spans and moments for people."""

from __future__ import annotations

from yieldstar_cli import clock

_MINUTE = 60_000
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR


def took(span_ms: int) -> str:
    """A span with about three digits: 41 ms, 1.3 s, 38 s, 4m02s, 2h05m, 2d04h."""
    span_ms = max(0, span_ms)
    if span_ms < 1000:
        return f"{span_ms} ms"
    if span_ms < 9_950:
        return f"{span_ms / 1000:.1f} s"
    if span_ms < _MINUTE:
        return f"{span_ms // 1000} s"
    if span_ms < _HOUR:
        return f"{span_ms // _MINUTE}m{span_ms % _MINUTE // 1000:02d}s"
    if span_ms < _DAY:
        return f"{span_ms // _HOUR}h{span_ms % _HOUR // _MINUTE:02d}m"
    return f"{span_ms // _DAY}d{span_ms % _DAY // _HOUR:02d}h"


def rough(span_ms: int) -> str:
    """A span by its largest unit: 41 ms, 12 s, 4m, 2h, 3d."""
    span_ms = max(0, span_ms)
    if span_ms < 1000:
        return f"{span_ms} ms"
    for unit_ms, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if span_ms >= unit_ms:
            return f"{span_ms // unit_ms}{unit}"
    return f"{span_ms // 1000} s"


def short(span_ms: int) -> str:
    """A span as people type it: 950ms, 2s, 1m30s."""
    span_ms = max(0, span_ms)
    if span_ms < 10_000 and span_ms % 1000:
        return f"{span_ms}ms"
    if span_ms < _MINUTE:
        return f"{span_ms // 1000}s"
    return took(span_ms).removesuffix("00s").removesuffix("00m")


class Times:
    """Writes moments as one call asked for: `--times relative|local|utc`."""

    def __init__(self, now_ms: int, style: str = "relative") -> None:
        self.now_ms = now_ms
        self.style = style

    def at(self, at_ms: int) -> str:
        """A moment: 12:10:00 today, 2026-12-01 09:30 on another day; RFC 3339 with `utc`."""
        if self.style == "utc":
            return clock.rfc3339(at_ms)
        moment = clock.local(at_ms)
        if moment.date() == clock.local(self.now_ms).date():
            return moment.strftime("%H:%M:%S")
        return moment.strftime("%Y-%m-%d %H:%M")

    def ago(self, at_ms: int) -> str:
        """A past moment for a list: 3m ago."""
        if self.style != "relative":
            return self.at(at_ms)
        return f"{rough(self.now_ms - at_ms)} ago"

    def ahead(self, at_ms: int) -> str:
        """A coming moment for a list: in 5m58s, or now."""
        if self.style != "relative":
            return self.at(at_ms)
        return f"in {took(at_ms - self.now_ms)}" if at_ms > self.now_ms else "now"

    def past(self, at_ms: int) -> str:
        """A past moment with its distance: 12:00:00 (4m02s ago)."""
        if self.style != "relative":
            return self.at(at_ms)
        return f"{self.at(at_ms)} ({took(self.now_ms - at_ms)} ago)"

    def coming(self, at_ms: int) -> str:
        """A coming moment with its distance: 12:10:00, in 5m58s; a passed one: 12:10:00, now."""
        if self.style != "relative":
            return self.at(at_ms)
        return f"{self.at(at_ms)}, {self.ahead(at_ms)}"
