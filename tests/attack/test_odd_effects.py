"""Effects given odd IDs, inputs, answers and functions: refused, or done once (spec F1)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from yieldstar_cli import Fatal, RetryPolicy, Step, not_found, settled, unknown, workflow
from yieldstar_cli.engine.effect_answers import NotFound
from yieldstar_cli.testing import Bench, RunResult

DONE: dict[str, int] = {}


def look(effect_id: str, given: Any) -> Any:
    """Whether it was done."""
    return settled(DONE[effect_id]) if effect_id in DONE else not_found


def do(effect_id: str, given: Any) -> int:
    """Do it."""
    DONE[effect_id] = DONE.get(effect_id, 0) + 1
    return DONE[effect_id]


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


def tried(*ids: str, using: dict[str, Any] | None = None, **how: Any) -> tuple[Bench, RunResult]:
    """One execution for each of `ids`, all with the same effect; how the last one ended."""
    given: dict[str, Any] = {
        "effect_id": "x",
        "operation": "o",
        "lookup": look,
        "perform": do,
        **how,
    }
    effect_id = given.pop("effect_id")

    @workflow
    async def odd(step: Step) -> Any:
        chosen = step.using(**using) if using else step
        return await chosen.effect(effect_id, **given)

    bench = Bench(odd)
    for execution_id in ids or ("a",):
        bench.admit(odd, execution_id=execution_id)
        bench.run_to(bench.clock.now_ms() + 1)
    return bench, bench.result(ids[-1] if ids else "a")


def refused(found: tuple[Bench, RunResult]) -> str:
    """What the function was told; nothing was called and nothing is kept."""
    bench, result = found
    try:
        assert DONE == {}
        assert bench.storage.effects.find() == []
        assert result.history == ()
        if result.error is not None:
            return f"{type(result.error).__name__}: {result.error}"
        assert result.record.problem is not None
        return f"{result.record.problem.code}: {result.record.problem.message}"
    finally:
        bench.close()


@pytest.mark.parametrize(
    "odd", [None, 5, b"x", ["x"], "", "x" * 256, "é" * 128, "a\nb", "\x1b[2J", "\ud800", "\u202ex"]
)
def test_an_odd_id_is_refused_before_anything_is_done(odd: object) -> None:
    """case 356; spec F1, E2: text of 1 to 255 bytes that can be shown."""
    assert "effect ID" in refused(tried(effect_id=odd))


@pytest.mark.parametrize("fine", ["x" * 255, "é" * 127, "order 42/7: a#b~c", "💶", "'; DROP--"])
def test_an_id_of_any_other_shape_is_kept_as_it_is(fine: str) -> None:
    """spec F1, E2."""
    bench, result = tried("a", "b", effect_id=fine)
    with bench:
        assert result.result == 1
        assert {fine: 1} == DONE
        assert [record.effect_id for record in bench.storage.effects.find()] == [fine]


def test_ids_are_compared_byte_for_byte() -> None:
    """spec F1, E2: two ways to write one word are two effects."""
    for effect_id in ("café", "cafe\u0301", "Café"):
        bench, result = tried(effect_id=effect_id)
        with bench:
            assert result.result == 1
    assert len(DONE) == 3


@pytest.mark.parametrize("odd", [None, 5, "", "a#b", "a/b", "a:b", "a~b", "a\nb", "x" * 101])
def test_an_operation_that_is_no_key_is_refused(odd: object) -> None:
    """spec F1, R3: its name is the key."""
    assert "key" in refused(tried(operation=odd))


@pytest.mark.parametrize(
    "given",
    [
        math.nan,
        math.inf,
        -0.0,
        b"\x00\xff",
        2**80,
        Decimal("1.10"),
        date(2024, 2, 29),
        (1, 2),
        {"a": {"b": [1, {"c": (b"x", math.nan)}]}},
        "\x00\u2028",
        None,
    ],
)
def test_an_input_of_plain_data_is_the_same_whenever_it_is_given(given: object) -> None:
    """case 356; spec F1, V1: also where it equals nothing, not even itself."""
    bench, result = tried("a", "b", "c", input=given)
    with bench:
        assert result.result == 1
        assert DONE == {"x": 1}
        assert bench.storage.effects.find(disputed=True) == []


def nested(depth: int) -> Any:
    """Lists within lists."""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def round_and_round() -> Any:
    """A list that holds itself."""
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    "given", [object(), round_and_round(), nested(600), {1: 2}, "\ud800", look]
)
def test_an_input_that_cannot_be_kept_is_refused_with_its_place(given: object) -> None:
    """spec F1, V1: and nothing is done."""
    assert "input" in refused(tried(input=given))


@pytest.mark.parametrize("pause", [0, -1, "0s", "soon", math.nan, math.inf, None, True, "1e400s"])
def test_a_pause_that_is_none_is_refused(pause: object) -> None:
    """spec F1, O1."""
    assert refused(tried(retry_in=pause))


@pytest.mark.parametrize("which", ["lookup", "perform"])
@pytest.mark.parametrize("odd", [None, "do", 7])
def test_what_cannot_be_called_is_refused(which: str, odd: object) -> None:
    """spec F1."""
    assert refused(tried(**{which: odd}))


class Gateway:
    """An object that can be called, and has methods."""

    def __call__(self, effect_id: str, given: object) -> int:
        return do(effect_id, given)

    def do(self, effect_id: str, given: object) -> int:
        """Do it."""
        return do(effect_id, given)

    async def do_soon(self, effect_id: str, given: object) -> int:
        """Do it, async."""
        return do(effect_id, given)


class AsyncGateway:
    """An object whose call is awaited."""

    async def __call__(self, effect_id: str, given: object) -> int:
        return do(effect_id, given)


async def look_soon(effect_id: str, given: object) -> Any:
    """Whether it was done, async."""
    return look(effect_id, given)


def do_in(place: str, effect_id: str, given: object) -> int:
    """Do it there."""
    return do(effect_id, given)


async def do_soon_in(place: str, effect_id: str, given: object) -> int:
    """Do it there, async."""
    return do(effect_id, given)


@pytest.mark.parametrize("lookup", [look, look_soon])
@pytest.mark.parametrize(
    "perform",
    [
        Gateway(),
        Gateway().do,
        Gateway().do_soon,
        AsyncGateway(),
        functools.partial(do_in, "here"),
        functools.partial(do_soon_in, "here"),
        lambda effect_id, given: do(effect_id, given),
    ],
)
@pytest.mark.parametrize("killed", [False, True])
def test_any_callable_does_it_plain_or_async(
    lookup: Callable[..., Any], perform: Callable[..., Any], killed: bool
) -> None:
    """spec F1: whatever the other one is."""

    @workflow
    async def odd(step: Step) -> Any:
        return await step.effect("x", operation="o", lookup=lookup, perform=perform)

    with Bench(odd) as bench:
        bench.admit(odd, execution_id="a")
        if killed:
            bench.run(until=lambda: "call:o:after" in bench.points.names)
            bench.crash()
        bench.run()

        assert bench.result("a").result == 1
        assert DONE == {"x": 1}


@pytest.mark.parametrize(
    "answer",
    [None, True, "settled", ("settled", 1), {"state": "settled"}, settled, NotFound, 0, unknown],
)
def test_a_look_that_says_something_else_leads_to_no_second_try(answer: object) -> None:
    """case 359; spec F1, E12."""
    times: list[str] = []

    def fails(effect_id: str, given: object) -> int:
        times.append("do")
        raise ConnectionError("no answer")

    bench, _ = tried(perform=fails, lookup=lambda e, g: answer)
    with bench:
        bench.run_to(bench.clock.now_ms() + 60_000)

        assert times == ["do"]
        (found,) = bench.storage.effects.find()
        assert (found.status, found.holder) == ("pending", None)
        problem = bench.record("a").problem
        assert (problem is None) is (answer is unknown)
        assert bench.history("a") == []


@pytest.mark.parametrize("result", ["x" * (17 << 20), object(), nested(600), {1: 2}, "\ud800"])
def test_a_result_that_cannot_be_kept_is_never_done_again(result: object) -> None:
    """case 359; spec F1, V1, V2: too large, too deep, or no data."""
    times: list[str] = []

    def does(effect_id: str, given: object) -> Any:
        times.append("do")
        return result

    bench, _ = tried(perform=does, lookup=lambda e, g: settled("done"))
    with bench:
        bench.run_to(bench.clock.now_ms() + 60_000)
        problem = bench.record("a").problem
        assert problem is not None
        assert problem.code == "INVALID_EFFECT_ANSWER"
        assert len(problem.message) < 2_000

        bench.crash()
        bench.storage.executions.wake("a")
        bench.run()

        assert times == ["do"]
        assert bench.result("a").result == "done"


@pytest.mark.parametrize(
    "error", [SystemExit(3), GeneratorExit(), BaseExceptionGroup("g", [ValueError()])]
)
def test_whatever_is_raised_leaves_it_in_doubt(error: BaseException) -> None:
    """case 354; spec F1, R8: it may have been done before."""

    def does(effect_id: str, given: object) -> int:
        do(effect_id, given)
        raise error

    bench, _ = tried(perform=does)
    with bench:
        bench.run()

        assert bench.result("a").result == 1
        assert DONE == {"x": 1}


def test_a_look_that_forbids_it_for_good_ends_the_operation() -> None:
    """spec F1, O1."""

    def lost(effect_id: str, given: object) -> int:
        raise ConnectionError("no answer")

    def forbids(effect_id: str, given: object) -> Any:
        raise Fatal("the account is closed")

    bench, _ = tried(perform=lost, lookup=forbids)
    with bench:
        bench.run()

        error = bench.result("a").error
        assert isinstance(error, Fatal)
        (found,) = bench.storage.effects.find()
        assert (found.status, found.holder) == ("pending", None)


@pytest.mark.parametrize("option", ["retry", "timeout", "tag"])
def test_options_that_it_does_not_take_are_refused(option: str) -> None:
    """spec O1, F1: they would promise what an effect does not do."""
    value: Any = {"retry": 3, "timeout": "1s", "tag": "gpu"}[option]
    assert option in refused(tried(using={option: value}))


def test_a_steps_time_limit_is_not_an_effects() -> None:
    """spec O1, F1: what `@workflow` sets for steps does not end what may be under way."""

    @workflow(timeout="1s", retry=RetryPolicy(attempts=1))
    async def limited(step: Step) -> int:
        return await step.effect("x", operation="o", lookup=look, perform=do)

    with Bench(limited, duration=lambda call: 60_000) as bench:
        bench.admit(limited, execution_id="a")
        bench.run()

        assert bench.result("a").result == 1
        assert bench.result("a").calls == (("o", 1),)
