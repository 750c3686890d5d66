"""Whole commands from start to exit, taken in turn so that noise spreads over all."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from scene import BenchmarkFailed, Scene


def ys() -> list[str]:
    """The installed command, as a person calls it."""
    script = Path(sys.executable).with_name("ys")
    return [str(script)] if script.exists() else [sys.executable, "-m", "yieldstar_cli"]


def taken_in_turn(
    commands: Mapping[str, tuple[Scene, Sequence[str]]], starts: int
) -> dict[str, float]:
    """The median of `starts` calls of each command, in milliseconds."""
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(starts + 1):
        for name, (scene, command) in commands.items():
            took = _once(scene, command)
            if turn:  # the first turn reads the files into memory and writes bytecode
                taken[name].append(took)
    return {name: statistics.median(values) for name, values in taken.items()}


def _once(scene: Scene, command: Sequence[str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(
        command, cwd=scene.root, env=scene.environment, capture_output=True, check=False
    )
    took = (time.perf_counter() - began) * 1e3
    if done.returncode != 0:
        raise BenchmarkFailed(f"{' '.join(command[:2])} exited {done.returncode}: {done.stderr!r}")
    return took
