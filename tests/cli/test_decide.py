"""`ys approve` and `ys reject`: the commonest message, where it is awaited."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.cli.conftest import MINUTE, Shop
from yieldstar_cli.model import Completed, Suspended, Wait

HOSTILE = "\x1b[31mred\u202e"


@pytest.fixture
def refund(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """refund-7 waits for a decision; ann is at the keyboard, and a worker is there."""
    monkeypatch.setenv("LOGNAME", "ann")
    waiting(shop, "refund-7", [message("decision"), message("cancel")])
    return shop


def message(queue: str) -> Wait:
    return Wait("message", queue, "", 0, None, "waiting", queue=queue)


def waiting(shop: Shop, execution_id: str, waits: Sequence[Wait]) -> None:
    shop.admit(execution_id, "refund")
    shop.start_worker(f"w-{execution_id}", [("refund", 1)])
    shop.deliver(execution_id, waits=waits, outcome=Suspended())


def values(shop: Shop, execution_id: str = "refund-7") -> list[tuple[str, str]]:
    return [(m.queue, m.value) for m in shop.storage.inbox.messages(execution_id)]


@pytest.mark.parametrize(
    ("verb", "ok", "word"), [("approve", "true", "Approved"), ("reject", "false", "Rejected")]
)
def test_a_decision_is_sent_and_wakes_who_waits(
    refund: Shop, verb: str, ok: str, word: str
) -> None:
    """spec M1, M4."""
    said = refund.screen(verb, "refund-7", "--note", "as agreed")

    assert (said.code, said.out, said.err) == (0, f"✓ {word} refund-7.\n", "")
    assert values(refund) == [("decision", f'{{"ok":{ok},"by":"ann","note":"as agreed"}}')]
    record = refund.storage.executions.get("refund-7")
    assert record is not None
    assert record.due_at == refund.clock.now_ms()


def test_without_a_note_there_is_none_and_programs_get_the_answer(refund: Shop) -> None:
    document = refund.ys("approve", "refund-7", "--json").json

    assert values(refund) == [("decision", '{"ok":true,"by":"ann"}')]
    assert document == {
        "schema": "ys.answer/1",
        "execution_id": "refund-7",
        "queue": "decision",
        "answer": "delivered",
    }
    waiting(refund, "refund-8", [message("decision")])
    assert refund.ys("reject", "refund-8").out == "refund-8\tdelivered\n"


def test_where_no_decision_is_awaited_it_is_said_what_is(refund: Shop) -> None:
    """It is six, and nothing is sent."""
    waits = [
        message("cancel"),
        Wait("child", "charge", "", 0, None, "waiting", position=1, target="charge-7"),
        Wait("timer", "timer", "15m", 0, 2**41, "waiting", position=2),
        Wait("step", "mail", "", 0, None, "waiting", position=3),
    ]
    waiting(refund, "refund-8", waits)

    said = refund.ys("approve", "refund-8")
    document = refund.ys("approve", "refund-8", "--json")

    assert (said.code, said.out) == (6, "")
    assert said.err == (
        "✗ execution 'refund-8' waits for no decision.\n"
        "  It waits for a message on cancel, the end of charge-7, timer (15m) and 1 more.\n"
        "  Nothing was sent.\n"
        "  → ys explain refund-8\n"
    )
    assert document.error["code"] == "NO_DECISION_AWAITED"
    assert values(refund, "refund-8") == []


def test_what_has_not_begun_waits_for_nothing_yet(refund: Shop) -> None:
    refund.admit("refund-8", "refund")

    said = refund.ys("reject", "refund-8")

    assert said.code == 6
    assert "It has not begun yet." in said.err


def test_a_decision_that_is_there_is_not_sent_again(refund: Shop) -> None:
    """Two people decide at once: the second one is told."""
    refund.ys("approve", "refund-7")
    refund.clock.advance(MINUTE)

    said = refund.ys("reject", "refund-7")

    assert said.code == 6
    assert "a decision for execution 'refund-7' was sent 1m ago" in said.err
    assert "ys messages refund-7 --queue decision" in said.err
    assert values(refund) == [("decision", '{"ok":true,"by":"ann"}')]


def test_an_ended_one_and_an_unknown_one_are_refused(refund: Shop) -> None:
    """cases 258, 255: nothing is buffered for a slip of the keyboard."""
    refund.admit("refund-6", "refund")
    refund.deliver("refund-6", outcome=Completed("null"))

    ended = refund.ys("approve", "refund-6", "--json")
    unknown = refund.ys("approve", "refund-9")

    assert (ended.code, ended.error["code"]) == (6, "EXECUTION_TERMINAL")
    assert unknown.code == 4
    assert "Nearest: refund-" in unknown.err
    assert values(refund, "refund-9") == []


def test_one_execution_is_decided_at_a_time(refund: Shop) -> None:
    assert refund.ys("approve").code == 2
    assert refund.ys("approve", "refund-7", "refund-8").code == 2
    assert values(refund) == []


def test_a_note_and_a_queue_are_shown_and_never_interpreted(refund: Shop) -> None:
    """spec K6."""
    waiting(refund, "refund-8", [message("\u202eevil")])

    refused = refund.screen("approve", "refund-8")
    refund.ys("approve", "refund-7", "--note", HOSTILE)
    shown = refund.screen("messages", "refund-7")

    assert "a message on \\u202eevil" in refused.err
    assert 'note="\\u001b[31mred\\u202e"' in shown.out
    assert "\x1b[31m" not in shown.out


def test_a_note_that_is_no_text_is_usage(refund: Shop) -> None:
    said = refund.ys("approve", "refund-7", "--note", "\udcff")

    assert said.code == 2
    assert values(refund) == []


def test_a_missing_worker_is_pointed_out(refund: Shop) -> None:
    refund.clock.advance(MINUTE)

    said = refund.screen("approve", "refund-7")

    assert said.err == "  No worker is running on this database. Start one:  ys worker\n"
