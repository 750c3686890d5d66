"""`ys list`: filters, orders, tables, pipes, JSON."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.conftest import MINUTE, NOON, Shop
from tests.cli.family import end_of, family, fan_out, message, rest, tagged, timer
from yieldstar_cli.failures import encode_error
from yieldstar_cli.model import Completed, Failed, Status, Suspended, Wait

HOUR = 60 * MINUTE


@pytest.fixture
def busy(shop: Shop) -> Shop:
    """One execution of each kind, an hour apart."""
    shop.admit("order-40")
    shop.deliver("order-40", outcome=Completed("1"), took=950)
    shop.clock.set(NOON + HOUR)
    shop.worker_number = None
    shop.start_worker("shop:2")
    shop.admit("order-41", params={"order": 41})
    shop.deliver("order-41", outcome=Failed(encode_error(ValueError("no funds"))))
    shop.clock.set(NOON + 2 * HOUR)
    shop.worker_number = None
    shop.start_worker("shop:3")
    shop.sleeping("order-42")
    shop.admit("refund-7", workflow_id="refund")
    shop.clock.set(NOON + 2 * HOUR + 4 * MINUTE)
    return shop


def ids(shop: Shop, *words: str) -> list[str]:
    return shop.ys("list", "-q", *words).out.split()


def test_a_table_shows_unfinished_ones_first(busy: Shop, snapshot: SnapshotAssertion) -> None:
    said = busy.screen("list")

    assert said.out == snapshot


def test_a_pipe_gets_tabs_utc_and_no_header_unless_asked(
    busy: Shop, snapshot: SnapshotAssertion
) -> None:
    plain, headed = busy.ys("list"), busy.ys("list", "--header")

    assert plain.out == snapshot
    assert headed.out == "execution_id\tworkflow_id\tstatus\tupdated_at\tdue_at\n" + plain.out


def test_columns_choose_and_order_fields(busy: Shop) -> None:
    said = busy.ys("list", "--failed", "--columns", "status,execution_id")

    assert said.out == "failed\torder-41\n"
    assert busy.ys("list", "--columns", "age").code == 2


def test_json_is_an_array_of_records_without_steps(busy: Shop) -> None:
    found = busy.ys("list", "--json").json

    assert [record["execution_id"] for record in found] == ids(busy)
    assert all(record["schema"] == "ys.execution/1" for record in found)
    assert not any("steps" in record for record in found)


def test_filters_narrow_by_what_the_rows_say(busy: Shop) -> None:
    """case 327: by status, by workflow; counts agree with rows."""
    assert ids(busy, "--failed") == ["order-41"]
    assert ids(busy, "--done") == ["order-41", "order-40"]
    assert set(ids(busy, "--status", "suspended,admitted")) == {"order-42", "refund-7"}
    assert ids(busy, "--waiting") == ["order-42"]
    assert ids(busy, "refund") == ["refund-7"]
    assert ids(busy, "--due") == ["refund-7"]
    assert ids(busy, "--since", "1h30m", "--done") == ["order-41"]
    assert ids(busy, "--older", "1h30m") == ["order-40"]
    assert ids(busy, "--where", "order=41") == ["order-41"]
    assert ids(busy, "nothing") == []


def test_counts_agree_with_rows_after_every_change(busy: Shop) -> None:
    """cases 327, 330."""
    for number in range(10):
        busy.admit(f"more-{number}")
        said = busy.screen("list", "-n", "1")
        assert f"1 of {len(ids(busy, '--all'))} · " in said.out


def test_orders(busy: Shop) -> None:
    assert ids(busy, "--sort", "admitted")[-1] == "order-40"
    assert ids(busy, "--sort", "admitted", "-r")[0] == "order-40"
    assert ids(busy, "--sort", "due")[0] == "refund-7"
    assert ids(busy, "--sort", "took")[0] == "order-40"


def test_the_footer_says_what_is_hidden(busy: Shop) -> None:
    said = busy.screen("list", "-n", "2")

    last = said.out.splitlines()[-1]
    assert last == "2 of 4 · ✓ 1  ✗ 1  ⏸ 1  ○ 1 · ys list --failed · ys list --all"


def test_the_footer_names_the_way_back_from_a_filter(busy: Shop) -> None:
    """--all lifts the limit alone: it is no answer to a filter, nor is a filter to itself."""
    last = busy.screen("list", "--failed").out.splitlines()[-1]

    assert last == "1 of 4 · ✓ 1  ✗ 1  ⏸ 1  ○ 1 · ys list"


def test_an_empty_list_is_zero_and_says_why(shop: Shop) -> None:
    assert shop.storage.reader.counts() == {}

    nothing, pipe, document = shop.screen("list"), shop.ys("list"), shop.ys("list", "--json")
    shop.admit()
    no_match = shop.screen("list", "--failed")

    assert "Nothing has been triggered yet." in nothing.out
    assert (nothing.code, pipe.code, pipe.out, document.out) == (0, 0, "", "[]\n")
    assert "No execution matches; there are 1." in no_match.out


def test_running_means_a_live_lease(shop: Shop) -> None:
    """B16: an hour after a worker vanished nothing is running."""
    shop.admit()
    shop.claim()
    shop.clock.advance(1_300)
    running = shop.screen("list")
    live = ids(shop, "--running")
    shop.clock.advance(HOUR)
    gone = shop.screen("list")

    assert live == ["order-42"]
    assert "running 1.3 s" in running.out
    assert ids(shop, "--running") == []
    assert "expired" in gone.out
    assert "running" not in gone.out


def test_held_and_poisoned_are_said(shop: Shop) -> None:
    shop.admit()
    claimed = shop.claim()
    shop.storage.executions.release(
        claimed.delivery, problem=("DIVERGED", "x"), held=True, module="1"
    )
    held = shop.screen("list").out

    assert "held" in held
    assert "DIVERGED" in held


def test_params_are_never_in_a_list_for_people(shop: Shop) -> None:
    """S25."""
    shop.admit(params={"password": "hunter2", "order": "hunter3"})

    assert "hunter" not in shop.screen("list").out + shop.ys("list").out


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_table_fits_its_terminal(shop: Shop, columns: int) -> None:
    """B91: 255-byte IDs and wide letters leave the layout whole."""
    for name in ("x" * 255, "名" * 80, "short"):
        shop.admit(name)

    said = shop.screen("list", columns=columns)

    lines = said.out.splitlines()
    assert all(len(line) <= columns for line in lines)
    assert len(lines) == 5


def test_json_of_many_rows_is_one_valid_document(shop: Shop) -> None:
    """B92: no wrapping, no colour, whatever the width."""
    for number in range(300):
        shop.admit(f"o{number}", params={"text": "line\n" * 100})

    said = shop.process("list", "--all", "--json", env={"COLUMNS": "20", "FORCE_COLOR": "1"})

    import json

    assert len(json.loads(said.out)) == 300
    assert "\x1b" not in said.out


def test_a_status_or_where_that_is_none_is_usage(shop: Shop) -> None:
    said = shop.ys("list", "--status", "faild")

    assert said.code == 2
    assert "Did you mean failed?" in said.err
    assert shop.ys("list", "--where", "order").code == 2


def test_waits_stand_in_the_detail(shop: Shop) -> None:
    shop.admit()
    now = shop.clock.now_ms()
    shop.deliver(
        waits=[
            Wait("timer", "sleep", "10m", now, now + 1, "waiting"),
            Wait("timer", "timer", "15m", now, now + 2, "waiting"),
        ],
        outcome=Suspended(now + 60_000),
    )

    assert "sleep 10m +1" in shop.screen("list").out


def test_every_status_word_is_one_that_the_record_has(busy: Shop) -> None:
    words = {line.split("\t")[2] for line in busy.ys("list").out.splitlines()}

    assert words <= set(Status)


# --- executions that wait for others --------------------------------------------------------------


def test_approvals_are_those_that_wait_for_a_decision(shop: Shop) -> None:
    """What `ys approve` and `ys reject` would answer, and nothing else."""
    rest(shop, "refund-7", [message("decision")])
    rest(shop, "refund-8", [message("decision"), timer(NOON + MINUTE, position=1)])
    rest(shop, "order-43", [message("cancel")])
    shop.admit("order-44")

    assert set(ids(shop, "--approvals")) == {"refund-7", "refund-8"}
    assert ids(shop, "--approvals", "refund") == []
    assert "No execution matches" in shop.screen("list", "--approvals", "--failed").out


def test_details_say_what_is_waited_for(shop: Shop, snapshot: SnapshotAssertion) -> None:
    """Messages, children, a tag; who paused, and that a cancel was asked for."""
    family(shop)
    rest(shop, "refund-7", [message("decision")])
    rest(shop, "render-1", [tagged("gpu")], needs=("gpu",))
    rest(shop, "order-44", [end_of("charge-43")])
    rest(shop, "order-45", [timer(NOON + MINUTE)])
    rest(shop, "order-46", [timer(NOON + MINUTE)])
    shop.storage.steering.pause(execution_id="order-45", by="ann")
    shop.storage.steering.cancel("order-46")

    assert shop.screen("list", "--sort", "admitted").out == snapshot


def test_of_many_children_the_open_ones_are_counted(shop: Shop) -> None:
    fan_out(shop, left=3)

    assert "3 of 100 children" in shop.screen("list", "report", columns=100).out


def test_children_are_listed_like_others_and_are_never_the_last(shop: Shop) -> None:
    """`@last` is what somebody triggered."""
    shop.admit("order-1")
    shop.clock.advance(1)
    fan_out(shop)
    shop.clock.advance(1)

    last = shop.ys("show", "@last")

    assert ids(shop, "square", "--all").count("report-nov/sq-99") == 1
    assert last.out.startswith("execution_id\treport-nov\n")
