"""The search for an order accepts what can have been, and nothing else (C.7)."""

from __future__ import annotations

import pytest

from tests.linear.search import CANCELLED, Call, explains

DONE = "Completed(result='1')"


def calls(*told: tuple[str, int, int | None, str | None]) -> list[Call]:
    """Calls as (op, began, ended, answer); a trigger may say its params after a colon."""
    made = []
    for op, began, ended, answer in told:
        name, _, argument = op.partition(":")
        made.append(Call(name, argument, began, ended, answer))
    return made


POSSIBLE = {
    "nothing": [],
    "twice": [("trigger:1", 0, 1, "admitted"), ("trigger:1", 2, 3, "conflict")],
    "another": [("trigger:1", 0, 1, "admitted"), ("trigger:2", 2, 3, "conflict")],
    "the later began first": [("trigger:2", 0, 9, "conflict"), ("trigger:1", 1, 2, "admitted")],
    "read while it was admitted": [("get", 0, 5, "none"), ("trigger:1", 1, 2, "admitted")],
    "never answered, and done": [("trigger:1", 0, None, None), ("get", 5, 6, "open")],
    "never answered, and not done": [("trigger:1", 0, None, None), ("get", 5, 6, "none")],
    "it ended meanwhile": [
        ("trigger:1", 0, 1, "admitted"),
        ("get", 2, 3, "open"),
        ("wake", 4, 5, "ignored"),
        ("get", 6, 7, DONE),
    ],
    "cancelled before it began": [
        ("trigger:1", 0, 1, "admitted"),
        ("cancel", 2, 3, "cancelled"),
        ("get", 4, 5, CANCELLED),
    ],
    "asked too late": [
        ("trigger:1", 0, 1, "admitted"),
        ("cancel", 2, 3, "requested"),
        ("get", 4, 5, DONE),
    ],
}
IMPOSSIBLE = {
    "two admitted": [("trigger:1", 0, 1, "admitted"), ("trigger:2", 2, 3, "admitted")],
    "lost": [("trigger:1", 0, 1, "admitted"), ("get", 2, 3, "none")],
    "there before it was asked for": [("get", 0, 1, "open"), ("trigger:1", 2, 3, "admitted")],
    "open again": [
        ("trigger:1", 0, 1, "admitted"),
        ("get", 2, 3, DONE),
        ("get", 4, 5, "open"),
    ],
    "two outcomes": [
        ("trigger:1", 0, 1, "admitted"),
        ("get", 2, 3, DONE),
        ("get", 4, 5, CANCELLED),
    ],
    "cancelled by nobody": [("trigger:1", 0, 1, "admitted"), ("get", 2, 3, CANCELLED)],
    "woken after its end": [
        ("trigger:1", 0, 1, "admitted"),
        ("wake", 2, 3, "ignored"),
        ("wake", 4, 5, "requested"),
    ],
    "a conflict with nothing": [("trigger:1", 0, 1, "conflict"), ("trigger:1", 2, 3, "admitted")],
}


@pytest.mark.parametrize("name", POSSIBLE)
def test_what_can_have_been_is_accepted(name: str) -> None:
    """C.7."""
    assert explains(calls(*POSSIBLE[name]))


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_cannot_have_been_is_not(name: str) -> None:
    """C.7."""
    assert not explains(calls(*IMPOSSIBLE[name]))
