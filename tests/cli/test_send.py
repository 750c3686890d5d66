"""`ys send` and `ys messages`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import MINUTE, Shop
from yieldstar_cli.model import Completed, Entry, Message, Start, Status, Suspended, Wait

HOSTILE = "\x1b[31mred\u202e"


@pytest.fixture
def waiting(shop: Shop) -> Shop:
    """order-40 has completed; order-42 waits on the queue cancel, and a worker is there."""
    shop.admit("order-40")
    shop.deliver("order-40", outcome=Completed("null"))
    await_queue(shop, "order-42", "cancel")
    return shop


def await_queue(shop: Shop, execution_id: str, queue: str) -> None:
    shop.admit(execution_id)
    now = shop.clock.now_ms()
    wait = Wait("message", queue, "", now, None, "waiting", queue=queue)
    shop.deliver(execution_id, waits=[wait], outcome=Suspended())


def sent(shop: Shop, execution_id: str = "order-42") -> list[Message]:
    return shop.storage.inbox.messages(execution_id)


def due_at(shop: Shop, execution_id: str = "order-42") -> int | None:
    record = shop.storage.executions.get(execution_id)
    assert record is not None
    return record.due_at


# --- what becomes of it ------------------------------------------------------------------------


def test_a_message_to_an_execution_is_delivered_and_wakes_who_waits(waiting: Shop) -> None:
    """spec M1, M4."""
    assert due_at(waiting) is None

    said = waiting.ys("send", "order-42", "cancel", "reason=too late")

    assert (said.code, said.out, said.err) == (0, "order-42\tdelivered\n", "")
    assert [(m.queue, m.state, m.value) for m in sent(waiting)] == [
        ("cancel", "waiting", '{"reason":"too late"}')
    ]
    assert due_at(waiting) == waiting.clock.now_ms()


def test_the_answer_is_told_for_people_and_programs(waiting: Shop) -> None:
    screen = waiting.screen("send", "order-42", "cancel")
    document = waiting.ys("send", "order-42", "cancel", "--json").json

    assert screen.out == "✓ Delivered to order-42, queue cancel.\n"
    assert screen.err == ""
    assert document == {
        "schema": "ys.answer/1",
        "execution_id": "order-42",
        "queue": "cancel",
        "answer": "delivered",
    }


def test_to_an_unknown_id_it_is_buffered_and_said_to_be(waiting: Shop) -> None:
    """cases 255, B51; spec M1."""
    pipe = waiting.ys("send", "order-43", "cancel")
    screen = waiting.screen("send", "order-43", "cancel", "--ttl", "10m")

    assert (pipe.code, pipe.out) == (0, "order-43\tbuffered\n")
    assert screen.out == (
        "✓ Buffered for order-43, queue cancel, for 10m: there is no such execution yet.\n"
    )
    assert "  Nearest: order-42, order-40.\n" in screen.err
    assert "ys messages order-43" in screen.err
    assert [m.state for m in sent(waiting, "order-43")] == ["buffered", "buffered"]


def test_what_was_buffered_is_there_once_the_execution_is(waiting: Shop) -> None:
    """case B51: sent first, triggered second."""
    waiting.ys("send", "order-43", "cancel", "n:=1")
    waiting.ys("send", "order-43", "cancel", "n:=2")

    said = waiting.ys("trigger", "charge-order", "--id", "order-43")

    assert said.code == 0, said.err
    assert [(m.state, m.value) for m in sent(waiting, "order-43")] == [
        ("waiting", '{"n":1}'),
        ("waiting", '{"n":2}'),
    ]


def test_to_an_ended_one_nothing_is_sent_and_it_is_said_how_it_ended(waiting: Shop) -> None:
    """cases 258, 283, B52; spec M1."""
    waiting.clock.advance(4 * MINUTE)

    said = waiting.ys("send", "order-40", "cancel")
    document = waiting.ys("send", "order-40", "cancel", "--json")

    assert (said.code, said.out) == (6, "")
    assert said.err == (
        "✗ execution 'order-40' has ended: completed.\n"
        "  It completed 4m ago.\n"
        "  Nothing was sent.\n"
        "  → ys show order-40\n"
    )
    assert document.out == ""
    assert document.error["code"] == "EXECUTION_TERMINAL"
    assert document.error["execution"]["status"] == "completed"
    assert "params" not in document.error["execution"]
    assert sent(waiting, "order-40") == []
    assert due_at(waiting, "order-40") is None


def test_the_same_key_twice_is_one_message_and_without_it_both_stay(waiting: Shop) -> None:
    """case 259; spec M3."""
    first = waiting.ys("send", "order-42", "cancel", "--idempotency-key", "k", "a=1")
    second = waiting.ys("send", "order-42", "cancel", "--idempotency-key", "k", "a=2")
    waiting.ys("send", "order-42", "cancel", "a=3")
    waiting.ys("send", "order-42", "cancel", "a=3")

    assert first.out == second.out == "order-42\tdelivered\n"
    assert [(m.idempotency_key, m.value) for m in sent(waiting)] == [
        ("k", '{"a":"1"}'),
        (None, '{"a":"3"}'),
        (None, '{"a":"3"}'),
    ]


def test_a_passed_ttl_can_be_asked_for(waiting: Shop) -> None:
    """case 257; spec M1."""
    waiting.ys("send", "order-43", "cancel", "--ttl", "10m")

    before = waiting.ys("messages", "order-43").out
    waiting.clock.advance(10 * MINUTE)
    after = waiting.ys("messages", "order-43", "--json").json

    assert before == "cancel\t\tbuffered\t2026-11-30T12:00:00.062Z\t{}\n"
    assert [message["state"] for message in after] == ["expired"]


def test_the_ttl_of_the_project_is_taken_where_none_is_given(waiting: Shop) -> None:
    (waiting.root / "ys.toml").write_text('message_ttl = "1m"\n')

    waiting.ys("send", "order-43", "cancel")

    (message,) = sent(waiting, "order-43")
    assert message.expires_at == waiting.clock.now_ms() + MINUTE


@pytest.mark.parametrize(("span", "word"), [("0s", "longer than nothing"), ("10", "10 what?")])
def test_a_ttl_is_a_span_longer_than_nothing(waiting: Shop, span: str, word: str) -> None:
    said = waiting.ys("send", "order-43", "cancel", "--ttl", span)

    assert said.code == 2
    assert word in said.err
    assert sent(waiting, "order-43") == []


# --- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ((), "{}"),
        (("n=42", "ok:=true"), '{"n":"42","ok":true}'),
        (("a.b=x", "a.c:=[1,2]"), '{"a":{"b":"x","c":[1,2]}}'),
        (("--data", '"yes"'), '"yes"'),
        (("--data", "[1, null]"), "[1,null]"),
        (("--data", '{"a": 1, "b": 2}', "b=x"), '{"a":1,"b":"x"}'),
        (("t:=" + '["$ys","tuple",1]',), '{"t":["$ys","list","$ys","tuple",1]}'),
    ],
)
def test_a_value_is_made_of_fields_and_json(
    waiting: Shop, words: tuple[str, ...], value: str
) -> None:
    """spec V4: without a declared type text is text; what looks like a tag stays what it is."""
    said = waiting.ys("send", "order-42", "cancel", *words)

    assert said.code == 0, said.err
    assert [m.value for m in sent(waiting)] == [value]


def test_a_value_comes_from_a_file_or_from_stdin(waiting: Shop) -> None:
    (waiting.root / "note.json").write_text('{"by": "ann"}')

    waiting.ys("send", "order-42", "cancel", "--data", "@note.json")
    waiting.ys("send", "order-42", "cancel", "--data", "-", stdin='{"by":"ben"}')
    waiting.ys("send", "order-42", "cancel", "text=@note.json")

    assert [m.value for m in sent(waiting)] == [
        '{"by":"ann"}',
        '{"by":"ben"}',
        '{"text":"{\\"by\\": \\"ann\\"}"}',
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data", "{"), "value"),
        (("--data", '{"a":1,"a":2}'), "value"),
        (("--data", "NaN"), "value"),
        (("n:=nan",), "value.n"),
        (("n=1", "n=2"), "value.n: given 2 times"),
        (("--data", "3", "n=1"), "value: expected a JSON object, got 3"),
        (("--data", "[" * 501 + "]" * 501), "value"),
        (("a.=x",), "is no parameter name"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is_stored(
    waiting: Shop, words: tuple[str, ...], said: str
) -> None:
    """spec V1, V3."""
    refused = waiting.ys("send", "order-42", "cancel", *words, "--json")

    assert refused.code == 5
    assert refused.error["code"] == "INVALID_MESSAGE"
    assert said in refused.error["message"]
    assert (
        "Nothing was sent." in refused.error["why"]
        or "Nothing was stored." in (refused.error["why"])
    )
    assert sent(waiting) == []


def test_a_large_message_is_exact_and_one_byte_too_many_is_refused(waiting: Shop) -> None:
    """case 265; spec V2."""
    (waiting.root / "ys.toml").write_text("max_value = 1000000\n")
    fits = '"' + "x" * 999_998 + '"'
    (waiting.root / "fits.json").write_text(fits)
    (waiting.root / "large.json").write_text('"' + "x" * 999_999 + '"')

    taken = waiting.ys("send", "order-42", "cancel", "--data", "@fits.json")
    refused = waiting.ys("send", "order-42", "cancel", "--data", "@large.json")

    assert (taken.code, refused.code) == (0, 5)
    assert [m.value for m in sent(waiting)] == [fits]
    assert waiting.ys("messages", "order-42").out.endswith(f"\t{fits}\n")


@pytest.mark.parametrize("queue", ["a#b", "a/b", "a:b", "a~b", "q" * 101, "a\nb", "\udcff"])
def test_a_queue_has_the_name_of_an_operation(waiting: Shop, queue: str) -> None:
    """spec M1, R3."""
    said = waiting.ys("send", "order-42", queue)

    assert said.code == 5
    assert "queue" in said.err
    assert "\n\n" not in said.err


@pytest.mark.parametrize("name", ["x" * 256, " x", "x\x07"])
def test_an_id_that_no_execution_can_have_is_refused(waiting: Shop, name: str) -> None:
    """spec E2: it would wait for ever."""
    assert waiting.ys("send", name, "cancel").code == 5


# --- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("order-42",), ("order-42", "ok:=true"), ("--id=x",)])
def test_an_execution_and_a_queue_have_to_be_given(waiting: Shop, words: tuple[str, ...]) -> None:
    said = waiting.ys("send", *words)

    assert said.code == 2
    assert "which execution, and which queue?" in said.err


def test_a_word_that_is_no_field_is_usage(waiting: Shop) -> None:
    said = waiting.ys("send", "order-42", "cancel", "order-43")

    assert said.code == 2
    assert "ys send takes NAME=VALUE" in said.err


def test_ids_come_from_stdin_and_all_are_answered(waiting: Shop) -> None:
    """An ended one among several is said, and it is six; the others get theirs."""
    await_queue(waiting, "order-43", "cancel")

    pipe = waiting.ys("send", "-", "cancel", stdin="order-42\norder-40\norder-43\n")
    document = waiting.ys("send", "-", "cancel", "--json", stdin="order-42\n@last\n").json

    assert pipe.code == 6
    assert pipe.out == "order-42\tdelivered\norder-40\trefused\norder-43\tdelivered\n"
    assert [(a["execution_id"], a["answer"]) for a in document] == [
        ("order-42", "delivered"),
        ("@last", "buffered"),
    ]


@pytest.mark.parametrize("words", [("--data", "-"), ("--data", "@-"), ("note=@-",)])
def test_stdin_cannot_give_both_ids_and_the_value(waiting: Shop, words: tuple[str, ...]) -> None:
    said = waiting.ys("send", "-", "cancel", *words, stdin="order-42\n")

    assert said.code == 2
    assert sent(waiting) == []


def test_no_ids_from_stdin_are_no_messages(waiting: Shop) -> None:
    said = waiting.ys("send", "-", "cancel", "--json", stdin="")

    assert (said.code, said.json) == (0, [])


def test_last_is_the_latest_and_a_literal_id_is_not(waiting: Shop) -> None:
    latest = waiting.ys("send", "@last", "cancel")
    literal = waiting.ys("send", "--id=@last", "cancel")

    assert latest.out == "order-42\tdelivered\n"
    assert literal.out == "@last\tbuffered\n"


def test_last_is_never_a_child(waiting: Shop) -> None:
    """What a person triggered last is meant, not what that has started since."""
    now = waiting.clock.now_ms()
    child = Start("charge", now, "order-42/charge", "charge-order", 1, "{}")
    waiting.ys("wake", "order-42")
    waiting.deliver("order-42", actions=(child,), outcome=Suspended())

    said = waiting.ys("send", "@last", "cancel")

    assert waiting.storage.executions.get("order-42/charge") is not None
    assert said.out == "order-42\tdelivered\n"


def test_an_id_is_never_completed_where_something_is_sent(waiting: Shop) -> None:
    """case 255: what is not there is not guessed."""
    assert waiting.screen("send", "orde", "cancel").out.startswith("✓ Buffered for orde,")


# --- hints ---------------------------------------------------------------------------------------


def test_a_queue_that_nobody_waits_on_is_pointed_out(waiting: Shop) -> None:
    """It may be a slip; the message stays there all the same."""
    other = waiting.screen("send", "order-42", "cancle")
    waiting.sleeping("order-43")
    none = waiting.screen("send", "order-43", "cancel")
    pipe = waiting.ys("send", "order-42", "cancle")

    assert other.err == "  Nobody waits on cancle: it waits on cancel.\n"
    assert none.err == "  Nobody waits on cancel: it waits on no queue now.\n"
    assert pipe.err == ""
    assert [m.queue for m in sent(waiting)] == ["cancle", "cancle"]


def test_a_missing_worker_is_pointed_out(shop: Shop) -> None:
    shop.admit()

    said = shop.screen("send", "order-42", "cancel")

    assert said.err == "  No worker is running on this database. Start one:  ys worker\n"


# --- ys messages ---------------------------------------------------------------------------------


def test_messages_are_listed_as_sent_with_their_fate(waiting: Shop) -> None:
    """spec M1-M3."""
    waiting.ys("send", "order-42", "cancel", "n:=1", "--idempotency-key", "k-1")
    waiting.clock.advance(MINUTE)
    waiting.ys("send", "order-42", "other", "token=abc")
    (first, _) = sent(waiting)
    waiting.deliver(
        entries=[Entry(0, "message", "cancel", True, '{"n":1}', waiting.clock.now_ms())],
        unwait=(("message", "cancel"),),
        consumed=(first.number,),
        outcome=Completed("null"),
    )

    screen = waiting.screen("messages", "order-42")
    pipe = waiting.ys("messages", "order-42")
    document = waiting.ys("messages", "order-42", "--queue", "cancel", "--json").json

    assert screen.out.splitlines() == [
        "  queue   state     sent       key  value",
        "  cancel  consumed  1m ago     k-1  n=1",
        "  other   waiting   31 ms ago       token=****",
    ]
    assert pipe.out == (
        'cancel\tk-1\tconsumed\t2026-11-30T12:00:00.062Z\t{"n":1}\n'
        'other\t\twaiting\t2026-11-30T12:01:00.062Z\t{"token":"abc"}\n'
    )
    assert document == [
        {
            "schema": "ys.message/1",
            "queue": "cancel",
            "idempotency_key": "k-1",
            "state": "consumed",
            "sent_at": "2026-11-30T12:00:00.062Z",
            "consumed_at": "2026-11-30T12:01:00.093Z",
            "expires_at": None,
            "value": {"n": 1},
        }
    ]


def test_a_long_value_is_cut_with_its_size_and_a_buffered_one_says_for_how_long(
    waiting: Shop,
) -> None:
    waiting.ys("send", "order-43", "cancel", f"text={'x' * 3000}")

    heading, line = waiting.screen("messages", "order-43").out.splitlines()

    assert heading.split() == ["queue", "state", "sent", "key", "value"]
    assert line.startswith("  cancel  buffered, expires in 1d00h  0 ms ago       text=xxx")
    assert line.endswith("… (3.0 kB)")
    assert len(line) < 80


def test_only_the_newest_of_one_queue(waiting: Shop) -> None:
    for number in range(3):
        waiting.ys("send", "order-42", "cancel", f"n:={number}")
    waiting.ys("send", "order-42", "other")

    said = waiting.ys("messages", "order-42", "--queue", "cancel", "-n", "2", "--json").json

    assert [message["value"] for message in said] == [{"n": 1}, {"n": 2}]


def test_an_unknown_id_without_messages_is_four_and_a_known_one_is_empty(waiting: Shop) -> None:
    unknown = waiting.ys("messages", "order-4")
    screen = waiting.screen("messages", "order-42", "--queue", "cancel")

    assert (unknown.code, unknown.out) == (4, "")
    assert "Nearest: order-42" in unknown.err
    assert waiting.ys("messages", "order-42").out == ""
    assert waiting.ys("messages", "order-42", "--json").json == []
    assert screen.out == "No message has been sent to order-42, queue cancel.\n"


def test_another_queue_of_an_id_that_is_only_sent_to_is_no_unknown_id(waiting: Shop) -> None:
    waiting.ys("send", "order-43", "cancel")

    assert waiting.ys("messages", "order-43", "--queue", "other").code == 0


def test_on_a_terminal_a_beginning_is_enough_to_look(waiting: Shop) -> None:
    waiting.ys("send", "order-42", "cancel")

    completed = waiting.screen("messages", "order-42"[:-1] + "2")
    beginning = waiting.screen("messages", "order")
    waiting.admit("refund-7")
    waiting.ys("send", "refund-7", "decision")
    unique = waiting.screen("messages", "refu")

    assert completed.code == 0
    assert beginning.code == 2
    assert unique.out.startswith("refund-7 (from refu)\n")
    assert "decision" in unique.out


def test_hostile_text_is_shown_and_never_interpreted(waiting: Shop) -> None:
    """spec K6."""
    (waiting.root / "value.txt").write_text(HOSTILE)
    waiting.ys("send", "order-42", "cancel", "text=@value.txt")
    waiting.ys("send", "order-43", "кассир", f"{'Ж'}=ü")

    for said in (
        waiting.screen("messages", "order-42"),
        waiting.ys("messages", "order-42"),
        waiting.ys("messages", "order-42", "--json"),
        waiting.screen("send", "order-42", HOSTILE),
        waiting.ys("send", HOSTILE, "cancel"),
        waiting.screen("messages", HOSTILE),
        waiting.screen("send", "order-42", "cancel", "--idempotency-key", HOSTILE),
    ):
        assert "\x1b[31m" not in said.out + said.err
        assert "\u202e" not in said.out + said.err
    assert waiting.ys("messages", "order-42", "--json").json[0]["value"] == {"text": HOSTILE}
    assert waiting.screen("messages", "order-43").out.splitlines()[1].startswith("  кассир  ")


def test_a_value_given_to_send_is_not_repeated_in_an_error(waiting: Shop) -> None:
    """What was sent may be secret."""
    said = waiting.ys("send", "order-42", "cancel", "pin=1234", "--dta", "4321")
    whole = waiting.ys("sned", "order-42", "cancel", "pin=1234", "--data", '{"pin":4321}')

    assert (said.code, whole.code) == (2, 2)
    for text in (said.err, whole.err):
        assert "1234" not in text
        assert "4321" not in text


def test_a_missing_database_is_made_to_buffer_in_and_not_to_look_at(shop: Shop) -> None:
    """spec K8."""
    looked = shop.ys("messages", "order-42")
    said = shop.ys("send", "order-42", "cancel")

    assert looked.code == 10
    assert said.out == "order-42\tbuffered\n"
    assert Path(shop.db).exists()


def test_a_message_changes_no_status(waiting: Shop) -> None:
    waiting.ys("send", "order-42", "cancel")

    record = waiting.storage.executions.get("order-42")
    assert record is not None
    assert record.status is Status.SUSPENDED


def test_text_that_looks_like_a_number_or_a_truth_value_is_pointed_out(waiting: Shop) -> None:
    """spec M2: a queue has no declared type, and its receiver's may end it over a text."""
    words = ("order-42", "cancel", "fee=5", "rush=True", "why=late", "n:=7", "rate=-0.5")

    screen = waiting.screen("send", *words)
    pipe = waiting.ys("send", *words)

    assert (
        "  Sent as text: fee=5 rush=True rate=-0.5."
        " If no text is meant:  fee:=5 rush:=true rate:=-0.5\n"
    ) in screen.err
    assert pipe.err == ""
    assert "Sent as text" not in waiting.screen("send", "order-42", "cancel", "why=late").err


def test_an_unknown_id_that_messages_wait_for_is_told_from_one_that_nobody_knows(
    waiting: Shop,
) -> None:
    waiting.ys("send", "order-77", "payment", "cents:=5")

    known, unknown = waiting.ys("explain", "order-77"), waiting.ys("explain", "order-78")

    assert known.code == unknown.code == 4
    assert "ys messages order-77" in known.err
    assert "ys messages" not in unknown.err
