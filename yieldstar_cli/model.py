"""The frozen nouns that every room shares (spec section 1). No behaviour beyond reading them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

WakeAnswer = Literal["requested", "ignored"]

#: The history format that this program writes (spec R11).
HISTORY_FORMAT = 1


class Status(StrEnum):
    """What the last acknowledged delivery left behind (spec E5)."""

    ADMITTED = "admitted"
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """True for completed, failed and cancelled: nothing changes such a record (spec E10)."""
        return self in (Status.COMPLETED, Status.FAILED, Status.CANCELLED)


# --- outcomes ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Suspended:
    """The delivery waits. `due_at` is the earliest moment among its own waits, or None."""

    due_at: int | None = None


@dataclass(frozen=True, slots=True)
class Completed:
    """The workflow returned; `result` is JSON text of the codec."""

    result: str = "null"


@dataclass(frozen=True, slots=True)
class Failed:
    """An exception left the workflow; `error` is JSON text of `failures.encode_error`."""

    error: str


@dataclass(frozen=True, slots=True)
class CancelledOutcome:
    """The execution was cancelled, with the reason given, if any."""

    reason: str | None = None


Outcome = Suspended | Completed | Failed | CancelledOutcome
TerminalOutcome = Completed | Failed | CancelledOutcome


# --- the record ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Problem:
    """What last kept a delivery from being acknowledged (spec E12)."""

    code: str
    message: str
    first_at: int
    last_at: int
    count: int


@dataclass(frozen=True, slots=True)
class Held:
    """Due, but not claimed until `until_at`, or until an event when that is None (spec E12)."""

    since_at: int
    until_at: int | None
    code: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """One claim on one execution by one worker. `token` is opaque to callers (spec L2)."""

    execution_id: str
    token: int
    #: The record's internal number: what rows and marks use instead of the ID.
    number: int = field(compare=False, default=0)


@dataclass(frozen=True, slots=True)
class LiveDelivery:
    """The open delivery of a record, for people."""

    worker: str
    since_at: int
    #: When its worker's lease ends, unless renewed.
    expires_at: int


@dataclass(frozen=True, slots=True)
class LostDelivery:
    """A delivery that ended without an acknowledgement (spec E5)."""

    token: int
    worker: str
    started_at: int
    ended_at: int
    #: "died", "lease ended", "released", "handed back", or the code of a problem.
    how: str


@dataclass(frozen=True, slots=True)
class ExecutionRecord:
    """The one durable row of an execution (RFC 001, spec section 2). JSON columns stay text."""

    number: int
    execution_id: str
    workflow_id: str
    #: JSON text as stored: decode with `codec.decode`.
    params_json: str
    context_json: str
    status: Status
    #: Present only in terminal states.
    outcome: TerminalOutcome | None
    admitted_at: int
    updated_at: int
    #: Earliest wake that no delivery covers, or None.
    due_at: int | None
    covered_due_at: int | None
    #: How often the record was claimed; the last claim's token.
    deliveries: int
    incarnation: int
    version: int
    format: int
    #: The workflow's own progress value, JSON text.
    status_value_json: str | None
    delivery: LiveDelivery | None
    held: Held | None
    poisoned_at: int | None
    deaths: int
    problem: Problem | None
    #: Of the last claim: when, by whom, and when it was acknowledged (None while open or lost).
    last_claimed_at: int | None
    last_acked_at: int | None
    last_worker: str | None
    #: First claim of this incarnation (spec R7).
    started_at: int | None
    #: Number of resolutions in this incarnation.
    operations: int

    @property
    def params(self) -> object:
        """The params as plain values, freshly decoded: changing them changes nothing."""
        from yieldstar_cli import codec

        return codec.decode(self.params_json)

    @property
    def context(self) -> object:
        """The context as a read-only mapping."""
        from types import MappingProxyType

        from yieldstar_cli import codec

        return MappingProxyType(codec.decode(self.context_json))


# --- history -------------------------------------------------------------------------------


class Kind(StrEnum):
    """What an operation is; keys of different kinds never collide (spec R3)."""

    STEP = "step"
    POLL = "poll"
    TIMER = "timer"
    PATCH = "patch"


@dataclass(frozen=True, slots=True)
class Entry:
    """One recorded resolution (spec R4). `value` is JSON text: a result, or an error."""

    position: int
    kind: str
    step_key: str
    ok: bool
    value: str
    #: The moment of the resolution: never before that of the one ahead of it (spec R7).
    at: int
    #: When its last attempt began, and which attempt (from 1) it was; for people.
    started_at: int | None = None
    attempt: int = 1
    label: str = ""
    #: "issued and later withdrawn": kept for people, passed over on replay.
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One ended try of a step or poll that was not its resolution (spec O1)."""

    step_key: str
    kind: str
    attempt: int
    started_at: int
    ended_at: int
    #: "error", "timeout" or "empty" (a falsy poll).
    how: str
    #: JSON text of the error; None for an empty poll.
    error: str | None
    #: When the next attempt is due.
    retry_at: int


@dataclass(frozen=True, slots=True)
class Retry:
    """Where an open step or poll stands: attempts used up so far and the next one's moment."""

    step_key: str
    kind: str
    attempts: int
    errors: int
    retry_at: int


@dataclass(frozen=True, slots=True)
class Wait:
    """An open operation of a suspended or running delivery, for `show` and `explain`."""

    kind: str
    step_key: str
    label: str
    since_at: int
    #: Its moment, for timers and retry pauses; None for a step that runs or is to run.
    due_at: int | None
    #: "waiting", "retrying" or "running".
    state: str
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line a workflow logged; `index` counts from 0 within the incarnation."""

    index: int
    at: int
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Round:
    """What one round of a delivery writes, in one transaction (spec R4)."""

    entries: tuple[Entry, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    logs: tuple[LogLine, ...] = ()
    #: JSON text; None leaves the recorded one.
    status_value: str | None = None
    #: The open operations after this round; None leaves the recorded ones.
    waits: tuple[Wait, ...] | None = None
    #: None keeps the delivery open.
    outcome: Outcome | None = None

    @property
    def empty(self) -> bool:
        """True when there is nothing to write."""
        return not (
            self.entries
            or self.attempts
            or self.logs
            or self.status_value is not None
            or self.waits is not None
            or self.outcome is not None
        )


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery with all that a driver needs, read in the claim's transaction."""

    delivery: Delivery
    workflow_id: str
    version: int
    params_json: str
    context_json: str
    incarnation: int
    seed: bytes
    started_at: int
    status_value_json: str | None
    #: The history from `first_position` on.
    history: tuple[Entry, ...]
    first_position: int
    retries: tuple[Retry, ...]
    log_count: int
    #: Resolutions recorded in this incarnation, those before `first_position` included.
    operations: int
    #: The moment of the last resolution of all incarnations, or None.
    last_moment: int | None
    deaths: int
    #: The open operations as last recorded.
    waits: tuple[Wait, ...] = ()


# --- workers and the catalog ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker process, alive or gone (spec L1, L3)."""

    number: int
    name: str
    host: str
    pid: int
    slot: int
    nonce: bytes
    boot_id: str
    device: int
    inode: int
    started_at: int
    lease_until_at: int
    stopped_at: int | None
    #: "stopped", "handed back", "died", "lease ended"; None while it lives.
    how: str | None
    #: What it can run: (workflow_id, version).
    workflows: tuple[tuple[str, int], ...]
    #: Modules that did not load: (file, message).
    broken: tuple[tuple[str, str], ...]
    #: True for the process of its own in which a suspect runs (spec L5).
    alone: bool = False


@dataclass(frozen=True, slots=True)
class WorkflowInfo:
    """What the catalog knows of one workflow without loading its module (spec K4)."""

    workflow_id: str
    version: int
    file: str
    line: int
    doc: str
    #: JSON text of `params.describe`: enough to check and coerce params.
    params_description: str
    params_schema: str
    result_schema: str
    retry: str | None = None


@dataclass(frozen=True, slots=True)
class ModuleInfo:
    """One module file as last seen: its workflows, or why it did not load."""

    path: str
    mtime_ns: int
    size: int
    error: str | None
    workflows: tuple[WorkflowInfo, ...]
