"""How long one-shot commands take, beside a Python that does nothing."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from figures import Figure
from scene import BenchmarkFailed, Scene, fresh_scene
from sizes import Sizes

TITLE = "whole commands, from start to exit"

NOTHING = "python -c pass"


def run(parent: Path, sizes: Sizes) -> list[Figure]:
    """Medians of `sizes.starts` calls of each command, taken in turn."""
    with fresh_scene(parent) as scene:
        with scene.runtime() as runtime:
            runtime.trigger("one-step", id="shown")
        ys, db = _ys(), ["--db", str(scene.db)]
        commands = {
            NOTHING: [sys.executable, "-c", "pass"],
            "ys --help": [*ys, "--help"],
            "ys trigger": [*ys, "trigger", "one-step", *scene.names],
            "ys show": [*ys, "show", "shown", *db],
            "ys list": [*ys, "list", *db],
        }
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for turn in range(sizes.starts + 1):
            for name, command in commands.items():
                took = _once(scene, command)
                if turn:  # the first turn reads the files into memory and writes bytecode
                    taken[name].append(took)
    return [
        Figure(name, statistics.median(values), "ms", NOTHING if name != NOTHING else None)
        for name, values in taken.items()
    ]


def _ys() -> list[str]:
    script = Path(sys.executable).with_name("ys")
    return [str(script)] if script.exists() else [sys.executable, "-m", "yieldstar_cli"]


def _once(scene: Scene, command: list[str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(
        command, cwd=scene.root, env=scene.environment, capture_output=True, check=False
    )
    took = (time.perf_counter() - began) * 1e3
    if done.returncode != 0:
        raise BenchmarkFailed(f"{' '.join(command[:2])} exited {done.returncode}: {done.stderr!r}")
    return took
