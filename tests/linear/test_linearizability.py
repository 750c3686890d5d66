"""Many processes at once are answered as if there were one record at a time (reliability C.7)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.effort import torturing
from tests.kill.scene import ROOT
from tests.linear.search import Call, explains
from tests.process.shop import Shop

#: Clients, calls of each, and executions that they are about.
CLIENTS, CALLS, NAMES = (6, 20_000, 2_500) if torturing() else (5, 400, 60)
MODULE = '''
from yieldstar_cli import Step, workflow


def double(n: int) -> int:
    return n * 2


@workflow
async def brief(step: Step, n: int) -> int:
    """A step, a little sleep, a step."""
    m = await step.run(double, n)
    await step.sleep(m)
    return await step.run(double, m)
'''


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    found = Shop(tmp_path / "shop")
    found.module("briefs", MODULE)
    return found


def client(shop: Shop, seed: int) -> subprocess.Popen[str]:
    """One client in a process of its own."""
    words = [str(shop.folder / "ys.db"), str(seed), str(CALLS), str(NAMES)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.linear.actor", *words],
        cwd=ROOT,
        env=shop._env(),
        text=True,
        stdout=(shop.folder / f"client-{seed}.log").open("w"),
    )


def told(path: Path) -> dict[str, list[Call]]:
    """The calls of one client, by execution."""
    begun: dict[int, list[Any]] = {}
    found: dict[str, list[Call]] = defaultdict(list)
    answers: dict[int, tuple[int, str]] = {}
    for line in path.read_text().splitlines():
        at, what, number, *rest = json.loads(line)
        if what == "call":
            begun[number] = [at, *rest]
        else:
            answers[number] = (at, rest[0])
    for number, (began, op, name, argument) in begun.items():
        ended, answer = answers.get(number, (None, None))
        found[name].append(Call(op, argument, began, ended, answer))
    return found


def test_all_answers_fit_one_order(shop: Shop) -> None:
    """C.7; case 324; I1, I2, I4, I21; spec E1-E3, E6, E10, C6: workers and clients are killed."""
    shop.ys("doctor")
    shop.ys("trigger", "brief", "--id", "first", "-p", "n=1", check=True)
    dice = Random(7)
    workers = [shop.start("worker", "-q") for _ in range(2)]
    clients = [client(shop, seed) for seed in range(CLIENTS)]
    kills = 0
    try:
        while any(process.poll() is None for process in clients):
            victim = dice.randrange(12)
            if victim < len(workers) and kills < CALLS // 40:
                workers[victim].kill()
                workers[victim].wait()
                workers[victim] = shop.start("worker", "-q")
                kills += 1
            elif victim == 11 and kills < CALLS // 40:
                dice.choice(clients).send_signal(signal.SIGSTOP)
                for process in clients:
                    process.send_signal(signal.SIGCONT)
            elif victim == 10 and kills > 2:
                clients[0].kill()
            try:
                clients[-1].wait(timeout=0.2)
            except subprocess.TimeoutExpired:
                continue
    finally:
        for process in (*workers, *clients):
            process.kill()
            process.wait()

    calls: dict[str, list[Call]] = defaultdict(list)
    for seed in range(CLIENTS):
        for name, some in told(shop.folder / f"client-{seed}.log").items():
            calls[name] += some
    answered = sum(call.answer is not None for some in calls.values() for call in some)
    for name, some in calls.items():
        assert explains(some), (name, sorted(some, key=lambda call: call.began))
    assert answered > CALLS
