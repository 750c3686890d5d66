"""The group-commit writer: shared commits, single failures, trouble, commits of unknown fate."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.storage.faulty_vfs import broken, faulty_disk, full
from tests.storage.kit import admit, claim_one, entry, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import (
    CommitUnknown,
    CorruptFile,
    DatabaseBusy,
    DiskFull,
    ExecutionIdConflict,
    NoDatabase,
    StaleDelivery,
    StorageError,
)
from yieldstar_cli.model import Completed, Round
from yieldstar_cli.storage.contract import Storage
from yieldstar_cli.storage.sqlite.inline_writer import InlineWriter
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.storage.sqlite.writer import GroupWriter

#: No test waits this long unless it fails.
PATIENCE_S = 30


class Loop:
    """The event loop of these tests: what is posted runs when the test says so."""

    def __init__(self) -> None:
        self.posted: queue.Queue[Callable[[], None]] = queue.Queue()
        self.answers: list[tuple[Any, BaseException | None]] = []
        self.turns = 0

    def reply(self, value: Any, error: BaseException | None) -> None:
        self.answers.append((value, error))

    def take(self, count: int) -> list[tuple[Any, BaseException | None]]:
        """Run what is posted until `count` replies have come; those."""
        while len(self.answers) < count:
            self.posted.get(timeout=PATIENCE_S)()
            self.turns += 1
        taken, self.answers = self.answers[:count], self.answers[count:]
        return taken


class Trouble:
    """What the writer said about trouble."""

    def __init__(self) -> None:
        self.heard: queue.Queue[BaseException | None] = queue.Queue()

    def __call__(self, error: BaseException | None) -> None:
        self.heard.put(error)

    def next(self) -> BaseException | None:
        return self.heard.get(timeout=PATIENCE_S)


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def trouble() -> Trouble:
    return Trouble()


@pytest.fixture
def worker(storage: SqliteStorage, clock: ManualClock) -> int:
    return new_worker(storage, clock.now_ms())


@pytest.fixture
def writer(
    db_path: Path, clock: ManualClock, loop: Loop, trouble: Trouble, worker: int
) -> Iterator[GroupWriter]:
    made = GroupWriter(
        lambda: SqliteStorage(db_path, clock=clock, busy_timeout_ms=5),
        loop.posted.put,
        worker=worker,
        on_trouble=trouble,
        full_pauses_s=(0.001,),
    )
    yield made
    made.close()


def admitting(execution_id: str) -> Callable[[Storage], str]:
    return lambda s: s.executions.admit(workflow_id="w", execution_id=execution_id).execution_id


def batches(storage: SqliteStorage) -> int:
    return int(storage.db.rows("SELECT batch FROM workers WHERE n = 1")[0][0])


def held_back(storage: SqliteStorage, writer: GroupWriter, loop: Loop, count: int) -> None:
    """Let `count` admissions pile up behind another's transaction, so that they share one."""
    with storage.atomic():
        writer.submit(admitting("first"), loop.reply)
        for n in range(count):
            writer.submit(admitting(f"e-{n}"), loop.reply)


def test_what_waits_shares_one_commit(
    storage: SqliteStorage, writer: GroupWriter, loop: Loop
) -> None:
    """design, Writing: many requests, few commits, one call to the loop for each batch."""
    held_back(storage, writer, loop, 200)

    answers = loop.take(201)

    assert [value for value, _ in answers] == ["first", *(f"e-{n}" for n in range(200))]
    assert all(error is None for _, error in answers)
    assert batches(storage) <= 3
    assert loop.turns <= 3
    assert storage.reader.counts() == {"admitted": 201}


def test_an_answer_comes_after_its_commit(
    storage: SqliteStorage, writer: GroupWriter, loop: Loop
) -> None:
    """spec E1, R2: what was answered can be read by any other connection."""
    for n in range(20):
        writer.submit(admitting(f"e-{n}"), loop.reply)
        loop.take(1)
        assert storage.executions.get(f"e-{n}") is not None


def test_one_refusal_fails_alone(storage: SqliteStorage, writer: GroupWriter, loop: Loop) -> None:
    """contract, Writer: only its own changes are undone, its error is handed to its reply."""
    admit(storage, "e-3")

    held_back(storage, writer, loop, 6)
    answers = loop.take(7)

    assert [type(error) for _, error in answers if error] == [ExecutionIdConflict]
    assert answers[4][1] is not None
    assert storage.reader.counts() == {"admitted": 7}


def test_a_request_that_fails_half_way_leaves_nothing(
    storage: SqliteStorage, writer: GroupWriter, loop: Loop
) -> None:
    """contract, Writer: also when it had changed something before it raised."""

    def half(s: Storage) -> None:
        s.executions.admit(workflow_id="w", execution_id="half")
        raise ZeroDivisionError

    with storage.atomic():
        writer.submit(admitting("a"), loop.reply)
        writer.submit(half, loop.reply)
        writer.submit(admitting("b"), loop.reply)
    answers = loop.take(3)

    assert [value for value, _ in answers] == ["a", None, "b"]
    assert isinstance(answers[1][1], ZeroDivisionError)
    assert storage.executions.get("half") is None
    assert storage.reader.counts() == {"admitted": 2}


def test_a_request_that_hides_its_failure_is_undone_all_the_same(
    storage: SqliteStorage, writer: GroupWriter, loop: Loop
) -> None:
    """contract: a method is all or nothing, so a round half written never stands."""
    admit(storage, "x")

    def hides(s: Storage) -> str:
        delivery = claim_one(s, 10**14, 1)
        try:
            s.deliveries.record(delivery, Round(entries=(entry(5),)))
        except AssertionError:
            return "hidden"
        return "written"

    writer.submit(hides, loop.reply)
    writer.submit(admitting("y"), loop.reply)
    (_, error), (value, _) = loop.take(2)

    assert isinstance(error, StorageError)
    assert value == "y"
    assert storage.db.rows("SELECT count(*) FROM history") == [(0,)]


def test_a_dead_token_is_refused_in_its_batch(
    storage: SqliteStorage, writer: GroupWriter, loop: Loop, worker: int, clock: ManualClock
) -> None:
    """spec L2: fencing holds in a shared transaction as in one's own."""
    admit(storage, "a")
    dead = claim_one(storage, clock.now_ms(), worker)
    storage.executions.release(dead)
    live = claim_one(storage, clock.now_ms(), worker)

    with storage.atomic():
        for delivery in (dead, live):
            writer.submit(
                lambda s, d=delivery: s.executions.acknowledge(d, Completed("1")),  # type: ignore[misc]
                loop.reply,
            )
    answers = loop.take(2)

    assert isinstance(answers[0][1], StaleDelivery)
    assert answers[1] == (Completed("1"), None)


def test_reading_requests_cost_no_commit(
    storage: SqliteStorage, writer: GroupWriter, loop: Loop
) -> None:
    """case 91: a claim that finds nothing writes nothing, not even the batch's number."""
    seen = storage.changes()

    writer.submit(lambda s: s.executions.claim_due(0), loop.reply)

    assert loop.take(1) == [([], None)]
    assert storage.changes() == seen
    assert batches(storage) == 0


def test_a_busy_database_is_waited_for(
    storage: SqliteStorage, writer: GroupWriter, loop: Loop, trouble: Trouble
) -> None:
    """B22: another's long write transaction: tried again until it is through, said once it is."""
    with storage.atomic():
        writer.submit(admitting("a"), loop.reply)
        for _ in range(5):
            assert isinstance(trouble.next(), DatabaseBusy)

    assert loop.take(1) == [("a", None)]
    heard = []
    while not heard or heard[-1] is not None:
        heard.append(trouble.next())
    assert all(isinstance(error, DatabaseBusy | None) for error in heard)


def test_closing_while_busy_answers_with_the_error(
    storage: SqliteStorage, writer: GroupWriter, loop: Loop, trouble: Trouble
) -> None:
    """contract: close stops the trying; nobody is left without an answer."""
    with storage.atomic():
        writer.submit(admitting("a"), loop.reply)
        assert isinstance(trouble.next(), DatabaseBusy)
        writer.close()

    ((value, error),) = loop.take(1)
    assert value is None
    assert isinstance(error, DatabaseBusy)
    assert storage.executions.get("a") is None


def test_closing_commits_what_waits(
    storage: SqliteStorage, writer: GroupWriter, loop: Loop
) -> None:
    """contract: `close` commits what waits and stops; later requests are refused."""
    for n in range(50):
        writer.submit(admitting(f"e-{n}"), loop.reply)

    writer.close()
    writer.submit(admitting("late"), loop.reply)
    answers = loop.take(51)

    assert storage.reader.counts() == {"admitted": 50}
    assert isinstance(answers[-1][1], StorageError)
    assert [error for _, error in answers[:-1]] == [None] * 50


def test_a_reply_that_raises_keeps_no_other_from_its_answer(
    storage: SqliteStorage, writer: GroupWriter, loop: Loop
) -> None:
    """One bad callback in a batch must not lose the others' answers."""

    def bad(value: Any, error: BaseException | None) -> None:
        raise ZeroDivisionError

    with storage.atomic():
        writer.submit(admitting("a"), loop.reply)
        writer.submit(admitting("b"), bad)
        writer.submit(admitting("c"), loop.reply)

    deliveries = []
    while len(loop.answers) < 2:
        turn = loop.posted.get(timeout=PATIENCE_S)
        try:
            turn()
        except ZeroDivisionError:
            deliveries.append("raised")

    assert [value for value, _ in loop.answers] == ["a", "c"]
    assert deliveries == ["raised"]


def test_a_writer_that_cannot_open_says_so_at_once(tmp_path: Path, loop: Loop) -> None:
    """A worker must not start on a database that it cannot write."""
    with pytest.raises(NoDatabase):
        GroupWriter(lambda: SqliteStorage(tmp_path / "none.db"), loop.posted.put, worker=1)


def test_damage_stops_the_writer(
    storage: SqliteStorage, db_path: Path, clock: ManualClock, loop: Loop, trouble: Trouble
) -> None:
    """B28: damage is reported and ends the writer, instead of looping on one execution."""

    def strikes(_: Storage) -> None:
        raise CorruptFile("damaged")

    writer = GroupWriter(
        lambda: SqliteStorage(db_path, clock=clock), loop.posted.put, on_trouble=trouble
    )
    with storage.atomic():
        writer.submit(admitting("a"), loop.reply)
        writer.submit(strikes, loop.reply)
    answers = loop.take(2)

    assert [type(error) for _, error in answers][-1] is CorruptFile
    assert isinstance(trouble.next(), CorruptFile)
    writer.close()
    assert isinstance(writer.fatal, CorruptFile)
    writer.submit(admitting("later"), loop.reply)
    assert isinstance(loop.take(1)[0][1], CorruptFile)


# --- a disk that fails -------------------------------------------------------------------------


def on_faulty_disk(
    path: Path, clock: ManualClock, loop: Loop, trouble: Trouble, *, worker: int | None
) -> GroupWriter:
    return GroupWriter(
        lambda: SqliteStorage(path, clock=clock, create=True),
        loop.posted.put,
        worker=worker,
        on_trouble=trouble,
        full_pauses_s=(0.001,),
    )


def test_a_full_disk_is_waited_for(
    db_path: Path, clock: ManualClock, loop: Loop, trouble: Trouble
) -> None:
    """case 32: the worker lives, says so, and goes on once there is room."""
    with faulty_disk() as disk:
        writer = on_faulty_disk(db_path, clock, loop, trouble, worker=None)
        disk.arm(full, at=1, times=1_000_000)
        writer.submit(admitting("a"), loop.reply)
        for _ in range(4):
            assert isinstance(trouble.next(), DiskFull)
        disk.disarm()

        assert loop.take(1) == [("a", None)]
        writer.close()


@pytest.mark.parametrize(
    ("what", "times", "stands"), [("sync", 2, True), ("sync", 1, False), ("write", 1, False)]
)
def test_a_commit_of_unknown_fate_is_settled(
    db_path: Path,
    clock: ManualClock,
    loop: Loop,
    trouble: Trouble,
    what: str,
    times: int,
    stands: bool,
) -> None:
    """case 31; G9; design, Writing: reopened, synced, then decided by the batch's number.

    When the log could not be folded in at the close either, reopening finds the commit in it, and
    it stands; else it is gone and the batch is run once more. Each request is done exactly once.
    """
    ran = []

    def counting(s: Storage) -> str:
        ran.append("ran")
        return s.executions.admit(workflow_id="w", execution_id="b").execution_id

    with faulty_disk() as disk:
        first = SqliteStorage(db_path, clock=clock, create=True)
        worker = new_worker(first, clock.now_ms())
        writer = on_faulty_disk(db_path, clock, loop, trouble, worker=worker)
        writer.submit(admitting("a"), loop.reply)
        loop.take(1)
        first.close()
        disk.arm(broken, at=1, times=times, only=(what, "-wal"))
        disk.seen.clear()

        writer.submit(counting, loop.reply)

        assert loop.take(1) == [("b", None)]
        # What was read to decide was on the disk, not merely in the system's memory.
        assert "sync ys.db" in disk.seen
        assert isinstance(trouble.next(), CommitUnknown)
        assert trouble.next() is None
        writer.submit(admitting("c"), loop.reply)
        assert loop.take(1) == [("c", None)]
        writer.close()
        assert len(ran) == (1 if stands else 2)
        with_all = SqliteStorage(db_path, clock=clock)
        assert with_all.reader.counts() == {"admitted": 3}
        assert batches(with_all) == 3
        with_all.close()


@pytest.mark.parametrize("worker", [1, None])
def test_a_commit_that_cannot_be_settled_is_said_to_be_unknown(
    db_path: Path, clock: ManualClock, loop: Loop, trouble: Trouble, worker: int | None
) -> None:
    """V3; design, Writing: if it cannot be told, nobody is told anything else, and we stop."""
    with faulty_disk() as disk:
        first = SqliteStorage(db_path, clock=clock, create=True)
        new_worker(first, clock.now_ms())
        writer = on_faulty_disk(db_path, clock, loop, trouble, worker=worker)
        disk.arm(broken, at=1, times=1_000_000 if worker else 1, only=("sync", "-wal"))

        writer.submit(admitting("a"), loop.reply)

        ((value, error),) = loop.take(1)
        assert value is None
        assert isinstance(error, CommitUnknown)
        assert error.exit_code == 11
        disk.disarm()
        writer.submit(admitting("b"), loop.reply)
        assert isinstance(loop.take(1)[0][1], CommitUnknown)
        writer.close()
        assert isinstance(writer.fatal, CommitUnknown)
        first.close()


def test_many_threads_submit_and_each_gets_its_own_answer(
    storage: SqliteStorage, writer: GroupWriter, loop: Loop
) -> None:
    """B05: requests of eight threads; each is run once and answered once."""
    got: queue.Queue[tuple[str, Any, BaseException | None]] = queue.Queue()

    def submit(thread: int) -> None:
        for n in range(25):
            name = f"t{thread}-{n}"
            writer.submit(admitting(name), lambda v, e, name=name: got.put((name, v, e)))  # type: ignore[misc]

    threads = [threading.Thread(target=submit, args=(t,)) for t in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    while got.qsize() < 200:
        loop.posted.get(timeout=PATIENCE_S)()

    answers = [got.get() for _ in range(200)]
    assert all(value == name and error is None for name, value, error in answers)
    assert storage.reader.counts() == {"admitted": 200}


# --- without a thread ---------------------------------------------------------------------------


def test_the_inline_writer_commits_at_once_and_answers_by_post(
    storage: SqliteStorage, db_path: Path, clock: ManualClock, loop: Loop
) -> None:
    """The simulator's writer keeps the same promises, one transaction for each request."""
    writer = InlineWriter(storage, loop.posted.put)
    other = SqliteStorage(db_path, clock=clock)

    def half(s: Storage) -> None:
        s.executions.admit(workflow_id="w", execution_id="half")
        raise ZeroDivisionError

    writer.submit(admitting("a"), loop.reply)
    writer.submit(half, loop.reply)

    assert other.executions.get("a") is not None
    assert other.executions.get("half") is None
    assert loop.answers == []
    answers = loop.take(2)
    assert answers[0] == ("a", None)
    assert isinstance(answers[1][1], ZeroDivisionError)
    writer.close()
    other.close()
