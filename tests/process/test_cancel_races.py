"""Cancellation from a second process: against a completion, in every wait, under a running step."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.effort import rounds
from tests.process.shop import Shop
from yieldstar_cli import ExecutionCancelled, Runtime, open_runtime
from yieldstar_cli.model import ExecutionRecord, Kind, Status
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

RACES = rounds(50)

MODULE = '''
import asyncio

from gates import block, note
from yieldstar_cli import RetryPolicy, Step, workflow


async def think(n: int) -> int:
    await asyncio.sleep(0)
    return n


@workflow
async def brief(step: Step, n: int) -> int:
    """Three steps, then its end."""
    for _ in range(3):
        await step.run(think, n)
    return n


def fail(name: str) -> None:
    raise ConnectionError(name)


def nothing() -> None:
    return None


async def for_ever(name: str) -> None:
    note(f"{name} thinks")
    await asyncio.Event().wait()


PATIENT = RetryPolicy(attempts=9, first="1h")


@workflow
async def idle(step: Step) -> None:
    """A child that waits."""
    await step.message("never")


@workflow
async def waits(step: Step, name: str) -> None:
    """Waits in the way it is named after, and cleans up."""
    try:
        match name:
            case "sleep":
                await step.sleep("1h")
            case "select":
                await step.select(step.timer("1h"), step.message("never"))
            case "message":
                await step.message("never")
            case "messages":
                await step.messages("never", max=3)
            case "child":
                await step.child(idle)
            case "attach":
                await step.attach("other")
            case "poll":
                await step.poll(nothing, every="1h")
            case "retry":
                await step.using(retry=PATIENT).run(fail, name)
            case "all":
                await step.all([step.message("one"), step.message("two")])
            case "map":
                await step.map("idle", [{}, {}, {}], limit=2)
            case "branch":
                await step.spawn(branch(step, name))
            case "timeout":
                await step.timeout(step.message("never"), "1h")
            case "tag":
                await step.using(tag="elsewhere").run(nothing)
            case "async step":
                await step.run(for_ever, name)
            case "deferred":
                step.defer(note, "deferred was deferred")
                await step.sleep("1h")
    finally:
        await step.run(note, f"{name} cleans up")


async def branch(step: Step, name: str) -> None:
    try:
        await step.sleep("1h")
    finally:
        step.log.info("the branch ends")


@workflow
async def guardian(step: Step, name: str) -> None:
    """A parent whose child is in a step."""
    await step.child("gated", {"name": name}, id=name)
'''
KINDS = (
    "sleep",
    "select",
    "message",
    "messages",
    "child",
    "attach",
    "poll",
    "retry",
    "all",
    "map",
    "branch",
    "timeout",
    "tag",
    "deferred",
)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    found = Shop(tmp_path / "shop")
    found.module("races", MODULE)
    return found


@pytest.fixture
def runtime(shop: Shop) -> Iterator[Runtime]:
    """A client in this process."""
    with open_runtime(shop.folder / "ys.db", shop.folder / "workflows") as opened:
        yield opened


@pytest.fixture
def worker(shop: Shop, runtime: Runtime) -> Iterator[subprocess.Popen[str]]:
    """A worker that runs until the test is over; what it says fills a file, not a pipe."""
    with (shop.folder / "said.txt").open("w") as said:
        started = subprocess.Popen(
            [sys.executable, "-m", "yieldstar_cli", "worker", "--json"],
            cwd=shop.folder,
            env=shop._env(),
            text=True,
            stdout=said,
            stderr=subprocess.PIPE,
        )
    yield started
    if started.poll() is None:
        started.terminate()
    started.communicate(timeout=60)


def told_ends(said: str) -> dict[str, list[str]]:
    """How each execution ended, as the worker told it."""
    ends: dict[str, list[str]] = {}
    for line in said.splitlines():
        event = json.loads(line)
        if event["kind"] in ("completed", "failed", "cancelled"):
            ends.setdefault(event["execution_id"], []).append(event["kind"])
    return ends


def check_agreement(
    answer: str, record: ExecutionRecord, entries: list[Any], waited: object, number: int
) -> None:
    """One outcome, and the answer, the record, its history and who waits tell of the same."""
    assert record.status in (Status.COMPLETED, Status.CANCELLED)
    cancelled = record.status is Status.CANCELLED
    heard = any(entry.kind == Kind.CANCEL for entry in entries)
    match answer:
        case "cancelled":
            assert cancelled
        case "ignored":
            assert not cancelled
            assert not heard
            assert record.cancel is None
        case "requested":
            # Heard by the function or, if that had nothing left to wait for, on the record only.
            assert cancelled == heard
            assert record.cancel is not None
    assert waited == ("cancelled" if cancelled else number)


@pytest.mark.parametrize("now", [False, True], ids=["requested", "now"])
def test_a_cancellation_and_a_completion_race_for_one_outcome(
    shop: Shop, runtime: Runtime, worker: subprocess.Popen[str], now: bool
) -> None:
    """cases 278, B78, 249; spec C6, E10: the answer says which one won, and nothing changes it."""
    storage = SqliteStorage(shop.folder / "ys.db", readonly=True)
    answers = {}
    for number in range(RACES):
        name = f"r{number}"
        runtime.trigger("brief", {"n": number}, id=name)
        # Its claim, its steps and its end are a commit each: stop after some of them.
        commits = number % 6
        seen = storage.changes()
        while commits:
            if storage.changes() != seen:
                seen = storage.changes()
                commits -= 1
            if (record := runtime.get(name)) is not None and record.status.terminal:
                break
        answers[name] = runtime.cancel(name, now=now)

    statuses = []
    for number, (name, answer) in enumerate(answers.items()):
        waited: object
        try:
            waited = runtime.wait(name, "60s")
        except ExecutionCancelled:
            waited = "cancelled"
        record = runtime.get(name)
        assert record is not None
        entries = storage.reader.history(record.number, record.incarnation)
        check_agreement(answer, record, entries, waited, number)
        assert runtime.cancel(name, now=now) == "ignored"
        statuses.append(record.status)
    storage.close()
    assert set(statuses) == {Status.COMPLETED, Status.CANCELLED}

    worker.terminate()
    _, errors = worker.communicate(timeout=60)
    assert (worker.returncode, errors) == (0, "")
    ends = told_ends((shop.folder / "said.txt").read_text())
    assert all(len(told) == 1 for told in ends.values())
    for name, status in zip(answers, statuses, strict=True):
        # What never began, or was ended from outside, is not the worker's to tell.
        assert ends.get(name, [str(status)]) == [str(status)]
        assert status is Status.CANCELLED or name in ends


def test_every_kind_of_wait_can_be_cancelled(
    shop: Shop, runtime: Runtime, worker: subprocess.Popen[str]
) -> None:
    """cases 271, 277, 280, 215; spec C6, O4: it cleans up once, and its reason is kept."""
    runtime.trigger("idle", id="other")
    for name in KINDS:
        runtime.trigger("waits", {"name": name}, id=name)
    shop.ys("wait", *KINDS, "other", "--for", "suspended", "--timeout", "60s", check=True)

    shop.ys("cancel", *KINDS, "--reason", "[b]closed[/b]", check=True)

    for name in KINDS:
        with pytest.raises(ExecutionCancelled):
            runtime.wait(name, "60s")
        shown = shop.show(name)
        assert shown["outcome"] == {"status": "cancelled", "reason": "[b]closed[/b]"}
        assert shown["problem"] is None
    cleaned = Counter(f"{name} cleans up" for name in KINDS)
    assert Counter(shop.lines()) == cleaned + Counter(["deferred was deferred"])
    children = [f"map/idle{number}" for number in ("", "#2")] + ["child/idle"]
    for child in children:
        with pytest.raises(ExecutionCancelled):
            runtime.wait(child, "60s")
    assert runtime.get("map/idle#3") is None
    assert runtime.get("other").status is Status.SUSPENDED  # type: ignore[union-attr]


def test_an_async_step_is_cancelled_with_its_execution(
    shop: Shop, runtime: Runtime, worker: subprocess.Popen[str]
) -> None:
    """case 272; spec C6: nobody has to wait for it."""
    runtime.trigger("waits", {"name": "async step"}, id="a")
    while "async step thinks" not in shop.lines():
        assert worker.poll() is None

    shop.ys("cancel", "a", check=True)

    with pytest.raises(ExecutionCancelled):
        runtime.wait("a", "60s")
    assert shop.lines() == ["async step thinks", "async step cleans up"]


def test_what_a_child_returns_after_its_parents_end_at_once_is_refused(
    shop: Shop, runtime: Runtime, worker: subprocess.Popen[str]
) -> None:
    """cases 215, 272, 276, 284, 285; spec C6, L2: the child ends with it, the worker goes on."""
    shop.gate("c")
    runtime.trigger("guardian", {"name": "c"}, id="p")
    pid = shop.wait_entered("c")

    shop.ys("cancel", "p", "--now", "--reason", "fire", check=True)
    assert [shop.show(name)["status"] for name in ("p", "c")] == ["cancelled"] * 2
    shop.let_go("c", pid, "late")
    assert runtime.wait(runtime.trigger("simple", {"name": "next"}), "60s") == "next"

    shown = shop.show("c")
    assert shown["status"] == "cancelled"
    assert [step["step_key"] for step in shown["steps"] if step["state"] == "completed"] == [
        "quick"
    ]
    assert "c last" not in shop.lines()
    assert worker.poll() is None
