"""A burst: very many timers that are due at one moment, and others who want something meanwhile."""

from __future__ import annotations

import time
from pathlib import Path

from figures import Figure, percentile
from filling import fill
from scene import BenchmarkFailed, Scene, Worker, fresh_scene, per_second
from sizes import Sizes

from yieldstar_cli.clock import SystemClock

TITLE = "very many timers due at one moment, and one-step executions that come meanwhile"

#: From the first sleeper to the moment of them all: time enough to make the copies.
AHEAD_MS, AHEAD_MS_EACH = 4_000, 0.15
#: Between two others, in seconds.
EVERY_S = 0.05

LEFT = "SELECT count(*) FROM executions WHERE workflow_id = 'until' AND status <> 'completed'"


def run(parent: Path, sizes: Sizes) -> list[Figure]:
    """The rate, the worker's memory before and after, and the round trips of the others."""
    clock, count = SystemClock(), sizes.burst
    with fresh_scene(parent) as scene:
        moment = clock.now_ms() + AHEAD_MS + int(AHEAD_MS_EACH * count)
        seeds = min(sizes.seeds, count)
        scene.admit("until", seeds, {"moment": moment})
        scene.drain()
        scene.expect("suspended", seeds)
        fill(scene, count, earlier=False)
        with scene.worker() as worker:
            before, _ = worker.quiet_cost(0.0)
            while clock.now_ms() < moment - 100:
                before, _ = worker.quiet_cost(0.05)
            if scene.numbers(LEFT) != (count,):
                raise BenchmarkFailed("the timers were due before all were made")
            others, most = _meanwhile(scene, worker)
            after, _ = worker.quiet_cost(0.0)
        early, last = scene.numbers(
            f"SELECT sum(updated_at < {moment}), max(updated_at)"
            " FROM executions WHERE workflow_id = 'until'"
        )
    if early:
        raise BenchmarkFailed(f"{early} timers fired early")
    return [
        Figure(f"{count:,} timers", per_second(count, last - moment), "/s"),
        Figure("worker memory before", before, "MB"),
        Figure("worker memory, most during it", most, "MB", "worker memory before"),
        Figure("worker memory after", after, "MB", "worker memory before"),
        Figure("others meanwhile, p50", percentile(others, 0.5), "ms"),
        Figure("others meanwhile, p99", percentile(others, 0.99), "ms"),
        Figure("others meanwhile, longest", max(others), "ms"),
    ]


def _meanwhile(scene: Scene, worker: Worker) -> tuple[list[float], float]:
    """Round trips of others until the burst is over, and the most memory meanwhile."""
    taken, most = [], 0.0
    with scene.runtime() as runtime:
        while True:
            began = time.perf_counter()
            if runtime.wait(runtime.trigger("one-step", {"n": 1}), timeout="300s") != 2:
                raise BenchmarkFailed("a wrong result")
            taken.append((time.perf_counter() - began) * 1e3)
            most = max(most, worker.quiet_cost(0.0)[0])
            if scene.numbers(LEFT) == (0,):
                return taken, most
            time.sleep(EVERY_S)
