"""The group writer over a disk that fails at every single operation, once or a few times."""

from __future__ import annotations

import queue
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.storage.faulty_vfs import broken, faulty_disk, full
from tests.storage.test_crashes import OPERATIONS, TABLES, opened
from yieldstar_cli.errors import CommitUnknown
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.storage.sqlite.writer import GroupWriter

PATIENCE_S = 30
#: The first operation registers the worker itself, before its writer can number batches.
WORK = OPERATIONS[1:]


def tables(storage: SqliteStorage) -> list[object]:
    """Everything but the workers' rows, which count batches."""
    assert storage.db.rows("PRAGMA integrity_check") == [("ok",)]
    return [storage.db.rows(f"SELECT * FROM {table}") for table in TABLES]


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> list[list[object]]:
    """What the file holds after 0, 1, 2 … operations, in a run without faults."""
    storage = opened(tmp_path_factory.mktemp("reference") / "ys.db")
    OPERATIONS[0](storage)
    found = [tables(storage)]
    for operation in WORK:
        operation(storage)
        found.append(tables(storage))
    storage.close()
    return found


def run(
    path: Path, fault: Callable[[str, str], None], at: int, times: int
) -> tuple[int, BaseException | None, int]:
    """Submit the work one by one; how many succeeded, the error that ended it, disk operations."""
    posted: queue.Queue[Callable[[], None]] = queue.Queue()
    with faulty_disk() as disk:
        first = opened(path)
        OPERATIONS[0](first)
        writer = GroupWriter(lambda: opened(path), posted.put, worker=1, full_pauses_s=(0.0001,))
        first.close()
        began = disk.count
        disk.arm(fault, at=at, times=times)
        answers: list[BaseException | None] = []

        def reply(value: Any, error: BaseException | None) -> None:
            answers.append(error)

        for operation in WORK:
            writer.submit(operation, reply)
            posted.get(timeout=PATIENCE_S)()
            if answers[-1] is not None:
                break
        used = disk.count - began
        disk.disarm()
        writer.close()
    error = answers[-1]
    return len(answers) - (error is not None), error, used


@pytest.mark.parametrize("fault", [full, broken], ids=["full", "broken"])
@pytest.mark.parametrize("times", [1, 2, 5])
def test_the_writer_does_each_request_once_whatever_fails(
    tmp_path: Path, states: list[list[object]], fault: Callable[[str, str], None], times: int
) -> None:
    """cases 31, 32; G9; invariant I21; design, Writing: waited out, settled, or said unknown.

    What was answered as done is done exactly once and in order; what was said to be unknown is
    one of the two; nothing is ever called failed.
    """
    _, _, points = run(tmp_path / "count.db", fault, 10**9, 1)
    unknown = 0
    for at in range(1, points + 1, 5):
        path = tmp_path / f"{at}.db"
        done, error, _ = run(path, fault, at, times)

        storage = opened(path)
        found = tables(storage)
        storage.close()

        if error is None:
            assert done == len(WORK)
            assert found == states[-1], f"fault at {at}"
        else:
            assert isinstance(error, CommitUnknown)
            assert found in states[done : done + 2], f"fault at {at}"
            unknown += 1
    if fault is full:
        assert unknown == 0
    if fault is broken and times == 1:
        assert unknown == 0
