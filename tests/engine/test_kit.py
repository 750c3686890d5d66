"""The test kit that authors use: real driver, real storage, a clock that skips (spec K10)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.engine.helpers import START
from yieldstar_cli import RetryPolicy, Step, StepFailed, this_step, workflow
from yieldstar_cli.errors import (
    ExecutionIdConflict,
    InvalidExecutionEvent,
    YieldstarError,
)
from yieldstar_cli.testing import Bench, FaultPoints, Killed, ManualClock, run
from yieldstar_cli.worker.ports import StepCall


class ChargeOrder(msgspec.Struct):
    order: int
    shop: str = "main"


class Order(msgspec.Struct):
    id: int
    total: int
    open: bool = True


class Receipt(msgspec.Struct):
    order: int
    charged: int
    key: str = ""


class CardDeclined(Exception):
    pass


def load_order(order: int) -> Order:
    raise AssertionError("the real one must not be called in a test")


async def charge_card(order: Order) -> Receipt:
    raise AssertionError("the real one must not be called in a test")


@workflow
async def charge_order(step: Step, p: ChargeOrder) -> Receipt | None:
    """Charge an order ten minutes after it was placed."""
    await step.sleep("10m")
    order = await step.run(load_order, p.order)
    if not order.open:
        return None
    policy = RetryPolicy(attempts=5, first="2s", never=(CardDeclined,))
    return await step.using(retry=policy).run(charge_card, order)


def charged(order: Order) -> Receipt:
    return Receipt(order.id, order.total, this_step().idempotency_key)


FAKES: dict[Any, Any] = {load_order: lambda order: Order(order, 5), charge_card: charged}


def test_a_workflow_runs_to_its_end_in_no_time() -> None:
    """authoring, spec K10: it jumps over sleeps; a fake may be plain whatever the original is."""
    began = time.perf_counter()
    found = run(charge_order, ChargeOrder(42), fakes=FAKES)

    assert (found.status, found.error) == ("completed", None)
    assert isinstance(found.result, Receipt)
    assert (found.result.order, found.result.charged) == (42, 5)
    assert found.calls == (("load-order", 1), ("charge-card", 1))
    assert [e.step_key for e in found.history] == ["sleep", "load-order", "charge-card"]
    assert found.history[0].at == START + 600_000
    assert time.perf_counter() - began < 30


def test_a_fake_may_be_async_and_may_fail() -> None:
    """authoring: failures, retries and their pauses as in real life."""
    tries = []

    async def flaky(order: Order) -> Receipt:
        tries.append(this_step().attempt)
        if len(tries) < 3:
            raise ConnectionError("busy")
        return Receipt(order.id, order.total)

    found = run(charge_order, ChargeOrder(42), fakes=FAKES | {charge_card: flaky})

    assert found.result == Receipt(42, 5)
    assert tries == [1, 2, 3]
    assert found.history[-1].at == START + 600_000 + 2_000 + 4_000


def test_an_error_is_told_and_raised() -> None:
    """authoring: `.error` gives it, `.result` raises it, as its own class."""

    def declined(order: Order) -> Receipt:
        raise CardDeclined("no funds")

    found = run(charge_order, ChargeOrder(42), fakes=FAKES | {charge_card: declined})

    assert found.status == "failed"
    assert isinstance(found.error, CardDeclined)
    with pytest.raises(CardDeclined, match="no funds"):
        _ = found.result
    assert found.calls[-1] == ("charge-card", 1)


def test_a_crash_after_a_step_goes_on_from_the_history() -> None:
    """authoring: `crash_after` kills the worker once that step is recorded."""
    seen: list[str] = []

    def loads(order: int) -> Order:
        seen.append("load")
        return Order(order, 5)

    fakes = FAKES | {load_order: loads}
    plain = run(charge_order, ChargeOrder(42), fakes=fakes)
    crashed = run(charge_order, ChargeOrder(42), fakes=fakes, crash_after="load-order")
    asleep = run(charge_order, ChargeOrder(42), fakes=fakes, crash_after="sleep")

    assert seen == ["load"] * 3
    for found in (crashed, asleep):
        assert found.result.charged == plain.result.charged
        assert [e.step_key for e in found.history] == [e.step_key for e in plain.history]
    assert crashed.record.deliveries == plain.record.deliveries + 1


def test_the_clock_may_begin_where_the_test_says() -> None:
    """authoring: a ManualClock, which stands where the run ended."""
    clock = ManualClock(5_000_000_000_000)
    found = run(charge_order, ChargeOrder(1), fakes=FAKES, clock=clock)

    assert found.record.admitted_at == 5_000_000_000_000
    assert clock.now_ms() == 5_000_000_600_000
    with pytest.raises(YieldstarError, match="'skip' or a ManualClock"):
        run(charge_order, ChargeOrder(1), clock="fast")


def test_id_and_context_may_be_given() -> None:
    """authoring."""

    @workflow
    async def who(step: Step) -> list[str]:
        return [step.event.execution_id, step.event.context["user"]]

    found = run(who, execution_id="order-42", context={"user": "ann"})

    assert found.result == ["order-42", "ann"]
    assert found.record.execution_id == "order-42"


def test_a_run_that_only_the_outside_could_move_is_given_back_as_it_stands() -> None:
    """authoring: held or suspended; its result says so."""

    @workflow
    async def forgets(step: Step) -> int:
        step.run(load_order, 1)
        return 1

    found = run(forgets)

    assert found.status == "admitted"
    assert found.record.problem is not None
    assert found.record.problem.code == "STEP_NOT_AWAITED"
    with pytest.raises(RuntimeError, match="is admitted"):
        _ = found.result


def test_a_plain_workflow_runs_as_well() -> None:
    """spec R1: the whole function is one recorded step."""

    @workflow(retry=RetryPolicy(attempts=2, first="5m"))
    def backup() -> str:
        if this_step().attempt == 1:
            raise OSError("disk full")
        return "kept"

    found = run(backup)

    assert found.result == "kept"
    assert found.calls == (("backup", 1), ("backup", 2))


def test_an_error_whose_class_is_not_at_hand_is_step_failed() -> None:
    """spec O2: in the kit as in the worker."""

    class Local(Exception):
        pass

    @workflow
    async def fails(step: Step) -> None:
        raise Local("x")

    found = run(fails)

    assert isinstance(found.error, StepFailed)
    assert found.error.name == "Local"


# --- the bench -----------------------------------------------------------------------------------


@workflow
async def nap(step: Step, seconds: int) -> int:
    """Sleeps and says how long."""
    await step.sleep(seconds)
    return seconds


def test_a_bench_holds_many_executions_and_keeps_its_file(tmp_path: Path) -> None:
    """authoring: a path keeps the file; another bench goes on with it."""
    path = tmp_path / "kept.db"
    with Bench(nap, path=path) as bench:
        for n in range(3):
            bench.admit("nap", {"seconds": 60 * n}, execution_id=f"nap-{n}")
        bench.run_to(START + 1_000)
        assert [bench.record(f"nap-{n}").status for n in range(3)] == [
            "completed",
            "suspended",
            "suspended",
        ]
    with Bench(nap, path=path, clock=ManualClock(START + 2_000)) as bench:
        bench.run()
        assert [bench.result(f"nap-{n}").result for n in range(3)] == [0, 60, 120]


def test_a_bench_without_a_path_leaves_nothing_behind() -> None:
    """authoring."""
    with Bench(nap) as bench:
        bench.admit("nap", {"seconds": 0})
        bench.run()
        folder = bench.path.parent
        assert bench.path.exists()

    assert not folder.exists()


def test_a_bench_admits_as_the_runtime_does() -> None:
    """spec E2-E4: conflicts and invalid events are the real ones."""
    with Bench(nap) as bench:
        made = bench.admit("nap", {"seconds": 0})
        assert made.execution_id.startswith("nap-")
        with pytest.raises(ExecutionIdConflict):
            bench.admit("nap", {"seconds": 0}, execution_id=made.execution_id)
        with pytest.raises(InvalidExecutionEvent, match=r"params\.seconds"):
            bench.admit("nap", {"seconds": object()}, execution_id="other")
        assert bench.storage.executions.get("other") is None


def test_a_call_takes_as_long_as_the_bench_says() -> None:
    """authoring: virtual milliseconds, by step and attempt."""

    def work() -> int:
        return this_step().attempt

    @workflow
    async def works(step: Step) -> int:
        return await step.run(work)

    def duration(call: StepCall) -> int:
        return 90_000 if call.step_key == "work" else 0

    with Bench(works, duration=duration) as bench:
        bench.admit("works", execution_id="x")
        bench.run_to(START + 89_999)
        assert bench.history("x") == []
        bench.run()
        assert bench.history("x")[0].at == START + 90_000


def test_points_are_named_and_may_be_deadly() -> None:
    """authoring: around every commit and every call; a killed worker forgets everything."""
    with Bench(charge_order, fakes=FAKES) as bench:
        bench.admit("charge-order", {"order": 1, "shop": "x"}, execution_id="x")
        bench.points.kill_at(name="call:charge-card:before")
        with pytest.raises(Killed):
            bench.run()
        assert bench.points.names[-1] == "call:charge-card:before"
        assert bench.points.names[0] == "commit:1:before"
        bench.crash()
        bench.points.reset()
        bench.run()
        assert bench.result("x").result.charged == 5
        assert [lost.how for lost in bench.storage.reader.lost_deliveries(1)] == ["died"]


def test_points_count_from_zero_again_after_a_reset() -> None:
    """authoring."""
    points = FaultPoints()
    points.kill_at(1)
    points.reach("a")
    with pytest.raises(Killed):
        points.reach("b")
    points.reset()
    for name in "abc":
        points.reach(name)

    assert points.names == ["a", "b", "c"]


def test_what_the_worker_says_is_kept_in_order() -> None:
    """authoring: events of one execution."""
    found = run(charge_order, ChargeOrder(42), fakes=FAKES)

    assert [e.kind for e in found.events] == [
        "claimed",
        "suspended",
        "claimed",
        "step_started",
        "step_completed",
        "step_started",
        "step_completed",
        "completed",
    ]
    assert {e.workflow_id for e in found.events} == {"charge-order"}


def test_a_manual_clock_moves_only_when_told() -> None:
    """authoring: also backwards."""
    clock = ManualClock(100)
    clock.advance(50)
    assert clock.now_ms() == 150
    clock.advance(-100)
    assert clock.now_ms() == 50
    clock.set(7)
    assert clock.now_ms() == 7


def test_the_kit_runs_where_an_event_loop_runs_already() -> None:
    """authoring: inside an async test, async steps get a loop of their own."""
    import asyncio

    async def inside() -> Any:
        return run(charge_order, ChargeOrder(7), fakes=FAKES | {charge_card: async_charge}).result

    async def async_charge(order: Order) -> Receipt:
        await asyncio.sleep(0)
        return Receipt(order.id, 1)

    assert asyncio.run(inside()) == Receipt(7, 1)


def test_steps_for_a_tag_run_in_the_kit_and_a_bench_can_have_a_worker_without_it() -> None:
    """spec O5: a test of an author's asks what runs, not where, unless it says so."""

    def train() -> str:
        return "weights"

    @workflow(tags={"gpu"})
    async def fit(step: Step) -> str:
        return await step.using(tag="gpu").run(train)

    assert run(fit).result == "weights"
    with Bench(fit) as bench:
        bench.admit("fit", execution_id="x")
        bench.start_worker(tags=())
        bench.run()
        assert bench.record("x").needs == ("gpu",)
        bench.start_worker(tags=["gpu"])
        bench.run()
        assert bench.result("x").result == "weights"


def test_a_result_is_one_line_where_a_failed_assertion_shows_it() -> None:
    """Its record, history and events are pages, and tell nobody what came out."""

    @workflow
    async def fails(step: Step) -> str:
        raise ValueError("too late")

    @workflow
    async def waits(step: Step) -> str:
        return await step.message("go", str)

    assert repr(run(fails)) == "<RunResult 'test' fails failed: ValueError: too late>"
    assert repr(run(waits)) == "<RunResult 'test' waits suspended>"
    long = run(waits, messages={"go": "x" * 9_000})
    assert repr(long).startswith("<RunResult 'test' waits completed: \"xxx")
    assert len(repr(long)) < 1_100
