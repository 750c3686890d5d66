"""Rows about effects of the outside world: who may try one, and which result stands (F1)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from yieldstar_cli.errors import StaleDelivery
from yieldstar_cli.model import (
    Action,
    Delivery,
    EffectRecord,
    HoldEffect,
    LetGoEffect,
    Recorded,
    Round,
    SettleEffect,
)
from yieldstar_cli.storage.contract import Storage
from yieldstar_cli.testing.conformance.rooms import RoomRows

#: The effect of most rows, and what it is of.
EFFECT = "pay-1"
INPUT = '{"cents":500,"card":"c-1"}'


class EffectRows(RoomRows):
    """Rows about effects."""

    # --- words -------------------------------------------------------------------------------

    def hold(
        self, effect_id: str = EFFECT, *, operation: str = "charge", given: str = INPUT
    ) -> HoldEffect:
        """Ask for the right to try it."""
        return HoldEffect("charge", self.now, effect_id, operation, given)

    def settle(self, result: str = '"r-1"', effect_id: str = EFFECT) -> SettleEffect:
        """It was done, with this result."""
        return SettleEffect("charge", self.now, effect_id, result, started_at=self.now, attempt=2)

    def let_go(self, effect_id: str = EFFECT) -> LetGoEffect:
        """The right goes back, unsettled."""
        return LetGoEffect("charge", self.now, effect_id)

    def did(self, storage: Storage, delivery: Delivery, *actions: Action) -> Recorded:
        """A round of the delivery that does this."""
        return storage.deliveries.record(delivery, Round(actions=actions))

    def stands(self, storage: Storage, delivery: Delivery, effect_id: str = EFFECT) -> str:
        """How the effect stands for who asks for it: the answer of its hold."""
        recorded = self.did(storage, delivery, self.hold(effect_id))
        (held,) = recorded.holds
        assert (held.step_key, recorded.entries) == ("charge", ())
        return held.state

    def effect_of(self, storage: Storage, effect_id: str = EFFECT) -> EffectRecord:
        """The effect, which must be there."""
        record = storage.effects.get(effect_id)
        assert record is not None, "there is no such effect"
        return record

    # --- who may try it ----------------------------------------------------------------------

    def test_an_effect_is_begun_held_and_settled_once(self) -> None:
        """Spec F1; case 351: certain at first, its own after that; its entry is the result."""
        with self.opened() as adapter:
            storage = adapter.storage
            assert storage.effects.get(EFFECT) is None
            delivery = self.begun(storage, "a")

            assert self.stands(storage, delivery) == "certain"
            begun = self.effect_of(storage)
            assert self.stands(storage, delivery) == "still"
            recorded = self.did(storage, delivery, self.settle('{"receipt":1}'))

            assert (begun.operation, begun.input, begun.status) == ("charge", INPUT, "pending")
            assert (begun.begun_by, begun.holder, begun.result) == ("a", "a", None)
            (entry,) = recorded.entries
            assert (entry.kind, entry.step_key, entry.label) == ("effect", "charge", EFFECT)
            assert (entry.ok, entry.value, entry.attempt) == (True, '{"receipt":1}', 2)
            assert storage.reader.history(delivery.number, 1) == [entry]
            settled = self.effect_of(storage)
            assert (settled.status, settled.result) == ("settled", '{"receipt":1}')
            assert (settled.settled_by, settled.holder, settled.reports) == ("a", None, ())

    def test_one_at_a_time_may_try_it(self) -> None:
        """Spec F1: a second execution waits while the first has the right."""
        with self.opened() as adapter:
            storage = adapter.storage
            first, second = self.begun(storage, "a"), self.begun(storage, "b")

            assert self.stands(storage, first) == "certain"
            assert self.stands(storage, second) == "busy"

            assert self.effect_of(storage).holder == "a"
            assert storage.reader.history(second.number, 1) == []

    def test_what_was_begun_is_uncertain_for_whoever_is_next(self) -> None:
        """Spec F1; cases 352, 354, 355: let go, released, lost, cancelled: it is looked up."""
        with self.opened() as adapter:
            storage = adapter.storage
            self.worker = self.another_worker(storage)
            ends: dict[str, Callable[[Delivery], object]] = {
                "let-go": lambda delivery: self.did(storage, delivery, self.let_go("let-go")),
                "released": storage.executions.release,
                "ended": lambda delivery: self.ended(storage, delivery),
                "suspended": lambda delivery: self.suspended(storage, delivery),
                "cancelled": lambda _: storage.steering.cancel("cancelled", now=True),
                "lost": lambda _: storage.workers.bury(self.worker, "died", {}, max_deaths=5),
            }
            for how, end in ends.items():
                delivery = self.begun(storage, how)
                assert self.stands(storage, delivery, how) == "certain"
                end(delivery)

            self.worker = self.another_worker(storage)
            for how in ends:
                assert self.effect_of(storage, how).holder is None, how
                delivery = self.begun(storage, f"after-{how}")
                assert self.stands(storage, delivery, how) == "uncertain", how

    def another_worker(self, storage: Storage) -> int:
        """A worker beside the one of the row."""
        return storage.workers.register(
            name=f"another beside {self.worker}",
            host="here",
            pid=2,
            slot=2,
            nonce=b"other",
            boot_id="boot",
            device=1,
            inode=1,
            lease_until_at=self.now + 10**9,
        )

    def test_a_dead_delivery_does_nothing_to_an_effect(self) -> None:
        """Spec F1, L2; case 355: neither holds it nor settles it nor lets it go."""
        with self.opened() as adapter:
            storage = adapter.storage
            dead = self.begun(storage, "a")
            storage.executions.release(dead)
            live = self.claimed(storage, "a")
            assert self.stands(storage, live) == "certain"
            before = self.effect_of(storage)

            for action in (self.hold("pay-2"), self.settle(), self.let_go()):
                with pytest.raises(StaleDelivery):
                    self.did(storage, dead, action)

            assert storage.effects.get("pay-2") is None
            assert self.effect_of(storage) == before

    # --- what stands -------------------------------------------------------------------------

    def test_a_settled_effect_answers_every_execution(self) -> None:
        """Spec F1; case 353: the same operation and input give the stored result."""
        with self.opened() as adapter:
            storage = adapter.storage
            first = self.begun(storage, "a")
            self.did(storage, first, self.hold())
            self.did(storage, first, self.settle())
            self.ended(storage, first)
            reordered = '{"card": "c-1", "cents": 500}'

            for name, given in (("b", INPUT), ("c", reordered)):
                delivery = self.begun(storage, name)
                recorded = self.did(storage, delivery, self.hold(given=given))

                (entry,) = recorded.entries
                assert (entry.ok, entry.value, recorded.holds) == (True, '"r-1"', ()), name
            assert self.effect_of(storage).reports == ()

    def test_another_operation_or_input_is_refused_and_kept(self) -> None:
        """Spec F1; case 356: EFFECT_MISMATCH, pending or settled; it changes nothing."""
        with self.opened() as adapter:
            storage = adapter.storage
            first, second = self.begun(storage, "a"), self.begun(storage, "b")
            self.did(storage, first, self.hold())
            other = '{"cents":501,"card":"c-1"}'

            for settled in (False, True):
                if settled:
                    self.did(storage, first, self.settle())
                for action in (self.hold(operation="refund"), self.hold(given=other)):
                    recorded = self.did(storage, second, action)
                    (entry,) = recorded.entries
                    assert (entry.ok, recorded.holds) == (False, ())
                    assert "EFFECT_MISMATCH" in entry.value

            record = self.effect_of(storage)
            assert (record.operation, record.input, record.result) == ("charge", INPUT, '"r-1"')
            found = {(r.kind, r.execution_id, r.operation, r.input) for r in record.reports}
            assert found == {
                ("mismatch", "b", "refund", INPUT),
                ("mismatch", "b", "charge", other),
            }
            assert record.disputed

    def test_the_first_result_stands_and_another_is_kept_beside_it(self) -> None:
        """Spec F1; case 357: equal results are one; of different ones both are there."""
        with self.opened() as adapter:
            storage = adapter.storage
            first, second = self.begun(storage, "a"), self.begun(storage, "b")
            self.did(storage, first, self.hold())
            self.did(storage, first, self.settle('{"a":1,"b":2}'))

            same = self.did(storage, second, self.settle('{"b":2,"a":1}'))
            agreed = self.effect_of(storage)
            other = self.did(storage, second, self.settle('"r-2"'))

            assert [each.value for each in (*same.entries, *other.entries)] == [
                '{"a":1,"b":2}',
                '{"a":1,"b":2}',
            ]
            assert (agreed.reports, agreed.disputed) == ((), False)
            record = self.effect_of(storage)
            assert (record.result, record.settled_by) == ('{"a":1,"b":2}', "a")
            (report,) = record.reports
            assert (report.kind, report.execution_id, report.result) == ("conflict", "b", '"r-2"')

    def test_a_late_result_changes_nothing_and_is_kept(self) -> None:
        """Spec F1; case 357: of a delivery that was over; a dispute only where it differs."""
        with self.opened() as adapter:
            storage = adapter.storage
            first = self.begun(storage, "a")
            self.did(storage, first, self.hold())

            storage.effects.late(EFFECT, "a", '"r-1"')
            pending = self.effect_of(storage)
            self.did(storage, first, self.settle())
            agreed = self.effect_of(storage)
            storage.effects.late(EFFECT, "a", '"r-2"')
            storage.effects.late("nobody's", "a", '"r-2"')
            storage.effects.late(EFFECT, "nobody", '"r-3"')

            assert (pending.status, pending.result, pending.holder) == ("pending", None, "a")
            assert not agreed.disputed
            record = self.effect_of(storage)
            assert (record.result, record.disputed) == ('"r-1"', True)
            assert [(r.kind, r.result) for r in record.reports] == [
                ("late", '"r-1"'),
                ("late", '"r-2"'),
            ]
            assert storage.effects.get("nobody's") is None

    def test_effects_are_found_the_latest_first(self) -> None:
        """Spec F1: all, or those that something did not agree with; so many at most."""
        with self.opened() as adapter:
            storage = adapter.storage
            delivery = self.begun(storage, "a")
            for number in range(4):
                self.did(storage, delivery, self.hold(f"pay-{number}"))
            for number in (0, 2):
                self.did(storage, delivery, self.hold(f"pay-{number}", operation="refund"))

            def found(**words: object) -> list[str]:
                return [each.effect_id for each in storage.effects.find(**words)]  # type: ignore[arg-type]

            assert found() == ["pay-3", "pay-2", "pay-1", "pay-0"]
            assert found(limit=2) == ["pay-3", "pay-2"]
            assert found(disputed=True) == ["pay-2", "pay-0"]
            assert found(disputed=True, limit=1) == ["pay-2"]

    def test_an_error_shaped_result_is_a_result(self) -> None:
        """Spec F1; case 360: what looks like an error comes back as the plain data it was."""
        with self.opened() as adapter:
            storage = adapter.storage
            first, second = self.begun(storage, "a"), self.begun(storage, "b")
            shaped = '{"name":"EffectMismatch","code":"EFFECT_MISMATCH","message":"no"}'
            self.did(storage, first, self.hold())

            (mine,) = self.did(storage, first, self.settle(shaped)).entries
            (other,) = self.did(storage, second, self.hold()).entries

            assert (mine.ok, mine.value) == (other.ok, other.value) == (True, shaped)
