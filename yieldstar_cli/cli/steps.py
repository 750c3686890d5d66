"""The operations of one execution in the order they began: ended, running, waiting, retrying."""

from __future__ import annotations

from yieldstar_cli.cli.effect_words import step_note
from yieldstar_cli.cli.facts import Facts
from yieldstar_cli.model import Attempt, Entry, Kind, Reading, Wait
from yieldstar_cli.nouns import dataclass, replace

#: Kinds whose time is work; that of the others is waiting.
_WORK = (Kind.STEP, Kind.POLL, Kind.DEFER, Kind.EFFECT)
#: Operations on stores, as authors write them.
_STORES = {
    Kind.STORE: "store",
    Kind.STORE_GET: "get",
    Kind.STORE_SELECT: "select",
    Kind.STORE_UPDATE: "update",
    Kind.STORE_DELETE: "delete",
    Kind.STORE_WHEN: "when",
    Kind.STORE_TAKE: "take",
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation, ended or open."""

    kind: str
    step_key: str
    label: str
    #: running, waiting, retrying, completed, failed or cancelled (spec E5).
    state: str
    attempt: int
    started_at: int | None
    finished_at: int | None
    #: The moment of an open timer or of the next try.
    due_at: int | None
    #: JSON text of the result or error; None while open.
    value: str | None
    attempts: tuple[Attempt, ...]
    #: The queue of a message wait, the execution awaited, the tag that a step asks for.
    queue: str | None = None
    target: str | None = None
    tag: str | None = None
    #: The store that is waited for, what was read of it in vain, and of which instance.
    store: tuple[str, str] | None = None
    read: tuple[Reading, ...] = ()
    instance: str | None = None
    #: The effect that another tries now.
    effect: str | None = None
    #: What stands below its line.
    note: str = ""

    @property
    def is_work(self) -> bool:
        """Whether it runs code, rather than waits for a moment."""
        return self.kind in _WORK and self.effect is None

    @property
    def took_ms(self) -> int | None:
        """From its first try to its end."""
        first = self.attempts[0].started_at if self.attempts else self.started_at
        if self.finished_at is None or first is None:
            return None
        return max(0, self.finished_at - first)

    @property
    def name(self) -> str:
        """What it is, in a table: `sleep 10m`, `msg "decision"`, `child charge-43`."""
        return name_of(self)


def name_of(operation: Operation | Entry | Wait) -> str:
    """What an operation is, in a table: `load-order`, `sleep 10m`, `msg "cancel"`."""
    branch, sign, key = operation.step_key.rpartition(":")
    base, hash_sign, nth = key.partition("#")
    queue = getattr(operation, "queue", None)
    target = getattr(operation, "target", None)
    match operation.kind:
        case Kind.MESSAGE | Kind.MESSAGES:
            name = f'msg "{queue or base}"'
        case Kind.TRY_MESSAGE:
            name = f'try-msg "{operation.label or base}"'
        case Kind.QUEUE_DEPTH:
            name = f'depth "{operation.label or base}"'
        case Kind.CHILD if base == "attach":
            return f"attach {target or operation.label}"
        case Kind.CHILD:
            return f"child {target or operation.label or operation.step_key}"
        case Kind.START | Kind.STATUS | Kind.SEND | Kind.WAKE as kind:
            return f"{kind} {operation.label or operation.step_key}"
        case Kind.CANCEL_CHILD:
            return f"cancel {operation.label or operation.step_key}"
        case Kind.STORE_WHEN | Kind.STORE_TAKE if isinstance(operation, Wait):
            # Where the wait stands alone, what is waited for says more than how.
            return f"store {operation.label or base}"
        case kind if kind in _STORES:
            name = f"{_STORES[Kind(kind)]} {operation.label or base}"
        case Kind.DEFER:
            name = f"defer {base}"
        case Kind.CANCEL:
            return "cancel requested"
        case _:
            return f"{operation.step_key} {operation.label}".strip()
    return f"{branch}{sign}{name}{f' #{nth}' if hash_sign else ''}"


def operations(facts: Facts) -> list[Operation]:
    """All operations of this incarnation, in the order they began.

    A patch marker is history and no operation that takes time; it is left out.
    """
    tries: dict[tuple[str, str], list[Attempt]] = {}
    for attempt in facts.attempts:
        tries.setdefault((attempt.kind, attempt.step_key), []).append(attempt)
    found = []
    before = facts.record.started_at
    for entry in facts.entries:
        if entry.kind != Kind.PATCH:
            mine = tuple(tries.get((entry.kind, entry.step_key), ()))
            found.append(_ended(entry, mine, before))
        before = entry.at
    ended = {(operation.kind, operation.step_key) for operation in found}
    found += [
        _open(wait, tuple(tries.get((wait.kind, wait.step_key), ())), facts)
        for wait in facts.waits
        if (wait.kind, wait.step_key) not in ended
    ]
    # Nothing need be recorded of a step that runs: the mark of its worker tells (spec L5).
    named = {operation.step_key for operation in found}
    found += [
        Operation("step", run.step_key, "", "running", 1, run.since_at, None, None, None, ())
        for run in facts.running
        if run.step_key and run.step_key not in named
    ]
    return sorted((_noted(operation, facts) for operation in found), key=_began)


def _noted(operation: Operation, facts: Facts) -> Operation:
    if operation.kind != Kind.EFFECT:
        return operation
    own = facts.record.execution_id
    return replace(operation, note=step_note(operation, own, facts.effects, facts.now_ms))


def _began(operation: Operation) -> int:
    if operation.attempts:
        return operation.attempts[0].started_at
    for moment in (operation.started_at, operation.finished_at):
        if moment is not None:
            return moment
    return 0


def _ended(entry: Entry, attempts: tuple[Attempt, ...], before: int | None) -> Operation:
    """`before` is the moment of the resolution ahead: from then on a timer can have run."""
    state = "cancelled" if entry.withdrawn else "completed" if entry.ok else "failed"
    return Operation(
        kind=entry.kind,
        step_key=entry.step_key,
        label=entry.label,
        state=state,
        attempt=entry.attempt,
        started_at=before if entry.started_at is None else entry.started_at,
        finished_at=entry.at,
        due_at=None,
        value=entry.value,
        attempts=attempts,
    )


def _open(wait: Wait, attempts: tuple[Attempt, ...], facts: Facts) -> Operation:
    since = wait.since_at
    # A step whose tag the worker lacked waits for one that has it (spec O5).
    state = "waiting" if wait.state == "tagged" else wait.state
    if state == "running":
        marked = [run.since_at for run in facts.running if run.step_key == wait.step_key]
        if marked:
            since = marked[0]
        elif facts.record.delivery is None or facts.expired_at is not None:
            # Nobody runs it: the next delivery will.
            state = "waiting"
    return Operation(
        kind=wait.kind,
        step_key=wait.step_key,
        label=wait.label,
        state=state,
        attempt=wait.attempt,
        started_at=since,
        finished_at=None,
        due_at=wait.due_at,
        value=None,
        attempts=attempts,
        queue=wait.queue,
        target=wait.target,
        tag=wait.tag,
        store=wait.store,
        read=wait.read,
        instance=wait.instance,
        effect=wait.effect,
    )
