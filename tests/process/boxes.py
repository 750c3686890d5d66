"""A box that many empty at once, and the program that fills it.

python -m tests.process.boxes FOLDER COUNT AT-ONCE
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from yieldstar_cli import open_runtime

#: The last thing: it stays, and whoever finds it goes home.
END = -1

MODULE = f"""
import msgspec

from yieldstar_cli import Step, workflow


class Box(msgspec.Struct):
    things: list[int] = []
    #: How many were taken; how often somebody went home.
    taken: int = 0
    gone: int = 0


class State(msgspec.Struct):
    mine: list[int] = []


def first(box: Box) -> int | None:
    return box.things[0] if len(box.things) else None


def take(box: Box, thing: int) -> None:
    if thing == {END}:
        box.gone += 1
        return
    box.things.remove(thing)
    box.taken += 1


@workflow
async def taker(step: Step, p: State) -> list[int]:
    box = await step.store(Box, "b", initial=Box())
    for _ in range(5):
        thing = await box.take(first, take)
        if thing == {END}:
            return p.mine
        p.mine.append(thing)
    await step.continue_as(p)


@workflow
async def watcher(step: Step, wanted: int) -> int:
    box = await step.store(Box, "b", initial=Box())
    return await box.when(lambda b: b.taken >= wanted and b.taken)


@workflow
async def crowd(step: Step, takers: int, wanted: list[int]) -> list[object]:
    watching = [step.child(watcher, {{"wanted": n}}) for n in wanted]
    taking = [step.child(taker, {{}}) for _ in range(takers)]
    return [await step.all(taking), await step.all(watching)]
"""


class Box(msgspec.Struct):
    """As in the workflows."""

    things: list[int] = []
    taken: int = 0
    gone: int = 0


def adding(things: list[int]) -> Callable[[Box], None]:
    """An update that puts these in."""
    return lambda box: box.things.extend(things)


if __name__ == "__main__":
    os.chdir(Path(sys.argv[1]))
    count, at_once = int(sys.argv[2]), int(sys.argv[3])
    with open_runtime() as runtime:
        box = runtime.store(Box, "b")
        for start in range(0, count, at_once):
            box.update(adding(list(range(start, min(start + at_once, count)))))
        box.update(adding([END]))
