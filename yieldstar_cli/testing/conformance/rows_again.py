"""Rows about what goes on elsewhere: continued as new, or at a worker with a tag (C7, O5, R11)."""

from __future__ import annotations

import pytest

from yieldstar_cli.errors import StaleDelivery
from yieldstar_cli.model import Completed, Continued, Round, Status, Suspended
from yieldstar_cli.storage.contract import Storage
from yieldstar_cli.testing.conformance.rooms import WORKFLOW, RoomRows

NEXT = Continued('{"page":2}', WORKFLOW[1])


class AgainRows(RoomRows):
    """Rows about continue-as-new and tags."""

    # --- continue-as-new -----------------------------------------------------------------------

    def test_the_next_incarnation_begins_under_the_same_id(self) -> None:
        """Spec C7; cases 232, 235: new params, empty history, due now; the old one is kept."""
        with self.opened() as adapter:
            delivery = self.begun(adapter.storage, "a")
            first = self.entry(0)
            adapter.storage.deliveries.record(delivery, Round(entries=(first,), outcome=NEXT))
            adapter.crash()

            storage = adapter.storage
            record = self.record_of(storage, "a")
            assert (record.status, record.outcome) == (Status.SUSPENDED, None)
            assert (record.incarnation, record.operations) == (2, 0)
            assert record.params_json == NEXT.params
            (claimed,) = storage.deliveries.claim(
                self.now, worker=self.worker, limit=9, workflows=[WORKFLOW]
            )
            assert (claimed.incarnation, claimed.params_json) == (2, NEXT.params)
            assert (claimed.history, claimed.waits, claimed.retries) == ((), (), ())
            assert storage.reader.history(delivery.number, 1) == [first]
            (before,) = storage.family.incarnations(delivery.number)
            assert (before.incarnation, before.operations) == (1, 1)
            assert before.params_json != NEXT.params
            storage.deliveries.record(claimed.delivery, Round(entries=(self.entry(0),)))
            assert len(storage.reader.history(delivery.number, 2)) == 1

    def test_the_delivery_that_continued_is_over(self) -> None:
        """Spec C7, L2; case 233: what it still writes is refused, before and after the claim."""
        with self.opened() as adapter:
            storage = adapter.storage
            delivery = self.begun(storage, "a")
            storage.deliveries.record(delivery, Round(outcome=NEXT))

            for _ in range(2):
                with pytest.raises(StaleDelivery):
                    storage.deliveries.record(
                        delivery, Round(entries=(self.entry(0),), actions=(self.start("c"),))
                    )
                self.due(storage)

            assert storage.executions.get("c") is None
            assert storage.reader.history(delivery.number, 2) == []
            assert self.record_of(storage, "a").incarnation == 2

    def test_a_dead_delivery_cannot_continue(self) -> None:
        """Spec C7, L2; case 233: the old incarnation stands, and its history."""
        with self.opened() as adapter:
            storage = adapter.storage
            delivery = self.begun(storage, "a")
            storage.executions.release(delivery)
            self.claimed(storage, "a")

            with pytest.raises(StaleDelivery):
                storage.deliveries.record(delivery, Round(outcome=NEXT))

            record = self.record_of(storage, "a")
            assert (record.incarnation, record.params_json) == (1, "null")

    def test_messages_children_and_wakes_are_kept_without_limit(self) -> None:
        """Spec C7; cases 237, 238: unread ones in order, a child's end, the last round's acts."""
        with self.opened() as adapter:
            storage = adapter.storage
            for value in range(150):
                storage.inbox.send("a", "approval", str(value), ttl_ms=1_000)
            delivery = self.begun(storage, "a")
            storage.deliveries.record(delivery, Round(actions=(self.start("a/old"),)))
            self.ended(storage, self.claimed(storage, "a/old"), Completed("7"))
            (first, *_) = self.looked(storage, delivery, "approval").arrived
            storage.deliveries.record(
                delivery,
                Round(
                    entries=(self.entry(1, "message", "approval"),),
                    consumed=(first.number,),
                    actions=(self.start("a/new"),),
                    outcome=NEXT,
                ),
            )

            delivery = self.claimed(storage, "a")

            unread = storage.deliveries.look(delivery, queues={"approval": (0, 1_000)}).arrived
            assert [m.value for m in unread] == [str(value) for value in range(1, 150)]
            assert self.suspended(storage, delivery, self.child("a/old")).ready
            (end,) = self.looked(storage, delivery).ended
            assert end.outcome == Completed("7")
            children = storage.family.children(delivery.number)
            assert [child.execution_id for child in children] == ["a/old", "a/new"]
            assert children[1].status == Status.ADMITTED

    def test_a_request_to_cancel_survives(self) -> None:
        """Spec C6, C7: the next incarnation's function is told what this one was not."""
        with self.opened() as adapter:
            storage = adapter.storage
            delivery = self.begun(storage, "a")
            storage.steering.cancel("a", reason="enough")

            storage.deliveries.record(delivery, Round(outcome=NEXT))

            cancel = self.looked(storage, self.claimed(storage, "a")).cancel
            assert cancel is not None
            assert cancel.reason == "enough"

    def test_the_next_incarnation_runs_the_version_that_was_named(self) -> None:
        """Spec R11: the latest one, and a worker that lacks it does not claim it."""
        with self.opened() as adapter:
            storage = adapter.storage
            name, version = WORKFLOW
            delivery = self.begun(storage, "a")
            storage.deliveries.record(delivery, Round(outcome=Continued("{}", version + 1)))

            assert self.due(storage) == []
            found = storage.deliveries.claim(
                self.now, worker=self.worker, limit=9, workflows=[(name, version + 1)]
            )
            assert [each.version for each in found] == [version + 1]

    # --- tags --------------------------------------------------------------------------------

    def test_what_needs_a_tag_is_due_at_once_for_a_worker_that_has_one(self) -> None:
        """Spec O5: for one of the tags; the others get it by its ordinary wakes alone."""
        with self.opened() as adapter:
            storage = adapter.storage
            self._needing(storage, "a", "gpu", "big")

            assert self.record_of(storage, "a").needs == ("gpu", "big")
            assert self._due_with(storage) == []
            assert self._due_with(storage, "tape") == []
            assert self._due_with(storage, "tape", "big") == ["a"]
            assert self._due_with(storage, "gpu") == []

    def test_an_ordinary_wake_brings_what_needs_a_tag_to_any_worker(self) -> None:
        """Spec O5: it looks again; what it needs is said anew at every suspension."""
        with self.opened() as adapter:
            storage = adapter.storage
            self._needing(storage, "a", "gpu")

            storage.executions.request_wake("a", self.now)
            assert self._due_with(storage) == ["a"]
            assert self._due_with(storage, "gpu") == []

    def test_a_suspension_without_needs_needs_nothing(self) -> None:
        """Spec O5: recomputed at every suspension."""
        with self.opened() as adapter:
            storage = adapter.storage
            self._needing(storage, "a", "gpu")
            (found,) = storage.deliveries.claim(
                self.now, worker=self.worker, limit=9, workflows=[WORKFLOW], tags=["gpu"]
            )

            self.suspended(storage, found.delivery)

            assert self.record_of(storage, "a").needs == ()
            assert self._due_with(storage, "gpu") == []

    def _needing(self, storage: Storage, execution_id: str, *tags: str) -> None:
        delivery = self.begun(storage, execution_id)
        storage.deliveries.record(delivery, Round(needs=tags, outcome=Suspended()))

    def _due_with(self, storage: Storage, *tags: str) -> list[str]:
        found = storage.deliveries.claim(
            self.now, worker=self.worker, limit=9, workflows=[WORKFLOW], tags=tags
        )
        return [each.delivery.execution_id for each in found]
