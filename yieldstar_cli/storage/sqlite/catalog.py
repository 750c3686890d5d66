"""The cache of what the workflow modules hold (spec K4)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from yieldstar_cli.model import ModuleInfo, WorkflowInfo
from yieldstar_cli.storage.sqlite.database import Database

MODULES = """
SELECT path, mtime_ns, size, error, workflows
  FROM modules
 WHERE directory = :directory
 ORDER BY path
"""
FORGET = "DELETE FROM modules WHERE directory = :directory"
PUT = """
INSERT INTO modules (directory, path, mtime_ns, size, error, workflows)
VALUES (:directory, :path, :mtime_ns, :size, :error, :workflows)
"""
#: What is kept of a workflow, by the names of `WorkflowInfo`.
_KEPT = (
    *("workflow_id", "version", "file", "line", "doc", "params_description"),
    *("params_schema", "result_schema", "retry", "tags"),
)


class SqliteCatalog:
    """The catalog on SQLite; `contract.Catalog` says what each method means."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def modules(self, directory: str) -> list[ModuleInfo]:
        """See `contract.Catalog.modules`."""
        rows = self._db.rows(MODULES, {"directory": directory})
        return [_module(*row) for row in rows]

    def put(self, directory: str, modules: Sequence[ModuleInfo]) -> None:
        """See `contract.Catalog.put`."""
        with self._db.writing():
            self._db.rows(FORGET, {"directory": directory})
            for module in modules:
                self._db.rows(
                    PUT,
                    {
                        "directory": directory,
                        "path": module.path,
                        "mtime_ns": module.mtime_ns,
                        "size": module.size,
                        "error": module.error,
                        "workflows": json.dumps([*map(_told, module.workflows)]),
                    },
                )


def _told(info: WorkflowInfo) -> dict[str, Any]:
    return {name: getattr(info, name) for name in _KEPT}


def _workflow(told: dict[str, Any]) -> WorkflowInfo:
    known = {name: told[name] for name in _KEPT if name in told}
    for text in (known["params_description"], known["params_schema"], known["result_schema"]):
        json.loads(text)
    return WorkflowInfo(**{**known, "tags": tuple(told.get("tags", ()))})


def _module(path: str, mtime_ns: int, size: int, error: str | None, workflows: str) -> ModuleInfo:
    try:
        found = tuple(map(_workflow, json.loads(workflows)))
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        # Not what we wrote: as if it had been of another state of the file, which no file is in.
        return ModuleInfo(path=path, mtime_ns=-1, size=-1, error=error, workflows=())
    return ModuleInfo(path=path, mtime_ns=mtime_ns, size=size, error=error, workflows=found)
