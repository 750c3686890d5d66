"""Many senders, one receiver that begins anew every few messages, and a worker that is killed."""

from __future__ import annotations

import itertools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.effort import torturing
from tests.kill.scene import KILLED, ROOT
from tests.process.mail import EACH, MODULE, SENDERS
from tests.process.shop import Shop

#: Messages of each sender, and kills of the worker.
COUNT, KILLS = (10_000, 50) if torturing() else (300, 5)
#: Each so many-th message is sent by `ys send`; after each so many-th a sender is killed.
COMMAND_EVERY, UNSURE_EVERY = (100, 1_000) if torturing() else (60, 100)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    found = Shop(tmp_path / "shop")
    found.module("mail", MODULE)
    return found


def start_sender(shop: Shop, name: str) -> subprocess.Popen[str]:
    unsure_every = UNSURE_EVERY if name == "d" else 0
    numbers = [str(n) for n in (COUNT, COMMAND_EVERY, unsure_every)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.process.mail", str(shop.folder), name, *numbers],
        cwd=ROOT,
        env=shop._env(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def killed_after(shop: Shop, switches: int) -> None:
    """A worker that is killed once it has told of so many new incarnations."""
    worker = shop.start("worker", "-v")
    try:
        assert worker.stdout is not None
        for line in worker.stdout:
            switches -= " continued" in line
            if not switches:
                break
        assert not switches, "it ended by itself"
    finally:
        worker.kill()
        worker.communicate()


def send_all(shop: Shop, name: str) -> int:
    """Run a sender to its end, again after each of its deaths; how often it was killed."""
    for deaths in itertools.count():
        sender = start_sender(shop, name)
        _, errors = sender.communicate()
        if sender.returncode != KILLED:
            assert (sender.returncode, errors) == (0, "")
            return deaths
    raise AssertionError


def test_each_message_is_consumed_once_in_its_senders_order(shop: Shop) -> None:
    """cases 263, 238, 234, 259; B09; spec M1-M3, C7, E13."""
    total = len(SENDERS) * COUNT
    shop.ys("trigger", "receiver", "--id", "receiver", "-p", f"wanted={total}", check=True)
    with ThreadPoolExecutor(len(SENDERS)) as pool:
        senders = {name: pool.submit(send_all, shop, name) for name in SENDERS}
        for number in range(KILLS):
            killed_after(shop, 1 + number * 7 % (20 if torturing() else 4))
        worker = shop.start("worker")
        try:
            deaths = {name: sender.result() for name, sender in senders.items()}
            assert shop.ys("wait", "receiver", "--timeout", "100s").returncode == 0
        finally:
            worker.terminate()
            said = worker.communicate()

    shown = shop.show("receiver")
    assert shown["outcome"]["result"] == dict.fromkeys(SENDERS, COUNT)
    assert shown["incarnation"] == total // EACH + 1
    assert deaths == {**dict.fromkeys(SENDERS, 0), "d": (COUNT - 6) // UNSURE_EVERY + 1}
    for name in SENDERS:
        notes = (shop.folder / f"{name}.sent").read_text().splitlines()
        assert notes == [f"{number} delivered" for number in range(COUNT)]
    assert (worker.returncode, *said) == (0, "", "")
