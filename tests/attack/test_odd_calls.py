"""A program that hands the runtime what it does not take: refused in a sentence, nothing stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.process.shop import Shop
from yieldstar_cli.errors import InvalidMessageEvent, UsageError
from yieldstar_cli.runtime import Runtime, open_runtime


@pytest.fixture
def runtime(shop: Shop) -> Iterator[Runtime]:
    """The shop's runtime, with one execution, `a`."""
    shop.ys("trigger", "simple", "--id", "a", "-p", "name=a", check=True)
    with open_runtime(shop.folder / "ys.db", shop.folder / "workflows") as opened:
        yield opened


CALLS: list[Callable[[Runtime, Any], object]] = [
    lambda runtime, odd: runtime.send(odd, "q", 1),
    lambda runtime, odd: runtime.messages(odd),
    lambda runtime, odd: runtime.cancel(odd),
    lambda runtime, odd: runtime.wake(odd),
    lambda runtime, odd: runtime.get(odd),
    lambda runtime, odd: runtime.wait(odd, timeout=0),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("odd", [None, 5, b"a", ["a"]])
def test_what_names_no_execution_is_refused_by_every_call(
    runtime: Runtime, call: Callable[[Runtime, Any], object], odd: object
) -> None:
    """spec M1, V3: a message for None was buffered for an execution called "None"."""
    with pytest.raises(UsageError, match="named by its ID"):
        call(runtime, odd)

    assert runtime.messages(str(odd)) == []


def test_a_reason_that_is_no_text_is_refused(runtime: Runtime) -> None:
    """spec C6, E14, V3."""
    odd: Any = 5

    with pytest.raises(UsageError, match="a reason is text, not int"):
        runtime.cancel("a", reason=odd)
    with pytest.raises(UsageError, match="a reason is text, not int"):
        runtime.pause("a", reason=odd)

    found = runtime.get("a")
    assert found is not None
    assert (found.cancel, found.paused) == (None, None)


def test_a_message_that_holds_itself_or_is_too_deep_is_refused(runtime: Runtime) -> None:
    """spec V1: with its place, not with Python's own limit."""
    endless: list[object] = []
    endless.append(endless)
    deep: object = 0
    for _ in range(5_000):
        deep = [deep]

    for value in (endless, deep, {"x": endless}):
        with pytest.raises(InvalidMessageEvent, match="value"):
            runtime.send("a", "q", value)

    assert runtime.messages("a") == []
