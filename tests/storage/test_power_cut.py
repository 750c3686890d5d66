"""Power cuts: what was never synced may be gone, torn or there; what was answered stands.

A recording disk keeps every write with its bytes. A power cut at some moment leaves the synced
writes and any part of the others: images of the file and its log are built from that, opened, and
compared with what had been answered by then.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import pytest

from yieldstar_cli.clock import ManualClock
from yieldstar_cli.storage.sqlite.connection import Durability
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

SECTOR = 512


@dataclass
class Recorded:
    """One operation that reached the disk; `answered` counts what callers knew by then."""

    what: str
    file: str
    data: bytes = b""
    offset: int = 0


@dataclass
class Recorder:
    operations: list[Recorded] = field(default_factory=list)
    #: After how many disk operations each answer was given.
    answers: list[int] = field(default_factory=list)

    def answer(self) -> None:
        self.answers.append(len(self.operations))


class _File(apsw.VFSFile):
    def __init__(self, recorder: Recorder, name: object, flags: list[int]) -> None:
        full = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._kind = "wal" if full.endswith("-wal") else "journal" if "-j" in full else "main"
        self._recorder = recorder
        super().__init__("unix", name, flags)  # type: ignore[arg-type]

    def xWrite(self, data: bytes, offset: int) -> None:
        self._recorder.operations.append(Recorded("write", self._kind, bytes(data), offset))
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self._recorder.operations.append(Recorded("sync", self._kind))

    def xTruncate(self, size: int) -> None:
        self._recorder.operations.append(Recorded("truncate", self._kind, offset=size))
        super().xTruncate(size)


class _Vfs(apsw.VFS):
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        super().__init__("ys-recorder", "unix", makedefault=True)

    def xOpen(self, name: object, flags: list[int]) -> _File:  # type: ignore[override]
        return _File(self._recorder, name, flags)


@contextmanager
def recording() -> Iterator[Recorder]:
    recorder = Recorder()
    vfs = _Vfs(recorder)
    try:
        yield recorder
    finally:
        vfs.unregister()


def damaged(data: bytes, dice: random.Random) -> bytes | None:
    """What is left of a write that was not synced: all, nothing, or some sectors of it."""
    fate = dice.random()
    if fate < 0.4:
        return None
    if fate < 0.6 and len(data) > SECTOR:
        return data[: SECTOR * dice.randrange(1, -(-len(data) // SECTOR))]
    return data


def image(operations: list[Recorded], dice: random.Random) -> dict[str, bytes]:
    """The files as a power cut after `operations` may leave them."""
    last_sync = {each.file: n for n, each in enumerate(operations) if each.what == "sync"}
    files: dict[str, bytearray] = {"main": bytearray(), "wal": bytearray()}
    for n, each in enumerate(operations):
        if each.file not in files or each.what == "sync":
            continue
        synced = n < last_sync.get(each.file, -1)
        content = files[each.file]
        if each.what == "truncate":
            if synced or dice.random() < 0.5:
                del content[each.offset :]
            continue
        data = each.data if synced else damaged(each.data, dice)
        if data is not None:
            content.extend(b"\0" * (each.offset + len(data) - len(content)))
            content[each.offset : each.offset + len(data)] = data
    return {name: bytes(content) for name, content in files.items()}


def recorded_run(path: Path, durability: Durability, count: int) -> tuple[Recorder, int]:
    """Admit `count` executions one by one, with a few checkpoints among them."""
    with recording() as recorder:
        storage = SqliteStorage(path, create=True, clock=ManualClock(), durability=durability)
        setup = len(recorder.operations)
        for n in range(count):
            storage.executions.admit(workflow_id="w", params="x" * 200, execution_id=f"e-{n}")
            recorder.answer()
            if n % 20 == 19:
                storage.db.rows("PRAGMA wal_checkpoint(PASSIVE)")
        storage.close()
    return recorder, setup


def lost_in_cuts(folder: Path, durability: Durability, seeds: int) -> int:
    """In how many of many power cuts something was missing that had been answered."""
    recorder, setup = recorded_run(folder / "run.db", durability, 60)
    lost = 0
    for seed in range(seeds):
        dice = random.Random(seed)
        moment = dice.randrange(setup, len(recorder.operations) + 1)
        files = image(recorder.operations[:moment], dice)
        path = folder / f"cut-{seed}.db"
        path.write_bytes(files["main"])
        Path(f"{path}-wal").write_bytes(files["wal"])
        answered = sum(1 for at in recorder.answers if at <= moment)

        storage = SqliteStorage(path)
        assert storage.db.rows("PRAGMA integrity_check") == [("ok",)]
        there = {row[0] for row in storage.db.rows("SELECT execution_id FROM executions")}
        due = {each.execution_id for each in storage.executions.claim_due(10**14)}
        storage.close()
        path.unlink()

        # Never a record without its wake, never one out of order.
        assert due == there == {f"e-{n}" for n in range(len(there))}
        lost += len(there) < answered
    return lost


def test_full_durability_loses_nothing_in_any_power_cut(tmp_path: Path) -> None:
    """spec E13; G1; invariants I1, I2, I17; C.2: WAL with synchronous=FULL lost none."""
    assert lost_in_cuts(tmp_path, "full", seeds=250) == 0


def test_normal_durability_does_and_so_the_cuts_are_real(tmp_path: Path) -> None:
    """C.2, the control: `normal` gives up the last commits (spec E13), and the images show it."""
    assert lost_in_cuts(tmp_path, "normal", seeds=60) > 0


@pytest.mark.parametrize("seed", range(3))
def test_a_cut_can_be_told_again_from_its_seed(tmp_path: Path, seed: int) -> None:
    """G11: the same seed leaves the same bytes."""
    recorder, setup = recorded_run(tmp_path / "run.db", "full", 5)

    images = [image(recorder.operations[: setup + 9], random.Random(seed)) for _ in range(2)]

    assert images[0] == images[1]
