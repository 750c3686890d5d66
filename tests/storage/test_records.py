"""What a record says of parent, cancellation, pause and needs; and who waits on which queue."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from tests.storage.kit import WORKFLOWS, admit, claim_one, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.model import (
    CancelRequested,
    Completed,
    ExecutionRecord,
    ModuleInfo,
    Paused,
    Round,
    Start,
    Status,
    Suspended,
    Wait,
    WorkflowInfo,
)
from yieldstar_cli.storage.sqlite.storage import SqliteStorage


def got(storage: SqliteStorage, execution_id: str) -> ExecutionRecord:
    """The record as `get` and as the list tell it: the same."""
    record = storage.executions.get(execution_id)
    assert record is not None
    assert record in storage.reader.find(limit=None)
    return record


def begun(storage: SqliteStorage, clock: ManualClock, execution_id: str, changes: Round) -> int:
    """Admit an execution and record one round of its first delivery; its number."""
    admit(storage, execution_id)
    worker = new_worker(storage, clock.now_ms())
    delivery = claim_one(storage, clock.now_ms(), worker, only=execution_id)
    storage.deliveries.record(delivery, changes)
    return delivery.number


def start(execution_id: str, *, detached: bool = False) -> Start:
    """The start of a child."""
    return Start(execution_id, 5, execution_id, "w", 1, "{}", detached)


def test_a_record_names_who_started_it(storage: SqliteStorage, clock: ManualClock) -> None:
    """spec C4: its parent by ID, and whether it goes on without it; nobody for the others."""
    begun(storage, clock, "p", Round(actions=(start("c"), start("d", detached=True))))

    child, detached, parent = (got(storage, name) for name in "cdp")

    assert (child.parent_execution_id, child.detached) == ("p", False)
    assert (detached.parent_execution_id, detached.detached) == ("p", True)
    assert (parent.parent_execution_id, parent.detached) == (None, False)


def test_a_record_says_who_asked_it_to_cancel_and_whether_it_knows(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec C6: when and why; told once a delivery has recorded it; kept after the end."""
    begun(storage, clock, "a", Round(outcome=Suspended()))
    assert got(storage, "a").cancel is None

    storage.steering.cancel("a", reason="enough")
    asked = got(storage, "a").cancel
    delivery = claim_one(storage, clock.now_ms(), 1)
    storage.deliveries.record(delivery, Round(told=True))
    told = got(storage, "a").cancel
    storage.deliveries.record(delivery, Round(outcome=Completed()))

    assert asked == CancelRequested(clock.now_ms(), "enough", told=False)
    assert told == got(storage, "a").cancel == CancelRequested(clock.now_ms(), "enough", told=True)


def test_the_nearest_mark_of_a_pause_is_the_one_that_is_told(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec E14: its own, else its workflow's, else the file's; another's never."""
    admit(storage, "a")
    now = clock.now_ms()
    marks = []
    for scope in ({}, {"workflow_id": "other"}, {"workflow_id": "w"}, {"execution_id": "a"}):
        storage.steering.pause(**scope, by="me", reason="why")
        marks.append(got(storage, "a").paused)
    for scope in ({"execution_id": "a"}, {"workflow_id": "w"}, {}):
        storage.steering.resume(**scope)
        marks.append(got(storage, "a").paused)

    everything = Paused("all", "me", now, "why")
    workflow = Paused("workflow", "me", now, "why", "w")
    own = Paused("execution", "me", now, "why")
    assert marks == [everything, everything, workflow, own, workflow, everything, None]


def test_what_has_ended_is_not_paused(storage: SqliteStorage, clock: ManualClock) -> None:
    """spec E14, E10: a mark keeps claims away, and there are none any more."""
    begun(storage, clock, "a", Round(outcome=Completed()))

    storage.steering.pause(by="me")
    storage.steering.pause(workflow_id="w", by="me")

    assert got(storage, "a").paused is None


def test_a_record_says_what_it_needs(storage: SqliteStorage, clock: ManualClock) -> None:
    """spec O5: the tags of its last suspension, in their order."""
    begun(storage, clock, "a", Round(needs=("gpu", "big"), outcome=Suspended()))
    begun(storage, clock, "b", Round(outcome=Suspended()))

    assert got(storage, "a").needs == ("gpu", "big")
    assert got(storage, "b").needs == ()


@pytest.mark.parametrize("damage", ["", "{", "7", "null", '{"by": 1}', "[" * 5_000])
def test_damaged_notes_keep_nobody_from_the_record(storage: SqliteStorage, damage: str) -> None:
    """B28, spec V3: a mark still counts when its words are gone, and the rest is told as ever."""
    number = admit(storage, "a")
    storage.db.rows(
        "UPDATE executions SET paused = :x, needs = :x, needs_since = 1 WHERE n = :n",
        {"x": damage, "n": number},
    )

    record = got(storage, "a")

    assert record.paused == Paused("execution", "", 0, "what was recorded here no longer reads")
    assert record.needs == ()
    assert record.status == Status.ADMITTED


def test_a_list_without_payloads_tells_the_same_of_everything_else(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """The list leaves out what may be large and nothing more."""
    begun(storage, clock, "p", Round(actions=(start("c"),)))
    storage.steering.pause(workflow_id="w", by="me")

    whole = storage.reader.find(limit=None)
    light = storage.reader.find(limit=None, payloads=False)

    for record, brief in zip(whole, light, strict=True):
        assert brief.parent_execution_id == record.parent_execution_id
        assert brief.paused == record.paused is not None


@pytest.fixture
def readers(storage: SqliteStorage, clock: ManualClock) -> SqliteStorage:
    """Executions that wait on queues: two on one, one on another, one ended, one on a timer."""

    def waits(*queues: str | None) -> tuple[Wait, ...]:
        return tuple(
            Wait("message", f"k-{n}", "", 0, None, "waiting", position=n, queue=queue)
            for n, queue in enumerate(queues)
        )

    for name, queues in {"a": ("x",), "b": ("y", "x"), "c": ("y",), "d": (None,)}.items():
        clock.advance(1)
        begun(storage, clock, name, Round(waits=waits(*queues), outcome=Suspended()))
    clock.advance(1)
    begun(storage, clock, "run", Round(waits=waits("x")))
    begun(storage, clock, "e", Round(waits=waits("x"), outcome=Completed()))
    return storage


def test_who_waits_on_a_queue_can_be_found(readers: SqliteStorage) -> None:
    """spec M1: open executions only, each once, in the list's usual order and with its filters."""

    def found(queue: str, **filters: object) -> list[str]:
        records = readers.reader.find(awaiting=queue, **filters)  # type: ignore[arg-type]
        return [record.execution_id for record in records]

    assert found("x") == ["run", "b", "a"]
    assert found("y") == ["c", "b"]
    assert found("z") == []
    assert found("x", waiting=True) == ["b", "a"]
    assert found("x", limit=1) == ["run"]
    assert found("x", limit=1, offset=2) == ["a"]
    assert found("x", reverse=True) == ["a", "b", "run"]
    assert found("x", workflow_id="other") == []


def test_a_worker_says_which_tags_it_was_started_with(
    storage: SqliteStorage, clock: ManualClock
) -> None:
    """spec O5: beside what it has loaded; none until it says so."""
    worker = new_worker(storage, clock.now_ms())
    assert storage.workers.all()[0].tags == ()

    storage.workers.describe(worker, WORKFLOWS, [("b.py", "bad")], ["gpu", "a b"])
    (row,) = storage.workers.all()
    storage.workers.describe(worker, WORKFLOWS, [])

    assert (row.tags, row.workflows, row.broken) == (
        ("gpu", "a b"),
        tuple(WORKFLOWS),
        (("b.py", "bad"),),
    )
    assert storage.workers.all()[0].tags == ()


def test_the_catalog_keeps_tags_and_reads_what_was_cached_without(storage: SqliteStorage) -> None:
    """spec K4, K7: a cache written by an older version is still read."""
    info = WorkflowInfo("w", 1, "a.py", 7, "Does it.", "{}", "{}", "null", tags=("gpu",))
    storage.catalog.put("/workflows", [ModuleInfo("a.py", 5, 10, None, (info,))])
    assert storage.catalog.modules("/workflows")[0].workflows == (info,)

    older = msgspec.to_builtins(info)
    del older["tags"]
    storage.db.rows(
        "UPDATE modules SET workflows = :old WHERE path = 'a.py'",
        {"old": msgspec.json.encode([older]).decode()},
    )

    (module,) = storage.catalog.modules("/workflows")
    assert module.workflows == (replace(info, tags=()),)
