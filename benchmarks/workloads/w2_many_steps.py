"""W2: executions of many sequential steps, in a crowd and alone."""

from __future__ import annotations

from pathlib import Path

from figures import Figure
from reference import GROUPED, SINGLE, raw
from scene import fresh_scene, per_second
from sizes import Sizes

TITLE = "sequential steps: many executions at once, and one alone"


def run(parent: Path, sizes: Sizes) -> list[Figure]:
    """The crowd, then the one."""
    return [*raw(parent, sizes.raw_rows), *_crowd(parent, sizes), *_alone(parent, sizes)]


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
    return [
        Figure("executions", per_second(count, last - first), "/s"),
        Figure("steps", per_second(count * each, last - first), "/s", GROUPED),
        Figure("worker CPU, start-up included", ended.cpu_s, "s"),
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
