"""`ys cancel`: by ID, by filter, at once."""

from __future__ import annotations

import os
import sys

import pexpect
import pytest

from tests.cli.conftest import MINUTE, Shop
from yieldstar_cli.clock import SystemClock
from yieldstar_cli.failures import encode_error
from yieldstar_cli.model import CancelledOutcome, Completed, ExecutionRecord, Failed, Status

HOSTILE = "\x1b[31mred\u202e"


@pytest.fixture
def orders(shop: Shop) -> Shop:
    """order-40 completed, order-41 failed, order-42 sleeps, order-43 has not begun."""
    shop.admit("order-40")
    shop.deliver("order-40", outcome=Completed("null"))
    shop.admit("order-41")
    shop.deliver("order-41", outcome=Failed(encode_error(ValueError("secret 1234"))))
    shop.sleeping("order-42")
    shop.admit("order-43", params={"order": 43})
    return shop


def record_of(shop: Shop, execution_id: str = "order-42") -> ExecutionRecord:
    record = shop.storage.executions.get(execution_id)
    assert record is not None
    return record


# --- by ID ---------------------------------------------------------------------------------------


def test_a_cancel_is_a_request_and_a_wake(orders: Shop) -> None:
    """spec C6."""
    said = orders.ys("cancel", "order-42", "--reason", "no longer wanted")

    assert (said.code, said.out, said.err) == (0, "order-42\trequested\n", "")
    record = record_of(orders)
    assert record.status is Status.SUSPENDED
    assert record.cancel is not None
    assert record.cancel.reason == "no longer wanted"
    assert record.due_at == orders.clock.now_ms()


def test_the_answer_is_told_for_people_and_programs(orders: Shop) -> None:
    screen = orders.screen("cancel", "order-42")
    begun = orders.screen("cancel", "order-43")
    now = orders.screen("cancel", "order-42", "--now")
    orders.sleeping("order-44")
    document = orders.ys("cancel", "order-44", "--json").json

    assert screen.out == (
        "✓ Cancel of order-42 requested. Its function is told at its next delivery.\n"
    )
    assert begun.out == "✓ Cancelled order-43: it had not begun.\n"
    assert now.out == "✓ Cancelled order-42 at once; no clean-up ran.\n"
    assert document == {
        "schema": "ys.answer/1",
        "execution_id": "order-44",
        "answer": "requested",
    }


def test_what_never_began_is_cancelled_at_once_and_its_id_stays_taken(orders: Shop) -> None:
    """cases 270, 282; spec C6, E3."""
    said = orders.ys("cancel", "order-43", "--reason", "twice ordered")

    assert said.out == "order-43\tcancelled\n"
    record = record_of(orders, "order-43")
    assert record.outcome == CancelledOutcome("twice ordered")
    assert record.due_at is None
    again = orders.ys("trigger", "charge-order", "--id", "order-43")
    assert again.code == 3
    assert "It is cancelled." in again.err


def test_now_ends_it_at_once(orders: Shop) -> None:
    """spec C6."""
    said = orders.ys("cancel", "order-42", "--now", "--reason", "enough")

    assert said.out == "order-42\tcancelled\n"
    assert record_of(orders).outcome == CancelledOutcome("enough")


def test_one_that_has_ended_is_refused_and_it_is_said_how_it_ended(orders: Shop) -> None:
    """cases 273, 283."""
    orders.clock.advance(3 * MINUTE)

    completed = orders.ys("cancel", "order-40")
    failed = orders.ys("cancel", "order-41", "--json")

    assert (completed.code, completed.out) == (6, "")
    assert completed.err == (
        "✗ execution 'order-40' has ended: completed.\n"
        "  It completed 3m ago.\n"
        "  Nothing was changed.\n"
        "  → ys show order-40\n"
    )
    assert failed.error["code"] == "EXECUTION_TERMINAL"
    assert failed.error["why"] == ["It failed 3m ago with ValueError.", "Nothing was changed."]
    assert "1234" not in failed.err


def test_again_is_the_same_request_with_its_first_reason(orders: Shop) -> None:
    """case 275."""
    orders.ys("cancel", "order-42", "--reason", "first")
    orders.clock.advance(2 * MINUTE)

    said = orders.screen("cancel", "order-42", "--reason", "second")

    assert (said.code, said.out) == (
        0,
        "· Cancel of order-42 was requested 2m ago already.\n",
    )
    found = record_of(orders).cancel
    assert found is not None
    assert found.reason == "first"


def test_after_it_has_been_cancelled_so_is_nothing_more(orders: Shop) -> None:
    """cases 275, 283: a second cancel, a wake and a message change nothing."""
    orders.ys("cancel", "order-42", "--now", "--reason", HOSTILE)

    again = orders.ys("cancel", "order-42", "--now")
    wake = orders.ys("wake", "order-42")
    message = orders.ys("send", "order-42", "cancel")

    assert (again.code, message.code) == (6, 6)
    assert "It was cancelled 0 ms ago: \\x1b[31mred\\u202e." in again.err
    assert wake.out == "order-42\tignored\n"


def test_an_unknown_id_is_four_and_nothing_is_cancelled(orders: Shop) -> None:
    """case 274."""
    said = orders.ys("cancel", "order-42", "order-4")

    assert (said.code, said.out) == (4, "")
    assert "Nearest: order-4" in said.err
    assert record_of(orders).cancel is None


def test_an_id_is_never_completed_where_something_is_cancelled(orders: Shop) -> None:
    orders.sleeping("refund-7")

    assert orders.screen("cancel", "refu").code == 4


def test_several_are_answered_each_and_an_ended_one_among_them_is_six(orders: Shop) -> None:
    pipe = orders.ys("cancel", "order-42", "order-40", "order-43")
    orders.sleeping("order-44")
    document = orders.ys("cancel", "-", "--json", stdin="order-44\norder-40\n")
    screen = orders.screen("cancel", "order-44", "order-41")

    assert pipe.code == 6
    assert pipe.out == "order-42\trequested\norder-40\tignored\norder-43\tcancelled\n"
    assert document.code == 6
    assert [answer["answer"] for answer in document.json] == ["requested", "ignored"]
    assert "· Cancel of order-41 ignored: it had ended.\n" in screen.out
    assert "1 requested, 1 had ended.\n" in screen.err


def test_a_failed_list_can_be_piped_in(orders: Shop) -> None:
    listed = orders.ys("list", "-q", "--status", "suspended,admitted").out

    said = orders.ys("cancel", "-", stdin=listed)

    assert sorted(said.out.splitlines()) == ["order-42\trequested", "order-43\tcancelled"]
    assert orders.ys("cancel", "-", "--json", stdin="").json == []


def test_the_reason_is_shown_and_never_interpreted(orders: Shop) -> None:
    """case 280; spec K6."""
    orders.ys("cancel", "order-43", "--reason", HOSTILE)

    waited = orders.screen("wait", "order-43")
    document = orders.ys("show", "order-43", "--json")

    assert "\x1b[31m" not in waited.out + document.out
    assert "\\x1b[31mred\\u202e" in waited.out
    assert document.json["outcome"]["reason"] == HOSTILE


def test_a_reason_that_is_no_text_is_usage(orders: Shop) -> None:
    """Bytes that are not UTF-8 reach a program as lone surrogates."""
    said = orders.ys("cancel", "order-42", "--reason", "\udcff")

    assert said.code == 2
    assert "--reason" in said.err
    assert record_of(orders).cancel is None


def test_where_nothing_is_delivered_the_way_out_is_named(orders: Shop) -> None:
    """spec C6: held, poisoned and paused executions keep the request waiting."""
    orders.ys("pause", "order-42")

    said = orders.screen("cancel", "order-42")

    assert said.err == "  It is paused, so that waits. At once:  ys cancel order-42 --now\n"
    assert orders.ys("cancel", "order-42", "--now").out == "order-42\tcancelled\n"


def test_a_missing_worker_is_pointed_out_where_one_must_do_it(shop: Shop) -> None:
    shop.sleeping()
    shop.clock.advance(MINUTE)

    said = shop.screen("cancel", "order-42")
    now = shop.screen("cancel", "order-42", "--now")

    assert said.err == "  No worker is running on this database. Start one:  ys worker\n"
    assert now.err == ""


# --- by filter -----------------------------------------------------------------------------------


def test_a_filter_takes_open_ones_and_asks_for_several(orders: Shop) -> None:
    """Without a terminal nobody can be asked."""
    refused = orders.ys("cancel", "--workflow", "charge-order")
    done = orders.ys("cancel", "--workflow", "charge-order", "--yes")

    assert refused.code == 2
    assert "Cancel 2 executions? Say so with --yes" in refused.err
    assert done.code == 0
    assert sorted(done.out.splitlines()) == ["order-42\trequested", "order-43\tcancelled"]
    assert record_of(orders, "order-40").status is Status.COMPLETED


def test_a_refused_filter_changes_nothing(orders: Shop) -> None:
    orders.ys("cancel", "--status", "suspended,admitted")

    assert record_of(orders).cancel is None
    assert record_of(orders, "order-43").status is Status.ADMITTED


def test_one_by_filter_needs_no_question(orders: Shop) -> None:
    said = orders.ys("cancel", "--where", "order=43", "--json")

    assert said.code == 0
    assert said.json == [
        {"schema": "ys.answer/1", "execution_id": "order-43", "answer": "cancelled"}
    ]
    assert record_of(orders).cancel is None


def test_filters_narrow_one_another(orders: Shop) -> None:
    said = orders.ys("cancel", "--workflow", "charge-order", "--status", "admitted")
    other = orders.screen("cancel", "--workflow", "refund")

    assert said.out == "order-43\tcancelled\n"
    assert (other.code, other.out) == (0, "")
    assert other.err == "No open execution matches. Nothing was changed.\n"


def test_a_limit_says_what_it_leaves_out(orders: Shop) -> None:
    orders.sleeping("order-44")

    said = orders.ys("cancel", "--workflow", "charge-order", "--limit", "2", "-y")

    assert len(said.out.splitlines()) == 2
    assert said.err == "More than 2 match; --limit takes 2 of them.\n"
    open_ones = orders.ys("list", "-q", "--status", "suspended,admitted").out.split()
    assert sum(record_of(orders, name).cancel is None for name in open_ones) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "which execution?"),
        (("order-42", "--workflow", "charge-order"), "give IDs or a filter, not both"),
        (("--status", "failed"), "Others have ended"),
        (("--status", "suspendd"), "--status is admitted or suspended"),
        (("--where", "order"), "--where takes NAME=VALUE"),
        (("--limit", "0", "--workflow", "x"), "0"),
    ],
)
def test_words_that_do_not_fit_together_are_usage(
    orders: Shop, words: tuple[str, ...], said: str
) -> None:
    refused = orders.ys("cancel", *words)

    assert refused.code == 2
    assert said in refused.err


def test_a_dry_run_says_what_would_be_done(orders: Shop) -> None:
    plan = orders.ys("cancel", "order-42", "order-43", "order-40", "-n", "--json").json
    screen = orders.screen("cancel", "--workflow", "charge-order", "--now", "--dry-run")
    pipe = orders.ys("cancel", "--where", "order=43", "-n")

    assert plan == {
        "schema": "ys.plan/1",
        "would": [
            {"execution_id": "order-42", "change": "requested"},
            {"execution_id": "order-43", "change": "cancelled"},
            {"execution_id": "order-40", "change": "ignored"},
        ],
        "bytes": 0,
    }
    assert sorted(screen.out.splitlines()) == [
        "2 in all. Nothing was changed.",
        "Would cancel order-42 at once, without clean-up.",
        "Would cancel order-43 at once, without clean-up.",
    ]
    assert pipe.out == "order-43\tcancelled\n"
    assert record_of(orders).cancel is None
    assert record_of(orders, "order-43").status is Status.ADMITTED


def test_a_dry_run_tells_a_request_from_an_end_and_what_was_asked_already(orders: Shop) -> None:
    orders.ys("cancel", "order-42")
    orders.sleeping("order-44")

    plan = orders.screen("cancel", "order-42", "order-43", "order-44", "order-40", "-n")

    assert plan.out.splitlines() == [
        "order-42 was asked to cancel already.",
        "Would cancel order-43: it has not begun.",
        "Would ask order-44 to cancel.",
        "Would leave order-40 as it is: it has ended.",
        "4 in all. Nothing was changed.",
    ]


def test_a_dry_run_that_matches_nothing_says_so(orders: Shop) -> None:
    """A slip in the filter is no empty plan."""
    plan = orders.screen("cancel", "--workflow", "charge-ordr", "-n")

    assert plan.out == "No open execution matches. Nothing was changed.\n"


def test_one_unknown_id_among_several_changes_nothing_and_says_so(orders: Shop) -> None:
    said = orders.ys("cancel", "order-42", "order-99")

    assert said.code == 4
    assert "Nothing was changed, of the others neither." in said.err
    assert record_of(orders).cancel is None


# --- asking --------------------------------------------------------------------------------------


def asked(shop: Shop, *words: str, answer: str) -> tuple[str, int]:
    """What a terminal shows of `ys cancel`, and its status, after this answer."""
    child = pexpect.spawn(
        sys.executable,
        ["-m", "yieldstar_cli", "cancel", *words],
        cwd=str(shop.root),
        env={**os.environ, "TERM": "xterm", "PYTHONUTF8": "1", "NO_COLOR": "1"},
        encoding="utf-8",
        timeout=30,
    )
    child.expect_exact("[y/N] ")
    question = child.before
    child.sendline(answer)
    said = child.read()
    child.close()
    return question + said, child.exitstatus


@pytest.mark.parametrize("answer", ["", "n", "nope"])
def test_whoever_says_no_changes_nothing(orders: Shop, answer: str) -> None:
    orders.clock.set(SystemClock().now_ms())

    said, status = asked(orders, "--workflow", "charge-order", answer=answer)

    assert "Cancel 2 executions? " in said
    assert "Nothing was changed." in said
    assert status == 0
    assert record_of(orders).cancel is None


def test_whoever_says_yes_cancels_them(orders: Shop) -> None:
    orders.clock.set(SystemClock().now_ms())

    said, status = asked(orders, "--workflow", "charge-order", "--now", answer="y")

    assert "Cancel 2 executions at once, without clean-up? " in said
    assert "✓ Cancelled order-42 at once; no clean-up ran." in said
    assert "2 cancelled." in said
    assert status == 0
    assert record_of(orders).status is Status.CANCELLED
