"""A step's value and error are what replay will give, the first time already (spec O2, V1, V2)."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Generic, TypeVar
from uuid import UUID

import msgspec
import pytest

from tests.engine.helpers import MakeRig, called, definition_of
from yieldstar_cli import codec, failures
from yieldstar_cli.engine.retry import RetryPolicy
from yieldstar_cli.engine.step import Step
from yieldstar_cli.errors import StepFailed, UnserializableValue
from yieldstar_cli.testing import Bench

T = TypeVar("T")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Line(msgspec.Struct):
    sku: str
    price: Decimal = Decimal("1.10")
    colour: Colour = Colour.RED
    note: str | None = None


class Box(msgspec.Struct, Generic[T]):
    inside: T


@dataclass
class Order:
    lines: list[Line]
    placed: datetime
    tags: frozenset[str] = frozenset()
    boxes: list[Box[int]] = field(default_factory=list)


ORDER = Order([Line("a"), Line("b", note="x")], datetime(2026, 1, 2, tzinfo=UTC), frozenset({"t"}))


def an_order() -> Order:
    return ORDER


def a_box() -> Box[int]:
    return Box(5)


def a_pair() -> tuple[int, str]:
    return (1, "a")


def a_float() -> float:
    return 1.5


def a_mapping() -> dict[int, str]:
    return {1: "a"}


def a_colour() -> Colour:
    return Colour.BLUE


def give(value: Any = None) -> Any:
    return value


@pytest.mark.parametrize("fn", [an_order, a_box, a_pair, a_float, a_colour])
def test_a_result_comes_back_as_its_annotated_type(rig: MakeRig, fn: Any) -> None:
    """case 139, B87; spec O2: the same on the first run and on every replay."""
    seen = []

    async def w(step: Step) -> bool:
        value = await step.run(fn)
        seen.append(value)
        await step.sleep("1h")
        return value == fn()

    x = rig(w)
    x.to(60_000)
    x.restart()
    found = x.go()

    assert found.result is True
    assert seen[0] == seen[1] == fn()
    assert type(seen[0]) is type(seen[1]) is type(fn())


PLAIN = [
    None,
    True,
    0,
    2**63 - 1,
    2**200,
    -(2**70),
    1.5,
    -0.0,
    float("inf"),
    "é\x00\n",
    "",
    [1, [2]],
    {"a": {"b": []}},
    {},
    (1, (2, [3])),
    {1, 2},
    frozenset({"a"}),
    b"\x00\xff",
    datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    datetime(2026, 1, 2, 3, 4, 5, 6),
    date(2026, 1, 2),
    time(1, 2, 3),
    timedelta(days=-1, microseconds=1),
    Decimal("1.10"),
    UUID(int=5),
    Path("/a/b"),
    ["$ys", "tuple", 1],
    {"$ys": 1},
]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_a_value_without_annotation_comes_back_as_what_it_was(rig: MakeRig, value: Any) -> None:
    """cases 12, 13; spec V1: through a step, a replay and the outcome."""

    async def w(step: Step) -> Any:
        first = await step.run(give, value)
        await step.sleep("1h")
        return first

    x = rig(w)
    x.to(60_000)
    x.restart()
    found = x.go()

    assert repr(found.result) == repr(value)
    assert type(found.result) is type(value)


def test_the_function_never_sees_the_step_functions_own_object(rig: MakeRig) -> None:
    """spec O2: it passes through the codec before the workflow first sees it."""
    kept: list[Any] = []

    def leaky() -> list[int]:
        kept.append([1])
        return kept[0]

    async def w(step: Step) -> list[int]:
        value = await step.run(leaky)
        kept[0].append(2)
        await step.sleep("1s")
        return value

    assert rig(w).go().result == [1]


def test_one_rule_for_every_place(rig: MakeRig) -> None:
    """B87: the same dataclass as params, retried step's argument and result, poll and outcome."""
    tries = []

    def again(order: Order) -> Order:
        tries.append(order)
        if len(tries) < 3:
            raise OSError("again")
        return order

    again.__annotations__["return"] = Order

    async def w(step: Step, order: Order) -> Order:
        got = await step.using(retry=RetryPolicy()).run(again, order)
        await step.sleep("1h")
        return await step.poll(an_order) if got == order else got

    with Bench() as bench:
        made = definition_of(w, params_type=Order, result_type=Order)
        bench.definitions = {made.key: made}
        bench.admit("w", codec.Json(codec.encode(ORDER, Order)), execution_id="x")
        bench.run_to(bench.clock.now_ms() + 60_000)
        bench.crash()
        bench.run()
        found = bench.result("x")

    assert found.result == ORDER
    assert tries == [ORDER] * 3


@dataclass
class Holder:
    lock: Any


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1, {"lock": threading.Lock()}]}, "result of give.a[1].lock"),
        ({1: "a"}, "result of give"),
        ("\ud83d", "result of give"),
        (object(), "result of give"),
        (give, "result of give"),
        ([[1], {"k": {1: 2}}], "result of give[1].k"),
        (Holder(threading.Lock()), "result of give"),
    ],
)
def test_a_result_that_cannot_be_stored_is_that_steps_error(
    rig: MakeRig, value: Any, place: str
) -> None:
    """case 139, B81, B85; spec O2: the step and the path; it may be caught."""

    async def w(step: Step) -> Any:
        try:
            await step.run(give, value)
        except UnserializableValue as error:
            return str(error)
        return "taken"

    found = rig(w).go()

    assert found.result.startswith(place)
    assert [(e.step_key, e.ok) for e in found.history] == [("give", False)]


def test_a_result_that_cannot_be_stored_is_final_whatever_the_policy(rig: MakeRig) -> None:
    """spec O2: since the function has run."""

    async def w(step: Step) -> Any:
        policy = RetryPolicy(attempts=5, only=(Exception,))
        return await step.using(retry=policy).run(give, threading.Lock())

    found = rig(w).go()

    assert isinstance(found.error, UnserializableValue)
    assert len(called(found)) == 1


@pytest.mark.parametrize("fn", [a_mapping, lambda: None])
def test_a_result_that_is_not_what_was_annotated_is_refused(rig: MakeRig, fn: Any) -> None:
    """spec O2: a value is stored only if decoding gives the same types back."""

    def says_int() -> int:
        return "text"  # type: ignore[return-value]

    says_int.__annotations__["return"] = int

    async def w(step: Step) -> Any:
        return await step.run(says_int)

    found = rig(w).go()

    assert isinstance(found.error, UnserializableValue)


def test_a_value_whose_own_code_breaks_is_that_steps_error(rig: MakeRig) -> None:
    """spec R8, O2: `__post_init__`, `__eq__` … are the author's code, not the worker's."""

    class Fragile(msgspec.Struct):
        n: int
        made: list[int] = []

        def __post_init__(self) -> None:
            if made:
                raise KeyError("only once")
            made.append(1)

    made: list[int] = []

    def fragile() -> Fragile:
        return Fragile(1)

    fragile.__annotations__["return"] = Fragile

    async def w(step: Step) -> Any:
        return await step.run(fragile)

    found = rig(w).go()

    assert isinstance(found.error, UnserializableValue)
    assert "only once" in str(found.error)


def test_a_result_at_the_limit_and_one_byte_more(rig: MakeRig) -> None:
    """cases 140, 302; spec V2: one value 16 MiB; refused with its size and what to do."""
    fits = codec.MAX_VALUE - 2

    def big(size: int) -> str:
        return "x" * size

    async def w(step: Step) -> Any:
        sizes = [len(await step.run(big, fits))]
        try:
            await step.run(big, fits + 1)
        except UnserializableValue as error:
            return [*sizes, str(error)]
        return sizes

    found = rig(w).go()

    assert found.result[0] == fits
    assert "16,777,217" in found.result[1]
    assert "file" in found.result[1]


def test_deep_nesting_at_the_limit_and_one_more(rig: MakeRig) -> None:
    """spec V1: 500 levels come back; more are refused, not crashed upon."""

    def nested(depth: int) -> Any:
        value: Any = 1
        for _ in range(depth):
            value = [value]
        return value

    async def w(step: Step) -> Any:
        value = await step.run(nested, 500)
        depth = 0
        while isinstance(value, list):
            value, depth = value[0], depth + 1
        said = []
        for too_deep in (501, 100_000):
            try:
                await step.run(nested, too_deep)
            except UnserializableValue as error:
                said.append("deep" in str(error) or "nest" in str(error))
        return [depth, said]

    assert rig(w).go().result == [500, [True, True]]


def test_a_cycle_is_refused(rig: MakeRig) -> None:
    """spec V1."""

    def cycle() -> Any:
        value: list[Any] = []
        value.append(value)
        return value

    async def w(step: Step) -> Any:
        return await step.run(cycle)

    assert isinstance(rig(w).go().error, UnserializableValue)


# --- errors --------------------------------------------------------------------------------------


class CardDeclined(Exception):
    def __init__(self, card: str, reason: str) -> None:
        super().__init__(f"{card} was declined: {reason}")
        self.card = card
        self.reason = reason


class Wrapped:
    class Inner(ValueError):
        pass


def raises(error: BaseException) -> None:
    raise error


def both_times(rig: MakeRig, error: BaseException) -> list[Exception]:
    """What the function catches on the first run and on replay."""
    seen: list[Exception] = []

    async def w(step: Step) -> None:
        try:
            await step.run(raises, error)
        except Exception as caught:
            seen.append(caught)
        await step.sleep("1h")

    x = rig(w)
    x.to(60_000)
    x.restart()
    found = x.go()
    assert len(called(found)) == 1
    assert len(seen) == 2
    return seen


def test_an_error_with_its_own_init_comes_back_whole(rig: MakeRig) -> None:
    """case 116, B80; spec O2: class, message, attributes; `__init__` is not called again."""
    for caught in both_times(rig, CardDeclined("4242", "no funds")):
        assert type(caught) is CardDeclined
        assert str(caught) == "4242 was declined: no funds"
        assert (caught.card, caught.reason) == ("4242", "no funds")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KeyError("a"), KeyError),
        (FileNotFoundError(2, "No such file", "x.txt"), FileNotFoundError),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), UnicodeDecodeError),
        (Wrapped.Inner("x"), Wrapped.Inner),
        (failures.codec.DecodeError("x"), codec.DecodeError),
        (msgspec.ValidationError("x"), msgspec.ValidationError),
    ],
)
def test_an_error_comes_back_as_what_can_be_named_here(
    rig: MakeRig, error: Exception, kind: type[Exception]
) -> None:
    """spec O2: a builtin, a name of the module, a class in a class, an attribute of a module."""
    for caught in both_times(rig, error):
        assert type(caught) is kind
        assert str(caught) == str(error)


def test_an_error_that_cannot_be_named_comes_back_as_its_base(rig: MakeRig) -> None:
    """spec O2: the first class of its MRO that can; nothing is imported for it."""
    made = type("OutOfStock", (LookupError,), {"__module__": "some.shop"})

    for caught in both_times(rig, made("widget")):
        assert type(caught) is LookupError
        assert str(caught) == "widget"


def test_an_error_that_is_only_an_exception_comes_back_as_step_failed(rig: MakeRig) -> None:
    """spec O2: with the recorded name and message."""
    made = type("OutOfStock", (Exception,), {"__module__": "some.shop"})

    for caught in both_times(rig, made("widget")):
        assert type(caught) is StepFailed
        assert (caught.name, str(caught)) == ("OutOfStock", "widget")


def test_what_the_error_carries_that_cannot_be_stored_is_left_out(rig: MakeRig) -> None:
    """B81, spec O2: `str()` always gives the recorded message."""
    error = ValueError("the lock", threading.Lock())
    for caught in both_times(rig, error):
        assert type(caught) is ValueError
        assert str(caught) == str(error)
