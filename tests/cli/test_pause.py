"""`ys pause` and `ys resume`: one execution, a workflow, everything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import MINUTE, Shop
from yieldstar_cli.model import Completed, ExecutionRecord, Paused

HOSTILE = "\x1b[31mred\u202e"


@pytest.fixture
def orders(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """order-40 has completed, order-42 sleeps; ann is at the keyboard."""
    monkeypatch.setenv("LOGNAME", "ann")
    shop.admit("order-40")
    shop.deliver("order-40", outcome=Completed("null"))
    shop.sleeping("order-42")
    return shop


def record_of(shop: Shop, execution_id: str = "order-42") -> ExecutionRecord:
    record = shop.storage.executions.get(execution_id)
    assert record is not None
    return record


def claimable(shop: Shop) -> list[str]:
    return [d.execution_id for d in shop.storage.executions.claim_due(now=2**41)]


def test_a_paused_execution_is_not_claimed_until_it_is_resumed(orders: Shop) -> None:
    """spec E14: a wake and a message are taken as usual."""
    paused = orders.ys("pause", "order-42", "--reason", "the bank is down")
    orders.ys("wake", "order-42")
    orders.ys("send", "order-42", "cancel")

    assert (paused.code, paused.out, paused.err) == (0, "order-42\tpaused\n", "")
    assert record_of(orders).paused == Paused(
        "execution", "ann", orders.clock.now_ms(), "the bank is down"
    )
    assert claimable(orders) == []

    resumed = orders.ys("resume", "order-42")

    assert (resumed.code, resumed.out) == (0, "order-42\tresumed\n")
    assert claimable(orders) == ["order-42"]


def test_the_answers_are_told_for_people_and_programs(orders: Shop) -> None:
    paused = orders.screen("pause", "order-42", "--reason", "the bank is down")
    orders.clock.advance(4 * MINUTE)
    again = orders.screen("pause", "order-42")
    document = orders.ys("pause", "order-42", "--json").json
    resumed = orders.screen("resume", "order-42")
    never = orders.screen("resume", "order-42")

    assert paused.out == ("✓ Paused order-42. No delivery of it begins; steps that run end.\n")
    assert again.out == "· order-42 was paused already, by ann 4m ago: the bank is down.\n"
    assert document == {
        "schema": "ys.answer/1",
        "execution_id": "order-42",
        "answer": "unchanged",
    }
    assert resumed.out == "✓ Resumed order-42.\n"
    assert never.out == "· order-42 was not paused.\n"
    assert {paused.code, again.code, resumed.code, never.code} == {0}


def test_a_workflow_is_paused_as_a_whole(orders: Shop) -> None:
    """spec E14."""
    orders.admit("refund-7", "refund")

    screen = orders.screen("pause", "--workflow", "charge-order")
    claimed = claimable(orders)
    document = orders.ys("resume", "--workflow", "charge-order", "--json").json

    assert screen.out == (
        "✓ Paused workflow charge-order. No delivery of it begins; steps that run end.\n"
    )
    assert claimed == ["refund-7"]
    assert orders.screen("resume", "--workflow", "charge-order").out == (
        "· Workflow charge-order was not paused.\n"
    )
    assert document == {
        "schema": "ys.answer/1",
        "execution_id": None,
        "scope": "workflow",
        "workflow_id": "charge-order",
        "answer": "resumed",
    }
    assert claimable(orders) == ["order-42"]


def test_everything_is_paused_and_resumed(orders: Shop) -> None:
    """spec E14."""
    pipe = orders.ys("pause", "--all", "--reason", "moving house")
    screen = orders.screen("pause", "--all")
    claimed = claimable(orders)
    resumed = orders.screen("resume", "--all")
    never = orders.screen("resume", "--all")

    assert pipe.out == "*\tpaused\n"
    assert screen.out == "· Everything was paused already, by ann 0 ms ago: moving house.\n"
    assert claimed == []
    assert resumed.out == "✓ Resumed everything.\n"
    assert never.out == "· There was no pause of everything.\n"
    assert claimable(orders) == ["order-42"]


def test_what_is_paused_twice_says_so_when_resumed_once(orders: Shop) -> None:
    """spec E14: each mark is taken away by itself."""
    orders.ys("pause", "order-42")
    orders.ys("pause", "--workflow", "charge-order", "--reason", "the bank is down")

    first = orders.screen("resume", "order-42")
    second = orders.screen("resume", "order-42")
    orders.ys("resume", "--workflow", "charge-order")
    orders.ys("pause", "--all")
    third = orders.screen("resume", "order-42")

    hint = (
        "  The workflow charge-order is paused, by ann 0 ms ago: the bank is down.\n"
        "  Go on:  ys resume --workflow charge-order\n"
    )
    assert (first.out, first.err) == ("✓ Resumed order-42.\n", hint)
    assert (second.out, second.err) == ("· order-42 was not paused.\n", hint)
    assert third.err.endswith("  Go on:  ys resume --all\n")


def test_what_is_asked_of_a_paused_one_is_taken_and_said_to_wait(
    orders: Shop, charge_order: Callable[[], Path]
) -> None:
    """spec E14: triggered, woken and sent to as usual."""
    charge_order()
    orders.ys("pause", "order-42")
    own = orders.screen("send", "order-42", "cancel")
    woken = orders.screen("wake", "order-42")
    orders.ys("pause", "--workflow", "charge-order", "--reason", HOSTILE)

    triggered = orders.screen("trigger", "charge-order", "--id", "order-43", "-p", "order=43")

    assert "  It is paused, by ann 0 ms ago.\n  Go on:  ys resume order-42\n" in own.err
    assert woken.err == "  It is paused, by ann 0 ms ago.\n  Go on:  ys resume order-42\n"
    assert triggered.code == 0
    assert triggered.err == (
        "  The workflow charge-order is paused, by ann 0 ms ago: \\x1b[31mred\\u202e.\n"
        "  Go on:  ys resume --workflow charge-order\n"
    )


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_one_that_has_ended_is_refused(orders: Shop, verb: str) -> None:
    """case 283."""
    single = orders.ys(verb, "order-40", "--json")
    several = orders.ys(verb, "order-42", "order-40")

    assert (single.code, single.out) == (6, "")
    assert single.error["code"] == "EXECUTION_TERMINAL"
    assert single.error["why"] == ["It completed 31 ms ago.", "Nothing was changed."]
    assert several.code == 6
    assert several.out.endswith("order-40\tignored\n")


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_an_unknown_id_is_four_and_changes_nothing(orders: Shop, verb: str) -> None:
    said = orders.ys(verb, "order-42", "nope")

    assert (said.code, said.out) == (4, "")
    assert record_of(orders).paused is None


@pytest.mark.parametrize("verb", ["pause", "resume"])
@pytest.mark.parametrize(
    "words",
    [
        (),
        ("order-42", "--all"),
        ("--workflow", "charge-order", "--all"),
        ("--id=order-42", "--workflow", "charge-order"),
    ],
)
def test_it_is_about_one_kind_of_thing(orders: Shop, verb: str, words: tuple[str, ...]) -> None:
    said = orders.ys(verb, *words)

    assert said.code == 2
    many = "give one of IDs, --workflow W and --all, not several"
    assert (many if words else "Give IDs, --workflow W, or --all") in said.err


def test_a_slip_in_a_workflows_name_names_the_nearest_and_triggers_nothing(orders: Shop) -> None:
    orders.module(
        "charge.py",
        "from yieldstar_cli import Step, workflow\n\n\n"
        "@workflow\nasync def charge_order(step: Step) -> None:\n    return None\n",
    )

    said = orders.ys("pause", "--workflow", "charge-ordr")

    assert said.code == 4
    assert "Did you mean charge-order?" in said.err
    assert "Nothing was changed." in said.err
    assert "ys trigger" not in said.err


def test_a_workflow_that_nobody_knows_is_four_with_the_nearest(
    orders: Shop, charge_order: Callable[[], Path]
) -> None:
    """spec K4: a slip would pause nothing."""
    charge_order()

    said = orders.ys("pause", "--workflow", "charge-ordr")

    assert (said.code, said.out) == (4, "")
    assert "Did you mean charge-order?" in said.err
    assert orders.storage.steering.pauses() == []


def test_a_workflow_that_was_never_triggered_can_be_paused(
    shop: Shop, charge_order: Callable[[], Path]
) -> None:
    charge_order()

    assert shop.ys("pause", "--workflow", "charge-order").code == 0


def test_a_workflow_whose_module_is_gone_can_be_paused_and_resumed(
    orders: Shop, charge_order: Callable[[], Path]
) -> None:
    """Its executions are there, and so is its mark."""
    charge_order().unlink()

    assert orders.ys("pause", "--workflow", "charge-order").code == 0
    assert orders.ys("resume", "--workflow", "charge-order").code == 0


@pytest.mark.parametrize("name", ["", "9", "a b", HOSTILE])
def test_what_is_no_name_of_a_workflow_is_refused(orders: Shop, name: str) -> None:
    said = orders.ys("pause", "--workflow", name)

    assert said.code == 5
    assert "\x1b[31m" not in said.err


def test_a_reason_and_a_name_are_shown_and_never_interpreted(
    orders: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec K6."""
    monkeypatch.setenv("LOGNAME", f"ann{HOSTILE}")
    orders.ys("pause", "order-42", "--reason", HOSTILE)

    said = orders.screen("pause", "order-42")
    other = orders.screen("resume", "order-42")

    assert said.out == (
        "· order-42 was paused already, by ann\\x1b[31mred\\u202e 0 ms ago: \\x1b[31mred\\u202e.\n"
    )
    assert other.code == 0


def test_ids_come_from_stdin(orders: Shop) -> None:
    orders.sleeping("order-43")

    said = orders.screen("pause", "order-42", "order-43")
    pipe = orders.ys("resume", "-", stdin="order-42\norder-43\n")
    nothing = orders.ys("resume", "-", "--json", stdin="")

    assert said.err == "2 paused.\n"
    assert pipe.out == "order-42\tresumed\norder-43\tresumed\n"
    assert (nothing.code, nothing.json) == (0, [])
