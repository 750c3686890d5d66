"""Recorded values as people see them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest

from yieldstar_cli import codec
from yieldstar_cli.cli.render import values
from yieldstar_cli.cli.topics import TOPICS


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"order": 42, "note": "two words"}, 'order=42  note="two words"'),
        ({"ok": True, "none": None, "x": 1.0}, "ok=true  none=null  x=1.0"),
        ({"a": {"b": [1, "c"]}}, 'a={"b": [1, "c"]}'),
        ([1, 2], "[1, 2]"),
        ("text", "text"),
        ("", '""'),
        (None, "null"),
        ((1, "a"), '[1, "a"]'),
        ({1}, "[1]"),
        (2**70, str(2**70)),
        (Decimal("1.10"), "1.10"),
        (date(2026, 11, 30), "2026-11-30"),
        (datetime(2026, 11, 30, 16, tzinfo=UTC), "2026-11-30T16:00:00+00:00"),
        (timedelta(minutes=5), "0:05:00"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("/a"), "/a"),
        (["$ys", 1], '["$ys", 1]'),
        (float("nan"), "nan"),
    ],
)
def test_values_are_one_line_for_people(value: object, shown: str) -> None:
    assert values.pairs(codec.encode(value), 80, reveal=False) == shown


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "dbPassword",
        "api_key",
        "API-KEY",
        "accessToken",
        "client_secret",
        "Authorization",
    ],
)
def test_keys_that_look_secret_are_known(key: str) -> None:
    """S25."""
    assert values.is_secret(key)
    assert "hunter2" not in values.pairs(codec.encode({key: "hunter2"}), 80, reveal=False)
    assert "hunter2" not in values.full(codec.encode([{key: ["hunter2"]}]), reveal=False)
    assert "hunter2" in values.full(codec.encode([{key: ["hunter2"]}]), reveal=True)


@pytest.mark.parametrize("key", ["order", "keyboard", "path", "compass"])
def test_other_keys_are_not(key: str) -> None:
    assert not values.is_secret(key)


def test_deep_and_large_values_are_shown_too() -> None:
    deep: object = 1
    for _ in range(499):
        deep = [deep]

    assert values.pairs(codec.encode(deep), 40, reveal=False)
    assert "MB of JSON" in values.pairs(codec.encode("x" * 2_000_000), 40, reveal=False)


@pytest.mark.parametrize(
    "value",
    [
        (1, 2),
        b"hi",
        datetime(2026, 11, 30, 16, tzinfo=UTC),
        timedelta(minutes=5),
        Decimal("1.10"),
        2**64,
        float("nan"),
    ],
)
def test_the_help_page_shows_tags_as_they_are_stored(value: object) -> None:
    """`ys help values` is the published encoding."""
    assert codec.encode(value) in TOPICS["values"]
