"""Two workers that lose their leases at any moment, in random worlds, never spoil a record."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine import promises, world
from tests.engine.programs import CALLS
from tests.engine.test_random_programs import FixedChance, some_time
from tests.engine.world import person, small
from tests.engine.worlds import STANDS_STILL, BusyWriter, Outside
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.testing import Bench

#: What may happen next: a worker's loop takes some steps, a lease ends or is renewed, or the
#: outside does something.
MOVES = ("step", "step", "step", "expire", "renew", "outside")
LONG_MS = 10**9


class Pair:
    """Two workers, each with its own memory, on one file and one clock."""

    def __init__(self, folder: Path, p: Any, q: Any, commit_ms: int, queue_ms: int) -> None:
        self.clock = ManualClock()
        chance = FixedChance()
        self.benches = [
            Bench(
                person,
                small,
                path=folder / "ys.db",
                clock=self.clock,
                chance=chance,
                duration=some_time,
                commit_ms=slow,
                residents=residents,
            )
            for slow, residents in ((0, 100), (commit_ms, 2))
        ]
        self.outside = Outside(self.benches[0], slow=False)
        self.outside.admit("p", p)
        self.outside.admit("q", q)
        self.benches[0].admit("small", {"how": "plain", "n": 1}, execution_id="r")
        # Only the second can do what is tagged.
        self.workers = [
            bench.start_worker(["gpu"][:index]) for index, bench in enumerate(self.benches)
        ]
        for bench, worker in zip(self.benches, self.workers, strict=True):
            worker.writer = BusyWriter(worker.writer, bench.loop, queue_ms, self.ring)
        self.numbers = [row.number for row in self.benches[0].storage.workers.all()]
        self.lost = 0

    def ring(self) -> None:
        for bench, worker in zip(self.benches, self.workers, strict=True):
            bench.loop.post(worker.poll)

    def lease(self, index: int, until: int) -> None:
        self.benches[0].storage.workers.renew(self.numbers[index], until)

    def move(self, index: int, move: str, count: int) -> None:
        if move == "step":
            for _ in range(count):
                self.step(index)
            self.ring()
            return
        self.lease(index, self.clock.now_ms() + (LONG_MS if move == "renew" else -1))
        self.lost += move == "expire"
        self.ring()

    def step(self, index: int) -> None:
        """One callback; a jump over the other's lease would be one more lost lease."""
        loop = self.benches[index].loop
        at = loop.next_at()
        if loop._ready or (at is not None and at < self.clock.now_ms() + 1_000_000):
            loop.step()

    def resume(self) -> None:
        """Nothing is paused from now on."""
        for scope in ("p", "person", ""):
            self.outside.happen(["resume", scope])

    def finish(self) -> None:
        """Both leases stand; run until neither has anything left to do."""
        for index in range(2):
            self.lease(index, self.clock.now_ms() + 10**12)
        self.resume()
        for _ in range(40):
            self.ring()
            for bench in self.benches:
                to = self.clock.now_ms() + 2_000
                for _ in range(STANDS_STILL):
                    if not bench.loop._make_ready(until_at=to):
                        break
                    bench.loop.step()
                else:
                    raise AssertionError("it never comes to rest")
                self.clock.set(max(to, self.clock.now_ms()))

    def close(self) -> None:
        for bench in self.benches:
            bench.close()


moves = st.tuples(st.integers(0, 1), st.sampled_from(MOVES), st.integers(1, 12))


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=25)
@given(
    world.loud_lives,
    world.loud_lives,
    world.events(others=True),
    st.lists(moves, max_size=60),
    st.sampled_from([0, 1, 40]),
    st.sampled_from([0, 0, 1, 40]),
)
def test_a_lost_lease_loses_no_message_and_no_child(
    p: Any, q: Any, events: Any, moved: Any, commit_ms: int, queue_ms: int
) -> None:
    """case 85; spec L2, L4, E8, M2, C3, C7: late writes are refused, whatever they carry."""
    CALLS.clear()
    happening = [event for _, event in events if event[0] != "crash"]
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(Path(folder), p, q, commit_ms, queue_ms)
        try:
            for index, move, count in moved:
                if move != "outside":
                    pair.move(index, move, count)
                elif happening:
                    pair.outside.happen(happening.pop(0))
                    pair.ring()
            pair.finish()

            promises.hold_all(pair.benches[0], pair.outside.sent)
            assert max(Counter(CALLS).values(), default=0) <= 1 + pair.lost
        finally:
            pair.close()
