"""Fan-out: one parent that starts very many children at once and joins them."""

from __future__ import annotations

from pathlib import Path

from figures import Figure
from scene import fresh_scene, per_second
from sizes import Sizes

TITLE = "one parent, its children all at once, joined in their order"


def run(parent: Path, sizes: Sizes) -> list[Figure]:
    """Children that do nothing, and children of one step; and how the cost of each one grows."""
    figures, cpu = [], {}
    for child, what in (("at-once", "empty"), ("one-step", "of one step")):
        for count in sizes.children:
            rate, cpu[child, count] = _fanned_out(parent, child, count)
            figures.append(Figure(f"{count:,} children {what}", rate, "/s"))
            name = f"worker CPU per child {what}, of {count:,}"
            figures.append(Figure(name, cpu[child, count], "µs"))
    least, most = min(sizes.children), max(sizes.children)
    growth = cpu["one-step", most] / max(cpu["one-step", least], 1e-9)
    name = f"growth of the CPU per child from {least:,} to {most:,}"
    return [*figures, Figure(name, growth, "x")]


def _fanned_out(parent: Path, child: str, count: int) -> tuple[float, float]:
    """Children a second, and microseconds of the worker's CPU for each."""
    with fresh_scene(parent) as scene:
        with scene.runtime() as runtime:
            runtime.trigger("fan-out", {"count": count, "child": child})
        _, ended = scene.drain()
        scene.expect("completed", count + 1)
        first, last = scene.claimed_to_ended()
        _, idle = scene.drain()
    cpu_us = max(ended.cpu_s - idle.cpu_s, 0.0) / count * 1e6
    return per_second(count, last - first), cpu_us
