"""Workers that differ: in the versions they have loaded, in the tags they were started with."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.shop import Shop

#: A workflow that says which version ran it, before and after a gate.
PAY = '''
from gates import block, quick
from yieldstar_cli import Step, workflow


@workflow(id="pay", version={version}{tags})
async def pay_{version}(step: Step, name: str) -> list[str]:
    """Pays, the way of version {version}."""
    first = await step.run(quick, f"{{name}} v{version}")
    answer = await step.run(block, name)
    return [first, answer, "v{version}"]
'''
#: The same without a gate: it waits in the file.
NAP = """
from gates import quick
from yieldstar_cli import Step, workflow


@workflow(id="nap", version={version}{tags})
async def nap_{version}(step: Step, name: str) -> str:
    await step.run(quick, f"{{name}} lies down")
    await step.sleep("1s")
    return await step.run(quick, f"{{name}} v{version}")
"""
#: Steps for tags among others, a workflow for one, and one that starts that as a child.
FIT = """
import os

from gates import block, note, quick
from yieldstar_cli import Step, workflow


def load(name: str) -> None:
    note(f"load {name} {os.getpid()}")


def train(name: str) -> None:
    note(f"train {name} {os.getpid()}")


@workflow
async def fit(step: Step, name: str) -> str:
    await step.run(load, name)
    await step.using(tag="gpu").run(train, name)
    return await step.run(block, name)


@workflow
async def to_and_fro(step: Step, name: str) -> str:
    for _ in range(3):
        await step.using(tag="cpu").run(load, name)
        await step.using(tag="gpu").run(train, name)
    return "done"


@workflow(tags={"gpu"})
async def render(step: Step, name: str) -> str:
    return await step.run(quick, f"{name} rendered")


@workflow
async def parent(step: Step, name: str) -> str:
    return await step.child("render", {"name": name})
"""


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
            worker.kill()
        worker.communicate()


def result(shop: Shop, execution_id: str) -> object:
    """What it returned, once it has."""
    waited = shop.ys("wait", execution_id, "--timeout", "30s")
    assert waited.returncode == 0, waited.stdout + waited.stderr
    outcome: dict[str, object] = shop.show(execution_id)["outcome"]
    return outcome["result"]


# --- versions ------------------------------------------------------------------------------------


def test_old_and_new_modules_side_by_side_serve_each_its_own(shop: Shop, workers: list) -> None:
    """case 137; spec R11: what runs stays on its version, a new trigger takes the latest."""
    for name in ("before", "after"):
        shop.gate(name)
    shop.module("pay", PAY.format(version=1, tags=""))
    shop.ys("trigger", "pay", "--id", "before", "-p", "name=before", check=True)
    workers.append(shop.start("worker"))
    pid = shop.wait_entered("before")

    shop.module("pay_2", PAY.format(version=2, tags=""))
    shop.ys("trigger", "pay", "--id", "after", "-p", "name=after", check=True)
    assert shop.wait_entered("after") == pid
    for name in ("after", "before"):
        shop.let_go(name, pid, "paid")

    assert result(shop, "before") == ["before v1", "paid", "v1"]
    assert result(shop, "after") == ["after v2", "paid", "v2"]
    assert [shop.show(name)["version"] for name in ("before", "after")] == [1, 2]


def test_workers_with_the_old_and_the_new_directory_share_a_file(shop: Shop, workers: list) -> None:
    """case 137, 89; spec R11: each claims only what it has, and neither starves the other."""
    for version, directory in ((1, "old"), (2, "new")):
        folder = shop.folder / directory
        folder.mkdir(mode=0o755)
        (folder / "gates.py").write_text((shop.folder / "workflows" / "gates.py").read_text())
        (folder / "pay.py").write_text(PAY.format(version=version, tags=""))
        for name in ("a", "b"):
            shop.gate(f"{directory}-{name}")
        workers.append(shop.start("worker", "--workflows", directory, "--name", directory))

    pids = {}
    for name in ("a", "b"):
        for directory in ("new", "old"):
            own = f"{directory}-{name}"
            words = ("--workflows", directory, "--id", own, "-p", f"name={own}")
            shop.ys("trigger", "pay", *words, check=True)
            pids[own] = shop.wait_entered(own)
    for own, pid in pids.items():
        shop.let_go(own, pid, "paid")

    assert result(shop, "old-a") == ["old-a v1", "paid", "v1"]
    assert result(shop, "old-b") == ["old-b v1", "paid", "v1"]
    assert result(shop, "new-a") == ["new-a v2", "paid", "v2"]
    assert result(shop, "new-b") == ["new-b v2", "paid", "v2"]
    assert {pids["old-a"], pids["old-b"]} == {workers[0].pid}
    assert {pids["new-a"], pids["new-b"]} == {workers[1].pid}


def test_an_execution_whose_version_is_gone_waits_until_it_is_deployed_again(shop: Shop) -> None:
    """case 137; spec R11, E12: not claimed, not failed, not diverged; it says which version."""
    shop.module("nap", NAP.format(version=1, tags=""))
    shop.ys("trigger", "nap", "--id", "a", "-p", "name=a", check=True)
    assert shop.ys("worker", "--once").returncode == 0
    assert shop.show("a")["status"] == "suspended"

    shop.module("nap", NAP.format(version=2, tags=""))
    shop.ys("trigger", "nap", "--id", "b", "-p", "name=b", check=True)
    assert shop.ys("worker", "--until-idle", "--linger", "5s").returncode == 0

    parked = shop.show("a")
    assert (parked["status"], parked["version"], parked["deliveries"]) == ("suspended", 1, 1)
    assert parked["problem"] is None
    assert shop.show("b")["outcome"]["result"] == "b v2"

    shop.module("nap_old", NAP.format(version=1, tags=""))
    assert shop.ys("worker", "--until-idle", "--linger", "5s").returncode == 0

    assert shop.show("a")["outcome"]["result"] == "a v1"
    assert shop.lines() == ["a lies down", "b lies down", "b v2", "a v1"]


# --- tags ----------------------------------------------------------------------------------------


def test_a_workflow_with_a_tag_runs_only_in_a_worker_that_has_it(shop: Shop, workers: list) -> None:
    """spec O5: the other one takes the rest, spends no claim on it and says what it leaves."""
    for name in ("a", "b"):
        shop.gate(name)
    shop.module("pay", PAY.format(version=1, tags=', tags={"gpu"}'))
    shop.ys("trigger", "pay", "--id", "a", "-p", "name=a", check=True)
    shop.ys("trigger", "simple", "--id", "plain", "-p", "name=plain", check=True)

    said = shop.ys("worker", "--until-idle", "-v", check=True).stdout
    assert "left out: pay asks for --tag gpu" in said
    assert shop.show("a")["deliveries"] == 0
    assert shop.show("plain")["status"] == "completed"

    workers.append(shop.start("worker"))
    workers.append(shop.start("worker", "--tag", "gpu", "--tag", "ssd", "-v"))
    shop.ys("trigger", "pay", "--id", "b", "-p", "name=b", check=True)
    for name in ("a", "b"):
        assert shop.wait_entered(name) == workers[1].pid
        shop.let_go(name, workers[1].pid, "paid")

    assert result(shop, "a") == ["a v1", "paid", "v1"]
    assert result(shop, "b") == ["b v1", "paid", "v1"]
    workers[1].terminate()
    assert ", tag gpu, tag ssd" in workers[1].communicate(timeout=30)[0].splitlines()[0]


def test_an_execution_admitted_under_the_older_version_keeps_its_routing(shop: Shop) -> None:
    """case 207; T6; spec R11, O5: it goes on where it ran, new ones need the tag."""
    shop.module("nap", NAP.format(version=1, tags=""))
    shop.ys("trigger", "nap", "--id", "before", "-p", "name=before", check=True)
    assert shop.ys("worker", "--once").returncode == 0

    shop.module("nap_2", NAP.format(version=2, tags=', tags=["gpu"]'))
    shop.ys("trigger", "nap", "--id", "after", "-p", "name=after", check=True)
    quiet = shop.ys("worker", "--until-idle", "--linger", "5s")

    # What it leaves to others is no trouble: cron would mail it every minute.
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    assert shop.show("before")["outcome"]["result"] == "before v1"
    waiting = shop.show("after")
    assert (waiting["version"], waiting["status"], waiting["deliveries"]) == (2, "admitted", 0)

    assert shop.ys("worker", "--tag", "gpu", "--until-idle", "--linger", "5s").returncode == 0
    assert shop.show("after")["outcome"]["result"] == "after v2"


def test_a_suspect_with_a_tag_runs_alone_in_a_process_that_has_it_too(shop: Shop) -> None:
    """spec O5, L5: else nobody would ever deliver it again."""
    shop.module(
        "pay",
        """
        from gates import die
        from yieldstar_cli import Step, workflow

        @workflow(tags={"gpu"})
        async def fatal(step: Step, name: str) -> None:
            await step.run(die, name)
        """,
    )
    shop.ys("trigger", "fatal", "--id", "a", "-p", "name=a", check=True)
    for _ in range(2):
        shop.ys("worker", "--tag", "gpu", "--until-idle")
    assert shop.lines() == ["a", "a"]

    last = shop.ys("worker", "--tag", "gpu", "--until-idle", "--linger", "1500ms", "-v")

    assert last.returncode == 0
    assert "alone: a suspect runs in a process of its own" in last.stdout
    assert shop.lines() == ["a", "a", "a"]
    assert [lost["how"] for lost in shop.show("a")["lost_deliveries"]] == ["died"] * 3


def test_a_step_with_a_tag_runs_only_in_a_worker_that_has_it(shop: Shop, workers: list) -> None:
    """spec O5: the plain worker does what comes before, and no lease is waited out."""
    for name in ("a", "b"):
        shop.gate(name)
    shop.module("fit", FIT)
    workers.append(shop.start("worker", "--lease", "10m"))
    shop.ys("trigger", "fit", "--id", "a", "-p", "name=a", check=True)
    waited = shop.ys("wait", "a", "--for", "suspended", "--timeout", "30s")
    assert waited.returncode == 0, waited.stderr

    workers.append(shop.start("worker", "--lease", "10m", "--tag", "gpu"))
    plain, gpu = (worker.pid for worker in workers)
    assert shop.wait_entered("a") == gpu
    shop.ys("trigger", "fit", "--id", "b", "-p", "name=b", check=True)
    assert shop.wait_entered("b") == gpu
    for name in ("a", "b"):
        shop.let_go(name, gpu, "weights")
        assert result(shop, name) == "weights"

    lines = shop.lines()
    assert lines[:2] == [f"load a {plain}", f"train a {gpu}"]
    assert f"train b {gpu}" in lines
    assert [shop.show(name)["lost_deliveries"] for name in ("a", "b")] == [[], []]


def test_an_execution_is_handed_to_and_fro_between_workers_of_different_tags(
    shop: Shop, workers: list
) -> None:
    """spec O5: each hand-over is a suspension; the tags are reckoned anew at each."""
    shop.module("fit", FIT)
    workers += [shop.start("worker", "--lease", "10m", "--tag", tag) for tag in ("cpu", "gpu")]
    cpu, gpu = (worker.pid for worker in workers)

    shop.ys("trigger", "to-and-fro", "--id", "a", "-p", "name=a", check=True)

    assert result(shop, "a") == "done"
    assert shop.lines() == [f"load a {cpu}", f"train a {gpu}"] * 3
    shown = shop.show("a")
    assert shown["lost_deliveries"] == []
    assert 6 <= shown["deliveries"] <= 7


def test_without_a_worker_that_has_the_tag_a_step_waits_and_the_rest_is_done(shop: Shop) -> None:
    """spec O5: no try is spent, nobody spins, and a worker that has the tag goes on at once."""
    shop.module("fit", FIT.replace("step.run(block, name)", 'step.run(quick, "weights")'))
    shop.ys("trigger", "fit", "--id", "a", "-p", "name=a", check=True)

    assert shop.ys("worker", "--until-idle").returncode == 0
    waiting = shop.show("a")
    assert (waiting["status"], waiting["deliveries"]) == ("suspended", 1)
    assert [line.split()[0] for line in shop.lines()] == ["load"]
    assert shop.ys("worker", "--tag", "cpu", "--until-idle").returncode == 0
    assert shop.show("a")["deliveries"] == 1

    assert shop.ys("worker", "--tag", "gpu", "--tag", "cpu", "--until-idle").returncode == 0

    assert shop.show("a")["outcome"]["result"] == "weights"
    assert [line.split()[0] for line in shop.lines()] == ["load", "train", "weights"]


def test_a_workflow_that_is_left_to_others_can_be_started_as_a_child_by_name(
    shop: Shop, workers: list
) -> None:
    """spec O5, R11, C3: what a worker may not run it still knows; the parent waits."""
    shop.module("fit", FIT.replace("step.run(block, name)", 'step.run(quick, "weights")'))
    shop.ys("trigger", "parent", "--id", "p", "-p", "name=p", check=True)

    assert shop.ys("worker", "--until-idle").returncode == 0
    assert shop.show("p")["status"] == "suspended"
    assert shop.show("p/render")["deliveries"] == 0
    assert shop.ys("worker", "--until-idle", "--tag", "gpu", "--only", "render").returncode == 0
    assert shop.ys("worker", "--until-idle").returncode == 0

    assert shop.show("p")["outcome"]["result"] == "p rendered"
