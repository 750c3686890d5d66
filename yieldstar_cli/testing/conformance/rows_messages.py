"""Rows about messages: sent, buffered, consumed, and whom they wake (spec M1-M4)."""

from __future__ import annotations

import pytest

from yieldstar_cli.errors import InvalidMessageEvent, StaleDelivery
from yieldstar_cli.model import Completed, Failed, Round, Send
from yieldstar_cli.storage.contract import Storage
from yieldstar_cli.testing.conformance.rooms import RoomRows

TTL_MS = 1_000


class MessageRows(RoomRows):
    """Rows about messages."""

    def send(
        self, storage: Storage, execution_id: str, value: str = "1", *, key: str | None = None
    ) -> str:
        """Send one message to the queue `approval`; the answer."""
        return storage.inbox.send(
            execution_id, "approval", value, ttl_ms=TTL_MS, idempotency_key=key
        )

    def told(self, storage: Storage, execution_id: str) -> list[tuple[str, str]]:
        """Value and fate of every message, in the order sent."""
        return [(m.value, m.state) for m in storage.inbox.messages(execution_id)]

    def test_a_message_to_an_execution_is_delivered_whoever_awaits_it(self) -> None:
        """Spec M1: the record exists, so it is delivered, and waits to be read."""
        with self.opened() as adapter:
            storage = adapter.storage
            delivery = self.begun(storage, "a")

            assert self.send(storage, "a", '{"n":1}') == "delivered"

            assert self.told(storage, "a") == [('{"n":1}', "waiting")]
            (arrived,) = self.looked(storage, delivery, "approval", "other").arrived
            assert (arrived.queue, arrived.value, arrived.at) == ("approval", '{"n":1}', self.now)

    def test_messages_of_a_queue_are_read_in_the_order_sent(self) -> None:
        """Spec M1; case 252: FIFO, what was buffered before the admission first (case 256)."""
        with self.opened() as adapter:
            storage = adapter.storage
            early = [self.send(storage, "a", str(value)) for value in range(3)]
            delivery = self.begun(storage, "a")
            late = [self.send(storage, "a", str(value)) for value in range(3, 6)]

            assert (early, late) == (["buffered"] * 3, ["delivered"] * 3)
            arrived = self.looked(storage, delivery, "approval").arrived
            assert [m.value for m in arrived] == ["0", "1", "2", "3", "4", "5"]

    def test_a_message_to_nobody_makes_no_record(self) -> None:
        """Spec M1; case 255: buffered, nothing due, and its sender can ask."""
        with self.opened() as adapter:
            storage = adapter.storage

            assert self.send(storage, "a") == "buffered"

            assert storage.executions.get("a") is None
            assert self.due(storage) == []
            (message,) = storage.inbox.messages("a")
            assert (message.state, message.expires_at) == ("buffered", self.now + TTL_MS)

    def test_a_buffered_message_expires(self) -> None:
        """Spec M1; case 257: at its time to live; then it is told as such and never delivered."""
        with self.opened() as adapter:
            storage = adapter.storage
            self.send(storage, "a", "1")
            self.clock.advance(1)
            self.send(storage, "a", "2")
            self.clock.advance(TTL_MS - 1)

            assert self.told(storage, "a") == [("1", "expired"), ("2", "buffered")]
            delivery = self.begun(storage, "a")

            assert self.told(storage, "a") == [("1", "expired"), ("2", "waiting")]
            arrived = self.looked(storage, delivery, "approval").arrived
            assert [m.value for m in arrived] == ["2"]

    def test_a_terminal_execution_refuses_messages(self) -> None:
        """Spec M1; case 258: nothing is stored, nothing is due."""
        with self.opened() as adapter:
            storage = adapter.storage
            for outcome in (Completed("1"), Failed('{"name":"E","message":"m"}')):
                execution_id = type(outcome).__name__
                self.ended(storage, self.begun(storage, execution_id), outcome)

                assert self.send(storage, execution_id) == "refused"
                assert self.told(storage, execution_id) == []
                assert self.record_of(storage, execution_id).due_at is None

    def test_a_second_message_with_one_key_is_answered_like_the_first(self) -> None:
        """Spec M3; case 259: stored once, across admission, reading and end; others all."""
        with self.opened() as adapter:
            storage = adapter.storage
            answers = [self.send(storage, "a", "1", key="k") for _ in range(2)]
            delivery = self.begun(storage, "a")
            answers.append(self.send(storage, "a", "2", key="k"))
            same = [self.send(storage, "a", "3") for _ in range(2)]
            other = self.send(storage, "b", "4", key="k")
            taken = tuple(m.number for m in self.looked(storage, delivery, "approval").arrived)
            entries = (self.entry(0, "messages"),)
            storage.deliveries.record(delivery, Round(entries=entries, consumed=taken))
            answers.append(self.send(storage, "a", "5", key="k"))

            assert answers == ["buffered"] * 4
            assert same == ["delivered"] * 2
            assert other == "buffered"
            assert self.told(storage, "a") == [(value, "consumed") for value in "133"]

    def test_a_message_wakes_who_waits_on_its_queue(self) -> None:
        """Spec M4; case 268: due at once, by the same commit; the others sleep on."""
        with self.opened() as adapter:
            storage = adapter.storage
            self.suspended(storage, self.begun(storage, "reader"), self.message("approval"))
            self.suspended(storage, self.begun(storage, "elsewhere"), self.message("other"))
            self.suspended(storage, self.begun(storage, "nowhere"))

            for execution_id in ("reader", "elsewhere", "nowhere"):
                self.send(storage, execution_id)

            assert self.due(storage) == ["reader"]

    def test_a_message_for_an_open_delivery_is_told_to_its_worker(self) -> None:
        """Spec R10, M4; case 81: it looks again, and is not due once more for what it read."""
        with self.opened() as adapter:
            storage = adapter.storage
            delivery = self.begun(storage, "a")
            storage.deliveries.record(delivery, Round(waits=(self.message("approval"),)))
            before = storage.deliveries.nudged(self.worker)

            self.send(storage, "a")

            assert before == []
            ((number, _),) = storage.deliveries.nudged(self.worker)
            assert number == delivery.number
            (arrived,) = self.looked(storage, delivery, "approval").arrived
            round_ = Round(
                entries=(self.entry(0, "message", "approval"),),
                consumed=(arrived.number,),
                unwait=(("message", "approval"),),
            )
            storage.deliveries.record(delivery, round_)
            self.suspended(storage, delivery)
            assert self.due(storage) == []

    def test_no_suspension_passes_over_a_message_that_is_there(self) -> None:
        """Spec R10; cases 81, 251: sent before the wait was written: the delivery stays open."""
        with self.opened() as adapter:
            storage = adapter.storage
            for queue, ready in (("approval", True), ("other", False)):
                delivery = self.begun(storage, queue)
                self.send(storage, queue)

                recorded = self.suspended(storage, delivery, self.message(queue))

                assert recorded.ready == ready
                still_open = self.record_of(storage, queue).delivery is not None
                assert still_open == ready

    def test_a_message_is_consumed_by_the_commit_that_records_it(self) -> None:
        """Spec M2; case 267: that one and no other, once; what did not fit is shown as such."""
        with self.opened() as adapter:
            storage = adapter.storage
            delivery = self.begun(storage, "a")
            for value in "123":
                self.send(storage, "a", value)
            first, second, third = self.looked(storage, delivery, "approval").arrived

            storage.deliveries.record(
                delivery,
                Round(
                    entries=(self.entry(0, "message", "approval"),),
                    consumed=(first.number,),
                    invalid=(second.number,),
                ),
            )
            adapter.crash()

            assert self.told(adapter.storage, "a") == [
                ("1", "consumed"),
                ("2", "invalid"),
                ("3", "waiting"),
            ]
            assert len(adapter.storage.reader.history(delivery.number, 1)) == 1
            assert self.looked(adapter.storage, delivery, "approval").arrived == (third,)

    def test_a_dead_delivery_consumes_nothing(self) -> None:
        """Spec L2; case 74: refused as a whole; whoever has it now reads the message."""
        with self.opened() as adapter:
            storage = adapter.storage
            delivery = self.begun(storage, "a")
            self.send(storage, "a")
            (arrived,) = self.looked(storage, delivery, "approval").arrived
            storage.executions.release(delivery)
            again = self.claimed(storage, "a")
            takes = Round(
                entries=(self.entry(0, "message", "approval"),), consumed=(arrived.number,)
            )

            with pytest.raises(StaleDelivery):
                storage.deliveries.record(delivery, takes)

            assert self.told(storage, "a") == [("1", "waiting")]
            assert storage.reader.history(again.number, 1) == []
            storage.deliveries.record(again, takes)
            assert self.told(storage, "a") == [("1", "consumed")]

    def test_what_a_round_sends_is_sent_with_it_and_only_with_it(self) -> None:
        """Spec R2, L2: exactly once, with its answer in the history; refused: nothing."""
        with self.opened() as adapter:
            storage = adapter.storage
            sender = self.begun(storage, "sender")
            self.suspended(storage, self.begun(storage, "reader"), self.message("approval"))
            sends = Round(
                actions=tuple(
                    Send(f"send-{to}", self.now, to, "approval", "7", TTL_MS)
                    for to in ("reader", "nobody")
                )
            )

            recorded = storage.deliveries.record(sender, sends)

            assert [(e.kind, e.value) for e in recorded.entries] == [
                ("send", '"delivered"'),
                ("send", '"buffered"'),
            ]
            assert storage.reader.history(sender.number, 1) == list(recorded.entries)
            assert self.told(storage, "reader") == [("7", "waiting")]
            assert self.due(storage) == ["reader"]
            self.ended(storage, sender)
            storage.deliveries.record(sender, sends)
            assert self.told(storage, "nobody") == [("7", "buffered")]

    def test_what_cannot_be_sent_is_refused_and_stores_nothing(self) -> None:
        """Spec V1, V3; case 265: a name, a key, or a value that is too large, with its size."""
        with self.opened() as adapter:
            storage = adapter.storage
            large = '"' + "x" * storage.max_value + '"'
            for queue, value, key in (
                ("", "1", None),
                ("a/b", "1", None),
                ("approval", "1", ""),
                ("approval", large, None),
                ("approval", '"\ud83d"', None),
            ):
                with pytest.raises(InvalidMessageEvent):
                    storage.inbox.send("a", queue, value, ttl_ms=TTL_MS, idempotency_key=key)

            assert storage.inbox.messages("a") == []
            fits = large[:-3] + '"'
            assert self.send(storage, "a", fits) == "buffered"
            assert self.told(storage, "a") == [(fits, "buffered")]
