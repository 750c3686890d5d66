"""A file that was only ever written by this program shows no breach, whatever happened to it."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine import keepers, promises, world
from tests.engine.test_random_stores import Play as StorePlay
from tests.engine.test_random_worlds import FULL_LIFE, HAPPENS, kills
from tests.engine.worlds import Play, Way, World, played
from yieldstar_cli.storage.upkeep import Chosen
from yieldstar_cli.testing import Bench
from yieldstar_cli.worker.dispatcher import Dispatcher

LOUD = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=15)
QUIET = settings(LOUD, max_examples=10)


def told(bench: Bench, *, quick: bool = False) -> list[str]:
    """What is found in the bench's file, in words."""
    found = bench.storage.upkeep.breaches(quick=quick)
    return [f"{b.code} {b.execution_id}: {b.text}" for b in found]


@LOUD
@given(
    world.loud_lives,
    world.loud_lives,
    world.events(others=True),
    kills,
    st.sampled_from([(100, 1), (0, 1), (100, 2), (3, 1)]),
    st.sampled_from([0, 0, 1, 40]),
    st.sampled_from([0, 0, 1, 40, 311]),
)
def test_no_breach_is_found_whoever_dies_when(
    p: Any, q: Any, events: Any, killed: Any, like: Any, commit_ms: int, queue_ms: int
) -> None:
    """case 348: at rest, after all are woken, and when all have ended."""
    residents, workers = like
    way = Way(killed, residents, workers, commit_ms=commit_ms, queue_ms=queue_ms)

    with played(World(p, q, events), way) as play:
        assert told(play.bench) == []
        play.wake_all()
        assert told(play.bench) == []
        for kind in ("cancel", "cancel_now"):
            play.cancel_all(kind)
            assert told(play.bench) == []


@QUIET
@given(st.lists(keepers.lives, min_size=1, max_size=3), keepers.events, kills)
def test_no_breach_is_found_in_shared_stores(programs: Any, events: Any, killed: Any) -> None:
    """case 348; spec S2-S5."""
    play = StorePlay(100, 2, True, (1, 1))
    try:
        play.play(programs, events, killed)

        assert told(play.bench) == []
        for kind in ("wake", "cancel"):
            play.again(kind)
            assert told(play.bench) == []
    finally:
        play.bench.close()


class Watched(Play):
    """A world whose file is looked at after every commit and every event."""

    def __init__(self, found: World, way: Way) -> None:
        self.looks: list[list[str]] = []
        super().__init__(found, way)

    def _ring(self, but: Dispatcher | None = None) -> None:
        self.looks.append(told(self.bench, quick=True))
        super()._ring(but)


@LOUD
@given(world.loud_lives, world.loud_lives, world.events(others=True), kills)
def test_no_breach_is_found_between_any_two_commits(
    p: Any, q: Any, events: Any, killed: Any
) -> None:
    """case 348: not only at rest."""
    play = Watched(World(p, q, events), Way(killed, workers=2, commit_ms=1))
    try:
        play.play()

        assert play.looks
        assert [look for look in play.looks if look] == []
    finally:
        play.bench.close()


def test_no_breach_is_found_in_a_life_with_everything_in_it() -> None:
    """case 348: between any two commits of two incarnations."""
    play = Watched(World(FULL_LIFE, None, HAPPENS, slow=True), Way())
    try:
        play.play()

        assert len(play.looks) > 20
        assert [look for look in play.looks if look] == []
    finally:
        play.bench.close()


class Pruned(Play):
    """A world in which everything that can be is pruned after each event."""

    def _happen(self, event: list[Any]) -> None:
        super()._happen(event)
        done = [one for one in self.bench.storage.upkeep.prune(Chosen()) if one.kept is None]
        self.gone.update(one.execution_id for one in done)

    def play(self) -> None:
        self.gone: set[str] = set()
        super().play()


@LOUD
@given(
    world.loud_lives,
    world.loud_lives,
    world.events(others=True),
    kills,
    st.sampled_from([0, 3, 100]),
)
def test_pruning_harms_nobody_who_is_open(
    p: Any, q: Any, events: Any, killed: Any, residents: int
) -> None:
    """case 323, 340; spec C2: the others replay to where they led, and no wake is lost."""
    play = Pruned(World(p, q, events), Way(killed, residents))
    try:
        play.play()

        assert told(play.bench) == []
        for record in play.bench.storage.reader.find(limit=None):
            assert (record.pruned_at is not None) == (record.execution_id in play.gone)
            if record.pruned_at is None:
                assert record.problem is None, record
                kept = [
                    play.bench.storage.reader.history(record.number, incarnation)
                    for incarnation in range(1, record.incarnation + 1)
                ]
                promises.hold_history(play.bench, record, kept)
            if not record.status.terminal:
                promises.hold_wait(play.bench, record)
    finally:
        play.bench.close()
