"""Storages that are each broken in one rule of stores or of the waits for their states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from tests.storage.broken_rooms import BrokenRooms
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.digests import digest_at
from yieldstar_cli.errors import StaleDelivery
from yieldstar_cli.model import (
    Action,
    ChangeStore,
    Continued,
    Delivery,
    Look,
    OpenStore,
    Reading,
    Recorded,
    Round,
    Suspended,
    Wait,
)

OF_STORES = "store_name IS NOT NULL"


def changes_of(changes: Round) -> list[ChangeStore]:
    """The changes of stores in a round."""
    return [action for action in changes.actions if isinstance(action, ChangeStore)]


def with_changes(changes: Round, **words: Any) -> Round:
    """The round with every change of a store told otherwise."""
    actions: tuple[Action, ...] = tuple(
        replace(action, **words) if isinstance(action, ChangeStore) else action
        for action in changes.actions
    )
    return replace(changes, actions=actions)


# --- from outside --------------------------------------------------------------------------------


class EqualStatesAreNoWrite(BrokenRooms):
    """A write of the state that stands is left out."""

    found_by = "test_a_store_made_again_is_another_at_version_0"

    def put_store(self, name: str, store_id: str, state: str, **words: Any) -> Any:
        stands = self.true.stores.get(name, store_id)
        if stands is not None and stands.state == state:
            return stands
        return super().put_store(name, store_id, state, **words)


class MadeAgainIsTheSame(BrokenRooms):
    """A store that is made again under its name cannot be told from the one before."""

    found_by = "test_a_store_made_again_is_another_at_version_0"

    def put_store(self, name: str, store_id: str, state: str, **words: Any) -> Any:
        written = super().put_store(name, store_id, state, **words)
        self.sql("UPDATE stores SET instance = 'one'")
        return replace(written, instance="one")


class VersionsGoOnAfterADelete(BrokenRooms):
    """A deleted store's next one counts on."""

    found_by = "test_a_store_made_again_is_another_at_version_0"
    last = -1

    def put_store(self, name: str, store_id: str, state: str, **words: Any) -> Any:
        self.last += 1
        return replace(super().put_store(name, store_id, state, **words), version=self.last)


class ListedAsMade(BrokenRooms):
    """Stores are listed in the order in which they were made."""

    found_by = "test_stores_are_listed_by_name_and_id"

    def find_stores(self, **words: Any) -> Any:
        order = list(self.sql("SELECT name, store_id FROM stores ORDER BY s"))
        found = super().find_stores(**words)
        return sorted(found, key=lambda each: order.index((each.name, each.store_id)))


class TheLastWriteCounts(BrokenRooms):
    """The version that is asked for is not looked at."""

    found_by = "test_a_write_at_another_version_is_refused_with_the_actual_one"

    def put_store(self, name: str, store_id: str, state: str, **words: Any) -> Any:
        return super().put_store(name, store_id, state)


class InstancesAreNotCompared(BrokenRooms):
    """The version is compared, but not whose it is."""

    found_by = "test_a_write_at_another_version_is_refused_with_the_actual_one"

    def put_store(self, name: str, store_id: str, state: str, **words: Any) -> Any:
        return super().put_store(name, store_id, state, **{**words, "instance": None})


class DeletesAtAnyVersion(BrokenRooms):
    """The version that a delete asks for is not looked at."""

    found_by = "test_a_write_at_another_version_is_refused_with_the_actual_one"

    def delete_store(self, name: str, store_id: str, **words: Any) -> Any:
        return super().delete_store(name, store_id)


class LongStatesAreCut(BrokenRooms):
    """What is too large is stored up to the limit."""

    found_by = "test_what_cannot_be_a_store_is_refused_and_changes_nothing"

    def put_store(self, name: str, store_id: str, state: str, **words: Any) -> Any:
        cut = state[: self.true.max_value]
        return super().put_store(name, store_id, cut, **words)


# --- by deliveries -------------------------------------------------------------------------------


class OpeningOverwrites(BrokenRooms):
    """Each who opens a store begins it."""

    found_by = "test_a_store_is_made_by_who_opens_it_first"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        for action in changes.actions:
            if isinstance(action, OpenStore) and action.initial is not None:
                self.true.stores.put(action.name, action.store_id, action.initial)
        return super().record(delivery, changes)


class OpeningNeedsABeginning(BrokenRooms):
    """A store that is not there begins with nothing."""

    found_by = "test_a_store_is_made_by_who_opens_it_first"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        actions: tuple[Action, ...] = tuple(
            replace(each, initial=each.initial or "null") if isinstance(each, OpenStore) else each
            for each in changes.actions
        )
        return super().record(delivery, replace(changes, actions=actions))


class ConflictsAreErrors(BrokenRooms):
    """Another version is the operation's failure, whoever asks."""

    found_by = "test_a_change_is_made_at_the_version_it_was_computed_from"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        return super().record(delivery, with_changes(changes, fails=True))


class LostUpdates(BrokenRooms):
    """A change is written over whatever is there."""

    found_by = "test_a_change_is_made_at_the_version_it_was_computed_from"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        for change in changes_of(changes):
            stands = self.true.stores.get(change.name, change.store_id)
            changes = with_changes(changes, instance=stands.instance, version=stands.version)
        return super().record(delivery, changes)


class ConflictsAreCounted(BrokenRooms):
    """The record counts the entry that was left out, so that a gap is read back."""

    found_by = "test_a_change_is_made_at_the_version_it_was_computed_from"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        missed = len(changes.actions) - len(recorded.entries)
        self.sql(
            "UPDATE executions SET operations = operations + :missed WHERE n = :n",
            missed=missed,
            n=delivery.number,
        )
        return recorded


class EndsOverAConflict(BrokenRooms):
    """An execution ends though its last change was not made."""

    found_by = "test_no_end_passes_over_a_change_that_was_not_made"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        if changes_of(changes) and recorded.ready and changes.outcome is not None:
            return super().record(delivery, Round(outcome=changes.outcome))
        return recorded


class SnapshotsAreNotCompared(BrokenRooms):
    """What was computed from a snapshot is written over whatever is there."""

    found_by = "test_a_snapshot_s_change_fails_with_the_actual_version"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        for change in changes_of(changes):
            stands = self.true.stores.get(change.name, change.store_id)
            if stands is not None:
                changes = with_changes(changes, instance=stands.instance, version=stands.version)
        return super().record(delivery, changes)


class BothHaveTheItem(BrokenRooms):
    """A claim that came too late has its result all the same."""

    found_by = "test_a_change_leaves_the_result_it_was_given"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        for change in changes_of(changes):
            stands = self.true.stores.get(change.name, change.store_id)
            changes = with_changes(changes, version=stands.version)
        return super().record(delivery, changes)


class LargeStatesAreDropped(BrokenRooms):
    """A change to a state that is too large is taken as done."""

    found_by = "test_a_state_that_cannot_be_stored_is_the_change_s_failure"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        for change in changes_of(changes):
            if change.state is not None and len(change.state) > self.true.max_value:
                changes = with_changes(changes, state="null")
        return super().record(delivery, changes)


class DeadDeliveriesWrite(BrokenRooms):
    """Stores do not ask who writes."""

    found_by = "test_a_dead_delivery_changes_no_store"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        try:
            return super().record(delivery, changes)
        except StaleDelivery:
            for change in changes_of(changes):
                self.true.stores.put(change.name, change.store_id, change.state)
            raise


class LooksSeeNoStore(BrokenRooms):
    """A store that a look asks for is not there."""

    found_by = "test_a_look_reads_the_stores_it_asks_for"

    def look(self, delivery: Delivery, **words: Any) -> Look:
        look = super().look(delivery, **words)
        return replace(look, stores=dict.fromkeys(words.get("stores", ())))


# --- waits ---------------------------------------------------------------------------------------


class WritesWakeEverybody(BrokenRooms):
    """Every write of a store wakes all who wait for it."""

    found_by = "test_a_write_wakes_who_read_otherwise_and_nobody_else"

    def put_store(self, name: str, store_id: str, state: str, **words: Any) -> Any:
        self.sql(f"UPDATE waits SET store_instance = '' WHERE {OF_STORES}")
        return super().put_store(name, store_id, state, **words)


class OnlyTheFirstReadingCounts(BrokenRooms):
    """Of what was read only whether there was something."""

    found_by = "test_a_write_wakes_who_read_otherwise_and_nobody_else"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        waits = tuple(replace(wait, read=()) for wait in changes.waits)
        return super().record(delivery, replace(changes, waits=waits))


class NobodyWaitsForAStoreToBe(BrokenRooms):
    """Who found no store is not told when there is one."""

    found_by = "test_a_store_that_is_made_wakes_who_found_none"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        if any(isinstance(action, OpenStore) for action in changes.actions):
            self.sql(f"UPDATE waits SET store_name = NULL WHERE {OF_STORES}")
        return super().record(delivery, changes)


class RegistersBlindly(BrokenRooms):
    """A wait is written without a look at the state: a write just before it is missed."""

    found_by = "test_who_read_an_older_state_is_ready_at_once"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        waits = tuple(self.as_it_is(wait) for wait in changes.waits)
        return super().record(delivery, replace(changes, waits=waits))

    def as_it_is(self, wait: Wait) -> Wait:
        stands = None if wait.store is None else self.true.stores.get(*wait.store)
        if stands is None:
            return wait
        state = msgspec.json.decode(stands.state)
        read = tuple(Reading(r.path, digest_at(state, r.path)) for r in wait.read)
        return replace(wait, read=read, instance=stands.instance)


class TheFirstReadingStays(BrokenRooms):
    """A wait that is there is not written again."""

    found_by = "test_who_read_an_older_state_is_ready_at_once"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        there = {(w.kind, w.step_key) for w in self.true.reader.waits(delivery.number)}
        waits = tuple(w for w in changes.waits if (w.kind, w.step_key) not in there)
        return super().record(delivery, replace(changes, waits=waits))


class SuspensionsForgetTheMark(BrokenRooms):
    """What became ready during a delivery is forgotten at its end."""

    found_by = "test_a_wait_put_again_hears_of_the_next_write"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        if isinstance(changes.outcome, Suspended):
            self.sql("UPDATE waits SET ready_at = NULL WHERE n = :n", n=delivery.number)
        return super().record(delivery, changes)


class OpenDeliveriesAreNotTold(BrokenRooms):
    """Who has a delivery open hears nothing of writes."""

    found_by = "test_a_write_is_told_to_the_worker_of_an_open_delivery"

    def put_store(self, name: str, store_id: str, state: str, **words: Any) -> Any:
        written = super().put_store(name, store_id, state, **words)
        self.sql("UPDATE executions SET nudged = 0 WHERE claimed_by IS NOT NULL")
        return written


class DeletesWakeNobody(BrokenRooms):
    """Who waits for a deleted store waits for the one that takes its place."""

    found_by = "test_a_delete_wakes_every_waiter_and_leaves_none"

    def delete_store(self, name: str, store_id: str, **words: Any) -> Any:
        return bool(
            self.sql(
                "DELETE FROM stores WHERE name = :name AND store_id = :store_id RETURNING s",
                name=name,
                store_id=store_id,
            )
        )


class TheEndedAreInTheWay(BrokenRooms):
    """A write stops waking at the first who has ended."""

    found_by = "test_an_execution_that_has_ended_is_in_nobody_s_way"

    def put_store(self, name: str, store_id: str, state: str, **words: Any) -> Any:
        if self.sql("SELECT n FROM executions WHERE status = 'cancelled'"):
            self.sql(f"UPDATE waits SET store_name = NULL WHERE {OF_STORES}")
        return super().put_store(name, store_id, state, **words)


class TheEndedAreTouched(BrokenRooms):
    """Who once waited for a store is written to by its writes for ever."""

    found_by = "test_an_execution_that_has_ended_is_in_nobody_s_way"

    def put_store(self, name: str, store_id: str, state: str, **words: Any) -> Any:
        self.sql("UPDATE executions SET updated_at = updated_at + 1 WHERE outcome IS NOT NULL")
        return super().put_store(name, store_id, state, **words)


class IncarnationsInheritWaits(BrokenRooms):
    """The next incarnation waits for what the one before it has waited for."""

    found_by = "test_who_goes_over_to_the_next_incarnation_waits_no_more"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        waits = self.true.reader.waits(delivery.number)
        recorded = super().record(delivery, changes)
        if isinstance(changes.outcome, Continued):
            claimed = self.true.executions.claim_due(self.clock.now_ms(), limit=1)
            self.true.deliveries.record(claimed[0], Round(waits=tuple(waits)))
            self.true.executions.release(claimed[0])
        return recorded


class WakesComeAfterTheCommit(BrokenRooms):
    """Who waits is woken by a second commit, unless the process dies before it."""

    found_by = "test_a_store_commit_and_its_wakes_are_there_together_or_not_at_all"

    def __init__(self, path: Path, clock: ManualClock) -> None:
        super().__init__(path, clock)
        self.to_wake: list[str] = []

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        if changes_of(changes):
            waiting = f"SELECT n FROM waits WHERE {OF_STORES}"
            found = self.sql(f"SELECT execution_id FROM executions WHERE n IN ({waiting})")
            self.to_wake = [execution_id for (execution_id,) in found]
            self.sql(f"UPDATE waits SET store_name = NULL WHERE {OF_STORES}")
        return super().record(delivery, changes)

    def claim(self, now: int, **words: Any) -> Any:
        while self.to_wake:
            self.true.executions.wake(self.to_wake.pop())
        return self.true.deliveries.claim(now, **words)

    def crash(self) -> None:
        self.to_wake.clear()
        super().crash()


class StoresAreWrittenBeforeTheCommit(BrokenRooms):
    """A store is written at once, whatever becomes of the transaction that it is a part of."""

    found_by = "test_a_store_commit_and_its_wakes_are_there_together_or_not_at_all"

    def __init__(self, path: Path, clock: ManualClock) -> None:
        super().__init__(path, clock)
        self.written: list[ChangeStore] = []

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        self.written = changes_of(changes)
        return super().record(delivery, changes)

    def crash(self) -> None:
        super().crash()
        for change in self.written:
            if self.true.stores.get(change.name, change.store_id).version == change.version:
                self.true.stores.put(change.name, change.store_id, change.state)


def all_broken_stores() -> Mapping[str, type[BrokenRooms]]:
    """Every broken storage of this module by its name."""
    return {
        broken.__name__: broken
        for broken in BrokenRooms.__subclasses__()
        if broken.__module__ == __name__
    }
