"""Workers as processes: killed, stopped, many at once, poisoned, told to end."""

from __future__ import annotations

import gzip
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.effort import torturing
from tests.kill.scene import ROOT
from tests.process.shop import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "shop")


@pytest.fixture
def workers(shop: Shop) -> Iterator[list[subprocess.Popen[str]]]:
    """Workers started by a test; whatever is left is killed."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for worker in started:
        if worker.poll() is None:
            worker.send_signal(signal.SIGCONT)
            worker.kill()
        worker.communicate()


def test_a_step_of_a_killed_worker_runs_again_within_a_second(shop: Shop, workers: list) -> None:
    """B01, B02, B08; cases 60, 114; spec L3, E8: the next worker takes it, recorded steps stay."""
    shop.gate("a")
    shop.ys("trigger", "gated", "--id", "a", "-p", "name=a", check=True)
    workers.append(shop.start("worker"))
    assert shop.wait_entered("a") == workers[0].pid
    workers[0].kill()
    workers[0].wait()
    assert shop.show("a")["status"] == "admitted"

    workers.append(shop.start("worker", "--until-idle"))
    shop.let_go("a", shop.wait_entered("a"))
    assert workers[1].wait(60) == 0

    shown = shop.show("a")
    assert shown["outcome"] == {"status": "completed", "result": "done"}
    assert [lost["how"] for lost in shown["lost_deliveries"]] == ["died"]
    assert shop.lines() == ["a first", "a begins", "a begins", "a ends", "a last"]


def test_a_living_worker_notices_another_ones_death(shop: Shop, workers: list) -> None:
    """spec L3; cases 60, 84: without waiting for the lease of half a minute."""
    shop.gate("a")
    shop.ys("trigger", "gated", "--id", "a", "-p", "name=a", check=True)
    workers.append(shop.start("worker"))
    shop.wait_entered("a")
    workers.append(shop.start("worker"))
    shop.ys("trigger", "simple", "--id", "b", "-p", "name=b", check=True)
    assert shop.ys("wait", "b", "--timeout", "30s").returncode == 0

    workers[0].kill()

    shop.let_go("a", shop.wait_entered("a"))
    assert shop.ys("wait", "a", "--timeout", "30s").returncode == 0
    shown = shop.show("a")
    assert shown["deliveries"] == 2
    # By its lock: the end of its lease would be told as such.
    assert [lost["how"] for lost in shown["lost_deliveries"]] == ["died"]


def test_a_worker_stopped_past_its_lease_can_write_nothing(shop: Shop, workers: list) -> None:
    """case 85; spec L2: SIGSTOP, another worker finishes, SIGCONT: every late write is refused."""
    shop.gate("a")
    shop.ys("trigger", "gated", "--id", "a", "-p", "name=a", check=True)
    workers.append(shop.start("worker", "--lease", "1s", "-v"))
    shop.wait_entered("a")
    shop.stop_at_rest(workers[0])

    workers.append(shop.start("worker", "--lease", "1s"))
    shop.let_go("a", shop.wait_entered("a"))
    assert shop.ys("wait", "a", "--timeout", "30s").returncode == 0
    workers[0].send_signal(signal.SIGCONT)
    shop.let_go("a", workers[0].pid, "late")
    workers[0].send_signal(signal.SIGTERM)

    said, _ = workers[0].communicate(timeout=30)
    assert workers[0].returncode == 0
    assert "a" in said
    shown = shop.show("a")
    assert shown["outcome"] == {"status": "completed", "result": "done"}
    assert shown["deliveries"] == 2
    assert [lost["how"] for lost in shown["lost_deliveries"]] == ["lease ended"]
    assert shop.lines().count("a last") == 1


def test_the_first_sigterm_lets_the_step_end_and_takes_nothing_new(
    shop: Shop, workers: list
) -> None:
    """B95; cases 87, 298; spec K2: the step's result is recorded, what follows is left."""
    shop.gate("a")
    shop.ys("trigger", "gated", "--id", "a", "-p", "name=a", check=True)
    workers.append(shop.start("worker"))
    shop.wait_entered("a")

    workers[0].send_signal(signal.SIGTERM)
    shop.ys("trigger", "simple", "--id", "later", "-p", "name=later", check=True)
    shop.let_go("a", workers[0].pid)

    assert workers[0].wait(30) == 0
    shown = shop.show("a")
    assert [s["step_key"] for s in shown["steps"] if s["state"] == "completed"] == [
        "quick",
        "block",
    ]
    assert shown["status"] == "admitted"
    assert shown["deliveries"] == 1
    assert shop.show("later")["deliveries"] == 0

    assert shop.ys("worker", "--until-idle").returncode == 0
    assert shop.lines()[-2:] == ["a last", "later"] or shop.lines()[-2:] == ["later", "a last"]
    assert shop.lines().count("a begins") == 1


def test_a_step_longer_than_the_grace_is_handed_back(shop: Shop, workers: list) -> None:
    """B95; spec K2: the worker leaves with 0, the step runs again elsewhere and counts nothing."""
    shop.gate("a")
    shop.ys("trigger", "gated", "--id", "a", "-p", "name=a", check=True)
    workers.append(shop.start("worker", "--grace", "100ms"))
    shop.wait_entered("a")

    workers[0].send_signal(signal.SIGTERM)
    assert workers[0].wait(30) == 0

    workers.append(shop.start("worker", "--until-idle"))
    shop.let_go("a", shop.wait_entered("a"))
    assert workers[1].wait(30) == 0
    shown = shop.show("a")
    assert (shown["status"], shown["deliveries"], shown["problem"]) == ("completed", 2, None)
    assert [lost["how"] for lost in shown["lost_deliveries"]] == ["handed back"]
    assert shop.lines() == ["a first", "a begins", "a begins", "a ends", "a last"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_second_signal_leaves_at_once(
    shop: Shop, workers: list, number: signal.Signals, status: int
) -> None:
    """B96; case 88; spec K2: nothing is acknowledged, the execution is delivered again."""
    shop.gate("a")
    shop.ys("trigger", "gated", "--id", "a", "-p", "name=a", check=True)
    workers.append(shop.start("worker", "-v"))
    shop.wait_entered("a")

    workers[0].send_signal(number)
    assert workers[0].stderr is not None
    assert workers[0].stdout is not None
    for line in workers[0].stdout:
        if "finishing" in line:
            break
    workers[0].send_signal(number)

    assert workers[0].wait(30) == status
    assert shop.show("a")["status"] == "admitted"
    workers.append(shop.start("worker", "--until-idle"))
    shop.let_go("a", shop.wait_entered("a"))
    assert workers[1].wait(30) == 0
    shown = shop.show("a")
    assert (shown["status"], shown["deliveries"]) == ("completed", 2)
    assert shop.lines().count("a first") == 1


def test_four_workers_run_each_execution_once(shop: Shop, workers: list) -> None:
    """B04, B05, B21; cases 83, 310: claims exclude each other; no `ys trigger` meets a lock."""
    workers.extend(shop.start("worker", "-j", "2") for _ in range(4))
    names = [f"n{i}" for i in range(400 if torturing() else 60)]
    with ThreadPoolExecutor(4) as pool:
        ended = list(
            pool.map(lambda n: shop.ys("trigger", "simple", "--id", n, "-p", f"name={n}"), names)
        )

    assert {(each.returncode, each.stderr) for each in ended} == {(0, "")}
    assert shop.ys("wait", *names, "--timeout", "60s").returncode == 0
    assert sorted(shop.lines()) == sorted(names)


def test_a_step_that_ends_the_process_is_parked_and_others_finish(shop: Shop) -> None:
    """B15; cases 289, 291, 292, 297; spec L5: only deaths while alone poison it."""
    shop.ys("trigger", "deadly", "--id", "bad", "-p", "name=boom", check=True)
    for index in range(5):
        shop.ys("trigger", "simple", "--id", f"ok{index}", "-p", f"name=ok{index}", check=True)

    # The first deaths take whole workers with them, the later ones only their own process.
    for _ in range(6):
        shop.ys("worker", "--until-idle", "--linger", "20s")
        if shop.show("bad")["poisoned"]:
            break

    shown = shop.show("bad")
    assert shown["poisoned"]["deaths"] == 5
    assert shown["status"] == "admitted"
    assert all(shop.show(f"ok{i}")["status"] == "completed" for i in range(5))
    assert shop.lines().count("boom") == 5

    assert shop.ys("wake", "bad").returncode == 0
    assert shop.show("bad")["poisoned"] is None


def test_two_hundred_triggers_beside_four_workers_meet_no_lock(shop: Shop, workers: list) -> None:
    """B21; cases 26, 33, 311: no lock error reaches anybody, all are admitted and completed."""
    workers.extend(shop.start("worker") for _ in range(4))
    loop = (
        "import sys\nfrom yieldstar_cli.runtime import open_runtime\n"
        "with open_runtime() as runtime:\n"
        "    for i in range(50):\n"
        "        runtime.trigger('simple', {'name': f'{sys.argv[1]}-{i}'},"
        " id=f'{sys.argv[1]}-{i}')\n"
    )
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", loop, f"p{index}"],
            cwd=shop.folder,
            env=shop._env(),
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(4)
    ]
    for program in programs:
        _, errors = program.communicate(timeout=120)
        assert (program.returncode, errors) == (0, "")

    names = [f"p{index}-{i}" for index in range(4) for i in range(50)]
    waited = shop.ys("wait", *names, "--timeout", "60s", "--json")
    assert waited.returncode == 0, waited.stderr
    assert sorted(shop.lines()) == sorted(names)
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        out, errors = worker.communicate(timeout=30)
        # From the third on a worker says once that it is not alone.
        told = re.sub(r"\d workers run here already\..*\n.*\n", "", errors)
        assert (worker.returncode, out, told) == (0, "", "")


def test_a_worker_sets_up_a_file_that_is_empty_as_yet(shop: Shop) -> None:
    """spec K8: so of several workers that start at once none is turned away by another's start."""
    (shop.folder / "ys.db").touch(0o600)

    ended = shop.ys("worker", "--until-idle")

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert shop.ys("list").returncode == 0


def test_a_worker_brings_an_older_file_up_to_date(shop: Shop) -> None:
    """spec K7: as every command that writes does."""
    kept = ROOT / "tests" / "cases" / "kept" / "format_1.db.gz"
    (shop.folder / "ys.db").write_bytes(gzip.decompress(kept.read_bytes()))
    (shop.folder / "ys.db").chmod(0o600)

    ended = shop.ys("worker", "--until-idle")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert shop.ys("list").returncode == 0


def test_a_long_step_keeps_its_lease_and_runs_once(shop: Shop, workers: list) -> None:
    """B11; case 78; spec L1: a living worker renews, whatever the step takes."""
    shop.gate("a")
    shop.ys("trigger", "gated", "--id", "a", "-p", "name=a", check=True)
    workers.append(shop.start("worker", "--lease", "1s"))
    shop.wait_entered("a")
    # The second worker stays for longer than the first one's lease; it must not take over.
    idle = shop.ys("worker", "--for", "2500ms", "--lease", "1s")
    assert idle.returncode == 0
    shop.let_go("a", workers[0].pid)

    assert shop.ys("wait", "a", "--timeout", "30s").returncode == 0
    assert shop.show("a")["deliveries"] == 1
    assert shop.lines().count("a begins") == 1


def test_once_gives_each_due_execution_one_delivery(shop: Shop) -> None:
    """spec K1: what becomes due meanwhile is left; exit 0 also when executions failed."""
    shop.module(
        "naps",
        """
        from yieldstar_cli import Step, workflow

        @workflow
        async def nap(step: Step) -> str:
            await step.sleep(0)
            return "rested"

        @workflow
        async def fail(step: Step) -> None:
            raise ValueError("no")
        """,
    )
    shop.ys("trigger", "nap", "--id", "nap", check=True)
    shop.ys("trigger", "fail", "--id", "fail", check=True)

    assert shop.ys("worker", "--once").returncode == 0

    assert shop.show("fail")["status"] == "failed"
    assert shop.show("nap")["deliveries"] == 1
    assert shop.ys("worker", "--until-idle").returncode == 0
    assert shop.show("nap")["status"] == "completed"


def test_a_fault_of_the_code_is_held_until_the_file_changes(shop: Shop, workers: list) -> None:
    """spec E12, R9; B70: the running worker loads the mended file and goes on."""
    broken = """
        from yieldstar_cli import Step, workflow

        def one() -> int:
            return 1

        @workflow
        async def forgetful(step: Step) -> int:
            step.run(one)
            return await step.run(one)
        """
    shop.module("forget", broken)
    shop.ys("trigger", "forgetful", "--id", "f", check=True)
    workers.append(shop.start("worker"))
    assert shop.ys("wait", "f", "--timeout", "2s").returncode == 8
    held = shop.show("f")
    assert held["held"]["code"] == "STEP_NOT_AWAITED"
    assert "forget.py:9" in held["problem"]["message"]

    shop.module("forget", broken.replace("            step.run(one)\n", ""))

    assert shop.ys("wait", "f", "--timeout", "30s").returncode == 0
    assert shop.show("f")["outcome"]["result"] == 1


def test_a_broken_module_costs_only_its_own_workflows(shop: Shop) -> None:
    """spec K1; case 294; B68: it is reported, the rest run, its executions are due."""
    shop.module(
        "later",
        """
        from yieldstar_cli import Step, workflow

        @workflow
        async def later(step: Step) -> str:
            return "here"
        """,
    )
    shop.ys("trigger", "later", "--id", "l", check=True)
    shop.ys("trigger", "simple", "--id", "s", "-p", "name=s", check=True)
    shop.module("later", "raise RuntimeError('not today')\n")

    ran = shop.ys("worker", "--until-idle")

    assert ran.returncode == 0
    assert "later.py:1" in ran.stderr
    assert shop.show("s")["status"] == "completed"
    assert shop.show("l")["status"] == "admitted"
    assert shop.show("l")["deliveries"] == 0


def test_code_that_does_not_come_to_its_next_await_is_reported(shop: Shop, workers: list) -> None:
    """spec R12; case 143; B64: with file and line, in the worker's output and on the record."""
    os.mkfifo(shop.folder / "stuck.go")
    shop.module(
        "stuck",
        """
        from yieldstar_cli import Step, workflow

        @workflow
        async def stuck(step: Step) -> str:
            with open("stuck.go") as pipe:
                return pipe.read()
        """,
    )
    shop.ys("trigger", "stuck", "--id", "s", check=True)
    workers.append(shop.start("worker", "-v"))
    assert workers[0].stderr is not None

    for line in workers[0].stderr:
        if "stuck.py:6" in line:
            break
    while not (shop.show("s")["problem"] or {}).get("code"):
        pass
    assert shop.show("s")["problem"]["code"] == "SLOW_CODE"
    assert "stuck.py:6" in shop.show("s")["problem"]["message"]

    (shop.folder / "stuck.go").write_text("moved on")
    assert shop.ys("wait", "s", "--timeout", "30s").returncode == 0
    assert shop.show("s")["problem"] is None


def test_a_worker_that_leaves_finalises_no_suspended_function(shop: Shop, workers: list) -> None:
    """spec R6: `finally` blocks of suspended and handed-back functions do not run at exit."""
    shop.gate("a")
    shop.module(
        "tidy",
        """
        from yieldstar_cli import Step, workflow
        from gates import block, note

        @workflow
        async def naps(step: Step) -> None:
            try:
                await step.sleep("1h")
            finally:
                note("finalised")

        @workflow
        async def blocks(step: Step) -> None:
            try:
                await step.run(block, "a")
            finally:
                note("finalised")
        """,
    )
    shop.ys("trigger", "naps", "--id", "n", check=True)
    shop.ys("trigger", "blocks", "--id", "b", check=True)
    workers.append(shop.start("worker", "--grace", "100ms"))
    shop.wait_entered("a")

    workers[0].send_signal(signal.SIGTERM)
    _, said = workers[0].communicate(timeout=30)

    assert workers[0].returncode == 0
    assert "Traceback" not in said
    assert shop.show("n")["status"] == "suspended"
    assert shop.lines() == ["a begins"]
