"""Races between timers, messages, children and others' executions (spec O4, O6, R10)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.several import (
    HOUR,
    START,
    at,
    calls,
    fates,
    killed_everywhere,
    send,
    shown,
    status,
    waits,
)
from yieldstar_cli import ChildFailed, Step, StepTimeout, workflow
from yieldstar_cli.engine.operations import Handle
from yieldstar_cli.testing import Bench

RELAXED = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])


def give(value: Any = None) -> Any:
    return value


async def give_async(value: Any = None) -> Any:
    return value


def fail() -> None:
    raise ValueError("no")


@workflow
async def job(step: Step, takes: int) -> int:
    await step.sleep(takes)
    return takes


@workflow
async def failing(step: Step) -> None:
    raise ValueError("no")


@workflow
async def race(step: Step, kinds: list[str], spans: list[int]) -> list[float]:
    """Races one handle of each kind; each is ready after its span, in seconds."""
    handles: list[Handle[Any]] = []
    for n, (kind, span) in enumerate(zip(kinds, spans, strict=True)):
        match kind:
            case "timer":
                handles.append(step.timer(span))
            case "message":
                handles.append(step.message(f"q{n}"))
            case "batch":
                handles.append(step.messages(f"q{n}"))
            case "child":
                handles.append(step.child(job, {"takes": span}))
            case _:
                handles.append(step.attach(f"other-{n}"))
    won = await step.select(*handles)
    return [[one is won for one in handles].index(True), step.now().timestamp()]


def prepared(bench: Bench, kinds: list[str], spans: list[int]) -> None:
    for n, (kind, span) in enumerate(zip(kinds, spans, strict=True)):
        if kind == "other":
            bench.admit("job", {"takes": span}, execution_id=f"other-{n}")
    bench.admit("race", {"kinds": kinds, "spans": spans}, execution_id="x")
    at(bench, 0)


def send_what_is_due(bench: Bench, kinds: list[str], spans: list[int], second: int) -> None:
    for n, (kind, span) in enumerate(zip(kinds, spans, strict=True)):
        if kind in ("message", "batch") and span == second:
            send(bench, "x", f"q{n}", n)


fields = st.lists(
    st.tuples(st.sampled_from(["timer", "message", "batch", "child", "other"]), st.integers(1, 6)),
    min_size=2,
    max_size=16,
)


@RELAXED
@given(fields, st.booleans())
def test_of_what_is_ready_at_one_look_the_earliest_wins_and_then_the_first_named(
    field: list[tuple[str, int]], crash: bool
) -> None:
    """case 221, 224; spec O6: 2 to 16 of mixed kinds, all ready when it looks again."""
    kinds, spans = [kind for kind, _ in field], [span for _, span in field]
    with Bench(race, job) as bench:
        prepared(bench, kinds, spans)
        bench.storage.steering.pause(execution_id="x", by="test")
        for second in range(1, 7):
            at(bench, second * 1_000)
            send_what_is_due(bench, kinds, spans, second)
        if crash:
            bench.crash()
        bench.storage.steering.resume(execution_id="x")
        bench.run()

        assert bench.result("x").result[0] == spans.index(min(spans))


@RELAXED
@given(fields, st.integers(0, 7))
def test_the_race_is_over_when_the_first_is_ready(
    field: list[tuple[str, int]], crash_at: int
) -> None:
    """case 221; spec O6, R10: at its moment, whoever of those ready then; whoever died before."""
    kinds, spans = [kind for kind, _ in field], [span for _, span in field]
    with Bench(race, job) as bench:
        prepared(bench, kinds, spans)
        for second in range(1, 7):
            if second == crash_at:
                bench.crash()
            at(bench, second * 1_000)
            send_what_is_due(bench, kinds, spans, second)
        bench.run()

        won, moment = bench.result("x").result
        assert spans[won] == min(spans)
        assert moment == START / 1000 + min(spans)


def test_a_second_race_after_a_message_goes_on() -> None:
    """B43: message wins; then two steps and a second select with the old timer and child."""

    @workflow
    async def w(step: Step) -> list[Any]:
        box, late, kid = step.message("q"), step.timer("1h"), step.child(job, {"takes": 7_200})
        first = await step.select(late, kid, box)
        seen: list[Any] = [first is box, await step.run(give, 1), await step.run(give, 2)]
        second = await step.select(kid, late)
        seen.append(second is late)
        return [*seen, await kid]

    def play(bench: Bench, run: Any) -> None:
        bench.admit("w", execution_id="x")
        send(bench, "x", "q")
        run()

    for bench in killed_everywhere(lambda: Bench(w, job), play, every=3):
        assert bench.result("x").result == [True, 1, 2, True, 7_200]


def test_each_of_mixed_handles_wins_once() -> None:
    """B45: loop over those still open, whatever they are, until none is left."""

    @workflow
    async def w(step: Step) -> list[str]:
        async def branch() -> None:
            await step.sleep(4)

        named: dict[str, Handle[Any]] = {
            "child": step.child(job, {"takes": 3}),
            "timer": step.timer(2),
            "message": step.message("q"),
            "branch": step.spawn(branch()),
            "step": step.spawn(step.run(give)),
            "failed": step.child(failing),
            "other": step.attach("other"),
        }
        order = []
        while named:
            won = await step.select(*named.values())
            name = next(name for name, one in named.items() if one is won)
            order.append(name)
            del named[name]
        return order

    with Bench(w, job, failing, duration=lambda call: 5_000) as bench:
        bench.admit("job", {"takes": 6}, execution_id="other")
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        send(bench, "x", "q")
        bench.run()

        assert bench.result("x").result == [
            "failed",
            "message",
            "timer",
            "child",
            "branch",
            "step",
            "other",
        ]


def test_a_failing_child_wins_and_does_not_raise_by_itself() -> None:
    """B46, case 229; spec O4: of several that fail the first one recorded is raised by `all`."""

    @workflow
    async def w(step: Step) -> list[str]:
        kids = [step.child(failing) for _ in range(3)]
        won = await step.select(step.timer("1h"), *kids)
        seen = [str(kids.index(won))]  # type: ignore[arg-type]
        with pytest.raises(ChildFailed) as told:
            await step.all(kids)
        return [*seen, told.value.execution_id]

    def play(bench: Bench, run: Any) -> None:
        bench.admit("w", execution_id="x")
        run()

    for bench in killed_everywhere(lambda: Bench(w, failing), play, every=3):
        assert bench.result("x").result == ["0", "x/failing"]


def test_losers_are_what_they_were() -> None:
    """case 223, 226; spec O4: step, timer, message, child, branch; none cancelled, none lost."""

    @workflow
    async def w(step: Step) -> list[Any]:
        async def branch() -> str:
            await step.sleep("30m")
            return "branch"

        work, box = step.spawn(step.run(give, "step")), step.message("q")
        kid, side = step.child(job, {"takes": 60}), step.spawn(branch())
        far = step.timer("2h")
        near = step.timer("1s")
        assert await step.select(work, box, kid, side, far, near) is near
        assert not any(one.done() for one in (work, box, kid, side, far))
        await step.sleep("1m")
        return [await box, await work, await kid, await side, far.done()]

    with Bench(w, job, duration=lambda call: 10_000) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 30_000)
        send(bench, "x", "q", "kept")
        bench.run()

        assert bench.result("x").result == ["kept", "step", 60, "branch", False]
        assert fates(bench, "x") == [('"kept"', "consumed")]


def test_a_wait_that_is_dropped_leaves_no_row() -> None:
    """case 226; spec O3, O4: nothing in the file waits for what the function does not."""

    @workflow
    async def w(step: Step) -> None:
        await step.select(
            step.message("a"), step.messages("b"), step.child(job, {"takes": 9_999}), step.timer(1)
        )
        await step.message("c")

    with Bench(w, job) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 500)
        before = [(wait.kind, wait.queue or wait.target) for wait in waits(bench, "x")]
        at(bench, 1_500)
        after = [(wait.kind, wait.queue) for wait in waits(bench, "x")]

        assert sorted(before, key=str) == [
            ("child", "x/job"),
            ("message", "a"),
            ("messages", "b"),
            ("timer", None),
        ]
        assert after == [("message", "c")]


def test_everything_is_seen_while_a_step_runs_for_an_hour() -> None:
    """spec R10: a child's end, a message, a timer, another's end, one after the other."""

    @workflow
    async def w(step: Step, slow: str) -> list[Any]:
        long = step.spawn(step.run(give if slow == "sync" else give_async, "long"))
        open_ones: dict[str, Handle[Any]] = {
            "child": step.child(job, {"takes": 60}),
            "message": step.message("q"),
            "timer": step.timer("3m"),
            "other": step.attach("other"),
        }
        seen: list[Any] = []
        while open_ones:
            won = await step.select(*open_ones.values(), long)
            name = next(name for name, one in open_ones.items() if one is won)
            seen.append([name, round(step.now().timestamp() - START / 1000)])
            del open_ones[name]
        return [*seen, await long]

    for slow in ("sync", "async"):
        with Bench(w, job, duration=lambda call: HOUR) as bench:
            bench.admit("job", {"takes": 240}, execution_id="other")
            bench.admit("w", {"slow": slow}, execution_id="x")
            at(bench, 120_000)
            send(bench, "x", "q")
            bench.run()

            assert bench.result("x").result == [
                ["child", 60],
                ["message", 120],
                ["timer", 180],
                ["other", 240],
                "long",
            ]
            assert bench.record("x").deliveries == 1
            assert len(calls(bench, "x")) == 1


def test_what_comes_between_a_look_and_the_suspension_is_not_missed() -> None:
    """spec R10, M4: at every moment of a slow commit; nothing else wakes it later."""

    @workflow
    async def w(step: Step) -> list[Any]:
        await step.run(give)
        kid = step.child(job, {"takes": 0})
        return [await step.message("q"), await kid, await step.message("q")]

    for moment in range(0, 70, 3):
        with Bench(w, job, commit_ms=10) as bench:
            bench.admit("w", execution_id="x")
            at(bench, moment)
            send(bench, "x", "q", 1)
            at(bench, moment + 7)
            send(bench, "x", "q", 2)
            bench.run()

            assert bench.result("x").result == [1, 0, 2]
            assert bench.clock.now_ms() < START + 1_000


def test_a_timeout_takes_any_handle() -> None:
    """spec operations: a message, a child; it is only no longer awaited."""

    @workflow
    async def w(step: Step) -> list[Any]:
        box, kid = step.message("q"), step.child(job, {"takes": 60})
        for one in (box, kid):
            with pytest.raises(StepTimeout):
                await step.timeout(one, "1s")
        return [await step.timeout(kid, "1h"), await step.timeout(box, "1h")]

    with Bench(w, job) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 10_000)
        send(bench, "x", "q", "there")
        bench.run()

        assert bench.result("x").result == [60, "there"]
        assert status(bench, "x/job") == "completed"


def test_a_handle_may_be_named_twice_and_after_its_end() -> None:
    """spec O6: one that is resolved already wins over what is not, however long ago."""

    @workflow
    async def w(step: Step) -> list[bool]:
        kid, box = step.child(job, {"takes": 1}), step.message("q")
        seen = [await step.select(box, kid, kid) is kid]
        await step.sleep("1h")
        seen.append(await step.select(box, kid) is kid)
        seen.append(await step.select(kid, box, kid) is kid)
        return seen

    with Bench(w, job) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == [True, True, True]
        assert shown(bench.history("x")) == ["start:job", "child:job", "timer:sleep"]


def test_other_code_that_races_otherwise_has_diverged() -> None:
    """case 227; spec R5: what the old code waited for and the new one does not."""

    def made(queue: str) -> Any:
        @workflow(id="w")
        async def w(step: Step) -> str:
            box, late = step.message(queue), step.timer("1h")
            won = await step.select(box, late)
            await step.sleep("1d")
            return "message" if won is box else "timer"

        return w

    with Bench(made("a")) as bench:
        bench.admit("w", execution_id="x")
        send(bench, "x", "a", 1)
        at(bench, 60_000)
        bench.crash()
        bench.definitions["w", 1] = made("b").definition
        bench.run()
        problem = bench.record("x").problem

        assert problem is not None
        assert problem.code == "DIVERGED"
        assert "message 'a'" in problem.message
