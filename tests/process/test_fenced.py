"""Workers that are stopped past their lease while others go on with what they held."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.effort import torturing
from tests.process.shop import Shop
from yieldstar_cli import open_runtime
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

#: How often a worker is stopped in the midst of messages.
STOPS = 20 if torturing() else 3

MODULE = '''
import msgspec

from gates import block, note, quick
from yieldstar_cli import Step, workflow


@workflow
async def leaf(step: Step, name: str) -> str:
    """A child."""
    return await step.run(quick, name)


@workflow
async def change(step: Step, name: str, answers: list[str] = []) -> list[str]:
    """A long step; then it starts a child, reads a message, tells another and begins anew."""
    if answers:
        return [*answers, await step.run(block, f"{name} again")]
    first = await step.run(block, name)
    child = await step.child(leaf, {"name": f"{name} child"})
    told = await step.message("orders", str)
    await step.send("audience", "news", f"{first} {told}")
    await step.continue_as({"name": name, "answers": [first, child, told]})


@workflow
async def audience(step: Step) -> list[str]:
    """Hears it, and nothing else."""
    heard = [await step.message("news", str)]
    await step.message("over")
    while (more := await step.try_message("news", str)) is not None:
        heard.append(more)
    return heard


class State(msgspec.Struct):
    following: int = 0
    #: The last child, and how many ended.
    child: str | None = None
    ended: int = 0


@workflow
async def stream(step: Step, p: State) -> State:
    """Reads numbers in their order, a child and an incarnation for every few; -1 ends it."""
    if p.child is not None:
        assert await step.handle(p.child, leaf) == f"leaf {p.following}"
        p.ended += 1
    for _ in range(37):
        number = await step.message("numbers", int)
        if number == -1:
            p.child = None
            return p
        if number != p.following:
            raise ValueError(f"{number}, not {p.following}")
        p.following += 1
    p.child = step.child(leaf, {"name": f"leaf {p.following}"}).ref
    await step.continue_as(p)
'''


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    found = Shop(tmp_path / "shop")
    found.module("fenced", MODULE)
    return found


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


def result(shop: Shop, execution_id: str) -> object:
    """What it returned, once it has."""
    assert shop.ys("wait", execution_id, "--timeout", "60s").returncode == 0
    return shop.show(execution_id)["outcome"]["result"]


def test_a_superseded_worker_starts_reads_sends_and_switches_nothing(
    shop: Shop, workers: list[subprocess.Popen[str]]
) -> None:
    """cases 73, 74, 81, 233; spec L2, C3, C7, M2: all that would follow its step is refused."""
    for name in ("a", "a again"):
        shop.gate(name)
    shop.ys("trigger", "audience", "--id", "audience", check=True)
    shop.ys("trigger", "change", "--id", "a", "-p", "name=a", check=True)
    workers.append(shop.start("worker", "--lease", "1s"))
    shop.wait_entered("a")
    for word in ("first", "second"):
        shop.ys("send", "a", "orders", "--data", f'"{word}"', check=True)
    shop.stop_at_rest(workers[0])

    workers.append(shop.start("worker", "--lease", "1s"))
    shop.let_go("a", shop.wait_entered("a"), "in time")
    # The other one has it open in its next incarnation while the late one goes on.
    assert shop.wait_entered("a again") == workers[1].pid
    workers[0].send_signal(signal.SIGCONT)
    shop.let_go("a", workers[0].pid, "late")
    shop.ys("trigger", "simple", "--id", "b", "-p", "name=b", check=True)
    assert result(shop, "b") == "b"
    workers[0].terminate()
    said, errors = workers[0].communicate(timeout=60)
    shop.ys("send", "audience", "over", check=True)
    shop.let_go("a again", workers[1].pid, "end")

    assert (workers[0].returncode, said) == (0, "")
    assert "  a " in errors
    assert "Traceback" not in errors
    assert result(shop, "a") == ["in time", "a child", "first", "end"]
    assert result(shop, "audience") == ["in time first"]
    shown = shop.show("a")
    assert shown["incarnation"] == 2
    assert "lease ended" in [lost["how"] for lost in shown["lost_deliveries"]]
    told = shop.ys("messages", "a", "--json", check=True).stdout
    states = [(message["queue"], message["state"]) for message in json.loads(told)]
    # The second order is left to whoever reads it: the late worker took nothing.
    assert states == [("orders", "consumed"), ("orders", "waiting")]
    rows = shop.ys("show", "a", "--tree", check=True).stdout.splitlines()
    assert len(rows) == 2
    assert shop.lines().count("a child") == 1


def test_workers_stopped_in_turn_read_each_message_once_and_in_order(
    shop: Shop, workers: list[subprocess.Popen[str]]
) -> None:
    """cases 74, 81, 85, 234, 242; spec L2, M2, C7: whoever holds it is stopped past its lease."""
    shop.ys("trigger", "stream", "--id", "s", check=True)
    workers += [shop.start("worker", "--lease", "1s", "--name", f"w{n}") for n in range(2)]
    by_name = {f"w{n}": worker for n, worker in enumerate(workers)}
    enough = threading.Event()
    sent = []

    def send_numbers() -> None:
        with open_runtime(shop.folder / "ys.db", shop.folder / "workflows") as runtime:
            while not enough.is_set():
                sent.append(runtime.send("s", "numbers", len(sent)))
            runtime.send("s", "numbers", -1)

    sender = threading.Thread(target=send_numbers)
    sender.start()
    storage = SqliteStorage(shop.folder / "ys.db", readonly=True)
    try:
        for lost in range(STOPS):
            hold_past_the_lease(shop, storage, by_name, lost)
    finally:
        enough.set()
        sender.join()
        storage.close()

    end = result(shop, "s")
    assert isinstance(end, dict)
    count = len(sent)
    assert (end["following"], end["ended"]) == (count, count // 37)
    assert set(sent) == {"delivered"}
    shown = shop.show("s")
    assert shown["incarnation"] == count // 37 + 1
    rows = shop.ys("show", "s", "--tree", check=True).stdout.splitlines()
    assert len(rows) == count // 37 + 1


def hold_past_the_lease(
    shop: Shop, storage: SqliteStorage, workers: dict[str, subprocess.Popen[str]], lost: int
) -> None:
    """Stop the worker that holds `s` until another has taken over from it."""
    while True:
        holder = holder_of(storage)
        if holder is None:
            continue
        shop.stop_at_rest(workers[holder])
        if holder_of(storage) == holder:
            break
        workers[holder].send_signal(signal.SIGCONT)
    record = storage.executions.get("s")
    assert record is not None
    while True:
        ended = storage.reader.lost_deliveries(record.number)
        if len([one for one in ended if one.how == "lease ended"]) > lost:
            break
        assert not any(worker.poll() for worker in workers.values())
    workers[holder].send_signal(signal.SIGCONT)


def holder_of(storage: SqliteStorage) -> str | None:
    """Who has an open delivery of `s`."""
    record = storage.executions.get("s")
    assert record is not None
    return None if record.delivery is None else record.delivery.worker
