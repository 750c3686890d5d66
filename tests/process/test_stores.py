"""One box, many workers that empty it, a program that fills it, and a worker that is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.effort import torturing
from tests.kill.scene import KILLED, ROOT
from tests.process.boxes import END, MODULE
from tests.process.shop import Shop

WORKERS, THINGS, AT_ONCE = (8, 10_000, 50) if torturing() else (4, 300, 10)
TAKERS = WORKERS * 2
#: A worker is killed once so much of the whole is taken.
KILLS = (0.1, 0.3, 0.6)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    found = Shop(tmp_path / "shop")
    found.module("boxes", MODULE)
    return found


def fill(shop: Shop) -> subprocess.Popen[str]:
    """The program that fills the box, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.process.boxes", shop.folder, str(THINGS), str(AT_ONCE)],
        cwd=ROOT,
        env=shop._env(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def wait_taken(watch: subprocess.Popen[str], wanted: float) -> None:
    """Read what a watch of the box says until so many were taken."""
    assert watch.stdout is not None
    for line in watch.stdout:
        if json.loads(line)["state"]["taken"] >= wanted:
            return
    raise AssertionError(watch.communicate())


def test_each_thing_is_taken_once_however_many_take(shop: Shop) -> None:
    """cases 178, 168, 189; spec S2-S5, E13: none twice, none left, and every watcher sees it."""
    wanted = f"wanted:=[1, {THINGS // 2}, {THINGS}]"
    shop.ys("trigger", "crowd", "--id", "c", "-p", f"takers={TAKERS}", "-p", wanted, check=True)
    shop.ys("store", "set", "Box", "b", "taken:=0", "--if-version", "-1", check=True)
    watch = shop.start("store", "watch", "Box", "b", "--json")
    workers = [shop.start("worker", "-q") for _ in range(WORKERS)]
    filler = fill(shop)
    try:
        for part in KILLS:
            wait_taken(watch, THINGS * part)
            workers[0].kill()
            assert workers.pop(0).wait() == KILLED
            workers.append(shop.start("worker", "-q"))
        assert shop.ys("wait", "c", "--timeout", "100s").returncode == 0
    finally:
        watch.kill()
        watch.communicate()
        for worker in workers:
            worker.terminate()
        said = [worker.communicate() for worker in workers]
        filled = filler.communicate()

    assert (filler.returncode, *filled) == (0, "", "")
    lines = [line for out, err in said for line in (out + err).splitlines()]
    assert all(" buried: " in line for line in lines), lines
    mine, seen = shop.show("c")["outcome"]["result"]
    assert sorted(thing for things in mine for thing in things) == list(range(THINGS))
    assert sum(bool(things) for things in mine) > 1, "one took all, so this proved little"
    stored = json.loads(shop.ys("store", "get", "Box", "b", "--json", check=True).stdout)
    assert stored["state"] == {"things": [END], "taken": THINGS, "gone": TAKERS}
    fills = -(-THINGS // AT_ONCE) + 1
    assert stored["version"] == THINGS + TAKERS + fills
    assert seen[0] >= 1
    assert seen[1] >= THINGS // 2
    assert seen[2] == THINGS
