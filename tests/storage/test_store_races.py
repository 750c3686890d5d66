"""Stores between real processes on one file: one is made, none of its writes or wakes is lost."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from tests.effort import rounds, torturing
from tests.storage.actor import COUNTER
from tests.storage.kit import admit, claim_one
from tests.storage.test_processes import NOW, Actor, actors, race
from tests.storage.test_stores import STOCK, waiting_for
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.model import Round, Suspended
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

INTERLEAVINGS = 100_000 if torturing() else 500


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


def test_of_many_who_open_a_store_one_makes_it(storage: SqliteStorage, db_path: Path) -> None:
    """case 164; spec S1: eight processes have one instance, which begins as one of them said."""
    for n in range(8):
        admit(storage, f"e-{n}")

    with actors(8, "open_store", db_path, "e-{me}", "{me}") as made:
        answers = [answer for (answer,) in race(made)]

    (store,) = storage.stores.find()
    assert answers == [[store.instance, store.instance, store.state]] * 8
    assert (store.version, store.state in list("01234567")) == (0, True)


def test_no_update_is_lost_between_processes(storage: SqliteStorage, db_path: Path) -> None:
    """case 168; spec S2: computed anew whenever another was first; versions have no gap."""
    each = rounds(100)
    storage.stores.put(*COUNTER, "0")
    for n in range(3):
        admit(storage, f"e-{n}")

    with actors(3, "count_up", db_path, "e-{me}", each) as made:
        race(made)

    store = storage.stores.get(*COUNTER)
    assert store is not None
    assert (store.state, store.version) == (str(3 * each), 3 * each)
    records = [storage.executions.get(f"e-{n}") for n in range(3)]
    assert [record.operations for record in records if record] == [each] * 3


def test_a_registration_that_races_a_write_misses_none(
    storage: SqliteStorage, db_path: Path
) -> None:
    """case 184; spec S3, S4: written just before, or just after: who waits always hears of it."""
    dice = Random(184)
    ready = woken = 0
    admit(storage, "a")
    delivery = claim_one(storage, NOW, 0)
    seen = storage.stores.put(*STOCK, "0")
    writer = Actor("write_when_told", db_path, json.dumps([0, 900, 20, 4000, 300, 9000]))
    try:
        writer.go()
        for n in range(1, INTERLEAVINGS + 1):
            writer.stdin.write(f"{n}\n")
            writer.stdin.flush()
            for _ in range(dice.choice((0, 500, 2_000, 8_000, 30_000))):
                pass
            waits = (waiting_for(seen, ()),)

            recorded = storage.deliveries.record(delivery, Round(waits=waits, outcome=Suspended()))

            assert writer.say() == n
            if recorded.ready:
                ready += 1
            else:
                delivery = claim_one(storage, NOW, 0)
                woken += 1
            found = storage.deliveries.look(delivery, queues={}, stores=[STOCK]).stores[STOCK]
            assert found is not None
            assert found.state == str(n)
            seen = found
    finally:
        writer.end()

    assert min(ready, woken) > 0, "they came in one order only, so this proved little"
