"""Stores on SQLite: what a write costs, what damage does, and how statements find their rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.storage.kit import admit, claim_one, entry, ids, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.digests import digest_at
from yieldstar_cli.model import (
    ChangeStore,
    Completed,
    Delivery,
    Kind,
    OpenStore,
    Reading,
    Round,
    Start,
    StoreRecord,
    Suspended,
    Wait,
)
from yieldstar_cli.model import Path as StatePath
from yieldstar_cli.storage.sqlite import readings, stores, waits
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

STOCK = ("stock", "main")
FULL, EMPTY = '{"left":3}', '{"left":0}'


@pytest.fixture
def storage(db_path: Path, clock: ManualClock) -> Iterator[SqliteStorage]:
    """An open file."""
    opened = SqliteStorage(db_path, create=True, clock=clock)
    yield opened
    opened.close()


def waiting_for(seen: StoreRecord | None, *paths: StatePath, step_key: str = "stock") -> Wait:
    """The wait of who has read these places in vain."""
    state = None if seen is None else msgspec.json.decode(seen.state)
    return Wait(
        *(Kind.STORE_WHEN, step_key, "stock main", 0, None, "waiting"),
        store=STOCK if seen is None else (seen.name, seen.store_id),
        read=() if seen is None else tuple(Reading(p, digest_at(state, p)) for p in paths),
        instance=None if seen is None else seen.instance,
    )


def change(seen: StoreRecord, state: str | None, step_key: str = "c", **words: Any) -> ChangeStore:
    """A change computed from what was seen."""
    kind = Kind.STORE_DELETE if state is None else Kind.STORE_UPDATE
    return ChangeStore(
        *(step_key, 0, kind, seen.name, seen.store_id, seen.instance, seen.version, state),
        **words,
    )


def waiter(storage: SqliteStorage, clock: ManualClock, name: str, wait: Wait) -> Delivery:
    """An execution that suspends with this wait."""
    admit(storage, name)
    delivery = claim_one(storage, clock.now_ms(), 0, only=name)
    storage.deliveries.record(delivery, Round(waits=(wait,), outcome=Suspended()))
    return delivery


def due(storage: SqliteStorage, clock: ManualClock) -> list[str]:
    """Who is due now; the deliveries are released again."""
    found = storage.executions.claim_due(clock.now_ms())
    for delivery in found:
        storage.executions.release(delivery)
    return sorted(ids(found))


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the states that were parsed, in order."""
    sizes: list[int] = []
    real = readings.parse

    def counting(text: str) -> object:
        sizes.append(len(text))
        return real(text)

    monkeypatch.setattr(readings, "parse", counting)
    return sizes


# --- what it costs -------------------------------------------------------------------------------


def test_a_write_that_nobody_waits_for_is_not_read(
    storage: SqliteStorage, clock: ManualClock, parsed: list[int]
) -> None:
    """spec S4: no cost but that of the write; also where others wait for other stores."""
    other = storage.stores.put("other", "main", FULL)
    waiter(storage, clock, "w", waiting_for(other, ("left",)))
    parsed.clear()
    seen = storage.stores.put(*STOCK, FULL)
    admit(storage, "a")
    delivery = claim_one(storage, clock.now_ms(), 0, only="a")

    storage.stores.put(*STOCK, EMPTY, version=seen.version)
    storage.deliveries.record(
        delivery, Round(actions=(OpenStore("o", 0, *STOCK, EMPTY), change(seen, FULL)))
    )
    storage.stores.delete(*STOCK)

    assert parsed == []


def test_a_write_reads_its_state_once_however_many_wait(
    storage: SqliteStorage, clock: ManualClock, parsed: list[int]
) -> None:
    """case 175; spec S4: a small change of 1 MB costs one parse, and the paths that were read."""
    large: dict[str, Any] = {"left": 3, "items": {f"k{n}": "x" * 90 for n in range(10_000)}}
    seen = storage.stores.put(*STOCK, json.dumps(large))
    for n in range(20):
        waiter(storage, clock, f"w{n}", waiting_for(seen, ("left",), ("items", f"k{n}")))
    parsed.clear()
    digested: list[StatePath] = []

    def counting(value: object, path: StatePath) -> str:
        digested.append(path)
        return digest_at(value, path)

    large["items"]["k7"] = "y"
    state = json.dumps(large)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("yieldstar_cli.digests.digest_at", counting)
        storage.stores.put(*STOCK, state)

    assert parsed == [len(state)]
    assert sorted(digested) == sorted({("left",), *(("items", f"k{n}") for n in range(20))})
    assert due(storage, clock) == ["w7"]


def test_waits_put_together_read_each_state_once(
    storage: SqliteStorage, clock: ManualClock, parsed: list[int]
) -> None:
    """spec S4: a round that waits for one store in several ways compares with one parse."""
    seen = storage.stores.put(*STOCK, FULL)
    admit(storage, "a")
    delivery = claim_one(storage, clock.now_ms(), 0)
    several = tuple(waiting_for(seen, ("left",), step_key=f"s{n}") for n in range(5))

    recorded = storage.deliveries.record(delivery, Round(waits=several))

    assert not recorded.ready
    assert len(parsed) == 1


def test_a_wait_marked_already_is_compared_no_more(
    storage: SqliteStorage, clock: ManualClock, parsed: list[int]
) -> None:
    """spec S4: who is to look anyway costs the writes after that nothing."""
    seen = storage.stores.put(*STOCK, FULL)
    waiter(storage, clock, "w", waiting_for(seen, ("left",)))
    storage.stores.put(*STOCK, EMPTY)
    parsed.clear()

    for _ in range(3):
        storage.stores.put(*STOCK, FULL)

    assert parsed == []
    assert due(storage, clock) == ["w"]


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        (waits.WAITERS, "waits_stores"),
        (waits.STORE, "sqlite_autoindex_stores_1"),
        (stores.STANDING, "sqlite_autoindex_stores_1"),
        (stores.GET, "sqlite_autoindex_stores_1"),
        (stores.WRITE, "sqlite_autoindex_stores_1"),
        (stores.DELETE, "sqlite_autoindex_stores_1"),
    ],
)
def test_stores_and_their_waiters_are_found_by_name_and_id(
    storage: SqliteStorage, sql: str, index: str
) -> None:
    """spec S4: the cost is not that of all stores, nor of all waits."""
    names = ("name", "store_id", "instance", "version", "now", "state")
    plan = storage.db.rows(f"EXPLAIN QUERY PLAN {sql}", dict.fromkeys(names))

    told = " ".join(str(row[3]) for row in plan)
    assert f"USING INDEX {index}" in told
    assert "SCAN" not in told


# --- what one round does -------------------------------------------------------------------------


def test_what_a_round_does_is_seen_by_what_it_does_next(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec S3: opened, changed and waited for in one commit; its own write is no news to it."""
    seen = storage.stores.put(*STOCK, FULL)
    after = StoreRecord(*STOCK, seen.instance, 1, EMPTY, 0, 0)
    admit(storage, "a")
    delivery = claim_one(storage, clock.now_ms(), 0)

    recorded = storage.deliveries.record(
        delivery,
        Round(
            entries=(entry(0),),
            actions=(
                change(seen, EMPTY),
                change(after, FULL, "c2", result='"mine"'),
                OpenStore("o", 5, *STOCK, EMPTY),
                change(seen, EMPTY, "late"),
            ),
            waits=(waiting_for(seen, ("left",)),),
        ),
    )

    assert [(e.position, e.step_key, e.value) for e in recorded.entries] == [
        (1, "c", json.dumps({"instance": seen.instance, "version": 1}, separators=(",", ":"))),
        (2, "c2", '"mine"'),
        (3, "o", json.dumps({"instance": seen.instance, "version": 2}, separators=(",", ":"))),
    ]
    record = storage.executions.get("a")
    assert record is not None
    assert record.operations == 4
    assert recorded.ready, "a change was not made, so it has to be computed anew"
    (wait,) = storage.reader.waits(delivery.number)
    assert (wait.store, wait.instance) == (STOCK, seen.instance)
    assert storage.deliveries.record(delivery, Round(outcome=Suspended())).outcome is not None


def test_a_change_that_was_not_made_is_no_progress(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec L5, S2: nothing new was recorded, so the deaths before it still count."""
    seen = storage.stores.put(*STOCK, FULL)
    storage.stores.put(*STOCK, EMPTY)
    admit(storage, "a")
    worker = new_worker(storage, clock.now_ms())
    delivery = claim_one(storage, clock.now_ms(), worker)
    storage.workers.bury(worker, "died", {delivery.number: clock.now_ms()}, max_deaths=5)
    clock.advance(10**7)
    again = claim_one(storage, clock.now_ms(), new_worker(storage, clock.now_ms(), name="w-2"))

    storage.deliveries.record(again, Round(actions=(change(seen, FULL),)))

    record = storage.executions.get("a")
    assert record is not None
    assert (record.deaths, record.operations) == (1, 0)
    storage.deliveries.record(again, Round(actions=(OpenStore("o", 7, *STOCK, None),)))
    record = storage.executions.get("a")
    assert record is not None
    assert (record.deaths, record.operations) == (0, 1)


def test_other_actions_keep_their_places_around_one_that_was_not_made(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec R4: the history has no gap, and its last moment is that of an entry."""
    seen = storage.stores.put(*STOCK, FULL)
    storage.stores.put(*STOCK, EMPTY)
    admit(storage, "a")
    delivery = claim_one(storage, clock.now_ms(), 0)
    late = ChangeStore("c", 999, Kind.STORE_UPDATE, *STOCK, seen.instance, 0, FULL)

    storage.deliveries.record(
        delivery,
        Round(
            actions=(Start("s1", 5, "a/1", "w", 1, "1"), late, Start("s2", 6, "a/2", "w", 1, "1"))
        ),
    )
    storage.deliveries.record(delivery, Round(actions=(late,), outcome=Completed("1")))

    history = storage.reader.history(delivery.number, 1)
    assert [(e.position, e.step_key) for e in history] == [(0, "s1"), (1, "s2")]
    assert storage.db.rows("SELECT operations, last_moment FROM executions WHERE n = 1") == [(2, 6)]
    record = storage.executions.get("a")
    assert record is not None
    assert record.outcome is None, "its change was not made, so it goes on"


def test_what_was_recorded_of_a_store_outlives_it(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """cases 171, 179: the entry says what was done to a store, whatever has become of it since."""
    admit(storage, "a")
    delivery = claim_one(storage, clock.now_ms(), 0)
    seen = storage.stores.put(*STOCK, FULL)
    entries = storage.deliveries.record(
        delivery, Round(actions=(change(seen, EMPTY, result='"mine"'),))
    ).entries

    storage.stores.delete(*STOCK)
    storage.stores.put(*STOCK, FULL)

    assert storage.reader.history(delivery.number, 1) == list(entries)
    assert entries[0].value == '"mine"'


def test_each_change_counts_once(storage: SqliteStorage, clock: ManualClock) -> None:
    """cases 169, 172: two changes under keys of their own are two; one told twice is one."""
    admit(storage, "a")
    delivery = claim_one(storage, clock.now_ms(), 0)
    seen = storage.stores.put(*STOCK, FULL)
    again = StoreRecord(*STOCK, seen.instance, 1, FULL, 0, 0)
    changes = Round(actions=(change(seen, FULL, "c1"), change(again, EMPTY, "c2")))

    made = [storage.deliveries.record(delivery, changes).entries for _ in range(2)]

    assert [[e.step_key for e in entries] for entries in made] == [["c1", "c2"], []]
    found = storage.stores.get(*STOCK)
    assert found is not None
    assert (found.version, found.state) == (2, EMPTY)


def test_changes_of_one_key_are_those_of_each_execution_and_store(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """case 170: two executions that write two stores under the same keys do not meet."""
    written = []
    for name in ("a", "b"):
        admit(storage, name)
        delivery = claim_one(storage, clock.now_ms(), 0, only=name)
        for store_id in ("main", "other"):
            seen = storage.stores.put(STOCK[0], store_id, FULL)
            actions = (change(seen, f'"{name}"', f"c-{store_id}"),)
            written += storage.deliveries.record(delivery, Round(actions=actions)).entries

    assert [(e.step_key, e.ok, e.label) for e in written] == [
        ("c-main", True, "stock main"),
        ("c-other", True, "stock other"),
    ] * 2
    assert [(each.version, each.state) for each in storage.stores.find()] == [(3, '"b"')] * 2


def test_values_are_detached(storage: SqliteStorage) -> None:
    """cases 173, 174: a state is text; what was read is not changed by later writes."""
    seen = storage.stores.put(*STOCK, FULL)

    storage.stores.put(*STOCK, EMPTY)

    assert (seen.state, seen.version) == (FULL, 0)
    found = storage.stores.get(*STOCK)
    assert found is not None
    assert type(found.state) is str


# --- what is damaged -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE waits SET store_read = 'no JSON' WHERE n > 0",
        "UPDATE waits SET store_read = '[[1,2,3]]' WHERE n > 0",
        "UPDATE waits SET store_read = '[[[null],\"x\"]]' WHERE n > 0",
        "UPDATE waits SET store_read = NULL, store_instance = 'x' WHERE n > 0",
    ],
)
def test_a_wait_that_no_longer_reads_is_woken_by_the_next_write(
    storage: SqliteStorage, clock: ManualClock, damage: str
) -> None:
    """spec E12: the write stands, its execution looks for itself, and the others are not kept."""
    seen = storage.stores.put(*STOCK, FULL)
    waiter(storage, clock, "w", waiting_for(seen, ("left",)))
    storage.db.rows(damage)
    waiter(storage, clock, "sound", waiting_for(seen, ("left",)))

    written = storage.stores.put(*STOCK, FULL)

    assert written.version == 1
    assert due(storage, clock) == ["w"]
    assert [wait.store for wait in storage.reader.waits(1)] == [STOCK]


def test_a_state_that_no_longer_reads_wakes_who_waits(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec E12: who registers on a damaged state is to look, and the engine says what is wrong."""
    seen = storage.stores.put(*STOCK, FULL)
    storage.db.rows("UPDATE stores SET state = '{' WHERE s > 0")
    admit(storage, "a")
    delivery = claim_one(storage, clock.now_ms(), 0)

    recorded = storage.deliveries.record(delivery, Round(waits=(waiting_for(seen, ("left",)),)))

    assert recorded.ready
    assert storage.stores.put(*STOCK, FULL).version == 1


def test_a_deep_state_is_compared(storage: SqliteStorage, clock: ManualClock) -> None:
    """spec V1: as deep as values may be."""
    depth = 490
    seen = storage.stores.put(*STOCK, "[" * depth + "]" * depth)
    waiter(storage, clock, "w", waiting_for(seen, (0,) * (depth - 2)))
    waiter(storage, clock, "whole", waiting_for(seen, ()))

    storage.stores.put(*STOCK, "[" * depth + "]" * depth)
    before = due(storage, clock)
    storage.stores.put(*STOCK, "[" * depth + "1" + "]" * depth)

    assert before == []
    assert due(storage, clock) == ["w", "whole"]
