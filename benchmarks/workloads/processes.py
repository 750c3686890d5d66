"""Several worker processes on one file: what they do together, and what they cost each other."""

from __future__ import annotations

from pathlib import Path

from figures import Figure
from scene import Scene, fresh_scene, per_second
from sizes import Sizes

TITLE = "1, 2 and 4 worker processes on one file, and steps that need the CPU"


def run(parent: Path, sizes: Sizes) -> list[Figure]:
    """One-step executions, and CPU-bound steps, by a growing crew that waits for them."""
    figures = []
    for processes in sizes.processes:
        name, first = _words(processes), _words(sizes.processes[0])
        rate = _shared(parent, processes, "one-step", sizes.shared, {"n": 1})
        beside = f"one-step executions, {first}" if name != first else None
        figures.append(Figure(f"one-step executions, {name}", rate, "/s", beside))
    for processes in sizes.processes:
        name, first = _words(processes), _words(sizes.processes[0])
        params = {"milliseconds": sizes.burn_ms}
        rate = _shared(parent, processes, "burning", sizes.burning, params)
        beside = f"steps of {sizes.burn_ms} ms CPU, {first}" if name != first else None
        figures.append(Figure(f"steps of {sizes.burn_ms} ms CPU, {name}", rate, "/s", beside))
    return figures


def _words(processes: int) -> str:
    return f"{processes} process{'es' if processes > 1 else ''}"


def _shared(
    parent: Path, processes: int, workflow_id: str, count: int, params: dict[str, int]
) -> float:
    with fresh_scene(parent) as scene, scene.crew(processes):
        scene.admit(workflow_id, count, params)
        _rung(scene)
        scene.until(f"SELECT {count} - sum(status = 'completed') FROM executions")
        scene.expect("completed", count)
        first, last = scene.claimed_to_ended()
    return per_second(count, last - first)


def _rung(scene: Scene) -> None:
    """Tell the workers, as a client does after its commit."""
    with scene.runtime() as runtime:
        runtime.resume()
