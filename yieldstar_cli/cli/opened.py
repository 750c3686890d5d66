"""Finds the project of a call, opens its database, and asks who works on it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.facts import Crew, crew_of
from yieldstar_cli.errors import UsageError, YieldstarError
from yieldstar_cli.model import ExecutionRecord, WorkerRow
from yieldstar_cli.project import Project, find_project
from yieldstar_cli.trust import Trust

if TYPE_CHECKING:
    from yieldstar_cli.storage.contract import Storage


def project_of(call: Call, *, workflows: str | None = None) -> Project:
    """The project that this call works in (spec K8)."""
    settings = call.settings
    try:
        start = Path(settings.directory) if settings.directory is not None else Path.cwd()
    except OSError:
        raise UsageError("the current directory is gone", remedy=("cd",)) from None
    if not os.path.isdir(start):
        raise UsageError(f"--directory: there is no directory {str(start)!r}")
    project = find_project(start, db=settings.db, workflows=workflows)
    call.databases.append(project.db)
    return project


def trust_of(call: Call) -> Trust:
    """What `--trust-dir` makes acceptable (spec K5)."""
    return Trust(tuple(Path(os.path.realpath(directory)) for directory in call.settings.trust_dirs))


def open_reading(call: Call, project: Project) -> Storage:
    """The database, for reading only; closed at the end of the call."""
    from yieldstar_cli.runtime_open import open_storage

    storage = open_storage(project, readonly=True, trust=trust_of(call), clock=call.clock)
    call.closing.append(storage.close)
    return storage


def open_writing(call: Call, project: Project) -> Storage:
    """The database, for writing; made where the project allows it; closed at the end."""
    from yieldstar_cli.runtime_open import open_storage

    storage = open_storage(project, create=True, trust=trust_of(call), clock=call.clock)
    call.closing.append(storage.close)
    return storage


def crew(call: Call, project: Project, storage: Storage, *, everyone: bool = False) -> Crew:
    """Who works on the database now; with `everyone` also who did (spec L3)."""
    return crew_of(
        storage,
        call.clock.now_ms(),
        find_dead=lambda rows: _find_dead(project, rows),
        marks=lambda row: _marks(project, row),
        everyone=everyone,
    )


def workflow_file(project: Project, storage: Storage, record: ExecutionRecord) -> str:
    """The module of the record's workflow, as the cache knows it; empty if it does not."""
    if project.workflows is None:
        return ""
    for module in storage.catalog.modules(os.path.realpath(project.workflows)):
        for info in module.workflows:
            if (info.workflow_id, info.version) == (record.workflow_id, record.version):
                path = Path(info.file)
                inside = path.is_relative_to(project.root)
                return str(path.relative_to(project.root) if inside else path)
    return ""


def workflow_tags(
    project: Project, storage: Storage
) -> Callable[[ExecutionRecord], tuple[str, ...]]:
    """What workflows ask of workers, as the cache knows it; read when first asked (spec O5)."""
    found: dict[tuple[str, int], tuple[str, ...]] | None = None

    def tags_of(record: ExecutionRecord) -> tuple[str, ...]:
        nonlocal found
        if found is None:
            found = _tags(project, storage)
        return found.get((record.workflow_id, record.version), ())

    return tags_of


def _tags(project: Project, storage: Storage) -> dict[tuple[str, int], tuple[str, ...]]:
    if project.workflows is None:
        return {}
    return {
        (info.workflow_id, info.version): info.tags
        for module in storage.catalog.modules(os.path.realpath(project.workflows))
        for info in module.workflows
    }


def lock_path(project: Project) -> str:
    """The file whose locked bytes say which workers live."""
    return f"{project.db}-lock"


def marks_path(project: Project) -> str:
    """The file in which workers mark what they run."""
    return f"{project.db}-marks"


def _find_dead(project: Project, rows: list[WorkerRow]) -> list[WorkerRow]:
    if not rows or not os.path.exists(lock_path(project)):
        return []
    from yieldstar_cli.worker.liveness import LockFile

    try:
        return LockFile(lock_path(project)).find_dead(rows)
    except YieldstarError:
        # Not ours to open, or on a file system without locks: only the leases tell.
        return []


def _marks(project: Project, row: WorkerRow) -> list[tuple[int, str, int]]:
    from yieldstar_cli.worker.marks import MarksFile

    marks = MarksFile(marks_path(project)).read(row.slot, row.nonce)
    return [(mark.number, mark.step_key, mark.since_at) for mark in marks]
