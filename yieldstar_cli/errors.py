"""Every error of the product: its code for programs, its sentence for people, its exit code.

Three families: what an author meets inside a workflow (`WorkflowError`), what a caller of
the SDK or the command meets (`YieldstarError`), and what stops a delivery without being an
outcome (`CodeFault`, a fault of the code, spec E12).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class YieldstarError(Exception):
    """What a caller can cause or meet; shown in one place, `cli/app.py`.

    `why` says why and where it stands now, `remedy` holds the commands that help.
    """

    code: ClassVar[str] = "INTERNAL"
    exit_code: ClassVar[int] = 1

    def __init__(
        self, message: str, *, why: Sequence[str] = (), remedy: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.why = tuple(why)
        self.remedy = tuple(remedy)


class UsageError(YieldstarError):
    """The words of a call do not fit together."""

    code = "USAGE"
    exit_code = 2


# --- admission (RFC 001) -------------------------------------------------------------------


class ExecutionAdmissionError(YieldstarError):
    """An execution was not admitted; nothing was stored. Source: RFC 001."""

    code = "INVALID_EXECUTION_EVENT"
    exit_code = 5


class ExecutionIdConflict(ExecutionAdmissionError):
    """The execution ID is in use, by an open or a finished execution (spec E3)."""

    code = "EXECUTION_ID_CONFLICT"
    exit_code = 3

    def __init__(self, execution_id: str, workflow_id: str, status: str) -> None:
        super().__init__(
            f"execution {execution_id!r} already exists: {workflow_id}, {status}",
            why=("Nothing was changed.",),
            remedy=(f"ys show {execution_id}",),
        )
        self.execution_id = execution_id
        self.workflow_id = workflow_id
        self.status = status


class InvalidExecutionEvent(ExecutionAdmissionError):
    """The ID, workflow name, params or context cannot be stored exactly (spec E2, E4)."""

    def __init__(
        self, place: str, reason: str, *, why: Sequence[str] = (), remedy: Sequence[str] = ()
    ) -> None:
        super().__init__(f"{place}: {reason}", why=why or ("Nothing was stored.",), remedy=remedy)
        self.place = place


class InvalidParams(ExecutionAdmissionError):
    """The params do not fit what the workflow declares."""

    code = "INVALID_PARAMS"


class InvalidMessageEvent(YieldstarError):
    """A message cannot be stored as it is: its queue, key or value (spec M1, V1)."""

    code = "INVALID_MESSAGE"
    exit_code = 5


class ExecutionTerminal(YieldstarError):
    """The execution has ended: nothing can be sent to it or asked of it (spec M1)."""

    code = "EXECUTION_TERMINAL"
    exit_code = 6

    def __init__(
        self, execution_id: str, status: str, *, why: Sequence[str] = (), remedy: Sequence[str] = ()
    ) -> None:
        super().__init__(
            f"execution {execution_id!r} has ended: {status}",
            why=why or ("Nothing was changed.",),
            remedy=remedy or (f"ys show {execution_id}",),
        )
        self.execution_id = execution_id
        self.status = status


class StoreConflict(YieldstarError):
    """The store is at another version than was asked for; nothing was changed (spec S2)."""

    code = "STORE_CONFLICT"
    exit_code = 3

    def __init__(self, name: str, store_id: str, actual: int | None) -> None:
        stands = "is not there" if actual is None else f"is at version {actual}"
        super().__init__(
            f"store {name} {store_id!r} {stands}",
            why=("That is not what was asked for. Nothing was changed.",),
            remedy=(f"ys store get {name} {store_id}",),
        )
        self.name = name
        self.store_id = store_id
        #: The version that it is at; None: there is no such store.
        self.actual = actual


class InvalidStore(YieldstarError):
    """A store's name, ID or state cannot be stored; nothing was changed (spec S1, S2, V1)."""

    code = "INVALID_STATE"
    exit_code = 5


class UnknownStore(YieldstarError):
    """There is no such store, or no module has the type of that name (spec S7)."""

    code = "UNKNOWN_STORE"
    exit_code = 4


# --- looking things up ---------------------------------------------------------------------


class ExecutionNotFound(YieldstarError):
    """No record has this execution ID."""

    code = "EXECUTION_NOT_FOUND"
    exit_code = 4

    def __init__(
        self, execution_id: str, *, why: Sequence[str] = (), remedy: Sequence[str] = ("ys list",)
    ) -> None:
        super().__init__(f"there is no execution {execution_id!r}", why=why, remedy=remedy)
        self.execution_id = execution_id


class UnknownWorkflow(ExecutionAdmissionError):
    """No loaded module registers this workflow name."""

    code = "UNKNOWN_WORKFLOW"
    exit_code = 4


class InvalidWorkflow(YieldstarError):
    """A function cannot be a workflow as it is written (spec R1, O2)."""

    code = "INVALID_WORKFLOW"
    exit_code = 4


class WorkflowImportFailed(ExecutionAdmissionError):
    """A workflow module does not load; the others do."""

    code = "WORKFLOW_IMPORT_FAILED"
    exit_code = 4


class NoWorkflows(YieldstarError):
    """The worker found no workflow to run."""

    code = "NO_WORKFLOWS"
    exit_code = 4


class UntrustedPath(YieldstarError):
    """A directory, module or database belongs to someone else or can be written by others."""

    code = "UNTRUSTED_PATH"
    exit_code = 10


# --- how an awaited execution ended -----------------------------------------------------------


class ExecutionFailed(YieldstarError):
    """The awaited execution failed; `name` and `message` are its recorded error's."""

    code = "EXECUTION_FAILED"
    exit_code = 7

    def __init__(self, execution_id: str, name: str, message: str) -> None:
        super().__init__(
            f"execution {execution_id!r} failed: {name}: {message}",
            remedy=(f"ys show {execution_id}",),
        )
        self.execution_id = execution_id
        self.error_name = name
        self.error_message = message


class ExecutionCancelled(YieldstarError):
    """The awaited execution was cancelled."""

    code = "EXECUTION_CANCELLED"
    exit_code = 9


class ExecutionPruned(YieldstarError):
    """The execution has ended, and its outcome is no longer kept (spec E3, C2)."""

    code = "OUTCOME_PRUNED"
    exit_code = 6

    def __init__(self, execution_id: str, status: str) -> None:
        super().__init__(
            f"the outcome of {execution_id!r} is no longer kept",
            why=(f"It is {status}; its history and values were pruned.",),
        )
        self.execution_id = execution_id
        self.status = status


class ExecutionNeeded(YieldstarError):
    """The execution is open, or an open one still needs it: it cannot be deleted (spec E3, C2)."""

    code = "EXECUTION_NEEDED"
    exit_code = 6


class WaitTimeout(YieldstarError, TimeoutError):
    """The awaited execution had not ended in time; nothing was changed."""

    code = "STILL_PENDING"
    exit_code = 8


# --- the database --------------------------------------------------------------------------


class StorageError(YieldstarError):
    """The database refused; nothing happened."""

    code = "DATABASE"
    exit_code = 10


class NoDatabase(StorageError):
    """There is no database where one was looked for."""

    code = "NO_DATABASE"


class SchemaTooNew(StorageError):
    """The file was written by a newer version; it was not touched (spec K7)."""

    code = "SCHEMA_TOO_NEW"


class ForeignFile(StorageError):
    """The file is not one of ours; it was not touched (spec K7)."""

    code = "FOREIGN_FILE"


class CorruptFile(StorageError):
    """The file is damaged."""

    code = "CORRUPT_FILE"


class FileInTheWay(YieldstarError):
    """A file stands where another was to be written; it was not touched."""

    code = "FILE_IN_THE_WAY"
    exit_code = 6


class WorkersAlive(StorageError):
    """Workers are at the database, so it cannot be replaced; nothing was changed."""

    code = "WORKERS_ALIVE"
    exit_code = 6


class UnreadableText(CorruptFile):
    """A row holds text that is not UTF-8; the others can be read."""


class DatabaseBusy(StorageError):
    """Another process held the write lock for too long; nothing happened."""

    code = "DATABASE_BUSY"


class DatabaseReadOnly(StorageError):
    """The file, or its directory, may not be written."""

    code = "DATABASE_READ_ONLY"


class DiskFull(StorageError):
    """There was no room for the write; nothing happened."""

    code = "DISK_FULL"


class UnsafeFilesystem(StorageError):
    """The file system cannot keep our promises (a network mount, no shared memory)."""

    code = "UNSAFE_FILESYSTEM"


class CommitUnknown(YieldstarError):
    """An I/O error struck in the commit: it may or may not stand."""

    code = "COMMIT_UNKNOWN"
    exit_code = 11


class StaleDelivery(YieldstarError):
    """The delivery's token is dead; nothing was changed (spec L2)."""

    code = "STALE_DELIVERY"
    exit_code = 6


# --- what an author meets inside a workflow --------------------------------------------------


class WorkflowError(Exception):
    """Base of the errors that a workflow function may catch."""


class StepFailed(WorkflowError):
    """A step's recorded error whose class cannot be named here; `name` is that class's name."""

    def __init__(self, message: str = "", name: str = "StepFailed") -> None:
        super().__init__(message)
        self.name = name


class StepTimeout(WorkflowError):
    """A step, a poll or `step.timeout` took longer than allowed."""


class UnserializableValue(WorkflowError):
    """A value cannot be stored so that it comes back as what it was (spec V1)."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}")
        self.place = place
        self.reason = reason


class Fatal(WorkflowError):
    """Raised inside a step: end it with this error, never retried (spec O1)."""


class RetryableError(WorkflowError):
    """Raised inside a step: try it again, also without a policy (spec O1).

    `attempts` counts every try, `retry_in` is a span such as `"10s"` or seconds. Without them the
    step's policy says how often and when; without a policy it is 3 tries, 1 s and 2 s apart.
    Raises ValueError for what is neither.
    """

    #: For subclasses that do not call our `__init__`.
    attempts: int | None = None
    retry_in: str | float | None = None

    def __init__(
        self,
        message: str = "",
        *,
        attempts: int | None = None,
        retry_in: str | float | None = None,
    ) -> None:
        from yieldstar_cli.clock import span_ms

        if attempts is not None and (
            isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1
        ):
            raise ValueError(f"attempts must be 1 or more: {attempts!r}")
        if retry_in is not None:
            span_ms(retry_in, what="retry_in")
        super().__init__(message)
        self.attempts = attempts
        self.retry_in = retry_in


class ChildFailed(WorkflowError):
    """The awaited execution failed; `__cause__` is its error as this module can name it (C4)."""

    def __init__(self, message: str, execution_id: str = "", error_name: str = "") -> None:
        super().__init__(message)
        self.execution_id = execution_id
        #: The class name of the child's error.
        self.error_name = error_name


class ChildCancelled(ChildFailed):
    """The awaited execution was cancelled (spec C4)."""


class OutcomePruned(WorkflowError):
    """The awaited execution has ended, and its outcome is no longer kept (spec C2)."""


class StoreMissing(WorkflowError):
    """There is no such store, and nothing was said to begin it with (spec S1)."""


class StoreChanged(WorkflowError):
    """The store is not at the version that the snapshot is of (spec S2)."""


class InvalidState(WorkflowError):
    """A store's state does not fit its type, or cannot be stored; nothing was changed (S2)."""


class LeaseEnded(WorkflowError):
    """An effect was not tried: another worker may have taken over by now (spec L2, F1)."""


class EffectMismatch(WorkflowError):
    """The effect ID stands for another operation, or for another input (spec F1)."""


class InvalidMessage(WorkflowError):
    """A message did not fit the type that it was awaited as; it is consumed (spec M2)."""


class Cancelled(BaseException):
    """The branch or the execution is being cancelled; clean up and let it through."""


# --- faults of the code: the delivery stops, the execution is held (spec E12) ------------------


class CodeFault(Exception):
    """A fault of the code: not an outcome. The execution is held until the code changes."""

    code: ClassVar[str] = "CODE_FAULT"

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class Diverged(CodeFault):
    """The history and the code disagree (spec R5)."""

    code = "DIVERGED"


class StepNotAwaited(CodeFault):
    """An operation was made and never awaited (spec R9)."""

    code = "STEP_NOT_AWAITED"


class ForeignAwait(CodeFault):
    """The function awaits something that is not an operation of `step` (spec R9)."""

    code = "FOREIGN_AWAIT"


class MisplacedCall(CodeFault):
    """An operation or a `Runtime` call was used where it may not be (spec R9)."""

    code = "MISPLACED_CALL"


class ParamsFault(CodeFault):
    """The recorded params no longer fit what the code declares (spec E4)."""

    code = "INVALID_PARAMS"


class InvalidEffectAnswer(CodeFault):
    """What `lookup` or `perform` of an effect returned says nothing that can be kept (F1)."""

    code = "INVALID_EFFECT_ANSWER"


class UndecodableRecord(CodeFault):
    """A recorded value no longer decodes (spec E12)."""

    code = "UNDECODABLE"
