"""One open database of a program: its connection, its lock, and how it is opened (K5, K8)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

from yieldstar_cli import clock as time
from yieldstar_cli.checking_kept import Kept
from yieldstar_cli.engine.scope import in_workflow_body
from yieldstar_cli.errors import (
    CommitUnknown,
    ExecutionNotFound,
    MisplacedCall,
    StorageError,
    UsageError,
)
from yieldstar_cli.model import ExecutionRecord
from yieldstar_cli.project import Project
from yieldstar_cli.runtime_open import open_storage
from yieldstar_cli.trust import Trust

if TYPE_CHECKING:
    from pathlib import Path

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
        self._kept = Kept()

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


def refuse_damaged(path: Path) -> None:
    """Read all of a database, writing nothing; raises CorruptFile where it is not whole.

    For after a surprise: it takes as long as the file is large.
    """
    from yieldstar_cli.storage.sqlite import soundness

    soundness.refuse_damaged(path)
