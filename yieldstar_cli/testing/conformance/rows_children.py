"""Rows about children: started, awaited, and what becomes of them (spec C2-C5)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from yieldstar_cli.errors import StaleDelivery
from yieldstar_cli.model import (
    CancelledOutcome,
    Completed,
    Failed,
    Outcome,
    Round,
    Status,
    Suspended,
)
from yieldstar_cli.testing.conformance.rooms import RoomRows

ENDS: tuple[Outcome, ...] = (
    Completed('{"receipt":"r-1"}'),
    Failed('{"name":"CardDeclined","message":"no funds"}'),
    CancelledOutcome("too late"),
)


class ChildRows(RoomRows):
    """Rows about children and awaited executions."""

    def test_a_child_is_admitted_by_the_commit_that_records_its_start(self) -> None:
        """Spec C3; case 196: both are there after a crash, and the child is due."""
        with self.opened() as adapter:
            parent = self.begun(adapter.storage, "p")

            recorded = adapter.storage.deliveries.record(
                parent, Round(entries=(self.entry(0),), actions=(self.start("p/c"),))
            )
            adapter.crash()

            storage = adapter.storage
            (entry,) = recorded.entries
            assert (entry.position, entry.kind, entry.step_key) == (1, "start", "p/c")
            assert (entry.ok, entry.value) == (True, '"order"')
            assert storage.reader.history(parent.number, 1) == [self.entry(0), entry]
            record = self.record_of(storage, "p/c")
            assert (record.status, record.parent_execution_id) == (Status.ADMITTED, "p")
            found = storage.family.children(parent.number)
            assert [child.execution_id for child in found] == ["p/c"]
            assert self.due(storage) == ["p/c"]

    def test_a_dead_delivery_starts_no_child(self) -> None:
        """Spec L2; case 73: refused as a whole, and the next delivery may start it."""
        with self.opened() as adapter:
            storage = adapter.storage
            parent = self.begun(storage, "p")
            storage.executions.release(parent)
            again = self.claimed(storage, "p")
            starts = Round(actions=(self.start("p/c"),))

            with pytest.raises(StaleDelivery):
                storage.deliveries.record(parent, starts)

            assert storage.executions.get("p/c") is None
            assert storage.reader.history(parent.number, 1) == []
            (entry,) = storage.deliveries.record(again, starts).entries
            assert (entry.kind, entry.ok) == ("start", True)

    def test_a_start_by_an_execution_that_has_ended_makes_no_child(self) -> None:
        """Spec E10, C3: its delivery is told the outcome and changes nothing."""
        with self.opened() as adapter:
            storage = adapter.storage
            parent = self.begun(storage, "p")
            self.ended(storage, parent, Completed("1"))

            recorded = storage.deliveries.record(parent, Round(actions=(self.start("p/c"),)))

            assert (recorded.outcome, recorded.entries) == (Completed("1"), ())
            assert storage.executions.get("p/c") is None

    def test_one_s_own_earlier_child_is_that_child_and_any_other_id_is_refused(self) -> None:
        """Spec C3; cases 196, 212: never a second one; a refusal is recorded, no record changed."""
        with self.opened() as adapter:
            storage = adapter.storage
            self.begun(storage, "taken")
            before = storage.executions.get("taken")
            parent = self.begun(storage, "p")
            first = self.start("c")

            recorded = storage.deliveries.record(
                parent,
                Round(
                    actions=(
                        first,
                        replace(first, step_key="again"),
                        replace(first, step_key="differs", params='{"n":2}'),
                        replace(first, step_key="taken", execution_id="taken"),
                    )
                ),
            )

            assert [entry.step_key for entry in recorded.entries] == [
                *("c", "again", "differs", "taken")
            ]
            assert [entry.ok for entry in recorded.entries] == [*(True, True, False, False)]
            assert storage.executions.get("taken") == before
            assert self.record_of(storage, "c").params_json == first.params
            assert len(storage.family.children(parent.number)) == 1

    def test_messages_sent_ahead_wait_for_the_child(self) -> None:
        """Spec M1, C3: a child's admission is one like any other."""
        with self.opened() as adapter:
            storage = adapter.storage
            storage.inbox.send("p/c", "approval", "1", ttl_ms=1_000)
            parent = self.begun(storage, "p")

            storage.deliveries.record(parent, Round(actions=(self.start("p/c"),)))

            assert [m.state for m in storage.inbox.messages("p/c")] == ["waiting"]

    def test_the_end_of_a_child_wakes_its_parent(self) -> None:
        """Spec C2; case 199: by the same commit; the outcome is read from its record."""
        with self.opened() as adapter:
            storage = adapter.storage
            for number, outcome in enumerate(ENDS):
                name = f"p{number}"
                parent = self.begun(storage, name)
                storage.deliveries.record(parent, Round(actions=(self.start(f"{name}/c"),)))
                self.suspended(storage, parent, self.child(f"{name}/c"))
                child = self.claimed(storage, f"{name}/c")
                assert self.due(storage) == []

                self.clock.advance(5)
                self.ended(storage, child, outcome)

                parent = self.claimed(storage, name)
                (end,) = self.looked(storage, parent).ended
                assert (end.step_key, end.execution_id) == (f"{name}/c", f"{name}/c")
                assert (end.at, end.outcome) == (self.now, outcome)
                self.ended(storage, parent)

    def test_a_child_s_own_suspension_wakes_nobody(self) -> None:
        """Spec C2: only the terminal commit does."""
        with self.opened() as adapter:
            storage = adapter.storage
            child = self.begun(storage, "c")
            self.suspended(storage, self.begun(storage, "p"), self.child("c"))

            storage.deliveries.record(child, Round(entries=(self.entry(0),)))
            storage.deliveries.record(child, Round(outcome=Suspended()))

            assert self.due(storage) == []

    def test_no_suspension_passes_over_a_child_that_has_ended(self) -> None:
        """Spec R10, C2: it ended before the wait was written; or there is none of that ID."""
        with self.opened() as adapter:
            storage = adapter.storage
            ends: list[tuple[str, Outcome | None]] = [("c", Completed("7")), ("nobody", None)]
            self.ended(storage, self.begun(storage, "c"), Completed("7"))
            for number, (target, outcome) in enumerate(ends):
                waiter = self.begun(storage, f"w{number}")

                recorded = self.suspended(storage, waiter, self.child(target))

                assert recorded.ready
                assert self.record_of(storage, f"w{number}").delivery is not None
                (end,) = self.looked(storage, waiter).ended
                assert (end.execution_id, end.outcome) == (target, outcome)

    def test_whoever_awaits_an_execution_is_woken_by_its_end(self) -> None:
        """Spec C5, C2: parent or not; an open delivery is told to look, and none is forgotten."""
        with self.opened() as adapter:
            storage = adapter.storage
            target = self.begun(storage, "t")
            for name in ("w1", "w2"):
                self.suspended(storage, self.begun(storage, name), self.child("t"))
            running = self.begun(storage, "w3")
            storage.deliveries.record(running, Round(waits=(self.child("t"),)))
            before = storage.deliveries.nudged(self.worker)

            self.ended(storage, target, Completed("7"))

            assert before == []
            assert [number for number, _ in storage.deliveries.nudged(self.worker)] == [
                running.number
            ]
            assert self.looked(storage, running).ended[0].outcome == Completed("7")
            assert sorted(self.due(storage)) == ["w1", "w2"]

    def test_a_wait_that_was_given_up_wakes_nobody(self) -> None:
        """Spec C1, O3: dropping a wait leaves nothing behind, and never touches the child."""
        with self.opened() as adapter:
            storage = adapter.storage
            child = self.begun(storage, "c")
            parent = self.begun(storage, "p")
            storage.deliveries.record(parent, Round(waits=(self.child("c"),)))
            storage.deliveries.record(parent, Round(unwait=(("child", "c"),), outcome=Suspended()))

            self.ended(storage, child, Completed("7"))

            assert self.due(storage) == []
            assert self.record_of(storage, "c").outcome == Completed("7")

    def test_a_result_can_be_awaited_again(self) -> None:
        """Spec C1: the record has it, whatever was awaited before."""
        with self.opened() as adapter:
            storage = adapter.storage
            self.ended(storage, self.begun(storage, "c"), Completed("7"))
            parent = self.begun(storage, "p")

            for position in range(3):
                assert self.suspended(storage, parent, self.child("c")).ready
                (end,) = self.looked(storage, parent).ended
                assert end.outcome == Completed("7")
                entry = self.entry(position, "child", end.step_key)
                storage.deliveries.record(
                    parent, Round(entries=(entry,), unwait=(("child", end.step_key),))
                )

    def test_the_end_of_a_parent_cancels_its_linked_children(self) -> None:
        """Spec C4; case 206: a request for those that began, the end for the others; in one."""
        with self.opened() as adapter:
            storage = adapter.storage
            for number, outcome in enumerate(ENDS):
                name = f"p{number}"
                parent = self.begun(storage, name)
                kinds = {"begun": False, "new": False, "free": True}
                starts = tuple(
                    self.start(f"{name}/{kind}", detached=detached)
                    for kind, detached in kinds.items()
                )
                storage.deliveries.record(parent, Round(actions=starts))
                self.suspended(storage, self.claimed(storage, f"{name}/begun"))

                self.ended(storage, parent, outcome)

                begun = self.record_of(storage, f"{name}/begun")
                assert begun.status == Status.SUSPENDED
                assert begun.cancel is not None
                assert not begun.cancel.told
                assert self.record_of(storage, f"{name}/new").status == Status.CANCELLED
                free = self.record_of(storage, f"{name}/free")
                assert (free.status, free.cancel, free.detached) == (Status.ADMITTED, None, True)
                assert sorted(self.due(storage)) == [f"{name}/begun", f"{name}/free"]

    def test_the_parent_goes_on_when_a_child_fails(self) -> None:
        """Spec C4: the end of a child is told to its parent and ends nothing else."""
        with self.opened() as adapter:
            storage = adapter.storage
            parent = self.begun(storage, "p")
            starts = (self.start("p/1"), self.start("p/2"))
            storage.deliveries.record(parent, Round(actions=starts))

            self.ended(storage, self.claimed(storage, "p/1"), ENDS[1])

            assert self.record_of(storage, "p").outcome is None
            other = self.record_of(storage, "p/2")
            assert (other.status, other.cancel) == (Status.ADMITTED, None)
