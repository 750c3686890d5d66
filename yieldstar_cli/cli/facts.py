"""What a person may want to know about one execution, read at one moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from yieldstar_cli.model import (
    Attempt,
    EffectRecord,
    Entry,
    ExecutionRecord,
    Incarnation,
    Kind,
    LostDelivery,
    Paused,
    StoreRecord,
    Wait,
    WorkerRow,
)
from yieldstar_cli.nouns import dataclass, field, replace
from yieldstar_cli.storage.contract import Storage

#: The queue that `ys approve` and `ys reject` answer.
DECISION = "decision"
#: Of more stores that one execution waits for, the states are not read.
MOST_STORES = 20
#: Of more effects of one execution, only these latest ones are read; open ones go first.
MOST_EFFECTS = 100


@dataclass(frozen=True, slots=True)
class Running:
    """Code that a live worker is in: a step, or the function itself when `step_key` is empty."""

    step_key: str
    since_at: int
    worker: str


@dataclass(frozen=True, slots=True)
class Crew:
    """The workers on a database, and which of them are known to live."""

    rows: tuple[WorkerRow, ...] = ()
    #: Numbers of the rows that live: not stopped, not found dead, lease not ended.
    living: frozenset[int] = frozenset()
    #: Execution number to what a living worker runs of it.
    running: dict[int, list[Running]] = field(default_factory=dict)

    @property
    def alive(self) -> list[WorkerRow]:
        """The workers that live, newest first."""
        return [row for row in self.rows if row.number in self.living]

    def has(self, workflow_id: str, version: int) -> bool:
        """Whether a living worker runs this workflow."""
        return bool(self.who_has(workflow_id, version))

    def who_has(self, workflow_id: str, version: int) -> list[WorkerRow]:
        """The living workers that run this workflow."""
        return [row for row in self.alive if (workflow_id, version) in row.workflows]

    def versions(self, workflow_id: str) -> list[int]:
        """The versions of a workflow that living workers run (spec R11)."""
        return sorted({v for row in self.alive for name, v in row.workflows if name == workflow_id})

    @property
    def last(self) -> WorkerRow | None:
        """The worker seen last."""
        return max(self.rows, key=seen_at, default=None)


def seen_at(row: WorkerRow) -> int:
    """When a worker is last known to have lived: its end, or its last renewal at the latest."""
    return row.stopped_at if row.stopped_at is not None else row.lease_until_at


@dataclass(frozen=True, slots=True)
class Awaited:
    """An execution whose end another one awaits."""

    execution_id: str
    #: None where there is no such execution.
    record: ExecutionRecord | None
    #: What it waits for in turn; None where it has ended or was not followed.
    facts: Facts | None = None
    #: It is the one asked about, or one on the way to here.
    above: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """One execution, its history and what it waits for."""

    record: ExecutionRecord
    entries: tuple[Entry, ...]
    attempts: tuple[Attempt, ...]
    waits: tuple[Wait, ...]
    lost: tuple[LostDelivery, ...]
    crew: Crew
    now_ms: int
    #: How many messages nobody has read, by queue.
    unread: Mapping[str, int] = field(default_factory=dict)
    #: The executions whose end it awaits, by ID; only those that were looked at (`beyond`).
    awaited: Mapping[str, Awaited] = field(default_factory=dict)
    #: The stores it waits for, by name and ID, None where there is none; the first ones only.
    stores: Mapping[tuple[str, str], StoreRecord | None] = field(default_factory=dict)
    #: The effects that it has asked for, by ID; the latest ones only.
    effects: Mapping[str, EffectRecord] = field(default_factory=dict)
    #: How many children it has started, by workflow and status.
    child_counts: Mapping[tuple[str, str], int] = field(default_factory=dict)
    #: Marks on its workflow and on the file (spec E14).
    pauses: tuple[Paused, ...] = ()
    #: What its workflow asks of a worker, as far as the catalog knows (spec O5).
    tags: tuple[str, ...] = ()
    #: Set where an earlier incarnation is shown: history and params are that one's.
    earlier: Incarnation | None = None

    @property
    def children(self) -> int:
        """How many children it has started in all."""
        return sum(self.child_counts.values())

    @property
    def held(self) -> bool:
        """Whether a hold keeps it from being claimed now (spec E12)."""
        held = self.record.held
        return held is not None and (held.until_at is None or held.until_at > self.now_ms)

    @property
    def running(self) -> list[Running]:
        """What a living worker runs of it."""
        return self.crew.running.get(self.record.number, [])

    @property
    def expired_at(self) -> int | None:
        """When its open delivery came to nothing: the lease's end, or now if its worker is dead."""
        return expired_at(self.record, self.crew, self.now_ms)


def expired_at(record: ExecutionRecord, crew: Crew, now_ms: int) -> int | None:
    """When a record's open delivery lost its lease or its worker; None while it lives."""
    delivery = record.delivery
    if delivery is None:
        return None
    if delivery.expires_at <= now_ms:
        return delivery.expires_at
    named = [row for row in crew.rows if row.name == delivery.worker]
    if named and not any(row.number in crew.living for row in named):
        return now_ms
    return None


def gather(storage: Storage, record: ExecutionRecord, crew: Crew, now_ms: int) -> Facts:
    """The facts about `record`, read in one view of the database."""
    with storage.atomic():
        fresh = storage.executions.get(record.execution_id) or record
        reader = storage.reader
        entries = tuple(reader.history(fresh.number, fresh.incarnation))
        found = gather_open(storage, fresh, crew, now_ms)
        return replace(
            found,
            entries=entries,
            attempts=tuple(reader.attempts(fresh.number, fresh.incarnation)),
            effects=_effects(storage, found.waits, entries),
            lost=tuple(reader.lost_deliveries(fresh.number)),
            child_counts=storage.family.child_counts(fresh.number),
        )


def gather_open(storage: Storage, record: ExecutionRecord, crew: Crew, now_ms: int) -> Facts:
    """What `record` waits for, without its history: enough to say what would wake it."""
    waits = () if record.status.terminal else tuple(storage.reader.waits(record.number))
    return Facts(
        record=record,
        entries=(),
        attempts=_doubts(storage, record, waits),
        waits=waits,
        lost=(),
        crew=crew,
        now_ms=now_ms,
        unread=storage.inbox.unread_counts(record.number),
        stores=_stores(storage, waits),
        effects=_effects(storage, waits),
    )


def _stores(storage: Storage, waits: tuple[Wait, ...]) -> dict[tuple[str, str], StoreRecord | None]:
    names = dict.fromkeys(wait.store for wait in waits if wait.store is not None)
    return {key: storage.stores.get(*key) for key in list(names)[:MOST_STORES]}


def _effects(
    storage: Storage, waits: tuple[Wait, ...], entries: tuple[Entry, ...] = ()
) -> dict[str, EffectRecord]:
    """The effects that these name."""
    both: tuple[Wait | Entry, ...] = (*waits, *reversed(entries))
    names = dict.fromkeys(one.label for one in both if one.kind == Kind.EFFECT)
    found = {name: storage.effects.get(name) for name in list(names)[:MOST_EFFECTS]}
    return {name: record for name, record in found.items() if record is not None}


def _doubts(
    storage: Storage, record: ExecutionRecord, waits: tuple[Wait, ...]
) -> tuple[Attempt, ...]:
    """The tries that came to nothing, where an effect's are among them: they say why."""
    if not any(wait.kind == Kind.EFFECT and wait.state == "retrying" for wait in waits):
        return ()
    return tuple(storage.reader.attempts(record.number, record.incarnation))


def gather_earlier(facts: Facts, storage: Storage, earlier: Incarnation) -> Facts:
    """The facts about an incarnation that has ended: its history and its params (spec C7)."""
    number, reader = facts.record.number, storage.reader
    entries = tuple(reader.history(number, earlier.incarnation))
    return replace(
        facts,
        record=replace(
            facts.record,
            incarnation=earlier.incarnation,
            version=earlier.version,
            params_json=earlier.params_json,
            started_at=earlier.started_at,
            operations=earlier.operations,
        ),
        entries=entries,
        effects=_effects(storage, (), entries),
        attempts=tuple(reader.attempts(number, earlier.incarnation)),
        waits=(),
        earlier=earlier,
    )


def crew_of(
    storage: Storage,
    now_ms: int,
    *,
    find_dead: Callable[[list[WorkerRow]], list[WorkerRow]],
    marks: Callable[[WorkerRow], list[tuple[int, str, int]]],
    everyone: bool = False,
) -> Crew:
    """Who works on this database; with `everyone`, where nobody does, also who did.

    `find_dead` says which rows are certainly dead; `marks` gives (number, step_key, since_at) of
    what a worker runs.
    """
    rows = storage.workers.all(living=True)
    dead = {row.number for row in find_dead(rows)}
    living = [row for row in rows if row.number not in dead and row.lease_until_at > now_ms]
    running: dict[int, list[Running]] = {}
    for row in living:
        for number, step_key, since_at in marks(row):
            running.setdefault(number, []).append(Running(step_key, since_at, row.name))
    if everyone and not living:
        # Who was here last is asked only where nobody is: cron leaves thousands of rows.
        rows = storage.workers.all()
    return Crew(tuple(rows), frozenset(row.number for row in living), running)
