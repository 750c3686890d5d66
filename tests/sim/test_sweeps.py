"""One fault at every operation of the disk, and the scenario ends as if there were none (C.4)."""

from __future__ import annotations

import itertools

import pytest

from tests.effort import torturing
from tests.sim.sweeps import FOR_GOOD, SCENARIOS, Struck, play, points

#: The short form strikes where these are played, at each operation, with a kill and a power cut.
SHORT = ("charge", "shop", "effect")


@pytest.mark.parametrize("scenario", SCENARIOS if torturing() else SHORT)
def test_whatever_strikes_wherever_it_ends_as_without(scenario: str) -> None:
    """C.4; invariants I1, I2, I4-I18: refused, lost or of unknown fate, nothing is done twice."""
    expected, _ = play(scenario)
    kinds = ("kill", "cut") if not torturing() else None
    struck = [p for p in points(scenario) if kinds is None or p.kind in kinds]

    for one in struck:
        ended, _ = play(scenario, one)
        assert ended == expected, one

    assert len(struck) > 100


@pytest.mark.parametrize("scenario", SCENARIOS if torturing() else ("retries", "mail"))
@pytest.mark.parametrize("kind", ["eio", "full", "sync", "short"])
def test_a_disk_that_fails_here_and_there_changes_no_end(scenario: str, kind: str) -> None:
    """C.4: an error at some operations, once and until it is mended."""
    expected, took = play(scenario)
    every = 1 if torturing() else 9

    for at in range(1, took + 1, every):
        for times in (1, FOR_GOOD):
            ended, _ = play(scenario, Struck(kind, at, times))
            assert ended == expected, (at, times)


@pytest.mark.parametrize("scenario", SCENARIOS if torturing() else ("charge",))
def test_a_second_fault_in_the_recovery_changes_no_end(scenario: str) -> None:
    """C.4, compound: a kill or an error at every operation of what follows the first."""
    expected, took = play(scenario)
    firsts = range(1, took + 1, max(1, took // (20 if torturing() else 4)))
    seconds = range(1, 31 if torturing() else 16)

    for at, after in itertools.product(firsts, seconds):
        for kind in ("kill", "eio"):
            ended, _ = play(scenario, Struck("kill", at, 1), Struck(kind, after, 1))
            assert ended == expected, (at, after, kind)
