"""Random programs on shared stores: every change is made once, and no waiter is forgotten."""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine import promises
from tests.engine.keepers import OUTSIDE, Shelf, events, keeper, lives, put_thing, shelf_of
from tests.engine.programs import CALLS, plain
from tests.engine.test_lost_worlds import Pair, moves
from tests.engine.test_random_programs import FixedChance, some_time
from tests.engine.worlds import LONG_MS, TTL, BusyWriter, PatientLoop, histories
from yieldstar_cli import codec
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.engine import watching
from yieldstar_cli.engine.operations import State
from yieldstar_cli.engine.store_handles import StoreWatch
from yieldstar_cli.errors import ExecutionNotFound
from yieldstar_cli.model import Entry, ExecutionRecord, StoreRecord
from yieldstar_cli.testing import Bench, Killed

LOUD = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=40)
#: More than any program here needs: beyond it, something commits without an end.
COMMITS = 1_500


class Outside:
    """Whoever writes stores, sends, cancels and pauses from another process."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.sent: Counter[str] = Counter()
        #: The last state of each store that was deleted here, by instance.
        self.deleted: dict[str, StoreRecord] = {}

    def admit(self, programs: list[Any]) -> None:
        """Admit a keeper for each program."""
        for n, acts in enumerate(programs):
            self._bench.admit("keeper", {"acts": plain(acts)}, execution_id=f"k{n}")

    def happen(self, event: Any) -> None:
        """Do one thing now."""
        kind, *about = event
        storage = self._bench.storage
        with contextlib.suppress(ExecutionNotFound):
            match kind:
                case "put":
                    self._write(about[0], put_thing(OUTSIDE))
                case "note":
                    self._write(about[0], lambda s: s.changes.append("note"))
                case "delete":
                    found = storage.stores.get("Shelf", about[0])
                    if found is not None:
                        self.deleted[found.instance] = found
                        assert storage.stores.delete("Shelf", about[0], version=found.version)
                case "send":
                    answer = storage.inbox.send(about[0], "a", '"hello"', ttl_ms=TTL)
                    self.sent[about[0]] += answer in ("delivered", "buffered")
                case "cancel":
                    storage.steering.cancel(about[0], reason="enough")
                case "pause":
                    storage.steering.pause(execution_id=about[0], by="me")
                case "resume":
                    storage.steering.resume(execution_id=about[0])
                case "wake":
                    storage.executions.request_wake(about[0], self._bench.clock.now_ms())

    def _write(self, name: str, change: Callable[[Shelf], object]) -> None:
        stores = self._bench.storage.stores
        found = stores.get("Shelf", name)
        shelf = Shelf() if found is None else shelf_of(found)
        if found is not None:
            change(shelf)
        stores.put(
            "Shelf",
            name,
            msgspec.json.encode(shelf).decode(),
            instance=None if found is None else found.instance,
            version=-1 if found is None else found.version,
        )

    def resume_all(self) -> None:
        """Nothing is paused from now on."""
        for record in self._bench.storage.reader.find(limit=None):
            self.happen(["resume", record.execution_id])


class Play:
    """One run, on one file, whenever its workers die."""

    def __init__(self, residents: int, workers: int, timed: bool, slow: tuple[int, int]) -> None:
        CALLS.clear()
        self.kills: list[int] = []
        self.workers = workers
        self.queue_ms = slow[1]
        self.bench = Bench(
            keeper,
            clock=ManualClock(),
            chance=FixedChance(),
            residents=residents,
            duration=some_time if timed else None,
            commit_ms=slow[0],
        )
        self.outside = Outside(self.bench)

    def play(self, programs: list[Any], happening: Any, kills: tuple[int, ...]) -> None:
        """Run everything, to the moment when nothing moves."""
        self.kills = list(kills)
        self.outside.admit(programs)
        self._start()
        at = self.bench.clock.now_ms()
        for gap, event in happening:
            at += gap
            self._survive(at)
            if event[0] == "crash":
                self._crash()
            else:
                self.outside.happen(event)
            self._ring()
        at += LONG_MS
        self._survive(at)
        self.outside.resume_all()
        self._ring()
        self._survive(at + LONG_MS)

    def again(self, kind: str) -> None:
        """Ask something of every keeper, under new workers."""
        self.kills.clear()
        self._crash()
        for record in self.bench.storage.reader.find(limit=None):
            self.outside.happen([kind, record.execution_id])
        self._ring()
        self.bench.run_to(self.bench.clock.now_ms() + LONG_MS)

    def _start(self) -> None:
        self.bench.loop = PatientLoop(self.bench.clock)
        for _ in range(self.workers):
            worker = self.bench.start_worker()
            worker.writer = BusyWriter(worker.writer, self.bench.loop, self.queue_ms, self._ring)
        self.bench.points.kill_at(self.kills[0] if self.kills else None)

    def _ring(self) -> None:
        for worker in self.bench.workers:
            self.bench.loop.post(worker.poll)

    def _survive(self, to: int) -> None:
        while True:
            try:
                self.bench.run_to(to)
            except Killed:
                self.kills.pop(0)
                self._crash()
            else:
                return

    def _crash(self) -> None:
        self.bench.crash()
        self._start()


# --- what is held --------------------------------------------------------------------------------


def hold_stores(bench: Bench, outside: Outside) -> None:
    """Every change is recorded once and made once, and who waits waits in vain (spec S2-S5)."""
    promises.hold_all(bench, outside.sent)
    records = bench.storage.reader.find(limit=None)
    entries = [
        (f"{record.execution_id}/{index + 1}", entry)
        for record in records
        for index, history in enumerate(histories(bench, record))
        for entry in history
    ]
    hold_changes(last_states(bench, outside, entries), entries)
    for record in records:
        if not record.status.terminal:
            hold_watches(bench, record)


def last_states(
    bench: Bench, outside: Outside, entries: list[tuple[str, Entry]]
) -> list[tuple[int, Shelf]]:
    """Version and state of every instance there ever was, as it was last."""
    read = {}
    gone = []
    for _, entry in entries:
        if entry.ok and entry.kind == "store-get":
            found = codec.decode(entry.value)
            read[found["instance"], found["version"]] = found["state"]
        if entry.ok and entry.kind == "store-delete":
            found = codec.decode(entry.value)
            gone.append((found["instance"], found["version"]))
    standing = [*bench.storage.stores.find(), *outside.deleted.values()]
    assert len({r.instance for r in standing} | {i for i, _ in gone}) == len(standing) + len(gone)
    found = [(record.version, shelf_of(record)) for record in standing]
    return [*found, *((v, msgspec.json.decode(read[i, v], type=Shelf)) for i, v in gone)]


def hold_changes(states: list[tuple[int, Shelf]], entries: list[tuple[str, Entry]]) -> None:
    """What the stores say of their changes is what the histories say."""
    made: Counter[str] = Counter()
    for version, shelf in states:
        assert len(shelf.changes) == version, "versions follow one another"
        made.update(c for c in shelf.changes if c != "note" and not c.endswith(OUTSIDE))
        puts = sum(c.startswith("put") for c in shelf.changes)
        takes = sum(c.startswith("take") for c in shelf.changes)
        assert len(shelf.things) == puts - takes == shelf.count - takes
    said: Counter[str] = Counter()
    versions: list[tuple[str, int]] = []
    for who, entry in entries:
        if entry.ok and entry.kind == "store-update":
            said[f"put {who}"] += 1
            found = codec.decode(entry.value)
            versions.append((found["instance"], found["version"]))
        if entry.ok and entry.kind == "store-take":
            said[f"take {who}"] += 1
    assert said == made
    assert len(set(versions)) == len(versions)


def hold_watches(bench: Bench, record: ExecutionRecord) -> None:
    """No wake was lost: what is waited for is not so, and the file would say when it is."""
    assert record.started_at is not None
    driver = promises.replayed(
        bench, record, record.incarnation, record.params_json, record.started_at
    )
    rows = {(w.kind, w.step_key): w for w in bench.storage.reader.waits(record.number)}
    marked = bench.storage.db.rows(
        "SELECT step_key FROM waits WHERE n = :n AND ready_at IS NOT NULL", {"n": record.number}
    )
    assert not marked
    try:
        for place, handle in driver.open.items():
            if isinstance(handle, StoreWatch) and handle.state is State.OPEN and handle.waiters:
                found = bench.storage.stores.get(*handle.store.key)
                assert found is not None, (record.execution_id, place)
                assert watching.watch(handle, found, 1_000_000) is None, (place, found)
                row = rows[place]
                assert row.store == handle.store.key
                assert row.instance == found.instance
                assert row.read == handle.readings
                assert row.due_at is None, "its deadline has passed"
    finally:
        driver.drop()


# --- the tests -----------------------------------------------------------------------------------

kills = st.lists(st.integers(0, 80), max_size=3).map(tuple)
programs = st.lists(lives, min_size=1, max_size=3)


@LOUD
@given(
    programs,
    events,
    kills,
    st.sampled_from([(100, 1), (0, 1), (100, 2), (1, 2)]),
    st.booleans(),
    st.sampled_from([(0, 0), (0, 1), (40, 0), (1, 311)]),
)
def test_every_change_is_made_once_and_no_waiter_is_forgotten(
    programs: Any, happening: Any, killed: Any, like: Any, timed: bool, slow: Any
) -> None:
    """cases 168, 178, 183-187, 190, 194; spec S2-S6, R2, R4: whoever dies when, and writes when."""
    residents, workers = like
    play = Play(residents, workers, timed, slow)
    try:
        play.play(programs, happening, killed)
        hold_stores(play.bench, play.outside)
        before = everything(play.bench)
        play.again("wake")
        assert everything(play.bench) == before
        play.again("cancel")
        hold_stores(play.bench, play.outside)
        assert all(r.status.terminal for r in play.bench.storage.reader.find(limit=None))
        assert sum(name.startswith("commit") for name in play.bench.points.names) <= COMMITS
    finally:
        play.bench.close()


class Keepers(Pair):
    """Two workers on one file, with a memory each, whose leases are lost at any moment."""

    def __init__(self, folder: Path, programs: Any, commit_ms: int, queue_ms: int) -> None:
        self.clock = ManualClock()
        chance = FixedChance()
        self.benches = [
            Bench(
                keeper,
                path=folder / "ys.db",
                clock=self.clock,
                chance=chance,
                duration=some_time,
                commit_ms=slow,
                residents=residents,
            )
            for slow, residents in ((0, 100), (commit_ms, 2))
        ]
        self.writer = Outside(self.benches[0])
        self.writer.admit(programs)
        self.workers = [bench.start_worker() for bench in self.benches]
        for bench, worker in zip(self.benches, self.workers, strict=True):
            worker.writer = BusyWriter(worker.writer, bench.loop, queue_ms, self.ring)
        self.numbers = [row.number for row in self.benches[0].storage.workers.all()]
        self.lost = 0

    def resume(self) -> None:
        self.writer.resume_all()


@settings(LOUD, max_examples=25)
@given(
    programs,
    events,
    st.lists(moves, max_size=60),
    st.sampled_from([0, 1, 40]),
    st.sampled_from([0, 0, 1, 40]),
)
def test_a_lost_lease_loses_no_change_of_a_store(
    programs: Any, happening: Any, moved: Any, commit_ms: int, queue_ms: int
) -> None:
    """case 85; spec L2, L4, S3: what a late worker would have changed is not changed."""
    CALLS.clear()
    happens = [event for _, event in happening if event[0] != "crash"]
    with tempfile.TemporaryDirectory() as folder:
        pair = Keepers(Path(folder), programs, commit_ms, queue_ms)
        try:
            for index, move, count in moved:
                if move != "outside":
                    pair.move(index, move, count)
                elif happens:
                    pair.writer.happen(happens.pop(0))
                    pair.ring()
            pair.finish()

            hold_stores(pair.benches[0], pair.writer)
        finally:
            pair.close()


def everything(bench: Bench) -> Any:
    """All histories and ends, and all stores."""
    records = bench.storage.reader.find(limit=None)
    return (
        {r.execution_id: (histories(bench, r), r.status, r.outcome) for r in records},
        bench.storage.stores.find(),
    )
