"""Runs one seed, or looks for one that fails: `python -m tests.sim 7`, `python -m tests.sim 0 500`."""

from __future__ import annotations

import sys
import tempfile
import time
import traceback

from tests.sim.world import moves_of, run


def main() -> int:
    """The first failing seed, or none."""
    first = int(sys.argv[1])
    last = int(sys.argv[2]) if len(sys.argv) > 2 else first + 1
    began = time.monotonic()
    failed = 0
    for seed in range(first, last):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            try:
                trace, _ = run(seed, moves_of(seed, 300), folder)
                if last - first == 1:
                    print(trace)
            except Exception:
                failed += 1
                print(f"seed {seed}")
                traceback.print_exc(limit=-6)
                if failed > 5:
                    break
    print(f"{last - first} seeds, {failed} failed, {time.monotonic() - began:.1f} s")
    return failed


sys.exit(main())
