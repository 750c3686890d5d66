"""W4: one execution that steps and sleeps over and over, and what its replay costs a new worker."""

from __future__ import annotations

from pathlib import Path

from figures import Figure
from scene import Scene, fresh_scene
from sizes import Sizes

TITLE = "one execution: rounds of a step and a 1 ms sleep, and replay"

#: For longer than any of the short sleeps takes, so that the worker does not leave in one.
LINGER = "1s"


def run(parent: Path, sizes: Sizes) -> list[Figure]:
    """Milliseconds a round as the history grows, and microseconds to replay one operation."""
    each = {count: _rounds(parent, count) for count in sizes.rounds}
    figures = [Figure(f"a round, of {count:,}", ms, "ms") for count, ms in each.items()]
    least, most = min(each), max(each)
    growth = each[most] / each[least] if each[least] else 0.0
    return [
        *figures,
        Figure(f"growth from {least:,} to {most:,} rounds", growth, "x"),
        *_replay(parent, sizes.replayed),
    ]


def _rounds(parent: Path, count: int) -> float:
    with fresh_scene(parent) as scene:
        with scene.runtime() as runtime:
            runtime.trigger("rounds", {"count": count})
        scene.drain("--linger", LINGER)
        scene.expect("completed", 1)
        first, last = scene.claimed_to_ended()
    return (last - first) / count


def _replay(parent: Path, steps: int) -> list[Figure]:
    """The delivery of a long history by a new worker, less that of an empty one."""
    short, long = _delivered_again(parent, 0), _delivered_again(parent, steps)
    return [
        Figure(f"replay of {steps:,} operations", long, "ms"),
        Figure("replay, each operation", max(long - short, 0) / steps * 1e3, "µs"),
    ]


def _delivered_again(parent: Path, steps: int) -> float:
    with fresh_scene(parent) as scene, scene.runtime() as runtime:
        runtime.trigger("steps-then-sleep", {"steps": steps}, id="again")
        scene.drain()
        runtime.wake("again")
        return _delivery(scene)


def _delivery(scene: Scene) -> float:
    scene.drain()
    scene.expect("suspended", 1)
    claimed, acknowledged = scene.numbers("SELECT claimed_at, acked_at FROM executions")
    return float(acknowledged - claimed)
