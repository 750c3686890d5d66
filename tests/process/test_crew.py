"""`ys worker --processes N`: several workers that start, end and stay alive together (K1, K2)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.shop import Shop
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

#: Each begins in a process of its own where the threads of the first are taken.
TWO = ("worker", "--processes", "2", "-j", "1")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "shop")


@pytest.fixture
def crews(shop: Shop) -> Iterator[list[subprocess.Popen[str]]]:
    """Crews started by a test; whatever is left of them is killed."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for crew in started:
        if crew.poll() is None:
            crew.kill()
        crew.communicate()


def members(shop: Shop) -> dict[int, str | None]:
    """The processes that were workers here, and how each ended."""
    storage = SqliteStorage(shop.folder / "ys.db", readonly=True)
    found = {row.pid: row.how for row in storage.workers.all()}
    storage.close()
    return found


def wait_for_members(shop: Shop, count: int) -> None:
    """Until so many workers have told what they run, as they do before they claim."""
    storage = SqliteStorage(shop.folder / "ys.db", create=True)
    while len([row for row in storage.workers.all(living=True) if row.workflows]) < count:
        os.sched_yield()
    storage.close()


def test_several_processes_run_each_execution_once(shop: Shop) -> None:
    """spec K1, L4: what is due is shared; all leave when nothing is due for any of them."""
    with_work = [f"s{n}" for n in range(40)]
    for name in with_work:
        shop.ys("trigger", "simple", "--id", name, "-p", f"name={name}", check=True)

    done = shop.ys("worker", "--processes", "3", "--until-idle")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sorted(shop.lines()) == sorted(with_work)
    assert sorted(members(shop).values(), key=str) == ["stopped"] * 3


def test_an_idle_process_stays_as_long_as_another_works(
    shop: Shop, crews: list[subprocess.Popen[str]]
) -> None:
    """spec K1: `--until-idle` asks of all of them; what comes up meanwhile is shared, too."""
    shop.gate("a")
    shop.ys("trigger", "gated", "--id", "a", "-p", "name=a", check=True)
    crews.append(shop.start(*TWO, "--until-idle"))
    busy = shop.wait_entered("a")
    wait_for_members(shop, 2)

    shop.ys("trigger", "simple", "--id", "b", "-p", "name=b", check=True)
    assert shop.ys("wait", "b", "--timeout", "60s").returncode == 0
    assert members(shop) == dict.fromkeys(members(shop))
    assert shop.show("a")["delivery"] is not None
    shop.let_go("a", busy)

    assert crews[0].wait(60) == 0
    assert shop.lines()[-1] == "a last"
    assert list(members(shop).values()) == ["stopped"] * 2


def test_what_takes_long_is_spread_over_the_processes(
    shop: Shop, crews: list[subprocess.Popen[str]]
) -> None:
    """spec L4, K1: one does not hold behind a busy thread what the other could run."""
    for name in ("a", "b"):
        shop.gate(name)
        shop.ys("trigger", "gated", "--id", name, "-p", f"name={name}", check=True)

    crews.append(shop.start(*TWO, "--until-idle"))

    running = {name: shop.wait_entered(name) for name in ("a", "b")}
    assert running["a"] != running["b"]
    for name, pid in running.items():
        shop.let_go(name, pid)
    assert crews[0].wait(60) == 0


def test_a_signal_is_passed_on_and_running_steps_end(
    shop: Shop, crews: list[subprocess.Popen[str]]
) -> None:
    """spec K2: the first SIGTERM to the crew is one to each; it exits 0 when all have left."""
    shop.gate("a")
    shop.ys("trigger", "gated", "--id", "a", "-p", "name=a", check=True)
    crews.append(shop.start(*TWO, "--grace", "60s", "-v"))
    busy = shop.wait_entered("a")
    wait_for_members(shop, 2)

    crews[0].terminate()
    (idle,) = members(shop).keys() - {busy}
    while members(shop)[idle] is None:
        os.sched_yield()
    shop.let_go("a", busy)

    assert crews[0].wait(60) == 0
    assert shop.lines() == ["a first", "a begins", "a ends"]
    assert set(members(shop).values()) == {"stopped"}


def test_the_second_signal_ends_them_all_at_once(
    shop: Shop, crews: list[subprocess.Popen[str]]
) -> None:
    """spec K2: 143, and what ran is taken up again by the next."""
    shop.gate("a")
    shop.ys("trigger", "gated", "--id", "a", "-p", "name=a", check=True)
    crews.append(shop.start(*TWO, "--grace", "60s", "-v"))
    busy = shop.wait_entered("a")
    wait_for_members(shop, 2)
    crews[0].terminate()
    assert crews[0].stdout is not None
    while "finishing" not in crews[0].stdout.readline():
        pass

    crews[0].terminate()

    assert crews[0].wait(60) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(busy, 0)


def test_a_process_that_was_killed_is_replaced(
    shop: Shop, crews: list[subprocess.Popen[str]]
) -> None:
    """spec K1, L3: another takes its place, says so, and the execution goes on."""
    shop.gate("a")
    shop.ys("trigger", "gated", "--id", "a", "-p", "name=a", check=True)
    crews.append(shop.start(*TWO, "--until-idle"))
    killed = shop.wait_entered("a")
    wait_for_members(shop, 2)

    os.kill(killed, signal.SIGKILL)

    again = shop.wait_entered("a")
    shop.let_go("a", again)
    _, said = crews[0].communicate(timeout=60)
    assert crews[0].returncode == 0
    assert f"worker process {killed} was killed by signal 9; another takes its place" in said
    assert shop.show("a")["outcome"] == {"status": "completed", "result": "done"}
    assert len(members(shop)) == 3


def test_a_crew_that_is_killed_leaves_nobody_behind(
    shop: Shop, crews: list[subprocess.Popen[str]]
) -> None:
    """spec K1, K2: who started them is gone, so they end as after a first signal."""
    shop.gate("a")
    shop.ys("trigger", "gated", "--id", "a", "-p", "name=a", check=True)
    crews.append(shop.start(*TWO, "--grace", "60s"))
    busy = shop.wait_entered("a")
    wait_for_members(shop, 2)

    crews[0].kill()
    (idle,) = members(shop).keys() - {busy}
    while members(shop)[idle] is None:
        os.sched_yield()
    shop.let_go("a", busy)
    while None in members(shop).values():
        os.sched_yield()

    assert shop.lines() == ["a first", "a begins", "a ends"]
    assert list(members(shop).values()) == ["stopped"] * 2


def test_processes_that_keep_dying_end_the_crew(shop: Shop) -> None:
    """spec K1, L5: six within a minute are a loop; the status says what became of the last."""
    for n in range(8):
        shop.ys("trigger", "deadly", "--id", f"d{n}", "-p", f"name=d{n}", check=True)

    done = shop.ys(*TWO)

    assert done.returncode == 1
    assert done.stderr.count("ended with status 1; another takes its place") == 5
    assert done.stderr.count("the crew stops") == 1
    assert all(os.path.exists(f"/proc/{pid}") is False for pid in members(shop))


def test_what_no_process_can_do_is_said_once(tmp_path: Path) -> None:
    """spec K1: the first finds out, the others are not started."""
    shop = Shop(tmp_path / "shop")
    for module in (shop.folder / "workflows").glob("*.py"):
        module.unlink()

    done = shop.ys("worker", "--processes", "4", "--json")

    assert done.returncode == 4
    assert [json.loads(line)["code"] for line in done.stderr.splitlines()] == ["NO_WORKFLOWS"]


def test_once_is_once_for_all_of_them(shop: Shop) -> None:
    """spec K1: what becomes due by a delivery is left, whoever looks."""
    shop.module(
        "naps",
        """
        from yieldstar_cli import Step, workflow

        from gates import quick


        @workflow
        async def naps(step: Step, name: str) -> None:
            for _ in range(5):
                await step.run(quick, name)
                await step.sleep("1ms")
        """,
    )
    for name in ("a", "b", "c"):
        shop.ys("trigger", "naps", "--id", name, "-p", f"name={name}", check=True)

    done = shop.ys("worker", "--processes", "2", "--once")

    assert done.returncode == 0
    assert sorted(shop.lines()) == ["a", "b", "c"]


def test_members_are_told_apart_by_name(shop: Shop) -> None:
    """cli: `--name`, of several."""
    shop.ys("worker", "--processes", "2", "--until-idle", "--name", "till", check=True)

    storage = SqliteStorage(shop.folder / "ys.db", readonly=True)
    assert sorted(row.name for row in storage.workers.all()) == ["till-1", "till-2"]
    storage.close()


@pytest.mark.parametrize("word", ["x", "1:2", "1:2:x", "-1:0:0", "1:0:0", "99:0:0"])
def test_a_seat_is_not_taken_by_hand(shop: Shop, word: str) -> None:
    """security: a descriptor that is no line to a crew is not used as one."""
    done = shop.ys("worker", f"--member={word}")

    assert done.returncode == 2
