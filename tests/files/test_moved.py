"""A file that is moved, replaced or deleted while it is open: noticed before anything is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Shop
from yieldstar_cli.errors import StorageError
from yieldstar_cli.model import Completed
from yieldstar_cli.storage.sqlite.storage import SqliteStorage


def delete(path: Path) -> None:
    path.unlink()


def rename(path: Path) -> None:
    path.rename(path.with_name("moved.db"))


def replace_by_a_backup(path: Path) -> None:
    other = path.with_name("backup.db")
    other.write_bytes(path.read_bytes())
    os.replace(other, path)


ROOT = Path(__file__).parents[2]
MOVES = (delete, rename, replace_by_a_backup)


@pytest.mark.parametrize("move", MOVES)
def test_nothing_is_admitted_to_a_file_that_is_gone(
    db_path: Path, move: Callable[[Path], None]
) -> None:
    """case 319; spec E1: who holds it open is told, and has not been answered that it stands."""
    storage = SqliteStorage(db_path, create=True)
    storage.executions.admit(workflow_id="w", execution_id="a")
    (delivery,) = storage.executions.claim_due(10**14)

    move(db_path)

    for write in (
        lambda: storage.executions.admit(workflow_id="w", execution_id="b"),
        lambda: storage.executions.acknowledge(delivery, Completed("1")),
        storage.changes,
    ):
        with pytest.raises(StorageError, match="was moved, replaced or deleted"):
            write()
    storage.close()
    storage.close()


def test_closing_takes_no_log_of_the_file_that_is_there_now(db_path: Path) -> None:
    """case 319; I1: the log of that name is another database's, with all that it holds."""
    storage = SqliteStorage(db_path, create=True)
    storage.executions.admit(workflow_id="w", execution_id="old")
    for path in db_path.parent.glob("ys.db*"):
        path.rename(path.with_name(path.name.replace("ys", "old")))
    new = SqliteStorage(db_path, create=True)
    new.executions.admit(workflow_id="w", execution_id="new")

    storage.close()

    found = SqliteStorage(db_path, readonly=True)
    assert found.executions.get("new") is not None
    found.close()
    new.close()
    old = SqliteStorage(db_path.with_name("old.db"))
    assert old.executions.get("old") is not None
    old.close()


@pytest.mark.parametrize("move", MOVES)
def test_whoever_waits_is_told_that_the_file_is_gone(
    shop: Shop, charge_order: Callable[[], Path], move: Callable[[Path], None]
) -> None:
    """case 319: `ys wait` does not wait for ever for what nobody will record there."""
    charge_order()
    shop.admit()
    shop.close()
    waiting = subprocess.Popen(
        [sys.executable, "-m", "yieldstar_cli", "wait", "order-42"],
        cwd=shop.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert waiting.stderr is not None
    assert "No worker is running" in waiting.stderr.readline()

    move(shop.db)
    _, said = waiting.communicate(timeout=60)

    assert waiting.returncode == 10
    assert "was moved, replaced or deleted" in " ".join(said.split())


FILLED = """
import os, signal, sys
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
storage = SqliteStorage(sys.argv[1], create=True)
for n in range(int(sys.argv[3])):
    storage.executions.admit(workflow_id="w", execution_id=f"{sys.argv[2]}-{n}", params="x" * 900)
if sys.argv[4] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
storage.close()
"""


def test_an_older_file_beside_the_log_of_a_killed_process_is_refused(shop: Shop) -> None:
    """case 319; C.1; G10: SQLite takes the log for its own; what is missing then is noticed.

    Neither file is touched: with the log moved away the older one is whole.
    """

    def fill(name: str, executions: int, end: str) -> None:
        words = [sys.executable, "-c", FILLED, str(shop.db), name, str(executions), end]
        subprocess.run(words, cwd=ROOT, check=False)

    fill("first", 20, "closed")
    backup = shop.db.read_bytes()
    fill("then", 200, "closed")
    fill("last", 5, "killed")
    log = Path(f"{shop.db}-wal")
    logged = log.read_bytes()
    shop.db.write_bytes(backup)

    for words in (("list",), ("show", "first-0"), ("wake", "first-0")):
        said = shop.ys("--json", *words)
        assert (said.code, said.error["code"]) == (10, "CORRUPT_FILE"), words
    assert (shop.db.read_bytes(), log.read_bytes()) == (backup, logged)
    for beside in (log, Path(f"{shop.db}-shm")):
        beside.unlink()

    assert len(shop.ys("list", "-q", "--all").out.split()) == 20
