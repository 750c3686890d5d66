"""W4: one execution that steps and sleeps over and over, and what its replay costs new workers."""

from __future__ import annotations

from pathlib import Path

from figures import Figure
from scene import Scene, fresh_scene
from sizes import Sizes

TITLE = "one execution: rounds of a step and a 1 ms sleep, replay, and many restarts"

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
        _restarts(parent, sizes.restarts, sizes.restart_steps),
    ]


def _rounds(parent: Path, count: int) -> float:
    with fresh_scene(parent) as scene:
        with scene.runtime() as runtime:
            runtime.trigger("rounds", {"count": count})
        scene.drain("--linger", LINGER)
        scene.expect("completed", 1)
        first, last = scene.claimed_to_ended()
    return (last - first) / count


def _replay(parent: Path, lengths: tuple[int, ...]) -> list[Figure]:
    """The delivery of histories by a new worker, less that of an empty one."""
    short = _delivered_again(parent, 0)
    took = {steps: _delivered_again(parent, steps) for steps in lengths}
    most = max(lengths)
    each_us = max(took[most] - short, 0) / most * 1e3
    return [
        *(Figure(f"replay of {steps:,} operations", ms, "ms") for steps, ms in took.items()),
        Figure("replay, each operation", each_us, "µs"),
    ]


def _delivered_again(parent: Path, steps: int) -> float:
    with fresh_scene(parent) as scene, scene.runtime() as runtime:
        runtime.trigger("steps-then-sleep", {"steps": steps}, id="again")
        scene.drain()
        runtime.wake("again")
        return _delivery(scene)


def _delivery(scene: Scene) -> float:
    """Milliseconds from claim to acknowledgement, in a worker started for it."""
    scene.drain()
    scene.expect("suspended", 1)
    claimed, acknowledged = scene.numbers("SELECT claimed_at, acked_at FROM executions")
    return float(acknowledged - claimed)


def _restarts(parent: Path, restarts: int, steps: int) -> Figure:
    """All deliveries of an execution that begins anew in another worker again and again, beside
    those of one that never does."""
    times = _in_parts(parent, restarts + 1, steps)
    once = _in_parts(parent, 1, steps * (restarts + 1))
    name = f"{steps * (restarts + 1):,} steps with {restarts} restarts, beside none"
    return Figure(name, times / max(once, 1.0), "x")


def _in_parts(parent: Path, parts: int, steps: int) -> float:
    with fresh_scene(parent) as scene, scene.runtime() as runtime:
        params = {"steps": steps, "parts": parts + 1}
        runtime.trigger("parts-between-messages", params, id="it")
        took = 0.0
        for _ in range(parts):
            took += _delivery(scene)
            runtime.send("it", "go", None)
    return took
