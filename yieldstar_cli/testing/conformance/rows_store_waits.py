"""Rows about waits for the states of stores: who is woken by a write, and who is not (S3, S4)."""

from __future__ import annotations

from contextlib import suppress

from yieldstar_cli.model import Round, StoreRecord
from yieldstar_cli.storage.contract import Storage
from yieldstar_cli.testing.conformance.rows_stores import (
    EMPTY,
    FULL,
    LEFT,
    STOCK,
    StoreRows,
)


class Undone(Exception):
    """Raised by a row inside a transaction, which is undone by it."""


class StoreWaitRows(StoreRows):
    """Rows about waits for states."""

    def waiting(self, storage: Storage, execution_id: str, seen: StoreRecord | None) -> None:
        """An execution that has read `left` of what was seen, and suspended."""
        delivery = self.begun(storage, execution_id)
        recorded = self.suspended(storage, delivery, self.watch(seen, LEFT))
        assert recorded.outcome is not None, "there was something to look at"

    def test_a_write_wakes_who_read_otherwise_and_nobody_else(self) -> None:
        """Spec S4; cases 181, 182, 189: by value at the paths read, whoever writes."""
        with self.opened() as adapter:
            storage = adapter.storage
            seen = storage.stores.put(*STOCK, FULL)
            paths = {
                "left": ("left",),
                "whole": (),
                "notes": ("notes",),
                "first": ("notes", 0),
                "second": ("notes", 1),
                "absent": ("more", "deep"),
            }
            for name, path in paths.items():
                delivery = self.begun(storage, name)
                self.suspended(storage, delivery, self.watch(seen, path))
            woken = []
            for state in (
                FULL,
                '{"left": 3, "notes": ["a"]}',
                '{"left":3,"notes":["a","b"]}',
                '{"left":2,"notes":["a","b"]}',
                '{"left":2,"notes":["z","b"],"more":{"deep":null}}',
            ):
                storage.stores.put(*STOCK, state)
                woken.append(set(self.due(storage)))

            assert woken == [
                set(),
                set(),
                {"whole", "notes", "second"},
                {"left"},
                {"first", "absent"},
            ]

    def test_a_store_that_is_made_wakes_who_found_none(self) -> None:
        """Spec S4: absent counts as a value; opening makes it like any other write."""
        with self.opened() as adapter:
            storage = adapter.storage
            self.waiting(storage, "w", None)
            assert self.due(storage) == []

            self.done(storage, self.begun(storage, "a"), self.opening(FULL))

            assert self.due(storage) == ["w"]

    def test_who_read_an_older_state_is_ready_at_once(self) -> None:
        """Spec S3, S4; cases 183, 184: registered after the write it would have missed."""
        with self.opened() as adapter:
            storage = adapter.storage
            none = None
            first = storage.stores.put(*STOCK, FULL)
            same = storage.stores.put(*STOCK, FULL)
            for name, seen, ready in (
                ("none", none, True),
                ("first", first, False),
                ("same", same, False),
            ):
                delivery = self.begun(storage, name)
                recorded = self.suspended(storage, delivery, self.watch(seen, LEFT))
                assert recorded.ready is ready, name
            other = storage.stores.put(*STOCK, EMPTY)
            assert sorted(self.due(storage)) == ["first", "same"]
            delivery = self.begun(storage, "late")

            recorded = self.suspended(storage, delivery, self.watch(first, LEFT))

            assert (recorded.outcome, recorded.ready) == (None, True)
            # What it has read by now takes the place of it, and is not ready.
            again = self.suspended(storage, delivery, self.watch(other, LEFT))
            assert (again.outcome is not None, again.ready) == (True, False)
            (wait,) = storage.reader.waits(delivery.number)
            assert (wait.read, wait.instance) == (self.watch(other, LEFT).read, other.instance)
            assert self.due(storage) == []

    def test_a_wait_put_again_hears_of_the_next_write(self) -> None:
        """Spec S4; case 187: the end of the delivery that an older wake brought takes none away."""
        with self.opened() as adapter:
            storage = adapter.storage
            self.waiting(storage, "w", storage.stores.put(*STOCK, FULL))
            seen = storage.stores.put(*STOCK, EMPTY)
            delivery = self.claimed(storage, "w")
            storage.deliveries.record(delivery, Round(waits=(self.watch(seen, LEFT),)))

            storage.stores.put(*STOCK, FULL)

            assert self.suspended(storage, delivery).ready
            assert storage.deliveries.nudged(self.worker) != []
            self.suspended(storage, delivery, self.watch(self.store_of(storage), LEFT))
            assert self.due(storage) == []
            storage.stores.put(*STOCK, EMPTY)
            assert self.due(storage) == ["w"]

    def test_a_write_is_told_to_the_worker_of_an_open_delivery(self) -> None:
        """Spec R10, S3: it looks again, and is not due once more for what it has seen."""
        with self.opened() as adapter:
            storage = adapter.storage
            seen = storage.stores.put(*STOCK, FULL)
            delivery = self.begun(storage, "a")
            storage.deliveries.record(delivery, Round(waits=(self.watch(seen, LEFT),)))
            storage.stores.put(*STOCK, FULL)
            before = storage.deliveries.nudged(self.worker)

            storage.stores.put(*STOCK, EMPTY)

            assert before == []
            ((number, _),) = storage.deliveries.nudged(self.worker)
            assert number == delivery.number
            ended = Round(unwait=(("store-when", "stock"),))
            storage.deliveries.record(delivery, ended)
            self.suspended(storage, delivery)
            assert self.due(storage) == []

    def test_a_delete_wakes_every_waiter_and_leaves_none(self) -> None:
        """Spec S3; case 180: those of the deleted store are not those of the next."""
        with self.opened() as adapter:
            storage = adapter.storage
            seen = storage.stores.put(*STOCK, FULL)
            for name in ("v", "w"):
                self.waiting(storage, name, seen)

            storage.stores.delete(*STOCK)

            assert sorted(self.due(storage)) == ["v", "w"]
            storage.stores.put(*STOCK, FULL)
            late = self.begun(storage, "late")
            assert self.suspended(storage, late, self.watch(seen, LEFT)).ready

    def test_an_execution_that_has_ended_is_in_nobody_s_way(self) -> None:
        """Spec S3, E10; case 185: the others are woken; the ended stays as it is."""
        with self.opened() as adapter:
            storage = adapter.storage
            seen = storage.stores.put(*STOCK, FULL)
            self.waiting(storage, "cancelled", seen)
            storage.steering.cancel("cancelled", now=True)
            ended = self.begun(storage, "ended")
            storage.deliveries.record(ended, Round(waits=(self.watch(seen, LEFT),)))
            self.ended(storage, ended)
            self.waiting(storage, "w", seen)
            stand = [self.record_of(storage, name) for name in ("cancelled", "ended")]

            storage.stores.put(*STOCK, EMPTY)

            assert self.due(storage) == ["w"]
            assert [self.record_of(storage, name) for name in ("cancelled", "ended")] == stand

    def test_who_goes_over_to_the_next_incarnation_waits_no_more(self) -> None:
        """Spec C7, S3: its waits are those of the incarnation that has ended."""
        with self.opened() as adapter:
            storage = adapter.storage
            seen = storage.stores.put(*STOCK, FULL)
            delivery = self.begun(storage, "a")
            storage.deliveries.record(delivery, Round(waits=(self.watch(seen, LEFT),)))
            storage.deliveries.record(delivery, Round(outcome=self.ends()["continued"]))
            self.suspended(storage, self.claimed(storage, "a"))

            storage.stores.put(*STOCK, EMPTY)

            assert self.due(storage) == []

    def test_a_store_commit_and_its_wakes_are_there_together_or_not_at_all(self) -> None:
        """RFC 001: a store commit and its wake requests are interrupted by a crash.

        Spec S3; case 186.
        """
        with self.opened() as adapter:
            storage = adapter.storage
            seen = storage.stores.put(*STOCK, FULL)
            for name in ("v", "w"):
                self.waiting(storage, name, seen)
            delivery = self.begun(storage, "a")
            changes = Round(actions=(self.change(seen, EMPTY),))

            with suppress(Undone), storage.atomic():
                storage.deliveries.record(delivery, changes)
                raise Undone
            adapter.crash()

            storage = adapter.storage
            assert self.store_of(storage) == seen
            assert storage.reader.history(delivery.number, 1) == []
            assert self.due(storage) == []
            storage.deliveries.record(delivery, changes)
            adapter.crash()

            storage = adapter.storage
            assert (self.store_of(storage).version, self.store_of(storage).state) == (1, EMPTY)
            assert len(storage.reader.history(delivery.number, 1)) == 1
            assert sorted(self.due(storage)) == ["v", "w"]
