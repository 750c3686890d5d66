"""Makes the kept file of the history format that this program writes, once, at its release.

    python -m tests.cases.kept.make

`format_N.db.gz` stands three quarters of an hour after its executions began, `format_N.json` says
how they ended with the program that wrote it. Neither is made again: later programs must read
what is there.
"""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apsw

from tests.cases.kept.flows import ALL
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.model import HISTORY_FORMAT, Completed, Entry, Failed
from yieldstar_cli.testing import Bench, RunResult
from yieldstar_cli.worker.ports import StepCall

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
STANDS_AT = ManualClock().now_ms() + 45 * 60_000


def takes(call: StepCall) -> int:
    """One step is still running when its branch is cancelled."""
    return 35 * 60_000 if call.step_key.endswith("slow") else 0


def told(ok: bool, text: str) -> object:
    """A result or an error as JSON; of an error what programs see, without its lines."""
    value = json.loads(text)
    return value if ok else {name: value.get(name) for name in ("name", "message", "attrs")}


def entry_rows(history: Iterable[Entry]) -> list[list[Any]]:
    """A history as JSON has it: what replay must give again."""
    return [
        [e.position, str(e.kind), e.step_key, told(e.ok, e.value), e.at, e.attempt, e.withdrawn]
        for e in history
    ]


def outcome_of(result: RunResult) -> object:
    """An outcome as JSON."""
    match result.record.outcome:
        case Completed(text):
            return told(True, text)
        case Failed(text):
            return told(False, text)
    return None


def standing(path: Path) -> None:
    """A file whose executions stand in every kind of wait."""
    with Bench(*ALL, path=path, duration=takes) as bench:
        for flow in ALL:
            params = {"order": 42} if flow.definition.params_type is not None else None
            bench.admit(
                flow.definition.workflow_id,
                params,
                execution_id=flow.definition.workflow_id,
                context={"shop": "berlin"},
            )
        bench.run_to(STANDS_AT)
        # Where it was made is nobody's business.
        for statement in (
            "UPDATE history SET value = replace(value, :here, '/shop')",
            "UPDATE attempts SET error = replace(error, :here, '/shop')",
        ):
            bench.storage.db.rows(statement, {"here": str(ROOT)})
    # Nothing of what was replaced stays in free pages.
    compact = apsw.Connection(str(path))
    compact.execute("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    compact.close()


def ended(path: Path) -> dict[str, Any]:
    """How the executions of the file at `path` end, with the workflows as they are here."""
    with Bench(*ALL, path=path, clock=ManualClock(STANDS_AT), duration=takes) as bench:
        bench.run()
        found = {name: bench.result(name) for name in (f.definition.workflow_id for f in ALL)}
        return {
            name: {
                "status": result.status,
                "outcome": outcome_of(result),
                "history": entry_rows(result.history),
                "calls": [list(call) for call in result.calls],
                "logs": [line.text for line in bench.storage.reader.logs(result.record.number)],
            }
            for name, result in found.items()
        }


def main() -> None:
    """Write both files."""
    kept = HERE / f"format_{HISTORY_FORMAT}.db.gz"
    if kept.exists():
        raise SystemExit(f"{kept.name} is kept as it is")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kept.db"
        standing(path)
        with path.open("rb") as source, gzip.open(kept, "wb") as target:
            shutil.copyfileobj(source, target)
        text = json.dumps(ended(path), indent=1, sort_keys=True)
        kept.with_name(f"format_{HISTORY_FORMAT}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
