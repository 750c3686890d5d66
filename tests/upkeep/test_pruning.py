"""Pruning at the storage: what goes, what stays, and who still needs what."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storage.kit import new_worker
from tests.upkeep import scene
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import DatabaseBusy, ExecutionIdConflict
from yieldstar_cli.model import Completed, Entry, Failed, Message, Round, Status, Suspended, Wait
from yieldstar_cli.storage.sqlite import pruning
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.storage.upkeep import Chosen

EVERYTHING = Chosen()
#: The tables that hold what an execution did.
TABLES = (
    "history",
    "retries",
    "attempts",
    "waits",
    "logs",
    "lost_deliveries",
    "incarnations",
    "messages",
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound file with something of every kind in it."""
    return scene.build(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def lived(sound: Path, tmp_path: Path) -> Iterator[SqliteStorage]:
    """A copy of it, open for writing, long after."""
    shutil.copy(sound, tmp_path / "ys.db")
    storage = SqliteStorage(tmp_path / "ys.db", clock=ManualClock(2_000_000_000_000))
    yield storage
    storage.close()


def rows_of(storage: SqliteStorage, execution_id: str) -> int:
    """How many rows there are of an execution beside its record."""
    record = storage.executions.get(execution_id)
    assert record is not None
    return sum(
        len(storage.db.rows(f"SELECT 1 FROM {table} WHERE n = ?", (record.number,)))
        for table in TABLES
    )


def pruned(storage: SqliteStorage, chosen: Chosen = EVERYTHING) -> list[str]:
    """Prune, and say which went."""
    return [one.execution_id for one in storage.upkeep.prune(chosen) if one.kept is None]


def end(
    storage: SqliteStorage,
    clock: ManualClock,
    execution_id: str,
    *,
    outcome: Completed | Failed | None = None,
    entries: int = 1,
) -> None:
    """An execution of one delivery that ends now."""
    storage.executions.admit(workflow_id="w", execution_id=execution_id, params={"text": "secret"})
    worker = new_worker(storage, clock.now_ms())
    (claimed,) = storage.deliveries.claim(
        clock.now_ms(), worker=worker, limit=1, workflows=[("w", 1)], only=execution_id
    )
    now = clock.now_ms()
    steps = tuple(Entry(i, "step", f"s#{i}", True, '"secret"', now, now) for i in range(entries))
    changes = Round(entries=steps, outcome=outcome or Completed('"secret"'))
    storage.deliveries.record(claimed.delivery, changes)
    storage.workers.stop(worker, "stopped")


def test_history_and_values_go_and_the_id_stays(lived: SqliteStorage) -> None:
    """spec E3; case 336: ID, workflow, status and moments."""
    before = lived.executions.get("trier")
    assert before is not None
    assert rows_of(lived, "trier") == 2

    assert "trier" in pruned(lived)

    after = lived.executions.get("trier")
    assert after is not None
    assert rows_of(lived, "trier") == 0
    assert (after.workflow_id, after.status, after.admitted_at, after.updated_at) == (
        before.workflow_id,
        before.status,
        before.admitted_at,
        before.updated_at,
    )
    assert after.pruned_at == 2_000_000_000_000
    assert (after.params_json, after.context_json) == ("null", "{}")
    assert list(lived.upkeep.breaches()) == []
    with pytest.raises(ExecutionIdConflict) as refused:
        lived.executions.admit(workflow_id="trier", params={}, execution_id="trier")
    assert (refused.value.workflow_id, refused.value.status) == ("trier", "completed")


def test_every_kept_incarnation_goes(lived: SqliteStorage) -> None:
    """case 248, 340."""
    assert rows_of(lived, "eternal") == 7

    pruned(lived)

    assert rows_of(lived, "eternal") == 0
    record = lived.executions.get("eternal")
    assert record is not None
    assert record.incarnation == 6
    assert lived.family.incarnations(record.number) == []


def test_what_is_open_and_what_the_open_ones_need_stays(lived: SqliteStorage) -> None:
    """case 219, 340; spec C2: kept until the parent is terminal, and while somebody waits."""
    rows = {r.execution_id: rows_of(lived, r.execution_id) for r in lived.reader.find(limit=None)}

    told = {one.execution_id: one.kept for one in lived.upkeep.prune(EVERYTHING)}

    assert told == {
        "eternal": None,
        "done": None,
        "trier": None,
        "adder": "its parent parent is open",
        "starter": "its child detached is open",
    }
    for name in set(rows) - {"eternal", "done", "trier"}:
        assert rows_of(lived, name) == rows[name]


def test_one_that_is_waited_for_by_name_stays_until_it_was_heard(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec C2, C5: between its end and the delivery that hears of it."""
    storage.executions.admit(workflow_id="waiter", execution_id="waiter")
    storage.executions.admit(workflow_id="w", execution_id="target")
    worker = new_worker(storage, clock.now_ms())
    (waiter,) = storage.deliveries.claim(
        clock.now_ms(), worker=worker, limit=1, workflows=[("waiter", 1)]
    )
    wait = Wait("child", "attach", "target", 0, None, "waiting", target="target")
    storage.deliveries.record(waiter.delivery, Round(waits=(wait,), outcome=Suspended()))
    (target,) = storage.deliveries.claim(
        clock.now_ms(), worker=worker, limit=1, workflows=[("w", 1)]
    )
    storage.deliveries.record(target.delivery, Round(outcome=Completed("7")))

    (kept,) = storage.upkeep.prune(EVERYTHING)
    (again,) = storage.deliveries.claim(
        clock.now_ms(), worker=worker, limit=1, workflows=[("waiter", 1)]
    )
    (heard,) = storage.deliveries.look(again.delivery, queues={}).ended
    storage.deliveries.record(again.delivery, Round(unwait=(("child", "attach"),)))

    assert kept.kept == "waiter waits for it"
    assert (heard.outcome, heard.pruned) == (Completed("7"), False)
    assert pruned(storage) == ["target"]


def test_what_is_awaited_after_it_was_pruned_is_told_as_such(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec C2: ready at once, and its outcome is not made up."""
    end(storage, clock, "target")
    pruned(storage)
    storage.executions.admit(workflow_id="waiter", execution_id="waiter")
    worker = new_worker(storage, clock.now_ms())
    (waiter,) = storage.deliveries.claim(
        clock.now_ms(), worker=worker, limit=1, workflows=[("waiter", 1)]
    )

    wait = Wait("child", "attach", "target", 0, None, "waiting", target="target")
    recorded = storage.deliveries.record(waiter.delivery, Round(waits=(wait,)))
    look = storage.deliveries.look(waiter.delivery, queues={}, statuses=["target"])

    assert recorded.ready
    assert [one.pruned for one in look.ended] == [True]
    assert look.statuses == {"target": ("completed", None)}


def test_only_those_that_ended_before_and_as_asked(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """case 339: age, status, and the last that ended; the plan says the same."""
    for n in range(4):
        end(storage, clock, f"good-{n}")
        end(storage, clock, f"bad-{n}", outcome=Failed('{"name":"E","message":"m"}'))
        clock.advance(1_000)
    start = clock.now_ms() - 4_000

    for chosen, expected in (
        (Chosen(ended_before=start), []),
        (Chosen(ended_before=start + 1_000, statuses=("failed",)), ["bad-0"]),
        (Chosen(statuses=("completed",), keep=3), ["good-0"]),
        (Chosen(statuses=("completed",), keep=4), []),
        (Chosen(ended_before=start + 1_001, keep=3), ["bad-1"]),
        (Chosen(execution_ids=["good-3", "nobody"]), ["good-3"]),
        (Chosen(keep=99), []),
    ):
        if chosen == Chosen(ended_before=start + 1_001, keep=3):
            expected = ["good-1", "bad-1"]
        planned = [one.execution_id for one in storage.upkeep.prunable(chosen)]
        assert planned == expected, chosen
        assert pruned(storage, chosen) == expected, chosen
        assert pruned(storage, chosen) == [], "again is harmless"


def test_the_plan_counts_what_the_pruning_frees(lived: SqliteStorage) -> None:
    """case 339: the same executions and bytes."""
    planned = list(lived.upkeep.prunable(EVERYTHING))

    done = list(lived.upkeep.prune(EVERYTHING))

    assert planned == done
    assert all(one.bytes > 0 for one in done)
    kept = [one for one in done if one.kept]
    assert list(lived.upkeep.prunable(EVERYTHING)) == kept


def test_no_transaction_holds_many_rows(
    storage: SqliteStorage, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """case 341: however long a history is; others write in between."""
    monkeypatch.setattr(pruning, "ROWS_AT_ONCE", 10)
    end(storage, clock, "long", entries=45)
    end(storage, clock, "short")
    counts: list[int] = []

    def pause() -> None:
        assert not storage.db.in_transaction
        counts.append(storage.db.rows("SELECT count(*) FROM history")[0][0])
        assert list(storage.upkeep.breaches()) == []

    done = [one.execution_id for one in storage.upkeep.prune(EVERYTHING, pause=pause)]

    assert done == ["long", "short"]
    steps = [before - after for before, after in zip([46, *counts], counts, strict=False)]
    assert max(steps) <= 10
    assert len(counts) >= 5
    assert counts[-1] == 0


def test_what_was_interrupted_is_finished_by_the_next_one(
    storage: SqliteStorage, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """case 340: it says that it is pruned from the first moment, and nothing is left for ever."""
    monkeypatch.setattr(pruning, "ROWS_AT_ONCE", 10)
    end(storage, clock, "long", entries=45)

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(storage.upkeep.prune(EVERYTHING, pause=stop))

    record = storage.executions.get("long")
    assert record is not None
    assert record.pruned_at is not None
    assert 0 < rows_of(storage, "long") < 45
    assert list(storage.upkeep.breaches()) == []
    assert pruned(storage) == ["long"]
    assert rows_of(storage, "long") == 0
    assert list(storage.upkeep.breaches()) == []


def test_one_that_was_pruned_answers_as_what_has_ended(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """case 283, 337, 338: wakes are ignored, messages refused, late writes change nothing."""
    end(storage, clock, "done")
    end(storage, clock, "bad", outcome=Failed('{"name":"Secret","message":"secret"}'))
    pruned(storage)
    before = storage.db.rows("SELECT * FROM executions")

    assert storage.executions.request_wake("done", clock.now_ms()) == "ignored"
    assert storage.inbox.send("done", "q", "1", ttl_ms=1_000, idempotency_key="k") == "refused"
    assert storage.steering.cancel("done") == "ignored"
    messages: list[Message] = storage.inbox.messages("done")
    assert messages == []
    failed = storage.executions.get("bad")
    assert failed is not None
    assert failed.status is Status.FAILED
    assert failed.outcome == Failed(pruning.FORGOTTEN)
    assert storage.db.rows("SELECT * FROM executions") == before


def test_what_was_erased_is_in_no_byte_of_the_file_and_its_log(
    tmp_path: Path, clock: ManualClock
) -> None:
    """S27: neither in a free page, nor in the log."""
    path = tmp_path / "ys.db"
    storage = SqliteStorage(path, clock=clock, create=True)
    for n in range(30):
        end(storage, clock, f"e-{n}", entries=5)
    storage.executions.admit(workflow_id="w", execution_id="open", params={"text": "stays"})

    def anywhere(text: bytes) -> bool:
        return any(text in data for data in scene.contents(tmp_path, "ys.db*").values())

    assert anywhere(b"secret")
    pruned(storage)
    storage.upkeep.erase()

    assert not anywhere(b"secret")
    assert anywhere(b"stays")
    assert list(storage.upkeep.breaches()) == []
    storage.close()


def test_a_reader_that_keeps_the_log_is_told(tmp_path: Path, clock: ManualClock) -> None:
    """S27: what may still be there is not said to be gone."""
    path = tmp_path / "ys.db"
    storage = SqliteStorage(path, clock=clock, create=True, busy_timeout_ms=20)
    end(storage, clock, "done")
    reader = SqliteStorage(path, clock=clock, readonly=True)

    with reader.atomic():
        reader.reader.counts()
        pruned(storage)
        with pytest.raises(DatabaseBusy, match="log"):
            storage.upkeep.erase()

    storage.upkeep.erase()
    assert all(b"secret" not in data for data in scene.contents(tmp_path, "ys.db*").values())
    reader.close()
    storage.close()
