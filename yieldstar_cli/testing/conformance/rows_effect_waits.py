"""Rows about waits for effects that another execution tries: who is told, and when (F1)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from yieldstar_cli.model import Completed, Delivery, Kind, Round, Wait
from yieldstar_cli.storage.contract import Storage
from yieldstar_cli.testing.conformance.rows_effects import EFFECT, EffectRows


class Undone(Exception):
    """Raised by a row inside a transaction, which is undone by it."""


class EffectWaitRows(EffectRows):
    """Rows about waits for effects."""

    def awaiting(self, effect_id: str = EFFECT) -> Wait:
        """The wait of who found that another tries it."""
        return Wait(
            *(Kind.EFFECT, "charge", effect_id, self.now, None, "waiting"), effect=effect_id
        )

    def waits_for(self, storage: Storage, execution_id: str, effect_id: str = EFFECT) -> None:
        """An execution that has suspended until the effect is free, or settled."""
        delivery = self.begun(storage, execution_id)
        recorded = self.suspended(storage, delivery, self.awaiting(effect_id))
        assert recorded.outcome is not None, "nobody tries it"

    def test_whatever_frees_or_settles_it_wakes_who_waits_for_it(self) -> None:
        """Spec F1; case 358: in the same transaction; who waits for another one sleeps on."""
        with self.opened() as adapter:
            storage = adapter.storage
            ends: dict[str, Callable[[Delivery], object]] = {
                "settled": lambda delivery: self.did(
                    storage, delivery, self.settle(effect_id="settled")
                ),
                "let-go": lambda delivery: self.did(storage, delivery, self.let_go("let-go")),
                "held": lambda delivery: storage.executions.release(
                    delivery, held=True, problem=("CODE", "why")
                ),
                "cancelled": lambda _: storage.steering.cancel("cancelled", now=True),
            }
            deliveries = {}
            for how in ends:
                deliveries[how] = self.begun(storage, how)
                self.stands(storage, deliveries[how], how)
                for name in ("v", "w"):
                    self.waits_for(storage, f"{name}-{how}", how)
            assert self.due(storage) == []

            for how, end in ends.items():
                end(deliveries[how])

                assert sorted(self.due(storage)) == [f"v-{how}", f"w-{how}"]

    def test_the_death_of_a_worker_wakes_who_waits_for_what_it_tried(self) -> None:
        """Spec F1, L3; cases 355, 358: its execution and the other one are due."""
        with self.opened() as adapter:
            storage, mine = adapter.storage, self.worker
            self.worker = self.another_worker(storage)
            self.stands(storage, self.begun(storage, "a"))
            dead, self.worker = self.worker, mine
            self.waits_for(storage, "w")

            storage.workers.bury(dead, "died", {}, max_deaths=5)

            assert sorted(self.due(storage)) == ["a", "w"]

    def test_who_waits_too_late_is_ready_at_once(self) -> None:
        """Spec F1, R10; case 358: registered after the settlement, or the release, it missed."""
        with self.opened() as adapter:
            storage = adapter.storage
            first, second = self.begun(storage, "a"), self.begun(storage, "b")
            self.did(storage, first, self.hold())
            assert self.stands(storage, second) == "busy"
            self.did(storage, first, self.let_go())

            freed = self.suspended(storage, second, self.awaiting())
            assert self.stands(storage, second) == "uncertain"
            assert self.stands(storage, first) == "busy"
            self.did(storage, second, self.settle())
            settled = self.suspended(storage, first, self.awaiting())

            assert [(each.outcome, each.ready) for each in (freed, settled)] == [(None, True)] * 2

    def test_a_settlement_is_told_to_the_worker_of_an_open_delivery(self) -> None:
        """Spec F1, R10: it looks again."""
        with self.opened() as adapter:
            storage = adapter.storage
            first, second = self.begun(storage, "a"), self.begun(storage, "b")
            self.did(storage, first, self.hold())
            storage.deliveries.record(second, Round(waits=(self.awaiting(),)))
            before = storage.deliveries.nudged(self.worker)

            self.did(storage, first, self.settle())

            assert before == []
            assert [number for number, _ in storage.deliveries.nudged(self.worker)] == [
                second.number
            ]

    def test_a_settlement_its_entry_and_its_wakes_are_there_together_or_not_at_all(self) -> None:
        """Spec F1; cases 355, 358: a commit that was cut off leaves it pending and uncertain."""
        with self.opened() as adapter:
            storage = adapter.storage
            delivery = self.begun(storage, "a")
            self.did(storage, delivery, self.hold())
            self.waits_for(storage, "w")
            changes = Round(actions=(self.settle(),), outcome=Completed())

            with suppress(Undone), storage.atomic():
                storage.deliveries.record(delivery, changes)
                raise Undone
            adapter.crash()

            storage = adapter.storage
            assert (self.effect_of(storage).status, self.due(storage)) == ("pending", [])
            assert storage.reader.history(delivery.number, 1) == []
            storage.deliveries.record(delivery, changes)
            adapter.crash()

            storage = adapter.storage
            assert self.effect_of(storage).result == '"r-1"'
            assert len(storage.reader.history(delivery.number, 1)) == 1
            assert self.due(storage) == ["w"]
