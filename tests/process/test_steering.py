"""Real workers while real commands send, decide, cancel, pause and resume."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.shop import Shop

REFUND = '''
import msgspec

from gates import note
from yieldstar_cli import Step, workflow


class Decision(msgspec.Struct):
    ok: bool
    by: str = ""
    note: str = ""


@workflow
async def refund(step: Step) -> str:
    """Waits for a decision."""
    decision = await step.message("decision", Decision)
    word = "approved" if decision.ok else "rejected"
    return f"{word}: {decision.note}"


@workflow
async def collect(step: Step) -> list[int]:
    """Reads three messages."""
    return [await step.message("numbers", int) for _ in range(3)]


@workflow
async def tidy(step: Step, name: str) -> None:
    """Cleans up when it is cancelled."""
    try:
        await step.sleep("1h")
    finally:
        await step.run(note, f"{name} cleans up")
'''


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    found = Shop(tmp_path / "shop")
    found.module("refund", REFUND)
    return found


@pytest.fixture
def worker(shop: Shop) -> Iterator[subprocess.Popen[str]]:
    """A worker that runs until the test is over."""
    started = shop.start("worker")
    yield started
    started.terminate()
    started.communicate(timeout=60)


def trigger(shop: Shop, workflow_id: str, execution_id: str, *, suspended: bool = True) -> None:
    """Trigger it, with its ID as its name; wait until it waits."""
    words = ("-p", f"name={execution_id}") if workflow_id in ("tidy", "gated") else ()
    shop.ys("trigger", workflow_id, "--id", execution_id, *words, check=True)
    if suspended:
        shop.ys("wait", execution_id, "--for", "suspended", "--timeout", "30s", check=True)


def outcome(shop: Shop, execution_id: str) -> dict[str, object]:
    """How it ended, once it has."""
    shop.ys("wait", execution_id, "--timeout", "30s")
    found: dict[str, object] = shop.show(execution_id)["outcome"]
    return found


def test_a_running_worker_takes_up_a_decision(shop: Shop, worker: subprocess.Popen[str]) -> None:
    """spec M1, M4: whoever waits is woken."""
    for name in ("yes", "no"):
        trigger(shop, "refund", name)

    shop.ys("approve", "yes", "--note", "as agreed", check=True)
    shop.ys("reject", "no", "--note", "too late", check=True)

    assert outcome(shop, "yes")["result"] == "approved: as agreed"
    assert outcome(shop, "no")["result"] == "rejected: too late"
    again = shop.ys("approve", "yes")
    assert again.returncode == 6
    assert "has ended: completed" in again.stderr


def test_messages_sent_ahead_are_read_first_and_in_order(shop: Shop) -> None:
    """cases 256, B51: before the execution is there, before it waits, and after."""
    shop.ys("send", "sums", "numbers", "--data", "1", check=True)
    trigger(shop, "collect", "sums", suspended=False)
    shop.ys("send", "sums", "numbers", "--data", "2", check=True)
    assert shop.ys("worker", "--until-idle").returncode == 0
    assert shop.show("sums")["status"] == "suspended"

    shop.ys("send", "sums", "numbers", "--data", "3", check=True)
    assert shop.ys("worker", "--until-idle").returncode == 0

    assert outcome(shop, "sums")["result"] == [1, 2, 3]
    told = json.loads(shop.ys("messages", "sums", "--json").stdout)
    assert [(message["state"], message["value"]) for message in told] == [
        ("consumed", 1),
        ("consumed", 2),
        ("consumed", 3),
    ]


def test_a_cancelled_execution_cleans_up(shop: Shop, worker: subprocess.Popen[str]) -> None:
    """cases 271, 277; spec C6."""
    trigger(shop, "tidy", "order-42")

    shop.ys("cancel", "order-42", "--reason", "no longer wanted", check=True)

    assert outcome(shop, "order-42") == {"status": "cancelled", "reason": "no longer wanted"}
    assert shop.ys("wait", "order-42").returncode == 9
    assert shop.lines() == ["order-42 cleans up"]


def test_a_request_to_cancel_waits_for_a_worker(shop: Shop) -> None:
    """case 281: it is on the record, whoever dies meanwhile."""
    trigger(shop, "tidy", "order-42", suspended=False)
    assert shop.ys("worker", "--until-idle").returncode == 0
    shop.ys("cancel", "order-42", check=True)

    assert shop.show("order-42")["status"] == "suspended"
    assert shop.ys("worker", "--until-idle").returncode == 0

    assert outcome(shop, "order-42")["status"] == "cancelled"
    assert shop.lines() == ["order-42 cleans up"]


def test_an_end_at_once_leaves_a_running_step_without_effect(
    shop: Shop, worker: subprocess.Popen[str]
) -> None:
    """cases 272, 284; spec C6, L2: no code after it, and the worker goes on."""
    shop.gate("order-42")
    trigger(shop, "gated", "order-42", suspended=False)
    pid = shop.wait_entered("order-42")

    shop.ys("cancel", "order-42", "--now", check=True)
    shop.let_go("order-42", pid)
    trigger(shop, "refund", "other")

    assert outcome(shop, "order-42")["status"] == "cancelled"
    assert "order-42 last" not in shop.lines()
    assert worker.poll() is None


def test_a_running_step_ends_before_the_pause_and_nothing_begins_in_it(
    shop: Shop, worker: subprocess.Popen[str]
) -> None:
    """spec E14."""
    shop.gate("order-42")
    trigger(shop, "gated", "order-42", suspended=False)
    pid = shop.wait_entered("order-42")

    shop.ys("pause", "order-42", check=True)
    shop.let_go("order-42", pid, "paid")
    # Each look is a process of its own, so that this lasts as long as any worker needs.
    assert any(shop.show("order-42")["delivery"] is None for _ in range(200))

    assert shop.lines() == ["order-42 first", "order-42 begins", "order-42 ends"]

    shop.ys("resume", "order-42", check=True)

    assert outcome(shop, "order-42")["result"] == "paid"
    assert shop.lines()[-1] == "order-42 last"


@pytest.mark.parametrize("scope", [("--workflow", "simple"), ("--all",)])
def test_what_is_paused_as_a_whole_is_passed_over(shop: Shop, scope: tuple[str, ...]) -> None:
    """spec E14: also what is triggered meanwhile."""
    shop.ys("trigger", "simple", "--id", "before", "-p", "name=before", check=True)
    shop.ys("pause", *scope, check=True)
    shop.ys("trigger", "simple", "--id", "meanwhile", "-p", "name=meanwhile", check=True)

    assert shop.ys("worker", "--until-idle").returncode == 0
    assert shop.lines() == []
    shop.ys("resume", *scope, check=True)
    assert shop.ys("worker", "--until-idle").returncode == 0

    assert sorted(shop.lines()) == ["before", "meanwhile"]


def test_a_running_worker_goes_on_as_soon_as_it_may(
    shop: Shop, worker: subprocess.Popen[str]
) -> None:
    """spec E14, K3: resume rings it."""
    shop.ys("pause", "--all", "--reason", "moving house", check=True)
    shop.ys("trigger", "simple", "--id", "order-42", "-p", "name=order-42", check=True)

    shop.ys("resume", "--all", check=True)

    assert outcome(shop, "order-42")["result"] == "order-42"
