"""Makes a failing list of moves short: what can be left out without losing the failure is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.sim.world import Move


def shrunk(moves: Sequence[Move], fails: Callable[[Sequence[Move]], bool]) -> list[Move]:
    """A short list of moves for which `fails` still holds (delta debugging)."""
    kept = list(moves)
    size = len(kept) // 2
    while size:
        start = 0
        while start < len(kept):
            shorter = kept[:start] + kept[start + size :]
            if fails(shorter):
                kept = shorter
            else:
                start += size
        size //= 2
    return kept
