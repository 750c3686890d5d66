"""Many children of one parent, and children of children, under the real worker."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pexpect
import pytest

from tests.effort import torturing
from tests.process.shop import Shop

MANY = 10_000 if torturing() else 500
#: Children of each, and levels.
TREES = [(1, 10), (2, 10) if torturing() else (2, 6)]

MODULE = '''
import asyncio

from yieldstar_cli import Step, workflow


async def double(n: int) -> int:
    return 2 * n


@workflow
async def leaf(step: Step, n: int) -> int:
    """One of many."""
    return await step.run(double, n)


@workflow
async def fan_out(step: Step, count: int) -> int:
    """All at once, joined in their order."""
    results = await step.map(leaf, [{"n": n} for n in range(count)])
    assert results == [2 * n for n in range(count)]
    return sum(results)


@workflow
async def held(step: Step, count: int) -> int:
    """All started, and awaited by the handles of a later incarnation."""
    if step.event.incarnation == 1:
        for n in range(count):
            step.child(leaf, {"n": n}, id=f"{step.event.execution_id}/{n}")
        await step.continue_as({"count": count})
    names = [f"{step.event.execution_id}/{n}" for n in range(count)]
    return sum(await step.all([step.handle(name, leaf) for name in names]))


@workflow
async def tree(step: Step, width: int, levels: int) -> int:
    """Itself and everything below it, counted."""
    if levels == 1:
        return 1
    below = [step.child("tree", {"width": width, "levels": levels - 1}) for _ in range(width)]
    return 1 + sum(await step.all(below))
'''


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    found = Shop(tmp_path / "shop")
    found.module("family", MODULE)
    return found


def run(shop: Shop, workflow_id: str, **params: int) -> object:
    """What it returns, once a worker has run it and all that it led to."""
    words = [word for name, value in params.items() for word in ("-p", f"{name}={value}")]
    shop.ys("trigger", workflow_id, "--id", "it", *words, check=True)
    worker = shop.start("worker", "--until-idle")
    said = worker.communicate()
    assert (worker.returncode, *said) == (0, "", "")
    shown = shop.show("it")
    assert shown["status"] == "completed", shown["outcome"]
    return shown["outcome"]["result"]


def drawn(shop: Shop, *words: str) -> list[str]:
    """The lines that `ys` shows to a person."""
    said, status = pexpect.run(
        f"{sys.executable} -m yieldstar_cli {' '.join(words)}",
        cwd=str(shop.folder),
        env={**os.environ, **shop._env()},
        encoding="utf-8",
        timeout=120,
        withexitstatus=True,
    )
    assert status == 0, said
    return str(said).splitlines()


@pytest.mark.parametrize("workflow_id", ["fan-out", "held"])
def test_many_children_are_joined_and_told_in_short(shop: Shop, workflow_id: str) -> None:
    """cases 200, 208, 242; spec C2, C3: also when they are awaited in a later incarnation."""
    assert run(shop, workflow_id, count=MANY) == MANY * (MANY - 1)

    told = drawn(shop, "show", "it", "--tree")
    assert any(f"{MANY - 3:,}" in line or f"{MANY:,}" in line for line in told), told
    assert len(told) < 30
    # For programs it is one line for each.
    rows = shop.ys("show", "it", "--tree", check=True).stdout.splitlines()
    assert len(rows) == len(set(rows)) == MANY + 1
    assert {row.split("\t")[3] for row in rows} == {"completed"}


@pytest.mark.parametrize(("width", "levels"), TREES)
def test_children_of_children_down_to_the_tenth_level(shop: Shop, width: int, levels: int) -> None:
    """case 201; spec C2: each end wakes the one above it."""
    count = sum(width**level for level in range(levels))

    assert run(shop, "tree", width=width, levels=levels) == count

    assert len(drawn(shop, "show", "it", "--tree")) < 200
    assert len(shop.ys("show", "it", "--tree", check=True).stdout.splitlines()) == count
