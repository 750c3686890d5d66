"""RFC 001, adapter table: the rows about wakes, claims and restarts."""

from __future__ import annotations

import pytest

from yieldstar_cli.errors import ExecutionNotFound
from yieldstar_cli.model import Completed, Failed, Outcome, Status, Suspended
from yieldstar_cli.testing.conformance.base import LATER, Rows


class WakeRows(Rows):
    """Rows about wakes, claims and restarts."""

    def test_two_wakes_before_a_delivery_are_one_delivery(self) -> None:
        """Row: two wakes are requested before a delivery -> claimDue returns it once."""
        with self.opened() as adapter:
            self.admit(adapter, "order-42")
            adapter.executions.request_wake("order-42", self.now)
            adapter.executions.request_wake("order-42", self.now - 5)

            assert self.due_ids(adapter, self.now) == ["order-42"]
            assert self.due_ids(adapter, self.now) == []

    def test_of_several_due_times_the_earliest_counts(self) -> None:
        """Row: wakes with different due times -> due at the earlier one, whatever their order."""
        with self.opened() as adapter:
            for order in ((500, 900), (900, 500), (700, 500, 900)):
                execution_id = f"order-{order}"
                adapter.executions.acknowledge(self.claimed(adapter, execution_id), Suspended())
                for span in order:
                    adapter.executions.request_wake(execution_id, self.now + span)

                assert self.due_ids(adapter, self.now + 499) == []
                (delivery,) = adapter.executions.claim_due(self.now + 500)
                adapter.executions.acknowledge(delivery, Completed())

    def test_due_executions_come_oldest_first_and_each_once(self) -> None:
        """Spec E7: oldest due first, each once, each under a new token; `limit` only narrows."""
        with self.opened() as adapter:
            for name, span in (("c", 300), ("b", 200), ("a", 100)):
                adapter.executions.admit(workflow_id="w", execution_id=name, at=self.now + span)

            first = adapter.executions.claim_due(self.now + 300, limit=2)
            rest = adapter.executions.claim_due(self.now + 300)

            assert [d.execution_id for d in first] == ["a", "b"]
            assert [d.execution_id for d in rest] == ["c"]

    def test_a_claim_of_some_workflows_leaves_the_others(self) -> None:
        """Spec E7: `workflows` only narrows the claim, by name and version."""
        with self.opened() as adapter:
            adapter.executions.admit(workflow_id="one", execution_id="a")
            adapter.executions.admit(workflow_id="two", execution_id="b", version=2)

            assert adapter.executions.claim_due(self.now, workflows=[("two", 1)]) == []
            claimed = adapter.executions.claim_due(self.now, workflows=[("two", 2)])
            assert [d.execution_id for d in claimed] == ["b"]
            assert self.due_ids(adapter, self.now) == ["a"]

    def test_a_wake_requested_during_a_delivery_is_due_after_it(self) -> None:
        """Row: a wake is requested during a delivery -> after its ack still due at that time."""
        with self.opened() as adapter:
            delivery = self.claimed(adapter, "order-42")

            adapter.executions.request_wake("order-42", self.now - 1)
            adapter.executions.acknowledge(delivery, Suspended())

            assert self.due_ids(adapter, self.now) == ["order-42"]

    def test_the_covered_due_time_is_not_inherited(self) -> None:
        """Row: past-due wake claimed, future wake during it -> due at the future time only."""
        with self.opened() as adapter:
            delivery = self.claimed(adapter, "order-42")

            adapter.executions.request_wake("order-42", self.now + 9_000)
            adapter.executions.request_wake("order-42", self.now + 8_000)
            adapter.executions.acknowledge(delivery, Suspended())

            assert self.due_ids(adapter, self.now + 7_999) == []
            assert self.due_ids(adapter, self.now + 8_000) == ["order-42"]

    def test_an_acknowledgement_clears_the_covered_wakes(self) -> None:
        """RFC, Wakes: then the due time is the earliest wake since the claim, or none."""
        with self.opened() as adapter:
            adapter.executions.acknowledge(self.claimed(adapter, "order-42"), Suspended())

            record = adapter.executions.get("order-42")
            assert record is not None
            assert record.due_at is None
            assert adapter.executions.claim_due(LATER) == []

    def test_a_delivery_s_own_waits_are_wakes_of_the_same_commit(self) -> None:
        """Spec E9: a suspending delivery's own moment merges with the wakes since its claim."""
        with self.opened() as adapter:
            for name, asked, own in (("a", 700, 600), ("b", 600, 700)):
                delivery = self.claimed(adapter, name)
                adapter.executions.request_wake(name, self.now + asked)
                adapter.executions.acknowledge(delivery, Suspended(self.now + own))

                assert self.due_ids(adapter, self.now + 599) == []
                (delivery,) = adapter.executions.claim_due(self.now + 600)
                assert delivery.execution_id == name
                adapter.executions.acknowledge(delivery, Completed())

    def test_a_wake_for_an_unknown_id_is_not_found(self) -> None:
        """Row: unknown execution ID -> EXECUTION_NOT_FOUND, no record, nothing due."""
        with self.opened() as adapter:
            for unknown in ("order-42", "", "\ud83d"):
                with pytest.raises(ExecutionNotFound) as refused:
                    adapter.executions.request_wake(unknown, self.now)
                assert refused.value.code == "EXECUTION_NOT_FOUND"
                assert adapter.executions.get(unknown) is None

            assert adapter.executions.claim_due(LATER) == []

    def test_a_claimed_execution_is_not_claimed_again(self) -> None:
        """Row: claimed and not yet acknowledged -> not returned before the timeout."""
        with self.opened() as adapter:
            self.claimed(adapter, "order-42")
            adapter.executions.request_wake("order-42", self.now)

            assert adapter.executions.claim_due(self.now) == []
            assert adapter.executions.claim_due(self.now + adapter.redelivery_ms - 1) == []

    def test_an_execution_never_acknowledged_is_delivered_again(self) -> None:
        """Row: never acknowledged -> its wakes stay pending, delivered again, under a new token."""
        with self.opened() as adapter:
            delivery = self.claimed(adapter, "order-42")

            self.clock.advance(adapter.redelivery_ms)
            (again,) = adapter.executions.claim_due(self.now)

            assert again.execution_id == "order-42"
            assert again.token != delivery.token
            adapter.executions.acknowledge(again, Suspended())
            assert adapter.executions.claim_due(LATER) == []

    def test_a_wake_during_a_lost_delivery_is_covered_by_the_next(self) -> None:
        """Spec E8: covered wakes are pending again, merged with later ones."""
        with self.opened() as adapter:
            self.claimed(adapter, "order-42")
            adapter.executions.request_wake("order-42", self.now + 1)

            self.clock.advance(adapter.redelivery_ms)
            (again,) = adapter.executions.claim_due(self.now)
            adapter.executions.acknowledge(again, Suspended())

            assert adapter.executions.claim_due(LATER) == []

    def test_a_terminal_execution_ignores_wakes(self) -> None:
        """Row: a wake for a terminal execution -> ignored, nothing becomes due."""
        with self.opened() as adapter:
            for outcome in (Completed('"receipt"'), Failed('{"name":"E","message":"m"}')):
                execution_id = type(outcome).__name__
                delivery = self.claimed(adapter, execution_id)
                adapter.executions.request_wake(execution_id, self.now)
                adapter.executions.acknowledge(delivery, outcome)

                assert adapter.executions.request_wake(execution_id, self.now) == "ignored"
                record = adapter.executions.get(execution_id)
                assert record is not None
                assert record.due_at is None
                assert adapter.executions.claim_due(LATER) == []

    def test_records_and_wakes_survive_a_restart(self) -> None:
        """Row: restart with admitted and suspended executions -> they survive, are delivered."""
        self._records_and_wakes_survive(crash=False)

    def test_records_and_wakes_survive_a_crash(self) -> None:
        """Row: as for a restart, after `kill -9` (spec E13)."""
        self._records_and_wakes_survive(crash=True)

    def _records_and_wakes_survive(self, *, crash: bool) -> None:
        with self.opened() as adapter:
            ids = ("admitted", "later", "sleeping", "woken", "done")
            ends: dict[str, Outcome] = {
                "sleeping": Suspended(self.now + 50),
                "woken": Suspended(),
                "done": Completed("1"),
            }
            for execution_id, outcome in ends.items():
                adapter.executions.acknowledge(self.claimed(adapter, execution_id), outcome)
            self.admit(adapter, "admitted")
            adapter.executions.admit(workflow_id="w", execution_id="later", at=self.now + 90)
            adapter.executions.request_wake("woken", self.now + 70)
            before = [adapter.executions.get(execution_id) for execution_id in ids]

            if crash:
                adapter.crash()
            else:
                adapter.restart()

            assert [adapter.executions.get(execution_id) for execution_id in ids] == before
            for span, due in ((0, "admitted"), (50, "sleeping"), (70, "woken"), (90, "later")):
                assert self.due_ids(adapter, self.now + span - 1) == []
                assert self.due_ids(adapter, self.now + span) == [due]
            for execution_id in ("sleeping", "woken"):
                record = adapter.executions.get(execution_id)
                assert record is not None
                assert record.status == Status.SUSPENDED
