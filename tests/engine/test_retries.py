"""Tries, pauses and limits of steps (spec O1)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.engine.helpers import START, MakeRig, Rig, called, keys
from yieldstar_cli.engine.retry import RetryPolicy, next_pause_ms
from yieldstar_cli.engine.step import Step
from yieldstar_cli.engine.this_step import this_step
from yieldstar_cli.errors import Fatal, RetryableError, StepTimeout
from yieldstar_cli.testing import Killed
from yieldstar_cli.worker.ports import StepCall


class CardDeclined(Exception):
    pass


class TooBusy(RetryableError):
    def __init__(self, shop: str) -> None:
        Exception.__init__(self, f"{shop} is busy")


def fail() -> None:
    raise ValueError(f"no {this_step().attempt}")


def works_from(attempt: int) -> int:
    if this_step().attempt < attempt:
        raise OSError("not yet")
    return this_step().attempt


def raises(error: BaseException) -> None:
    raise error


def give(value: Any = None) -> Any:
    return value


def starts(x: Rig) -> list[int]:
    """When each call began, in milliseconds since the bench began."""
    return [e.at - START for e in x.bench.events if e.kind == "step_started"]


def body_with(policy: RetryPolicy | None, fn: Any = fail, *args: Any) -> Any:
    async def w(step: Step) -> Any:
        return await step.using(retry=policy).run(fn, *args)

    return w


# --- how often and when --------------------------------------------------------------------------


def test_without_a_policy_an_error_is_final(rig: MakeRig) -> None:
    """case 117, B75; spec O1: one try."""
    x = rig(body_with(None))
    found = x.go()

    assert (type(found.error), str(found.error)) == (ValueError, "no 1")
    assert len(called(found)) == 1


def test_the_defaults_are_three_tries_one_and_two_seconds_apart(rig: MakeRig) -> None:
    """spec O1: attempts 3, first 1 s, factor 2, no jitter."""
    x = rig(body_with(RetryPolicy()))
    found = x.go()

    assert starts(x) == [0, 1_000, 3_000]
    assert str(found.error) == "no 3"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (RetryPolicy(attempts=1), [0]),
        (RetryPolicy(attempts=4, first="5s", factor=1), [0, 5_000, 10_000, 15_000]),
        (RetryPolicy(attempts=4, first=2, factor=3), [0, 2_000, 8_000, 26_000]),
        (RetryPolicy(attempts=5, first="10s", max="25s"), [0, 10_000, 30_000, 55_000, 80_000]),
        (RetryPolicy(attempts=3, first=0), [0, 0, 0]),
        (RetryPolicy(attempts=3, first="250ms"), [0, 250, 750]),
    ],
)
def test_the_pauses_are_exact(rig: MakeRig, policy: RetryPolicy, expected: list[int]) -> None:
    """case 117; spec O1: none, fixed, exponential, with a longest one."""
    x = rig(body_with(policy))
    x.go()

    assert starts(x) == expected


def test_attempts_are_numbered_inside_and_outside(rig: MakeRig) -> None:
    """B71: 4 tries, numbered 1 to 4, and `attempt` inside the step agrees."""
    seen = []

    def always() -> None:
        seen.append(this_step().attempt)
        raise ValueError("no")

    x = rig(body_with(RetryPolicy(attempts=4, first="1s"), always))
    found = x.go()
    tries = x.bench.storage.reader.attempts(x.record.number, 1)

    assert seen == [1, 2, 3, 4]
    assert [a.attempt for a in tries] == [1, 2, 3]
    assert [a.how for a in tries] == ["error"] * 3
    assert [e.attempt for e in found.history] == [4]


def test_a_try_that_works_ends_it(rig: MakeRig) -> None:
    """spec O1: failed attempts are kept for people and are no resolutions."""
    found = rig(body_with(RetryPolicy(attempts=5), works_from, 3)).go()

    assert found.result == 3
    assert [(e.step_key, e.attempt, e.ok) for e in found.history] == [("works-from", 3, True)]


def test_the_ten_thousandth_try_does_not_overflow() -> None:
    """case 117, B72: the pause is the longest one, however many failed."""
    policy = RetryPolicy(attempts=None, first="1s", factor=5, max="5m")

    assert policy.pause_ms(10_000, 0.5) == 300_000
    assert RetryPolicy(attempts=None, first=0, factor=5).pause_ms(10_000, 0.5) == 0
    assert next_pause_ms(policy, ValueError(), 10_000, 0.0) == 300_000


def test_without_a_limit_it_goes_on(rig: MakeRig) -> None:
    """B72: base 5, no limit, 200 failing tries: the pause is capped, it is still retrying."""
    x = rig(body_with(RetryPolicy(attempts=None, first="1s", factor=5, max="1m")))
    found = x.until(lambda: len([e for e in x.bench.events if e.kind == "step_started"]) >= 200)
    began = starts(x)

    assert found.status != "failed"
    assert began[150] - began[149] == 60_000


def test_jitter_makes_pauses_longer_and_is_the_same_on_every_replay(rig: MakeRig) -> None:
    """spec O1, R7: by up to that share; drawn from the seed."""
    policy = RetryPolicy(attempts=4, first="10s", factor=1, jitter=0.5)
    x = rig(body_with(policy))
    x.to(1)
    first_due = x.record.due_at
    x.restart()
    x.go()
    began = starts(x)
    pauses = [b - a for a, b in pairwise(began)]

    assert began[1] + START == first_due
    assert all(10_000 <= pause <= 15_000 for pause in pauses)
    assert len(set(pauses)) == 3


@settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
@given(
    st.integers(0, 10**6),
    st.floats(1, 100),
    st.integers(0, 10**9),
    st.floats(0, 1),
    st.integers(1, 10**6),
    st.floats(0, 1, exclude_max=True),
)
@example(4017, 1.0, 4017, 0.5, 1, 0.9999999999999998)  # 4.017 s were 4018 ms
def test_every_pause_is_between_nothing_and_the_longest_and_its_jitter(
    first: int, factor: float, longest: int, jitter: float, failed: int, chance: float
) -> None:
    """case 117; spec O1: whatever the numbers."""
    policy = RetryPolicy(first=first / 1000, factor=factor, max=longest / 1000, jitter=jitter)

    assert 0 <= policy.pause_ms(failed, chance) <= longest * (1 + jitter) + 1


# --- what is retried -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "error", "tries"),
    [
        (RetryPolicy(only=(OSError,)), OSError("x"), 3),
        (RetryPolicy(only=(OSError,)), ConnectionError("x"), 3),
        (RetryPolicy(only=(OSError,)), ValueError("x"), 1),
        (RetryPolicy(never=(CardDeclined,)), CardDeclined("x"), 1),
        (RetryPolicy(never=(CardDeclined,)), ValueError("x"), 3),
        (RetryPolicy(only=(OSError,), never=(ConnectionError,)), ConnectionError("x"), 1),
        (RetryPolicy(only=OSError), OSError("x"), 3),
        (RetryPolicy(never=OSError), OSError("x"), 1),
        (RetryPolicy(), Fatal("x"), 1),
        (RetryPolicy(only=(Fatal,)), Fatal("x"), 1),
        (RetryPolicy(), SystemExit(1), 1),
        (RetryPolicy(), RetryableError("x"), 3),
        (RetryPolicy(attempts=5), RetryableError("x"), 5),
        (RetryPolicy(attempts=5), RetryableError("x", attempts=2), 2),
        (RetryPolicy(attempts=2), RetryableError("x", attempts=4), 4),
        (RetryPolicy(only=(OSError,)), RetryableError("x"), 3),
        (RetryPolicy(never=(RetryableError,)), RetryableError("x"), 1),
        (None, RetryableError("x"), 3),
        (None, RetryableError("x", attempts=2), 2),
        (None, TooBusy("shop"), 3),
        (None, Fatal("x"), 1),
        (None, ValueError("x"), 1),
    ],
)
def test_a_policy_and_the_error_say_what_is_tried_again(
    rig: MakeRig, policy: RetryPolicy | None, error: BaseException, tries: int
) -> None:
    """spec O1: `only`, `never`, `Fatal`, and `RetryableError` with and without a policy."""
    found = rig(body_with(policy, raises, error)).go()

    assert len(called(found)) == tries
    assert found.status == "failed"


def test_a_retryable_error_may_say_when(rig: MakeRig) -> None:
    """spec O1: `retry_in`, with the policy's pause where it says nothing."""
    errors = [RetryableError("a", retry_in="7s"), RetryableError("b"), RetryableError("c")]

    def in_turn() -> None:
        raise errors[this_step().attempt - 1]

    x = rig(body_with(RetryPolicy(first="3s", factor=1), in_turn))
    found = x.go()

    assert starts(x) == [0, 7_000, 10_000]
    assert (type(found.error), str(found.error)) == (RetryableError, "c")


@pytest.mark.parametrize("given", [{"attempts": 0}, {"attempts": True}, {"retry_in": "soon"}])
def test_a_retryable_error_that_makes_no_sense_is_refused_where_it_is_made(
    rig: MakeRig, given: dict[str, Any]
) -> None:
    """spec O1: that ends the step with the sentence; it never reaches the worker."""

    def ask() -> None:
        raise RetryableError("x", **given)

    found = rig(body_with(None, ask)).go()

    assert isinstance(found.error, ValueError)
    assert len(called(found)) == 1


def test_a_retryable_error_that_was_changed_to_no_sense_is_final(rig: MakeRig) -> None:
    """spec O1, R8: whatever an error carries, it is the step's error and not the worker's."""

    def ask() -> None:
        error = RetryableError("x")
        error.retry_in = "soon"
        raise error

    found = rig(body_with(None, ask)).go()

    assert (type(found.error), str(found.error)) == (RetryableError, "x")


@pytest.mark.parametrize(
    "given",
    [
        {"attempts": 0},
        {"attempts": -1},
        {"attempts": 1.5},
        {"attempts": True},
        {"factor": 0.5},
        {"factor": float("nan")},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"first": "soon"},
        {"first": -1},
        {"max": float("inf")},
        {"total_timeout": 0},
        {"only": ("ValueError",)},
        {"never": 5},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    """case 117: when it is made, by file and line of the author."""
    with pytest.raises((ValueError, TypeError)):
        RetryPolicy(**given)


def test_the_workflows_policy_is_its_steps_default(rig: MakeRig) -> None:
    """spec O1: `@workflow(retry=, timeout=)`; `using` says otherwise."""

    async def w(step: Step) -> None:
        for policy in (None, RetryPolicy(attempts=1)):
            try:
                await step.using(retry=policy).run(fail)
            except ValueError:
                continue

    found = rig(w, retry=RetryPolicy(attempts=2)).go()

    assert found.calls == (("fail", 1), ("fail", 2), ("fail#2", 1))


# --- restarts ------------------------------------------------------------------------------------


def test_a_restart_between_tries_keeps_the_count_and_the_pause(rig: MakeRig) -> None:
    """case 118, B73, B74; spec O1: due times respect the policy, also after restarts."""
    x = rig(body_with(RetryPolicy(attempts=4, first="10s")))
    for at in (1_000, 15_000, 40_000):
        x.to(at)
        x.restart()
    found = x.go()

    assert starts(x) == [0, 10_000, 30_000, 70_000]
    assert [number for _, number in found.calls] == [1, 2, 3, 4]
    assert str(found.error) == "no 4"


@pytest.mark.parametrize("point", ["call:fail:before", "call:fail:after"])
def test_a_crash_in_a_try_uses_up_none(rig: MakeRig, point: str) -> None:
    """case 114, B74; spec O1, K2: it runs again under the same number."""
    x = rig(body_with(RetryPolicy(attempts=3, first="1s")))
    x.until(lambda: len(x.bench.events) > 3)
    x.bench.points.kill_at(name=point)
    with pytest.raises(Killed):
        x.go()
    x.bench.points.reset()
    x.restart()
    found = x.go()

    assert sorted({number for _, number in found.calls}) == [1, 2, 3]
    assert str(found.error) == "no 3"


def test_others_go_on_while_one_pauses(rig: MakeRig) -> None:
    """spec O1: a pause belongs to its operation alone."""

    async def w(step: Step) -> list[int]:
        slow = step.spawn(step.using(retry=RetryPolicy(first="1h")).run(works_from, 2))
        for _ in range(3):
            await step.sleep("1m")
        return [await step.run(give, 5), await slow]

    found = rig(w).go()

    assert found.result == [5, 2]
    assert keys(found) == ["sleep", "sleep#2", "sleep#3", "give", "works-from"]


def test_a_pause_holds_no_delivery(rig: MakeRig) -> None:
    """spec O1, R10: it is a durable timer, seen as such."""
    x = rig(body_with(RetryPolicy(first="1m")))
    found = x.to(1_000)
    (wait,) = x.bench.storage.reader.waits(x.record.number)

    assert found.status == "suspended"
    assert found.record.due_at == START + 60_000
    assert (wait.state, wait.attempt, wait.due_at) == ("retrying", 2, START + 60_000)


# --- limits of time ------------------------------------------------------------------------------


def takes(*spans: int) -> Any:
    def span(call: StepCall) -> int:
        return spans[min(call.attempt, len(spans)) - 1]

    return span


def test_an_attempt_that_takes_too_long_ends_and_its_late_value_is_dropped(rig: MakeRig) -> None:
    """case 119, B10; spec O1: the timeout bounds each attempt, and is recorded and replayed."""

    async def w(step: Step) -> str:
        try:
            await step.using(timeout="2s").run(give, "late")
        except StepTimeout as error:
            await step.sleep("1h")
            return str(error)
        return ""

    x = rig(w, duration=takes(3_000))
    x.to(10_000)
    x.restart()
    found = x.go()

    assert "longer than 2 s" in found.result
    assert [(e.step_key, e.ok) for e in found.history] == [("give", False), ("sleep", True)]
    assert found.history[0].at == START + 2_000


def test_whether_a_timeout_is_retried_follows_the_policy(rig: MakeRig) -> None:
    """case 119; spec O1: it is an error as any other; each try has its own limit."""
    two = RetryPolicy(attempts=3, first="1s", factor=1)

    async def w(step: Step) -> Any:
        return await step.using(retry=two, timeout="2s").run(give, "third time")

    x = rig(w, duration=takes(9_000, 9_000, 1_000))
    found = x.go()

    assert found.result == "third time"
    assert starts(x) == [0, 3_000, 6_000]
    assert [a.how for a in x.bench.storage.reader.attempts(x.record.number, 1)] == ["timeout"] * 2


def test_a_total_timeout_spans_all_tries_and_pauses(rig: MakeRig) -> None:
    """case 120; spec O1: from the operation's first await; then the last error is raised."""
    x = rig(body_with(RetryPolicy(attempts=None, first="10s", factor=1, total_timeout="35s")))
    found = x.go()

    assert starts(x) == [0, 10_000, 20_000, 30_000]
    assert str(found.error) == "no 4"
    assert found.history[-1].at == START + 30_000


def test_a_total_timeout_ends_the_try_that_is_under_way(rig: MakeRig) -> None:
    """case 120; spec O1."""
    policy = RetryPolicy(attempts=None, first="1s", total_timeout="5s")
    found = rig(body_with(policy, give), duration=takes(60_000)).go()

    assert isinstance(found.error, StepTimeout)
    assert found.history[-1].at == START + 5_000


def test_a_total_timeout_that_passed_while_no_worker_ran_starts_nothing(rig: MakeRig) -> None:
    """case 120; spec O1: nothing is started whose result could only be dropped."""
    policy = RetryPolicy(attempts=None, first="1m", total_timeout="5m")
    x = rig(body_with(policy))
    x.to(30_000)
    x.restart()
    x.bench.clock.advance(3_600_000)
    found = x.go()

    assert isinstance(found.error, StepTimeout)
    assert "300 s in all" in str(found.error)
    assert len(called(found)) == 1
    assert [e.attempt for e in found.history] == [1]


# --- what a step knows of itself -----------------------------------------------------------------


def test_the_idempotency_key_is_the_steps_own(rig: MakeRig) -> None:
    """spec O7: the same for every attempt and redelivery, different for all others."""
    seen: list[tuple[str, str, str]] = []

    def look(fails: int) -> None:
        me = this_step()
        seen.append((me.execution_id, me.step_key, me.idempotency_key))
        if me.attempt <= fails:
            raise OSError("again")

    async def w(step: Step) -> None:
        await step.using(retry=RetryPolicy(attempts=3, first="1m")).run(look, 2)
        await step.run(look, 0)
        await step.using(key="look").poll(lambda: look(0) or 1)

    x = rig(w)
    x.bench.admit("w", execution_id="y")
    x.to(1_000)
    x.restart()
    x.bench.points.kill_at(name="call:look:after")
    with pytest.raises(Killed):
        x.go()
    x.bench.points.reset()
    x.restart()
    x.go()
    by_step: dict[tuple[str, str], set[str]] = {}
    for execution, key, idempotency in seen:
        by_step.setdefault((execution, key), set()).add(idempotency)

    assert set(by_step) == {(e, k) for e in "xy" for k in ("look", "look#2")}
    # A poll of the same key is another operation.
    assert {k: len(v) for k, v in by_step.items()} == {
        ("x", "look"): 2,
        ("y", "look"): 2,
        ("x", "look#2"): 1,
        ("y", "look#2"): 1,
    }
    assert len(set.union(*by_step.values())) == 6


def test_this_step_is_known_in_async_steps_and_in_what_they_call(rig: MakeRig) -> None:
    """B63; spec O7: it is a context variable."""

    def deeper() -> str:
        return this_step().step_key

    async def look() -> str:
        import asyncio

        a, b = await asyncio.gather(asyncio.to_thread(deeper), asyncio.to_thread(deeper))
        return a + b

    async def w(step: Step) -> str:
        return await step.run(look)

    assert rig(w).go().result == "looklook"
