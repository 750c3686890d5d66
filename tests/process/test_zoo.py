"""One zoo of programs gives the same histories in the test kit and under `ys worker`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.kill.scene import Scene
from tests.process.zoo import FAMILY, MAIL, ZOO
from yieldstar_cli.model import ExecutionRecord
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.testing import Bench

NAMES = [workflow.definition.workflow_id for workflow in ZOO]


def told(storage: SqliteStorage, execution_id: str) -> Any:
    """History and outcome without moments, seeds and the texts of tracebacks."""
    record = storage.executions.get(execution_id)
    assert record is not None
    kept = [one.incarnation for one in storage.family.incarnations(record.number)]
    return (
        [
            (incarnation, e.position, e.kind, e.step_key, e.ok, value(e.value), e.attempt)
            for incarnation in (*kept, record.incarnation)
            for e in storage.reader.history(record.number, incarnation)
        ],
        [(m.queue, m.state, m.value) for m in storage.inbox.messages(execution_id)],
        [told(storage, child.execution_id) for child in storage.family.children(record.number)],
        execution_id,
        record.incarnation,
        record.status,
        outcome(record),
        [line.text for line in storage.reader.logs(record.number)],
        record.status_value_json,
    )


def value(text: str) -> str:
    return text if '"mro"' not in text else text.split('"mro"')[0]


def outcome(record: ExecutionRecord) -> str:
    # What `typed` returns holds chance drawn from the execution's own seed.
    return value(str(record.outcome))[: 60 if record.workflow_id == "typed" else None]


@pytest.fixture(scope="module")
def by_worker(tmp_path_factory: pytest.TempPathFactory) -> SqliteStorage:
    """The zoo, run by the real worker process."""
    scene = Scene(tmp_path_factory.mktemp("zoo") / "project")
    shutil.copy(Path(__file__).with_name("zoo.py"), scene.folder / "workflows" / "zoo.py")
    (scene.folder / "workflows" / "zoo.py").chmod(0o644)
    for workflow, params in ZOO.items():
        name = workflow.definition.workflow_id
        for queue, message in MAIL.get(workflow, ()):
            scene.ys("send", name, queue, "--data", json.dumps(message), check=True)
        words = [word for k, v in params.items() for word in ("-p", f"{k}={v}")]
        scene.ys("trigger", name, "--id", name, *words, check=True)
    ran = scene.ys("worker", "--until-idle", "--linger", "5s")
    assert ran.returncode == 0, ran.stderr
    return SqliteStorage(scene.folder / "ys.db", readonly=True)


@pytest.mark.parametrize("name", NAMES)
def test_the_kit_and_the_worker_tell_the_same(name: str, by_worker: SqliteStorage) -> None:
    """spec R2, R4, O1, O2; B56: only clock and step functions are replaced, not the driver."""
    workflow, params = next((w, p) for w, p in ZOO.items() if w.definition.workflow_id == name)
    with Bench(workflow, *FAMILY) as bench:
        for queue, message in MAIL.get(workflow, ()):
            assert bench.send(name, queue, message) == "buffered"
        bench.admit(name, params, execution_id=name)
        bench.run()
        by_kit = told(bench.storage, name)
        bench_status = bench.record(name).status

    assert by_kit == told(by_worker, name)
    assert bench_status == ("failed" if name in ("fails", "exhausted") else "completed")
