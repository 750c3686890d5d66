"""How long one-shot commands take, beside a Python that does nothing."""

from __future__ import annotations

import sys
from pathlib import Path

from commands import taken_in_turn, ys
from figures import Figure
from scene import fresh_scene
from sizes import Sizes

TITLE = "whole commands, from start to exit"

NOTHING = "python -c pass"


def run(parent: Path, sizes: Sizes) -> list[Figure]:
    """Medians of `sizes.starts` calls of each command, taken in turn."""
    with fresh_scene(parent) as scene:
        with scene.runtime() as runtime:
            runtime.trigger("one-step", id="shown")
        scene.drain()
        db = ["--db", str(scene.db)]
        commands = {
            NOTHING: [sys.executable, "-c", "pass"],
            "ys --version": [*ys(), "--version"],
            "ys --help": [*ys(), "--help"],
            "ys trigger": [*ys(), "trigger", "one-step", *scene.names],
            "ys show": [*ys(), "show", "shown", *db],
            "ys list": [*ys(), "list", *db],
            "ys wait, on what has ended": [*ys(), "wait", "shown", *db],
        }
        taken = taken_in_turn(
            {name: (scene, words) for name, words in commands.items()}, sizes.starts
        )
    return [
        Figure(name, ms, "ms", NOTHING if name != NOTHING else None) for name, ms in taken.items()
    ]
