"""What fan-out costs: counted in SQLite's own steps and in rows, not in time (spec K3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.several import at, ids, send, send_all, shown, status
from yieldstar_cli import Step, workflow
from yieldstar_cli.testing import Bench

#: SQLite calls back each time it has done so many of its steps.
EACH = 10


class Meter:
    """Counts what the workers of a bench let SQLite do, and the rows they write."""

    def __init__(self, bench: Bench) -> None:
        self.calls = 0
        worker = bench.workers[0] if bench.workers else bench.start_worker()
        self._connection: Any = worker._storage.db.connection  # type: ignore[attr-defined]
        self._connection.set_progress_handler(self._count, EACH)
        self._written = self._connection.total_changes()

    def _count(self) -> bool:
        self.calls += 1
        return False

    @property
    def steps(self) -> int:
        """Steps of SQLite's machine since the last `reset`, in tens."""
        return self.calls

    @property
    def rows(self) -> int:
        """Rows inserted, updated and deleted since the last `reset`."""
        return int(self._connection.total_changes() - self._written)

    def reset(self) -> None:
        """Count from nothing again."""
        self.calls = 0
        self._written = self._connection.total_changes()


def growth(cost: Callable[[int], tuple[int, int]], small: int, large: int) -> tuple[float, float]:
    """How often the cost of `small` is in that of `large`: in steps, and in rows."""
    (steps, rows), (more_steps, more_rows) = cost(small), cost(large)
    return more_steps / steps, more_rows / rows


@workflow
async def at_once(step: Step, n: int) -> int:
    return n


@workflow
async def waiting(step: Step) -> Any:
    return await step.message("go")


@workflow
async def fan_out_with_all(step: Step, count: int) -> int:
    return sum(await step.all([step.child(at_once, {"n": n}) for n in range(count)]))


@workflow
async def fan_out_with_map(step: Step, count: int) -> int:
    return sum(await step.map(at_once, [{"n": n} for n in range(count)]))


@workflow
async def fan_out_in_a_window(step: Step, count: int) -> int:
    return sum(await step.map(at_once, [{"n": n} for n in range(count)], limit=20))


FAN_OUTS = [fan_out_with_all, fan_out_with_map, fan_out_in_a_window]


@pytest.mark.parametrize("fan_out", FAN_OUTS, ids=lambda w: w.definition.workflow_id)
def test_a_fan_out_costs_its_children_and_no_more(fan_out: Any) -> None:
    """case 200; spec K3, C2: ten times the children, about ten times the steps and rows."""

    def cost(count: int) -> tuple[int, int]:
        with Bench(fan_out, at_once) as bench:
            meter = Meter(bench)
            bench.admit(fan_out.definition.workflow_id, {"count": count}, execution_id="p")
            bench.run()
            assert bench.result("p").result == sum(range(count))
            return meter.steps, meter.rows

    steps, rows = growth(cost, 50, 500)

    assert rows < 10.5
    assert steps < 13


@pytest.mark.parametrize("fan_out", FAN_OUTS[:2], ids=lambda w: w.definition.workflow_id)
def test_two_thousand_children_come_together(fan_out: Any) -> None:
    """case 200, 242: no cap, and one entry for each start and each end."""
    with Bench(fan_out, at_once) as bench:
        bench.admit(fan_out.definition.workflow_id, {"count": 2_000}, execution_id="p")
        bench.run()

        assert bench.result("p").result == sum(range(2_000))
        assert len(ids(bench)) == 2_001
        assert len(bench.history("p")) == 4_000


def test_the_end_of_one_child_costs_the_same_among_many() -> None:
    """spec R4, K3: a look costs what is ready, not what is open."""

    @workflow
    async def parent(step: Step, count: int) -> int:
        kids = [step.child(waiting, id=f"kid-{n}") for n in range(count)]
        await step.all(kids)
        return count

    def cost(count: int) -> tuple[int, int]:
        with Bench(parent, waiting) as bench:
            bench.admit("parent", {"count": count}, execution_id="p")
            bench.run()
            meter = Meter(bench)
            for n in range(10):
                send(bench, f"kid-{n}", "go")
                bench.run()
            assert shown(bench.history("p"))[-1] == "child:waiting#10"
            return meter.steps, meter.rows

    steps, rows = growth(cost, 30, 600)

    assert rows == 1.0
    assert steps < 1.5


def test_a_message_costs_the_same_beside_many_unread_ones_and_many_waits() -> None:
    """spec R4, K3: on other queues, and of waits on other queues."""

    @workflow
    async def w(step: Step, count: int) -> list[Any]:
        async def hear(name: str) -> Any:
            return await step.message(name)

        for n in range(count):
            step.spawn(hear(f"q{n}"))
        return [await step.message("mine") for _ in range(11)]

    def cost(count: int) -> tuple[int, int]:
        with Bench(w) as bench:
            bench.admit("w", {"count": count}, execution_id="x")
            bench.run()
            send_all(bench, "x", "unread", range(count))
            meter = Meter(bench)
            for n in range(10):
                send(bench, "x", "mine", n)
                bench.run()
            assert len(bench.history("x")) == 10
            return meter.steps, meter.rows

    steps, rows = growth(cost, 20, 200)

    assert rows == 1.0
    # Each awaited queue is asked for its next message: a few steps for each.
    assert steps < 10


def test_reading_a_queue_is_linear_in_its_messages() -> None:
    """case 237; spec K3: one by one, ten thousand or a hundred."""

    @workflow
    async def w(step: Step, count: int) -> int:
        return sum([await step.message("q", int) for _ in range(count)])

    def cost(count: int) -> tuple[int, int]:
        with Bench(w) as bench:
            bench.admit("w", {"count": count}, execution_id="x")
            send_all(bench, "x", "q", range(count))
            meter = Meter(bench)
            bench.run()
            assert bench.result("x").result == sum(range(count))
            return meter.steps, meter.rows

    steps, rows = growth(cost, 200, 4_000)

    # Of those that were read only the last hundred are kept: the others are deleted again.
    assert rows < 25
    assert steps < 24


def test_a_select_loop_costs_the_same_in_every_pass() -> None:
    """case 231; spec O3: one entry each, and no row for the timers that lost."""

    @workflow
    async def w(step: Step, count: int) -> int:
        for n in range(count):
            box = step.message("q", int)
            await step.select(*[step.timer(f"{k + 1}h") for k in range(10)], box)
            assert box.result() == n
        return count

    def cost(count: int) -> tuple[int, int]:
        with Bench(w) as bench:
            bench.admit("w", {"count": count + 1}, execution_id="x")
            at(bench, 0)
            meter = Meter(bench)
            for n in range(count):
                send(bench, "x", "q", n)
                at(bench, 0)
            assert len(bench.history("x")) == count
            return meter.steps, meter.rows

    steps, rows = growth(cost, 10, 100)

    assert rows <= 10.0
    assert steps < 11


def test_a_tree_of_ten_levels_costs_its_nodes() -> None:
    """case 201; spec K3: two hundred nodes in a chain of levels, or side by side."""

    @workflow
    async def node(step: Step, depth: int, width: int) -> int:
        if depth == 0:
            return 1
        below = {"depth": depth - 1, "width": width}
        return 1 + sum(await step.all([step.child(node, below) for _ in range(width)]))

    def cost(depth: int, width: int) -> tuple[int, int]:
        with Bench(node) as bench:
            meter = Meter(bench)
            bench.admit("node", {"depth": depth, "width": width}, execution_id="r")
            bench.run()
            nodes = len(ids(bench))
            assert bench.result("r").result == nodes
            return meter.steps // nodes, meter.rows // nodes

    deep_steps, deep_rows = cost(10, 1)
    broad_steps, broad_rows = cost(2, 14)

    assert broad_rows <= deep_rows + 2
    assert deep_steps < 2 * broad_steps + 100


def test_a_cancellation_costs_those_it_ends() -> None:
    """case 276; spec C4, K3: not everybody in the file."""

    @workflow
    async def parent(step: Step) -> None:
        await step.all([step.child(waiting) for _ in range(5)])

    def cost(others: int) -> tuple[int, int]:
        with Bench(parent, waiting) as bench:
            for n in range(others):
                bench.admit("waiting", execution_id=f"other-{n}")
            bench.admit("parent", execution_id="p")
            bench.run()
            meter = Meter(bench)
            bench.storage.steering.cancel("p")
            at(bench, 1)
            assert {status(bench, one) for one in ids(bench)} == {"suspended", "cancelled"}
            return meter.steps, meter.rows

    steps, rows = growth(cost, 20, 600)

    assert rows == 1.0
    assert steps < 1.5
