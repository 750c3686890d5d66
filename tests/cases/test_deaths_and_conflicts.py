"""What a person sees after deaths and conflicts: counts, causes, and that it goes on."""

from __future__ import annotations

import pytest

from tests.engine.helpers import MakeRig, called
from yieldstar_cli.engine.step import Step
from yieldstar_cli.errors import ExecutionIdConflict
from yieldstar_cli.testing import Killed


def load() -> str:
    return "loaded"


def charge(what: str) -> str:
    return f"charged {what}"


async def order(step: Step) -> str:
    return await step.run(charge, await step.run(load))


def test_a_step_that_outlives_three_deaths_leaves_their_traces(rig: MakeRig) -> None:
    """B14; cases 113, 114, 287; spec E5: 4 deliveries, and of the 3 lost ones start, end and how.

    What was recorded before the deaths is not run again; the try keeps its number.
    """
    x = rig(order)
    x.recorded("load")
    for _ in range(3):
        x.bench.points.reset()
        x.bench.points.kill_at(name="call:charge:after")
        with pytest.raises(Killed):
            x.go()
        x.bench.clock.advance(10_000)
        x.restart()
    x.bench.points.reset()

    found = x.go()

    assert found.result == "charged loaded"
    assert found.record.deliveries == 4
    assert called(found) == ["load", *["charge"] * 4]
    assert {attempt for _, attempt in found.calls} == {1}
    lost = x.bench.storage.reader.lost_deliveries(found.record.number)
    assert [(each.token, each.how) for each in lost] == [(1, "died"), (2, "died"), (3, "died")]
    assert [each.ended_at - each.started_at for each in lost] == [10_000] * 3
    assert found.record.last_worker is not None


def test_an_id_taken_by_another_workflow_changes_nothing_and_the_first_recovers(
    rig: MakeRig,
) -> None:
    """B18; case 5; spec E3: refused in the middle of a delivery; killed, it completes as begun."""
    x = rig(order)
    x.recorded("load")

    with pytest.raises(ExecutionIdConflict) as refused:
        x.bench.admit("other", {"n": 1}, execution_id="x")
    x.restart()
    found = x.go()

    assert refused.value.workflow_id == "w"
    assert found.result == "charged loaded"
    assert found.record.workflow_id == "w"
    assert called(found)[:2] == ["load", "charge"]
