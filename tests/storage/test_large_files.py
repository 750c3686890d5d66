"""What a question costs does not grow with what it does not ask for (K3): counted, not timed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from tests.storage.kit import WORKFLOWS, admit, claim, claim_one, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.model import Completed, Failed, Outcome, Round, Suspended, Wait
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

FEW, MANY = 100, 1_000
#: SQLite's virtual machine is asked after so many of its steps.
EVERY = 20
FAR = 10**13

Question = Callable[[SqliteStorage], object]


def filled(path: Path, count: int, outcome: Outcome) -> SqliteStorage:
    """A file with `count` executions that ended so, beside one of every other state."""
    clock = ManualClock(1_000_000)
    storage = SqliteStorage(path, clock=clock, create=True)
    worker = new_worker(storage, clock.now_ms())
    with storage.atomic():
        for number in range(count):
            admit(storage, f"many-{number:06d}")
        for claimed in claim(storage, clock.now_ms(), worker, limit=count):
            storage.executions.acknowledge(claimed.delivery, outcome)
    clock.advance(1_000)
    ends: dict[str, Outcome | None] = {
        "done": Completed("1"),
        "broken": Failed('"e"'),
        "asleep": Suspended(FAR),
        "asks": Suspended(FAR + 1),
        "run": None,
    }
    for name, ended in ends.items():
        admit(storage, name)
        delivery = claim_one(storage, clock.now_ms(), worker)
        if ended is not None:
            waits = (_message(clock.now_ms()),) if name == "asks" else ()
            storage.deliveries.record(delivery, Round(waits=waits, outcome=ended))
    clock.advance(1_000)
    storage.executions.admit(workflow_id="other", execution_id="new")
    return storage


def _message(now: int) -> Wait:
    return Wait("message", "decision", "", now, None, "waiting", 1, queue="decision")


def steps(storage: SqliteStorage, question: Question) -> int:
    """How many steps of SQLite's machine it takes, to within `EVERY`, once it was prepared."""
    question(storage)
    ticks = [0]

    def tick() -> bool:
        ticks[0] += 1
        return False

    storage.db.connection.set_progress_handler(tick, EVERY)
    question(storage)
    storage.db.connection.set_progress_handler(None, EVERY)
    return ticks[0] * EVERY


def due(*, suspects: bool) -> Question:
    """A worker's question before it sleeps."""
    return lambda storage: storage.deliveries.next_due(WORKFLOWS, suspects=suspects, worker=1)


@pytest.mark.parametrize(
    "question",
    [
        pytest.param(lambda s: s.reader.find(limit=5), id="the latest"),
        pytest.param(lambda s: s.reader.find(statuses=["failed"]), id="failed"),
        pytest.param(lambda s: s.reader.find(statuses=["cancelled"]), id="cancelled"),
        pytest.param(lambda s: s.reader.find(statuses=["suspended"]), id="suspended"),
        pytest.param(lambda s: s.reader.find(running=True), id="running"),
        pytest.param(lambda s: s.reader.find(waiting=True), id="waiting"),
        pytest.param(lambda s: s.reader.find(due_by=FAR), id="due"),
        pytest.param(lambda s: s.reader.find(awaiting="decision"), id="awaiting"),
        pytest.param(lambda s: s.reader.find(sort="admitted", limit=1), id="the last admitted"),
        pytest.param(lambda s: s.executions.get("asks"), id="one by its ID"),
        pytest.param(due(suspects=False), id="the next due"),
        pytest.param(due(suspects=True), id="the next suspect"),
        pytest.param(lambda s: s.executions.admit(workflow_id="w"), id="admission"),
    ],
)
def test_finished_executions_cost_nothing(tmp_path: Path, question: Question) -> None:
    """case 327; spec E5: ten times as many that have ended change nothing."""
    few, many = (filled(tmp_path / f"{count}.db", count, Completed("1")) for count in (FEW, MANY))

    assert steps(many, question) <= 1.1 * steps(few, question) + 2 * EVERY


@pytest.mark.parametrize(
    "question",
    [
        pytest.param(lambda s: s.reader.find(limit=5), id="the latest"),
        pytest.param(lambda s: s.reader.find(statuses=["failed"]), id="failed"),
        pytest.param(lambda s: s.reader.find(statuses=["completed"]), id="completed"),
        pytest.param(lambda s: s.reader.find(running=True), id="running"),
        pytest.param(lambda s: s.reader.find(awaiting="decision"), id="awaiting"),
        pytest.param(lambda s: s.executions.get("asks"), id="one by its ID"),
        pytest.param(due(suspects=False), id="the next due"),
        pytest.param(due(suspects=True), id="the next suspect"),
        pytest.param(lambda s: s.executions.request_wake("asks", FAR - 1), id="a wake"),
    ],
)
def test_sleepers_cost_nothing(tmp_path: Path, question: Question) -> None:
    """spec K3, E7: nor do ten times as many that sleep."""
    few, many = (
        filled(tmp_path / f"{count}.db", count, Suspended(FAR + 2)) for count in (FEW, MANY)
    )

    assert steps(many, question) <= 1.1 * steps(few, question) + 2 * EVERY


STATUSES: tuple[list[str] | None, ...] = (
    None,
    ["failed"],
    ["failed", "cancelled"],
    ["completed", "failed"],
    ["admitted", "failed"],
    ["suspended"],
)


def test_every_filter_answers_what_a_look_at_everything_does(tmp_path: Path) -> None:
    """case 327: from whatever index it is read, in pages or at once."""
    storage = filled(tmp_path / "ys.db", 30, Completed("1"))
    admit(storage, "gone")
    storage.steering.cancel("gone", now=True)
    everything = storage.reader.find(limit=None)

    for statuses, running, waiting, due_by, awaiting in product(
        STATUSES, (False, True), (False, True), (None, FAR), (None, "decision")
    ):
        wanted = [
            record.execution_id
            for record in everything
            if (statuses is None or record.status.value in statuses)
            and (not running or record.delivery is not None)
            and (not waiting or (record.status.value == "suspended" and record.delivery is None))
            and (due_by is None or _due(record.due_at, record.covered_due_at, due_by))
            and (awaiting is None or record.execution_id == "asks")
        ]
        found: list[str] = []
        while page := storage.reader.find(
            statuses=statuses,
            running=running,
            waiting=waiting,
            due_by=due_by,
            awaiting=awaiting,
            limit=3,
            offset=len(found),
        ):
            found += [record.execution_id for record in page]
        assert found == wanted


def _due(due_at: int | None, covered_due_at: int | None, by: int) -> bool:
    moment = covered_due_at if due_at is None else due_at
    return moment is not None and moment <= by


def test_counts_are_those_of_the_records(tmp_path: Path) -> None:
    """case 327: what has completed is not counted one by one, and is the rest all the same."""
    storage = filled(tmp_path / "ys.db", 30, Completed("1"))
    admit(storage, "gone")
    storage.steering.cancel("gone", now=True)

    counted = storage.reader.counts()

    everything = [record.status.value for record in storage.reader.find(limit=None)]
    assert counted == {status: everything.count(status) for status in sorted(set(everything))}
    assert storage.reader.counts("other") == {"admitted": 1}
