"""A long backlog is worked off oldest first, and keeps what is new waiting for one claim (B20)."""

from __future__ import annotations

from yieldstar_cli import Step, workflow
from yieldstar_cli.testing import Bench

MANY = 3_000


@workflow
async def sleeper(step: Step) -> None:
    """Sleeps to the moment that all wake at."""
    await step.sleep("1h")


def now() -> str:
    """What the latecomer does."""
    return "done"


@workflow
async def latecomer(step: Step) -> str:
    """One step."""
    return await step.run(now)


def test_what_comes_during_a_burst_does_not_wait_for_its_end() -> None:
    """B20; spec E7: within two claims, though thousands were due before it."""
    with Bench(sleeper, latecomer, residents=0) as bench:
        with bench.storage.atomic():
            for n in range(MANY):
                bench.admit(sleeper, execution_id=f"s-{n}")
        bench.run_to(bench.clock.now_ms() + 1_000)
        bench.clock.advance(3_600_000)
        bench.admit(latecomer, execution_id="late")

        bench.run(until=lambda: bench.record("late").outcome is not None)

        ended = [
            row
            for (row,) in bench.storage.db.rows(
                "SELECT count(*) FROM executions WHERE status = 'completed'"
            )
        ]
        assert ended[0] < MANY / 4


def test_a_backlog_is_worked_off_oldest_first_for_the_most_part() -> None:
    """spec E7: seven of eight go to who waits longest, so nobody old is passed over for ever."""
    with Bench(sleeper, residents=0) as bench:
        begin = bench.clock.now_ms()
        with bench.storage.atomic():
            for n in range(1_000):
                bench.admit(sleeper, execution_id=f"s-{n}", at=begin + n)
        bench.clock.advance(2_000)
        worker = bench.start_worker()

        claimed = bench.storage.deliveries.claim(
            bench.clock.now_ms(),
            worker=worker._worker,
            limit=80,
            workflows=[("sleeper", 1)],
            fresh=10,
        )

        names = [one.delivery.execution_id for one in claimed]
        assert names[:70] == [f"s-{n}" for n in range(70)]
        assert sorted(names[70:]) == sorted(f"s-{n}" for n in range(990, 1_000))
