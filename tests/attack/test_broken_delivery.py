"""An error of our own in one delivery is that delivery's: the worker and the others go on."""

from __future__ import annotations

import subprocess
import sys

from tests.process.shop import Shop

#: Runs `ys worker --until-idle` with a carrier that cannot pump the execution `a`.
PROGRAM = """
import sys
from yieldstar_cli.worker.carrier import Carrier

pump = Carrier.pump

def pump_but_a(self):
    if self.execution_id == "a":
        raise AssertionError("what cannot be")
    pump(self)

Carrier.pump = pump_but_a
from yieldstar_cli.cli.entry import main
sys.exit(main(["worker", "--until-idle"]))
"""


def test_an_error_of_ours_holds_its_execution_and_lets_the_others_run(shop: Shop) -> None:
    """spec E12: not acknowledged, the record keeps its status and tells the problem, held."""
    for name in ("a", "b"):
        shop.ys("trigger", "simple", "--id", name, "-p", f"name={name}", check=True)

    worked = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=shop.folder,
        env=shop._env(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    broken = shop.show("a")

    assert worked.returncode == 0
    assert "AssertionError: what cannot be" in worked.stderr
    assert shop.show("b")["status"] == "completed"
    assert broken["status"] == "admitted"
    assert broken["problem"]["code"] == "INTERNAL"
    assert broken["problem"]["message"] == "AssertionError: what cannot be"
    assert broken["held"]["code"] == "INTERNAL"


def test_it_goes_on_once_the_error_is_gone(shop: Shop) -> None:
    """spec E12: `ys wake` ends the hold."""
    shop.ys("trigger", "simple", "--id", "a", "-p", "name=a", check=True)
    subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=shop.folder, env=shop._env(), timeout=60, check=True
    )

    shop.ys("wake", "a", check=True)
    shop.ys("worker", "--until-idle", check=True)

    assert shop.show("a")["status"] == "completed"
