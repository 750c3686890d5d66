"""W1: executions of one step, admitted by a client, then drained by a worker started later."""

from __future__ import annotations

import time
from pathlib import Path

from figures import Figure
from reference import GROUPED, SINGLE, Raw
from scene import Scene, fresh_scene, per_second
from sizes import Sizes

TITLE = "one-step executions, admitted and then drained by one worker"


def run(parent: Path, sizes: Sizes) -> list[Figure]:
    """Admission three ways, and the drain of async and of sync steps."""
    raw, figures = Raw(parent, sizes.raw_rows), []
    raw.sample()
    with fresh_scene(parent) as scene:
        figures.append(_triggered(scene, sizes.one_step))
        raw.sample()
        figures += drained(scene, sizes.one_step, "async")
    raw.sample()
    with fresh_scene(parent) as scene:
        figures.append(_admitted(scene, sizes.one_step))
    raw.sample()
    with fresh_scene(parent) as scene:
        figures.append(_in_bulk(scene, sizes.one_step))
        raw.sample()
        figures += drained(scene, sizes.one_step, "sync")
    return [*raw.figures(), *figures]


def _triggered(scene: Scene, count: int) -> Figure:
    with scene.runtime() as runtime:
        began = time.perf_counter()
        for n in range(count):
            runtime.trigger("one-step", {"n": n})
        took = time.perf_counter() - began
    return Figure("Runtime.trigger by name", count / took, "/s", SINGLE)


def _admitted(scene: Scene, count: int) -> Figure:
    storage = scene.storage()
    began = time.perf_counter()
    for n in range(count):
        storage.executions.admit(workflow_id="one-step", params={"n": n})
    took = time.perf_counter() - began
    storage.close()
    return Figure("executions.admit, one at a time", count / took, "/s", SINGLE)


def _in_bulk(scene: Scene, count: int) -> Figure:
    began = time.perf_counter()
    scene.admit("one-sync-step", count, {"n": 1})
    took = time.perf_counter() - began
    return Figure("executions.admit, all in one transaction", count / took, "/s", GROUPED)


def drained(scene: Scene, count: int, kind: str) -> list[Figure]:
    """What one worker needs for the `count` executions that are due in `scene`."""
    worker, ended = scene.drain()
    scene.expect("completed", count)
    first, last = scene.claimed_to_ended()
    used = scene.bytes_used() - scene.empty_bytes
    _, idle = scene.drain()
    cpu_us = max(ended.cpu_s - idle.cpu_s, 0.0) / count * 1e6
    return [
        Figure(f"{kind} drain", per_second(count, last - first), "/s", GROUPED),
        Figure(f"{kind} drain with start-up", per_second(count, last - worker.started_at), "/s"),
        Figure(f"{kind} worker CPU with start-up", ended.cpu_s, "s"),
        Figure(f"{kind} worker CPU per execution", cpu_us, "µs"),
        Figure(f"{kind} bytes per execution", used / count, "B"),
    ]
