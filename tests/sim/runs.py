"""Plays seeds, and says of a failure how to see it again."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.sim.world import Move, moves_of, run

#: How many moves a seed has.
LENGTH = 300


class Failure(AssertionError):
    """A world did not keep a promise; its cause says which."""


def play(seed: int, moves: Sequence[Move] | None = None) -> str:
    """Run one seed, or other moves with its dice; answers the hash of its trace.

    Raises Failure.
    """
    # Nothing here has to outlive the machine: the simulated disk forgets what it should by itself.
    shared = "/dev/shm"
    folder = shared if os.access(shared, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=folder, prefix="ys-sim-") as name:
        try:
            return run(seed, moves_of(seed, LENGTH) if moves is None else moves, name)
        except Exception as error:
            raise Failure(
                f"({commit()}, {seed}) failed: {type(error).__name__}: {str(error)[:500]}\n"
                f"see it again and in short with: python -m tests.sim {seed}"
            ) from error


def commit() -> str:
    """What this runs from."""
    place = Path(__file__).parent
    told = subprocess.run(
        ["git", "-C", place, "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    )
    return told.stdout.strip() or "no commit"
