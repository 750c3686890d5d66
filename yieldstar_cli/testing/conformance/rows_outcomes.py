"""RFC 001, outcome table: acknowledgement and terminal records."""

from __future__ import annotations

import json

import pytest

from yieldstar_cli.errors import StaleDelivery
from yieldstar_cli.model import CancelledOutcome, Completed, Failed, Outcome, Status, Suspended
from yieldstar_cli.testing.conformance.base import LATER, Rows

RECEIPT = Completed('{"receipt":"r-1","total":9.5}')
DECLINED = Failed('{"name":"CardDeclined","message":"no funds left"}')


class OutcomeRows(Rows):
    """Rows about acknowledgement and terminal records."""

    def test_a_suspended_execution_has_no_outcome(self) -> None:
        """Row: a delivery acknowledges suspended -> suspended, and no outcome."""
        with self.opened() as adapter:
            answer = adapter.executions.acknowledge(self.claimed(adapter, "a"), Suspended())

            assert isinstance(answer, Suspended)
            record = adapter.executions.get("a")
            assert record is not None
            assert record.status == Status.SUSPENDED
            assert record.outcome is None

    def test_a_completed_execution_keeps_its_result(self) -> None:
        """Row: a delivery acknowledges completed -> get returns the result."""
        with self.opened() as adapter:
            for name, outcome in (("a", RECEIPT), ("null", Completed("null"))):
                answer = adapter.executions.acknowledge(self.claimed(adapter, name), outcome)

                assert answer == outcome
                record = adapter.executions.get(name)
                assert record is not None
                assert record.status == Status.COMPLETED
                assert record.outcome == outcome

    def test_a_failed_execution_keeps_its_error(self) -> None:
        """Row: a delivery acknowledges failed -> get returns the same name and message."""
        with self.opened() as adapter:
            answer = adapter.executions.acknowledge(self.claimed(adapter, "a"), DECLINED)

            assert answer == DECLINED
            for _ in range(3):
                record = adapter.executions.get("a")
                assert record is not None
                assert record.status == Status.FAILED
                assert isinstance(record.outcome, Failed)
                assert json.loads(record.outcome.error) == {
                    "name": "CardDeclined",
                    "message": "no funds left",
                }
                adapter.restart()

    def test_a_second_terminal_acknowledgement_returns_the_first(self) -> None:
        """Row: a second terminal acknowledgement differs -> the first is kept and returned."""
        with self.opened() as adapter:
            for first in (RECEIPT, DECLINED, CancelledOutcome("not wanted")):
                name = type(first).__name__
                delivery = self.claimed(adapter, name)
                adapter.executions.acknowledge(delivery, first)
                before = adapter.executions.get(name)

                self.clock.advance(1)
                for second in (DECLINED, RECEIPT, CancelledOutcome(), Completed("1")):
                    assert adapter.executions.acknowledge(delivery, second) == first

                assert adapter.executions.get(name) == before

    def test_suspended_after_terminal_returns_the_outcome(self) -> None:
        """Row: a suspended acknowledgement after a terminal one -> stays terminal."""
        with self.opened() as adapter:
            delivery = self.claimed(adapter, "a")
            adapter.executions.acknowledge(delivery, RECEIPT)
            before = adapter.executions.get("a")

            assert adapter.executions.acknowledge(delivery, Suspended(self.now)) == RECEIPT
            assert adapter.executions.get("a") == before
            assert adapter.executions.claim_due(LATER) == []

    def test_a_delivery_of_a_terminal_execution_is_told_its_outcome(self) -> None:
        """Row: a terminal execution is delivered again -> the recorded outcome, nothing runs."""
        with self.opened() as adapter:
            late = self.claimed(adapter, "a")
            self.clock.advance(adapter.redelivery_ms)
            (second,) = adapter.executions.claim_due(self.now)
            adapter.executions.acknowledge(second, RECEIPT)

            outcomes: tuple[Outcome, ...] = (Suspended(), DECLINED, Completed("2"))
            for late_outcome in outcomes:
                assert adapter.executions.acknowledge(late, late_outcome) == RECEIPT
            assert adapter.executions.claim_due(LATER) == []

    def test_an_infrastructure_error_is_no_outcome(self) -> None:
        """Row: a delivery fails with an infrastructure error -> unchanged, delivered again."""
        with self.opened() as adapter:
            delivery = self.claimed(adapter, "a")
            before = adapter.executions.get("a")

            adapter.executions.release(delivery, problem=("DISK_FULL", "no room"))

            after = adapter.executions.get("a")
            assert before is not None
            assert after is not None
            assert (after.status, after.outcome) == (before.status, None)
            assert after.problem is not None
            assert (after.problem.code, after.problem.message) == ("DISK_FULL", "no room")
            assert self.due_ids(adapter, self.now) == ["a"]

    def test_a_dead_token_changes_nothing(self) -> None:
        """Spec L2: a token dies with a later claim; what it still writes is refused."""
        with self.opened() as adapter:
            dead = self.claimed(adapter, "a")
            self.clock.advance(adapter.redelivery_ms)
            (live,) = adapter.executions.claim_due(self.now)
            before = adapter.executions.get("a")

            outcomes: tuple[Outcome, ...] = (Suspended(), RECEIPT, DECLINED)
            for outcome in outcomes:
                with pytest.raises(StaleDelivery):
                    adapter.executions.acknowledge(dead, outcome)
            with pytest.raises(StaleDelivery):
                adapter.executions.release(dead)

            assert adapter.executions.get("a") == before
            assert adapter.executions.acknowledge(live, RECEIPT) == RECEIPT

    def test_the_end_of_a_lease_alone_kills_no_token(self) -> None:
        """Spec L2: safety rests on tokens; leases only say when to deliver again."""
        with self.opened() as adapter:
            delivery = self.claimed(adapter, "a")

            self.clock.advance(adapter.redelivery_ms * 10)

            assert adapter.executions.acknowledge(delivery, RECEIPT) == RECEIPT
            assert adapter.executions.claim_due(LATER) == []

    def test_the_same_acknowledgement_again_clears_no_later_wake(self) -> None:
        """Spec L2: repeated with one token it is answered alike, and clears nothing since."""
        with self.opened() as adapter:
            delivery = self.claimed(adapter, "a")
            adapter.executions.acknowledge(delivery, Suspended())
            adapter.executions.request_wake("a", self.now)

            again = adapter.executions.acknowledge(delivery, Suspended())

            assert isinstance(again, Suspended)
            assert self.due_ids(adapter, self.now) == ["a"]

    def test_admission_never_moves_and_updates_never_go_back(self) -> None:
        """Spec E5: `admitted_at` stays; `updated_at` never decreases, also if the clock does."""
        with self.opened() as adapter:
            self.admit(adapter, "a")
            admitted = adapter.executions.get("a")
            assert admitted is not None
            latest = admitted.updated_at
            for step in (500, -10_000, 20_000, -5_000):
                self.clock.advance(step)
                adapter.executions.request_wake("a", 0)
                (delivery,) = adapter.executions.claim_due(self.now)
                adapter.executions.acknowledge(delivery, Suspended())

                record = adapter.executions.get("a")
                assert record is not None
                assert record.admitted_at == admitted.admitted_at
                assert record.updated_at >= latest
                latest = record.updated_at
