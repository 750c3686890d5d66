"""`ys explain`: each situation in sentences, and what would help."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.conftest import MINUTE, NOON, Shop
from yieldstar_cli.cli.facts import Crew, gather
from yieldstar_cli.cli.render.times import Times
from yieldstar_cli.cli.verdict import judge
from yieldstar_cli.failures import encode_error
from yieldstar_cli.model import Attempt, Completed, Failed, Suspended, Wait


def explain(shop: Shop, execution_id: str = "order-42") -> tuple[str, Any]:
    """The sentences, on one line, and the document."""
    said = shop.screen("explain", execution_id)
    assert said.code == 0
    return " ".join(said.out.split()), shop.ys("explain", execution_id, "--json").json


def test_a_sleep_under_a_living_worker_is_fine(shop: Shop, snapshot: SnapshotAssertion) -> None:
    shop.sleeping()
    shop.clock.advance(1_000)

    document = explain(shop)[1]

    assert shop.screen("explain", "order-42").out == snapshot
    assert document["verdict"] == "fine"
    assert document["waits"][0]["due_at"] == "2026-11-30T12:10:00.000Z"
    assert document["earliest_at"] == "2026-11-30T12:10:00.000Z"
    assert document["remedies"] == []


def test_the_first_of_several_waits(shop: Shop, snapshot: SnapshotAssertion) -> None:
    shop.admit()
    now = shop.clock.now_ms()
    shop.deliver(
        waits=[
            Wait("timer", "timer", "15m", now, now + 15 * MINUTE, "waiting"),
            Wait("timer", "timeout", "1h", now, now + 60 * MINUTE, "waiting", position=1),
        ],
        outcome=Suspended(now + 15 * MINUTE),
    )

    assert shop.screen("explain", "order-42").out == snapshot


def test_a_retry_says_which_try_and_when(shop: Shop) -> None:
    shop.admit()
    now = shop.clock.now_ms()
    shop.deliver(
        attempts=(
            Attempt(
                "charge-card", "step", 1, now, now + 9, "error",
                encode_error(ValueError("x")), now + 38_000,
            ),
        ),
        waits=[Wait("step", "charge-card", "", now, now + 38_000, "retrying", 2)],
        outcome=Suspended(now + 38_000),
    )  # fmt: skip

    text, document = explain(shop)

    assert "Waiting to try charge-card again (try 2); 12:00:38" in text
    assert document["waits"][0]["on"]["state"] == "retrying"


def test_due_and_no_worker_is_stuck(shop: Shop, snapshot: SnapshotAssertion) -> None:
    shop.start_worker("shop:3990")
    shop.storage.workers.stop(shop.worker_number or 0, "stopped")
    shop.clock.advance(35 * MINUTE)
    shop.admit()
    shop.clock.advance(6 * MINUTE)

    document = explain(shop)[1]

    assert shop.screen("explain", "order-42").out == snapshot
    assert document["verdict"] == "stuck"
    assert document["remedies"] == ["ys worker"]


def test_a_running_one_names_its_worker(shop: Shop) -> None:
    shop.admit()
    shop.claim()
    shop.clock.advance(1_300)

    text, document = explain(shop)

    assert "It is running since 12:00:00" in text
    assert "shop:4412" in text
    assert document["verdict"] == "fine"


def test_an_expired_delivery_is_taken_up_again(shop: Shop) -> None:
    """B02: no repair by hand is needed, only a worker."""
    shop.admit()
    shop.claim()
    shop.clock.advance(10 * MINUTE)

    text, document = explain(shop)

    assert "Its last delivery has expired" in text
    assert document["remedies"] == ["ys worker"]


def test_what_a_worker_handed_back_is_not_told_as_its_death(shop: Shop) -> None:
    """spec K2: its grace was over; the claim stays until the process is seen to be gone."""
    shop.admit()
    shop.claim()
    assert shop.worker_number is not None
    shop.storage.workers.stop(shop.worker_number, how="handed back")

    gone = Crew(rows=tuple(shop.storage.workers.all()))
    record = shop.storage.executions.get("order-42")
    assert record is not None
    verdict = judge(gather(shop.storage, record, gone, NOON), Times(NOON, "utc"))

    assert "worker shop:4412 stopped before the step had ended" in verdict.headline


def test_a_worker_that_stopped_just_now_was_not_unseen_for_no_time(shop: Shop) -> None:
    shop.admit()
    shop.storage.workers.stop(shop.start_worker(), how="stopped")

    text, _ = explain(shop)

    assert "No worker is running now (last: shop:4412, stopped)." in text


def test_a_hold_for_the_code_is_stuck_with_the_reason(shop: Shop) -> None:
    """B70."""
    shop.admit()
    claimed = shop.claim()
    shop.storage.executions.release(
        claimed.delivery, problem=("DIVERGED", "recorded a, asked b"), held=True, module="1"
    )

    text, document = explain(shop)

    assert "until its module's file changes (DIVERGED)" in text
    assert "recorded a, asked b" in text
    assert document["verdict"] == "stuck"
    assert document["remedies"] == ["ys wake order-42"]


def test_a_hold_for_a_while_says_until_when(shop: Shop) -> None:
    shop.admit()
    claimed = shop.claim()
    shop.storage.executions.release(
        claimed.delivery, problem=("DATABASE", "x"), held=True, held_until=NOON + MINUTE
    )

    text, document = explain(shop)

    assert "It is held until 12:01:00, in 1m00s (DATABASE)." in text
    assert document["earliest_at"] == "2026-11-30T12:01:00.000Z"


def test_a_poisoned_one_is_stuck(shop: Shop) -> None:
    """B15, spec L5."""
    shop.admit()
    for number in range(5):
        worker = shop.start_worker(f"shop:{number}", alone=True)
        claimed = _claim_suspect(shop, worker)
        shop.storage.workers.bury(worker, "died", {claimed: shop.clock.now_ms()}, max_deaths=5)
        shop.clock.advance(10 * MINUTE)

    text, document = explain(shop)

    assert "It is parked as poisoned" in text
    assert document["verdict"] == "stuck"
    assert document["remedies"] == ["ys wake order-42"]


def _claim_suspect(shop: Shop, worker: int) -> int:
    for suspects in (False, True):
        found = shop.storage.deliveries.claim(
            shop.clock.now_ms(),
            worker=worker,
            limit=1,
            workflows=[("charge-order", 1)],
            suspects=suspects,
        )
        if found:
            return found[0].delivery.number
    raise AssertionError("not claimed")


def test_a_workflow_that_no_live_worker_has_is_stuck_with_the_broken_file(shop: Shop) -> None:
    """spec E12, B68."""
    worker = shop.start_worker(workflows=[("hello", 1)])
    shop.storage.workers.describe(worker, [("hello", 1)], [("charge_order.py", "line 3: no")])
    shop.admit()

    text, document = explain(shop)

    assert "No live worker has loaded charge-order" in text
    assert "charge_order.py does not load: line 3: no" in text
    assert document["verdict"] == "stuck"


def test_those_that_go_first_are_counted(shop: Shop) -> None:
    shop.start_worker(lease_until_at=NOON + 10 * MINUTE)
    for number in range(3):
        shop.admit(f"earlier-{number}")
    shop.clock.advance(1_000)
    shop.admit()
    shop.clock.advance(2_000)

    text, document = explain(shop)

    assert "3 others have been due for longer and go first." in text
    assert document["verdict"] == "fine"


def test_an_execution_admitted_for_later_says_when_it_starts(shop: Shop) -> None:
    shop.admit(at=NOON + 10 * MINUTE)

    assert "it starts 12:10:00, in 10m00s." in explain(shop)[0]


def test_waiting_for_nothing_needs_a_wake(shop: Shop) -> None:
    """case 54."""
    shop.admit()
    shop.deliver(outcome=Suspended(None))

    text, document = explain(shop)

    assert "waiting for nothing (needs an external wake)" in text
    assert document["remedies"] == ["ys wake order-42"]


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Completed("1"), "order-42 completed at 12:00:00"),
        (Failed(encode_error(ValueError("no funds"))), "ValueError: no funds"),
    ],
)
def test_an_ended_one_says_how(shop: Shop, outcome: Completed | Failed, words: str) -> None:
    shop.admit()
    shop.deliver(outcome=outcome)

    text, document = explain(shop)

    assert words in text
    assert (document["verdict"], document["waits"]) == ("fine", [])
    again = ["ys show order-42", "ys trigger charge-order --id …"]
    assert document["remedies"] == (again if isinstance(outcome, Failed) else [])


def test_every_remedy_names_a_command_that_exists(shop: Shop) -> None:
    """No hint names a command that is not built."""
    from yieldstar_cli.cli.verbs import NAMES

    shop.admit("a")
    shop.admit("b")
    shop.deliver("b", outcome=Suspended(None))
    for name in ("a", "b"):
        for remedy in explain(shop, name)[1]["remedies"]:
            assert remedy.split()[1] in NAMES
