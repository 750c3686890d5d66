"""What is written: syncs of the disk for each delivery, and bytes of the file for each step."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from figures import Figure
from scene import PATIENCE_S, BenchmarkFailed, Scene, fresh_scene
from sizes import Sizes

TITLE = "writes: fdatasync calls for each delivery, bytes for each step"

#: Letters of the small and of the large result; the quotes of its JSON are two more.
LENGTHS = (10, 200)
#: Executions that share the steps.
SHARED_BY = 10


def run(parent: Path, sizes: Sizes) -> list[Figure]:
    """Counted in a worker whose every sync goes through a counter; nothing here is timed."""
    return [
        _alone(parent, sizes.counted),
        _crowd(parent, sizes.one_step),
        *(_growth(parent, sizes, length) for length in LENGTHS),
    ]


def _alone(parent: Path, count: int) -> Figure:
    """Of deliveries one at a time: each its claim's, and the one that records and ends it."""
    with fresh_scene(parent) as scene:
        syncs = _counted(scene, count)
        scene.expect("completed", count)
    return Figure("syncs, the claim's included: one alone that a message ends", syncs / count, "")


def _crowd(parent: Path, count: int) -> Figure:
    """Of many at once, less those of a worker with nothing to do."""
    with fresh_scene(parent) as scene:
        idle = _counted(scene)
        scene.admit("one-step", count, {"n": 1})
        syncs = _counted(scene)
        scene.expect("completed", count)
    name = f"syncs, the claim's included: each of {count:,} one-step executions"
    return Figure(name, max(syncs - idle, 0) / count, "")


def _counted(scene: Scene, messages: int = 0) -> int:
    script = str(Path(__file__).with_name("writes_inside.py"))
    done = subprocess.run(
        [sys.executable, script, str(scene.db), str(scene.workflows), str(messages)],
        cwd=scene.root,
        env=scene.environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if done.returncode != 0:
        raise BenchmarkFailed(f"the counted worker: {done.stderr[-2_000:]}")
    return int(json.loads(done.stdout))


def _growth(parent: Path, sizes: Sizes, length: int) -> Figure:
    """Bytes of the checkpointed file for each step."""
    with fresh_scene(parent) as scene:
        each = sizes.written // SHARED_BY
        scene.admit("steps-with-results", SHARED_BY, {"steps": each, "length": length})
        scene.drain()
        scene.expect("completed", SHARED_BY)
        used = (scene.bytes_used() - scene.empty_bytes) / (SHARED_BY * each)
    return Figure(f"file growth per step with a result of {length + 2} bytes", used, "B")
