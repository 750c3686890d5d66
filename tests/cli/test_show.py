"""`ys show`: pictures at 80 columns, pipes, JSON, what is masked and what is exact."""

from __future__ import annotations

import json

from syrupy.assertion import SnapshotAssertion

from tests.cli.conftest import MINUTE, NOON, Shop
from yieldstar_cli.failures import encode_error
from yieldstar_cli.model import Attempt, Completed, Entry, Failed, Suspended, Wait


class CardTimeout(Exception):
    pass


class CardDeclined(Exception):
    pass


def charge_card(error: Exception) -> None:
    raise error


def recorded(error: Exception) -> str:
    try:
        charge_card(error)
    except Exception as raised:
        return encode_error(raised)
    raise AssertionError


def entry(position: int, kind: str, key: str, value: str, at: int, **words: object) -> Entry:
    fields: dict[str, object] = {"ok": True, "started_at": None, **words}
    return Entry(position=position, kind=kind, step_key=key, value=value, at=at, **fields)  # type: ignore[arg-type]


def test_a_sleeping_execution_is_one_screen(shop: Shop, snapshot: SnapshotAssertion) -> None:
    shop.sleeping()
    shop.clock.set(NOON + 4 * MINUTE + 2_000)

    said = shop.screen("show", "order-42")

    assert said.code == 0
    assert said.out == snapshot


def test_work_is_to_scale_and_each_wait_has_a_fixed_width(
    shop: Shop, snapshot: SnapshotAssertion
) -> None:
    shop.admit()
    shop.deliver(waits=[], outcome=Suspended(NOON + 10 * MINUTE))
    start = NOON + 10 * MINUTE
    shop.clock.set(start)
    again = start + 991 + 2_000
    shop.start_worker("shop:4413", lease_until_at=again + MINUTE)
    shop.deliver(
        entries=[
            entry(0, "timer", "sleep", "null", start, label="10m"),
            entry(1, "step", "load-order", '{"id":42}', start + 41, started_at=start),
        ],
        attempts=(
            Attempt(
                "charge-card",
                "step",
                1,
                start + 41,
                start + 991,
                "error",
                recorded(CardTimeout("no answer in 900 ms")),
                again,
            ),
        ),
        waits=[Wait("step", "charge-card", "", again, None, "running", 2)],
    )
    shop.clock.set(again + 1_300)

    said = shop.screen("show", "order-42")

    assert said.out == snapshot


def test_a_completed_execution_shows_its_result(shop: Shop, snapshot: SnapshotAssertion) -> None:
    shop.admit()
    shop.deliver(
        entries=[entry(0, "step", "load-order", '{"id":42}', NOON + 41, started_at=NOON)],
        outcome=Completed('{"order":42,"charged":1999}'),
        took=950,
    )

    said = shop.screen("show", "order-42")

    assert said.out == snapshot


def test_a_failed_execution_shows_error_place_and_line(
    shop: Shop, snapshot: SnapshotAssertion
) -> None:
    shop.admit()
    error = recorded(CardDeclined("insufficient funds"))
    shop.deliver(
        entries=[entry(0, "step", "charge-card", error, NOON + 950, ok=False, started_at=NOON)],
        outcome=Failed(error),
        took=950,
    )

    said = shop.screen("show", "order-42")

    assert said.out == snapshot


def test_an_exception_group_is_shown_with_its_members(shop: Shop) -> None:
    """B76: all inner errors are shown."""
    shop.admit()
    error = recorded(ExceptionGroup("g", [ValueError("a"), KeyError("b")]))
    shop.deliver(outcome=Failed(error))

    said = shop.screen("show", "order-42")

    assert "ExceptionGroup" in said.out
    assert "ValueError: a" in said.out
    assert "KeyError: 'b'" in said.out


def test_a_pipe_gets_one_field_a_line_with_utc_times(
    shop: Shop, snapshot: SnapshotAssertion
) -> None:
    shop.sleeping()

    said = shop.ys("show", "order-42")

    assert said.out == snapshot
    assert said.err == ""


def test_json_is_the_published_document(shop: Shop, snapshot: SnapshotAssertion) -> None:
    """case 111: the schema's keys; the outcome only in terminal states."""
    shop.sleeping()
    shop.admit("order-43")
    shop.deliver("order-43", outcome=Completed("[1]"))

    waiting, ended = shop.ys("show", "order-42", "--json"), shop.ys("--json", "show", "order-43")

    assert waiting.json == snapshot
    assert waiting.json["outcome"] is None
    assert ended.json["outcome"] == {"status": "completed", "result": [1]}
    assert set(ended.json) == set(waiting.json)


def test_what_never_ran_says_so(shop: Shop) -> None:
    """spec E5: listed even when nothing is recorded."""
    shop.admit()

    said = shop.screen("show", "order-42")

    assert "no step has ended yet" in said.out
    assert "No worker has run on this database yet." in said.out


def test_suspended_without_wait_and_wake_waits_for_nothing(shop: Shop) -> None:
    """case 54: due none, and it says that it needs an external wake."""
    shop.admit()
    shop.deliver(outcome=Suspended(None))

    said, document = shop.screen("show", "order-42"), shop.ys("show", "order-42", "--json").json

    assert "waiting for nothing (needs an external wake)" in said.out
    assert (document["status"], document["due_at"]) == ("suspended", None)


def test_an_expired_claim_is_shown_as_expired_and_since_when(shop: Shop) -> None:
    """B02, B16: a worker that vanished is not shown as running."""
    shop.admit()
    shop.claim()
    shop.clock.advance(60 * MINUTE)

    screen, pipe = shop.screen("show", "order-42"), shop.ys("show", "order-42")

    assert "delivery expired" in screen.out
    assert "▶" not in screen.out
    assert "expired\tshop:4412\t2026-11-30T12:00:30.000Z" in pipe.out


def test_a_live_delivery_is_shown_as_running(shop: Shop) -> None:
    shop.admit()
    shop.claim()
    shop.clock.advance(1_300)

    screen, pipe = shop.screen("show", "order-42"), shop.ys("show", "order-42")

    assert "▶ running" in screen.out
    assert "running\tshop:4412\t2026-11-30T12:00:00.000Z" in pipe.out


def test_lost_deliveries_are_counted_with_start_end_and_how(shop: Shop) -> None:
    """B14: four claims, three of them lost: how often, the last one, how it ended."""
    shop.admit()
    for number in range(3):
        worker = shop.start_worker(f"shop:{number}")
        shop.claim()
        shop.clock.advance(1_000)
        shop.storage.workers.bury(worker, "died", {}, max_deaths=5)
        shop.clock.advance(10 * MINUTE)
        shop.worker_number = None
    shop.deliver(outcome=Completed("1"))

    screen, document = shop.screen("show", "order-42"), shop.ys("show", "order-42", "--json").json

    assert "deliveries  4;" in screen.out
    assert "3 deliveries were not acknowledged" in screen.out
    assert document["deliveries"] == 4
    assert [lost["how"] for lost in document["lost_deliveries"]] == ["died"] * 3


def test_a_hold_is_shown_with_its_problem(shop: Shop) -> None:
    """B70: history and code disagree: the reason, not a failure."""
    shop.admit()
    claimed = shop.claim()
    shop.storage.executions.release(
        claimed.delivery,
        how="DIVERGED",
        problem=("DIVERGED", "recorded load-order, the code asks for check at x.py:9"),
        held=True,
        module="1",
    )

    screen, document = shop.screen("show", "order-42"), shop.ys("show", "order-42", "--json").json

    assert "admitted, held" in screen.out
    assert "recorded load-order, the code asks for check" in screen.out
    assert document["held"]["until"] is None
    assert document["problem"]["code"] == "DIVERGED"


def test_a_problem_of_several_lines_is_shown_in_lines_and_told_in_one(shop: Shop) -> None:
    """B70: what was recorded stands above what the code asks for, and no escape between."""
    shop.admit()
    claimed = shop.claim()
    shop.storage.executions.release(
        claimed.delivery,
        how="DIVERGED",
        problem=("DIVERGED", "no fit\n  recorded: step 'a\x1b'\n  code:     step 'b'"),
        held=True,
        module="1",
    )

    shown, explained = shop.screen("show", "order-42"), shop.screen("explain", "order-42")
    doctor = shop.ys("doctor").out

    for said in (shown, explained):
        assert "DIVERGED: no fit\n  recorded: step 'a\\x1b'\n  code: " in said.out
    assert "DIVERGED: no fit; recorded: step 'a\\x1b'; code: step 'b'" in doctor


def test_the_message_of_an_error_is_not_cut_at_the_edge(shop: Shop) -> None:
    """What failed is the first question: the line is broken, and a very long one ends at last."""
    for name, text in (("a", "no such " + "long word " * 20 + "end"), ("b", "word " * 400)):
        shop.admit(name)
        shop.deliver(name, outcome=Failed(encode_error(ValueError(text))))

    whole, cut = shop.screen("show", "a").out, shop.screen("show", "b").out

    assert "  error       ValueError: no such long word" in whole
    assert "word end\n" in whole
    assert cut.count("word word word word\n") == 6
    assert "              …\n" in cut
    assert max(len(line) for line in (whole + cut).splitlines()) <= 80


# --- secrets, values ------------------------------------------------------------------------------


def test_people_see_secrets_masked_and_programs_see_all(shop: Shop) -> None:
    """S25: keys that look secret, at any depth; pipes and --json are exact."""
    params = {"user": "ann", "api_key": "hunter2", "db": {"Password": "hunter3"}, "n": 1}
    shop.admit(params=params)
    shop.deliver(outcome=Completed(json.dumps({"accessToken": "hunter4"})))

    screen = shop.screen("show", "order-42").out
    revealed = shop.screen("show", "order-42", "--reveal").out
    document = shop.ys("show", "order-42", "--json").json

    assert "hunter" not in screen
    assert screen.count("****") == 3
    assert all(word in revealed for word in ("hunter2", "hunter3", "hunter4"))
    assert document["params"] == params


def test_result_prints_only_the_result(shop: Shop) -> None:
    """B100: null is a result; without one the exit status says so."""
    shop.admit()
    shop.admit("order-43")
    shop.deliver(outcome=Completed("null"))

    ended, open_one = (
        shop.ys("show", "order-42", "--result"),
        shop.ys("show", "order-43", "--result"),
    )

    assert (ended.code, ended.out, ended.err) == (0, "null\n", "")
    assert (open_one.code, open_one.out) == (8, "")
    assert "has not ended" in open_one.err


def test_the_result_of_a_failed_one_is_its_error_and_seven(shop: Shop) -> None:
    shop.admit()
    shop.deliver(outcome=Failed(recorded(CardDeclined("insufficient funds"))))

    said = shop.ys("show", "order-42", "--result")

    assert (said.code, said.out) == (7, "")
    assert "CardDeclined: insufficient funds" in said.err


def test_tagged_values_stand_in_json_as_they_are_stored(shop: Shop) -> None:
    """B86, spec V1: bytes, sets and big integers; every document is valid and ASCII."""
    result = '["$ys","bytes","aGk="]'
    shop.admit(params={"big": 2**70, "when": {1, 2}, "x": float("nan"), "name": "Zoë 🦉"})
    shop.deliver(outcome=Completed(result))

    said = shop.ys("show", "order-42", "--json")

    assert said.out.isascii()
    assert said.json["outcome"]["result"] == ["$ys", "bytes", "aGk="]
    assert said.json["params"]["big"] == ["$ys", "int", hex(2**70)]
    assert said.json["params"]["name"] == "Zoë 🦉"


def test_a_large_value_is_cut_for_people_with_its_size(shop: Shop) -> None:
    """B88; case 306: only the display is cut."""
    shop.admit(params={"text": "x" * 5_000, "more": "y"})

    screen = shop.screen("show", "order-42").out
    document = shop.ys("show", "order-42", "--json").json

    assert "(5.0 kB)" in screen
    assert max(len(line) for line in screen.splitlines()) <= 80
    assert len(document["params"]["text"]) == 5_000


def test_nothing_of_a_hostile_record_reaches_the_terminal(shop: Shop) -> None:
    """S19, S20, K6; cases 105: escapes and markup in params, errors, notes."""
    evil = "\x1b[2J\x9b31m\x07\x00\u202e[red]x[/red]\u200b\u2028\n"
    shop.admit(params={evil: evil})
    error = CardDeclined(evil)
    error.add_note(evil)
    shop.deliver(
        entries=[entry(0, "step", "k", recorded(error), NOON, ok=False, started_at=NOON)],
        outcome=Failed(recorded(error)),
    )

    for words in (("show", "order-42"), ("show", "order-42", "--history"), ("list",)):
        text = shop.screen(*words).out + shop.ys(*words).out
        assert not [c for c in text if ord(c) < 32 and c not in "\n\t"]
        assert not set(text) & set("\x7f\x9b\u202e\u200b\u2028")
    assert "[red]x[/red]" in shop.screen("show", "order-42").out


# --- history --------------------------------------------------------------------------------------


def test_history_lists_every_resolution_with_its_value(
    shop: Shop, snapshot: SnapshotAssertion
) -> None:
    shop.admit()
    shop.deliver(
        entries=[
            entry(0, "patch", "new-rule", "true", NOON),
            entry(1, "timer", "sleep", "null", NOON + 5, label="5ms"),
            entry(2, "step", "load-order", '{"id":42,"token":"t"}', NOON + 9, started_at=NOON),
            entry(3, "step", "pay", recorded(CardDeclined("no")), NOON + 9, ok=False, attempt=2),
        ],
        outcome=Suspended(NOON),
    )

    assert shop.screen("show", "order-42", "--history").out == snapshot
    assert shop.ys("show", "order-42", "--history").out.startswith(
        "1\tnew-rule\tpatch\tok\t1\t2026-11-30T12:00:00.000Z\ttrue\n"
    )
    document = shop.ys("show", "order-42", "--history", "--json").json
    assert [found["step_key"] for found in document["history"]] == [
        "new-rule",
        "sleep",
        "load-order",
        "pay",
    ]
    assert document["history"][2]["value"] == {"id": 42, "token": "t"}
    assert document["history"][3]["error"]["name"] == "CardDeclined"


def test_one_step_is_shown_in_full(shop: Shop) -> None:
    shop.admit()
    shop.deliver(
        entries=[entry(0, "step", "load-order", '{"id":42}', NOON + 9, started_at=NOON)],
        outcome=Suspended(NOON),
    )

    in_full, beyond = (
        shop.ys("show", "order-42", "--step", "1"),
        shop.ys("show", "order-42", "--step", "2"),
    )

    assert in_full.out.endswith('{"id":42}\n')
    assert beyond.code == 2
    assert "1 resolutions" in beyond.err


# --- which execution ------------------------------------------------------------------------------


def test_an_unknown_id_is_four_with_nearest_ids_and_the_database(shop: Shop) -> None:
    """case 328."""
    shop.admit("order-41")
    shop.admit("order-42")

    said, document = shop.ys("show", "ordre-42"), shop.ys("show", "nope", "--json")

    assert said.code == 4
    assert "order-42" in said.err
    assert str(shop.db) in said.err
    assert (document.code, document.error["code"]) == (4, "EXECUTION_NOT_FOUND")


def test_a_unique_beginning_is_completed_on_a_terminal_only_and_said_first(shop: Shop) -> None:
    shop.admit("order-42")

    screen, pipe = shop.screen("show", "orde"), shop.ys("show", "orde")

    assert screen.out.startswith("order-42 (from orde)\n")
    assert pipe.code == 4


def test_no_beginning_is_completed_where_a_program_may_listen(shop: Shop) -> None:
    shop.admit("order-42")

    for words in (("--json",), ("-q",), ("--exit-status",), ("--id=orde",)):
        target = () if words[0].startswith("--id") else ("orde",)
        assert shop.screen("show", *target, *words).code == 4
    assert shop.screen("show", "ord").code == 4


def test_an_ambiguous_beginning_names_the_matches(shop: Shop) -> None:
    shop.admit("order-42")
    shop.admit("order-43")

    said = shop.screen("show", "order")

    assert said.code == 2
    assert "order-42, order-43" in said.err


def test_an_exact_id_wins_over_a_beginning(shop: Shop) -> None:
    shop.admit("order")
    shop.admit("order-43")

    said = shop.screen("show", "order")

    assert said.code == 0
    assert said.out.startswith("order    charge-order")


def test_last_is_the_execution_admitted_last_unless_literal(shop: Shop) -> None:
    shop.admit("order-42")
    shop.clock.advance(1)
    shop.admit("order-43")

    last, literal = shop.ys("show", "@last"), shop.ys("show", "--id=@last")

    assert last.out.startswith("execution_id\torder-43\n")
    assert literal.code == 4


def test_the_exit_status_tells_only_when_asked(shop: Shop) -> None:
    shop.admit("order-42")
    shop.admit("order-43")
    shop.deliver("order-43", outcome=Failed(recorded(ValueError("no"))))

    assert shop.ys("show", "order-43").code == 0
    assert shop.ys("show", "order-43", "--exit-status").code == 7
    assert shop.ys("show", "order-42", "--exit-status").code == 8


def test_one_id_and_not_none_or_two(shop: Shop) -> None:
    shop.admit()

    assert shop.ys("show").code == 2
    assert shop.ys("show", "order-42", "--id=order-42").code == 2


def test_watch_in_a_pipe_prints_the_last_picture_once(shop: Shop) -> None:
    shop.admit()
    shop.deliver(outcome=Completed("1"))

    said = shop.ys("show", "order-42", "--watch")

    assert said.out.count("execution_id\torder-42") == 1
