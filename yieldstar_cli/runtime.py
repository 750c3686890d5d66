"""The Python SDK: chooses the storage adapter, and triggers, reads, awaits and wakes (spec K10)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from yieldstar_cli import clock as time
from yieldstar_cli.awaiting import ExecutionRef, Moment, Pause, moment_of, result_of, timeout_ms
from yieldstar_cli.engine.retry import Span
from yieldstar_cli.engine.scope import in_workflow_body
from yieldstar_cli.errors import (
    CommitUnknown,
    ExecutionNotFound,
    MisplacedCall,
    NoDatabase,
    StorageError,
    UsageError,
    WaitTimeout,
)
from yieldstar_cli.ids import Chance, SystemChance
from yieldstar_cli.model import ExecutionRecord, WakeAnswer
from yieldstar_cli.project import Project, find_project
from yieldstar_cli.trust import Trust

if TYPE_CHECKING:
    from yieldstar_cli.engine.authoring import Workflow
    from yieldstar_cli.storage.contract import Storage

T = TypeVar("T")
R = TypeVar("R")


class Runtime:
    """One open database, for programs: synchronous, thread-safe, a context manager.

    Made by `open_runtime`. Calls raise the errors of `errors.py`; all but those about a commit
    of unknown fate leave everything as it was. Source: spec K10.
    """

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

    @overload
    def trigger(
        self,
        workflow: Workflow[[T], R],
        params: T,
        *,
        id: str | None = None,
        context: Mapping[str, object] | None = None,
        at: Moment | None = None,
    ) -> ExecutionRef[R]: ...
    @overload
    def trigger(
        self,
        workflow: Workflow[[], R],
        *,
        id: str | None = None,
        context: Mapping[str, object] | None = None,
        at: Moment | None = None,
    ) -> ExecutionRef[R]: ...
    @overload
    def trigger(
        self,
        workflow: Workflow[..., R],
        params: Mapping[str, object],
        *,
        id: str | None = None,
        context: Mapping[str, object] | None = None,
        at: Moment | None = None,
    ) -> ExecutionRef[R]: ...
    @overload
    def trigger(
        self,
        workflow: str,
        params: object = None,
        *,
        id: str | None = None,
        context: Mapping[str, object] | None = None,
        at: Moment | None = None,
    ) -> ExecutionRef[Any]: ...
    def trigger(
        self,
        workflow: Workflow[..., Any] | str,
        params: object = None,
        *,
        id: str | None = None,  # noqa: A002 - the contract's word
        context: Mapping[str, object] | None = None,
        at: Moment | None = None,
    ) -> ExecutionRef[Any]:
        """Admit one execution; it is durable when this returns, and a worker runs it.

        `params` are the workflow's own type or a mapping of its fields; defaults are filled in.
        `at` (an aware datetime, or UTC milliseconds) is the first wake, by default now. Raises
        ExecutionIdConflict for an `id` in use, InvalidExecutionEvent or InvalidParams for what
        cannot be stored or does not fit, UnknownWorkflow for a name no module has.
        Source: RFC 001, Admission; spec E1-E4, K4.
        """
        from yieldstar_cli import checking

        with self._working() as storage:
            target = (
                checking.by_name(storage, self._project, workflow, trust=self._trust)
                if isinstance(workflow, str)
                else checking.by_object(workflow)
            )
            record = storage.executions.admit(
                workflow_id=target.workflow_id,
                params=target.fit(params, limit=self._project.settings.max_value),
                context=context,
                execution_id=id,
                at=None if at is None else moment_of(at),
                version=target.version,
            )
            ring_workers(storage, self._project.db)
        return ExecutionRef(record.execution_id, target.result_type)

    def get(self, execution: str | ExecutionRef[Any]) -> ExecutionRecord | None:
        """The record, or None. Source: RFC 001, Runtime API; spec E5."""
        with self._working() as storage:
            return storage.executions.get(str(execution))

    @overload
    def wait(self, execution: ExecutionRef[R], timeout: Span | None = None) -> R: ...
    @overload
    def wait(self, execution: str, timeout: Span | None = None) -> Any: ...
    def wait(self, execution: str | ExecutionRef[Any], timeout: Span | None = None) -> Any:
        """Block until the execution has ended and return its result; runs nothing itself.

        The result has the workflow's own type if `execution` came from triggering a workflow
        object, else it is plain data. `timeout` is a span ("10s", or seconds). Raises
        ExecutionFailed, ExecutionCancelled, ExecutionNotFound, and WaitTimeout (a TimeoutError),
        which changes nothing. Source: spec K10.
        """
        pause = Pause(None if timeout is None else timeout_ms(timeout))
        execution_id = str(execution)
        while True:
            with self._working() as storage:
                if pause.look(storage.changes()):
                    record = self._found(storage, execution_id)
                    if record.outcome is not None:
                        return result_of(record, execution)
            rest = pause.rest()
            if rest is None:
                raise WaitTimeout(
                    f"execution {execution_id!r} has not ended in time",
                    why=("Nothing was changed; it goes on.",),
                    remedy=(f"ys show {execution_id}",),
                )
            self._rest(rest)

    def wake(self, execution: str | ExecutionRef[Any], at: Moment | None = None) -> WakeAnswer:
        """Ask for a look at the execution now, or at `at`, and end its hold, as `ys wake` does.

        Answers "requested", or "ignored" if it has ended. Raises ExecutionNotFound.
        Source: RFC 001, Wakes; spec E6, E12.
        """
        with self._working() as storage:
            answer = storage.executions.wake(str(execution), None if at is None else moment_of(at))
            ring_workers(storage, self._project.db)
            return answer

    def close(self) -> None:
        """Close the database; again is harmless."""
        with self._lock:
            self._closed = True
            self._storage.close()

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextmanager
    def _working(self) -> Iterator[Storage]:
        """The connection, for one thread at a time."""
        _refuse_in_workflow()
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


def _refuse_in_workflow() -> None:
    if in_workflow_body.get():
        raise MisplacedCall(
            "a Runtime was used in a workflow function, where a replay would use it again",
            remedy="call it in a step: await step.run(fn, …)",
        )


def open_runtime(
    db: str | Path | None = None,
    workflows: str | Path | None = None,
    *,
    trust_dirs: Sequence[str | Path] = (),
) -> Runtime:
    """Open the project's database for a program; makes it where spec K8 allows.

    `db` and `workflows` name others than the project's, as `--db` and `--workflows` do, and
    `trust_dirs` as `--trust-dir` does. Raises the StorageError family, UntrustedPath, UsageError.
    """
    _refuse_in_workflow()
    project = find_project(db=db, workflows=workflows)
    trust = Trust(tuple(Path(os.path.realpath(directory)) for directory in trust_dirs))
    return Runtime(open_storage(project, create=True, trust=trust), project, trust=trust)


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
