"""W2: executions of many sequential steps, in a crowd and alone."""

from __future__ import annotations

from pathlib import Path

from figures import Figure
from reference import GROUPED, SINGLE, Raw
from scene import fresh_scene, per_second
from sizes import Sizes

TITLE = "sequential steps: many executions at once, and one alone"


def run(parent: Path, sizes: Sizes) -> list[Figure]:
    """The crowd, then the one."""
    raw = Raw(parent, sizes.raw_rows)
    raw.sample()
    crowd = _crowd(parent, sizes)
    raw.sample()
    alone = _alone(parent, sizes)
    raw.sample()
    return [*raw.figures(), *crowd, *alone]


def _crowd(parent: Path, sizes: Sizes) -> list[Figure]:
    count, each = sizes.many_steps, sizes.steps_each
    with fresh_scene(parent) as scene:
        storage = scene.storage()
        with storage.atomic():
            for _ in range(count):
                storage.executions.admit(workflow_id="many-steps", params={"steps": each})
        storage.close()
        _, ended = scene.drain()
        scene.expect("completed", count)
        first, last = scene.claimed_to_ended()
        used = scene.bytes_used() - scene.empty_bytes
        _, idle = scene.drain()
    return [
        Figure("executions", per_second(count, last - first), "/s"),
        Figure("steps", per_second(count * each, last - first), "/s", GROUPED),
        Figure("worker CPU with start-up", ended.cpu_s, "s"),
        Figure(
            "worker CPU per step", max(ended.cpu_s - idle.cpu_s, 0.0) / (count * each) * 1e6, "µs"
        ),
        Figure("bytes per execution", used / count, "B"),
    ]


def _alone(parent: Path, sizes: Sizes) -> list[Figure]:
    with fresh_scene(parent) as scene:
        with scene.runtime() as runtime:
            runtime.trigger("many-steps", {"steps": sizes.steps_alone})
        scene.drain()
        scene.expect("completed", 1)
        first, last = scene.claimed_to_ended()
    return [Figure("steps of one alone", per_second(sizes.steps_alone, last - first), "/s", SINGLE)]
