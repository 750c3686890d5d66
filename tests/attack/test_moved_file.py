"""A database that is moved away under a worker: noticed at once, and nothing else is harmed."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.process.shop import Shop


def delete(shop: Shop) -> None:
    (shop.folder / "ys.db").unlink()


def rename(shop: Shop) -> None:
    (shop.folder / "ys.db").rename(shop.folder / "old.db")


def replace(shop: Shop) -> None:
    (shop.folder / "other.db").write_bytes((shop.folder / "ys.db").read_bytes())
    os.replace(shop.folder / "other.db", shop.folder / "ys.db")


@pytest.mark.parametrize("move", [delete, rename, replace])
def test_a_worker_whose_file_is_gone_leaves_and_records_no_more(
    shop: Shop, move: Callable[[Shop], None]
) -> None:
    """case 319: detected within one poll, exit 10, never acknowledged into a dead file."""
    shop.gate("a")
    shop.ys("trigger", "gated", "--id", "a", "-p", "name=a", check=True)
    worker = shop.start("worker")
    shop.wait_entered("a")

    move(shop)
    _, said = worker.communicate(timeout=60)

    assert worker.returncode == 10
    assert "ys.db was moved, replaced or deleted; nothing more is recorded here" in said


def test_it_takes_no_wal_of_a_new_database_with_it(shop: Shop) -> None:
    """case 319: SQLite unlinks a WAL by its name, and that name is another's by then."""
    shop.gate("a")
    shop.ys("trigger", "gated", "--id", "a", "-p", "name=a", check=True)
    worker = shop.start("worker")
    shop.wait_entered("a")

    for path in shop.folder.glob("ys.db*"):
        path.rename(shop.folder / path.name.replace("ys.db", "old.db"))
    shop.ys("trigger", "simple", "--id", "new", "-p", "name=new", check=True)
    worker.communicate(timeout=60)

    assert shop.show("new")["status"] == "admitted"
