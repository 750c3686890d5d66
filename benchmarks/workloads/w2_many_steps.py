"""W2: executions of many sequential steps, in crowds of every size, and alone."""

from __future__ import annotations

from pathlib import Path

from figures import Figure
from reference import GROUPED, SINGLE, Raw
from scene import fresh_scene, per_second
from sizes import Sizes

TITLE = "sequential steps: many executions at once, and one alone"


def run(parent: Path, sizes: Sizes) -> list[Figure]:
    """The crowd with async and with sync steps, the one, and everything between."""
    raw, figures = Raw(parent, sizes.raw_rows), []
    for kind, workflow_id in (("async", "many-steps"), ("sync", "many-sync-steps")):
        raw.sample()
        figures += _crowd(parent, sizes, kind, workflow_id)
    raw.sample()
    alone = _steps_per_s(parent, 1, sizes.steps_alone)
    figures.append(Figure("steps of one alone", alone, "/s", SINGLE))
    raw.sample()
    for crowd in sizes.crowds:
        each = max(1, min(sizes.crowd_steps // crowd, sizes.steps_alone))
        rate = _steps_per_s(parent, crowd, each)
        figures.append(Figure(f"steps, {crowd:,} in flight", rate, "/s"))
    return [*raw.figures(), *figures]


def _crowd(parent: Path, sizes: Sizes, kind: str, workflow_id: str) -> list[Figure]:
    count, each = sizes.many_steps, sizes.steps_each
    with fresh_scene(parent) as scene:
        scene.admit(workflow_id, count, {"steps": each})
        _, ended = scene.drain()
        scene.expect("completed", count)
        first, last = scene.claimed_to_ended()
        used = scene.bytes_used() - scene.empty_bytes
        _, idle = scene.drain()
    cpu_us = max(ended.cpu_s - idle.cpu_s, 0.0) / (count * each) * 1e6
    return [
        Figure(f"{kind} executions", per_second(count, last - first), "/s"),
        Figure(f"{kind} steps", per_second(count * each, last - first), "/s", GROUPED),
        Figure(f"{kind} worker CPU with start-up", ended.cpu_s, "s"),
        Figure(f"{kind} worker CPU per step", cpu_us, "µs"),
        Figure(f"{kind} bytes per execution", used / count, "B"),
    ]


def _steps_per_s(parent: Path, count: int, each: int) -> float:
    with fresh_scene(parent) as scene:
        scene.admit("many-steps", count, {"steps": each})
        scene.drain()
        scene.expect("completed", count)
        first, last = scene.claimed_to_ended()
    return per_second(count * each, last - first)
