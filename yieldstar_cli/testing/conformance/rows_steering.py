"""Rows about steering from outside: cancel and pause (spec C6, E14)."""

from __future__ import annotations

import pytest

from yieldstar_cli.errors import ExecutionNotFound
from yieldstar_cli.model import CancelledOutcome, Completed, Paused, Round, Status, Suspended
from yieldstar_cli.storage.contract import Storage
from yieldstar_cli.testing.conformance.rooms import WORKFLOW, RoomRows


class SteeringRows(RoomRows):
    """Rows about cancel and pause."""

    # --- cancel ------------------------------------------------------------------------------

    def test_what_never_began_is_cancelled_at_once(self) -> None:
        """Spec C6: terminal, with its reason; who waits for it is woken; nothing runs."""
        with self.opened() as adapter:
            storage = adapter.storage
            storage.executions.admit(workflow_id="order", execution_id="a", at=self.now + 500)
            self.suspended(storage, self.begun(storage, "waiter"), self.child("a"))

            answer = storage.steering.cancel("a", reason="no need")

            assert answer == "cancelled"
            record = self.record_of(storage, "a")
            assert (record.status, record.due_at) == (Status.CANCELLED, None)
            assert record.outcome == CancelledOutcome("no need")
            assert self.due(storage) == ["waiter"]

    def test_what_has_begun_is_asked_to_cancel_and_told_once(self) -> None:
        """Spec C6: a wake and a request, whose first reason stays; recorded once for ever."""
        with self.opened() as adapter:
            storage = adapter.storage
            self.suspended(storage, self.begun(storage, "a"))
            answers = [storage.steering.cancel("a", reason=reason) for reason in ("one", "two")]
            adapter.crash()
            storage = adapter.storage

            delivery = self.claimed(storage, "a")
            cancel = self.looked(storage, delivery).cancel

            assert answers == ["requested"] * 2
            assert cancel is not None
            assert (cancel.at, cancel.reason, cancel.told) == (self.now, "one", False)
            told = Round(entries=(self.entry(0, "cancel", "cancel"),), told=True)
            storage.deliveries.record(delivery, told)
            assert self.looked(storage, delivery).cancel is None
            recorded = self.record_of(storage, "a").cancel
            assert recorded is not None
            assert (recorded.reason, recorded.told) == ("one", True)
            assert not self.suspended(storage, delivery).ready
            assert storage.steering.cancel("a", reason="three") == "requested"
            assert self.due(storage) == []

    def test_an_open_delivery_is_told_of_a_request_and_cannot_pass_over_it(self) -> None:
        """Spec C6, R10: its worker is told to look; it does not suspend before it has."""
        with self.opened() as adapter:
            storage = adapter.storage
            delivery = self.begun(storage, "a")

            storage.steering.cancel("a")

            assert [number for number, _ in storage.deliveries.nudged(self.worker)] == [
                delivery.number
            ]
            assert self.suspended(storage, delivery).ready
            assert self.record_of(storage, "a").delivery is not None

    def test_cancel_at_once_ends_it_and_what_it_started(self) -> None:
        """Spec C6, C4, E10: without code, and for ever; its delivery is told the outcome."""
        with self.opened() as adapter:
            storage = adapter.storage
            delivery = self.begun(storage, "p")
            starts = (self.start("p/c"), self.start("p/free", detached=True))
            storage.deliveries.record(delivery, Round(actions=starts))
            self.claimed(storage, "p/c")

            answer = storage.steering.cancel("p", reason="stuck", now=True)

            cancelled = CancelledOutcome("stuck")
            assert answer == "cancelled"
            assert self.record_of(storage, "p").outcome == cancelled
            assert self.record_of(storage, "p/c").status == Status.CANCELLED
            assert self.record_of(storage, "p/free").status == Status.ADMITTED
            late = storage.deliveries.record(
                delivery, Round(entries=(self.entry(2),), outcome=Completed("1"))
            )
            assert late.outcome == cancelled
            assert self.record_of(storage, "p").outcome == cancelled
            assert len(storage.reader.history(delivery.number, 1)) == 2
            assert storage.executions.request_wake("p", self.now) == "ignored"

    def test_cancel_at_once_ends_what_is_held_or_paused(self) -> None:
        """Spec C6, E14: it is the way out where a request would wait."""
        with self.opened() as adapter:
            storage = adapter.storage
            storage.executions.release(
                self.begun(storage, "held"), problem=("DIVERGED", "no"), held=True
            )
            self.suspended(storage, self.begun(storage, "paused"))
            storage.steering.pause(execution_id="paused", by="me")
            for execution_id in ("held", "paused"):
                assert storage.steering.cancel(execution_id) == "requested"
            assert self.due(storage) == []

            for execution_id in ("held", "paused"):
                assert storage.steering.cancel(execution_id, now=True) == "cancelled"
                assert self.record_of(storage, execution_id).status == Status.CANCELLED

    def test_what_has_ended_ignores_a_cancellation(self) -> None:
        """Spec C6, E10: the outcome stands; what was never there is not found."""
        with self.opened() as adapter:
            storage = adapter.storage
            self.ended(storage, self.begun(storage, "a"), Completed("1"))
            before = self.record_of(storage, "a")

            for now in (False, True):
                assert storage.steering.cancel("a", now=now) == "ignored"
                with pytest.raises(ExecutionNotFound):
                    storage.steering.cancel("nobody", now=now)

            assert self.record_of(storage, "a") == before
            assert storage.executions.get("nobody") is None

    # --- pause -------------------------------------------------------------------------------

    def test_an_execution_that_is_paused_is_not_claimed_until_it_is_resumed(self) -> None:
        """Spec E14: woken and sent to as ever; the mark says who, when and why."""
        self._not_claimed_until_resumed("execution", {"execution_id": "a"})

    def test_a_workflow_that_is_paused_is_not_claimed_until_it_is_resumed(self) -> None:
        """Spec E14: all executions of that name."""
        self._not_claimed_until_resumed("workflow", {"workflow_id": WORKFLOW[0]})

    def test_a_file_that_is_paused_gives_no_claim_until_it_is_resumed(self) -> None:
        """Spec E14: everything in it."""
        self._not_claimed_until_resumed("all", {})

    def _not_claimed_until_resumed(self, scope: str, chosen: dict[str, str]) -> None:
        with self.opened() as adapter:
            storage = adapter.storage
            self.suspended(storage, self.begun(storage, "a"), self.message("approval"))

            paused = storage.steering.pause(**chosen, by="me", reason="look")
            again = storage.steering.pause(**chosen, by="you")

            assert (paused, again) == ("paused", "unchanged")
            mark = Paused(scope, "me", self.now, "look", chosen.get("workflow_id"))
            assert self.record_of(storage, "a").paused == mark
            assert storage.inbox.send("a", "approval", "1", ttl_ms=1) == "delivered"
            assert storage.executions.request_wake("a", self.now) == "requested"
            adapter.crash()
            self._nothing_is_claimed(adapter.storage)
            assert adapter.storage.steering.resume(**chosen) == "resumed"
            assert adapter.storage.steering.resume(**chosen) == "unchanged"
            assert self.record_of(adapter.storage, "a").paused is None
            assert self.due(adapter.storage) == ["a"]

    def _nothing_is_claimed(self, storage: Storage) -> None:
        assert self.due(storage) == []
        assert storage.executions.claim_due(self.now + 10**6) == []
        assert storage.deliveries.next_due([WORKFLOW], worker=self.worker) is None

    def test_a_pause_leaves_the_others_alone(self) -> None:
        """Spec E14: another execution, another workflow; each mark is lifted by itself."""
        with self.opened() as adapter:
            storage = adapter.storage
            for execution_id in ("a", "b"):
                self.suspended(storage, self.begun(storage, execution_id))
                storage.executions.request_wake(execution_id, self.now)
            storage.steering.pause(execution_id="a", by="me")
            storage.steering.pause(workflow_id="other", by="me")
            assert self.due(storage) == ["b"]

            storage.steering.pause(by="me")
            storage.steering.resume(execution_id="a")
            assert self.due(storage) == []
            storage.steering.resume()

            assert self.due(storage) == ["a"]
            (left,) = storage.steering.pauses()
            assert (left.scope, left.workflow_id) == ("workflow", "other")

    def test_an_execution_admitted_under_a_pause_waits_for_the_end_of_it(self) -> None:
        """Spec E14: it is admitted as ever, and not claimed."""
        with self.opened() as adapter:
            storage = adapter.storage
            storage.steering.pause(workflow_id=WORKFLOW[0], by="me")

            record = storage.executions.admit(workflow_id=WORKFLOW[0], execution_id="a")

            assert record.paused is not None
            assert storage.executions.get("a") == record
            assert self.due(storage) == []
            storage.steering.resume(workflow_id=WORKFLOW[0])
            assert self.due(storage) == ["a"]

    def test_a_running_delivery_is_told_of_a_pause_and_may_suspend(self) -> None:
        """Spec E14: its running steps end, what it records counts, and nothing is lost."""
        with self.opened() as adapter:
            storage = adapter.storage
            delivery = self.begun(storage, "a")
            storage.deliveries.record(delivery, Round(waits=(self.message("approval"),)))
            storage.steering.pause(execution_id="a", by="me")
            assert [number for number, _ in storage.deliveries.nudged(self.worker)] == [
                delivery.number
            ]
            assert self.looked(storage, delivery).paused
            storage.inbox.send("a", "approval", "1", ttl_ms=1)

            recorded = storage.deliveries.record(
                delivery, Round(entries=(self.entry(0),), outcome=Suspended())
            )

            assert isinstance(recorded.outcome, Suspended)
            assert self.due(storage) == []
            storage.steering.resume(execution_id="a")
            assert self.due(storage) == ["a"]
