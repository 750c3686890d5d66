"""RFC 001, adapter table: the rows about admission."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from yieldstar_cli.errors import ExecutionIdConflict, InvalidExecutionEvent
from yieldstar_cli.model import Completed, Status, Suspended
from yieldstar_cli.testing.conformance.base import LATER, Rows

#: Values that come back as what they were (spec V1).
EVENT = {"order": 42, "items": [{"price": 9.5, "name": "Käse 🧀"}], "note": None, "paid": False}


class _Opaque:
    """Nothing that could be stored."""


class AdmissionRows(Rows):
    """Rows about admission."""

    def test_an_unused_id_is_reserved_and_returned(self) -> None:
        """Row: admission receives an unused caller-supplied ID -> that exact ID."""
        with self.opened() as adapter:
            # The last two look alike: nothing is folded or normalised.
            for given in ("order-42", "Order-42", "a/b", "日本", "o 42", "-x", "\u00e9", "e\u0301"):
                record = adapter.executions.admit(
                    workflow_id="charge-order", params=EVENT, execution_id=given
                )

                assert record.execution_id == given
                stored = adapter.executions.get(given)
                assert stored is not None
                assert stored.execution_id == given

    def test_an_id_in_use_conflicts_and_changes_nothing(self) -> None:
        """Row: admission receives an ID in use -> EXECUTION_ID_CONFLICT, record unchanged."""
        with self.opened() as adapter:
            adapter.executions.admit(
                workflow_id="charge-order", params=EVENT, execution_id="order-42"
            )
            before = adapter.executions.get("order-42")

            self.clock.advance(1_000)
            for workflow_id, params in (("charge-order", EVENT), ("other", {"order": 1})):
                with pytest.raises(ExecutionIdConflict) as refused:
                    adapter.executions.admit(
                        workflow_id=workflow_id, params=params, execution_id="order-42"
                    )
                assert refused.value.code == "EXECUTION_ID_CONFLICT"
                assert "charge-order" in refused.value.message
                assert "admitted" in refused.value.message

            assert adapter.executions.get("order-42") == before

    def test_an_id_stays_in_use_in_every_state(self) -> None:
        """Row: admission receives an ID in use; spec E3: whatever became of that execution."""
        with self.opened() as adapter:
            self.admit(adapter, "order-42")
            (delivery,) = adapter.executions.claim_due(self.now)
            self.assert_conflict(adapter, "order-42")
            adapter.executions.acknowledge(delivery, Suspended(self.now))
            self.assert_conflict(adapter, "order-42")
            (delivery,) = adapter.executions.claim_due(self.now)
            adapter.executions.acknowledge(delivery, Completed('"receipt"'))
            self.assert_conflict(adapter, "order-42")

    def test_an_id_stays_in_use_after_its_delivery_failed(self) -> None:
        """Row: delivery fails after admission -> the same admission conflicts."""
        with self.opened() as adapter:
            self.admit(adapter, "order-42")
            (delivery,) = adapter.executions.claim_due(self.now)

            adapter.executions.release(delivery, problem=("DISK", "the disk is gone"))

            self.assert_conflict(adapter, "order-42")

    def test_without_an_id_a_new_one_is_chosen(self) -> None:
        """Row: admission omits an ID -> a new ID that differs from every existing one."""
        with self.opened() as adapter:
            known = {self.admit(adapter, f"order-{n}") for n in range(3)}
            for _ in range(200):
                chosen = adapter.executions.admit(workflow_id="charge-order").execution_id
                assert chosen
                assert chosen not in known
                assert adapter.executions.get(chosen) is not None
                known.add(chosen)

    def test_the_event_is_stored_as_it_was_given(self) -> None:
        """Row: admission stores an event -> get returns it; context is a read-only mapping."""
        with self.opened() as adapter:
            context = {"shop": "berlin", "trace": ["a", 1]}
            adapter.executions.admit(
                workflow_id="charge-order", params=EVENT, context=context, execution_id="order-42"
            )

            record = adapter.executions.get("order-42")

            assert record is not None
            assert record.workflow_id == "charge-order"
            assert record.params == EVENT
            assert isinstance(record.context, Mapping)
            assert dict(record.context) == context
            assert not hasattr(record.context, "__setitem__")

    def test_what_the_caller_changes_later_changes_no_record(self) -> None:
        """Row: admission stores an event; spec E4: the event is stored once."""
        with self.opened() as adapter:
            params, context = {"items": [1]}, {"shop": ["berlin"]}
            adapter.executions.admit(
                workflow_id="w", params=params, context=context, execution_id="order-42"
            )

            params["items"].append(2)
            context["shop"].append("rome")
            first = adapter.executions.get("order-42")
            assert first is not None
            assert isinstance(first.params, dict)
            first.params["items"] = "changed"

            again = adapter.executions.get("order-42")
            assert again is not None
            assert again.params == {"items": [1]}
            assert again.context == {"shop": ["berlin"]}

    def test_a_delivery_reads_its_event_from_the_record(self) -> None:
        """Row: a delivery runs -> it reads the event from the record, not from the wake."""
        with self.opened() as adapter:
            adapter.executions.admit(
                workflow_id="charge-order",
                params=EVENT,
                context={"shop": "berlin"},
                execution_id="order-42",
            )
            adapter.executions.request_wake("order-42", self.now)

            for _ in range(3):
                (delivery,) = adapter.executions.claim_due(self.now)
                record = adapter.executions.get(delivery.execution_id)
                assert record is not None
                assert record.workflow_id == "charge-order"
                assert record.params == EVENT
                assert record.context == {"shop": "berlin"}
                adapter.executions.acknowledge(delivery, Suspended(self.now))

    def test_what_cannot_round_trip_is_refused_and_stores_nothing(self) -> None:
        """Row: a value that cannot round-trip -> INVALID_EXECUTION_EVENT, no record, not due."""
        with self.opened() as adapter:
            cycle: list[object] = []
            cycle.append(cycle)
            for bad in (_Opaque(), {"items": [1, {"lock": _Opaque()}]}, {1: "a"}, cycle, "\ud83d"):
                for params, context in ((bad, {}), ({}, {"given": bad})):
                    with pytest.raises(InvalidExecutionEvent) as refused:
                        adapter.executions.admit(
                            workflow_id="charge-order",
                            params=params,
                            context=context,
                            execution_id="order-42",
                        )
                    assert refused.value.code == "INVALID_EXECUTION_EVENT"

            assert adapter.executions.get("order-42") is None
            assert adapter.executions.claim_due(LATER) == []

    def test_an_id_that_cannot_be_kept_is_refused(self) -> None:
        """Spec E2: 1 to 255 bytes, printable, no space at its ends; answered with the place."""
        with self.opened() as adapter:
            too_long = ("x" * 256, "é" * 128)
            for bad in ("", " ", " a", "a ", "a\nb", "a\0b", "\ud83d", "\x1b[2J", *too_long):
                with pytest.raises(InvalidExecutionEvent, match="execution_id"):
                    adapter.executions.admit(workflow_id="w", execution_id=bad)
                assert adapter.executions.get(bad) is None

            assert adapter.executions.claim_due(LATER) == []

    def test_an_admitted_execution_is_due_at_once(self) -> None:
        """Row: admission commits -> the execution is admitted and claimDue returns it."""
        with self.opened() as adapter:
            record = adapter.executions.admit(workflow_id="w", execution_id="order-42")

            assert record.status == Status.ADMITTED
            assert record.outcome is None
            assert adapter.executions.get("order-42") == record
            claimed = adapter.executions.claim_due(self.now)
            assert [d.execution_id for d in claimed] == ["order-42"]

    def test_an_execution_admitted_for_later_is_due_then(self) -> None:
        """Spec E1: the first wake is due at the moment the caller asked for."""
        with self.opened() as adapter:
            adapter.executions.admit(workflow_id="w", execution_id="a", at=self.now + 500)

            assert adapter.executions.claim_due(self.now + 499) == []
            assert len(adapter.executions.claim_due(self.now + 500)) == 1
