"""The frozen nouns that every room shares (spec section 1). No behaviour beyond reading them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from yieldstar_cli.model_frozen import quick_dataclass
from yieldstar_cli.nouns import dataclass, field

WakeAnswer = Literal["requested", "ignored"]
#: What became of a message: see spec M1.
SendAnswer = Literal["delivered", "buffered", "refused"]
#: What became of a wish to cancel: asked for, ended at once, or too late (spec C6).
CancelAnswer = Literal["requested", "cancelled", "ignored"]
#: Whether a mark was set or lifted, or already was as asked (spec E14).
PauseAnswer = Literal["paused", "resumed", "unchanged", "ignored"]

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


@quick_dataclass(frozen=True, slots=True)
class Suspended:
    """The delivery waits. `due_at` is the earliest moment among its own waits, or None."""

    due_at: int | None = None


@quick_dataclass(frozen=True, slots=True)
class Completed:
    """The workflow returned; `result` is JSON text of the codec."""

    result: str = "null"


@quick_dataclass(frozen=True, slots=True)
class Failed:
    """An exception left the workflow; `error` is JSON text of `failures.encode_error`."""

    error: str


@quick_dataclass(frozen=True, slots=True)
class CancelledOutcome:
    """The execution was cancelled, with the reason given, if any."""

    reason: str | None = None


@quick_dataclass(frozen=True, slots=True)
class Continued:
    """The function continued as new: the next incarnation begins with these params (spec C7)."""

    #: JSON text, validated by whoever made it.
    params: str
    #: The version of the workflow that the next incarnation runs (spec R11).
    version: int
    #: The request to cancel came when the function had left: the next one is told (spec C6).
    untold: bool = False


Outcome = Suspended | Completed | Failed | CancelledOutcome | Continued
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
class Paused:
    """Not claimed until it is resumed (spec E14)."""

    #: "execution", "workflow" or "all".
    scope: str
    by: str
    at: int
    reason: str | None = None
    #: The workflow's name under scope "workflow".
    workflow_id: str | None = None


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """Somebody asked for the execution to be cancelled (spec C6)."""

    at: int
    reason: str | None = None
    #: True once a delivery has recorded it: the function was told.
    told: bool = False


@quick_dataclass(frozen=True, slots=True)
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
    #: "died", "lease ended", "released", "handed back", "cancelled" (at once, from outside),
    #: or the code of a problem.
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
    #: Who started it, or None; a detached child goes on when its parent ends (spec C4).
    parent_execution_id: str | None = None
    detached: bool = False
    cancel: CancelRequested | None = None
    #: The mark on itself, else on its workflow, else on the file (spec E14).
    paused: Paused | None = None
    #: It goes on at a worker that has one of these tags (spec O5).
    needs: tuple[str, ...] = ()
    #: Since when its history and values are no longer kept; its outcome then says nothing.
    pruned_at: int | None = None

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
    #: The next message of a queue, or the next batch.
    MESSAGE = "message"
    MESSAGES = "messages"
    #: Reads of a queue that never wait.
    TRY_MESSAGE = "try-message"
    QUEUE_DEPTH = "queue-depth"
    #: A child's admission; the end of any execution that is awaited; a look at one.
    START = "start"
    CHILD = "child"
    STATUS = "status"
    #: What goes out to other executions.
    SEND = "send"
    WAKE = "wake"
    CANCEL_CHILD = "cancel-child"
    #: Stores: opened, read, changed, waited for (spec section 7).
    STORE = "store"
    STORE_GET = "store-get"
    STORE_SELECT = "store-select"
    STORE_UPDATE = "store-update"
    STORE_DELETE = "store-delete"
    STORE_WHEN = "store-when"
    STORE_TAKE = "store-take"
    #: An effect of the outside world that is looked up before it is done again (spec F1).
    EFFECT = "effect"
    #: A step that runs after the function has ended.
    DEFER = "defer"
    #: The request to cancel this execution reached its function (spec C6).
    CANCEL = "cancel"


@quick_dataclass(frozen=True, slots=True)
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


@quick_dataclass(frozen=True, slots=True)
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


@quick_dataclass(frozen=True, slots=True)
class Retry:
    """Where an open step or poll stands: attempts used up so far and the next one's moment."""

    step_key: str
    kind: str
    attempts: int
    errors: int
    retry_at: int


#: From the whole state down: names of fields, keys, positions in lists.
Path = tuple[str | int, ...]


@quick_dataclass(frozen=True, slots=True)
class Reading:
    """A place in a store's state, and what stood there when it was read (spec S4)."""

    path: Path
    #: Of the value's JSON; the empty text where nothing stood there.
    digest: str


@quick_dataclass(frozen=True, slots=True)
class Wait:
    """An open operation of a suspended or running delivery, for `show` and `explain`."""

    kind: str
    step_key: str
    label: str
    since_at: int
    #: Its moment, for timers and retry pauses; None for a step that runs or is to run.
    due_at: int | None
    #: "waiting", "retrying", or "tagged" for a step that this worker lacks the tag for.
    state: str
    attempt: int = 1
    #: Where it stands among the open ones: those awaited earlier come first.
    position: int = 0
    #: The queue of a message wait.
    queue: str | None = None
    #: The execution whose end is awaited.
    target: str | None = None
    #: The tag that the step asks for (spec O5).
    tag: str | None = None
    #: The store whose state is waited for, by name and ID, and what was read of it in vain.
    store: tuple[str, str] | None = None
    read: tuple[Reading, ...] = ()
    #: The instance that was read, or None where there was none.
    instance: str | None = None
    #: The effect that another holds, and whose settlement or release is awaited (spec F1).
    effect: str | None = None


@quick_dataclass(frozen=True, slots=True)
class LogLine:
    """One line a workflow logged; `index` counts from 0 within the incarnation."""

    index: int
    at: int
    level: int
    text: str


# --- what goes out to other executions -------------------------------------------------------


@quick_dataclass(frozen=True, slots=True)
class Start:
    """Admit a child (spec C3). Its entry's value is the workflow, or says why it was refused."""

    step_key: str
    at: int
    execution_id: str
    workflow_id: str
    version: int
    #: JSON text, validated by whoever made it.
    params: str
    detached: bool = False
    withdrawn: bool = False


@quick_dataclass(frozen=True, slots=True)
class Send:
    """Send a message (spec M1). Its entry's value is the answer, as a JSON string."""

    step_key: str
    at: int
    execution_id: str
    queue: str
    #: JSON text.
    value: str
    ttl_ms: int
    withdrawn: bool = False


@quick_dataclass(frozen=True, slots=True)
class WakeOther:
    """Request a wake (spec E6). Its entry's value is the answer, or "not_found"."""

    step_key: str
    at: int
    execution_id: str
    withdrawn: bool = False


@quick_dataclass(frozen=True, slots=True)
class CancelOther:
    """Ask for a child to be cancelled (spec C4). Its entry's value is the answer."""

    step_key: str
    at: int
    execution_id: str
    reason: str | None = None
    withdrawn: bool = False


@quick_dataclass(frozen=True, slots=True)
class OpenStore:
    """Make sure that a store is there (spec S1). Its entry's value names instance and version."""

    step_key: str
    at: int
    name: str
    store_id: str
    #: JSON text, validated by whoever made it; None: it has to be there.
    initial: str | None
    withdrawn: bool = False


@quick_dataclass(frozen=True, slots=True)
class ChangeStore:
    """Write a state that was computed from one version of a store (spec S2, S3, S5).

    Where the store is at another by now, nothing is written. With `fails` that is recorded as
    the operation's error; without, there is no entry, and whoever asked computes anew.
    """

    step_key: str
    at: int
    #: "store-update", "store-delete" or "store-take": the kind of the entry.
    kind: str
    name: str
    store_id: str
    instance: str
    version: int
    #: JSON text; None deletes the store.
    state: str | None
    #: The entry's value, JSON text; None: the new instance and version.
    result: str | None = None
    fails: bool = False
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class HoldEffect:
    """Ask for the right to look an effect up or to perform it; one at a time has it (spec F1).

    An effect that is settled, or that is of another operation or input, ends it with an entry.
    Otherwise there is none, and `Recorded.holds` says how it stands.
    """

    step_key: str
    at: int
    effect_id: str
    operation: str
    #: JSON text.
    input: str
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class SettleEffect:
    """Keep an effect's result, for every execution. Its entry's value is the one that stands."""

    step_key: str
    at: int
    effect_id: str
    #: JSON text.
    result: str
    #: Of the try that brought it; for people.
    started_at: int | None = None
    attempt: int = 1
    withdrawn: bool = False


@dataclass(frozen=True, slots=True)
class LetGoEffect:
    """Give the right to an effect back, unsettled: whoever is next looks it up. No entry."""

    step_key: str
    at: int
    effect_id: str
    withdrawn: bool = False


Action = (
    Start
    | Send
    | WakeOther
    | CancelOther
    | OpenStore
    | ChangeStore
    | HoldEffect
    | SettleEffect
    | LetGoEffect
)


@dataclass(frozen=True, slots=True)
class Hold:
    """How an effect stands that a round asked for and that is not settled (spec F1)."""

    step_key: str
    #: "certain": nobody has ever tried it, and this delivery may; "uncertain": it may, and has
    #: to look it up first; "still": it had the right before, and has it; "busy": another has it.
    state: str


@dataclass(frozen=True, slots=True)
class EffectReport:
    """What did not agree with an effect as it stands (spec F1)."""

    at: int
    execution_id: str
    #: "mismatch": another operation or input asked for the same ID; "conflict": another result
    #: came after the one that stands; "late": a result of a delivery that was over.
    kind: str
    operation: str | None
    #: JSON texts.
    input: str | None
    result: str | None


@dataclass(frozen=True, slots=True)
class EffectRecord:
    """One effect, for all executions (spec F1)."""

    effect_id: str
    operation: str
    #: JSON text.
    input: str
    #: "pending" or "settled".
    status: str
    #: JSON text, once it is settled.
    result: str | None
    begun_at: int
    begun_by: str
    settled_at: int | None
    settled_by: str | None
    #: The execution whose delivery has the right to try it now.
    holder: str | None
    reports: tuple[EffectReport, ...] = ()

    @property
    def disputed(self) -> bool:
        """True where something did not agree: a mismatch, or another result."""
        return any(
            report.kind != "late" or (self.result is not None and report.result != self.result)
            for report in self.reports
        )


@dataclass(frozen=True, slots=True)
class StoreRecord:
    """One store as it is now (spec S1, S2)."""

    name: str
    store_id: str
    #: Unlike that of any store before it under this name.
    instance: str
    version: int
    #: JSON text.
    state: str
    created_at: int
    updated_at: int


@quick_dataclass(frozen=True, slots=True)
class Round:
    """What one round of a delivery writes, in one transaction (spec R4)."""

    entries: tuple[Entry, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    logs: tuple[LogLine, ...] = ()
    #: JSON text; None leaves the recorded one.
    status_value: str | None = None
    #: Open operations that are new or have changed; the others stay as recorded.
    waits: tuple[Wait, ...] = ()
    #: Kind and key of those that are open no more.
    unwait: tuple[tuple[str, str], ...] = ()
    #: Numbers of the messages that `entries` took, and of those that did not fit their type.
    consumed: tuple[int, ...] = ()
    invalid: tuple[int, ...] = ()
    #: Done in this transaction, after `entries`; each adds an entry of its own, in this order.
    actions: tuple[Action, ...] = ()
    #: The request to cancel is among `entries` (spec C6).
    told: bool = False
    #: With a suspension: tags, one of which a worker needs to go on (spec O5).
    needs: tuple[str, ...] = ()
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
            or self.waits
            or self.unwait
            or self.actions
            or self.invalid
            or self.outcome is not None
        )


@quick_dataclass(frozen=True, slots=True)
class Recorded:
    """What came of a round."""

    #: The outcome that now stands; None while the delivery goes on.
    outcome: Outcome | None = None
    #: What the round's actions added to the history, after the round's own entries.
    entries: tuple[Entry, ...] = ()
    #: An open wait is ready, or a request to cancel is there: look before anything starts. A round
    #: that asked to suspend is then recorded without suspending (spec R10).
    ready: bool = False
    #: How the effects stand that the round asked for, unless an entry says it.
    holds: tuple[Hold, ...] = ()
    #: By this end others became due, or are to look again.
    stirred: bool = field(default=False, compare=False)


# --- what a look finds -------------------------------------------------------------------------


@quick_dataclass(frozen=True, slots=True)
class Arrived:
    """A message that nobody has read (spec M1)."""

    number: int
    queue: str
    at: int
    #: JSON text.
    value: str


@quick_dataclass(frozen=True, slots=True)
class Ended:
    """An awaited execution that is terminal, or that does not exist (`outcome` None)."""

    step_key: str
    execution_id: str
    #: When it became terminal.
    at: int
    outcome: TerminalOutcome | None
    #: Its outcome is no longer kept: `outcome` only says how it ended.
    pruned: bool = False


@quick_dataclass(frozen=True, slots=True)
class Look:
    """What is ready for one open delivery; reading it changes nothing (spec R4)."""

    arrived: tuple[Arrived, ...] = ()
    ended: tuple[Ended, ...] = ()
    #: A request to cancel that no delivery has recorded yet.
    cancel: CancelRequested | None = None
    paused: bool = False
    #: How many messages wait, by queue; how executions stand, by ID (None: there is none).
    depths: Mapping[str, int] = field(default_factory=dict)
    statuses: Mapping[str, tuple[str, TerminalOutcome | None] | None] = field(default_factory=dict)
    #: The stores asked for; None where there is none.
    stores: Mapping[tuple[str, str], StoreRecord | None] = field(default_factory=dict)


# --- messages ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Message:
    """One message and its fate, for people (spec M1-M3)."""

    number: int
    queue: str
    idempotency_key: str | None
    #: "waiting", "consumed", "invalid", "buffered" or "expired".
    state: str
    sent_at: int
    #: When a buffered one expires or has expired.
    expires_at: int | None
    consumed_at: int | None
    #: JSON text.
    value: str


@dataclass(frozen=True, slots=True)
class Incarnation:
    """An incarnation that has ended and is still kept (spec C7)."""

    incarnation: int
    version: int
    params_json: str
    started_at: int | None
    ended_at: int
    operations: int


@quick_dataclass(frozen=True, slots=True)
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
    #: True while a request to cancel is there that no delivery has recorded (spec C6).
    cancelling: bool = False
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
    #: What it was started with (spec O5).
    tags: tuple[str, ...] = ()


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
    #: What a worker must be started with to run it (spec O5).
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModuleInfo:
    """One module file as last seen: its workflows, or why it did not load."""

    path: str
    mtime_ns: int
    size: int
    error: str | None
    workflows: tuple[WorkflowInfo, ...]
