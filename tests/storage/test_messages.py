"""Messages to executions: sent, buffered, expired, read, and whom they wake (spec M1-M4)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.storage.kit import admit, claim_one, entry, new_worker
from yieldstar_cli.clock import LAST_MOMENT, LONGEST_SPAN, ManualClock
from yieldstar_cli.errors import InvalidMessageEvent, StaleDelivery
from yieldstar_cli.model import (
    CancelledOutcome,
    Completed,
    Delivery,
    Failed,
    Round,
    Suspended,
    Wait,
)
from yieldstar_cli.storage.sqlite import inbox
from yieldstar_cli.storage.sqlite.inbox import EXPIRED_KEPT_MS, READ_KEPT
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

TTL_MS = 1_000
COUNT = "SELECT count(*) FROM messages"


def send(
    storage: SqliteStorage,
    execution_id: str = "order-42",
    queue: str = "approval",
    value: str = "1",
    *,
    ttl_ms: int = TTL_MS,
    key: str | None = None,
) -> str:
    """Send one message; the answer."""
    return storage.inbox.send(execution_id, queue, value, ttl_ms=ttl_ms, idempotency_key=key)


def told(storage: SqliteStorage, execution_id: str = "order-42") -> list[tuple[str, str]]:
    """Value and fate of every message, in the order sent."""
    return [(m.value, m.state) for m in storage.inbox.messages(execution_id)]


def waiting_on(queue: str, position: int = 0) -> Wait:
    """The open operation `step.message(queue)`."""
    return Wait("message", queue, queue, 0, None, "waiting", position=position, queue=queue)


def claimed(storage: SqliteStorage, clock: ManualClock, execution_id: str = "order-42") -> Delivery:
    """Admit an execution and claim it for a worker."""
    admit(storage, execution_id)
    return claim_one(storage, clock.now_ms(), new_worker(storage, clock.now_ms()))


def suspended_on(storage: SqliteStorage, clock: ManualClock, *queues: str) -> int:
    """An execution that waits on the queues and on nothing else; its number."""
    delivery = claimed(storage, clock)
    waits = tuple(waiting_on(queue, position) for position, queue in enumerate(queues))
    storage.deliveries.record(delivery, Round(waits=waits, outcome=Suspended()))
    return delivery.number


def read(storage: SqliteStorage, number: int, queue: str = "approval") -> list[str]:
    """The values that wait in a queue, in their order."""
    return [arrived.value for arrived in storage.inbox.unread(number, queue, 0, 1_000)]


def count(storage: SqliteStorage) -> int:
    """How many messages the file holds."""
    return int(storage.db.rows(COUNT)[0][0])


# --- sending -------------------------------------------------------------------------------------


def test_a_message_waits_in_its_queue_until_it_is_read(storage: SqliteStorage) -> None:
    """cases 250, 251, 252, 254, 262; spec M1: FIFO by queue, read or awaited or not."""
    number = admit(storage, "order-42")

    answers = [send(storage, queue=queue, value=value) for queue, value in ("a1", "b2", "a3")]

    assert answers == ["delivered"] * 3
    assert read(storage, number, "a") == ["1", "3"]
    assert read(storage, number, "b") == ["2"]
    assert read(storage, number, "c") == []
    assert [storage.inbox.depth(number, queue) for queue in "abc"] == [2, 1, 0]


def test_the_first_messages_are_read_first_and_no_more_than_wanted(storage: SqliteStorage) -> None:
    """case 252; spec M1: of a long queue a reader sees its beginning, from where it stands."""
    number = admit(storage, "order-42")
    for value in range(10):
        send(storage, value=str(value))

    first = storage.inbox.unread(number, "approval", 0, 3)
    next_ones = storage.inbox.unread(number, "approval", first[-1].number, 2)

    assert [arrived.value for arrived in first] == ["0", "1", "2"]
    assert [arrived.value for arrived in next_ones] == ["3", "4"]


def test_the_moment_of_a_message_is_that_of_its_arrival(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec O6: a message became ready when it arrived, also if that was before the admission."""
    sent_at = clock.now_ms()
    send(storage)
    clock.advance(10)
    number = admit(storage, "order-42")

    (arrived,) = storage.inbox.unread(number, "approval", 0, 10)

    assert (arrived.at, arrived.queue) == (sent_at, "approval")


def test_a_message_to_nobody_yet_is_buffered_and_can_be_asked_about(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """case 255; B51; spec M1: no record and nothing due; the sender sees when it expires."""
    assert send(storage, value='"early"') == "buffered"

    (message,) = storage.inbox.messages("order-42")
    assert (message.state, message.value) == ("buffered", '"early"')
    assert message.sent_at == clock.now_ms()
    assert message.expires_at == clock.now_ms() + TTL_MS
    assert storage.executions.get("order-42") is None
    assert storage.executions.claim_due(clock.now_ms()) == []


def test_what_was_buffered_is_delivered_ahead_of_what_comes_later(storage: SqliteStorage) -> None:
    """case 256; B51: sent, sent, admitted, sent: read in that order; others' are left alone."""
    for value in "12":
        send(storage, value=value)
    send(storage, "order-43", value="9")

    number = admit(storage, "order-42")
    assert send(storage, value="3") == "delivered"

    assert read(storage, number) == ["1", "2", "3"]
    assert told(storage) == [("1", "waiting"), ("2", "waiting"), ("3", "waiting")]
    assert told(storage, "order-43") == [("9", "buffered")]


@pytest.mark.parametrize("generated", [False, True])
def test_a_refused_admission_adopts_nothing(storage: SqliteStorage, generated: bool) -> None:
    """case 256: only the admission that was made takes what waits for its own ID."""
    admit(storage, "order-42")
    send(storage, "order-43")

    with pytest.raises(Exception, match="already exists"):
        admit(storage, "order-42")
    if generated:
        storage.executions.admit(workflow_id="order-43")

    assert told(storage, "order-43") == [("1", "buffered")]


def test_a_buffered_message_expires_and_its_sender_can_learn_it(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """case 257; spec M1: at its time to live, not a millisecond before; never delivered then."""
    send(storage, value="1")
    send(storage, value="2", ttl_ms=TTL_MS + 1)

    clock.advance(TTL_MS - 1)
    assert told(storage) == [("1", "buffered"), ("2", "buffered")]
    clock.advance(1)
    assert told(storage) == [("1", "expired"), ("2", "buffered")]
    number = admit(storage, "order-42")

    assert told(storage) == [("1", "expired"), ("2", "waiting")]
    assert read(storage, number) == ["2"]
    clock.advance(TTL_MS)
    assert read(storage, number) == ["2"]
    assert [m.expires_at is None for m in storage.inbox.messages("order-42")] == [False, True]


@pytest.mark.parametrize("end", [Completed("1"), Failed('"e"'), CancelledOutcome("enough")])
def test_an_execution_that_has_ended_takes_no_message(
    storage: SqliteStorage, clock: ManualClock, end: Any
) -> None:
    """case 258; B52: refused, a thousand times: nothing is stored and nothing is due."""
    storage.executions.acknowledge(claimed(storage, clock), end)

    answers = {send(storage, key=key) for key in (None, "k") for _ in range(500)}

    assert answers == {"refused"}
    assert count(storage) == 0
    record = storage.executions.get("order-42")
    assert record is not None
    assert record.due_at is None


def test_what_an_execution_left_unread_is_shown_as_unread(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """B50, B53: the record has ended, the messages that it never read are still told."""
    delivery = claimed(storage, clock)
    for value in "123":
        send(storage, value=value)
    first = storage.inbox.unread(delivery.number, "approval", 0, 1)[0]

    storage.deliveries.record(
        delivery,
        Round(entries=(entry(0),), consumed=(first.number,), outcome=Failed('"boom"')),
    )

    assert told(storage) == [("1", "consumed"), ("2", "waiting"), ("3", "waiting")]


# --- idempotency keys ----------------------------------------------------------------------------


def test_equal_messages_are_kept_and_a_key_is_stored_once(storage: SqliteStorage) -> None:
    """case 259; spec M3: without a key every message counts; with one the first, whatever comes."""
    number = admit(storage, "order-42")

    for _ in range(2):
        assert send(storage, value="1") == "delivered"
        assert send(storage, value="2", key="k") == "delivered"
    assert send(storage, queue="other", value="3", key="k") == "delivered"
    assert send(storage, value="4", key="K") == "delivered"

    assert read(storage, number) == ["1", "2", "1", "4"]
    assert read(storage, number, "other") == []


def test_a_key_holds_across_the_admission_the_reading_and_the_end(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """case 259; spec M3: the second is answered like the first, as long as the record is kept."""
    answers = [send(storage, value="1", key="early") for _ in range(2)]
    delivery = claimed(storage, clock)
    answers += [send(storage, value="2", key="early")]
    late = [send(storage, value="3", key="late")]
    taken = tuple(m.number for m in storage.inbox.messages("order-42"))
    storage.deliveries.record(delivery, Round(entries=(entry(0),), consumed=taken))
    answers += [send(storage, value="4", key="early")]
    storage.deliveries.record(delivery, Round(outcome=Completed()))
    answers += [send(storage, value="5", key="early")]
    late += [send(storage, value="6", key="late")]

    assert answers == ["buffered"] * 5
    assert late == ["delivered"] * 2
    assert told(storage) == [("1", "consumed"), ("3", "consumed")]


def test_a_key_counts_for_one_target(storage: SqliteStorage) -> None:
    """spec M3: unique for each target execution, admitted or not."""
    admit(storage, "order-42")
    admit(storage, "order-43")

    for execution_id in ("order-42", "order-43", "order-44", "order-45"):
        send(storage, execution_id, key="k")

    assert count(storage) == 4


@pytest.mark.parametrize("admitted", [False, True])
def test_a_message_that_expired_gives_its_key_back(
    storage: SqliteStorage, clock: ManualClock, admitted: bool
) -> None:
    """spec M3: it reached nobody; to take the second for the first would lose both."""
    send(storage, value="1", key="k")
    clock.advance(TTL_MS)
    if admitted:
        admit(storage, "order-42")

    answer = send(storage, value="2", key="k")

    assert answer == ("delivered" if admitted else "buffered")
    assert told(storage) == [("1", "expired"), ("2", "waiting" if admitted else "buffered")]
    assert send(storage, value="3", key="k") == answer
    assert len(told(storage)) == 2


# --- what cannot be sent -------------------------------------------------------------------------


@pytest.mark.parametrize("admitted", [False, True])
@pytest.mark.parametrize(
    ("place", "words"),
    [
        *(
            ("queue", {"queue": bad})
            for bad in ("", "a#b", "a/b", "a:b", "a~b", "a\nb", "x" * 101, "é" * 51, "\ud83d")
        ),
        *(("execution_id", {"execution_id": bad}) for bad in ("", " a", "a\0", "x" * 256)),
        *(("idempotency_key", {"key": bad}) for bad in ("", "a\tb", "k" * 256, "\udc00")),
        *(("ttl_ms", {"ttl_ms": bad}) for bad in (-1, LONGEST_SPAN + 1, True, 1.5)),
        ("value", {"value": '"\ud83d"'}),
    ],
)
def test_what_cannot_be_kept_exactly_is_refused_and_named(
    storage: SqliteStorage, place: str, words: dict[str, Any], admitted: bool
) -> None:
    """spec M1, E2, R3, V1, V3: nothing is stored, and the answer says what was wrong."""
    if admitted:
        admit(storage, "order-42")

    with pytest.raises(InvalidMessageEvent, match=f"^{place}: ") as refused:
        send(storage, **words)

    assert refused.value.code == "INVALID_MESSAGE"
    assert count(storage) == 0


def test_names_and_keys_may_be_as_long_as_is_said(storage: SqliteStorage) -> None:
    """case 309; spec R3: at most 100 bytes; keys up to 255 characters; kept exactly as given."""
    for queue in ("x" * 100, "é" * 50, "a b", "-", "日本"):
        send(storage, queue=queue, key=queue + "ä" * (255 - len(queue)))

    messages = storage.inbox.messages("order-42")
    assert [m.queue for m in messages] == ["x" * 100, "é" * 50, "a b", "-", "日本"]
    assert [len(m.idempotency_key or "") for m in messages] == [255] * 5


def test_no_message_outlives_the_calendar(storage: SqliteStorage, clock: ManualClock) -> None:
    """spec E5: the longest time to live ends with the last moment that can be told."""
    clock.set(LAST_MOMENT - 5)

    send(storage, ttl_ms=LONGEST_SPAN)

    assert [m.expires_at for m in storage.inbox.messages("order-42")] == [LAST_MOMENT]


def test_a_large_message_is_exact_and_a_larger_one_is_refused_with_its_size(
    db_path: Any, clock: ManualClock
) -> None:
    """case 265; spec V2: the limit counts bytes of JSON, and one more is refused at the sender."""
    storage = SqliteStorage(db_path, clock=clock, create=True, max_value=1_000_000)
    largest = '"' + "é" * 499_999 + '"'

    assert send(storage, value=largest) == "buffered"
    with pytest.raises(InvalidMessageEvent, match="1000001 bytes; the most is 1000000") as refused:
        send(storage, value=largest[:-1] + 'x"')

    assert refused.value.remedy
    assert [m.value for m in storage.inbox.messages("order-42")] == [largest]
    storage.close()


# --- whom a message wakes ------------------------------------------------------------------------


def test_a_message_wakes_who_waits_on_its_queue_and_nobody_else(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec M4: another queue's reader, and one that reads none, sleep on."""
    suspended_on(storage, clock, "approval", "payment")
    storage.executions.acknowledge(claimed(storage, clock, "deaf"), Suspended())

    send(storage, queue="news")
    send(storage, "deaf", queue="approval")
    assert storage.executions.claim_due(clock.now_ms() + 10**9) == []

    send(storage, queue="payment")
    due = storage.executions.claim_due(clock.now_ms())
    assert [delivery.execution_id for delivery in due] == ["order-42"]


def test_an_execution_that_only_just_began_is_not_woken(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec M4, E1: a message starts nothing that was admitted for later."""
    admit(storage, "order-42", at=clock.now_ms() + 500)

    assert send(storage) == "delivered"

    assert storage.executions.claim_due(clock.now_ms() + 499) == []


@pytest.mark.parametrize(("span", "due"), [(900, 0), (-5, -5), (None, 0)])
def test_a_message_s_wake_merges_with_the_others(
    storage: SqliteStorage, clock: ManualClock, span: int | None, due: int
) -> None:
    """spec M4, E6: the earliest counts."""
    suspended_on(storage, clock, "approval")
    if span is not None:
        storage.executions.request_wake("order-42", clock.now_ms() + span)

    send(storage)

    record = storage.executions.get("order-42")
    assert record is not None
    assert record.due_at == clock.now_ms() + due


def test_a_message_ends_no_hold(storage: SqliteStorage, clock: ManualClock) -> None:
    """spec E12: it waits with the execution until the problem has passed."""
    suspended_on(storage, clock, "approval")
    storage.executions.request_wake("order-42", clock.now_ms())
    (delivery,) = storage.executions.claim_due(clock.now_ms())
    storage.executions.release(delivery, problem=("DIVERGED", "no"), held=True)

    send(storage)

    assert storage.executions.claim_due(clock.now_ms() + 10**9) == []


def test_an_open_delivery_is_told_to_look_instead_of_being_due_again(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec R10, M4: it reads the message itself; were it due as well, it would run for nothing."""
    delivery = claimed(storage, clock)
    worker = storage.workers.all()[0].number
    storage.deliveries.record(delivery, Round(waits=(waiting_on("approval"),)))

    send(storage, queue="other")
    assert storage.deliveries.nudged(worker) == []
    send(storage)
    send(storage)

    assert storage.deliveries.nudged(worker) == [(delivery.number, 2)]
    record = storage.executions.get("order-42")
    assert record is not None
    assert record.due_at is None


@pytest.mark.parametrize("unread", ["approval", "other", None])
def test_a_suspension_sees_what_has_arrived_on_the_queues_that_it_waits_on(
    storage: SqliteStorage, clock: ManualClock, unread: str | None
) -> None:
    """case 251; spec R10: sent before the wait was written, so nobody was woken for it."""
    delivery = claimed(storage, clock)
    if unread is not None:
        send(storage, queue=unread)

    recorded = storage.deliveries.record(
        delivery, Round(waits=(waiting_on("approval"),), outcome=Suspended())
    )

    assert recorded.ready == (unread == "approval")
    assert storage.inbox.any_unread(delivery.number) == (unread == "approval")


def test_a_message_and_its_wake_are_one_commit(storage: SqliteStorage, clock: ManualClock) -> None:
    """case 268: where the transaction is undone neither is there, else both."""
    suspended_on(storage, clock, "approval")

    def send_and_fail() -> None:
        with storage.atomic():
            send(storage)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        send_and_fail()
    assert told(storage) == []
    assert storage.executions.claim_due(clock.now_ms()) == []

    with storage.atomic():
        send(storage)
    assert told(storage) == [("1", "waiting")]
    assert len(storage.executions.claim_due(clock.now_ms())) == 1


# --- reading -------------------------------------------------------------------------------------


def test_a_message_is_consumed_with_the_entry_that_it_resolved(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec M2; case 267: that one and no other, also where another wait reads the same queue."""
    delivery = claimed(storage, clock)
    for value in "123":
        send(storage, value=value)
    numbers = [m.number for m in storage.inbox.messages("order-42")]

    clock.advance(5)
    storage.deliveries.record(
        delivery, Round(entries=(entry(0),), consumed=(numbers[0],), invalid=(numbers[1],))
    )

    assert told(storage) == [("1", "consumed"), ("2", "invalid"), ("3", "waiting")]
    read_at = [m.consumed_at for m in storage.inbox.messages("order-42")]
    assert read_at == [clock.now_ms(), clock.now_ms(), None]
    assert read(storage, delivery.number) == ["3"]
    assert storage.inbox.depth(delivery.number, "approval") == 1
    assert len(storage.reader.history(delivery.number, 1)) == 1


def test_a_delivery_that_is_over_takes_no_message(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """case 74; spec L2, M2: refused as a whole; the next delivery finds the message."""
    delivery = claimed(storage, clock)
    send(storage)
    (message,) = storage.inbox.messages("order-42")
    storage.executions.release(delivery)

    with pytest.raises(StaleDelivery):
        storage.deliveries.record(delivery, Round(entries=(entry(0),), consumed=(message.number,)))

    assert told(storage) == [("1", "waiting")]
    assert storage.reader.history(delivery.number, 1) == []


def test_what_is_not_there_to_be_read_cannot_be_taken(storage: SqliteStorage) -> None:
    """spec M2: read twice, another execution's, or one that does not exist: nothing is changed."""
    number, other = admit(storage, "order-42"), admit(storage, "order-43")
    send(storage)
    (message,) = storage.inbox.messages("order-42")

    for n, m in ((other, message.number), (number, message.number + 1)):
        with pytest.raises(AssertionError), storage.atomic():
            storage.inbox.take(n, [m], [], 5)
    with storage.atomic():
        storage.inbox.take(number, [message.number], [], 5)
    with pytest.raises(AssertionError), storage.atomic():
        storage.inbox.take(number, [], [message.number], 6)

    assert told(storage) == [("1", "consumed")]


def test_read_messages_are_kept_up_to_a_hundred(storage: SqliteStorage) -> None:
    """Of each execution the last read ones; keys, unread ones and others' stay all."""
    number, other = admit(storage, "order-42"), admit(storage, "order-43")
    send(storage, "order-43", value="0")
    keyed = READ_KEPT // 2
    for value in range(keyed):
        send(storage, value=str(value), key=f"k-{value}")
    for value in range(READ_KEPT + 5):
        send(storage, value=str(1_000 + value))
    send(storage, value='"unread"')
    numbers = [m.number for m in storage.inbox.messages("order-42")]

    with storage.atomic():
        storage.inbox.take(other, [1], [], 1)
        for at, m in enumerate(numbers[:-1]):
            storage.inbox.take(number, [m] if at % 2 else [], [] if at % 2 else [m], at)

    left = [m.value for m in storage.inbox.messages("order-42")]
    assert left[:keyed] == [str(value) for value in range(keyed)]
    assert left[keyed:-1] == [str(1_005 + value) for value in range(READ_KEPT)]
    assert left[-1] == '"unread"'
    assert told(storage, "order-43") == [("0", "consumed")]


def test_what_expired_long_ago_is_forgotten_when_another_is_buffered(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec M1: its sender can ask for a week; then it goes, whoever it was for."""
    send(storage, "nobody", value="1")
    clock.advance(1)
    send(storage, "no-one", value="2")
    admit(storage, "order-42")
    send(storage, value="3")

    clock.advance(TTL_MS + EXPIRED_KEPT_MS - 2)
    send(storage, "someone")
    assert told(storage, "nobody") == [("1", "expired")]
    clock.advance(1)
    send(storage, "someone")

    assert told(storage, "nobody") == []
    assert told(storage, "no-one") == [("2", "expired")]
    assert told(storage) == [("3", "waiting")]


def test_messages_are_listed_in_the_order_sent_and_the_newest_count(storage: SqliteStorage) -> None:
    """spec M1: `ys messages`: with or without a record, by queue, the newest so many."""
    for execution_id in ("order-42", "order-43"):
        for value in range(6):
            send(storage, execution_id, "ab"[value % 2], str(value))
    admit(storage, "order-42")

    for execution_id in ("order-42", "order-43"):
        every = storage.inbox.messages(execution_id)
        assert [m.value for m in every] == list("012345")
        assert storage.inbox.messages(execution_id, limit=2) == every[-2:]
        assert storage.inbox.messages(execution_id, queue="b") == every[1::2]
        assert storage.inbox.messages(execution_id, queue="a", limit=1) == [every[4]]
        assert storage.inbox.messages(execution_id, queue="c") == []


@pytest.mark.parametrize("unknown", ["nobody", "", "\ud83d", "a\0b"])
def test_nobody_has_messages_under_an_id_that_nobody_could_have(
    storage: SqliteStorage, unknown: str
) -> None:
    """spec E2: asked about, an ID that no record can have is one without messages."""
    assert storage.inbox.messages(unknown) == []
    assert storage.inbox.messages("order-42", queue=unknown + "#") == []


def test_messages_survive_a_restart(db_path: Any, clock: ManualClock) -> None:
    """spec M2, E13: what was accepted is in the file."""
    first = SqliteStorage(db_path, clock=clock, create=True)
    admit(first, "order-42")
    send(first, value="1")
    send(first, "order-43", value="2", key="k")
    before = [first.inbox.messages(x) for x in ("order-42", "order-43")]
    first.close()

    again = SqliteStorage(db_path, clock=clock)

    assert [again.inbox.messages(x) for x in ("order-42", "order-43")] == before
    assert send(again, "order-43", value="3", key="k") == "buffered"
    assert len(told(again, "order-43")) == 1
    again.close()


# --- what it costs -------------------------------------------------------------------------------


def test_no_question_about_messages_reads_past_others(storage: SqliteStorage) -> None:
    """Every statement finds its rows by an index, however many messages a file holds."""
    for name, sql in vars(inbox).items():
        if isinstance(sql, str) and name.isupper() and not name.startswith("_"):
            plan = storage.db.rows(
                "EXPLAIN QUERY PLAN " + sql, dict.fromkeys(re.findall(r":(\w+)", sql))
            )
            assert [
                row[3] for row in plan if row[3].startswith("SCAN") and "CONSTANT" not in row[3]
            ] == [], name
