"""The Python SDK: triggers, reads and awaits executions, sends to them and steers them (K10)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from yieldstar_cli.awaiting import ExecutionRef, Moment, Pause, moment_of, result_of, timeout_ms
from yieldstar_cli.engine.retry import Span
from yieldstar_cli.errors import WaitTimeout
from yieldstar_cli.model import (
    CancelAnswer,
    ExecutionRecord,
    Message,
    PauseAnswer,
    SendAnswer,
    WakeAnswer,
)
from yieldstar_cli.project import find_project
from yieldstar_cli.runtime_open import open_storage, ring_workers
from yieldstar_cli.runtime_session import refuse_in_workflow
from yieldstar_cli.runtime_stores import StoreSession
from yieldstar_cli.runtime_words import (
    checked_reason,
    message_text,
    named,
    one_scope,
    ttl_ms,
    user_name,
)
from yieldstar_cli.trust import Trust

if TYPE_CHECKING:
    from yieldstar_cli.engine.authoring import Workflow

T = TypeVar("T")
R = TypeVar("R")


class Runtime(StoreSession):
    """One open database, for programs: synchronous, thread-safe, a context manager.

    Made by `open_runtime`. Calls raise the errors of `errors.py`; all but those about a commit
    of unknown fate leave everything as it was. Source: spec K10.
    """

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
                checking.by_name_again(
                    storage,
                    self._project,
                    workflow,
                    trust=self._trust,
                    kept=self._kept,
                    now=self._clock.now_ms(),
                )
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
            return storage.executions.get(named(execution))

    @overload
    def wait(self, execution: ExecutionRef[R], timeout: Span | None = None) -> R: ...
    @overload
    def wait(self, execution: str, timeout: Span | None = None) -> Any: ...
    def wait(self, execution: str | ExecutionRef[Any], timeout: Span | None = None) -> Any:
        """Block until the execution has ended and return its result; runs nothing itself.

        The result has the workflow's own type if `execution` came from triggering a workflow
        object, else it is plain data. `timeout` is a span ("10s", or seconds). Raises
        ExecutionFailed, ExecutionCancelled, ExecutionPruned, ExecutionNotFound, and WaitTimeout (a
        TimeoutError), which changes nothing. Source: spec K10.
        """
        pause = Pause(None if timeout is None else timeout_ms(timeout))
        execution_id = named(execution)
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
            answer = storage.executions.wake(
                named(execution), None if at is None else moment_of(at)
            )
            ring_workers(storage, self._project.db)
            return answer

    def send(
        self,
        execution: str | ExecutionRef[Any],
        queue: str,
        value: object,
        *,
        idempotency_key: str | None = None,
        ttl: Span | None = None,
    ) -> SendAnswer:
        """Send a message to a queue of an execution, whether or not it waits there.

        Answers "delivered"; "buffered" where there is no such execution yet, for `ttl` (default:
        the project's, a day); "refused" where it has ended, and nothing is stored. A second
        message with the same `idempotency_key` is answered alike and not stored. Raises
        InvalidMessageEvent for what cannot be stored. Source: spec M1, M3, V1.
        """
        settings = self._project.settings
        text = message_text(value, settings.max_value)
        kept = settings.message_ttl_ms if ttl is None else ttl_ms(ttl)
        with self._working() as storage:
            answer = storage.inbox.send(
                named(execution), queue, text, ttl_ms=kept, idempotency_key=idempotency_key
            )
            ring_workers(storage, self._project.db)
            return answer

    def messages(
        self, execution: str | ExecutionRef[Any], queue: str | None = None
    ) -> list[Message]:
        """The messages of an execution, or of one queue of it, with their fate, as sent (M1)."""
        with self._working() as storage:
            return storage.inbox.messages(named(execution), queue=queue)

    def cancel(
        self, execution: str | ExecutionRef[Any], *, reason: str | None = None, now: bool = False
    ) -> CancelAnswer:
        """Ask for an execution to be cancelled; with `now` it ends at once, without clean-up.

        "requested": its function gets `Cancelled` at its await; "cancelled": it has ended now;
        "ignored": it had. Raises ExecutionNotFound. Source: spec C6.
        """
        with self._working() as storage:
            self._found(storage, named(execution))
            answer = storage.steering.cancel(
                named(execution), reason=checked_reason(reason), now=now
            )
            ring_workers(storage, self._project.db)
            return answer

    def pause(
        self,
        execution: str | ExecutionRef[Any] | None = None,
        *,
        workflow: str | None = None,
        by: str | None = None,
        reason: str | None = None,
    ) -> PauseAnswer:
        """Begin no more deliveries of an execution, of a workflow, or (neither given) of any.

        Steps that run end. `by` is who asks, by default the user. Answers "paused", "unchanged",
        or "ignored" for one that has ended. Raises ExecutionNotFound. Source: spec E14.
        """
        execution_id = one_scope(execution, workflow)
        with self._working() as storage:
            if execution_id is not None:
                self._found(storage, execution_id)
            answer = storage.steering.pause(
                execution_id=execution_id,
                workflow_id=workflow,
                by=user_name() if by is None else by,
                reason=checked_reason(reason),
            )
            ring_workers(storage, self._project.db)
            return answer

    def resume(
        self, execution: str | ExecutionRef[Any] | None = None, *, workflow: str | None = None
    ) -> PauseAnswer:
        """Take that mark away: "resumed", "unchanged" or "ignored". Raises ExecutionNotFound.

        What is paused twice, by itself and with its workflow, is so until both are resumed.
        """
        execution_id = one_scope(execution, workflow)
        with self._working() as storage:
            if execution_id is not None:
                self._found(storage, execution_id)
            answer = storage.steering.resume(execution_id=execution_id, workflow_id=workflow)
            ring_workers(storage, self._project.db)
            return answer


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
    refuse_in_workflow()
    project = find_project(db=db, workflows=workflows)
    trust = Trust(tuple(Path(os.path.realpath(directory)) for directory in trust_dirs))
    return Runtime(open_storage(project, create=True, trust=trust), project, trust=trust)


__all__ = ["Runtime", "open_runtime", "open_storage", "ring_workers"]
