"""Two workers on one file that lose their leases at any moment never spoil the record."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.programs import CALLS, program, programs
from tests.engine.test_random_programs import FixedChance, outcome_of, replayed, some_time
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.testing import Bench
from yieldstar_cli.worker.dispatcher import Dispatcher

#: What may happen next: a worker's loop takes a step, or a lease ends, or is renewed.
MOVES = ("step", "step", "step", "expire", "renew")
LONG_MS = 10**9


class Pair:
    """Two workers, each with its own memory, on one file and one clock."""

    def __init__(self, folder: Path, nodes: Any) -> None:
        self.clock = ManualClock()
        self.benches = [
            Bench(
                program,
                path=folder / "ys.db",
                clock=self.clock,
                chance=FixedChance(),
                duration=some_time,
                commit_ms=commit_ms,
            )
            for commit_ms in (0, 40)
        ]
        self.benches[0].admit("program", {"nodes": nodes}, execution_id="p")
        self.workers: list[Dispatcher] = [bench.start_worker() for bench in self.benches]
        self.takeovers = 0

    def lease(self, index: int, until: int) -> None:
        self.benches[0].storage.workers.renew(self.workers[index]._worker, until)

    def move(self, index: int, move: str) -> None:
        bench, worker = self.benches[index], self.workers[index]
        if move == "step":
            next_at = bench.loop.next_at()
            # A jump over the other's lease would be one more lost lease.
            if bench.loop._ready or (next_at or 0) < self.clock.now_ms() + 1_000_000:
                bench.loop.step()
            return
        self.lease(index, self.clock.now_ms() + (LONG_MS if move == "renew" else -1))
        if move == "expire":
            self.takeovers += 1
            self.benches[1 - index].loop.post(self.workers[1 - index].poll)
            bench.loop.post(worker.poll)

    def finish(self) -> None:
        """Both leases stand; run until neither has anything left to do."""
        for index in range(2):
            self.lease(index, self.clock.now_ms() + 10**12)
        for _ in range(20):
            for bench, worker in zip(self.benches, self.workers, strict=True):
                bench.loop.post(worker.poll)
                # Not to the end of all timers: one of them is the other's lease.
                bench.loop.run_until_at(self.clock.now_ms() + 10_000)
            if self.benches[0].record("p").status.terminal:
                return

    def close(self) -> None:
        for bench in self.benches:
            bench.close()


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(
    programs,
    st.lists(st.tuples(st.integers(0, 1), st.sampled_from(MOVES)), max_size=80),
)
def test_a_lost_lease_costs_a_repeated_step_and_nothing_else(nodes: Any, moves: Any) -> None:
    """case 85; spec L2, L4, E8, E10: late writes are refused, one history, one outcome.

    No step is recorded twice, the history replays to the outcome, and each attempt was called
    at most once more than leases were lost.
    """
    CALLS.clear()
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(Path(folder), nodes)
        try:
            for index, move in moves:
                pair.move(index, move)
            pair.finish()

            bench = pair.benches[0]
            record = bench.record("p")
            history = bench.history("p")
            assert [entry.position for entry in history] == list(range(len(history)))
            keys = Counter((entry.kind, entry.step_key) for entry in history)
            assert not [key for key, count in keys.items() if count > 1]
            assert [e.at for e in history] == sorted(e.at for e in history)
            assert replayed(bench) == outcome_of(record)
            assert max(Counter(CALLS).values(), default=0) <= 1 + pair.takeovers
        finally:
            pair.close()
