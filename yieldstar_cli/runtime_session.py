"""One open database of a program: its connection, its lock, and how it is opened (K5, K8)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from yieldstar_cli import clock as time
from yieldstar_cli.engine.scope import in_workflow_body
from yieldstar_cli.errors import (
    CommitUnknown,
    ExecutionNotFound,
    MisplacedCall,
    NoDatabase,
    StorageError,
    UsageError,
)
from yieldstar_cli.ids import Chance, SystemChance
from yieldstar_cli.model import ExecutionRecord
from yieldstar_cli.project import Project
from yieldstar_cli.trust import Trust

if TYPE_CHECKING:
    from yieldstar_cli.storage.contract import Storage


class Session:
    """An open database that threads share, one at a time; a context manager."""

    def __init__(
        self,
        storage: Storage,
        project: Project,
        *,
        trust: Trust | None = None,
        clock: time.Clock | None = None,
        rest: Callable[[float], object] | None = None,
    ) -> None:
        self._storage = storage
        self._project = project
        self._trust = trust or Trust()
        self._clock = clock or time.SystemClock()
        self._rest = rest or threading.Event().wait
        self._lock = threading.Lock()
        self._closed = False
        self._doubtful = False

    @property
    def project(self) -> Project:
        """Where this runtime works."""
        return self._project

    def close(self) -> None:
        """Close the database; again is harmless."""
        with self._lock:
            self._closed = True
            self._storage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextmanager
    def _working(self) -> Iterator[Storage]:
        """The connection, for one thread at a time."""
        refuse_in_workflow()
        with self._lock:
            if self._closed:
                raise UsageError("this runtime is closed", remedy=("open_runtime()",))
            if self._doubtful:
                self._settle()
            try:
                yield self._storage
            except CommitUnknown:
                self._doubtful = True
                raise

    def _settle(self) -> None:
        """Open the file afresh: after a commit of unknown fate nothing in memory is believed."""
        with suppress(StorageError, CommitUnknown):
            self._storage.close()
        self._storage = open_storage(self._project, trust=self._trust, settle=True)
        self._doubtful = False

    def _found(self, storage: Storage, execution_id: str) -> ExecutionRecord:
        record = storage.executions.get(execution_id)
        if record is not None:
            return record
        near = storage.reader.nearest_ids(execution_id)
        why = (f"Did you mean {', '.join(near)}?",) if near else ()
        raise ExecutionNotFound(execution_id, why=why)


def refuse_in_workflow() -> None:
    """Raise MisplacedCall where a workflow function calls (spec R9)."""
    if in_workflow_body.get():
        raise MisplacedCall(
            "a Runtime was used in a workflow function, where a replay would use it again",
            remedy="call it in a step: await step.run(fn, …)",
        )


def ring_workers(storage: Storage, database: Path) -> None:
    """Tell the living workers that something became due; never an error (spec K3)."""
    from yieldstar_cli.doorbell import ring

    with suppress(StorageError):
        slots = [row.slot for row in storage.workers.all(living=True)]
        if slots:
            ring(os.path.realpath(database), slots)


def open_storage(
    project: Project,
    *,
    create: bool = False,
    readonly: bool = False,
    trust: Trust | None = None,
    clock: time.Clock | None = None,
    chance: Chance | None = None,
    busy_timeout_ms: int | None = None,
    settle: bool = False,
) -> Storage:
    """The project's database, checked and open.

    Only with `create`, and only where the project allows it, is it made. `settle` makes sure
    that what is read is on the disk. Raises NoDatabase, UntrustedPath, the other StorageErrors,
    and CommitUnknown where it cannot be settled. Source: spec K5, K8.
    """
    from yieldstar_cli.storage.sqlite.connection import BUSY_TIMEOUT_MS
    from yieldstar_cli.storage.sqlite.storage import SqliteStorage

    there = os.path.isdir(project.db.parent)
    if create and there and not project.may_create and not os.path.exists(project.db):
        raise NoDatabase(
            f"there is no project here and no database at {project.db}",
            why=("Nothing was created.",),
            remedy=("ys init", "--db PATH"),
        )
    (trust or Trust()).check_database(project.db)
    opened = SqliteStorage(
        project.db,
        clock=clock or time.SystemClock(),
        chance=chance or SystemChance(),
        create=create and project.may_create,
        readonly=readonly,
        durability=project.settings.durability,
        max_value=project.settings.max_value,
        busy_timeout_ms=BUSY_TIMEOUT_MS if busy_timeout_ms is None else busy_timeout_ms,
    )
    if settle:
        opened.settle()
    return opened


def refuse_damaged(path: Path) -> None:
    """Read all of a database, writing nothing; raises CorruptFile where it is not whole.

    For after a surprise: it takes as long as the file is large.
    """
    from yieldstar_cli.storage.sqlite import soundness

    soundness.refuse_damaged(path)
