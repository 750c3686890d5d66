"""Rows about stores as anybody writes and reads them, and the words of such rows (S1, S2)."""

from __future__ import annotations

import json

import msgspec
import pytest

from yieldstar_cli.digests import digest_at
from yieldstar_cli.errors import InvalidStore, StoreConflict
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
    Wait,
)
from yieldstar_cli.storage.contract import Storage
from yieldstar_cli.testing.conformance.rooms import RoomRows

#: The store of most rows.
STOCK = ("stock", "main")
FULL = '{"left":3,"notes":["a"]}'
EMPTY = '{"left":0,"notes":["a"]}'
LEFT: Path = ("left",)


class StoreRows(RoomRows):
    """Rows about stores from outside; those of the other groups say it with its words."""

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
