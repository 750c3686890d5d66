"""A worker rings the others' bells when something is due for them by what it committed."""

from __future__ import annotations

import select
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.shop import Shop
from yieldstar_cli.clock import SystemClock
from yieldstar_cli.doorbell import Bell
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

#: A slot that no real worker takes here.
SLOT = 40

MODULE = """
from gates import block, quick
from yieldstar_cli import Step, workflow


@workflow
async def starts(step: Step) -> None:
    await step.run(block, "a")
    await step.child("simple", {"name": "child"}, detached=True)


@workflow
async def sends(step: Step) -> None:
    await step.run(block, "a")
    await step.send("somebody", "queue", 1)


@workflow
async def wakes(step: Step) -> None:
    await step.run(block, "a")
    await step.wake("somebody")


@workflow
async def waits(step: Step) -> None:
    await step.child("gated", {"name": "a"})


@workflow
async def leaves(step: Step) -> None:
    step.child("lingers")
    await step.run(block, "a")


@workflow
async def lingers(step: Step) -> None:
    await step.message("never")


@workflow
async def needs(step: Step) -> None:
    await step.run(block, "a")
    await step.using(tag="gpu").run(quick, "a")
"""


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    found = Shop(tmp_path / "shop")
    found.module("rings", MODULE)
    return found


@pytest.fixture
def bell(shop: Shop) -> Iterator[Bell]:
    """The bell of another worker, of another boot, so that only its lease counts."""
    storage = SqliteStorage(shop.folder / "ys.db", create=True)
    storage.workers.register(
        name="other",
        host="elsewhere",
        pid=1,
        slot=SLOT,
        nonce=b"0123456789abcdef",
        boot_id="another",
        device=0,
        inode=0,
        lease_until_at=SystemClock().now_ms() + 3_600_000,
    )
    storage.close()
    made = Bell(str(shop.folder.resolve() / "ys.db"), SLOT)
    yield made
    made.close()


@pytest.fixture
def worker(shop: Shop, bell: Bell) -> Iterator[subprocess.Popen[str]]:
    """A worker that runs until the test is over."""
    started = shop.start("worker")
    yield started
    started.terminate()
    started.communicate(timeout=60)


def rung(bell: Bell, patience_ms: int) -> bool:
    """Whether the bell rings within that time."""
    waiting = select.poll()
    assert bell.descriptor is not None
    waiting.register(bell.descriptor, select.POLLIN)
    return bool(waiting.poll(patience_ms))


@pytest.mark.parametrize("name", ["starts", "sends", "wakes", "waits", "leaves", "needs"])
def test_the_others_are_rung_for_what_may_be_theirs(
    shop: Shop, bell: Bell, worker: subprocess.Popen[str], name: str
) -> None:
    """spec K3, C2, C4, M4, O5: a start, a send, a wake, an end, a tag that is lacking."""
    shop.gate("a")
    shop.ys("trigger", name, "--id", "it", check=True)
    pid = shop.wait_entered("a")
    bell.heard()

    shop.let_go("a", pid)

    assert rung(bell, 60_000)


def test_nobody_is_rung_for_what_is_nobodys(
    shop: Shop, bell: Bell, worker: subprocess.Popen[str]
) -> None:
    """spec K3: idle workers stay idle."""
    shop.gate("a")
    shop.ys("trigger", "gated", "--id", "it", "-p", "name=a", check=True)
    pid = shop.wait_entered("a")
    bell.heard()

    shop.let_go("a", pid)

    assert shop.ys("wait", "it", "--timeout", "60s").returncode == 0
    assert not rung(bell, 0)
