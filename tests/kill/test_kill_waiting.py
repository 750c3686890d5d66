"""SIGKILL at every BEGIN, COMMIT and call of executions that wait for each other.

After each kill the file tells one story, and when the worker runs again everything ends as it does
where nobody is killed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.effort import torturing
from tests.kill.scene import KILLED, ROOT, Scene
from tests.kill.stories import STORIES, Story
from yieldstar_cli.model import (
    CancelledOutcome,
    Completed,
    Entry,
    ExecutionRecord,
    Kind,
    Message,
    StoreRecord,
)
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

#: Every so many-th point is a kill: under `make torture`, and where there are few, each.
STRIDE = 1 if torturing() else 9


@dataclass(frozen=True)
class Told:
    """What a file says of its executions."""

    records: dict[str, ExecutionRecord]
    #: The incarnations that are kept and the current one, each with its history.
    histories: dict[str, dict[int, list[Entry]]]
    beyond: dict[str, list[Entry]]
    messages: dict[str, list[Message]]
    stores: list[StoreRecord]

    @property
    def entries(self) -> list[tuple[str, int, Entry]]:
        return [
            (name, incarnation, entry)
            for name, kept in self.histories.items()
            for incarnation, history in kept.items()
            for entry in history
        ]

    @property
    def steps(self) -> set[str]:
        """What the recorded steps noted in the ledger."""
        kinds = (Kind.STEP, Kind.DEFER)
        values = [json.loads(entry.value) for _, _, entry in self.entries if entry.kind in kinds]
        return {value for value in values if isinstance(value, str)}


def told(folder: Path) -> Told:
    storage = SqliteStorage(folder / "ys.db", readonly=True)
    try:
        records = {record.execution_id: record for record in storage.reader.find(limit=None)}
        histories = {}
        for name, record in records.items():
            earlier = [one.incarnation for one in storage.family.incarnations(record.number)]
            histories[name] = {
                incarnation: storage.reader.history(record.number, incarnation)
                for incarnation in (*earlier, record.incarnation)
            }
        return Told(
            records,
            histories,
            {
                name: storage.reader.history(record.number, record.incarnation + 1)
                for name, record in records.items()
            },
            {name: storage.inbox.messages(name) for name in records},
            storage.stores.find(),
        )
    finally:
        storage.close()


def ledger(folder: Path) -> list[tuple[str, str]]:
    """The steps that ran, each with its idempotency key, in order."""
    path = folder / "ledger.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(line.split()[0], line.split()[1]) for line in lines]


def sweep(folders: dict[Path, int], words: tuple[str, ...]) -> list[int]:
    """Run `ys` in each folder, with SIGKILL at its point; how each ended."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.kill.sweep", *words],
        input=json.dumps([[str(folder), point] for folder, point in folders.items()]),
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    ends: list[int] = json.loads(ran.stdout.splitlines()[-1])
    return ends


def begin(story: Story, folder: Path) -> Scene:
    """The scene as it stands before the kill."""
    scene = Scene(folder)
    shutil.copy(Path(__file__).with_name("waiting.py"), folder / "workflows" / "waiting.py")
    (folder / "workflows" / "waiting.py").chmod(0o644)
    for words in story.before:
        scene.ys(*words, check=True)
    return scene


def finish(story: Story, folders: list[Path]) -> None:
    for words in story.after:
        ends = sweep(dict.fromkeys(folders, -1), words)
        for folder, end in zip(folders, ends, strict=True):
            # 6: the command killed had its effect, and there is nobody left to ask for it.
            allowed = (0, 6) if words[0] in ("approve", "cancel", "send") else (0,)
            assert end in allowed, (folder / "said.txt").read_text()


def outcome(record: ExecutionRecord) -> tuple[str, Any]:
    match record.outcome:
        case Completed(text):
            return record.status, json.loads(text)
        case CancelledOutcome() | None:
            return record.status, None
        case _:
            return record.status, None


def shape(found: Told) -> Any:
    """What is the same whichever way the kill and the threads fell."""
    return {
        name: (
            outcome(record),
            record.incarnation,
            Counter(
                (incarnation, entry.kind, entry.step_key, entry.ok)
                for incarnation, history in found.histories[name].items()
                for entry in history
            ),
            Counter((m.queue, m.state, m.value) for m in found.messages[name]),
        )
        for name, record in found.records.items()
    }


def check_whole(found: Told) -> None:
    """What must hold of the file at any instant."""
    for name, record in found.records.items():
        kept = list(found.histories[name])
        assert kept == sorted(set(kept)), name
        assert kept[-1] == record.incarnation
        assert not found.beyond[name], "an incarnation that is not there has a history"
        for history in found.histories[name].values():
            assert [entry.position for entry in history] == list(range(len(history)))
            keys = [(entry.kind, entry.step_key) for entry in history]
            assert len(keys) == len(set(keys)), name
    children = Counter(record.parent_execution_id for record in found.records.values())
    for name, kept in found.histories.items():
        if 1 in kept:  # else an earlier history is no longer kept
            starts = [e for history in kept.values() for e in history if e.kind == Kind.START]
            assert children[name] == len(starts), name


def check_read(found: Told) -> None:
    """A message is consumed if, and only if, a history tells that it was read."""
    for name, messages in found.messages.items():
        if 1 not in found.histories[name]:
            continue  # an earlier history is no longer kept
        read = [
            json.loads(entry.value)
            for history in found.histories[name].values()
            for entry in history
            if entry.kind == Kind.MESSAGE and entry.ok
        ]
        gone = [json.loads(m.value) for m in messages if m.state == "consumed"]
        assert gone == read, name


def check_stores(found: Told) -> None:
    """A change of a store is made if, and only if, a history tells of it."""
    kinds = (Kind.STORE_UPDATE, Kind.STORE_TAKE)
    recorded = sum(entry.kind in kinds and entry.ok for _, _, entry in found.entries)
    made = [(s.version, json.loads(s.state)["changes"]) for s in found.stores]
    assert made in ([], [(recorded, recorded)])
    assert made or not recorded


# The reference run of each story tells how many points there are.
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_kill_anywhere_changes_nothing_of_the_end(story: Story, tmp_path: Path) -> None:
    """cases 186, 196, 234, 264, 281, 355; B09, B01; spec C3, C6, C7, E13, F1, M2, S3: one child
    for each key, one current incarnation, each message consumed once, each change of a store and
    each effect made once, nothing recorded runs again."""
    template = begin(story, tmp_path / "template")
    reference = tmp_path / "reference"
    shutil.copytree(template.folder, reference)
    assert sweep({reference: -1}, story.deadly) == [0], (reference / "said.txt").read_text()
    count = len((reference / "points.txt").read_text().splitlines())
    finish(story, [reference])
    expected = told(reference)
    check_whole(expected)
    check_read(expected)
    check_stores(expected)
    assert sum(store.version for store in expected.stores) == story.changes
    assert {n: outcome(r) for n, r in expected.records.items()} == story.ends
    calls = [name for name, _ in ledger(reference)]
    assert len(calls) == len(set(calls))

    folders = {}
    for point in range(0, count, min(STRIDE, count // 6 or 1)):
        folder = tmp_path / f"{point}"
        shutil.copytree(template.folder, folder)
        folders[folder] = point
    ends = sweep(folders, story.deadly)
    # Threads may fall so that a run passes fewer points: then it simply was not killed.
    assert set(ends) <= {KILLED, 0}
    assert ends.count(KILLED) >= len(ends) * 3 // 4
    before = {}
    for folder in folders:
        found = told(folder)
        check_whole(found)
        check_read(found)
        check_stores(found)
        before[folder] = (found.steps, ledger(folder))
    finish(story, list(folders))

    for folder in folders:
        where = (folder / "points.txt").read_text().splitlines()[-1]
        found = told(folder)
        check_whole(found)
        check_read(found)
        check_stores(found)
        assert shape(found) == shape(expected), (folder.name, where)
        recorded, called = before[folder]
        after = ledger(folder)[len(called) :]
        assert not recorded & {name for name, _ in after}, (folder.name, where)
        runs = Counter(name for name, _ in ledger(folder))
        assert set(runs) == set(calls)
        again = {name for name, times in runs.items() if times > 1}
        assert len(again) <= story.at_once, (folder.name, where)
        assert max(runs.values(), default=0) <= 2
        assert not any(name.startswith("paid-") for name in again), "an effect is done once"
        keys = {(name, key) for name, key in ledger(folder) if name in again}
        assert len(keys) == len(again)
    assert count > (10 if story.deadly[0] == "worker" else 1)
