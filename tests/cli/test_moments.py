"""Spans and moments: how people type them, how they are shown."""

from __future__ import annotations

import time

import pytest

from yieldstar_cli import clock
from yieldstar_cli.cli.render.times import Times, rough, short, took

NOON = 1_796_040_000_000  # 2026-11-30T12:00:00Z


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("+10m", "2026-11-30T12:10:00.000Z"),
        ("+0s", "2026-11-30T12:00:00.000Z"),
        ("13:30", "2026-11-30T13:30:00.000Z"),
        ("09:30", "2026-12-01T09:30:00.000Z"),
        ("12:00", "2026-12-01T12:00:00.000Z"),
        ("13:30:15.250", "2026-11-30T13:30:15.250Z"),
        ("14:30+02:00", "2026-11-30T12:30:00.000Z"),
        ("2026-12-01T09:30", "2026-12-01T09:30:00.000Z"),
        ("2026-12-01 09:30", "2026-12-01T09:30:00.000Z"),
        ("2026-12-01T09:30-05:00", "2026-12-01T14:30:00.000Z"),
        ("2026-01-01T00:00Z", "2026-01-01T00:00:00.000Z"),
    ],
)
def test_moments_are_read(text: str, moment: str) -> None:
    assert clock.rfc3339(clock.read_moment(text, NOON)) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10",
        "tomorrow",
        "25:00",
        "9:30",
        "2026-13-01T00:00",
        "2026-12-01",
        "+10",
        "+-5m",
        "-5m",
        "12:00 UTC",
        "0001-01-01T00:00Z",
        "+1000000h",
    ],
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    """case 47."""
    with pytest.raises(ValueError, match=r"."):
        clock.read_moment(text, NOON)


@pytest.mark.usefixtures("new_york")
def test_a_skipped_local_time_is_refused() -> None:
    """case 159: 02:30 on the day the clocks go forward does not exist."""
    with pytest.raises(ValueError, match="does not exist here"):
        clock.read_moment("2026-03-08T02:30", NOON)

    assert clock.read_moment("2026-03-08T02:30-05:00", NOON)


@pytest.mark.usefixtures("new_york")
def test_a_repeated_local_time_is_refused_with_both_ways_to_write_it() -> None:
    """case 159: 01:30 comes twice on the day the clocks go back."""
    with pytest.raises(ValueError, match="comes twice") as refused:
        clock.read_moment("2026-11-01T01:30", NOON)

    first, second = "2026-11-01T01:30-04:00", "2026-11-01T01:30-05:00"
    assert f"{first} or {second}" in str(refused.value)
    assert clock.read_moment(second, NOON) - clock.read_moment(first, NOON) == 3_600_000


@pytest.mark.usefixtures("new_york")
def test_a_local_time_is_that_of_the_wall_clock() -> None:
    assert clock.rfc3339(clock.read_moment("09:30", NOON)) == "2026-11-30T14:30:00.000Z"


@pytest.mark.parametrize(
    ("span", "precise", "coarse", "typed"),
    [
        (0, "0 ms", "0 ms", "0s"),
        (41, "41 ms", "41 ms", "41ms"),
        (950, "950 ms", "950 ms", "950ms"),
        (1_300, "1.3 s", "1 s", "1300ms"),
        (2_000, "2.0 s", "2 s", "2s"),
        (9_960, "9 s", "9 s", "9960ms"),
        (38_000, "38 s", "38 s", "38s"),
        (242_000, "4m02s", "4m", "4m02s"),
        (600_000, "10m00s", "10m", "10m"),
        (5_400_000, "1h30m", "1h", "1h30m"),
        (187_200_000, "2d04h", "2d", "2d04h"),
        (-5, "0 ms", "0 ms", "0s"),
    ],
)
def test_spans_are_written(span: int, precise: str, coarse: str, typed: str) -> None:
    assert (took(span), rough(span), short(span)) == (precise, coarse, typed)


def test_moments_are_shown_relative_local_or_in_utc() -> None:
    at = NOON + 600_000
    relative, local, utc = Times(NOON), Times(NOON, "local"), Times(NOON, "utc")

    assert relative.coming(at) == "12:10:00, in 10m00s"
    assert relative.past(NOON - 5_000) == "11:59:55 (5.0 s ago)"
    assert local.coming(at) == "12:10:00"
    assert utc.coming(at) == "2026-11-30T12:10:00.000Z"
    assert relative.at(NOON + 86_400_000) == "2026-12-01 12:00"
    assert relative.ahead(NOON) == "now"
