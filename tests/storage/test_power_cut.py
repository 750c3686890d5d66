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
from yieldstar_cli.digests import digests
from yieldstar_cli.model import ChangeStore, Completed, Continued, Round, Start, Suspended, Wait
from yieldstar_cli.storage.sqlite.connection import Durability
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

SECTOR = 512
NEXT = Continued("2", 1)


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


def families_run(path: Path, count: int) -> tuple[Recorder, int]:
    """`count` parents, one commit each: a start, the child's end, a switch, an end; checkpoints."""
    with recording() as recorder:
        storage = SqliteStorage(path, create=True, clock=ManualClock(), durability="full")
        setup = len(recorder.operations)
        for n in range(count):
            parent = f"p{n}"
            child = Start("c", 5, f"{parent}/c", "w", 1, "1")
            waits = (Wait("child", "c", "", 5, None, "waiting", target=child.execution_id),)
            storage.executions.admit(workflow_id="w", execution_id=parent)
            rounds = (
                Round(actions=(child,), waits=waits, outcome=Suspended()),
                Round(outcome=Completed("1")),
                Round(actions=(Start("d", 5, f"{parent}/d", "w", 1, "1"),), outcome=NEXT),
                Round(outcome=Completed("2")),
            )
            for changes in rounds:
                (delivery,) = storage.executions.claim_due(10**14, limit=1)
                storage.deliveries.record(delivery, changes)
                recorder.answer()
            if n % 4 == 3:
                storage.db.rows("PRAGMA wal_checkpoint(PASSIVE)")
        storage.close()
    return recorder, setup


def stores_run(path: Path, count: int) -> tuple[Recorder, int]:
    """`count` stores, each awaited by one execution and changed by another; checkpoints."""
    with recording() as recorder:
        storage = SqliteStorage(path, create=True, clock=ManualClock(), durability="full")
        setup = len(recorder.operations)
        for n in range(count):
            store = ("stock", f"s{n}")
            seen = storage.stores.put(*store, '"full"')
            awaits = Wait(
                *("store-when", "s", "", 5, None, "waiting"),
                store=store,
                read=digests("full", [()]),
                instance=seen.instance,
            )
            change = ChangeStore("u", 5, "store-update", *store, seen.instance, 0, '"empty"')
            rounds = {
                f"reader-{n}": Round(waits=(awaits,), outcome=Suspended()),
                f"writer-{n}": Round(actions=(change,), outcome=Completed("1")),
            }
            for name, changes in rounds.items():
                storage.executions.admit(workflow_id="w", execution_id=name)
                (delivery,) = storage.executions.claim_due(10**14, limit=1)
                storage.deliveries.record(delivery, changes)
                recorder.answer()
            (delivery,) = storage.executions.claim_due(10**14, limit=1)
            storage.deliveries.record(delivery, Round(unwait=(("store-when", "s"),)))
            if n % 4 == 3:
                storage.db.rows("PRAGMA wal_checkpoint(PASSIVE)")
        storage.close()
    return recorder, setup


# What a commit on a store writes stands together (S3).
TORN_STORES = {
    "a change without its entry": """
        SELECT s.s FROM stores AS s WHERE s.version <>
               (SELECT count(*) FROM history WHERE label = s.name || ' ' || s.store_id)
    """,
    "an entry without its change": """
        SELECT h.n FROM history AS h WHERE h.kind = 'store-update'
           AND h.label NOT IN (SELECT name || ' ' || store_id FROM stores WHERE state = '"empty"')
    """,
    "a change that a waiter does not know of": """
        SELECT w.n FROM waits AS w JOIN executions AS e ON e.n = w.n
          JOIN stores AS s ON s.name = w.store_name AND s.store_id = w.store_id
         WHERE (s.version > 0) <> (w.ready_at IS NOT NULL)
            OR (w.ready_at IS NOT NULL AND e.due_at IS NULL AND e.claimed_by IS NULL)
    """,
    "a wait for what is not there": """
        SELECT n FROM waits
         WHERE store_name || ' ' || store_id NOT IN (SELECT name || ' ' || store_id FROM stores)
    """,
}


def test_a_power_cut_tears_no_store_from_its_waiters(tmp_path: Path) -> None:
    """case 186; spec S3, E13: state, entry and wakes are there as a whole or not at all."""
    recorder, setup = stores_run(tmp_path / "run.db", 12)
    stood: set[tuple[int, int]] = set()
    for seed in range(150):
        dice = random.Random(seed)
        moment = dice.randrange(setup, len(recorder.operations) + 1)
        files = image(recorder.operations[:moment], dice)
        path = tmp_path / f"cut-{seed}.db"
        path.write_bytes(files["main"])
        Path(f"{path}-wal").write_bytes(files["wal"])
        answered = sum(1 for at in recorder.answers if at <= moment)

        storage = SqliteStorage(path)
        assert storage.db.rows("PRAGMA integrity_check") == [("ok",)]
        for what, sql in TORN_STORES.items():
            assert storage.db.rows(sql) == [], what
        changed = sum(store.version for store in storage.stores.find())
        (acknowledged,) = storage.db.rows("SELECT count(*) FROM executions WHERE acked_token > 0")
        assert acknowledged[0] >= answered
        stood.add((acknowledged[0], changed))
        storage.close()
        path.unlink()

    assert len(stood) > 10


# What a commit writes stands together: (what would be torn, how it is found).
TORN = {
    "a start without its child": """
        SELECT h.n FROM history AS h WHERE h.kind = 'start'
           AND h.label NOT IN (SELECT execution_id FROM executions WHERE parent = h.n)
    """,
    "a child without its start": """
        SELECT c.n FROM executions AS c WHERE c.parent IS NOT NULL
           AND c.execution_id NOT IN (SELECT label FROM history WHERE n = c.parent)
    """,
    "an end that its parent does not know of": """
        SELECT w.n FROM waits AS w JOIN executions AS t ON t.n = w.target_n
          JOIN executions AS p ON p.n = w.n
         WHERE (t.status = 'completed') <> (w.ready_at IS NOT NULL)
            OR (w.ready_at IS NOT NULL AND p.due_at IS NULL AND p.claimed_by IS NULL)
    """,
    "half a switch": """
        SELECT e.n FROM executions AS e WHERE e.parent IS NULL
           AND e.incarnation - 1 <> (SELECT count(*) FROM incarnations AS i WHERE i.n = e.n)
        UNION ALL
        SELECT e.n FROM executions AS e WHERE e.incarnation > 1
           AND (e.params <> '2' OR EXISTS (SELECT 1 FROM waits AS w WHERE w.n = e.n))
    """,
    "a linked child that outlived its parent": """
        SELECT c.n FROM executions AS c JOIN executions AS p ON p.n = c.parent
         WHERE p.status = 'completed' AND c.status NOT IN ('completed', 'cancelled')
    """,
}


def test_a_power_cut_tears_no_family_apart(tmp_path: Path) -> None:
    """cases 196, 234; B09; spec C2-C4, C7, E13: each commit is there as a whole or not at all."""
    recorder, setup = families_run(tmp_path / "run.db", 12)
    stood: set[int] = set()
    for seed in range(150):
        dice = random.Random(seed)
        moment = dice.randrange(setup, len(recorder.operations) + 1)
        files = image(recorder.operations[:moment], dice)
        path = tmp_path / f"cut-{seed}.db"
        path.write_bytes(files["main"])
        Path(f"{path}-wal").write_bytes(files["wal"])

        storage = SqliteStorage(path)
        assert storage.db.rows("PRAGMA integrity_check") == [("ok",)]
        for what, sql in TORN.items():
            assert storage.db.rows(sql) == [], what
        (acknowledged,) = storage.db.rows("SELECT count(*) FROM executions WHERE acked_token > 0")
        stood.add(acknowledged[0])
        storage.close()
        path.unlink()

    assert len(stood) > 10


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
