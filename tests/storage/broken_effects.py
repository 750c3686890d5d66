"""Storages that are each broken in one rule of effects or of the waits for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.storage.broken_rooms import BrokenRooms
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import StaleDelivery
from yieldstar_cli.model import (
    Delivery,
    HoldEffect,
    LetGoEffect,
    Recorded,
    Round,
    SettleEffect,
)

FREE = "UPDATE effects SET holder = NULL, holder_token = NULL, holder_key = NULL"


def with_holds(changes: Round, **words: Any) -> Round:
    """The round with every hold asked for otherwise."""
    actions = tuple(
        replace(each, **words) if isinstance(each, HoldEffect) else each for each in changes.actions
    )
    return replace(changes, actions=actions)


def settlements(changes: Round) -> list[SettleEffect]:
    """The settlements of a round."""
    return [each for each in changes.actions if isinstance(each, SettleEffect)]


class EffectsRoom:
    """The room of effects, whose methods are named like those of stores."""

    def __init__(self, rooms: BrokenEffects) -> None:
        self._rooms = rooms

    def get(self, effect_id: str) -> Any:
        return self._rooms.get_effect(effect_id)

    def find(self, **words: Any) -> Any:
        return self._rooms.find_effects(**words)

    def late(self, effect_id: str, execution_id: str, result: str) -> None:
        self._rooms.keep_late(effect_id, execution_id, result)


class BrokenEffects(BrokenRooms):
    """The rooms passed through, that of effects among them."""

    @property
    def effects(self) -> EffectsRoom:
        return EffectsRoom(self)

    def get_effect(self, effect_id: str) -> Any:
        return self.true.effects.get(effect_id)

    def find_effects(self, **words: Any) -> Any:
        return self.true.effects.find(**words)

    def keep_late(self, effect_id: str, execution_id: str, result: str) -> None:
        self.true.effects.late(effect_id, execution_id, result)


# --- who may try it -------------------------------------------------------------------------------


class AlwaysCertain(BrokenEffects):
    """What was begun by another is performed without a look."""

    found_by = "test_what_was_begun_is_uncertain_for_whoever_is_next"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        holds = tuple(
            replace(held, state="certain" if held.state == "uncertain" else held.state)
            for held in recorded.holds
        )
        return replace(recorded, holds=holds)


class NobodyKnowsAtFirst(BrokenEffects):
    """A new effect is looked up first."""

    found_by = "test_an_effect_is_begun_held_and_settled_once"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        holds = tuple(replace(held, state="uncertain") for held in recorded.holds)
        return replace(recorded, holds=holds)


class SettledStaysHeld(BrokenEffects):
    """The right to a settled effect goes on."""

    found_by = "test_an_effect_is_begun_held_and_settled_once"

    def get_effect(self, effect_id: str) -> Any:
        found = super().get_effect(effect_id)
        return replace(found, holder=found.begun_by) if found and found.result else found


class AllMayTry(BrokenEffects):
    """Whoever asks has the right."""

    found_by = "test_one_at_a_time_may_try_it"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        if any(isinstance(each, HoldEffect) for each in changes.actions):
            self.sql(f"{FREE} WHERE holder IS NOT NULL")
        return super().record(delivery, changes)


class RightsOutliveDeliveries(BrokenEffects):
    """A right ends only where its delivery says so."""

    found_by = "test_what_was_begun_is_uncertain_for_whoever_is_next"

    def get_effect(self, effect_id: str) -> Any:
        found = super().get_effect(effect_id)
        return replace(found, holder=found.begun_by) if found and not found.result else found


class TheDeadSettle(BrokenEffects):
    """A delivery that is over settles what it tried."""

    found_by = "test_a_dead_delivery_does_nothing_to_an_effect"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        try:
            return super().record(delivery, changes)
        except StaleDelivery:
            for each in settlements(changes):
                self.sql(
                    "UPDATE effects SET status = 'settled', result = :result WHERE effect_id = :id",
                    result=each.result,
                    id=each.effect_id,
                )
            raise


class TheDeadLetGo(BrokenEffects):
    """A delivery that is over gives back what the next one holds."""

    found_by = "test_a_dead_delivery_does_nothing_to_an_effect"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        try:
            return super().record(delivery, changes)
        except StaleDelivery:
            if any(isinstance(each, LetGoEffect) for each in changes.actions):
                self.sql(f"{FREE} WHERE holder IS NOT NULL")
            raise


# --- what stands ----------------------------------------------------------------------------------


class EachHasItsOwn(BrokenEffects):
    """An effect is one execution's: the next one begins another of that ID."""

    found_by = "test_a_settled_effect_answers_every_execution"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        mine = tuple(
            replace(each, effect_id=f"{each.effect_id} of {delivery.execution_id}")
            if isinstance(each, HoldEffect | SettleEffect | LetGoEffect)
            and delivery.execution_id != "a"
            else each
            for each in changes.actions
        )
        return super().record(delivery, replace(changes, actions=mine))


class InputsAreComparedAsTexts(BrokenEffects):
    """The same names in another order are another input."""

    found_by = "test_a_settled_effect_answers_every_execution"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        for each in changes.actions:
            if isinstance(each, HoldEffect):
                stands = self.get_effect(each.effect_id)
                if stands is not None and stands.input != each.input:
                    changes = with_holds(changes, input='"another"')
        return super().record(delivery, changes)


class InputsAreNotCompared(BrokenEffects):
    """Of the same operation any input is the same effect."""

    found_by = "test_another_operation_or_input_is_refused_and_kept"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        for each in changes.actions:
            if isinstance(each, HoldEffect):
                stands = self.get_effect(each.effect_id)
                if stands is not None:
                    changes = with_holds(changes, input=stands.input)
        return super().record(delivery, changes)


class MismatchesAreForgotten(BrokenEffects):
    """Whoever asks for something else is refused, and nobody ever hears of it."""

    found_by = "test_another_operation_or_input_is_refused_and_kept"

    def get_effect(self, effect_id: str) -> Any:
        self.sql("DELETE FROM effect_reports WHERE kind = 'mismatch'")
        return super().get_effect(effect_id)


class TheLastResultStands(BrokenEffects):
    """A second result takes the place of the first."""

    found_by = "test_the_first_result_stands_and_another_is_kept_beside_it"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        for each in settlements(changes):
            self.sql(
                "UPDATE effects SET result = :result WHERE effect_id = :id",
                result=each.result,
                id=each.effect_id,
            )
        return recorded


class ConflictsAreForgotten(BrokenEffects):
    """Of two results the second leaves no trace."""

    found_by = "test_the_first_result_stands_and_another_is_kept_beside_it"

    def get_effect(self, effect_id: str) -> Any:
        self.sql("DELETE FROM effect_reports WHERE kind = 'conflict'")
        return super().get_effect(effect_id)


class EachKeepsItsResult(BrokenEffects):
    """The execution whose result came second goes on with that one."""

    found_by = "test_the_first_result_stands_and_another_is_kept_beside_it"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        own = {each.step_key: each.result for each in settlements(changes)}
        entries = tuple(replace(e, value=own.get(e.step_key, e.value)) for e in recorded.entries)
        return replace(recorded, entries=entries)


class LateResultsSettle(BrokenEffects):
    """What a delivery that was over brought is the result."""

    found_by = "test_a_late_result_changes_nothing_and_is_kept"

    def keep_late(self, effect_id: str, execution_id: str, result: str) -> None:
        super().keep_late(effect_id, execution_id, result)
        self.sql(
            "UPDATE effects SET status = 'settled', result = :result, holder = NULL"
            " WHERE effect_id = :id",
            result=result,
            id=effect_id,
        )


class LateResultsAreLost(BrokenEffects):
    """What a delivery that was over brought is thrown away."""

    found_by = "test_a_late_result_changes_nothing_and_is_kept"

    def keep_late(self, effect_id: str, execution_id: str, result: str) -> None:
        """Nothing."""


class TheOldestComeFirst(BrokenEffects):
    """Effects are listed in the order in which they were begun."""

    found_by = "test_effects_are_found_the_latest_first"

    def find_effects(self, **words: Any) -> Any:
        return super().find_effects(**words)[::-1]


class ErrorsAreGuessed(BrokenEffects):
    """A result that looks like an error is one."""

    found_by = "test_an_error_shaped_result_is_a_result"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        entries = tuple(
            replace(e, ok=e.ok and "code" not in str(json.loads(e.value))) for e in recorded.entries
        )
        return replace(recorded, entries=entries)


# --- who is told ----------------------------------------------------------------------------------


class ReleasesWakeNobody(BrokenEffects):
    """Only a settlement is told to who waits."""

    found_by = "test_whatever_frees_or_settles_it_wakes_who_waits_for_it"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        for each in changes.actions:
            if isinstance(each, LetGoEffect):
                self.sql(f"{FREE} WHERE effect_id = :id", id=each.effect_id)
        return super().record(delivery, changes)


class SettlementsWakeNobody(BrokenEffects):
    """Who waits looks again when it wakes for another reason."""

    found_by = "test_whatever_frees_or_settles_it_wakes_who_waits_for_it"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        for each in settlements(changes):
            self.sql("UPDATE waits SET effect = NULL WHERE effect = :id", id=each.effect_id)
        return super().record(delivery, changes)


class SettlementsWakeEverybody(BrokenEffects):
    """A settlement is told to all who wait for any effect."""

    found_by = "test_whatever_frees_or_settles_it_wakes_who_waits_for_it"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        for each in settlements(changes):
            self.sql("UPDATE waits SET effect = :id WHERE effect IS NOT NULL", id=each.effect_id)
        return super().record(delivery, changes)


class TheDeadAreNotMissed(BrokenEffects):
    """Who waits for what a dead worker tried is not told of its death."""

    found_by = "test_the_death_of_a_worker_wakes_who_waits_for_what_it_tried"

    def bury(self, worker: int, how: str, marked: Any, **words: Any) -> Any:
        self.sql("UPDATE waits SET effect = NULL WHERE effect IS NOT NULL")
        return self.true.workers.bury(worker, how, marked, **words)


class WaitsAreBlind(BrokenEffects):
    """A wait is written without a look at its effect: a settlement just before it is missed."""

    found_by = "test_who_waits_too_late_is_ready_at_once"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        waits = tuple(replace(wait, effect=None) for wait in changes.waits)
        return super().record(delivery, replace(changes, waits=waits))


class OpenDeliveriesAreNotToldOfEffects(BrokenEffects):
    """Who has a delivery open hears nothing of settlements."""

    found_by = "test_a_settlement_is_told_to_the_worker_of_an_open_delivery"

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        recorded = super().record(delivery, changes)
        if settlements(changes):
            self.sql("UPDATE executions SET nudged = 0 WHERE claimed_by IS NOT NULL")
        return recorded


class SettledBeforeTheCommit(BrokenEffects):
    """An effect is settled at once, whatever becomes of the transaction that it is a part of."""

    found_by = "test_a_settlement_its_entry_and_its_wakes_are_there_together_or_not_at_all"

    def __init__(self, path: Path, clock: ManualClock) -> None:
        super().__init__(path, clock)
        self.settled: list[SettleEffect] = []

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        self.settled = settlements(changes)
        return super().record(delivery, changes)

    def crash(self) -> None:
        super().crash()
        for each in self.settled:
            self.sql(
                "UPDATE effects SET status = 'settled', result = :result WHERE effect_id = :id",
                result=each.result,
                id=each.effect_id,
            )


def all_broken_effects() -> Mapping[str, type[BrokenRooms]]:
    """Every broken storage of this module by its name."""
    return {broken.__name__: broken for broken in BrokenEffects.__subclasses__()}
