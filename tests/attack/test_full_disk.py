"""A disk without room: said, waited for while that helps, and never the end of what is recorded."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable

from tests.process.shop import Shop

MODULE = """
    from yieldstar_cli import Step, workflow

    def fill(number: int) -> str:
        with open("ledger.txt", "a") as file:
            file.write(f"fill {number}\\n")
        return "x" * 100_000

    @workflow
    async def fat(step: Step) -> int:
        for number in range(12):
            await step.run(fill, number)
        return 12
"""


def at_most(size: int) -> Callable[[], None]:
    """No file of the child may grow beyond `size`: what a full disk looks like to it."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_worker_for_a_while_does_not_wait_for_ever_for_room(shop: Shop) -> None:
    """K1, cli.md `--for`: cron starts the next one, so this one must end; case 32's kind."""
    shop.module("fat", MODULE)
    shop.ys("trigger", "fat", "--id", "a", check=True)

    ended = subprocess.run(
        [sys.executable, "-m", "yieldstar_cli", "worker", "--for", "1s", "--grace", "1s"],
        cwd=shop.folder,
        env=shop._env(),
        preexec_fn=at_most(700_000),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    recorded = len(shop.show("a")["steps"])
    shop.ys("worker", "--until-idle", "--linger", "5s", check=True)

    assert ended.returncode == 10
    assert "no room left" in ended.stderr
    assert 1 <= recorded < 12
    assert shop.show("a")["status"] == "completed"
    assert [line for line in shop.lines() if shop.lines().count(line) > 1] in (
        [],
        [f"fill {recorded}"] * 2,
    )
