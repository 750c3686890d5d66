"""W6: what a file with a million finished executions costs those who go on using it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

from commands import taken_in_turn, ys
from figures import Figure
from filling import fill
from scene import BenchmarkFailed, Scene, fresh_scene, kept_scene
from sizes import Sizes

TITLE = "a million finished executions: listing, reading, counting, admitting, claiming"

LOOKS = 21


def run(parent: Path, sizes: Sizes) -> list[Figure]:
    """The library and whole commands in the large file, beside a file with next to nothing."""

    def build(scene: Scene) -> None:
        scene.admit("one-step", sizes.seeds, {"n": 1})
        scene.drain()
        scene.expect("completed", sizes.seeds)
        fill(scene, sizes.large)

    large = kept_scene(parent, "finished", build)
    with fresh_scene(parent) as small:
        return [
            *_library(large, sizes),
            *_commands(small, large, sizes.starts),
            *_going_on(small, large, sizes),
        ]


def _library(scene: Scene, sizes: Sizes) -> list[Figure]:
    storage = scene.storage()
    try:
        page = storage.reader.find(sort="updated", limit=50, payloads=False)
        counts = storage.reader.counts()
        if len(page) != min(50, sizes.large) or counts["completed"] < sizes.large:
            raise BenchmarkFailed(f"{len(page)} listed, {counts} counted")
        somewhere = f"copy-{sizes.large // 2:09d}"
        looks: dict[str, Callable[[], object]] = {
            "latest 50": lambda: storage.reader.find(sort="updated", limit=50, payloads=False),
            "latest 50 with payloads": lambda: storage.reader.find(sort="updated", limit=50),
            "one by ID": lambda: storage.executions.get(somewhere),
            "counts by status": storage.reader.counts,
        }
        return [Figure(name, _median_ms(look), "ms") for name, look in looks.items()]
    finally:
        storage.close()


def _median_ms(look: Callable[[], object]) -> float:
    taken = []
    for _ in range(LOOKS):
        began = time.perf_counter()
        look()
        taken.append((time.perf_counter() - began) * 1e3)
    return statistics.median(taken)


def _commands(small: Scene, large: Scene, starts: int) -> list[Figure]:
    for scene in (small, large):
        with scene.runtime() as runtime:
            if runtime.get("shown") is None:
                runtime.trigger("one-step", id="shown")
        scene.drain()
    commands = {
        f"ys {verb}, {where}": (scene, [*ys(), verb, *words, "--db", str(scene.db)])
        for verb, words in (("show", ["shown"]), ("list", []))
        for where, scene in (("empty file", small), ("large file", large))
    }
    taken = taken_in_turn(commands, starts)
    return [
        Figure(name, ms, "ms", name.replace("large", "empty") if "large" in name else None)
        for name, ms in taken.items()
    ]


def _going_on(small: Scene, large: Scene, sizes: Sizes) -> list[Figure]:
    """New executions, admitted one by one and then drained, in both."""
    figures = []
    for where, scene in (("empty file", small), ("large file", large)):
        beside = where == "large file"
        before = scene.numbers("SELECT max(n) FROM executions")[0]
        storage = scene.storage()
        began = time.perf_counter()
        for n in range(sizes.seeds):
            storage.executions.admit(workflow_id="one-step", params={"n": n})
        took = time.perf_counter() - began
        storage.close()
        _, ended = scene.drain()
        _, idle = scene.drain()
        (done,) = scene.numbers(
            f"SELECT count(*) FROM executions WHERE n > {before} AND status = 'completed'"
        )
        if done != sizes.seeds:
            raise BenchmarkFailed(f"{done} of {sizes.seeds} were run")
        cpu_us = max(ended.cpu_s - idle.cpu_s, 0.0) / sizes.seeds * 1e6
        for name, value, unit in (
            ("admitted one at a time", sizes.seeds / took, "/s"),
            ("worker CPU per execution", cpu_us, "µs"),
            ("worker from start to idle", idle.wall_s * 1e3, "ms"),
        ):
            other = f"{name}, empty file" if beside else None
            figures.append(Figure(f"{name}, {where}", value, unit, other))
    return figures
