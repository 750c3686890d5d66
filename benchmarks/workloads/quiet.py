"""A worker with an empty database: what it costs to start, and to wait."""

from __future__ import annotations

from pathlib import Path

from figures import Figure
from scene import fresh_scene
from sizes import Sizes

TITLE = "a worker with nothing to do"


def run(parent: Path, sizes: Sizes) -> list[Figure]:
    """Start to end with nothing due, then memory and CPU of one that waits."""
    with fresh_scene(parent) as scene:
        with scene.worker("--until-idle") as worker:
            ended = worker.ended()
        with scene.worker() as worker:
            worker.until(
                lambda: (
                    scene.numbers("SELECT count(*) FROM workers WHERE stopped_at IS NULL") == (1,)
                )
            )
            megabytes, percent = worker.quiet_cost(sizes.quiet_s)
    return [
        Figure("ys worker --until-idle, nothing due", ended.wall_s * 1e3, "ms"),
        Figure("its CPU", ended.cpu_s * 1e3, "ms"),
        Figure("worker memory (RSS)", megabytes, "MB"),
        Figure("quiet worker's CPU", percent, "% of a core"),
    ]
