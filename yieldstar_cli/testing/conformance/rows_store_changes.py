"""Rows about what deliveries do to stores: opening, changing, looking (spec S1-S3, S5)."""

from __future__ import annotations

import pytest

from yieldstar_cli.errors import StaleDelivery
from yieldstar_cli.model import OpenStore, Round, Suspended
from yieldstar_cli.testing.conformance.rows_stores import EMPTY, FULL, LEFT, STOCK, StoreRows


class StoreChangeRows(StoreRows):
    """Rows about what deliveries do to stores."""

    def test_a_store_is_made_by_who_opens_it_first(self) -> None:
        """Spec S1; cases 164, 165: the others write nothing; without `initial` it must exist."""
        with self.opened() as adapter:
            storage = adapter.storage
            delivery, other = self.begun(storage, "a"), self.begun(storage, "b")

            (missing,) = self.done(storage, delivery, self.opening(None, "missing"))
            (made,) = self.done(storage, delivery, self.opening(FULL))
            stands = self.store_of(storage)
            found = self.done(storage, other, self.opening(EMPTY), self.opening(None, "o2"))

            assert missing[:2] == ("missing", False)
            told = {"instance": stands.instance, "version": 0}
            assert made == ("o", True, told)
            assert found == [("o", True, told), ("o2", True, told)]
            assert self.store_of(storage) == stands
            assert stands.state == FULL

    def test_a_change_is_made_at_the_version_it_was_computed_from(self) -> None:
        """Spec S2; case 168: else nothing, no entry even, and the delivery is to look again."""
        with self.opened() as adapter:
            storage = adapter.storage
            delivery = self.begun(storage, "a")
            seen = storage.stores.put(*STOCK, FULL)

            (made,) = self.done(storage, delivery, self.change(seen, EMPTY))
            late = Round(
                entries=(self.entry(1),),
                actions=(self.change(seen, FULL, step_key="late"), self.opening(None)),
                outcome=Suspended(),
            )
            recorded = storage.deliveries.record(delivery, late)

            assert made == ("c", True, {"instance": seen.instance, "version": 1})
            assert (recorded.outcome, recorded.ready) == (None, True)
            history = storage.reader.history(delivery.number, 1)
            assert [(e.position, e.step_key) for e in history] == [
                (0, "c"),
                (1, "step-1"),
                (2, "o"),
            ]
            assert history[2:] == list(recorded.entries)
            assert self.record_of(storage, "a").operations == 3
            assert (self.store_of(storage).version, self.store_of(storage).state) == (1, EMPTY)

    def test_no_end_passes_over_a_change_that_was_not_made(self) -> None:
        """Spec S2: an execution ends, or goes over, once its change is computed anew and made."""
        with self.opened() as adapter:
            storage = adapter.storage
            seen = storage.stores.put(*STOCK, FULL)
            storage.stores.put(*STOCK, FULL)
            for execution_id, outcome in self.ends().items():
                delivery = self.begun(storage, execution_id)
                late = Round(actions=(self.change(seen, EMPTY),), outcome=outcome)

                recorded = storage.deliveries.record(delivery, late)

                assert (recorded.outcome, recorded.ready) == (None, True)
                assert self.record_of(storage, execution_id).delivery is not None
                anew = Round(actions=(self.change(self.store_of(storage), EMPTY),), outcome=outcome)
                assert storage.deliveries.record(delivery, anew).outcome == outcome

    def test_a_snapshot_s_change_fails_with_the_actual_version(self) -> None:
        """Spec S2; cases 176, 179: recorded as such; a store made again is left alone."""
        with self.opened() as adapter:
            storage = adapter.storage
            delivery = self.begun(storage, "a")
            seen = storage.stores.put(*STOCK, FULL)
            deletes = self.change(seen, None, fails=True)

            (deleted,) = self.done(storage, delivery, deletes)
            (missing,) = self.done(storage, delivery, self.change(seen, EMPTY, fails=True))
            again = storage.stores.put(*STOCK, FULL)
            late = self.done(storage, delivery, deletes, self.change(seen, EMPTY, fails=True))

            assert deleted[1] is True
            assert missing[1] is False
            assert isinstance(missing[2], dict)
            assert (missing[2].get("code"), missing[2]["version"]) == ("STORE_CHANGED", None)
            for _, ok, value in late:
                assert isinstance(value, dict)
                assert (ok, value.get("code"), value["version"]) == (False, "STORE_CHANGED", 0)
            assert self.store_of(storage) == again

    def test_a_change_leaves_the_result_it_was_given(self) -> None:
        """Spec S5; case 178: of two who claim from one state, one has the item."""
        with self.opened() as adapter:
            storage = adapter.storage
            seen = storage.stores.put(*STOCK, FULL)
            takes = [self.change(seen, EMPTY, result=f'"item for {x}"') for x in "ab"]

            results = [
                self.done(storage, self.begun(storage, name), take)
                for name, take in zip("ab", takes, strict=True)
            ]

            assert results == [[("c", True, "item for a")], []]
            assert self.store_of(storage).version == 1

    def test_a_state_that_cannot_be_stored_is_the_change_s_failure(self) -> None:
        """Spec S2, V2; case 166: an entry says so; state, version and waiters are as before."""
        with self.opened() as adapter:
            storage = adapter.storage
            seen = storage.stores.put(*STOCK, FULL)
            self.suspended(storage, self.begun(storage, "w"), self.watch(seen, LEFT))
            delivery = self.begun(storage, "a")
            large = '"' + "x" * storage.max_value + '"'

            told = self.done(
                storage,
                delivery,
                self.change(seen, large),
                OpenStore("o", self.now, "stock", "new", large),
                OpenStore("o2", self.now, "a/b", "new", "1"),
            )

            assert [ok for _, ok, _ in told] == [False, False, False]
            assert storage.stores.find() == [seen]
            assert self.due(storage) == []

    def test_a_dead_delivery_changes_no_store(self) -> None:
        """Spec L2; cases 71, 74: refused as a whole; nobody is woken by it."""
        with self.opened() as adapter:
            storage = adapter.storage
            seen = storage.stores.put(*STOCK, FULL)
            self.suspended(storage, self.begun(storage, "w"), self.watch(seen, LEFT))
            delivery = self.begun(storage, "a")
            storage.executions.release(delivery)
            again = self.claimed(storage, "a")

            with pytest.raises(StaleDelivery):
                storage.deliveries.record(delivery, Round(actions=(self.change(seen, EMPTY),)))

            assert self.store_of(storage) == seen
            assert self.due(storage) == []
            assert storage.reader.history(again.number, 1) == []

    def test_a_look_reads_the_stores_it_asks_for(self) -> None:
        """Spec S4: as they are now; None where there is none."""
        with self.opened() as adapter:
            storage = adapter.storage
            stands = storage.stores.put(*STOCK, FULL)
            delivery = self.begun(storage, "a")
            absent, never = ("stock", "other"), ("a/b", "")

            look = storage.deliveries.look(delivery, queues={}, stores=[STOCK, absent, never])

            assert look.stores == {STOCK: stands, absent: None, never: None}
