"""A worker whose lease has ended tries no effect: another may be at it already (spec L2, F1)."""

from __future__ import annotations

from yieldstar_cli import EffectAnswer, Step, not_found, settled, workflow
from yieldstar_cli.model import Completed
from yieldstar_cli.testing import Bench

CALLS: list[str] = []


def find(effect_id: str, cents: int) -> EffectAnswer[str]:
    CALLS.append("find")
    return settled("paid") if "charge" in CALLS else not_found


async def charge(effect_id: str, cents: int) -> str:
    CALLS.append("charge")
    return "paid"


@workflow
async def pay(step: Step) -> str:
    """One charge."""
    return await step.effect(
        "c-1", operation="charge", input=5, lookup=find, perform=charge, retry_in="30s"
    )


def test_without_a_lease_nothing_is_performed_and_later_it_is_looked_up_first() -> None:
    """spec L2, F1: the try counts as one that may have been made."""
    CALLS.clear()
    with Bench(pay) as bench:
        worker = bench.start_worker()
        worker.leased = lambda: False
        bench.admit(pay, execution_id="p")
        bench.run_to(bench.clock.now_ms() + 10_000)
        assert CALLS == []
        assert "LeaseEnded" in str(bench.storage.reader.attempts(bench.record("p").number, 1))

        worker.leased = lambda: True
        bench.run()

        assert CALLS == ["find", "charge"]
        assert bench.record("p").outcome == Completed('"paid"')


def test_a_lease_that_ends_while_it_is_looked_up_keeps_it_from_being_performed() -> None:
    """spec L2, F1: a lookup that took long proves nothing any more."""
    CALLS.clear()
    with Bench(pay) as bench:
        bench.admit(pay, execution_id="p")
        # It was begun by somebody who died.
        bench.points.kill_at(name="call:charge:before")
        try:
            bench.run()
        except BaseException:
            bench.crash()
        bench.points.reset()
        worker = bench.start_worker()
        worker.leased = lambda: not CALLS

        bench.run_to(bench.clock.now_ms() + 10_000)

        assert CALLS == ["find"]
        assert bench.storage.effects.get("c-1").status == "pending"  # type: ignore[union-attr]
