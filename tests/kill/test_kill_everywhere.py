"""SIGKILL of the real trigger and worker at every commit and user-call boundary of charge-order.

Nothing admitted is lost, no step runs again once recorded, there is one outcome, and the run
completes afterwards.
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from tests.kill.scene import KILLED, Scene

TRIGGER = ("trigger", "charge-order", "--id", "order-42", "-p", "order=42", "-p", "wait=20ms")
WORKER = ("worker", "--until-idle", "--linger", "3s")


def trigger_words(scene: Scene) -> tuple[str, ...]:
    return (*TRIGGER, "-p", f"ledger={scene.ledger}")


def test_a_trigger_killed_anywhere_admits_once_or_not_at_all(tmp_path: Path) -> None:
    """cases 25, 29, 30; spec E1, E13: after a kill the same call tells which it was."""
    for point in count():
        scene = Scene(tmp_path / str(point))
        killed = scene.killed_at(point, *trigger_words(scene))
        if killed.returncode != KILLED:
            assert killed.returncode == 0, killed.stderr
            break

        again = scene.ys(*trigger_words(scene))

        assert again.returncode in (0, 3), again.stderr
        if "order-42" in killed.stdout:
            assert again.returncode == 3
        scene.ys(*WORKER, check=True)
        shown = scene.show("order-42")
        assert shown["outcome"] == {"status": "completed", "result": {"order": 42, "charged": 1250}}
        assert scene.calls() == ["load-order", "charge-card"]
    assert point > 5


# Eight shares, so that they run side by side.
@pytest.mark.parametrize("share", range(8))
def test_a_worker_killed_anywhere_loses_nothing_and_repeats_nothing_recorded(
    tmp_path: Path, share: int
) -> None:
    """cases 86, 101, 113-115, 148, 149; B01, B02, B08; spec E8, E13, L3."""
    for point in count(share, 8):
        scene = Scene(tmp_path / str(point))
        scene.ys(*trigger_words(scene), check=True)
        killed = scene.killed_at(point, *WORKER)
        if killed.returncode != KILLED:
            assert killed.returncode == 0, killed.stderr
            break
        before = {
            step["step_key"]
            for step in scene.show("order-42")["steps"]
            if step["state"] == "completed"
        }
        called_before = scene.calls()

        scene.ys(*WORKER, check=True)

        shown = scene.show("order-42")
        assert shown["outcome"] == {
            "status": "completed",
            "result": {"order": 42, "charged": 1250},
        }, scene.points_passed()[-1]
        after = scene.calls()[len(called_before) :]
        assert not before & set(after)
        assert sorted(set(scene.calls())) == ["charge-card", "load-order"]
        # The one step that was interrupted may have run twice, under one idempotency key.
        assert len(scene.calls()) <= 3
        assert len(scene.keys()) == 1
    assert point > 20
