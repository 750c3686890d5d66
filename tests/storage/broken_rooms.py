"""Storages that are each broken in one rule of messages, children, cancel or pause.

As in `broken_adapters`: each does to the real SQLite adapter what a plausible mistake would do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.storage.sqlite_adapter import SqliteAdapter
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import InvalidMessageEvent, StaleDelivery
from yieldstar_cli.model import (
    CancelRequested,
    Continued,
    Delivery,
    Look,
    Recorded,
    Round,
    Send,
    Start,
    Suspended,
)

OPEN = "status IN ('admitted', 'suspended')"


class StoresRoom:
    """The room of stores, whose methods are not all named unlike those of the others."""

    def __init__(self, rooms: BrokenRooms) -> None:
        self._rooms = rooms

    def get(self, name: str, store_id: str) -> Any:
        return self._rooms.true.stores.get(name, store_id)

    def find(self, **words: Any) -> Any:
        return self._rooms.find_stores(**words)

    def put(self, name: str, store_id: str, state: str, **words: Any) -> Any:
        return self._rooms.put_store(name, store_id, state, **words)

    def delete(self, name: str, store_id: str, **words: Any) -> Any:
        return self._rooms.delete_store(name, store_id, **words)


class BrokenRooms:
    """The real adapter and all its rooms, passed through; each subclass breaks one method.

    It is its own storage and each of its rooms: their methods all have names of their own.
    """

    found_by: str
    redelivery_ms = 30_000

    def __init__(self, path: Path, clock: ManualClock) -> None:
        self.real = SqliteAdapter(path, clock)
        self.clock = clock

    @property
    def storage(self) -> Any:
        return self

    @property
    def true(self) -> Any:
        return self.real.storage

    executions = deliveries = inbox = steering = family = workers = reader = storage

    @property
    def stores(self) -> StoresRoom:
        return StoresRoom(self)

    def __getattr__(self, name: str) -> Any:
        for room in (
            *("executions", "deliveries", "inbox", "steering", "family", "workers", "reader"),
        ):
            if hasattr(getattr(self.true, room), name):
                return getattr(getattr(self.true, room), name)
        return getattr(self.true, name)

    def sql(self, statement: str, **bindings: Any) -> Any:
        return self.true.db.rows(statement, bindings)

    def restart(self) -> None:
        self.real.restart()

    def crash(self) -> None:
        self.real.crash()

    def close(self) -> None:
        self.real.close()

    def send(self, execution_id: str, queue: str, value: str, **words: Any) -> Any:
        return self.true.inbox.send(execution_id, queue, value, **words)

    def find_stores(self, **words: Any) -> Any:
        return self.true.stores.find(**words)

    def put_store(self, name: str, store_id: str, state: str, **words: Any) -> Any:
        return self.true.stores.put(name, store_id, state, **words)

    def delete_store(self, name: str, store_id: str, **words: Any) -> Any:
        return self.true.stores.delete(name, store_id, **words)

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded: Recorded = self.true.deliveries.record(delivery, changes)
        return recorded

    def look(self, delivery: Delivery, **words: Any) -> Look:
        look: Look = self.true.deliveries.look(delivery, **words)
        return look


# --- messages ------------------------------------------------------------------------------------


class LastInFirstOut(BrokenRooms):
    """The newest message is read first."""

    found_by = "test_messages_of_a_queue_are_read_in_the_order_sent"

    def look(self, delivery: Delivery, **words: Any) -> Look:
        look = super().look(delivery, **words)
        return replace(look, arrived=look.arrived[::-1])


class UnknownTargetsLoseMessages(BrokenRooms):
    """What is sent before the admission is answered and thrown away."""

    found_by = "test_a_message_to_nobody_makes_no_record"

    def send(self, execution_id: str, queue: str, value: str, **words: Any) -> Any:
        if self.true.executions.get(execution_id) is None:
            return "buffered"
        return super().send(execution_id, queue, value, **words)


class SendAdmits(BrokenRooms):
    """A message to nobody makes a record for it."""

    found_by = "test_a_message_to_nobody_makes_no_record"

    def send(self, execution_id: str, queue: str, value: str, **words: Any) -> Any:
        answer = super().send(execution_id, queue, value, **words)
        if answer == "buffered":
            self.true.executions.admit(workflow_id="order", execution_id=execution_id)
        return answer


class BufferedForEver(BrokenRooms):
    """The time to live is not looked at."""

    found_by = "test_a_buffered_message_expires"

    def send(self, execution_id: str, queue: str, value: str, **words: Any) -> Any:
        return super().send(execution_id, queue, value, **{**words, "ttl_ms": 10**9})


class FinishedOnesPileUp(BrokenRooms):
    """Messages to an execution that has ended are kept."""

    found_by = "test_a_terminal_execution_refuses_messages"

    def send(self, execution_id: str, queue: str, value: str, **words: Any) -> Any:
        answer = super().send(execution_id, queue, value, **words)
        if answer == "refused":
            self.sql(
                "INSERT INTO messages (n, queue, state, sent_at, answer, value)"
                " SELECT n, :queue, 'waiting', 0, 'refused', :value FROM executions"
                "  WHERE execution_id = :id",
                id=execution_id,
                queue=queue,
                value=value,
            )
        return answer


class KeysAreIgnored(BrokenRooms):
    """A message that is sent again is stored again."""

    found_by = "test_a_second_message_with_one_key_is_answered_like_the_first"

    def send(self, execution_id: str, queue: str, value: str, **words: Any) -> Any:
        return super().send(execution_id, queue, value, **{**words, "idempotency_key": None})


class KeysAreForgottenAtTheAdmission(BrokenRooms):
    """A key counts for those that are buffered alone."""

    found_by = "test_a_second_message_with_one_key_is_answered_like_the_first"

    def send(self, execution_id: str, queue: str, value: str, **words: Any) -> Any:
        self.sql("UPDATE messages SET idempotency_key = NULL WHERE n IS NOT NULL")
        return super().send(execution_id, queue, value, **words)


class EveryMessageWakes(BrokenRooms):
    """A message wakes whoever it is for, waiting or not."""

    found_by = "test_a_message_wakes_who_waits_on_its_queue"

    def send(self, execution_id: str, queue: str, value: str, **words: Any) -> Any:
        answer = super().send(execution_id, queue, value, **words)
        if answer == "delivered":
            self.true.executions.request_wake(execution_id, self.clock.now_ms())
        return answer


class MessagesWakeNobody(BrokenRooms):
    """The message is stored and its reader sleeps on."""

    found_by = "test_a_message_wakes_who_waits_on_its_queue"

    def send(self, execution_id: str, queue: str, value: str, **words: Any) -> Any:
        answer = super().send(execution_id, queue, value, **words)
        self.sql("UPDATE executions SET due_at = NULL WHERE execution_id = :id", id=execution_id)
        return answer


class OpenDeliveriesAreDueAgain(BrokenRooms):
    """A message for an open delivery makes it due, though the delivery reads it."""

    found_by = "test_a_message_for_an_open_delivery_is_told_to_its_worker"

    def send(self, execution_id: str, queue: str, value: str, **words: Any) -> Any:
        answer = super().send(execution_id, queue, value, **words)
        if self.true.executions.get(execution_id).delivery is not None:
            self.true.executions.request_wake(execution_id, self.clock.now_ms())
        return answer


class NobodyIsNudged(BrokenRooms):
    """An open delivery learns of nothing before it ends."""

    found_by = "test_a_message_for_an_open_delivery_is_told_to_its_worker"

    def nudged(self, worker: int) -> list[tuple[int, int]]:
        return []


class SuspendsBlindly(BrokenRooms):
    """A delivery suspends though what it waits for is there."""

    found_by = "test_no_suspension_passes_over_a_message_that_is_there"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        if recorded.ready and isinstance(changes.outcome, Suspended):
            self.true.executions.acknowledge(delivery, changes.outcome)
            return Recorded(changes.outcome, recorded.entries)
        return recorded


class LookingConsumes(BrokenRooms):
    """A look takes what it shows; the delivery may die with it."""

    found_by = "test_a_dead_delivery_consumes_nothing"

    def look(self, delivery: Delivery, **words: Any) -> Look:
        look = super().look(delivery, **words)
        for arrived in look.arrived:
            self.sql("UPDATE messages SET state = 'consumed' WHERE m = :m", m=arrived.number)
        return look

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        return super().record(delivery, replace(changes, consumed=(), invalid=()))


class EntriesConsumeNothing(BrokenRooms):
    """The entry is recorded and its message is left to be read once more."""

    found_by = "test_a_message_is_consumed_by_the_commit_that_records_it"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        return super().record(delivery, replace(changes, consumed=(), invalid=()))


class StaleTokensSend(BrokenRooms):
    """What a round sends goes out first, whether or not the round counts."""

    found_by = "test_what_a_round_sends_is_sent_with_it_and_only_with_it"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        for action in changes.actions:
            if isinstance(action, Send) and not recorded.entries:
                self.send(action.execution_id, action.queue, action.value, ttl_ms=action.ttl_ms)
        return recorded


class LargeMessagesAreCut(BrokenRooms):
    """What is too large is stored as far as it fits."""

    found_by = "test_what_cannot_be_sent_is_refused_and_stores_nothing"

    def send(self, execution_id: str, queue: str, value: str, **words: Any) -> Any:
        try:
            return super().send(execution_id, queue, value, **words)
        except InvalidMessageEvent:
            if len(value) <= self.true.max_value:
                raise
            return super().send(execution_id, queue, value[: self.true.max_value], **words)


# --- children ------------------------------------------------------------------------------------


class StaleTokensStart(BrokenRooms):
    """The child is admitted before the token is looked at."""

    found_by = "test_a_dead_delivery_starts_no_child"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        try:
            return super().record(delivery, changes)
        except StaleDelivery:
            for action in changes.actions:
                if isinstance(action, Start):
                    self.true.executions.admit(
                        workflow_id=action.workflow_id, execution_id=action.execution_id
                    )
            raise


class StartsAreNotRecorded(BrokenRooms):
    """The child is admitted and the history does not know."""

    found_by = "test_a_child_is_admitted_by_the_commit_that_records_its_start"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        self.sql("DELETE FROM history WHERE kind = 'start'")
        return recorded


class AnyIdIsOnesOwn(BrokenRooms):
    """An ID in use is taken for the child, whoever started that execution."""

    found_by = "test_one_s_own_earlier_child_is_that_child_and_any_other_id_is_refused"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        entries = tuple(
            replace(entry, ok=True) if entry.kind == "start" else entry
            for entry in recorded.entries
        )
        return replace(recorded, entries=entries)


class ChildrenEndUnseen(BrokenRooms):
    """The end of a child wakes nobody."""

    found_by = "test_the_end_of_a_child_wakes_its_parent"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        if changes.outcome is not None and not isinstance(changes.outcome, Suspended):
            self.sql("UPDATE executions SET due_at = NULL WHERE status = 'suspended'")
        return recorded


class OnlyParentsAreWoken(BrokenRooms):
    """Whoever awaits an execution that is not its child waits for ever."""

    found_by = "test_whoever_awaits_an_execution_is_woken_by_its_end"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        self.sql(
            f"UPDATE executions SET due_at = NULL WHERE {OPEN} AND claimed_by IS NULL"
            "   AND parent IS NULL AND status = 'suspended'"
            "   AND n NOT IN (SELECT parent FROM executions WHERE parent IS NOT NULL)"
        )
        return recorded


class WaitsAreNeverGivenUp(BrokenRooms):
    """A wait that is dropped still wakes."""

    found_by = "test_a_wait_that_was_given_up_wakes_nobody"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        return super().record(delivery, replace(changes, unwait=()))


class DetachedChildrenEndToo(BrokenRooms):
    """A detached child is like any other."""

    found_by = "test_the_end_of_a_parent_cancels_its_linked_children"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        self.sql("UPDATE executions SET detached = 0")
        return recorded


class LinkedChildrenGoOn(BrokenRooms):
    """Nobody asks the children of an execution that has ended to cancel."""

    found_by = "test_the_end_of_a_parent_cancels_its_linked_children"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        self.sql("UPDATE executions SET detached = 1 WHERE parent IS NOT NULL")
        return super().record(delivery, changes)


# --- cancel and pause ----------------------------------------------------------------------------


class CancelOverwritesTheReason(BrokenRooms):
    """The last reason counts."""

    found_by = "test_what_has_begun_is_asked_to_cancel_and_told_once"

    def cancel(self, execution_id: str, **words: Any) -> Any:
        answer = self.true.steering.cancel(execution_id, **words)
        self.sql(
            f"UPDATE executions SET cancel_reason = :reason WHERE execution_id = :id AND {OPEN}",
            reason=words.get("reason"),
            id=execution_id,
        )
        return answer


class TellsTheCancellationAgain(BrokenRooms):
    """Every delivery is told of the request."""

    found_by = "test_what_has_begun_is_asked_to_cancel_and_told_once"

    def look(self, delivery: Delivery, **words: Any) -> Look:
        look = super().look(delivery, **words)
        record = self.true.executions.get(delivery.execution_id)
        if record.cancel is None:
            return look
        return replace(look, cancel=CancelRequested(record.cancel.at, record.cancel.reason))


class CancelEndsWhatRuns(BrokenRooms):
    """A request ends an execution that has begun, without its code."""

    found_by = "test_what_has_begun_is_asked_to_cancel_and_told_once"

    def cancel(self, execution_id: str, **words: Any) -> Any:
        return self.true.steering.cancel(execution_id, **{**words, "now": True})


class CancelAlwaysAsks(BrokenRooms):
    """What never began has to be run to be cancelled."""

    found_by = "test_what_never_began_is_cancelled_at_once"

    def cancel(self, execution_id: str, **words: Any) -> Any:
        self.sql(
            "UPDATE executions SET token = 1 WHERE execution_id = :id AND token = 0",
            id=execution_id,
        )
        return self.true.steering.cancel(execution_id, **words)


class CancelAtOnceSparesChildren(BrokenRooms):
    """The children of what is ended at once are left alone."""

    found_by = "test_cancel_at_once_ends_it_and_what_it_started"

    def cancel(self, execution_id: str, **words: Any) -> Any:
        self.sql("UPDATE executions SET detached = 1 WHERE parent IS NOT NULL")
        return self.true.steering.cancel(execution_id, **words)


class PausedIsClaimed(BrokenRooms):
    """The mark of a pause on the file is shown and nothing else."""

    found_by = "test_a_file_that_is_paused_gives_no_claim_until_it_is_resumed"

    def claim(self, now: int, **words: Any) -> Any:
        self.sql("DELETE FROM pauses WHERE workflow_id = ''")
        return self.true.deliveries.claim(now, **words)


class PausedHearsNothing(BrokenRooms):
    """What is sent to a paused execution is refused."""

    found_by = "test_an_execution_that_is_paused_is_not_claimed_until_it_is_resumed"

    def send(self, execution_id: str, queue: str, value: str, **words: Any) -> Any:
        record = self.true.executions.get(execution_id)
        if record is not None and record.paused is not None:
            return "refused"
        return super().send(execution_id, queue, value, **words)


class ResumeLiftsEveryMark(BrokenRooms):
    """Resuming one execution resumes all."""

    found_by = "test_a_pause_leaves_the_others_alone"

    def resume(self, **chosen: Any) -> Any:
        answer = self.true.steering.resume(**chosen)
        self.sql("DELETE FROM pauses WHERE workflow_id = ''")
        return answer


# --- on it goes ----------------------------------------------------------------------------------


class ContinuesWithTheOldHistory(BrokenRooms):
    """The next incarnation is handed the history of this one."""

    found_by = "test_the_next_incarnation_begins_under_the_same_id"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        if isinstance(changes.outcome, Continued):
            self.sql("UPDATE history SET incarnation = incarnation + 1")
            self.sql("UPDATE executions SET operations = 1 WHERE status = 'suspended'")
        return recorded


class ContinuingLosesMessages(BrokenRooms):
    """Of the unread messages only the first twenty are carried over."""

    found_by = "test_messages_children_and_wakes_are_kept_without_limit"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        if isinstance(changes.outcome, Continued):
            self.sql(
                "DELETE FROM messages WHERE m IN (SELECT m FROM messages WHERE state = 'waiting'"
                " ORDER BY m LIMIT -1 OFFSET 20)"
            )
        return recorded


class ContinuingForgetsTheRequest(BrokenRooms):
    """The request to cancel ends with the incarnation."""

    found_by = "test_a_request_to_cancel_survives"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        if isinstance(changes.outcome, Continued):
            self.sql("UPDATE executions SET cancel_at = NULL, cancel_reason = NULL")
        return recorded


class OldDeliveriesGoOn(BrokenRooms):
    """The delivery that continued may write on into the next incarnation."""

    found_by = "test_the_delivery_that_continued_is_over"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        try:
            return super().record(delivery, changes)
        except StaleDelivery:
            return Recorded()


class TagsAreIgnored(BrokenRooms):
    """What needs a tag is due for everybody at once."""

    found_by = "test_what_needs_a_tag_is_due_at_once_for_a_worker_that_has_one"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        self.sql("UPDATE executions SET due_at = needs_since WHERE needs IS NOT NULL")
        return recorded


class NeedsStay(BrokenRooms):
    """What was needed once is needed for ever."""

    found_by = "test_a_suspension_without_needs_needs_nothing"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        if isinstance(changes.outcome, Suspended) and not changes.needs:
            changes = replace(changes, needs=("gpu",))
        return super().record(delivery, changes)


def all_broken_rooms() -> Mapping[str, type[BrokenRooms]]:
    """Every broken storage of this module by its name."""
    return {
        broken.__name__: broken
        for broken in BrokenRooms.__subclasses__()
        if broken.__module__ == __name__
    }
