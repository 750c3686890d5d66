"""A file of every schema becomes one of the newest, whatever strikes while it does (spec K7)."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

from tests.effort import rounds, torturing
from tests.files.kept.make import ended, kept
from tests.sim.disk import Disk, PowerLost, simulated_disk
from tests.sim.flows import Died
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import CommitUnknown, StorageError
from yieldstar_cli.storage.sqlite import schema
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

NEWEST = schema.SCHEMA_VERSION
ROOT = Path(__file__).parents[2]
FOR_GOOD = 10_000
#: What strikes, and how often.
STRIKES = (
    ("kill", FOR_GOOD),
    ("cut", FOR_GOOD),
    ("eio", 1),
    ("eio", FOR_GOOD),
    ("full", FOR_GOOD),
    ("short", 1),
    ("sync", 1),
)


def put(version: int, path: Path) -> Path:
    """The kept file of a schema, at `path`, with nothing beside it."""
    for beside in path.parent.glob(f"{path.name}*"):
        beside.unlink()
    path.write_bytes(gzip.decompress(kept(version).read_bytes()))
    path.chmod(0o600)
    return path


def dump(path: Path) -> dict[str, Any]:
    """All that a file holds: its schema's number, how it is built, and every row."""
    connection = apsw.Connection(str(path))
    found: dict[str, Any] = {"version": connection.execute("PRAGMA user_version").fetchall()}
    built = connection.execute("SELECT name, sql, type FROM sqlite_schema ORDER BY 1").fetchall()
    found["built"] = built
    for name, _, kind in built:
        if kind == "table":
            found[name] = sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    return found


def struck(path: Path, fault: tuple[str, int, int], dice: Random) -> None:
    """Open the file, so that it is migrated, while `fault` strikes the disk below it."""
    kind, at, times = fault
    with simulated_disk(str(path.parent)) as disk:
        disk.adopt(str(path))
        disk.arm(kind, after=at, times=times)
        with suppress(Died, PowerLost, StorageError, CommitUnknown):
            SqliteStorage(path).close()
        if kind == "cut":
            cut(disk, path, dice)


def cut(disk: Disk, path: Path, dice: Random) -> None:
    """The power fails."""
    for backup in path.parent.glob("*.bak"):
        disk.renamed(f"{backup}.partial", str(backup))
    disk.cut(dice)


def moments(operations: int, dice: Random) -> list[int]:
    """At which operations: some of them, the first and the last ones; in the long form all."""
    if torturing():
        return list(range(1, operations + 2))
    few = dice.sample(range(2, operations), 6)
    return sorted({1, *few, *range(operations - 3, operations + 2)})


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_a_kept_file_of_every_schema_ends_as_it_would_have_then(
    tmp_path: Path, version: int
) -> None:
    """case 343; spec K7, R11: asleep, retried, in a step, with children, messages, stores, effects.

    The same outcomes, entries and calls as with the program that wrote the file.
    """
    path = put(version, tmp_path / "ys.db")

    now = ended(path, version)

    then = kept(version).with_name(f"schema-{version}.json").read_text()
    assert now == json.loads(then)
    assert Path(f"{path}.schema-{version}.bak").exists() == (version < NEWEST)


@pytest.mark.parametrize("version", range(1, NEWEST))
def test_whatever_strikes_a_migration_leaves_the_old_file_or_the_new_one(
    tmp_path: Path, version: int
) -> None:
    """case 343; spec K7; C.4: at every operation of the disk, and with the old file beside."""
    path = put(version, tmp_path / "ys.db")
    old = dump(path)
    with simulated_disk(str(tmp_path)) as disk:
        disk.adopt(str(path))
        SqliteStorage(path).close()
        operations = disk.operations
    new = dump(path)
    assert (old["version"], new["version"]) == ([(version,)], [(NEWEST,)])
    dice = Random(version)

    ends: list[bool] = []
    for kind, times in STRIKES:
        for at in moments(operations, dice):
            put(version, path)
            struck(path, (kind, at, times), dice)
            found = dump(path)
            assert found in (old, new), (kind, at, times)
            ends.append(found == new)
            if found == new:
                assert dump(Path(f"{path}.schema-{version}.bak")) == old, (kind, at, times)
            else:
                SqliteStorage(path).close()
                assert dump(path) == new, (kind, at, times)

    assert set(ends) == {True, False}


@pytest.mark.parametrize("version", range(1, NEWEST))
def test_a_second_fault_in_the_recovery_loses_nothing_either(tmp_path: Path, version: int) -> None:
    """case 343; C.4, compound: a fault, another one at the next open, and then none."""
    path = put(version, tmp_path / "ys.db")
    old = dump(path)
    SqliteStorage(path).close()
    new = dump(path)
    dice = Random(version)

    for seed in range(rounds(15)):
        put(version, path)
        for _ in range(2):
            kind, times = dice.choice(STRIKES)
            struck(path, (kind, dice.randrange(1, 150), times), dice)
            assert dump(path) in (old, new), seed
        SqliteStorage(path).close()
        assert dump(path) == new, seed


class Same:
    """Chance that gives every file the same name."""

    def execution_suffix(self) -> str:
        return "00000000"

    def seed(self) -> bytes:
        return bytes(16)


def made(path: Path) -> None:
    """Make a database, as every command does that writes the first one."""
    SqliteStorage(path, create=True, clock=ManualClock(), chance=Same()).close()


def test_whatever_strikes_the_making_of_a_database_leaves_none_or_a_whole_one(
    tmp_path: Path,
) -> None:
    """case 346; spec K7, E13; C.4: at every operation of the disk; the next one makes it whole."""
    path = tmp_path / "ys.db"
    with simulated_disk(str(tmp_path)) as disk:
        made(path)
        operations = disk.operations
    whole = dump(path)
    dice = Random(0)

    ends: list[bool] = []
    for kind, times in STRIKES:
        for at in moments(operations, dice):
            for beside in tmp_path.glob("ys.db*"):
                beside.unlink()
            with simulated_disk(str(tmp_path)) as disk:
                disk.arm(kind, after=at, times=times)
                with suppress(Died, PowerLost, StorageError, CommitUnknown):
                    made(path)
                if kind == "cut":
                    disk.cut(dice)
            found = dump(path)
            assert found["version"] == [(0,)] or found == whole, (kind, at, times)
            assert found == whole or found["built"] == [], (kind, at, times)
            ends.append(found == whole)
            made(path)
            assert dump(path) == whole, (kind, at, times)

    assert set(ends) == {True, False}


RACER = """
import sys
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
print("ready", flush=True)
sys.stdin.readline()
SqliteStorage(sys.argv[1]).close()
"""


def test_several_processes_migrate_a_file_once(tmp_path: Path) -> None:
    """case 344; spec K7: one does it, the others wait and find it done; the backup is of the old.

    Each waits at its line until all stand there.
    """
    alone = put(1, tmp_path / "alone.db")
    old = dump(alone)
    SqliteStorage(alone).close()
    path = put(1, tmp_path / "ys.db")
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for _ in range(4)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"

    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    statuses = [racer.wait(60) for racer in racers]
    for racer in racers:
        racer.communicate()

    assert statuses == [0] * 4
    assert dump(path) == dump(alone)
    assert dump(Path(f"{path}.schema-1.bak")) == old
    assert sorted(found.name for found in tmp_path.glob("ys.db*bak*")) == ["ys.db.schema-1.bak"]


def test_a_migration_done_twice_is_done_once(tmp_path: Path) -> None:
    """case 344: the second time nothing is written, and no backup is made of the new file."""
    path = put(1, tmp_path / "ys.db")
    SqliteStorage(path).close()
    once = path.read_bytes()

    SqliteStorage(path).close()

    assert path.read_bytes() == once
    assert [found.name for found in tmp_path.glob("*.bak*")] == ["ys.db.schema-1.bak"]


def test_without_a_backup_there_is_no_migration(tmp_path: Path) -> None:
    """spec K7: what keeps the backup from being written is said, and the file stays as it is."""
    path = put(1, tmp_path / "ys.db")
    old = dump(path)
    (tmp_path / "ys.db.schema-1.bak.partial").mkdir()

    with pytest.raises(StorageError, match="bak cannot be written"):
        SqliteStorage(path)

    assert dump(path) == old
