"""Makes the kept file of the schema that this program writes, once.

    python -m tests.files.kept.make

`schema-N.db.gz` is a file in the middle of its executions, by a program of that schema;
`schema-N.json` says how they end with it. Neither is made again: later programs must read what is
there. Of schemas that no program of their own was ever seen with, the file is the one before,
migrated.
"""

from __future__ import annotations

import gzip
import importlib
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from yieldstar_cli.clock import ManualClock
from yieldstar_cli.model import CancelledOutcome, Completed, ExecutionRecord, Failed
from yieldstar_cli.storage.sqlite import schema
from yieldstar_cli.testing import Bench
from yieldstar_cli.worker.ports import StepCall

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
STANDS_AT = ManualClock().now_ms() + 45 * 60_000
#: The newest schema that has workflows of its own.
LATEST_FLOWS = 4


def flows(version: int) -> list[Any]:
    """The workflows whose executions stand in the file of a schema."""
    found: list[Any] = []
    for number in range(1, min(version, LATEST_FLOWS) + 1):
        found.extend(importlib.import_module(f"tests.files.kept.flows_{number}").ALL)
    return found


def takes(call: StepCall) -> int:
    """One step is still running when the file is copied."""
    return 90 * 60_000 if call.step_key == "slow" else 0


def standing(path: Path) -> None:
    """Write a file in the middle of its executions to `path`, as a killed worker leaves it."""
    version = schema.SCHEMA_VERSION
    with (
        tempfile.TemporaryDirectory() as folder,
        Bench(*flows(version), path=Path(folder) / "ys.db", duration=takes) as bench,
    ):
        for flow in flows(version):
            name = flow.definition.workflow_id
            if name != "grows":  # a child only
                bench.admit(name, {"order": 42}, execution_id=name)
        if version >= 2:
            bench.send("hears", "second", 2)
        bench.run_to(STANDS_AT - 60_000)
        if version >= 2:
            bench.cancel("stops", "enough")
        bench.run_to(STANDS_AT)
        # Where it was made is nobody's business.
        for statement in (
            "UPDATE history SET value = replace(value, :here, '/shop')",
            "UPDATE attempts SET error = replace(error, :here, '/shop')",
            "UPDATE executions SET outcome = replace(outcome, :here, '/shop')",
        ):
            bench.storage.db.rows(statement, {"here": str(ROOT)})
        copied(bench.storage.db.connection, path)


def copied(source: apsw.Connection, path: Path) -> None:
    """Copy a database; nothing of what was replaced stays in free pages."""
    target = apsw.Connection(str(path))
    with target.backup("main", source, "main") as backup:
        while not backup.done:
            backup.step(1_000)
    target.execute("PRAGMA journal_mode = WAL; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    target.close()


@contextmanager
def taken_over(path: Path, version: int) -> Iterator[Bench]:
    """A bench at the moment of the file, once its worker is known to have died."""
    clock = ManualClock(STANDS_AT)
    with Bench(*flows(version), path=path, clock=clock) as bench:
        bench.crash()
        yield bench


def ended(path: Path, version: int) -> dict[str, Any]:
    """How the executions in the file of a schema end, and which steps they still call."""
    with taken_over(path, version) as bench:
        if version >= 2:
            bench.send("hears", "first", 1)
        bench.run()
        return {
            name: {
                "outcome": told(bench.record(name)),
                "keys": [entry.step_key for entry in bench.history(name)],
                "calls": [list(call) for call in bench.result(name).calls],
            }
            for name in (flow.definition.workflow_id for flow in flows(version))
            if name != "grows"
        }


def told(record: ExecutionRecord) -> list[Any]:
    """How an execution stands, and what it gave."""
    match record.outcome:
        case Completed(result):
            return [str(record.status), result]
        case Failed(error):
            return [str(record.status), error.replace(str(ROOT), "/shop")]
        case CancelledOutcome(reason):
            return [str(record.status), reason]
    return [str(record.status)]


def kept(version: int) -> Path:
    """Where the file of a schema is."""
    return HERE / f"schema-{version}.db.gz"


def keep(version: int, write: Callable[[Path], None]) -> None:
    """Keep what `write` writes, and how it ends."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kept.db"
        write(path)
        kept(version).write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        text = json.dumps(ended(path, version), indent=1, sort_keys=True)
        kept(version).with_name(f"schema-{version}.json").write_text(text + "\n")


def migrated(version: int) -> Callable[[Path], None]:
    """What writes the file of the schema before, migrated."""

    def write(path: Path) -> None:
        path.write_bytes(gzip.decompress(kept(version - 1).read_bytes()))
        connection = apsw.Connection(str(path))
        with connection:
            for statement in schema.ours().statements(version):
                connection.execute(statement)
            connection.execute(schema.set_version(version))
        connection.close()

    return write


def main() -> None:
    """Keep what is not kept yet."""
    newest = schema.SCHEMA_VERSION
    if kept(newest).exists():
        raise SystemExit(f"{kept(newest).name} is kept as it is")
    for version in range(LATEST_FLOWS + 1, newest):
        if not kept(version).exists():
            keep(version, migrated(version))
    keep(newest, standing)


if __name__ == "__main__":
    main()
