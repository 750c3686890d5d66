"""`ys explain` follows a wait to its leaf: messages, executions, tags, pauses, cancels."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.conftest import MINUTE, NOON, Shop
from tests.cli.family import WORKFLOWS, end_of, family, fan_out, message, rest, timer
from tests.cli.test_explain import explain
from yieldstar_cli.failures import encode_error
from yieldstar_cli.model import Completed, Failed, Wait


def admit(shop: Shop, *execution_ids: str) -> None:
    """Executions that the others can wait for: what does not exist is ready at once."""
    for execution_id in execution_ids:
        shop.admit(execution_id)


def test_a_race_is_listed_with_what_stands_behind_each(
    shop: Shop, snapshot: SnapshotAssertion
) -> None:
    """The first of three things: a message, a child and its own wait, a timer."""
    family(shop)
    shop.storage.inbox.send("order-43", "other", "1", ttl_ms=MINUTE)

    assert shop.screen("explain", "order-43").out == snapshot
    assert shop.ys("explain", "order-43", "--json").json == snapshot


def test_a_message_wait_names_the_command_that_sends_one(shop: Shop) -> None:
    """spec M4: only a message in that queue ends it."""
    rest(shop, "order-43", [message("cancel", label="Cancel")])

    text, document = explain(shop, "order-43")

    assert 'Waiting for message "cancel" (Cancel): none has come.' in text
    assert document["verdict"] == "fine"
    assert document["earliest_at"] is None
    assert document["remedies"] == ["ys send order-43 cancel …"]


def test_a_decision_is_answered_by_approve_and_reject(shop: Shop) -> None:
    rest(shop, "refund-7", [message("decision", label="Decision")])

    assert explain(shop, "refund-7")[1]["remedies"] == ["ys approve refund-7", "ys reject refund-7"]


def test_a_message_that_waits_to_be_read_is_ready(shop: Shop) -> None:
    """Several waits on one queue: the one that began to wait first takes the first message."""
    rest(
        shop,
        "a",
        [
            message("q"),
            Wait("message", "q#2", "", 0, None, "waiting", position=1, queue="q"),
        ],
    )
    shop.storage.inbox.send("a", "q", "1", ttl_ms=MINUTE)

    waits = explain(shop, "a")[1]["waits"]

    assert [wait["ready"] for wait in waits] == [True, False]


def test_a_chain_is_followed_to_its_end(shop: Shop) -> None:
    """A child of a child of a child, and the message that it waits for."""
    rest(shop, "a", [end_of("a/b")], starts=["a/b"])
    rest(shop, "a/b", [end_of("a/b/c")], starts=["a/b/c"])
    rest(shop, "a/b/c", [message("go")])

    text, document = explain(shop, "a")

    assert "Waiting for child a/b: suspended; it waits for child a/b/c: suspended;" in text
    assert 'it waits for message "go": none has come' in text
    assert document["waits"][0]["on"]["waits"][0]["on"]["waits"][0]["on"]["queue"] == "go"
    assert document["remedies"] == ["ys send a/b/c go"]


def test_that_no_worker_runs_is_said_once_of_a_chain(shop: Shop) -> None:
    """Its child lacks one for the same reason, and one line starts it."""
    admit(shop, "b")
    rest(shop, "a", [end_of("b")])
    (row,) = shop.storage.workers.all(living=True)
    shop.storage.workers.bury(row.number, "stopped", {}, max_deaths=3)

    text, document = explain(shop, "a")

    assert text.count("No worker ") == 1
    assert document["remedies"] == ["ys worker"]


def test_a_failure_whose_message_ends_with_a_stop_is_given_no_second(shop: Shop) -> None:
    shop.admit("a")
    shop.deliver("a", outcome=Failed(encode_error(ValueError("did you mean b?"))))

    text, _ = explain(shop, "a")

    assert "did you mean b? → See where:" in text


def test_the_earliest_wake_may_be_anothers(shop: Shop) -> None:
    admit(shop, "a", "b", "c")
    rest(shop, "a", [end_of("b")])
    rest(shop, "b", [end_of("c")])
    rest(shop, "c", [timer(NOON + 5 * MINUTE)])

    assert "Earliest wake: 12:05:00, when c's timer fires." in explain(shop, "a")[0]
    assert explain(shop, "a")[1]["earliest_at"] == "2026-11-30T12:05:00.000Z"


def test_a_true_cycle_is_stuck_and_is_reported(shop: Shop) -> None:
    """B54: executions that wait for each other end only if somebody ends one."""
    admit(shop, "a", "b", "c")
    rest(shop, "a", [end_of("b")])
    rest(shop, "b", [end_of("c")])
    rest(shop, "c", [end_of("a")])

    text, document = explain(shop, "a")

    assert "which waits for c in turn: neither can end by itself" in text
    assert document["verdict"] == "stuck"
    assert document["remedies"] == ["ys cancel a"]


def test_what_waits_for_itself_is_told_so(shop: Shop) -> None:
    admit(shop, "a")
    rest(shop, "a", [end_of("a")])

    assert "execution a: which is itself: that cannot end by itself." in explain(shop, "a")[0]


def test_a_cycle_with_a_way_out_is_fine(shop: Shop) -> None:
    """B54: one of them races the wait against a timer."""
    admit(shop, "a", "b")
    rest(shop, "a", [end_of("b")])
    rest(shop, "b", [end_of("a"), timer(NOON + MINUTE, position=1)])

    text, document = explain(shop, "a")

    assert document["verdict"] == "fine"
    assert document["earliest_at"] == "2026-11-30T12:01:00.000Z"
    assert "Nothing is wrong." in text


def test_what_keeps_a_child_keeps_its_parent(shop: Shop) -> None:
    """The leaf's reason and the leaf's remedy, however deep it is."""
    rest(shop, "a", [end_of("a/b")], starts=["a/b"])
    rest(shop, "a/b", [timer(NOON + MINUTE)])
    shop.storage.steering.pause(execution_id="a/b", by="ann", reason="stock taking")

    text, document = explain(shop, "a")

    assert "it is paused by ann since 12:00:00 (0 ms ago): stock taking" in text
    assert document["verdict"] == "stuck"
    assert document["remedies"] == ["ys resume a/b"]


def test_an_awaited_execution_that_ended_or_never_was_is_ready(shop: Shop) -> None:
    """spec C2, C5: the next delivery reads the outcome, or raises."""
    shop.admit("done")
    shop.deliver("done", outcome=Completed("1"), took=0)
    rest(shop, "a", [end_of("nobody"), end_of("done", position=1)])

    waits = explain(shop, "a")[1]["waits"]

    assert [wait["ready"] for wait in waits] == [True, True]
    assert [wait["on"]["status"] for wait in waits] == [None, "completed"]


def test_of_many_children_the_one_that_is_stuck_stands_for_all(shop: Shop) -> None:
    """A fan-out is one sentence, whatever its size."""
    fan_out(shop, left=8)
    shop.storage.steering.pause(execution_id="report-nov/sq-97", by="ann")

    text, document = explain(shop, "report-nov")

    assert "Waiting for 8 of 100 children; report-nov/sq-97 is admitted; it is paused" in text
    assert text.count("report-nov/sq-") < 4
    assert document["waits_count"] == 8
    assert document["verdict"] == "fine"


def test_few_of_many_children_are_listed(shop: Shop, snapshot: SnapshotAssertion) -> None:
    fan_out(shop, left=3)
    shop.clock.advance(12_000)
    retry = Wait("step", "multiply", "", NOON, NOON + MINUTE, "retrying", 3)
    rest(shop, "report-nov/sq-98", [retry])

    assert shop.screen("explain", "report-nov").out == snapshot


def test_a_step_that_needs_a_tag_says_who_has_it(shop: Shop) -> None:
    """spec O5: stuck without a worker that has the tag; fine with one."""
    tagged = Wait("step", "render", "", NOON, None, "tagged", tag="gpu")
    rest(shop, "a", [tagged], needs=("gpu",))

    without = explain(shop, "a")
    shop.start_worker("shop:9", WORKFLOWS, tags=("gpu",))
    with_it = explain(shop, "a")

    assert "step render: needs the tag gpu, and no live worker has it" in without[0]
    assert (without[1]["verdict"], without[1]["remedies"]) == ("stuck", ["ys worker --tag gpu"])
    assert without[1]["waits"][0]["on"]["tag"] == "gpu"
    assert "worker shop:9 has it" in with_it[0]
    assert (with_it[1]["verdict"], with_it[1]["remedies"]) == ("fine", [])


@pytest.mark.parametrize(
    ("scope", "words", "remedy"),
    [
        ({"execution_id": "a"}, "It is paused by ann", "ys resume a"),
        (
            {"workflow_id": "charge-order"},
            "The workflow charge-order is paused by ann",
            "ys resume --workflow charge-order",
        ),
        ({}, "Everything here is paused by ann", "ys resume --all"),
    ],
)
def test_a_pause_says_who_when_why_and_what_is_paused(
    shop: Shop, scope: dict[str, str], words: str, remedy: str
) -> None:
    """spec E14: one execution, a workflow, the file."""
    rest(shop, "a", [timer(NOON + MINUTE)])
    shop.storage.steering.pause(**scope, by="ann", reason="audit")

    text, document = explain(shop, "a")

    assert f"{words} since 12:00:00 (0 ms ago): audit." in text
    assert (document["verdict"], document["remedies"]) == ("stuck", [remedy])


def test_every_pause_that_keeps_it_is_told(shop: Shop) -> None:
    """spec E14: to resume the execution is not enough while its workflow is paused."""
    rest(shop, "a", [timer(NOON + MINUTE)])
    shop.storage.steering.pause(execution_id="a", by="ann")
    shop.storage.steering.pause(by="bob")

    text, document = explain(shop, "a")

    assert "It is paused by ann" in text
    assert "Everything here is paused by bob" in text
    assert document["remedies"] == ["ys resume a", "ys resume --all"]


def test_a_cancel_is_told_and_by_the_next_delivery(shop: Shop) -> None:
    """spec C6."""
    rest(shop, "a", [timer(NOON + MINUTE)])
    shop.storage.steering.cancel("a", reason="customer")

    text, document = explain(shop, "a")

    assert "asked to cancel at 12:00:00 (0 ms ago): customer. Its next delivery tells" in text
    assert document["remedies"] == []


def test_a_cancel_of_what_is_kept_back_names_the_way_out(shop: Shop) -> None:
    """spec C6: `--now` is the way out for held, poisoned and paused executions."""
    rest(shop, "a", [timer(NOON + MINUTE)])
    shop.storage.steering.pause(execution_id="a", by="ann")
    shop.storage.steering.cancel("a")

    text, document = explain(shop, "a")

    assert "That waits until it goes on." in text
    assert document["remedies"] == ["ys resume a", "ys cancel a --now"]


def test_another_version_than_the_workers_have_is_stuck(shop: Shop) -> None:
    """spec R11: the recorded version, and those that there are."""
    shop.start_worker(workflows=[("charge-order", 1), ("charge-order", 3)])
    shop.admit("a", version=2)

    text, document = explain(shop, "a")

    assert "charge-order version 2 is recorded; live workers have 1 and 3" in text
    assert document["verdict"] == "stuck"


def test_messages_that_nobody_reads_are_counted(shop: Shop) -> None:
    rest(shop, "a", [message("cancel")])
    for queue in ("x", "x", "y"):
        shop.storage.inbox.send("a", queue, "1", ttl_ms=MINUTE)

    assert (
        'explain: 3 messages wait unread in queues it does not wait on: "x" (2), "y" (1).'
        in f"explain: {explain(shop, 'a')[0].partition('none has come. ')[2]}"
    )


def test_a_chain_longer_than_anyone_follows_ends_in_words(shop: Shop) -> None:
    """No depth, however hostile, keeps anyone waiting."""
    admit(shop, *(f"a{number}" for number in range(81)))
    for number in range(80):
        rest(shop, f"a{number}", [end_of(f"a{number + 1}")])
    rest(shop, "a80", [message("go")])

    said = shop.screen("explain", "a0")
    document = shop.ys("explain", "a0", "--json").json

    assert said.code == 0
    assert document["verdict"] == "unknown"


def test_nothing_of_a_name_reaches_the_terminal_but_what_can_be_seen(shop: Shop) -> None:
    """spec K6: queues, tags and reasons are data."""
    rest(shop, "a", [Wait("step", "s", "", NOON, None, "tagged", tag="\x1b[2Jgpu")], needs=("x",))
    rest(shop, "b", [message("q", label="\x1b]0;x\x07")])
    shop.storage.steering.pause(execution_id="b", by="\x1b[1mann", reason="\x9b31m")

    for name in ("a", "b"):
        for verb in ("explain", "show"):
            out = shop.screen(verb, name).out + shop.ys(verb, name).out
            assert not [c for c in out if (ord(c) < 32 and c not in "\n\t") or c in "\x7f\x9b"]
