"""Durable timers: exact, never early, restart-proof (spec O3, R7, R10)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.effort import rounds
from tests.engine.helpers import START, MakeRig, called, keys, moments
from yieldstar_cli.clock import LAST_MOMENT, ManualClock
from yieldstar_cli.engine.authoring import workflow
from yieldstar_cli.engine.step import Step
from yieldstar_cli.testing import Bench

DAY = 86_400_000
SLEEPERS = rounds(500)


def give(value: Any = None) -> Any:
    return value


@workflow
async def sleeper(step: Step, seconds: int) -> float:
    """Sleeps once."""
    await step.sleep(seconds)
    return step.now().timestamp()


async def ten_minutes(step: Step) -> float:
    await step.sleep("10m")
    return step.now().timestamp() * 1000 - START


def test_a_timer_fires_at_its_moment_and_not_a_millisecond_before(rig: MakeRig) -> None:
    """case 144, B13; spec O3: a suspended execution holds no claim and is delivered once."""
    x = rig(ten_minutes)
    early = x.to(599_999)
    assert (early.status, early.record.delivery, early.record.deliveries) == ("suspended", None, 1)
    assert early.record.due_at == START + 600_000

    found = x.to(600_000)

    assert found.result == 600_000
    assert found.record.deliveries == 2
    assert found.history[0].at == START + 600_000


@pytest.mark.parametrize(
    ("span", "expected"),
    [
        ("250ms", 250),
        ("10m", 600_000),
        ("1h30m", 5_400_000),
        ("3d", 3 * DAY),
        (1.5, 1_500),
        (0.0001, 1),
        (2, 2_000),
        (timedelta(minutes=2), 120_000),
        (timedelta(microseconds=1), 1),
    ],
)
def test_a_span_is_a_string_seconds_or_a_timedelta(rig: MakeRig, span: Any, expected: int) -> None:
    """spec, operations table: rounded up to whole milliseconds, never early."""

    async def w(step: Step) -> None:
        await step.sleep(span)

    assert moments(rig(w).go()) == [expected]


@pytest.mark.parametrize("span", [0, "0s", -5, "-5s", timedelta(days=-1), -0.0])
def test_nothing_or_less_is_due_at_once_and_recorded_like_any_timer(
    rig: MakeRig, span: Any
) -> None:
    """cases 146, 147, B32; spec, operations table."""

    async def w(step: Step) -> None:
        await step.sleep(span)
        await step.timer(span)

    found = rig(w).go()

    assert keys(found) == ["sleep", "timer"]
    assert moments(found) == [0, 0]
    assert found.record.deliveries == 1


def test_a_delay_that_is_negative_on_replay_keeps_its_recorded_moment(rig: MakeRig) -> None:
    """B32: `deadline - now` computed from the real clock, positive first; no divergence."""
    spans = iter([60, -5, -5])

    async def w(step: Step) -> float:
        await step.sleep(next(spans))
        at = step.now().timestamp() * 1000 - START
        await step.sleep("1h")
        return at

    x = rig(w)
    x.to(120_000)
    x.restart()

    assert x.go().result == 60_000


@pytest.mark.parametrize(
    "span",
    [float("nan"), float("inf"), float("-inf"), 1e12, "1000y", "10", "soon", "", None, True, [1]],
)
def test_what_is_no_span_is_refused(rig: MakeRig, span: Any) -> None:
    """case 156, B32; spec, operations table: an error that the author sees; nothing is stored."""

    async def w(step: Step) -> None:
        await step.sleep(span)

    found = rig(w).go()

    assert isinstance(found.error, ValueError)
    assert found.history == ()


@pytest.mark.parametrize(
    "moment",
    [datetime(2030, 1, 1), float("nan"), float("inf"), -1, LAST_MOMENT + 1, "tomorrow", True],
)
def test_what_is_no_moment_is_refused(rig: MakeRig, moment: Any) -> None:
    """cases 156, 159; spec, operations table: naive datetimes too, whatever TZ says."""

    async def w(step: Step) -> None:
        await step.sleep_until(moment)

    assert isinstance(rig(w).go().error, ValueError)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2039, 1, 19, 3, 14, 8, tzinfo=UTC),
        datetime(2099, 12, 31, 23, 59, 59, 999_000, tzinfo=timezone(timedelta(hours=-11))),
        START + 40 * 365 * DAY,
    ],
)
def test_moments_beyond_2038_are_exact(rig: MakeRig, moment: Any) -> None:
    """case 156."""

    async def w(step: Step) -> None:
        await step.sleep_until(moment)
        await step.timer_until(moment)

    expected = moment if isinstance(moment, int) else round(moment.timestamp() * 1000)

    assert [e.at for e in rig(w).go().history] == [expected, expected]


def test_a_sleep_that_would_end_after_the_last_moment_is_refused() -> None:
    """case 156: near the end of the year 9999 a span may be too long."""
    with Bench(sleeper, clock=ManualClock(LAST_MOMENT - 1_000)) as bench:
        bench.admit("sleeper", {"seconds": 2}, execution_id="x")
        bench.run()
        found = bench.result("x")

    assert "9999" in str(found.error)


def test_a_moment_that_has_passed_is_due_at_once(rig: MakeRig) -> None:
    """case 155; spec, operations table."""

    async def w(step: Step) -> None:
        await step.sleep_until(step.now() - timedelta(days=1))
        await step.timer_until(0)

    assert moments(rig(w).go()) == [0, 0]


def test_several_timers_fire_in_the_order_of_their_moments(rig: MakeRig) -> None:
    """case 145; spec O6: equal moments in the order they were named."""

    async def w(step: Step) -> list[str]:
        order: list[str] = []

        async def one(name: str, seconds: int) -> None:
            await step.sleep(seconds)
            order.append(name)

        await step.all([one("c", 3), one("a", 1), one("b1", 2), one("b2", 2)])
        return order

    assert rig(w).go().result == ["a", "b1", "b2", "c"]


def test_a_timer_counts_from_its_own_making(rig: MakeRig) -> None:
    """case 151; spec R7: `now()` plus the span when the handle is made, not when it is awaited."""

    async def w(step: Step) -> list[float]:
        made_early = step.timer("10s")
        await step.sleep("4s")
        made_late = step.timer("10s")
        await made_early
        first = step.now().timestamp() * 1000 - START
        await made_late
        return [first, step.now().timestamp() * 1000 - START]

    assert rig(w).go().result == [10_000, 14_000]


def test_a_restart_keeps_the_moment(rig: MakeRig) -> None:
    """cases 148, 160: it fires once, at the original time; redelivery does not lengthen it."""
    x = rig(ten_minutes)
    for minute in (1, 5, 9):
        x.to(minute * 60_000)
        x.bench.storage.executions.request_wake("x", x.bench.clock.now_ms())
        x.bench.run_to(x.bench.clock.now_ms() + 10)
        x.restart()
    found = x.go()

    assert found.result == 600_000
    assert len(found.history) == 1


def test_a_wake_before_the_moment_resolves_nothing(rig: MakeRig) -> None:
    """case 152; spec E6: the delivery suspends again with the same waits and moments."""
    x = rig(ten_minutes)
    x.to(1_000)
    for _ in range(5):
        x.bench.storage.executions.request_wake("x", x.bench.clock.now_ms())
        x.bench.run_to(x.bench.clock.now_ms() + 1_000)
    found = x.result

    assert found.status == "suspended"
    assert found.record.deliveries == 6
    assert found.record.due_at == START + 600_000
    assert found.history == ()


def test_a_timer_that_passed_while_no_worker_ran_fires_at_the_start(rig: MakeRig) -> None:
    """case 150; spec R7: late by an hour makes `now()` late by an hour."""
    x = rig(ten_minutes)
    x.to(1_000)
    x.restart()
    x.bench.clock.set(START + 4_200_000)

    assert x.go().result == 4_200_000


def test_the_next_sleep_counts_from_the_late_one(rig: MakeRig) -> None:
    """spec R7: a resolution's moment is when it was applied."""

    async def w(step: Step) -> None:
        await step.sleep("10m")
        await step.sleep("10m")

    x = rig(w)
    x.to(1_000)
    x.restart()
    x.bench.clock.set(START + 3_600_000)

    assert moments(x.go()) == [3_600_000, 4_200_000]


@pytest.mark.parametrize("point", ["before", "after"])
def test_a_crash_when_it_fires_leaves_one_firing(rig: MakeRig, point: str) -> None:
    """case 149; spec R4: the recorded firing, whichever side of the commit the crash was on."""
    from yieldstar_cli.testing import Killed

    async def w(step: Step) -> Any:
        await step.sleep("10m")
        return await step.run(give, "once")

    x = rig(w)
    x.to(1_000)
    commits = len([n for n in x.bench.points.names if n.endswith(":before")])
    x.bench.points.kill_at(name=f"commit:{commits + 2}:{point}")
    with pytest.raises(Killed):
        x.go()
    x.bench.points.reset()
    x.restart()
    found = x.go()

    assert keys(found) == ["sleep", "give"]
    assert called(found) == ["give"]


def test_a_timer_nobody_awaits_costs_nothing(rig: MakeRig) -> None:
    """spec O3: no wake, no delivery, no row; made by the thousand."""

    async def w(step: Step) -> int:
        made = [step.timer(n) for n in range(1, 1_001)]
        await step.sleep("1h")
        return len([t for t in made if t.done()])

    found = rig(w).go()

    assert found.result == 0
    assert keys(found) == ["sleep"]
    assert found.record.deliveries == 2


def test_a_clock_that_is_set_back_delays_a_timer_and_loses_nothing(rig: MakeRig) -> None:
    """cases 107, 157, B33, B34; spec O3, R7: `now()` never goes back."""

    async def w(step: Step) -> list[float]:
        seen = []
        for _ in range(3):
            await step.sleep("10m")
            seen.append(step.now().timestamp() * 1000 - START)
        return seen

    x = rig(w)
    x.to(700_000)
    updated = x.record.updated_at
    x.bench.clock.advance(-3_600_000)
    x.restart()
    found = x.go()

    assert found.result[0] == 600_000
    assert found.result == sorted(found.result)
    assert found.record.updated_at >= updated
    assert len(found.history) == 3


def test_now_never_goes_back_with_the_clock(rig: MakeRig) -> None:
    """case 157; spec R7: a resolution's moment is never before that of the one ahead of it."""

    async def w(step: Step) -> list[float]:
        first = step.now()
        await step.run(give)
        second = step.now()
        await step.run(give)
        return [(t - first).total_seconds() for t in (first, second, step.now())]

    x = rig(w, duration=lambda call: 1_000)
    x.recorded("give")
    x.bench.clock.advance(-7_200_000)
    found = x.go()

    assert found.result[1] == 1
    assert found.result == sorted(found.result)
    assert moments(found) == sorted(moments(found))


def test_a_clock_that_jumps_forward_fires_once(rig: MakeRig) -> None:
    """case 158, B33: and its correction does not un-fire or fire again."""

    async def w(step: Step) -> int:
        await step.sleep("10m")
        await step.run(give)
        await step.sleep("10m")
        return 1

    x = rig(w)
    x.to(1_000)
    x.bench.clock.advance(DAY)
    x.to(DAY + 2_000)
    assert keys(x.result) == ["sleep", "give"]
    x.bench.clock.advance(-DAY)
    delivered = x.record.deliveries
    x.to(300_000)
    assert x.record.deliveries == delivered
    found = x.go()

    assert keys(found) == ["sleep", "give", "sleep#2"]


def test_a_loop_of_two_hundred_sleeps_and_steps(rig: MakeRig) -> None:
    """B36: 200 records of each, one row of waits at a time."""

    async def w(step: Step) -> int:
        for n in range(200):
            await step.sleep("1s")
            await step.run(give, n)
        return 200

    x = rig(w)
    x.to(100_500)
    assert len(x.bench.storage.reader.waits(x.record.number)) == 1
    found = x.go()

    assert found.result == 200
    assert len(called(found)) == 200
    assert found.record.deliveries == 201


def test_many_sleepers_due_at_once_are_each_delivered_once() -> None:
    """case 161: more than one claim takes, more than the residents kept."""
    with Bench(sleeper, residents=100) as bench:
        for n in range(SLEEPERS):
            bench.admit("sleeper", {"seconds": 60}, execution_id=f"s{n}")
        bench.run()
        records = [bench.record(f"s{n}") for n in range(SLEEPERS)]

    assert {r.status for r in records} == {"completed"}
    assert {r.deliveries for r in records} == {2}
    assert {r.operations for r in records} == {1}


def test_one_sleep_of_a_hundred_years(rig: MakeRig) -> None:
    """case 156: the longest span is exact; one more is refused."""

    async def w(step: Step) -> None:
        await step.sleep(timedelta(days=36_500))
        await step.sleep(timedelta(days=36_501))

    found = rig(w).go()

    assert moments(found) == [36_500 * DAY]
    assert "hundred years" in str(found.error)
