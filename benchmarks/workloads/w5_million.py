"""W5 among a million: a worker, and a wake, in a file of very many sleepers."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from figures import Figure
from filling import fill
from scene import BenchmarkFailed, Scene, fresh_scene, kept_scene
from sizes import Sizes

TITLE = "a million executions suspended on a far timer, and one that is woken among them"


def run(parent: Path, sizes: Sizes) -> list[Figure]:
    """A worker in the large file, its memory and its CPU; a message there and in a small file."""

    def build(scene: Scene) -> None:
        _suspended(scene, sizes.seeds)
        fill(scene, sizes.large)

    with fresh_scene(parent) as small:
        _suspended(small, sizes.small)
        few, _, _ = _told(small, sizes, quiet_s=0.0)
    large = kept_scene(parent, "sleepers", build)
    # More than the worker keeps in memory, so that what it holds is as much as it ever will be.
    large.admit("steps-then-sleep", sizes.fresh, {"steps": 0})
    began = time.perf_counter()
    taken, megabytes, percent = _told(large, sizes, quiet_s=sizes.quiet_s)
    took = time.perf_counter() - began - sizes.quiet_s
    (count,) = large.numbers("SELECT count(*) FROM executions WHERE status = 'suspended'")
    if count < sizes.large:
        raise BenchmarkFailed(f"only {count} sleep")
    few_name = f"message to completed, among {sizes.small:,}"
    return [
        Figure(few_name, statistics.median(few), "ms"),
        Figure("message to completed, among all", statistics.median(taken), "ms", few_name),
        Figure("worker memory (RSS)", megabytes, "MB"),
        Figure("quiet worker's CPU", percent, "% of a core"),
        Figure("worker start, suspending as many as it keeps, and all that, together", took, "s"),
    ]


def _suspended(scene: Scene, count: int) -> None:
    scene.admit("steps-then-sleep", count, {"steps": 0})
    scene.drain()
    scene.expect("suspended", count)


def _told(scene: Scene, sizes: Sizes, *, quiet_s: float) -> tuple[list[float], float, float]:
    """Milliseconds from a message to the completion it leads to; memory and CPU after that."""
    taken = []
    with scene.worker() as worker, scene.runtime() as runtime:
        waiting = [runtime.trigger("one-message") for _ in range(sizes.wakes)]
        scene.until_quiet()
        for execution in waiting:
            began = time.perf_counter()
            runtime.send(execution, "go", 1)
            if runtime.wait(execution, timeout="60s") != 1:
                raise BenchmarkFailed("a wrong message")
            taken.append((time.perf_counter() - began) * 1e3)
        megabytes, percent = worker.quiet_cost(quiet_s)
    return taken, megabytes, percent
