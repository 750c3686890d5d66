"""Random lives of stores and of who waits for them on SQLite, the same as a model of plain values.

The model is written from spec S1-S4 and R10, not from the adapter.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.storage.kit import admit, claim_one, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.digests import digest_at
from yieldstar_cli.errors import StoreConflict
from yieldstar_cli.model import ChangeStore, Delivery, OpenStore, Reading, Round, Suspended, Wait
from yieldstar_cli.model import Path as StatePath
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

START = 1_000_000
WAITERS = ("u", "v", "w")
STORES = (("stock", "a"), ("stock", "b"))
NOTHING = object()

NAMED = st.sampled_from(STORES)
STATES = st.fixed_dictionaries(
    {}, optional={"n": st.integers(0, 1), "list": st.lists(st.integers(0, 1), max_size=2)}
)
PATHS = st.lists(
    st.sampled_from([("n",), ("list",), ("list", 0), ("list", 1), ("list", 0, "x"), ()]),
    max_size=3,
    unique=True,
)


def stands_at(value: Any, path: StatePath) -> Any:
    """What stands at a place, NOTHING where nothing does."""
    for part in path:
        try:
            value = value[part]
        except (LookupError, TypeError):
            return NOTHING
    return value if type(value) is not dict else tuple(value.items())


@dataclass
class Seen:
    """A store at one version, as somebody has seen it; `state` NOTHING where there was none."""

    instance: str | None = None
    version: int = -1
    state: Any = NOTHING

    def differs(self, other: Seen, paths: list[StatePath]) -> bool:
        if self.instance != other.instance:
            return True
        return any(stands_at(self.state, p) != stands_at(other.state, p) for p in paths)


@dataclass
class Waiting:
    """One execution, and what it has read in vain of one store."""

    delivery: Delivery
    suspended: bool = False
    #: The stores it waits for, with what was seen there and where.
    reads: dict[tuple[str, str], tuple[Seen, list[StatePath]]] = field(default_factory=dict)
    ready: set[tuple[str, str]] = field(default_factory=set)


class Stores(RuleBasedStateMachine):
    """Writes from outside and by one execution, seen by three that wait."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock = ManualClock(START)
        self.storage = SqliteStorage(
            self.folder / "ys.db", create=True, clock=self.clock, durability="normal"
        )
        self.worker = new_worker(self.storage, START + 10**9)
        for name in (*WAITERS, "writer"):
            admit(self.storage, name)
        self.writer = claim_one(self.storage, START, self.worker, only="writer")
        self.waiting = {
            name: Waiting(claim_one(self.storage, START, self.worker, only=name))
            for name in WAITERS
        }
        self.now: dict[tuple[str, str], Seen] = {store: Seen() for store in STORES}
        self.before: dict[tuple[str, str], list[Seen]] = {store: [Seen()] for store in STORES}
        self.entries = 0

    def teardown(self) -> None:
        self.storage.close()
        shutil.rmtree(self.folder)

    # --- writes ------------------------------------------------------------------------------

    def written(self, store: tuple[str, str], seen: Seen) -> None:
        self.now[store] = seen
        self.before[store].append(seen)
        for each in self.waiting.values():
            if store in each.reads:
                read, paths = each.reads[store]
                if seen.differs(read, paths):
                    each.ready.add(store)

    def after_write(self, store: tuple[str, str], state: Any) -> None:
        found = self.storage.stores.get(*store)
        assert found is not None
        stood = self.now[store]
        if stood.instance is None:
            assert found.version == 0
            assert found.instance not in {seen.instance for seen in self.before[store]}
        else:
            assert (found.instance, found.version) == (stood.instance, stood.version + 1)
        self.written(store, Seen(found.instance, found.version, state))

    @rule(store=NAMED, state=STATES)
    def put(self, store: tuple[str, str], state: Any) -> None:
        self.storage.stores.put(*store, json.dumps(state))
        self.after_write(store, state)

    @rule(store=NAMED, state=STATES, version=st.integers(-1, 3))
    def put_at(self, store: tuple[str, str], state: Any, version: int) -> None:
        if version == self.now[store].version:
            self.storage.stores.put(*store, json.dumps(state), version=version)
            self.after_write(store, state)
            return
        with pytest.raises(StoreConflict) as refused:
            self.storage.stores.put(*store, json.dumps(state), version=version)
        actual = self.now[store].version
        assert refused.value.actual == (None if actual == -1 else actual)

    @rule(store=NAMED)
    def delete(self, store: tuple[str, str]) -> None:
        assert self.storage.stores.delete(*store) is (self.now[store].instance is not None)
        if self.now[store].instance is not None:
            self.written(store, Seen())

    @rule(store=NAMED, initial=st.none() | STATES)
    def open(self, store: tuple[str, str], initial: Any) -> None:
        text = None if initial is None else json.dumps(initial)
        opens = OpenStore(f"o{self.entries}", START, *store, text)
        (entry,) = self.storage.deliveries.record(self.writer, Round(actions=(opens,))).entries
        self.entries += 1
        if self.now[store].instance is None and initial is not None:
            self.after_write(store, initial)
        stands = self.now[store]
        assert entry.ok is (stands.instance is not None)
        if entry.ok:
            told = {"instance": stands.instance, "version": stands.version}
            assert json.loads(entry.value) == told

    @rule(
        store=NAMED,
        state=st.none() | STATES,
        back=st.integers(0, 2),
        fails=st.booleans(),
    )
    def change(self, store: tuple[str, str], state: Any, back: int, fails: bool) -> None:
        seen = self.before[store][-1 - min(back, len(self.before[store]) - 1)]
        if seen.instance is None:
            return
        changes = ChangeStore(
            *(f"c{self.entries}", START, "store-update", *store, seen.instance, seen.version),
            None if state is None else json.dumps(state),
            fails=fails,
        )
        recorded = self.storage.deliveries.record(self.writer, Round(actions=(changes,)))
        stands = self.now[store]
        made = (seen.instance, seen.version) == (stands.instance, stands.version)
        assert [entry.ok for entry in recorded.entries] == ([made] if made or fails else [])
        assert recorded.ready is not (made or fails)
        self.entries += len(recorded.entries)
        if made and state is None:
            self.written(store, Seen())
        elif made:
            self.after_write(store, state)

    # --- waits -------------------------------------------------------------------------------

    @rule(
        name=st.sampled_from(WAITERS),
        store=NAMED,
        paths=PATHS,
        back=st.integers(0, 2),
        suspends=st.booleans(),
    )
    def wait(
        self, name: str, store: tuple[str, str], paths: list[StatePath], back: int, suspends: bool
    ) -> None:
        each = self.waiting[name]
        if each.suspended:
            return
        seen = self.before[store][-1 - min(back, len(self.before[store]) - 1)]
        reads = () if seen.instance is None else self.readings(seen, paths)
        wait = Wait(
            *("store-when", " ".join(store), "", START, None, "waiting"),
            store=store,
            read=reads,
            instance=seen.instance,
        )
        each.reads[store] = (seen, paths)
        each.ready.discard(store)
        if self.now[store].differs(seen, paths):
            each.ready.add(store)

        recorded = self.storage.deliveries.record(
            each.delivery, Round(waits=(wait,), outcome=Suspended() if suspends else None)
        )

        assert recorded.ready is bool(each.ready)
        assert (recorded.outcome is None) is (not suspends or bool(each.ready))
        each.suspended = recorded.outcome is not None

    def readings(self, seen: Seen, paths: list[StatePath]) -> tuple[Reading, ...]:
        return tuple(Reading(path, digest_at(seen.state, path)) for path in paths)

    @rule(name=st.sampled_from(WAITERS), store=NAMED)
    def give_up(self, name: str, store: tuple[str, str]) -> None:
        each = self.waiting[name]
        if each.suspended or store not in each.reads:
            return
        self.storage.deliveries.record(
            each.delivery, Round(unwait=(("store-when", " ".join(store)),))
        )
        del each.reads[store]
        each.ready.discard(store)

    @precondition(lambda self: any(w.suspended and w.ready for w in self.waiting.values()))
    @rule()
    def look_again(self) -> None:
        for name, each in self.waiting.items():
            if each.suspended and each.ready:
                each.delivery = claim_one(self.storage, START, self.worker, only=name)
                each.suspended = False

    # --- what holds throughout ---------------------------------------------------------------

    @invariant()
    def stores_are_as_written(self) -> None:
        found = {(r.name, r.store_id): r for r in self.storage.stores.find()}
        assert set(found) == {store for store, seen in self.now.items() if seen.instance}
        for store, record in found.items():
            seen = self.now[store]
            assert (record.instance, record.version) == (seen.instance, seen.version)
            assert json.loads(record.state) == seen.state

    @invariant()
    def who_is_to_look_is_due_and_nobody_else(self) -> None:
        for name, each in self.waiting.items():
            record = self.storage.executions.get(name)
            assert record is not None
            if each.suspended:
                assert (record.due_at is not None) is bool(each.ready), name
            else:
                assert record.delivery is not None

    @invariant()
    def the_writer_s_history_has_no_gap(self) -> None:
        history = self.storage.reader.history(self.writer.number, 1)
        assert [entry.position for entry in history] == list(range(self.entries))


TestStores = Stores.TestCase
TestStores.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
