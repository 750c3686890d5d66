"""Polls: run until the result is truthy, restart-proof (spec, operations table)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.engine.helpers import START, MakeRig, Rig, called
from yieldstar_cli.engine.retry import RetryPolicy
from yieldstar_cli.engine.step import Step
from yieldstar_cli.engine.this_step import this_step
from yieldstar_cli.errors import StepTimeout
from yieldstar_cli.testing import Killed


def ready_from(attempt: int, value: Any = None) -> Any:
    return (value or this_step().attempt) if this_step().attempt >= attempt else None


def never() -> bool:
    return False


def breaks(attempt: int) -> bool:
    if this_step().attempt == attempt:
        raise ConnectionError("gone")
    return this_step().attempt > attempt


def starts(x: Rig) -> list[int]:
    return [e.at - START for e in x.bench.events if e.kind == "step_started"]


def test_a_poll_runs_until_its_result_is_truthy(rig: MakeRig) -> None:
    """spec, operations table: that is the result; one operation, one entry."""

    async def w(step: Step) -> Any:
        return await step.poll(ready_from, 4, "parcel", every="10s")

    x = rig(w)
    found = x.go()

    assert found.result == "parcel"
    assert starts(x) == [0, 10_000, 20_000, 30_000]
    assert [(e.kind, e.step_key, e.attempt) for e in found.history] == [("poll", "ready-from", 4)]


def test_every_is_five_seconds_unless_said_otherwise(rig: MakeRig) -> None:
    """spec, operations table."""

    async def w(step: Step) -> Any:
        return await step.poll(ready_from, 2)

    x = rig(w)
    x.go()

    assert starts(x) == [0, 5_000]


@pytest.mark.parametrize("falsy", [None, False, 0, "", [], {}])
def test_every_falsy_value_is_an_attempt(rig: MakeRig, falsy: object) -> None:
    """spec, operations table: falsy results are attempts, kept for people and no resolutions."""

    def answer() -> object:
        return falsy if this_step().attempt == 1 else "yes"

    async def w(step: Step) -> Any:
        return await step.poll(answer)

    x = rig(w)
    found = x.go()
    tries = x.bench.storage.reader.attempts(x.record.number, 1)

    assert found.result == "yes"
    assert [(a.how, a.error) for a in tries] == [("empty", None)]


def test_attempts_used_up_raise(rig: MakeRig) -> None:
    """spec, operations table: StepTimeout after that many tries, alike on replay."""

    async def w(step: Step) -> str:
        try:
            await step.poll(never, every="1s", attempts=3)
        except StepTimeout as error:
            await step.sleep("1h")
            return str(error)
        return ""

    x = rig(w)
    x.to(60_000)
    x.restart()
    found = x.go()

    assert "3 tries" in found.result
    assert len(called(found)) == 3


@pytest.mark.parametrize(
    "until",
    [
        "25s",
        25,
        timedelta(seconds=25),
        datetime.fromtimestamp(START / 1000 + 25, UTC),
    ],
)
def test_a_moment_that_passes_raises(rig: MakeRig, until: Any) -> None:
    """spec, operations table: `until` is a moment or a span; a last try is made at it."""

    async def w(step: Step) -> str:
        try:
            await step.poll(never, every="10s", until=until)
        except StepTimeout as error:
            return str(error)
        return ""

    x = rig(w)
    found = x.go()

    assert "until" in found.result
    assert found.history[0].at == START + 25_000
    assert starts(x)[:3] == [0, 10_000, 20_000]


def test_a_moment_that_passed_before_still_gets_one_try(rig: MakeRig) -> None:
    """spec, operations table: what holds already is found; what does not is not waited for."""

    async def w(step: Step) -> list[object]:
        past = step.now() - timedelta(hours=1)
        seen: list[object] = [await step.poll(ready_from, 1, "there", until=past)]
        try:
            await step.poll(never, until=past)
        except StepTimeout:
            seen.append("over")
        return seen

    found = rig(w).go()

    assert found.result == ["there", "over"]
    assert called(found) == ["ready-from", "never"]


def test_an_exception_is_final(rig: MakeRig) -> None:
    """spec, operations table: unless `using(retry=)` says otherwise."""

    async def w(step: Step) -> Any:
        return await step.poll(breaks, 2, every="1s")

    found = rig(w).go()

    assert isinstance(found.error, ConnectionError)
    assert len(called(found)) == 2


def test_errors_that_are_retried_and_falsy_results_are_counted_apart(rig: MakeRig) -> None:
    """spec, operations table, O1: the policy counts errors, `attempts` counts falsy results."""

    async def w(step: Step) -> Any:
        polling = step.using(retry=RetryPolicy(attempts=2, first="3s"))
        return await polling.poll(breaks, 2, every="1s", attempts=2)

    x = rig(w)
    found = x.go()

    assert found.result is True
    assert starts(x) == [0, 1_000, 4_000]


def test_until_holds_for_a_poll_with_retries_too(rig: MakeRig) -> None:
    """spec, operations table: the moment that passed while no worker ran ends it, untried."""

    async def w(step: Step) -> Any:
        polling = step.using(retry=RetryPolicy(attempts=9, first="3s"))
        return await polling.poll(never, every="1m", until="5m")

    x = rig(w)
    x.to(30_000)
    x.restart()
    x.bench.clock.advance(3_600_000)
    found = x.go()

    assert isinstance(found.error, StepTimeout)
    assert len(called(found)) == 1
    assert found.history[0].at == START + 30_000 + 3_600_000


def test_a_total_timeout_spans_the_pauses_of_a_poll_too(rig: MakeRig) -> None:
    """spec O1: over all attempts and pauses; no pause is begun that it would cut short."""

    async def w(step: Step) -> Any:
        policy = RetryPolicy(total_timeout="25s")
        return await step.using(retry=policy).poll(never, every="10s")

    x = rig(w)
    found = x.go()

    assert isinstance(found.error, StepTimeout)
    assert "25 s in all" in str(found.error)
    assert starts(x) == [0, 10_000, 20_000]
    assert found.history[0].at == START + 20_000


def test_restarts_change_neither_count_nor_moments(rig: MakeRig) -> None:
    """spec, operations table: restart-proof like retries; a crash uses up no try."""

    async def w(step: Step) -> Any:
        return await step.poll(ready_from, 4, every="10s", attempts=4)

    x = rig(w)
    x.to(5_000)
    x.restart()
    x.to(15_000)
    x.restart()
    x.bench.points.kill_at(name="call:ready-from:after")
    with pytest.raises(Killed):
        x.go()
    x.bench.points.reset()
    x.restart()
    found = x.go()

    assert found.result == 4
    assert starts(x) == [0, 10_000, 20_000, 20_000, 30_000]


def test_an_async_function_is_polled_as_well(rig: MakeRig) -> None:
    """spec R1: sync or async."""

    async def arrived() -> bool:
        return this_step().attempt == 2

    async def w(step: Step) -> bool:
        return await step.poll(arrived)

    assert rig(w).go().result is True


def test_a_value_that_cannot_say_whether_it_is_true_ends_the_poll(rig: MakeRig) -> None:
    """spec R8: the author's `__bool__` is the author's code; its error is the poll's error."""

    class Unsure:
        def __bool__(self) -> bool:
            raise KeyError("unsure")

    async def w(step: Step) -> Any:
        return await step.using(key="k").poll(Unsure)

    found = rig(w).go()

    assert isinstance(found.error, KeyError)


@pytest.mark.parametrize(
    "given",
    [
        {"attempts": 0},
        {"attempts": True},
        {"attempts": 2.5},
        {"every": "soon"},
        {"every": float("inf")},
        {"until": "then"},
        {"until": datetime(2030, 1, 1)},
    ],
)
def test_limits_that_make_no_sense_are_refused(rig: MakeRig, given: dict[str, Any]) -> None:
    """spec, operations table: at the call."""

    async def w(step: Step) -> Any:
        return await step.poll(never, **given)

    found = rig(w).go()

    assert isinstance(found.error, ValueError | TypeError)
    assert called(found) == []


def test_a_spawned_poll_can_be_raced_and_cancelled(rig: MakeRig) -> None:
    """spec O4: the cancel ends its pauses."""

    async def w(step: Step) -> bool:
        watch = step.spawn(step.poll(never, every="10s"))
        await step.select(watch, step.timer("35s"))
        watch.cancel()
        await step.sleep("1h")
        return watch.done()

    x = rig(w)
    found = x.go()

    assert found.result is True
    assert starts(x) == [0, 10_000, 20_000, 30_000]
