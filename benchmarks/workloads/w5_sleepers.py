"""W5: many executions suspended on a far timer: what it takes to get there, and to stay there."""

from __future__ import annotations

import time
from pathlib import Path

from figures import Figure
from reference import GROUPED, SINGLE, Raw
from scene import fresh_scene, per_second
from sizes import Sizes

TITLE = "executions suspended on a far timer"


def run(parent: Path, sizes: Sizes) -> list[Figure]:
    """Created one by one, suspended by one worker, then watched while nothing happens."""
    count = sizes.sleepers
    raw = Raw(parent, sizes.raw_rows)
    raw.sample()
    with fresh_scene(parent) as scene:
        with scene.runtime() as runtime:
            began = time.perf_counter()
            for _ in range(count):
                runtime.trigger("steps-then-sleep")
            took = time.perf_counter() - began
        raw.sample()
        with scene.worker() as worker:
            worker.until(
                lambda: (
                    scene.numbers(
                        "SELECT count(*) FROM executions WHERE status = 'admitted'"
                        " OR claimed_by IS NOT NULL"
                    )
                    == (0,)
                )
            )
            scene.expect("suspended", count)
            first, last = scene.claimed_to_ended()
            megabytes, percent = worker.quiet_cost(sizes.quiet_s)
        each = (scene.bytes_used() - scene.empty_bytes) / count
    return [
        *raw.figures(),
        Figure("created", count / took, "/s", SINGLE),
        Figure("suspended", per_second(count, last - first), "/s", GROUPED),
        Figure("bytes each", each, "B"),
        Figure("worker memory (RSS)", megabytes, "MB"),
        Figure("quiet worker's CPU", percent, "% of a core"),
    ]
