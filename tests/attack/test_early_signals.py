"""A signal that comes before the worker's loop runs is heeded like any later one."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.process.shop import Shop

#: Sends itself the signal when the worker starts its first thread of its own.
PROGRAM = """
import os, sys
from yieldstar_cli.worker.leases import LeaseKeeper

start = LeaseKeeper.start

def start_after_the_signal(self):
    os.kill(os.getpid(), int(sys.argv[1]))
    start(self)

LeaseKeeper.start = start_after_the_signal
from yieldstar_cli.cli.entry import main
sys.exit(main(["worker"]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_worker_starts_is_its_first(shop: Shop, number: signal.Signals) -> None:
    """spec K2: exit 0, nothing claimed, no crash report."""
    shop.ys("trigger", "simple", "--id", "a", "-p", "name=a", check=True)

    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(int(number))],
        cwd=shop.folder,
        env=shop._env(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert shop.show("a")["status"] == "admitted"


STUCK = """
    import os

    from yieldstar_cli import Step, workflow

    @workflow
    async def stuck(step: Step) -> None:
        with open("stuck.entered", "w") as pipe:
            pipe.write(str(os.getpid()))
        while True:
            pass
"""


def test_code_that_never_awaits_does_not_keep_the_worker_from_ending(shop: Shop) -> None:
    """spec K2: after the grace it ends, with 0, though the loop cannot heed the signal."""
    shop.module("stuck", STUCK)
    shop.gate("stuck")
    shop.ys("trigger", "stuck", "--id", "a", check=True)
    worker = shop.start("worker", "--grace", "100ms")
    shop.wait_entered("stuck")

    worker.terminate()
    _, said = worker.communicate(timeout=60)

    assert worker.returncode == 0
    assert "code that never comes to its next await is left behind" in said
    assert shop.show("a")["status"] == "admitted"

    # Found again by another worker, whose death of it counts for nothing.
    other = shop.start("worker", "--grace", "100ms")
    shop.wait_entered("stuck")
    other.terminate()
    other.communicate(timeout=60)
    shown = shop.show("a")
    assert [lost["how"] for lost in shown["lost_deliveries"]] == ["handed back"]
    assert shown["problem"] is None or shown["problem"]["code"] == "SLOW_CODE"
