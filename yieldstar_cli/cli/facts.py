"""What a person may want to know about one execution, read at one moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from yieldstar_cli.model import (
    Attempt,
    Entry,
    ExecutionRecord,
    LostDelivery,
    Wait,
    WorkerRow,
)
from yieldstar_cli.storage.contract import Storage


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
        """Whether a living worker has loaded this workflow."""
        return any((workflow_id, version) in row.workflows for row in self.alive)

    @property
    def last(self) -> WorkerRow | None:
        """The worker seen last."""
        return max(self.rows, key=seen_at, default=None)


def seen_at(row: WorkerRow) -> int:
    """When a worker is last known to have lived: its end, or its last renewal at the latest."""
    return row.stopped_at if row.stopped_at is not None else row.lease_until_at


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
        return Facts(
            record=fresh,
            entries=tuple(reader.history(fresh.number, fresh.incarnation)),
            attempts=tuple(reader.attempts(fresh.number, fresh.incarnation)),
            waits=tuple(reader.waits(fresh.number)) if not fresh.status.terminal else (),
            lost=tuple(reader.lost_deliveries(fresh.number)),
            crew=crew,
            now_ms=now_ms,
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
