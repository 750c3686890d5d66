"""Worlds from seeds keep what was promised, whatever goes wrong in them (reliability C.5)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.effort import torturing
from tests.sim.runs import LENGTH, Failure, play
from tests.sim.shrink import shrunk
from tests.sim.world import Move, moves_of

SEEDS = 20_000 if torturing() else 500
AT_ONCE = 200 if torturing() else 25


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_a_seed_keeps_every_promise(first: int) -> None:
    """invariants I1, I2, I4-I10, I12-I18, I20, I21; spec E1-E14, R1-R10, M1-M3, C2-C7, S5, F1."""
    for seed in range(first, first + AT_ONCE):
        play(seed)


@pytest.mark.parametrize("seed", [1, 25, 40])
def test_a_seed_is_the_same_world_each_time(seed: int) -> None:
    """C.5: the trace of a seed does not depend on the process that plays it."""
    here = play(seed)
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        there = subprocess.run(
            [sys.executable, "-m", "tests.sim", str(seed)],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        assert there.stdout.split()[0] == here


def test_every_kind_of_move_is_made_somewhere() -> None:
    """C.5: swarm testing leaves things out of a seed, and nothing out of all of them."""
    made = {move.name for seed in range(50) for move in moves_of(seed, LENGTH)}

    assert len(made) >= 27


def test_what_fails_is_made_short() -> None:
    """C.5: delta debugging keeps what the failure needs, and no more."""
    moves = moves_of(7, LENGTH)
    kills = [move for move in moves if move.name == "ring"]

    short = shrunk(moves, lambda some: sum(move.name == "ring" for move in some) >= 3)

    assert len(kills) > 3
    assert [move.name for move in short] == ["ring"] * 3


def test_a_failure_says_how_to_see_it_again() -> None:
    """C.5: commit and seed, and the command."""
    impossible = [Move("does_not_exist", 0, 0)]

    with pytest.raises(Failure, match=r"\([0-9a-f]{7,}, 3\) failed.*\n.*python -m tests\.sim 3"):
        play(3, impossible)
