"""`ys show` of executions with children, messages, pauses and earlier incarnations."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.conftest import MINUTE, NOON, Shop
from tests.cli.family import end_of, family, fan_out, message, rest, timer
from tests.cli.test_show import entry
from yieldstar_cli.failures import encode_error
from yieldstar_cli.model import (
    CancelledOutcome,
    Completed,
    Continued,
    Failed,
    Kind,
    Wait,
)


def test_what_it_waits_for_is_one_screen(shop: Shop, snapshot: SnapshotAssertion) -> None:
    """Messages, children and timers, with names that a person knows."""
    family(shop)
    shop.storage.inbox.send("order-43", "other", "1", ttl_ms=MINUTE)

    assert shop.screen("show", "order-43").out == snapshot
    assert shop.ys("show", "order-43").out == snapshot
    assert shop.ys("show", "order-43", "--json").json == snapshot


def test_every_kind_of_operation_has_a_readable_name(
    shop: Shop, snapshot: SnapshotAssertion
) -> None:
    """The table and the history name what happened, not only its key."""
    shop.admit("a")
    kinds = [
        (Kind.MESSAGE, "cancel", "Cancel"),
        (Kind.MESSAGES, "b:commands#2", "Command"),
        (Kind.TRY_MESSAGE, "cancel", ""),
        (Kind.QUEUE_DEPTH, "cancel", ""),
        (Kind.START, "square", "sq-1"),
        (Kind.CHILD, "square", "sq-1"),
        (Kind.CHILD, "attach", "order-9"),
        (Kind.STATUS, "square", "sq-1"),
        (Kind.SEND, "cancel", "order-9"),
        (Kind.WAKE, "wake", "order-9"),
        (Kind.CANCEL_CHILD, "square", "sq-1"),
        (Kind.DEFER, "release", ""),
        (Kind.CANCEL, "cancel", ""),
    ]
    shop.deliver(
        "a",
        entries=[
            entry(n, kind, key, "null", NOON + n, label=label)
            for n, (kind, key, label) in enumerate(kinds)
        ],
        outcome=CancelledOutcome("customer"),
    )

    assert shop.screen("show", "a").out == snapshot
    assert shop.screen("show", "a", "--history").out == snapshot


def test_a_wait_without_a_moment_has_no_progress(shop: Shop) -> None:
    """How far it is nobody knows."""
    rest(shop, "a", [message("go")])

    assert "━" not in shop.screen("show", "a").out


def test_a_long_run_of_children_is_folded(shop: Shop) -> None:
    """100 children are never 100 lines."""
    fan_out(shop)

    lines = shop.screen("show", "report-nov").out.splitlines()

    assert len(lines) < 20
    assert any("100 × start square" in line for line in lines)


def test_a_child_names_its_parent(shop: Shop) -> None:
    family(shop)

    screen, pipe = shop.screen("show", "charge-43"), shop.ys("show", "charge-43")
    document = shop.ys("show", "charge-43", "--json").json

    assert "  parent      order-43\n" in screen.out
    assert "parent_execution_id\torder-43\n" in pipe.out
    assert (document["parent_execution_id"], document["detached"]) == ("order-43", False)


def test_unread_messages_of_an_ended_execution_are_still_told(shop: Shop) -> None:
    """B53: it failed on message 2; what nobody read is seen."""
    rest(shop, "a", [timer(NOON + MINUTE)])
    for number in "123":
        shop.storage.inbox.send("a", "commands", number, ttl_ms=MINUTE)
    shop.clock.advance(MINUTE)
    shop.deliver("a", outcome=Failed(encode_error(ValueError("no"))))

    screen, document = shop.screen("show", "a"), shop.ys("show", "a", "--json").json

    assert "  unread      3 messages: ys messages a\n" in screen.out
    assert "unread\tcommands\t3\n" in shop.ys("show", "a").out
    assert document["unread"] == {"commands": 3}


def test_a_pause_and_a_cancel_stand_beside_the_status(shop: Shop) -> None:
    """spec E5, E14, C6: facts beside the status, on a terminal, in a pipe and in JSON."""
    rest(shop, "a", [timer(NOON + MINUTE)])
    shop.storage.steering.pause(execution_id="a", by="ann", reason="audit")
    shop.storage.steering.cancel("a", reason="customer")

    screen, pipe = shop.screen("show", "a").out, shop.ys("show", "a").out
    document = shop.ys("show", "a", "--json").json

    assert "⏸ suspended, paused, cancelling" in screen
    assert "It is paused by ann since 12:00:00 (0 ms ago): audit." in screen
    assert "paused\texecution\tann\t2026-11-30T12:00:00.000Z\taudit\n" in pipe
    assert "cancel\t2026-11-30T12:00:00.000Z\tcustomer\n" in pipe
    assert document["paused"] == {
        "scope": "execution",
        "by": "ann",
        "at": "2026-11-30T12:00:00.000Z",
        "reason": "audit",
    }
    assert document["cancel"]["reason"] == "customer"
    assert "Next: ys explain a · ys resume a" in screen


def test_what_needs_a_tag_says_which(shop: Shop) -> None:
    """spec O5."""
    tagged = Wait("step", "render", "", NOON, None, "tagged", tag="gpu")
    rest(shop, "a", [tagged], needs=("gpu",))

    document = shop.ys("show", "a", "--json").json

    assert "  needs       a worker with the tag gpu\n" in shop.screen("show", "a").out
    assert "needs\tgpu\n" in shop.ys("show", "a").out
    assert (document["needs"], document["waiting_for"][0]["tag"]) == (["gpu"], "gpu")


# --- incarnations -------------------------------------------------------------------------------


def continued(shop: Shop, times: int) -> None:
    """`a` has continued as new so often; each incarnation slept once."""
    shop.admit("a", params={"n": 1})
    for number in range(2, times + 2):
        shop.deliver(
            "a",
            entries=[entry(0, "timer", "sleep", "null", shop.clock.now_ms(), label=f"{number}m")],
            outcome=Continued(f'{{"n":{number}}}', 1),
        )


def test_the_incarnation_is_shown_from_the_second_on(shop: Shop) -> None:
    """case 246; spec C7."""
    shop.admit("once")
    continued(shop, 1)

    screen, pipe = shop.screen("show", "a").out, shop.ys("show", "a").out

    assert "  incarnation 2; before it: ys show a --incarnation 1\n" in screen
    assert "incarnation\t2\n" in pipe
    assert shop.ys("show", "a", "--json").json["incarnation"] == 2
    assert "incarnation" not in shop.screen("show", "once").out


def test_an_earlier_incarnation_is_shown_while_it_is_kept(
    shop: Shop, snapshot: SnapshotAssertion
) -> None:
    """case 246; spec C7: its params, its history, when it ended; not the outcome of a later one."""
    continued(shop, 2)
    shop.deliver("a", outcome=Completed("1"))

    said = shop.screen("show", "a", "--incarnation", "2")
    document = shop.ys("show", "a", "--incarnation", "2", "--history", "--json").json
    history = shop.ys("show", "a", "--incarnation", "1", "--history").out

    assert said.out == snapshot
    assert (document["incarnation"], document["params"]) == (2, {"n": 2})
    assert document["incarnation_ended_at"] == "2026-11-30T12:00:00.062Z"
    assert [found["label"] for found in document["history"]] == ["3m"]
    assert history.startswith("1\tsleep\ttimer\tok")


def test_an_incarnation_that_is_not_kept_says_which_are(shop: Shop) -> None:
    """spec C7: the last ones are."""
    continued(shop, 6)

    gone = shop.ys("show", "a", "--incarnation", "1")
    coming = shop.ys("show", "a", "--incarnation", "9")
    current = shop.ys("show", "a", "--incarnation", "7")

    assert (gone.code, coming.code, current.code) == (2, 2, 0)
    assert "incarnation 1 of a is no longer kept" in gone.err
    assert "Kept are 4, 5, 6 and 7." in gone.err
    assert "incarnation 9 of a has not begun" in coming.err


# --- trees ----------------------------------------------------------------------------------------


def test_a_fan_out_is_a_few_lines(shop: Shop, snapshot: SnapshotAssertion) -> None:
    """Failures and waiting ones singly, the rest counted with median and slowest."""
    fan_out(shop, left=3)
    shop.clock.advance(12_000)
    retry = Wait("step", "multiply", "", NOON, NOON + MINUTE, "retrying", 3)
    rest(shop, "report-nov/sq-98", [retry])

    assert shop.screen("show", "report-nov", "--tree").out == snapshot


def test_many_that_wait_for_the_same_are_one_line(shop: Shop) -> None:
    fan_out(shop, left=60)

    lines = shop.screen("show", "report-nov", "--tree").out.splitlines()

    assert len(lines) == 3
    assert lines[2].startswith("└─ ○ 60 × square")
    assert lines[2].endswith("due now")


def test_a_tree_goes_down_to_a_depth(shop: Shop, snapshot: SnapshotAssertion) -> None:
    """Ten levels; what is below is counted."""
    name = "a"
    for _ in range(10):
        rest(shop, name, [end_of(f"{name}/b")], starts=[f"{name}/b"])
        name += "/b"
    rest(shop, name, [message("go")])

    whole = shop.screen("show", "a", "--tree", "--depth", "10", columns=100)

    assert whole.out == snapshot
    assert 'waits for msg "go"' in whole.out
    assert "1 child below: --depth N" in shop.screen("show", "a", "--tree", "--depth", "2").out


def test_a_program_gets_every_execution_of_the_tree(shop: Shop) -> None:
    """case 329: a line each in a pipe; nested documents with --json."""
    fan_out(shop)
    rest(shop, "report-nov/sq-99", [end_of("leaf")], starts=["leaf"])

    pipe = shop.ys("show", "report-nov", "--tree").out.splitlines()
    document = shop.ys("show", "report-nov", "--tree", "--json").json
    shallow = shop.ys("show", "report-nov", "--tree", "--depth", "1").out.splitlines()

    assert pipe[0] == "0\treport-nov\treport\tsuspended"
    assert pipe[-1] == "2\tleaf\tsquare\tadmitted"
    assert len(pipe) == 102
    assert len(shallow) == 101
    assert len(document["children"]) == 100
    assert document["children"][-1]["children"][0]["execution_id"] == "leaf"
    assert document["children"][40]["outcome"]["error"]["name"] == "ZeroDivisionError"


def test_an_execution_without_children_says_so(shop: Shop) -> None:
    rest(shop, "a", [timer(NOON + MINUTE)])

    assert "no children" in shop.screen("show", "a", "--tree").out
    assert shop.ys("show", "a", "--tree").out == "0\ta\tcharge-order\tsuspended\n"


def test_a_tree_costs_what_is_drawn(shop: Shop) -> None:
    """A tree of thousands is a screenful, whatever hangs below."""
    rest(shop, "a", [message("q")], starts=["a/1", "a/2", "a/3"])
    for branch in ("a/1", "a/2", "a/3"):
        rest(shop, branch, [message("q")], starts=[f"{branch}/{n}" for n in range(40)])

    lines = shop.screen("show", "a", "--tree").out.splitlines()

    assert len(lines) == 7
    assert lines[1:3] == [
        '├─ ⏸ a/1                         waits for msg "q"',
        "│  └─ ○ 40 × square              due now",
    ]


def test_words_that_do_not_fit_a_tree_are_refused(shop: Shop) -> None:
    rest(shop, "a", [timer(NOON + MINUTE)])

    assert shop.ys("show", "a", "--tree", "--history").code == 2
    assert shop.ys("show", "a", "--tree", "--result").code == 2
    assert shop.ys("show", "a", "--tree", "--incarnation", "1").code == 2
    assert shop.ys("show", "a", "--depth", "3").code == 2


@pytest.mark.parametrize("columns", [20, 40, 80, 120])
def test_pictures_fit_whatever_width_there_is(shop: Shop, columns: int) -> None:
    """case 105: also where only ASCII can be shown."""
    fan_out(shop, left=7)
    rest(shop, "report-nov/sq-99", [end_of("leaf")], starts=["leaf" * 20])
    rest(shop, "report-nov/sq-98", [message("a queue with a long name" * 3)])

    for words in (("show", "report-nov", "--tree"), ("list",)):
        lines = shop.screen(*words, columns=columns).out.splitlines()
        assert max(map(len, lines)) <= columns, words


def test_a_tree_is_drawn_in_ascii_where_nothing_else_can_be(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    fan_out(shop, left=3)
    monkeypatch.setenv("YS_ASCII", "1")

    out = shop.screen("show", "report-nov", "--tree").out

    assert out.isascii()
    assert "|- + 96 x square" in out
    assert "`- o report-nov/sq-99" in out
