"""Adapters that are each broken in one rule: what the conformance suite must find.

Each does to the real SQLite adapter what a plausible mistake would do; the docstring says which
rule it breaks, and `found_by` names a row that has to fail.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.storage.sqlite_adapter import SqliteAdapter
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.codec import Json
from yieldstar_cli.errors import ExecutionIdConflict, ExecutionNotFound, InvalidExecutionEvent
from yieldstar_cli.model import Completed, Delivery, Failed, Outcome, Suspended


class Refused(Exception):
    """A broken adapter refuses what the rules allow."""


class Broken:
    """The real adapter, passed through; each subclass breaks one method."""

    found_by: str
    redelivery_ms = 30_000

    def __init__(self, path: Path, clock: ManualClock) -> None:
        self.real = SqliteAdapter(path, clock)
        self.clock = clock
        self.path = path

    @property
    def executions(self) -> Any:
        return self

    @property
    def true(self) -> Any:
        return self.real.executions

    def sql(self, statement: str, **bindings: Any) -> None:
        self.real.storage.db.rows(statement, bindings)

    def restart(self) -> None:
        self.real.restart()

    def crash(self) -> None:
        self.real.crash()

    def close(self) -> None:
        self.real.close()

    def admit(self, **event: Any) -> Any:
        return self.true.admit(**event)

    def get(self, execution_id: str) -> Any:
        return self.true.get(execution_id)

    def request_wake(self, execution_id: str, wake_at: int) -> Any:
        return self.true.request_wake(execution_id, wake_at)

    def claim_due(self, now: int, **narrowed: Any) -> Any:
        return self.true.claim_due(now, **narrowed)

    def acknowledge(self, delivery: Delivery, outcome: Outcome) -> Any:
        return self.true.acknowledge(delivery, outcome)

    def release(self, delivery: Delivery, **words: Any) -> None:
        self.true.release(delivery, **words)


class DeliversEveryWake(Broken):
    """One delivery for each wake."""

    found_by = "test_two_wakes_before_a_delivery_are_one_delivery"

    def request_wake(self, execution_id: str, wake_at: int) -> Any:
        self.woken = True
        return super().request_wake(execution_id, wake_at)

    def claim_due(self, now: int, **narrowed: Any) -> Any:
        claimed = super().claim_due(now, **narrowed)
        return claimed * 2 if getattr(self, "woken", False) else claimed


class LaterWakePostpones(Broken):
    """The last wake counts, not the earliest."""

    found_by = "test_of_several_due_times_the_earliest_counts"

    def request_wake(self, execution_id: str, wake_at: int) -> Any:
        answer = super().request_wake(execution_id, wake_at)
        if answer == "requested":
            self.sql(
                "UPDATE executions SET due_at = :at WHERE execution_id = :id",
                at=wake_at,
                id=execution_id,
            )
        return answer


class CoveredDueTimeIsInherited(Broken):
    """A wake during a delivery merges with the time that the delivery covers."""

    found_by = "test_the_covered_due_time_is_not_inherited"

    def request_wake(self, execution_id: str, wake_at: int) -> Any:
        record = self.get(execution_id) if execution_id.isprintable() else None
        covered = record.covered_due_at if record else None
        return super().request_wake(
            execution_id, wake_at if covered is None else min(wake_at, covered)
        )


class AcknowledgementClearsEveryWake(Broken):
    """Acknowledging clears the wakes requested since the claim, too."""

    found_by = "test_a_wake_requested_during_a_delivery_is_due_after_it"

    def acknowledge(self, delivery: Delivery, outcome: Outcome) -> Any:
        self.sql(
            "UPDATE executions SET due_at = NULL WHERE execution_id = :id AND token = :token",
            id=delivery.execution_id,
            token=delivery.token,
        )
        return super().acknowledge(delivery, outcome)


class AcknowledgementClearsNoWake(Broken):
    """The covered wakes stay after an acknowledgement."""

    found_by = "test_an_acknowledgement_clears_the_covered_wakes"

    def acknowledge(self, delivery: Delivery, outcome: Outcome) -> Any:
        record = self.get(delivery.execution_id)
        answer = super().acknowledge(delivery, outcome)
        if isinstance(answer, Suspended) and record.covered_due_at is not None:
            self.true.request_wake(delivery.execution_id, record.covered_due_at)
        return answer


class RepeatedAcknowledgementClearsWakes(Broken):
    """The same acknowledgement again clears what was requested in between."""

    found_by = "test_the_same_acknowledgement_again_clears_no_later_wake"

    def acknowledge(self, delivery: Delivery, outcome: Outcome) -> Any:
        answer = super().acknowledge(delivery, outcome)
        if isinstance(answer, Suspended) and delivery.token in getattr(self, "acked", ()):
            self.sql("UPDATE executions SET due_at = NULL WHERE n = :n", n=delivery.number)
        self.acked = {*getattr(self, "acked", ()), delivery.token}
        return answer


class SecondOutcomeOverwrites(Broken):
    """The last terminal outcome wins."""

    found_by = "test_a_second_terminal_acknowledgement_returns_the_first"

    def acknowledge(self, delivery: Delivery, outcome: Outcome) -> Any:
        record = self.get(delivery.execution_id)
        if record.outcome is not None and isinstance(outcome, Completed):
            self.sql(
                "UPDATE executions SET status = 'completed', outcome = :text WHERE n = :n",
                text=outcome.result,
                n=delivery.number,
            )
        return super().acknowledge(delivery, outcome)


class SuspendedReopens(Broken):
    """A suspended acknowledgement opens a terminal record again."""

    found_by = "test_suspended_after_terminal_returns_the_outcome"

    def acknowledge(self, delivery: Delivery, outcome: Outcome) -> Any:
        if isinstance(outcome, Suspended) and self.get(delivery.execution_id).outcome:
            self.sql(
                "UPDATE executions SET status = 'suspended', outcome = NULL WHERE n = :n",
                n=delivery.number,
            )
            return outcome
        return super().acknowledge(delivery, outcome)


class LateDeliveryIsRefused(Broken):
    """A delivery whose record has become terminal gets an error instead of the outcome."""

    found_by = "test_a_delivery_of_a_terminal_execution_is_told_its_outcome"

    def acknowledge(self, delivery: Delivery, outcome: Outcome) -> Any:
        record = self.get(delivery.execution_id)
        if record.outcome is not None and record.deliveries != delivery.token:
            raise Refused("too late")
        return super().acknowledge(delivery, outcome)


class DeadTokenIsAccepted(Broken):
    """Whoever acknowledges is believed, whatever the token."""

    found_by = "test_a_dead_token_changes_nothing"

    def acknowledge(self, delivery: Delivery, outcome: Outcome) -> Any:
        current = self.get(delivery.execution_id).deliveries
        return super().acknowledge(replace(delivery, token=current), outcome)


class LeaseEndKillsTheToken(Broken):
    """A delivery is refused once its lease has ended, though nobody took over."""

    found_by = "test_the_end_of_a_lease_alone_kills_no_token"

    def acknowledge(self, delivery: Delivery, outcome: Outcome) -> Any:
        live = self.get(delivery.execution_id).delivery
        if live is not None and live.expires_at <= self.clock.now_ms():
            raise Refused("the lease has ended")
        return super().acknowledge(delivery, outcome)


class ParamsAreKeptByReference(Broken):
    """The record shows the caller's own objects."""

    found_by = "test_what_the_caller_changes_later_changes_no_record"

    def admit(self, **event: Any) -> Any:
        record = super().admit(**event)
        self.given = {**getattr(self, "given", {}), record.execution_id: event.get("params")}
        return record

    def get(self, execution_id: str) -> Any:
        record = super().get(execution_id)
        if record is None:
            return None
        return replace(record, params_json=json.dumps(self.given.get(execution_id)))


class ContextIsDropped(Broken):
    """Only the params are stored."""

    found_by = "test_the_event_is_stored_as_it_was_given"

    def admit(self, **event: Any) -> Any:
        return super().admit(**{**event, "context": None})


class LossyAdmission(Broken):
    """What cannot be stored is stored as text."""

    found_by = "test_what_cannot_round_trip_is_refused_and_stores_nothing"

    def admit(self, **event: Any) -> Any:
        try:
            return super().admit(**event)
        except InvalidExecutionEvent:
            return super().admit(**{**event, "params": Json('"?"'), "context": None})


class RefusedAdmissionLeavesARecord(Broken):
    """The record is written before the params are looked at."""

    found_by = "test_what_cannot_round_trip_is_refused_and_stores_nothing"

    def admit(self, **event: Any) -> Any:
        try:
            return super().admit(**event)
        except InvalidExecutionEvent as refused:
            if refused.place != "execution_id":
                super().admit(workflow_id="w", execution_id=event["execution_id"])
            raise


class ConflictOverwrites(Broken):
    """An ID in use is refused, but its record takes the new params."""

    found_by = "test_an_id_in_use_conflicts_and_changes_nothing"

    def admit(self, **event: Any) -> Any:
        try:
            return super().admit(**event)
        except ExecutionIdConflict:
            self.sql(
                "UPDATE executions SET params = '{}' WHERE execution_id = :id",
                id=event["execution_id"],
            )
            raise


class FinishedIdsAreFree(Broken):
    """An ID may be used again once its execution has ended."""

    found_by = "test_an_id_stays_in_use_in_every_state"

    def admit(self, **event: Any) -> Any:
        self.sql(
            "DELETE FROM executions WHERE execution_id = :id AND status = 'completed'",
            id=event.get("execution_id"),
        )
        return super().admit(**event)


class FailedDeliveryFreesTheId(Broken):
    """A delivery that failed gives the ID back."""

    found_by = "test_an_id_stays_in_use_after_its_delivery_failed"

    def release(self, delivery: Delivery, **words: Any) -> None:
        super().release(delivery, **words)
        self.sql("DELETE FROM executions WHERE n = :n", n=delivery.number)


class IdsAreFolded(Broken):
    """IDs are compared without regard to case."""

    found_by = "test_an_unused_id_is_reserved_and_returned"

    def admit(self, **event: Any) -> Any:
        if isinstance(event.get("execution_id"), str):
            event["execution_id"] = event["execution_id"].lower()
        return super().admit(**event)


class GeneratedIdsRepeat(Broken):
    """Generated IDs count from 1 in every process, and take what is there."""

    found_by = "test_without_an_id_a_new_one_is_chosen"

    def admit(self, **event: Any) -> Any:
        if event.get("execution_id") is not None:
            return super().admit(**event)
        self.count = getattr(self, "count", 0) % 100 + 1
        made = f"{event['workflow_id']}-{self.count}"
        return self.get(made) or super().admit(**event, execution_id=made)


class AdmissionWithoutWake(Broken):
    """The record is created and nothing is due."""

    found_by = "test_an_admitted_execution_is_due_at_once"

    def admit(self, **event: Any) -> Any:
        record = super().admit(**event)
        self.sql("UPDATE executions SET due_at = NULL WHERE n = :n", n=record.number)
        return record


class WakeCreatesRecords(Broken):
    """A wake for an unknown ID makes a record for it."""

    found_by = "test_a_wake_for_an_unknown_id_is_not_found"

    def request_wake(self, execution_id: str, wake_at: int) -> Any:
        try:
            return super().request_wake(execution_id, wake_at)
        except ExecutionNotFound:
            if execution_id:
                self.true.admit(workflow_id="w", execution_id=execution_id)
            raise


class TerminalAcceptsWakes(Broken):
    """A finished execution says that its wake was requested."""

    found_by = "test_a_terminal_execution_ignores_wakes"

    def request_wake(self, execution_id: str, wake_at: int) -> Any:
        super().request_wake(execution_id, wake_at)
        return "requested"


class ClaimsUnderALease(Broken):
    """What is claimed is claimed again when a wake arrives."""

    found_by = "test_a_claimed_execution_is_not_claimed_again"

    def request_wake(self, execution_id: str, wake_at: int) -> Any:
        answer = super().request_wake(execution_id, wake_at)
        self.sql(
            "UPDATE executions SET claimed_by = NULL WHERE execution_id = :id", id=execution_id
        )
        return answer


class NeverDeliversAgain(Broken):
    """A claim that is never acknowledged is never given to anybody else."""

    found_by = "test_an_execution_never_acknowledged_is_delivered_again"

    def claim_due(self, now: int, **narrowed: Any) -> Any:
        self.sql("UPDATE executions SET claimed_at = :now WHERE claimed_by = 0", now=now)
        return super().claim_due(now, **narrowed)


class InfrastructureErrorFails(Broken):
    """An infrastructure error ends the execution as failed."""

    found_by = "test_an_infrastructure_error_is_no_outcome"

    def release(self, delivery: Delivery, **words: Any) -> None:
        super().acknowledge(delivery, Failed(json.dumps(words.get("problem"))))


class ResultIsLost(Broken):
    """The status is kept and the result is not."""

    found_by = "test_a_completed_execution_keeps_its_result"

    def acknowledge(self, delivery: Delivery, outcome: Outcome) -> Any:
        kept = Completed() if isinstance(outcome, Completed) else outcome
        super().acknowledge(delivery, kept)
        return outcome


class ErrorMessageIsLost(Broken):
    """Of an error only the name is kept."""

    found_by = "test_a_failed_execution_keeps_its_error"

    def acknowledge(self, delivery: Delivery, outcome: Outcome) -> Any:
        answer = super().acknowledge(delivery, outcome)
        self.sql(
            "UPDATE executions SET outcome = json_remove(outcome, '$.message')"
            " WHERE status = 'failed'"
        )
        return answer


class RestartForgetsWakes(Broken):
    """Wakes live in memory."""

    found_by = "test_records_and_wakes_survive_a_restart"

    def restart(self) -> None:
        super().restart()
        self.sql("UPDATE executions SET due_at = NULL")


class CrashLosesTheLastCommit(Broken):
    """What was acknowledged last is not on the disk yet."""

    found_by = "test_records_and_wakes_survive_a_crash"

    def crash(self) -> None:
        super().crash()
        self.sql("DELETE FROM executions WHERE n = (SELECT max(n) FROM executions)")


class UpdatesGoBack(Broken):
    """`updated_at` follows the clock, also when that is set back."""

    found_by = "test_admission_never_moves_and_updates_never_go_back"

    def acknowledge(self, delivery: Delivery, outcome: Outcome) -> Any:
        answer = super().acknowledge(delivery, outcome)
        self.sql("UPDATE executions SET updated_at = :now", now=self.clock.now_ms())
        return answer


class NewestFirst(Broken):
    """Due executions come in the wrong order, and the limit takes the newest."""

    found_by = "test_due_executions_come_oldest_first_and_each_once"

    def claim_due(self, now: int, **narrowed: Any) -> Any:
        return list(reversed(super().claim_due(now, **narrowed)))


class DeliveryCarriesTheEvent(Broken):
    """What a wake carries replaces the event."""

    found_by = "test_a_delivery_reads_its_event_from_the_record"

    def request_wake(self, execution_id: str, wake_at: int) -> Any:
        answer = super().request_wake(execution_id, wake_at)
        self.sql("UPDATE executions SET params = :event", event=json.dumps({"at": wake_at}))
        return answer


class IdsAreTrimmed(Broken):
    """An ID with a space at its end is quietly taken without it."""

    found_by = "test_an_id_that_cannot_be_kept_is_refused"

    def admit(self, **event: Any) -> Any:
        given = event.get("execution_id")
        if isinstance(given, str) and given.strip(" "):
            event["execution_id"] = given.strip(" ")
        return super().admit(**event)


def all_broken() -> Mapping[str, type[Broken]]:
    """Every broken adapter by its name."""
    return {broken.__name__: broken for broken in Broken.__subclasses__()}
