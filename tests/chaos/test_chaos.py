"""Nothing is lost, done twice or changed while everything goes wrong (reliability C.10)."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.run import Chaos
from tests.effort import torturing

EXECUTIONS, PACE_S, TROUBLES = (25_000, 1.5, 400) if torturing() else (500, 0.4, 10)


def test_a_short_run_loses_repeats_and_changes_nothing(tmp_path: Path) -> None:
    """C.10; case 315; invariants I1, I4, I18; spec E1, E8, E10, L2, F1."""
    told = Chaos(tmp_path / "shop", EXECUTIONS, 2, PACE_S, TROUBLES, seed=5).run()

    assert told.bad == 0, told
    assert min(told.kills, told.pauses, told.locks, told.quotas) > 0
