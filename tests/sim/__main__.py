"""Runs seeds and makes what fails short: `python -m tests.sim 7`, `python -m tests.sim 0 500`."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

from tests.sim.runs import LENGTH, Failure, play
from tests.sim.shrink import shrunk
from tests.sim.world import Move, moves_of


def main(argv: Sequence[str]) -> int:
    """How many seeds failed; with `--quick` the first one ends it, and is not made short."""
    quick = "--quick" in argv
    seeds = [int(word) for word in argv if not word.startswith("--")]
    first = seeds[0]
    last = seeds[1] if len(seeds) > 1 else first + 1
    failed = 0
    for seed in range(first, last):
        moves = moves_of(seed, LENGTH)
        try:
            trace = play(seed, moves)
        except Failure as failure:
            failed += 1
            if quick:
                break
            _tell(seed, moves, failure)
        else:
            if last - first == 1:
                print(trace)
    print(f"{last - first} seeds, {failed} failed")
    return min(failed, 100)


def _tell(seed: int, moves: Sequence[Move], failure: Failure) -> None:
    traceback.print_exception(failure.__cause__, limit=-5)
    print(failure)

    def fails(shorter: Sequence[Move]) -> bool:
        try:
            play(seed, shorter)
        except Failure as other:
            return type(other.__cause__) is type(failure.__cause__)
        return False

    print(f"seed {seed}, in short:")
    for move in shrunk(moves, fails):
        print("   ", move)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
