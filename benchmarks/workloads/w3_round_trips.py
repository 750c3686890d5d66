"""W3: from trigger to completed, one after the other, in one process and across two."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from figures import Figure, percentile
from scene import PATIENCE_S, BenchmarkFailed, Scene, fresh_scene
from sizes import Sizes

from yieldstar_cli.runtime import Runtime

TITLE = "trigger to completed, one after the other"

#: Round trips before the measured ones.
WARM_UP = 3


def run(parent: Path, sizes: Sizes) -> list[Figure]:
    """W3a: client and worker in one process; W3b: in two."""
    with fresh_scene(parent) as scene:
        figures = _shown("a one process", _inside(scene, sizes.round_trips))
    with fresh_scene(parent) as scene:
        taken, megabytes, percent = _across(scene, sizes)
        figures += _shown("b two processes", taken)
        figures += _parts(scene)
    return [
        *figures,
        Figure("b the same worker's CPU, idle after that", percent, "% of a core"),
        Figure("b its memory (RSS)", megabytes, "MB"),
    ]


def round_trips(runtime: Runtime, count: int) -> list[float]:
    """Milliseconds from trigger until its result was here, `count` times."""
    taken = []
    for n in range(WARM_UP + count):
        began = time.perf_counter()
        if runtime.wait(runtime.trigger("one-step", {"n": n}), timeout="60s") != n + 1:
            raise BenchmarkFailed("a wrong result")
        taken.append((time.perf_counter() - began) * 1e3)
    return taken[WARM_UP:]


def _inside(scene: Scene, count: int) -> list[float]:
    script = str(Path(__file__).with_name("w3_inside.py"))
    try:
        done = subprocess.run(
            [sys.executable, script, str(scene.db), str(scene.workflows), str(count)],
            cwd=scene.root,
            env=scene.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BenchmarkFailed("client and worker in one process: not done in time") from None
    if done.returncode != 0:
        raise BenchmarkFailed(f"client and worker in one process: {done.stderr[-2_000:]}")
    return [float(value) for value in json.loads(done.stdout)]


def _across(scene: Scene, sizes: Sizes) -> tuple[list[float], float, float]:
    with scene.worker() as worker, scene.runtime() as runtime:
        taken = round_trips(runtime, sizes.round_trips)
        return taken, *worker.quiet_cost(sizes.quiet_s)


def _shown(name: str, taken: list[float]) -> list[Figure]:
    shares = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    return [
        # The single ones are kept once: with the first figure of them.
        Figure(f"{name}, {word}", percentile(taken, share), "ms", samples=samples)
        for (word, share), samples in zip(shares, (tuple(taken), (), ()), strict=True)
    ]


def _parts(scene: Scene) -> list[Figure]:
    """Where a round trip's time went, by the moments on the records; the rest is the client's."""
    claimed, ran = scene.numbers(
        "SELECT avg(started_at - admitted_at) * 1000, avg(updated_at - started_at) * 1000"
        f" FROM executions WHERE n > {WARM_UP}"
    )
    return [
        Figure("b mean, admitted to claimed", claimed / 1000, "ms"),
        Figure("b mean, claimed to completed", ran / 1000, "ms"),
    ]
