"""What a function keeps beyond its run is of no use to another one, and says so."""

from __future__ import annotations

import pytest

from tests.process.shop import Shop

MODULE = """
    from typing import Any

    from yieldstar_cli import Step, workflow

    KEPT: dict[str, Any] = {}

    def give(value: int) -> int:
        return value

    async def use(step: Step, how: str) -> None:
        handle, kept_step = KEPT["handle"], KEPT["step"]
        if how == "await":
            await handle
        elif how == "select":
            await step.select(handle, step.timer("1h"))
        elif how == "all":
            await step.all([handle])
        elif how == "timeout":
            await step.timeout(handle, "1h")
        elif how == "run":
            await kept_step.run(give, 1)
        elif how == "child":
            kept_step.child("keeper")

    @workflow
    async def keeper(step: Step) -> int:
        KEPT["handle"], KEPT["step"] = step.message("never", int), step
        await step.select(KEPT["handle"], step.timer("1h"))
        return KEPT["handle"].result()

    @workflow
    async def thief(step: Step, how: str) -> None:
        await use(step, how)

    @workflow
    async def forgetful(step: Step, how: str, n: int = 0) -> None:
        if n == 0:
            KEPT["handle"], KEPT["step"] = step.timer("1h"), step
            await step.continue_as({"how": how, "n": 1})
        await use(step, how)
"""

WAYS = ["await", "select", "all", "timeout", "run", "child"]


@pytest.fixture
def kept(shop: Shop) -> Shop:
    """A shop whose functions keep what they should not."""
    shop.module("kept", MODULE)
    return shop


@pytest.mark.parametrize("how", WAYS)
def test_another_executions_handle_is_a_fault_and_costs_that_one_nothing(
    kept: Shop, how: str
) -> None:
    """spec R9, E12, I3: not a wait that nobody can end, and no end of the other one's."""
    kept.ys("trigger", "keeper", "--id", "keeper", check=True)
    kept.ys("trigger", "thief", "--id", "thief", "-p", f"how={how}", check=True)

    kept.ys("worker", "--until-idle", check=True)
    kept.ys("send", "keeper", "never", "--data", "7", check=True)
    kept.ys("worker", "--until-idle", check=True)

    assert kept.show("thief")["held"]["code"] == "MISPLACED_CALL"
    assert kept.show("thief")["status"] == "admitted"
    assert kept.show("keeper")["outcome"]["result"] == 7


@pytest.mark.parametrize("how", WAYS)
def test_what_an_earlier_incarnation_made_is_a_fault_and_no_outcome(kept: Shop, how: str) -> None:
    """spec R9, C7: the one that made it is gone; the execution goes on once the code is right."""
    kept.ys("trigger", "forgetful", "--id", "a", "-p", f"how={how}", check=True)

    kept.ys("worker", "--until-idle", check=True)
    held = kept.show("a")
    kept.module("kept", MODULE.replace("await use(step, how)", "return None"))
    kept.ys("worker", "--until-idle", check=True)

    assert (held["status"], held["held"]["code"]) == ("suspended", "MISPLACED_CALL")
    assert "earlier run of this one" in held["problem"]["message"]
    assert kept.show("a")["status"] == "completed"
