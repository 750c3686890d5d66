"""Random programs that deal with each other and the outside, whenever their workers die."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests import effort
from tests.engine import promises, world
from tests.engine.programs import CALLS
from tests.engine.worlds import Way, World, played, seen, standing, steps, ties

LOUD = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=25)
QUIET = settings(LOUD, max_examples=12)
kills = st.lists(st.integers(0, 120), min_size=1, max_size=3).map(tuple)


def held(found: World, way: Way) -> Any:
    """Play it, hold it to what was promised, and say what was seen."""
    with played(found, way) as play:
        calls = Counter(CALLS)
        promises.hold_all(play.bench, play.outside.sent)
        if not play.died:
            assert max(calls.values(), default=0) <= 1, calls.most_common(3)
        for before, recorded in play.deaths:
            assert not recorded & {key for key, _, _ in CALLS[before:]}
        found_there = seen(play), steps(calls), play.points, ties(play)
        stood = standing(play)
        play.wake_all()
        assert standing(play) == stood
        assert Counter(CALLS) == calls
        for kind in ("cancel", "cancel_now"):
            play.cancel_all(kind)
            promises.hold_all(play.bench, play.outside.sent)
        assert all(status.terminal for _, status, _ in standing(play).values())
        return found_there


@LOUD
@given(
    world.loud_lives,
    world.loud_lives,
    world.events(others=True),
    kills,
    st.sampled_from([(100, 1), (0, 1), (100, 2), (3, 1)]),
    st.booleans(),
    st.sampled_from([0, 0, 1, 40]),
    st.sampled_from([0, 0, 1, 40, 311]),
)
def test_nothing_is_lost_or_done_twice_whoever_dies_when(
    p: Any, q: Any, events: Any, killed: Any, like: Any, timed: bool, commit_ms: int, queue_ms: int
) -> None:
    """spec R2, R4, R10, C1-C7, M1-M4, E14: whatever two programs do to each other.

    Every history replays to where it led, each message is read once and in order, each child is
    started once, and who waits at the end waits for what cannot come by itself.
    """
    found = World(p, q, events)
    residents, workers = like

    held(found, Way((), residents, workers, timed, commit_ms, queue_ms))
    held(found, Way(killed, residents, workers, timed, commit_ms, queue_ms))


@QUIET
@given(world.quiet_lives, world.events(others=False), kills)
def test_a_crash_changes_nothing_of_what_comes_from_outside_and_when(
    p: Any, events: Any, killed: Any
) -> None:
    """spec R2, R4, R6, O6; C1-C7, M2: history, messages and calls are the same, byte for byte.

    The outside acts at moments of its own, and no two things happen at one moment.
    """
    found = World(p, None, events, slow=True)
    reference, calls, points, tied = held(found, Way())
    assume(not tied)

    for way in (Way(residents=0), Way(workers=2)):
        again, repeated, _, _ = held(found, way)
        assert again == reference
        assert repeated == calls
    for index in killed:
        again, repeated, _, _ = held(found, Way((index % points,)))
        assert again == reference
        assert not calls - repeated


#: Two incarnations with something of every kind in them.
FULL_LIFE = [
    [
        ["hold_message", "a", False],
        ["hold_messages", "a", True, 2],
        ["child", "sleep", 2, "", False, False],
        ["spawn", ["seq", [["message", "b", False, 3], ["run", 1], ["send", "self", "a"]]]],
        ["map", ["plain", "fail", "sleep"], 2, "keep"],
        ["select", 4, 1],
        ["defer", 4],
        ["defer", 1],
        ["child", "wait", 1, "", True, False],
        ["send", "ref", "a"],
        ["status", 2],
        ["depth", "a"],
        ["try", "b", True],
        ["wake", "self"],
        ["cleanup", ["timeout", 1, ["message_only", "b"]]],
        ["join_soon", 0, 3],
        ["continue"],
    ],
    [
        ["handle", 0],
        ["handle", 1],
        ["all_held", 2, 3],
        ["poll", 1],
        ["message", "a", False, 2],
        ["patched", 1],
        ["chance", 1],
        ["swallow", ["message_only", "b"]],
        ["run", 3],
    ],
]
HAPPENS = [
    [13, ["send", "p", "a", False]],
    [311, ["send", "p", "b", True]],
    [13, ["send", "p", "a", False]],
    [2_003, ["pause", "p"]],
    [1_009, ["send", "p", "a", True]],
    [13, ["resume", "p"]],
    [20_003, ["cancel", "p"]],
]


def test_a_life_with_everything_in_it_is_the_same_wherever_the_worker_dies() -> None:
    """spec R2, R4, C1-C7, M1, M2, E14: at every commit and call, of one fixed world."""
    found = World(FULL_LIFE, None, HAPPENS, slow=True)
    reference, calls, points, tied = held(found, Way())
    kinds = {row[1] for history in reference["histories"] for row in history}
    assert not tied
    assert len(reference["histories"]) == 2
    assert reference["status"] == "completed"
    assert kinds >= {"start", "child", "send", "message", "status", "cancel", "defer", "timer"}

    for index in range(0, points, 1 if effort.torturing() else 7):
        again, repeated, _, _ = held(found, Way((index,)))
        assert again == reference, f"killed at {index}"
        assert not calls - repeated
