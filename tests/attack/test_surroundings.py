"""The umask, a directory that is gone, a loop that authors stop: none changes what is promised."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.shop import Shop

CALLBACKS = """
    import asyncio
    import sys

    from yieldstar_cli import Step, workflow

    async def stop_the_loop() -> int:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return 1

    async def leave_from_a_callback() -> int:
        asyncio.get_running_loop().call_soon(sys.exit, 5)
        await asyncio.sleep(0)
        return 1

    @workflow
    async def stopping(step: Step) -> int:
        return await step.run(stop_the_loop)

    @workflow
    async def leaving(step: Step) -> int:
        return await step.run(leave_from_a_callback)
"""


def run(shop: Shop, folder: Path, umask: int, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "yieldstar_cli", *words],
        cwd=folder,
        env=shop._env(),
        umask=umask,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_a_project_made_under_any_umask_is_one_that_a_worker_trusts(shop: Shop, umask: int) -> None:
    """spec K5; security S11: what `ys init` makes is never writable by others."""
    folder = shop.folder / "new"
    folder.mkdir()
    os.chmod(folder, 0o755)

    made = run(shop, folder, umask, "init")
    triggered = run(shop, folder, umask, "trigger", "hello", "--id", "a", "-p", "name=Ann")
    worked = run(shop, folder, umask, "worker", "--until-idle")

    assert (made.returncode, triggered.returncode, worked.returncode) == (0, 0, 0)
    for name in ("workflows", "workflows/hello.py", ".gitignore"):
        assert mode(folder / name) & 0o022 == 0
    assert {mode(path) for path in folder.glob("ys.db*")} == {0o600}


def test_an_empty_file_becomes_a_database_that_others_cannot_read(shop: Shop) -> None:
    """case 346; security S11: initialised, with the mode that it would have been made with."""
    (shop.folder / "ys.db").touch(0o644)

    shop.ys("trigger", "simple", "-p", "name=a", check=True)

    assert {mode(path) for path in shop.folder.glob("ys.db*")} == {0o600}


def test_a_directory_that_is_gone_is_a_sentence(shop: Shop) -> None:
    """spec V3: no traceback, by either name of the command."""
    gone = shop.folder / "gone"
    gone.mkdir()
    words = [sys.executable, "-m", "yieldstar_cli", "list"]

    refused = subprocess.run(
        ["sh", "-c", 'rmdir "$0" && exec "$@"', str(gone), *words],
        cwd=gone,
        env=shop._env(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert refused.returncode == 2
    assert "✗ the current directory is gone." in refused.stderr


@pytest.mark.parametrize("name", ["stopping", "leaving"])
def test_a_step_that_stops_the_loop_stops_no_worker(shop: Shop, name: str) -> None:
    """spec R8, K1: `--until-idle` ends when nothing is due and nothing runs, and not before."""
    shop.module("callbacks", CALLBACKS)
    shop.ys("trigger", name, "--id", "a", check=True)

    worked = shop.ys("worker", "--until-idle")

    assert worked.returncode == 0
    assert shop.show("a")["outcome"] == {"status": "completed", "result": 1}
