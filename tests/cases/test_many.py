"""Many executions, many steps: nobody starves, cost and memory stay in proportion."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections import Counter
from types import FrameType
from typing import Any

import pytest

from tests.engine.helpers import MakeRig
from tests.storage.kit import claim, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.engine.authoring import workflow
from yieldstar_cli.engine.driver import Driver
from yieldstar_cli.engine.operations import DurableHandle
from yieldstar_cli.engine.step import Step
from yieldstar_cli.model import Completed, Failed
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.testing import Bench
from yieldstar_cli.worker.dispatcher import Limits


def count(n: int) -> int:
    return n


@workflow
async def napper(step: Step) -> int:
    """A step, a sleep, a step."""
    n = await step.run(count, 1)
    await step.sleep("1h")
    return await step.run(count, n + 1)


def test_a_backlog_of_one_workflow_keeps_nobody_waiting_for_what_came_later(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """B20: 10,000 due of one, then 1 of another: after those that were due before it, no later.

    The backlog goes on growing meanwhile; a worker that takes only the other finds it at once.
    """
    worker = new_worker(storage, clock.now_ms())
    with storage.atomic():
        for n in range(10_000):
            storage.executions.admit(workflow_id="many", execution_id=f"m{n}", at=n)
        storage.executions.admit(workflow_id="few", execution_id="f", at=10_000)
    both = [("few", 1), ("many", 1)]

    (first,) = claim(storage, clock.now_ms(), worker, workflows=[("few", 1)], limit=100)
    storage.executions.release(first.delivery)
    order: list[str] = []
    while "f" not in order:
        with storage.atomic():
            for n in range(100):
                storage.executions.admit(
                    workflow_id="many", execution_id=f"later-{len(order)}-{n}", at=10_001
                )
            taken = claim(storage, clock.now_ms(), worker, workflows=both, limit=500)
        order += [each.delivery.execution_id for each in taken]

    assert first.delivery.execution_id == "f"
    assert order.index("f") == 10_000


def test_ten_thousand_steps_of_one_execution_meet_no_limit(rig: MakeRig) -> None:
    """case 136: there is no limit on steps; half of them are replayed by another worker."""

    async def w(step: Step) -> int:
        total = 0
        for block in range(100):
            total += sum(await step.all([step.run(count, block) for _ in range(100)]))
            if block == 49:
                await step.sleep("1h")
        return total

    x = rig(w)
    x.to(1_000)
    assert len(x.history) == 5_000
    x.restart()
    found = x.go()

    assert found.result == 100 * sum(range(100))
    assert len(found.history) == 10_001
    assert len(found.calls) == 10_000


def calls_made(run: Any) -> int:
    """How many Python functions `run` calls: its cost, whatever else the machine does."""
    made = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal made
        made += event == "call"

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return made


def test_the_cost_of_a_round_does_not_grow_with_the_history(rig: MakeRig) -> None:
    """B62: a suspension after each step; four times the rounds cost four times as much."""

    def cost(rounds: int) -> int:
        async def w(step: Step) -> int:
            for n in range(rounds):
                await step.run(count, n)
                await step.sleep("1s")
            return rounds

        x = rig(w)
        made = calls_made(x.go)
        assert x.result.result == rounds
        assert x.record.deliveries == rounds + 1
        return made

    cost(10)
    assert cost(400) < 4.4 * cost(100)


def test_the_cost_of_a_replay_is_that_of_its_entries(rig: MakeRig) -> None:
    """B62: each entry is read and applied once; four times as many cost four times as much."""

    def cost(steps: int) -> int:
        async def w(step: Step) -> int:
            for n in range(steps):
                await step.run(count, n)
            await step.sleep("1h")
            return steps

        x = rig(w)
        x.to(1_000)
        x.restart()
        made = calls_made(x.go)
        assert x.result.result == steps
        return made

    cost(10)
    assert cost(1_200) < 4.4 * cost(300)


def alive(*classes: type) -> Counter[str]:
    """How many of these there are."""
    gc.collect()
    return Counter(type(each).__name__ for each in gc.get_objects() if type(each) in classes)


def test_memory_does_not_grow_with_what_was_done() -> None:
    """B98: after a warm-up three hundred more leave as many objects as those before."""
    with Bench(napper) as bench:

        def more() -> int:
            with bench.storage.atomic():
                for _ in range(300):
                    bench.admit("napper")
            bench.run()
            # What the kit keeps for its reader is no part of the worker.
            bench.events.clear()
            bench.points.reset()
            gc.collect()
            return len(gc.get_objects())

        warm = more()
        grown = [more() - warm for _ in range(2)]

        assert bench.storage.reader.counts() == {"completed": 900}
    # Less than one object for each that was done.
    assert max(grown) < 200


@pytest.mark.parametrize("residents", [0, 50])
def test_memory_does_not_grow_with_what_sleeps(residents: int) -> None:
    """spec K3, R6; B97: of five hundred that sleep for long, a tenth of the residents stay."""
    before = alive(Driver, DurableHandle)
    with Bench(napper, residents=residents) as bench:
        with bench.storage.atomic():
            for _ in range(500):
                bench.admit("napper")
        bench.run_to(bench.clock.now_ms() + 60_000)
        assert bench.storage.reader.counts() == {"suspended": 500}

        left = alive(Driver, DurableHandle)

        assert left["Driver"] - before["Driver"] == residents // 10
        assert left["DurableHandle"] - before["DurableHandle"] <= 2 * residents


@pytest.mark.parametrize("most", [1, 3])
def test_open_deliveries_have_a_limit_and_what_waits_is_not_open(most: int) -> None:
    """spec K1: a waiting execution holds no place; with one place all of them come through."""
    with Bench(napper, duration=lambda call: 1_000) as bench:
        bench._limits = Limits(open=most)
        for n in range(8):
            bench.admit("napper", execution_id=f"n{n}")
        worker = bench.start_worker()
        seen: set[int] = set()

        def note() -> bool:
            seen.add(worker.open_count)
            return False

        bench.run(until=note)
        records = [bench.record(f"n{n}") for n in range(8)]

    assert max(seen) == most
    assert {(str(r.status), r.deliveries) for r in records} == {("completed", 2)}


def test_a_list_reads_no_payload_that_it_does_not_show(storage: SqliteStorage) -> None:
    """B88: of params and results only their place is read; errors stay, since a list shows them."""
    for name in ("open", "done", "failed"):
        storage.executions.admit(
            workflow_id="w", execution_id=name, params="x" * 100_000, context={"c": "y" * 100_000}
        )
    open_one, done, failed = storage.executions.claim_due(2**52)
    storage.executions.acknowledge(done, Completed('"' + "z" * 100_000 + '"'))
    storage.executions.acknowledge(failed, Failed('{"name":"E","message":"m"}'))
    tracemalloc.start()
    found = {r.execution_id: r for r in storage.reader.find(payloads=False)}
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert open_one.execution_id == "open"
    assert {r.params_json for r in found.values()} == {"null"}
    assert {r.context_json for r in found.values()} == {"{}"}
    assert found["done"].outcome == Completed("null")
    assert found["failed"].outcome == Failed('{"name":"E","message":"m"}')
    assert most < 100_000
    whole = {r.execution_id: r for r in storage.reader.find()}
    assert whole["done"].outcome == Completed('"' + "z" * 100_000 + '"')
    assert whole["open"].params == "x" * 100_000
