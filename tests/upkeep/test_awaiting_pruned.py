"""What a workflow or a program meets that asks for an outcome which is no longer kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.upkeep.scene import adder, sleeper
from yieldstar_cli import OutcomePruned, Step, open_runtime, workflow
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import ExecutionPruned
from yieldstar_cli.storage.upkeep import Chosen
from yieldstar_cli.testing import Bench


@workflow
async def asker(step: Step, execution_id: str) -> list[Any]:
    """Asks how another one stands, and awaits its end."""
    handle = step.attach(execution_id)
    standing = await handle.status()
    told = [standing.status, standing.result, standing.error]
    try:
        return [*told, await handle]
    except OutcomePruned as error:
        return [*told, str(error)]


@workflow
async def late_parent(step: Step) -> int:
    """Awaits its child long after it ended, in its next incarnation even."""
    child = step.child(adder, {"n": 1}, id="child")
    await child
    await step.sleep("30d")
    return await step.handle(child.ref)


def prune(bench: Bench) -> list[str]:
    """All that can be pruned."""
    found = bench.storage.upkeep.prune(Chosen())
    return [one.execution_id for one in found if one.kept is None]


def test_an_attach_to_what_was_pruned_raises_and_replays_so() -> None:
    """spec C2: OutcomePruned, recorded like any end."""
    with Bench(adder, asker, clock=ManualClock(), residents=0) as bench:
        bench.admit("adder", {"n": 1}, execution_id="target")
        bench.start_worker()
        bench.run_to(bench.clock.now_ms() + 1_000)
        assert prune(bench) == ["target"]

        bench.admit("asker", {"execution_id": "target"}, execution_id="asker")
        bench.run_to(bench.clock.now_ms() + 1_000)

        assert bench.record("asker").problem is None
        assert str(bench.record("asker").outcome) == (
            'Completed(result=\'["completed",null,null,'
            '"target has ended, and its outcome is no longer kept"]\')'
        )
        assert list(bench.storage.upkeep.breaches()) == []


def test_a_child_is_there_as_long_as_its_parent_is_open() -> None:
    """spec C2: whatever prune is told."""
    with Bench(adder, late_parent, clock=ManualClock(), residents=0) as bench:
        bench.admit("late-parent", execution_id="parent")
        bench.start_worker()
        bench.run_to(bench.clock.now_ms() + 86_400_000)
        assert prune(bench) == []

        bench.run_to(bench.clock.now_ms() + 40 * 86_400_000)

        assert str(bench.record("parent").outcome) == "Completed(result='2')"
        assert prune(bench) == ["child", "parent"]


def test_a_store_outlives_the_execution_that_made_it() -> None:
    """A store is no part of an execution: other ones may share it."""
    from tests.upkeep.scene import watcher

    with Bench(watcher, sleeper, clock=ManualClock()) as bench:
        bench.admit("watcher", execution_id="watcher")
        bench.start_worker()
        bench.run_to(bench.clock.now_ms() + 1_000)
        bench.cancel("watcher", now=True)

        assert prune(bench) == ["watcher"]

        assert [store.store_id for store in bench.storage.stores.find()] == ["one"]
        assert list(bench.storage.upkeep.breaches()) == []


def test_a_program_that_waits_for_it_is_told(tmp_path: Path) -> None:
    """spec K10, C2: not a result that was never there."""
    path = tmp_path / "ys.db"
    with Bench(adder, path=path, clock=ManualClock()) as bench:
        bench.admit("adder", {"n": 1}, execution_id="target")
        bench.start_worker()
        bench.run_to(bench.clock.now_ms() + 1_000)
        prune(bench)

    with open_runtime(path) as runtime:
        record = runtime.get("target")
        with pytest.raises(ExecutionPruned) as told:
            runtime.wait("target")

    assert record is not None
    assert record.pruned_at is not None
    assert told.value.code == "OUTCOME_PRUNED"
