"""Killed at any write, sync or truncation: the file is sound, and the next call finishes it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import effort
from tests.storage.faulty_vfs import broken, faulty_disk, full, killed
from tests.upkeep import scene
from tests.upkeep.test_pruning import end
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import CommitUnknown, YieldstarError
from yieldstar_cli.restoring import restore
from yieldstar_cli.storage.sqlite import pruning
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.storage.upkeep import Chosen

#: Long after everything in the scene.
LATER = 2_000_000_000_000
#: Only each so-manyth disk operation is deadly, but under `make torture`.
EACH = 1 if effort.torturing() else 13


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a database, a copy of it, and a backup from before its last admission."""
    monkeypatch.setattr(pruning, "ROWS_AT_ONCE", 10)
    folder = tmp_path / "whole"
    folder.mkdir()
    path = scene.build(folder)
    clock = ManualClock(LATER - 1)
    storage = SqliteStorage(path, clock=clock)
    end(storage, clock, "long", entries=45)
    storage.upkeep.back_up(str(folder / "backup.db"))
    storage.executions.admit(workflow_id="w", execution_id="after-the-backup")
    for row in storage.workers.all(living=True):
        storage.workers.stop(row.number, "stopped")
    storage.settle()
    storage.close()
    return folder


Work = Callable[[Path], object]


def prune(folder: Path) -> None:
    """All that can be pruned."""
    storage = SqliteStorage(folder / "ys.db", clock=ManualClock(LATER))
    list(storage.upkeep.prune(Chosen()))
    storage.close()


def prune_and_erase(folder: Path) -> None:
    """And leave no trace."""
    storage = SqliteStorage(folder / "ys.db", clock=ManualClock(LATER))
    list(storage.upkeep.prune(Chosen()))
    storage.upkeep.erase()
    storage.close()


def back_up(folder: Path) -> None:
    """To a place where something is already."""
    storage = SqliteStorage(folder / "ys.db", clock=ManualClock(LATER))
    storage.upkeep.back_up(str(folder / "backup.db"), replace=True)
    storage.close()


def put_back(folder: Path) -> None:
    """The backup in the place of the database."""
    restore(str(folder / "ys.db"), str(folder / "backup.db"), ManualClock(LATER))


WORKS: dict[str, Work] = {
    "prune": prune,
    "prune and erase": prune_and_erase,
    "backup": back_up,
    "restore": put_back,
}


def copies(place: Path, work: Work) -> Iterator[tuple[Path, int, int]]:
    """A fresh copy of the folder for each deadly disk operation; the child's exit status."""
    number = 0
    while True:
        number += EACH
        folder = place.parent / f"try-{number}"
        shutil.copytree(place, folder)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with faulty_disk() as disk:
                    disk.arm(killed, at=number)
                    work(folder)
                    status = 0
            finally:
                os._exit(status)
        _, waited = os.waitpid(child, 0)
        yield folder, number, os.waitstatus_to_exitcode(waited)
        shutil.rmtree(folder)
        if os.waitstatus_to_exitcode(waited) == 0:
            return


def state(path: Path) -> dict[str, bool]:
    """Which executions there are, and which are pruned; the file is sound."""
    storage = SqliteStorage(path, clock=ManualClock(LATER))
    try:
        assert list(storage.upkeep.breaches()) == []
        found = storage.reader.find(limit=None)
        return {record.execution_id: record.pruned_at is not None for record in found}
    finally:
        storage.close()


@pytest.mark.parametrize("name", WORKS)
def test_a_kill_at_any_disk_operation_leaves_what_was_or_what_was_to_be(
    place: Path, name: str
) -> None:
    """case 340, 323; spec E13: and the same line again finishes it."""
    work = WORKS[name]
    before = state(place / "ys.db"), state(place / "backup.db")
    reference = place.parent / "reference"
    shutil.copytree(place, reference)
    work(reference)
    wanted = state(reference / "ys.db"), state(reference / "backup.db")
    deaths = 0

    for folder, number, status in copies(place, work):
        assert status in (99, 0), (name, number, status)
        deaths += status == 99
        database, backup = state(folder / "ys.db"), state(folder / "backup.db")
        if name.startswith("prune"):
            assert database.keys() == before[0].keys()
            assert all(not was or database[key] for key, was in before[0].items())
        else:
            assert database in (before[0], wanted[0]), number
        assert backup in (before[1], wanted[1]), number
        if status == 99:
            work(folder)
        assert (state(folder / "ys.db"), state(folder / "backup.db")) == wanted, number
        assert not list(folder.glob("*.partial"))
        assert not list(folder.glob("*.restoring*"))

    assert deaths > 1


@pytest.mark.parametrize("name", WORKS)
@pytest.mark.parametrize("fault", [broken, full])
def test_an_error_of_the_disk_is_told_and_changes_nothing_by_halves(
    place: Path, name: str, fault: Callable[[str, str], None]
) -> None:
    """cases 31, 32; spec V3: refused, or unknown; then it works again."""
    work = WORKS[name]
    before = state(place / "ys.db"), state(place / "backup.db")
    reference = place.parent / "reference"
    shutil.copytree(place, reference)
    work(reference)
    wanted = state(reference / "ys.db"), state(reference / "backup.db")

    number = 0
    while True:
        number += EACH
        folder = place.parent / f"try-{number}"
        shutil.copytree(place, folder)
        told: YieldstarError | None = None
        with faulty_disk() as disk:
            disk.arm(fault, at=number)
            try:
                work(folder)
            except YieldstarError as error:
                told = error
            reached = disk.count >= number
        database, backup = state(folder / "ys.db"), state(folder / "backup.db")
        if not name.startswith("prune"):
            assert database in (before[0], wanted[0]), number
            if told is not None and not isinstance(told, CommitUnknown):
                assert database == before[0], (number, told)
        assert backup in (before[1], wanted[1]), number
        work(folder)
        assert (state(folder / "ys.db"), state(folder / "backup.db")) == wanted, number
        shutil.rmtree(folder)
        if not reached:
            return
