"""The example supervisor under the real worker, which is killed again and again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.effort import torturing
from tests.kill.scene import KILLED, Scene
from yieldstar_cli import open_runtime

BUILDS = 60
#: At which of its points each worker is killed; the later ones get further.
POINTS = range(3, 400, 7) if torturing() else range(5, 90, 17)


@pytest.fixture
def farm(tmp_path: Path) -> Scene:
    """A project whose supervisor begins its next incarnation after twenty operations."""
    scene = Scene(tmp_path / "farm")
    module = scene.folder / "workflows" / "supervisor.py"
    source = module.read_text()
    assert "\nLARGE = 200\n" in source
    module.write_text(source.replace("\nLARGE = 200\n", "\nLARGE = 20\n"))
    return scene


def test_a_supervisor_whose_worker_is_killed_loses_and_doubles_nothing(farm: Scene):
    """spec C1-C3, C7, M1, M2: each command one build, each end told once, over incarnations."""
    wanted = {f"b{n}!" if n % 7 == 3 else f"b{n}" for n in range(BUILDS)}
    with open_runtime(farm.folder / "ys.db", farm.folder / "workflows") as runtime:
        runtime.trigger("supervisor", id="farm")
        for name in sorted(wanted):
            command = {"do": "start", "build": name, "takes": 0.0, "tell": "desk"}
            assert runtime.send("farm", "commands", command) == "delivered"
        runtime.send("farm", "commands", {"do": "close"})

    killed = [farm.killed_at(point, "worker", "--until-idle").returncode for point in POINTS]
    # Workers that die twice in one execution have it held for a second (spec E12): stay for that.
    last = farm.ys("worker", "--until-idle", "--linger", "20s")

    shown = farm.show("farm")
    told = json.loads(farm.ys("messages", "desk", "--json", check=True).stdout)
    ends = [(one["value"]["build"], one["value"]["how"].partition(":")[0]) for one in told]
    assert killed.count(KILLED) >= 3
    assert last.returncode == 0
    assert shown["status"] == "completed"
    assert shown["incarnation"] > 3
    assert sorted(ends) == sorted(
        (name, "broken" if name.endswith("!") else f"{name} is built") for name in wanted
    )
