"""What a killed process leaves in the log is read, and what may not be written is read, too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests import effort
from tests.cli.conftest import Shop
from tests.cli.test_trouble import bound_by_modes
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

ROOT = Path(__file__).parents[2]
#: Admits executions, says so, and is gone without closing anything.
KILLED = """
import os, signal, sys
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
storage = SqliteStorage(sys.argv[1], create=True)
for n in range(int(sys.argv[2])):
    storage.executions.admit(workflow_id="w", execution_id=f"e-{n}", params="x" * 3_000)
os.kill(os.getpid(), signal.SIGKILL)
"""
COUNT = 12


def left_by_a_killed_process(path: Path) -> None:
    """A file whose commits are in its log alone."""
    words = [sys.executable, "-c", KILLED, str(path), str(COUNT)]
    assert subprocess.run(words, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    assert Path(f"{path}-wal").stat().st_size > COUNT * 3_000


def readable(shop: Shop, *, folder: int) -> None:
    """The files may be read and not written; the directory is as said."""
    shop.close()
    for path in shop.root.glob("ys.db*"):
        path.chmod(0o400)
    shop.root.chmod(folder)


def test_what_is_in_a_log_left_by_a_killed_process_is_shown(shop: Shop) -> None:
    """case 350; C.1: recovered by whoever reads first, with the right answer."""
    left_by_a_killed_process(shop.db)
    alone = shop.db.read_bytes()

    shown = [shop.ys("show", f"e-{n}", "--json").json["status"] for n in range(COUNT)]

    assert shown == ["admitted"] * COUNT
    assert len(shop.ys("list", "--json").json) == COUNT
    assert shop.db.read_bytes() == alone


@pytest.mark.parametrize("folder", [0o700, 0o500], ids=["file", "directory"])
def test_a_log_that_may_not_be_written_is_read_all_the_same(shop: Shop, folder: int) -> None:
    """case 350, 347: as whole as it is, or refused in a sentence: never without the log."""
    left_by_a_killed_process(shop.db)
    readable(shop, folder=folder)

    said = bound_by_modes(shop, "show", f"e-{COUNT - 1}", "--json")

    assert said.returncode == 0, said
    assert '"status":"admitted"' in said.stdout.decode().replace(" ", "")


@pytest.mark.parametrize("folder", [0o700, 0o500], ids=["file", "directory"])
def test_read_only_media_are_read_and_writers_are_refused(
    shop: Shop, charge_order: Callable[[], Path], folder: int
) -> None:
    """case 347: `show`, `list`, `explain` and `store list` work; who writes is told, nothing is."""
    charge_order().chmod(0o644)
    shop.sleeping()
    readable(shop, folder=folder)
    before = shop.db.read_bytes()

    for words in (("show", "order-42"), ("list",), ("explain", "order-42"), ("store", "list")):
        assert bound_by_modes(shop, *words).returncode == 0, words
    for words in (
        ("trigger", "charge-order", "-p", "order=1"),
        ("wake", "order-42"),
        ("cancel", "order-42"),
        ("send", "order-42", "box"),
        ("worker", "--until-idle"),
    ):
        said = bound_by_modes(shop, "--json", *words)
        assert (said.returncode, b"DATABASE_READ_ONLY" in said.stderr) == (10, True), (words, said)
    assert shop.db.read_bytes() == before


def test_a_damaged_log_gives_what_was_before_the_damage(shop: Shop) -> None:
    """C.1, C.4: its checksums tell where it ends; what is left is a beginning of what was done."""
    source = shop.root / "source.db"
    left_by_a_killed_process(source)
    main, log = source.read_bytes(), Path(f"{source}-wal").read_bytes()

    lengths = set()
    for seed in range(effort.rounds(12)):
        dice = Random(f"log {seed}")
        spoilt = bytearray(log)
        if seed % 3:
            spoilt[dice.randrange(len(log))] ^= dice.randrange(1, 256)
        else:
            del spoilt[dice.randrange(len(log)) :]
        for beside in shop.root.glob("ys.db*"):
            beside.unlink()
        shop.db.write_bytes(main)
        Path(f"{shop.db}-wal").write_bytes(spoilt)

        said = shop.ys("list", "--json")
        storage = SqliteStorage(shop.db, create=True)
        found = {record.execution_id for record in storage.reader.find(limit=None)}
        assert storage.db.rows("PRAGMA integrity_check") == [("ok",)]
        storage.close()

        assert said.code in (0, 10), said
        assert found == {f"e-{n}" for n in range(len(found))}, seed
        lengths.add(len(found))
    assert len(lengths) > 2


def test_a_second_name_of_a_file_is_reported(shop: Shop) -> None:
    """C.1: while nobody has it open, it is whole by any name; doctor says that it has two."""
    shop.admit("first")
    shop.close()
    other = shop.root / "other.db"
    os.link(shop.db, other)
    shop.admit("second")
    shop.close()

    storage = SqliteStorage(other)
    found = {record.execution_id for record in storage.reader.find(limit=None)}
    storage.close()

    checked = shop.ys("--json", "doctor").json["findings"]

    assert "SEVERAL_NAMES" in [finding["code"] for finding in checked]
    assert found == {"first", "second"}
    assert {line for line in ("first", "second") if line in shop.ys("list").out} == found
