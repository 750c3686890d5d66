"""Random shoppers and a bank with troubles: whoever dies when, each effect is done once (F1)."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.engine.shoppers import (
    TROUBLES,
    FarBank,
    hold_effects,
    lives,
    nobody_waits_in_vain,
    shopper,
)
from tests.engine.test_lost_worlds import Pair, moves
from tests.engine.test_random_programs import FixedChance
from tests.engine.worlds import LONG_MS, BusyWriter, PatientLoop
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import ExecutionNotFound
from yieldstar_cli.testing import Bench, Killed

LOUD = settings(
    deadline=None, suppress_health_check=list(HealthCheck), max_examples=25, phases=[Phase.generate]
)
#: More than any program here needs: beyond it, something commits without an end.
COMMITS = 1_500

programs = st.lists(lives, min_size=1, max_size=4)
troubles = st.lists(st.sampled_from(TROUBLES), max_size=10)
happenings = st.lists(
    st.tuples(
        st.integers(0, 2_500),
        st.sampled_from(["cancel", "cancel now", "pause", "resume", "wake", "crash", "stop"]),
        st.integers(0, 3),
    ),
    max_size=5,
)


def happen(bench: Bench, kind: str, who: str) -> None:
    """Somebody asks something of an execution."""
    storage = bench.storage
    with contextlib.suppress(ExecutionNotFound):
        match kind:
            case "cancel":
                storage.steering.cancel(who, reason="enough")
            case "cancel now":
                storage.steering.cancel(who, now=True)
            case "pause":
                storage.steering.pause(execution_id=who, by="me")
            case "resume":
                storage.steering.resume(execution_id=who)
            case "wake":
                storage.executions.wake(who)


class Play:
    """One run, on one file, whenever its workers die."""

    def __init__(self, bank: FarBank, residents: int, workers: int, slow: tuple[int, int]) -> None:
        self.bank = bank
        self.workers = workers
        self.queue_ms = slow[1]
        self.kills: list[int] = []
        self.shop = shopper(bank)
        self.bench = Bench(
            self.shop,
            clock=ManualClock(),
            chance=FixedChance(),
            residents=residents,
            duration=bank.span,
            commit_ms=slow[0],
        )

    def play(self, programs: Any, happening: Any, kills: list[int]) -> None:
        """Run everything, to the moment when nothing moves."""
        self.kills = list(kills)
        for n, acts in enumerate(programs):
            self.bench.admit(
                "shopper",
                {"acts": [list(act) for act in acts], "told": []},
                execution_id=f"s{n}",
            )
        self._start()
        at = self.bench.clock.now_ms()
        for gap, kind, who in happening:
            at += gap
            self._survive(at)
            if kind == "crash":
                self._crash()
            elif kind == "stop":
                for worker in self.bench.workers:
                    worker.stop()
                self._survive(at + 1_500)
                at += 1_500
                self._crash()
            else:
                happen(self.bench, kind, f"s{who}")
            nobody_waits_in_vain(self.bench)
            self._ring()
        self._survive(at + LONG_MS)
        for n in range(len(programs)):
            happen(self.bench, "resume", f"s{n}")
        self._ring()
        self._survive(at + 2 * LONG_MS)

    def _start(self) -> None:
        self.bench.loop = PatientLoop(self.bench.clock)
        for _ in range(self.workers):
            worker = self.bench.start_worker()
            worker.writer = BusyWriter(worker.writer, self.bench.loop, self.queue_ms, self._ring)
        self.bench.points.kill_at(self.kills[0] if self.kills else None)

    def _ring(self) -> None:
        for worker in self.bench.workers:
            self.bench.loop.post(worker.poll)

    def _survive(self, to: int) -> None:
        while True:
            try:
                self.bench.run_to(to)
            except Killed:
                self.kills.pop(0)
                self._crash()
            else:
                return

    def _crash(self) -> None:
        self.bench.crash()
        nobody_waits_in_vain(self.bench)
        self._start()


@LOUD
@given(
    programs,
    troubles,
    happenings,
    st.lists(st.integers(0, 60), max_size=3),
    st.sampled_from([(100, 1), (0, 1), (100, 2), (1, 2)]),
    st.booleans(),
    st.sampled_from([(0, 0), (0, 1), (40, 0), (1, 311)]),
)
def test_each_effect_is_done_once_and_everybody_is_told_the_same(
    programs: Any,
    troubled: list[str],
    happening: Any,
    kills: list[int],
    like: tuple[int, int],
    timed: bool,
    slow: tuple[int, int],
) -> None:
    """cases 351-358; spec F1: whoever dies, is cancelled, paused or told to stop, and when."""
    residents, workers = like
    bank = FarBank(troubled, timed)
    play = Play(bank, residents, workers, slow)
    try:
        play.play(programs, happening, kills)
        hold_effects(play.bench, bank)
        assert sum(name.startswith("commit") for name in play.bench.points.names) <= COMMITS
    finally:
        play.bench.close()


class Shoppers(Pair):
    """Two workers on one file, with a memory each, whose leases are lost at any moment."""

    def __init__(self, folder: Path, bank: FarBank, programs: Any, slow: tuple[int, int]) -> None:
        self.clock = ManualClock()
        shop = shopper(bank)
        chance = FixedChance()
        self.benches = [
            Bench(
                shop,
                path=folder / "ys.db",
                clock=self.clock,
                chance=chance,
                duration=bank.span,
                commit_ms=commit_ms,
                residents=residents,
            )
            for commit_ms, residents in ((0, 100), (slow[0], 2))
        ]
        for n, acts in enumerate(programs):
            self.benches[0].admit(
                "shopper",
                {"acts": [list(act) for act in acts], "told": []},
                execution_id=f"s{n}",
            )
        self.workers = [bench.start_worker() for bench in self.benches]
        for bench, worker in zip(self.benches, self.workers, strict=True):
            worker.writer = BusyWriter(worker.writer, bench.loop, slow[1], self.ring)
        self.numbers = [row.number for row in self.benches[0].storage.workers.all()]
        self.lost = 0

    def resume(self) -> None:
        for n in range(4):
            happen(self.benches[0], "resume", f"s{n}")


@LOUD
@given(
    programs,
    troubles,
    happenings,
    st.lists(moves, max_size=60),
    st.sampled_from([(0, 0), (1, 0), (40, 0), (40, 1), (0, 40)]),
)
def test_a_lost_lease_leaves_one_result_that_everybody_is_told(
    programs: Any, troubled: list[str], happening: Any, moved: Any, slow: tuple[int, int]
) -> None:
    """cases 85, 357; spec F1, L2: who is late settles nothing, and nobody waits for it."""
    happens = [(kind, who) for _, kind, who in happening if kind not in ("crash", "stop")]
    bank = FarBank(troubled, slow=True)
    with tempfile.TemporaryDirectory() as folder:
        pair = Shoppers(Path(folder), bank, programs, slow)
        try:
            for index, move, count in moved:
                if move != "outside":
                    pair.move(index, move, count)
                elif happens:
                    kind, who = happens.pop(0)
                    happen(pair.benches[0], kind, f"s{who}")
                    pair.ring()
                nobody_waits_in_vain(pair.benches[0])
            pair.finish()

            hold_effects(pair.benches[0], bank, lost=pair.lost)
        finally:
            pair.close()
