"""Kills and disk errors at every single write: what was answered stands, nothing else half does.

Scenarios, run from a fixed chance and clock, so that the whole file's contents are known after
each of their operations.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.storage.faulty_vfs import Disk, broken, faulty_disk, full, killed
from tests.storage.kit import claim, entry, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.digests import digest_at
from yieldstar_cli.errors import CommitUnknown, DiskFull, YieldstarError
from yieldstar_cli.model import (
    Attempt,
    ChangeStore,
    Completed,
    Continued,
    Delivery,
    Entry,
    Failed,
    LogLine,
    OpenStore,
    Reading,
    Round,
    Send,
    Start,
    Suspended,
    Wait,
)
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

NOW = 1_000_000


class FixedChance:
    """The same seeds in every run."""

    def execution_suffix(self) -> str:
        return "00000000"

    def seed(self) -> bytes:
        return b"\1" * 16


def opened(path: Path) -> SqliteStorage:
    return SqliteStorage(path, create=True, clock=ManualClock(NOW), chance=FixedChance())


# --- the scenario ----------------------------------------------------------------------------


def first(storage: SqliteStorage) -> Delivery:
    return Delivery("a", 1, 1)


ROUND = Round(
    entries=(entry(0, at=NOW), entry(1, at=NOW)),
    attempts=(Attempt("pay", "step", 1, 1, 2, "error", '"x"', 3),),
    logs=(LogLine(0, NOW, 20, "paid"),),
    waits=(Wait("timer", "t", "10m", NOW, NOW + 50, "waiting"),),
    status_value='"half"',
)

Operation = Callable[[SqliteStorage], object]
OPERATIONS: tuple[Operation, ...] = (
    lambda s: new_worker(s, NOW),
    lambda s: s.executions.admit(workflow_id="w", params={"n": 1}, execution_id="a"),
    lambda s: s.executions.admit(workflow_id="w", execution_id="b", at=NOW + 900),
    lambda s: s.executions.request_wake("b", NOW + 800),
    lambda s: claim(s, NOW, 1),
    lambda s: s.deliveries.record(Delivery("a", 1, 1), ROUND),
    lambda s: s.executions.request_wake("a", NOW),
    lambda s: s.executions.acknowledge(Delivery("a", 1, 1), Suspended(NOW + 70)),
    lambda s: claim(s, NOW, 1),
    lambda s: s.executions.release(Delivery("a", 2, 1), problem=("X", "y")),
    lambda s: claim(s, NOW, 1),
    lambda s: s.workers.bury(1, "died", {1: NOW}, max_deaths=5),
    lambda s: s.executions.wake("a"),
    lambda s: s.executions.claim_due(NOW),
    lambda s: s.deliveries.record(
        Delivery("a", 4, 1), Round(entries=(entry(2, at=NOW),), outcome=Completed("1"))
    ),
)

AWAITS = Wait("child", "c1", "", NOW, None, "waiting", target="p/c1")
STARTS = tuple(Start(key, NOW, f"p/{key}", "w", 1, "1") for key in ("c1", "c2", "c3"))
P1, P2, C1 = Delivery("p", 1, 1), Delivery("p", 2, 1), Delivery("p/c1", 1, 2)
P3 = Delivery("p", 3, 1)
ENTRY = Entry(2, "child", "c1", True, "1", NOW)

#: Children, their ends, continue-as-new, pauses and cancellations.
FAMILY: tuple[Operation, ...] = (
    lambda s: new_worker(s, NOW),
    lambda s: s.inbox.send("p/c1", "q", "1", ttl_ms=500),
    lambda s: s.executions.admit(workflow_id="w", execution_id="p"),
    lambda s: claim(s, NOW, 1),
    # A child begins with the entry of its start, and takes what was sent ahead to it.
    lambda s: s.deliveries.record(P1, Round(actions=STARTS[:2], waits=(AWAITS,))),
    lambda s: s.deliveries.record(P1, Round(outcome=Suspended(NOW + 70))),
    lambda s: claim(s, NOW, 1, only="p/c1"),
    # A child ends and its parent is due.
    lambda s: s.deliveries.record(C1, Round(consumed=(1,), outcome=Completed("1"))),
    lambda s: claim(s, NOW, 1, only="p"),
    lambda s: s.deliveries.record(
        P2,
        Round(
            entries=(ENTRY,),
            logs=(LogLine(0, NOW, 20, "paid"),),
            unwait=(("child", "c1"),),
            actions=(STARTS[2], Send("say", NOW, "p", "q", "2", 500)),
            outcome=Continued("2", 1),
        ),
    ),
    lambda s: claim(s, NOW, 1, only="p"),
    lambda s: claim(s, NOW, 1, only="p/c2"),
    lambda s: s.steering.pause(workflow_id="w", by="me"),
    lambda s: s.steering.resume(workflow_id="w"),
    # Its end asks one child to cancel, and ends another that never began.
    lambda s: s.deliveries.record(P3, Round(outcome=Failed('"e"'))),
    lambda s: s.steering.cancel("p/c2", now=True),
)

W1, W2, W3, A = (Delivery(name, 1, n) for n, name in enumerate(("w1", "w2", "w3", "a"), 1))
#: That of every store here, since chance is fixed.
INSTANCE = FixedChance().seed().hex()


def reads(left: int) -> Wait:
    """The wait of who has found so many left in the store."""
    return Wait(
        *("store-when", "stock", "", NOW, None, "waiting"),
        store=("stock", "main"),
        read=(Reading(("left",), digest_at({"left": left}, ("left",))),),
        instance=INSTANCE,
    )


def writes(version: int, state: str | None, step_key: str) -> ChangeStore:
    """A change of the one store that others wait for."""
    kind = "store-delete" if state is None else "store-update"
    return ChangeStore(step_key, NOW, kind, "stock", "main", INSTANCE, version, state)


def admit_and_claim(storage: SqliteStorage, *names: str) -> None:
    """Some executions, each under a delivery of the one worker."""
    with storage.atomic():
        for name in names:
            storage.executions.admit(workflow_id="w", execution_id=name)
        claim(storage, NOW, 1)


#: Stores: who is suspended on a state, who has a delivery open, and the writes that wake them.
STORES: tuple[Operation, ...] = (
    lambda s: new_worker(s, NOW),
    lambda s: s.stores.put("stock", "main", '{"left":3}'),
    lambda s: admit_and_claim(s, "w1", "w2", "w3", "a"),
    lambda s: s.deliveries.record(W1, Round(waits=(reads(3),), outcome=Suspended())),
    lambda s: s.deliveries.record(W2, Round(waits=(reads(3),), outcome=Suspended(NOW + 70))),
    lambda s: s.deliveries.record(W3, Round(waits=(reads(3),))),
    # One commit: the state, its entry, the wakes of two and the word to the third (S3).
    lambda s: s.deliveries.record(
        A,
        Round(
            entries=(entry(0, at=NOW),),
            actions=(writes(0, '{"left":2}', "u"), OpenStore("o", NOW, "log", "a", "[]")),
        ),
    ),
    # A change that comes too late, between two that do not.
    lambda s: s.deliveries.record(
        A,
        Round(
            actions=(
                OpenStore("o2", NOW, "log", "b", "[]"),
                writes(0, '{"left":1}', "late"),
                Send("say", NOW, "w1", "q", "2", 500),
            ),
        ),
    ),
    lambda s: s.deliveries.record(W3, Round(waits=(reads(2),))),
    lambda s: claim(s, NOW, 1, only="w1"),
    lambda s: s.deliveries.record(Delivery("w1", 2, 1), Round(waits=(reads(2),))),
    lambda s: s.stores.put("stock", "main", '{"left":3}', version=1),
    lambda s: s.deliveries.record(
        A, Round(actions=(writes(2, None, "d"),), outcome=Completed("1"))
    ),
    lambda s: s.stores.put("stock", "main", "0"),
)
SCENARIOS = {"one": OPERATIONS, "family": FAMILY, "stores": STORES}

TABLES = (
    *("executions", "history", "retries", "attempts", "waits", "logs", "lost_deliveries"),
    *("messages", "incarnations", "pauses", "stores"),
)


def contents(storage: SqliteStorage) -> list[object]:
    """Everything in the file, in a form that can be compared."""
    assert storage.db.rows("PRAGMA integrity_check") == [("ok",)]
    return [storage.db.rows(f"SELECT * FROM {table}") for table in (*TABLES, "workers")]


@pytest.fixture(scope="module", params=SCENARIOS)
def operations(request: pytest.FixtureRequest) -> tuple[Operation, ...]:
    """What is done to the file, one after the other."""
    return SCENARIOS[request.param]


@pytest.fixture(scope="module")
def states(
    tmp_path_factory: pytest.TempPathFactory, operations: tuple[Operation, ...]
) -> list[list[object]]:
    """What the file holds after 0, 1, 2 … operations, in a run without faults."""
    storage = opened(tmp_path_factory.mktemp("reference") / "ys.db")
    found = [contents(storage)]
    for operation in operations:
        operation(storage)
        found.append(contents(storage))
    storage.close()
    assert all(before != after for before, after in itertools.pairwise(found))
    return found


def disk_operations(path: Path, operations: tuple[Operation, ...]) -> int:
    """How many operations reach the disk in a run without faults."""
    with faulty_disk() as disk:
        storage = opened(path)
        for operation in operations:
            operation(storage)
        storage.close()
        return disk.count


# --- the process is killed ------------------------------------------------------------------------


def print_dot(write: int) -> None:
    os.write(write, b".")


def in_a_child(
    work: Callable[[Callable[[], None]], None], operations: tuple[Operation, ...]
) -> int:
    """Run `work` in a process of its own, which may die; how often it answered."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        work(lambda: print_dot(write))
        os._exit(0)
    os.close(write)
    answered = 0
    while chunk := os.read(read, 100):
        answered += len(chunk)
    os.close(read)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 99)
    assert code == 99 or answered == len(operations)
    return answered


def run_until_killed(path: Path, at: int, operations: tuple[Operation, ...]) -> int:
    """In a process of its own, die before the `at`th disk operation; how many were answered."""

    def work(answer: Callable[[], None]) -> None:
        with faulty_disk() as disk:
            disk.arm(killed, at=at)
            storage = opened(path)
            for operation in operations:
                operation(storage)
                answer()
            storage.close()

    return in_a_child(work, operations)


def run_until_statement(path: Path, at: int, operations: tuple[Operation, ...]) -> int:
    """In a process of its own, die before the `at`th statement; how many were answered."""

    def work(answer: Callable[[], None]) -> None:
        seen = 0

        def count(*_: object) -> bool:
            nonlocal seen
            seen += 1
            if seen == at:
                os._exit(99)
            return True

        storage = opened(path)
        storage.db.connection.exec_trace = count
        for operation in operations:
            operation(storage)
            answer()
        storage.close()

    return in_a_child(work, operations)


def test_a_kill_before_every_statement_leaves_what_was_answered(
    tmp_path: Path, states: list[list[object]], operations: tuple[Operation, ...]
) -> None:
    """cases 25, 69, 86, 186, 196, 234; B09: within a transaction nothing has happened yet."""
    at, answered = 0, 0
    while answered < len(operations):
        at += 1
        path = tmp_path / f"{at}.db"
        answered = run_until_statement(path, at, operations)
        storage = opened(path)

        assert contents(storage) == states[answered], f"killed before statement {at}"

        storage.close()
    assert at > 3 * len(operations)


def test_a_kill_at_every_write_leaves_what_was_answered(
    tmp_path: Path, states: list[list[object]], operations: tuple[Operation, ...]
) -> None:
    """cases 25, 29, 30, 69, 86, 101, 186, 196, 234; B09; E1, E13; I1, I2: all or nothing.

    After the kill the file holds exactly what was answered, or that and the one operation that
    was under way.
    """
    points = disk_operations(tmp_path / "count.db", operations)
    assert points > 60
    under_way_stood = 0
    # From the first write of the file's own making on, up to the last one at the close.
    for at in range(1, points + 1):
        path = tmp_path / f"{at}.db"
        answered = run_until_killed(path, at, operations)

        storage = opened(path)
        found = contents(storage)
        storage.close()

        allowed = states[answered : answered + 2]
        assert found in allowed, f"killed before disk operation {at}, {answered} were answered"
        under_way_stood += found != allowed[0]
        path.unlink()
    # Both fates of an operation that was under way were met, or the sweep proved little.
    assert under_way_stood > 0


# --- the disk fails -----------------------------------------------------------------------------


def run_with_fault(
    path: Path,
    arm: Callable[[Disk], None],
    states: list[list[object]],
    operations: tuple[Operation, ...],
) -> list[type[YieldstarError]]:
    """Run the scenario over a failing disk, asking each operation again after its error.

    After every error the file is opened anew: it holds what the error's words say.
    """
    errors: list[type[YieldstarError]] = []
    with faulty_disk() as disk:
        storage = opened(path)
        arm(disk)
        done = 0
        while done < len(operations):
            try:
                operations[done](storage)
            except YieldstarError as error:
                errors.append(type(error))
            else:
                done += 1
                continue
            disk.disarm()
            storage.close()
            storage = opened(path)
            found = contents(storage)
            # Refused means that nothing happened; unknown, that it may have.
            unknown = errors[-1] is CommitUnknown
            assert found in states[done : done + (2 if unknown else 1)], errors[-1]
            done = states.index(found)
        assert contents(storage) == states[-1]
        disk.disarm()
        storage.close()
    return errors


@pytest.mark.parametrize("fault", [full, broken], ids=["full", "broken"])
def test_a_disk_error_at_every_write_is_told_honestly(
    tmp_path: Path,
    states: list[list[object]],
    operations: tuple[Operation, ...],
    fault: Callable[[str, str], None],
) -> None:
    """cases 31, 32, 68; G9; V3; invariant I21: refused left no trace, unknown is one of the two.

    A full disk is never called unknown, an I/O error in the commit never failed.
    """
    points = disk_operations(tmp_path / "count.db", operations) - disk_operations_of_opening(
        tmp_path
    )
    met: set[type[YieldstarError]] = set()
    for at in range(1, points, 2):
        path = tmp_path / f"{at}.db"
        met |= set(
            run_with_fault(path, lambda disk, at=at: disk.arm(fault, at=at), states, operations)  # type: ignore[misc]
        )
        path.unlink()

    assert met == {DiskFull if fault is full else CommitUnknown}


def disk_operations_of_opening(folder: Path) -> int:
    with faulty_disk() as disk:
        opened(folder / "opening.db").close()
        return disk.count


def test_an_error_in_the_sync_leaves_the_commit_open(
    db_path: Path, states: list[list[object]], operations: tuple[Operation, ...]
) -> None:
    """case 31; C.2: after a failed fsync the row is there when the file is opened again."""
    errors = run_with_fault(
        db_path, lambda disk: disk.arm(broken, at=2, only=("sync", "-wal")), states, operations
    )

    assert errors == [CommitUnknown]


def test_no_room_is_said_and_passes(db_path: Path) -> None:
    """case 32: refused with DISK_FULL, no record; the same ID is accepted once there is room."""
    with faulty_disk() as disk:
        storage = opened(db_path)
        disk.arm(full, at=1, times=10_000)
        for _ in range(3):
            with pytest.raises(DiskFull) as refused:
                storage.executions.admit(workflow_id="w", execution_id="a")
            assert refused.value.exit_code == 10
            assert storage.executions.get("a") is None
        disk.disarm()

        assert storage.executions.admit(workflow_id="w", execution_id="a").execution_id == "a"
        storage.close()


def test_what_fails_first_is_the_cause(db_path: Path) -> None:
    """C.2: no error of the undoing hides the one that counts."""
    with faulty_disk() as disk:
        storage = opened(db_path)
        disk.arm(broken, at=1, times=10_000)

        with pytest.raises(CommitUnknown) as unknown:
            storage.executions.admit(workflow_id="w")

        assert type(unknown.value.__cause__).__name__ == "IOError"
        assert not storage.db.in_transaction
        disk.disarm()
        storage.close()
