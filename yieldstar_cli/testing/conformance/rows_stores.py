"""Rows about stores: versions, changes by deliveries, and whom a write wakes (spec S1-S5)."""

from __future__ import annotations

import json

import msgspec
import pytest

from yieldstar_cli.digests import digest_at
from yieldstar_cli.errors import InvalidStore, StaleDelivery, StoreConflict
from yieldstar_cli.model import (
    ChangeStore,
    Completed,
    Continued,
    Delivery,
    Kind,
    OpenStore,
    Outcome,
    Path,
    Reading,
    Round,
    StoreRecord,
    Suspended,
    Wait,
)
from yieldstar_cli.storage.contract import Storage
from yieldstar_cli.testing.conformance.rooms import RoomRows

#: The store of most rows.
STOCK = ("stock", "main")
FULL = '{"left":3,"notes":["a"]}'
EMPTY = '{"left":0,"notes":["a"]}'
LEFT: Path = ("left",)


class Undone(Exception):
    """Raised by a row inside a transaction, which is undone by it."""


class StoreRows(RoomRows):
    """Rows about stores."""

    def store_of(self, storage: Storage) -> StoreRecord:
        """The store `STOCK`, which must be there."""
        record = storage.stores.get(*STOCK)
        assert record is not None, "there is no such store"
        return record

    def watch(
        self, seen: StoreRecord | None, *paths: Path, step_key: str = "stock", position: int = 0
    ) -> Wait:
        """The wait of who has read these places of `STOCK` in vain."""
        state = None if seen is None else msgspec.json.decode(seen.state)
        return Wait(
            *(Kind.STORE_WHEN, step_key, "stock main", self.now, None, "waiting"),
            position=position,
            store=STOCK,
            read=() if seen is None else tuple(Reading(p, digest_at(state, p)) for p in paths),
            instance=None if seen is None else seen.instance,
        )

    def change(
        self,
        seen: StoreRecord,
        state: str | None,
        *,
        step_key: str = "c",
        fails: bool = False,
        result: str | None = None,
    ) -> ChangeStore:
        """The change of a store to `state`, computed from what was seen of it; None deletes."""
        kind = Kind.STORE_DELETE if state is None else Kind.STORE_UPDATE
        return ChangeStore(
            *(step_key, self.now, kind, seen.name, seen.store_id),
            *(seen.instance, seen.version, state),
            fails=fails,
            result=result,
        )

    def opening(self, initial: str | None, step_key: str = "o") -> OpenStore:
        """`STOCK` is opened."""
        return OpenStore(step_key, self.now, *STOCK, initial)

    def done(
        self, storage: Storage, delivery: Delivery, *actions: OpenStore | ChangeStore
    ) -> list[tuple[str, bool, object]]:
        """Key, success and value of what became of these actions."""
        recorded = storage.deliveries.record(delivery, Round(actions=actions))
        return [(e.step_key, e.ok, json.loads(e.value)) for e in recorded.entries]

    def ends(self) -> dict[str, Outcome]:
        """The ways in which an incarnation ends, by name."""
        return {"completed": Completed("1"), "continued": Continued("2", 1)}

    # --- from outside ------------------------------------------------------------------------

    def test_a_store_made_again_is_another_at_version_0(self) -> None:
        """Spec S2; cases 162, 163: versions rise by one, also where the state stays."""
        with self.opened() as adapter:
            storage = adapter.storage
            assert storage.stores.get(*STOCK) is None
            assert storage.stores.delete(*STOCK) is False
            first = [storage.stores.put(*STOCK, FULL) for _ in range(3)]
            self.clock.advance(5)
            last = storage.stores.put(*STOCK, EMPTY)

            assert [each.version for each in (*first, last)] == [0, 1, 2, 3]
            assert {each.instance for each in first} == {last.instance}
            assert self.store_of(storage) == last
            assert (last.created_at, last.updated_at) == (self.now - 5, self.now)
            assert last.state == EMPTY

            assert storage.stores.delete(*STOCK) is True
            assert storage.stores.delete(*STOCK) is False
            assert storage.stores.get(*STOCK) is None
            again = storage.stores.put(*STOCK, FULL)
            assert again.version == 0
            assert again.instance != last.instance

    def test_stores_are_listed_by_name_and_id(self) -> None:
        """Spec S1; case 162: in one order whenever they were made; each once, page by page."""
        with self.opened() as adapter:
            storage = adapter.storage
            for name, store_id in (("b", "1"), ("a", "2"), ("b", "0"), ("a", "10")):
                storage.stores.put(name, store_id, "1")

            found = [(each.name, each.store_id) for each in storage.stores.find()]

            assert found == [("a", "10"), ("a", "2"), ("b", "0"), ("b", "1")]
            assert [each.store_id for each in storage.stores.find(name="b")] == ["0", "1"]
            pages = [storage.stores.find(limit=2, offset=at) for at in (0, 2, 4)]
            assert [[each.name for each in page] for page in pages] == [["a", "a"], ["b", "b"], []]

    def test_a_write_at_another_version_is_refused_with_the_actual_one(self) -> None:
        """Spec S2; case 176: nothing is changed; -1 asks for a store that is not there."""
        with self.opened() as adapter:
            storage = adapter.storage
            old = storage.stores.put(*STOCK, FULL, version=-1)
            storage.stores.delete(*STOCK, version=0)
            storage.stores.put(*STOCK, FULL)
            stands = storage.stores.put(*STOCK, EMPTY, version=0)

            for version, instance in ((0, None), (2, None), (-1, None), (1, old.instance)):
                with pytest.raises(StoreConflict) as refused:
                    storage.stores.put(*STOCK, FULL, version=version, instance=instance)
                assert refused.value.actual == 1
            with pytest.raises(StoreConflict) as refused:
                storage.stores.delete(*STOCK, version=0)
            assert refused.value.actual == 1
            with pytest.raises(StoreConflict) as missing:
                storage.stores.put("stock", "other", FULL, version=0)
            assert missing.value.actual is None
            assert storage.stores.find() == [stands]

    def test_what_cannot_be_a_store_is_refused_and_changes_nothing(self) -> None:
        """Spec S2, V1, V3; cases 166, 193: a name, an ID, a state beyond the limit."""
        with self.opened() as adapter:
            storage = adapter.storage
            fits = '"' + "x" * (storage.max_value - 2) + '"'
            stands = storage.stores.put("n" * 100, "i" * 255, fits)
            for name, store_id, state in (
                ("", "main", "1"),
                ("a/b", "main", "1"),
                ("n" * 101, "main", "1"),
                ("stock", "", "1"),
                ("stock", "i" * 256, "1"),
                ("stock", "main", '"\ud83d"'),
                (stands.name, stands.store_id, f"{fits} "),
            ):
                with pytest.raises(InvalidStore):
                    storage.stores.put(name, store_id, state)

            assert storage.stores.find() == [stands]
            assert storage.stores.get("a/b", "main") is None
            assert storage.stores.delete("a/b", "") is False

    # --- by a delivery -----------------------------------------------------------------------

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
            assert (missing[2]["code"], missing[2]["version"]) == ("STORE_CHANGED", None)
            for _, ok, value in late:
                assert isinstance(value, dict)
                assert (ok, value["code"], value["version"]) == (False, "STORE_CHANGED", 0)
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
        """Spec L2; case 74: refused as a whole; nobody is woken by it."""
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
