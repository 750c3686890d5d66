"""A file with something of every kind in it, for breaches to be planted in copies of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import apsw
import msgspec

from yieldstar_cli import Step, workflow
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import RetryableError
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.testing import Bench


class Shelf(msgspec.Struct):
    """What a store holds."""

    count: int = 0


def put_one(shelf: Shelf) -> None:
    """Change it."""
    shelf.count += 1


def make(n: int) -> int:
    """A step's function."""
    return n + 1


def fail_first(path: str) -> str:
    """Fails at its first call."""
    seen = Path(path)
    if not seen.exists():
        seen.touch()
        raise RetryableError("not yet", retry_in="1s")
    return "done"


@workflow
async def sleeper(step: Step) -> None:
    """Sleeps for long."""
    await step.run(make, 1)
    await step.sleep("30d")


@workflow
async def listener(step: Step) -> list[Any]:
    """Reads two messages of three, and waits for what nobody sends."""
    got = [await step.message("mail"), await step.message("mail")]
    return [*got, await step.message("never")]


@workflow
async def adder(step: Step, n: int) -> int:
    """Ends at once."""
    return await step.run(make, n)


@workflow
async def parent(step: Step) -> int:
    """Has one child that ended, and waits for one that sleeps."""
    first = await step.child(adder, {"n": 1}, id="adder")
    await step.child(sleeper, id="asleep")
    return first


@workflow
async def watcher(step: Step) -> None:
    """Changes a store and waits for a change of it."""
    shelf = await step.store(Shelf, "one", initial=Shelf())
    await shelf.update(put_one)
    await shelf.update(put_one)
    await shelf.when(lambda s: s.count > 5)


@workflow
async def eternal(step: Step, left: int) -> str:
    """Continues as new."""
    await step.run(make, left)
    if left:
        await step.continue_as({"left": left - 1})
    return "over"


@workflow
async def trier(step: Step, path: str) -> str:
    """Needs two attempts."""
    return await step.run(fail_first, path)


@workflow
async def starter(step: Step) -> None:
    """Left behind by its detached child."""
    step.child(sleeper, id="detached", detached=True)
    await step.sleep(0)


WORKFLOWS = (sleeper, listener, adder, parent, watcher, eternal, trier, starter)


def build(folder: Path) -> Path:
    """Play them all to where nothing moves; the file of it, closed."""
    path = folder / "ys.db"
    with Bench(*WORKFLOWS, path=path, clock=ManualClock()) as bench:
        bench.admit("sleeper", execution_id="sleeper")
        bench.admit("sleeper", execution_id="later", at=bench.clock.now_ms() + 10**9)
        bench.admit("listener", execution_id="listener")
        for text in ("a", "b"):
            bench.send("listener", "mail", text)
        bench.send("listener", "other", "c")
        bench.send("nobody", "mail", "d")
        bench.admit("parent", execution_id="parent")
        bench.admit("watcher", execution_id="watcher")
        bench.admit("eternal", {"left": 5}, execution_id="eternal")
        bench.admit("trier", {"path": str(folder / "seen")}, execution_id="trier")
        bench.admit("adder", {"n": 5}, execution_id="done")
        bench.admit("starter", execution_id="starter")
        bench.start_worker()
        bench.run_to(bench.clock.now_ms() + 60_000)
        # All of it in the one file, which is going to be copied.
        bench.storage.settle()
    return path


def contents(folder: Path, pattern: str = "**/*") -> dict[str, bytes]:
    """Every file, byte for byte, as another process reads it.

    In this one an opening of the database's files would drop SQLite's locks.
    """
    found = sorted(path for path in folder.glob(pattern) if path.is_file())
    return {
        str(path): subprocess.run(["cat", str(path)], capture_output=True, check=True).stdout
        for path in found
    }


def planted(path: Path, target: Path, *statements: str) -> SqliteStorage:
    """A copy with these statements run on it by another program, open for reading."""
    shutil.copy(path, target)
    connection = apsw.Connection(str(target))
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for statement in statements:
        connection.execute(statement)
    connection.close()
    return SqliteStorage(target, readonly=True, clock=ManualClock())
