"""What a storage adapter promises. Each method is at most one transaction, all or nothing.

`Executions` is RFC 001's ExecutionClient; the conformance suite (`testing/conformance`) holds
every adapter to it. The others are the rooms a worker and the reading commands need. Inside
`Storage.atomic()` or a `Writer` request, the same methods join the transaction under way.

Errors: what a caller can meet is in `errors.py` (`ExecutionNotFound`, `StaleDelivery`,
`ExecutionIdConflict`, `InvalidExecutionEvent`, the `StorageError` family, `CommitUnknown`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from yieldstar_cli.errors import YieldstarError
from yieldstar_cli.model import (
    Attempt,
    CancelAnswer,
    Claimed,
    Delivery,
    EffectRecord,
    Entry,
    ExecutionRecord,
    Incarnation,
    LogLine,
    Look,
    LostDelivery,
    Message,
    ModuleInfo,
    Outcome,
    PauseAnswer,
    Paused,
    Recorded,
    Round,
    SendAnswer,
    StoreRecord,
    TerminalOutcome,
    Wait,
    WakeAnswer,
    WorkerRow,
)
from yieldstar_cli.storage.upkeep import Upkeep

T = TypeVar("T")


class Executions(Protocol):
    """RFC 001's ExecutionClient: admission, wakes, claims, outcomes."""

    def admit(
        self,
        *,
        workflow_id: str,
        params: object = None,
        context: Mapping[str, object] | None = None,
        execution_id: str | None = None,
        at: int | None = None,
        version: int = 1,
    ) -> ExecutionRecord:
        """Create the record, status admitted, and its first wake at `at` (default: now).

        `params` and `context` values are encoded by the codec; a `codec.Json` is taken as it is.
        Raises ExecutionIdConflict or InvalidExecutionEvent, and stores nothing then.
        Source: RFC 001, Admission; spec E1-E4.
        """
        ...

    def get(self, execution_id: str) -> ExecutionRecord | None:
        """The record, or None. Source: RFC 001, Runtime API; spec E5."""
        ...

    def request_wake(self, execution_id: str, wake_at: int) -> WakeAnswer:
        """Ask for a delivery at `wake_at`, UTC milliseconds; wakes merge to the earliest.

        A terminal execution answers "ignored". Raises ExecutionNotFound, ValueError for a
        moment that cannot be stored. Source: RFC 001, Wakes; spec E6.
        """
        ...

    def claim_due(
        self,
        now: int,
        *,
        limit: int | None = None,
        workflows: Iterable[tuple[str, int]] | None = None,
        tags: Sequence[str] = (),
        worker: int | None = None,
    ) -> list[Delivery]:
        """Claim what is due at `now`, oldest due first, each execution once, each a new token.

        Not returned: held, poisoned, paused, or under a live delivery. `workflows`, pairs of name
        and version, and `limit` only narrow it; `tags` adds what needs one of them (spec O5).
        Without `worker` the claim stands under a lease of the adapter's own, `redelivery_ms` from
        `now`. Source: RFC 001, Wakes; spec E7, E8.
        """
        ...

    def acknowledge(self, delivery: Delivery, outcome: Outcome) -> Outcome:
        """End the delivery and return what the record now says.

        Covered wakes are cleared; a terminal record stays and its outcome is returned. Raises
        StaleDelivery for a dead token on a live record. Source: RFC 001, Outcomes; spec E9, E10,
        L2.
        """
        ...

    def release(
        self,
        delivery: Delivery,
        *,
        how: str = "released",
        problem: tuple[str, str] | None = None,
        held_until: int | None = None,
        held: bool = False,
        module: str | None = None,
    ) -> None:
        """End the delivery without an outcome: its covered wakes are pending again (spec E8, E12).

        With `problem` (code, message) the record keeps it. With `held` the execution is not
        claimed before `held_until`, or before an event when that is None; `module` names the
        state of the code it was tried with. Raises StaleDelivery.
        """
        ...

    def wake(self, execution_id: str, at: int | None = None) -> WakeAnswer:
        """`request_wake` plus the end of a hold or of poison; `ys wake` (spec E12, L5).

        With `at` the hold ends then.
        """
        ...


class Deliveries(Protocol):
    """What a worker does between claim and acknowledgement."""

    def claim(
        self,
        now: int,
        *,
        worker: int,
        limit: int,
        workflows: Sequence[tuple[str, int]],
        suspects: bool = False,
        only: str | None = None,
        tags: Sequence[str] = (),
        known: Callable[[int, int], int] | None = None,
        fresh: int = 0,
    ) -> list[Claimed]:
        """As `claim_due`, with all that a driver needs.

        Suspects (two or more counted deaths, spec L5) are claimed only with `suspects`, and
        nothing else is then. `only` names the one execution to claim. `known(number,
        incarnation)` says how many leading history entries the caller has already (a resident);
        where it has some, the open waits are not read either. With `tags` an execution that needs
        one of them is due for this worker at once (spec O5). Where more is due than `limit`,
        `fresh` of them are the last that became due: a backlog keeps nobody waiting to its end.
        """
        ...

    def record(self, delivery: Delivery, changes: Round) -> Recorded:
        """Write one round, checked against the token; with an outcome, also acknowledge.

        Answers the outcome where the round had one, or where the record has become terminal
        meanwhile (then nothing is written). A round that asks to suspend while a wait is ready
        is written and not suspended: `ready` says so. Whoever waits for this execution is woken
        by the same transaction as its end, and its linked children are asked to cancel (spec C2,
        C4). Raises StaleDelivery.
        """
        ...

    def record_all(
        self, rounds: Sequence[tuple[Delivery, Round]]
    ) -> list[Recorded | YieldstarError]:
        """As `record` for each, one after the other; an error stands where its answer would.

        No two are of the same delivery. What one of them meets keeps nothing from the others;
        only what keeps the file from being written at all is raised.
        """
        ...

    def look(
        self,
        delivery: Delivery,
        *,
        queues: Mapping[str, tuple[int, int]],
        depths: Sequence[str] = (),
        statuses: Sequence[str] = (),
        stores: Sequence[tuple[str, str]] = (),
    ) -> Look:
        """What is ready for an open delivery. Reads only (spec R4).

        `queues` maps each awaited queue to the number of the last message taken from it and how
        many more are wanted. `depths` names queues to count, `statuses` executions to ask about,
        `stores` the stores to read.
        """
        ...

    def nudged(self, worker: int) -> list[tuple[int, int]]:
        """The open deliveries of `worker` that something has happened for since their claim.

        Pairs of the execution's number and a count that rises with each happening. Reads only.
        """
        ...

    def note(self, delivery: Delivery, code: str, message: str) -> None:
        """Keep a problem of a delivery that goes on (spec R12); nothing where it is over."""
        ...

    def next_due(
        self,
        workflows: Sequence[tuple[str, int]],
        *,
        suspects: bool = False,
        worker: int | None = None,
        tags: Sequence[str] = (),
    ) -> int | None:
        """The earliest moment at which `claim` would find something, or None. Reads only.

        Ends of other workers' leases count only where `worker` says whose claim it would be.
        """
        ...

    def end_code_holds(
        self, now: int, modules: Mapping[tuple[str, int], str], *, quiet_ms: int
    ) -> int:
        """End holds for faults of the code where the code changed or none tried lately (E12).

        `modules` maps (workflow, version) to the state of its module. A hold ends if that state
        differs from the one it was tried with, or if it is older than `quiet_ms`. Returns how
        many ended.
        """
        ...


class Reader(Protocol):
    """What the reading commands ask. Never writes."""

    def find(
        self,
        *,
        workflow_id: str | None = None,
        statuses: Sequence[str] | None = None,
        running: bool = False,
        waiting: bool = False,
        due_by: int | None = None,
        updated_since: int | None = None,
        updated_before: int | None = None,
        where: Mapping[str, str] | None = None,
        sort: str = "updated",
        reverse: bool = False,
        limit: int | None = 20,
        offset: int = 0,
        payloads: bool = True,
        awaiting: str | None = None,
        pruned: bool = True,
    ) -> list[ExecutionRecord]:
        """Records by filter, unfinished first unless `sort` says otherwise.

        `sort` is "updated", "due", "admitted" or "took". `where` compares params: key to text.
        `awaiting` names a queue that it waits on. Without `payloads` params, context and results
        are left out, so that size costs nothing; without `pruned` so are pruned executions.
        """
        ...

    def counts(self, workflow_id: str | None = None, *, pruned: bool = True) -> dict[str, int]:
        """How many executions have each status; without `pruned` of those that are not."""
        ...

    def history(self, number: int, incarnation: int) -> list[Entry]:
        """The incarnation's resolutions in the order applied."""
        ...

    def attempts(self, number: int, incarnation: int) -> list[Attempt]:
        """Ended tries that were not resolutions, oldest first."""
        ...

    def waits(self, number: int) -> list[Wait]:
        """The open operations as last recorded, in the order they were named."""
        ...

    def logs(self, number: int) -> list[LogLine]:
        """Log lines of the current incarnation."""
        ...

    def lost_deliveries(self, number: int) -> list[LostDelivery]:
        """The last 20 deliveries that ended without an acknowledgement (spec E5)."""
        ...

    def nearest_ids(self, execution_id: str, limit: int = 3) -> list[str]:
        """Existing IDs that look like `execution_id`, best first."""
        ...

    def ids_beginning(self, prefix: str, limit: int = 4) -> list[str]:
        """Existing IDs that begin with `prefix`, byte for byte, in the order of their bytes."""
        ...


class Inbox(Protocol):
    """Messages to executions (spec M1-M4)."""

    def send(
        self,
        execution_id: str,
        queue: str,
        value: str,
        *,
        ttl_ms: int,
        idempotency_key: str | None = None,
    ) -> SendAnswer:
        """Send `value`, JSON text, to a queue of an execution.

        "delivered" where the record exists, and it is woken if it waits on that queue;
        "buffered" where it does not exist yet, for `ttl_ms`; "refused", nothing stored, where it
        has ended. A second message with the same key is answered like the first and not stored,
        unless the first has expired: then it reached nobody, and gives its key back.
        Raises InvalidMessageEvent for an ID, name, key, span or value that cannot be stored.
        """
        ...

    def messages(
        self, execution_id: str, *, queue: str | None = None, limit: int | None = None
    ) -> list[Message]:
        """Messages of an execution with their fate, in the order sent; reads only.

        The newest `limit`. Read ones without a key are kept up to the last 100.
        """
        ...

    def unread_counts(self, number: int) -> dict[str, int]:
        """How many messages of an execution wait unread, by queue; reads only."""
        ...


class Steering(Protocol):
    """What people do to executions from outside (spec C6, E14)."""

    def cancel(
        self, execution_id: str, *, reason: str | None = None, now: bool = False
    ) -> CancelAnswer:
        """Ask for a cancellation, or end the execution at once with `now`.

        "requested": its next delivery tells the function (again: unchanged, the first reason
        stays); "cancelled": it is terminal now, since it never began or `now` was given, and so
        are (with `now`) its linked children; "ignored": it had ended. Raises ExecutionNotFound.
        """
        ...

    def pause(
        self,
        *,
        execution_id: str | None = None,
        workflow_id: str | None = None,
        by: str,
        reason: str | None = None,
    ) -> PauseAnswer:
        """Mark one execution, one workflow, or (neither given) the whole file as paused.

        "ignored" for an execution that has ended. Raises ExecutionNotFound.
        """
        ...

    def resume(
        self, *, execution_id: str | None = None, workflow_id: str | None = None
    ) -> PauseAnswer:
        """Take that mark away. Raises ExecutionNotFound."""
        ...

    def pauses(self) -> list[Paused]:
        """The marks on workflows and on the file; reads only."""
        ...


class Stores(Protocol):
    """Durable shared values (spec S1-S7). Every write wakes the waiters that it concerns."""

    def get(self, name: str, store_id: str) -> StoreRecord | None:
        """The store, or None."""
        ...

    def find(
        self,
        *,
        name: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        states: bool = True,
    ) -> list[StoreRecord]:
        """Stores in the order of name and ID; without `limit` all.

        Without `states`, which may be large, those are not read: each is the empty text.
        """
        ...

    def put(
        self,
        name: str,
        store_id: str,
        state: str,
        *,
        instance: str | None = None,
        version: int | None = None,
    ) -> StoreRecord:
        """Write a whole state, JSON text; the store is created if it is not there.

        With `version` (and `instance`) only where it is that one: raises StoreConflict, which
        names the actual version; version -1 means that it must not be there.
        """
        ...

    def delete(self, name: str, store_id: str, *, version: int | None = None) -> bool:
        """Delete the store; False if there is none. Raises StoreConflict."""
        ...


class Effects(Protocol):
    """Effects of the outside world: one ID is one operation for all executions (spec F1).

    They are held, settled and let go by the actions of a delivery's round.
    """

    def get(self, effect_id: str) -> EffectRecord | None:
        """One effect with what did not agree with it; None where there is none."""
        ...

    def find(self, *, disputed: bool = False, limit: int | None = None) -> list[EffectRecord]:
        """Effects, the latest first; with `disputed` only those something did not agree with."""
        ...

    def late(self, effect_id: str, execution_id: str, result: str) -> None:
        """Keep a result, JSON text, that came from a delivery which was over by then.

        It changes nothing; where it differs from the one that stands, both are shown.
        """
        ...


class Family(Protocol):
    """Who started whom, and what an execution was before (spec C2, C7). Never writes."""

    def children(
        self, number: int, *, statuses: Sequence[str] | None = None, limit: int | None = None
    ) -> list[ExecutionRecord]:
        """The children of an execution, in the order admitted; without params and results."""
        ...

    def child_counts(self, number: int) -> dict[tuple[str, str], int]:
        """How many children there are by workflow and status."""
        ...

    def incarnations(self, number: int) -> list[Incarnation]:
        """The earlier incarnations that are still kept, oldest first."""
        ...


class Workers(Protocol):
    """Workers and their leases (spec L1, L3, L5)."""

    def register(
        self,
        *,
        name: str,
        host: str,
        pid: int,
        slot: int,
        nonce: bytes,
        boot_id: str,
        device: int,
        inode: int,
        lease_until_at: int,
        alone: bool = False,
    ) -> int:
        """Add a worker's row and return its number."""
        ...

    def describe(
        self,
        worker: int,
        workflows: Sequence[tuple[str, int]],
        broken: Sequence[tuple[str, str]],
        tags: Sequence[str] = (),
    ) -> None:
        """Say what this worker has loaded, what did not load, and what it was started with."""
        ...

    def renew(self, worker: int, lease_until_at: int) -> bool:
        """Move the lease on. False if the row is gone or was stopped by another."""
        ...

    def stop(self, worker: int, how: str) -> int:
        """Mark the worker stopped and give its claims back at once, counted for nothing.

        Returns how many deliveries were given back. `how` is "stopped" or "handed back"; with
        "handed back" its claims stay until `bury` finds the process gone (spec K2).
        """
        ...

    def bury(self, worker: int, how: str, marked: Mapping[int, int], *, max_deaths: int) -> int:
        """End every claim of a dead worker (spec L3, L5) and return how many there were.

        `marked` maps the numbers of executions whose code ran in it to since when. Those count a
        death unless their delivery recorded something; the second and later are held with
        back-off (spec E12); a death of a worker that ran alone parks the execution as poisoned
        from `max_deaths` on. A "handed back" worker's deaths count for nothing.
        """
        ...

    def all(self, *, living: bool = False) -> list[WorkerRow]:
        """Worker rows, newest first; `living` leaves out the stopped ones."""
        ...


class Catalog(Protocol):
    """The cache of what the workflow modules hold (spec K4)."""

    def modules(self, directory: str) -> list[ModuleInfo]:
        """What is cached of the modules in `directory`."""
        ...

    def put(self, directory: str, modules: Sequence[ModuleInfo]) -> None:
        """Replace the cache of `directory`."""
        ...


class Storage(Protocol):
    """One open database: its rooms, and transactions over them."""

    @property
    def executions(self) -> Executions: ...
    @property
    def deliveries(self) -> Deliveries: ...
    @property
    def reader(self) -> Reader: ...
    @property
    def inbox(self) -> Inbox: ...
    @property
    def steering(self) -> Steering: ...
    @property
    def family(self) -> Family: ...
    @property
    def stores(self) -> Stores: ...
    @property
    def effects(self) -> Effects: ...
    @property
    def workers(self) -> Workers: ...
    @property
    def catalog(self) -> Catalog: ...
    @property
    def upkeep(self) -> Upkeep: ...
    @property
    def max_value(self) -> int:
        """How many bytes one value may have as JSON (spec V2)."""
        ...

    def atomic(self) -> AbstractContextManager[None]:
        """One write transaction, or a part of the one under way that may fail by itself."""
        ...

    def changes(self) -> int:
        """A number that differs after any commit by anyone else; costs microseconds."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


Reply = Callable[[Any, BaseException | None], None]


class Writer(Protocol):
    """The one writer of a process: whatever waits shares one transaction and one fsync."""

    def submit(self, request: Callable[[Storage], Any], reply: Reply) -> None:
        """Run `request` in the next transaction; after its commit call `reply(value, error)`.

        `request` is a short plain function of the storage; if it raises, only its own changes
        are undone and the error is handed to `reply`. It may be run more than once, when the
        transaction had to be: only what the committed run changed and answered counts. Replies
        arrive through the `post` function the writer was made with, one call for a whole batch.
        """
        ...

    def close(self) -> None:
        """Commit what waits and stop."""
        ...


__all__ = [
    "Catalog",
    "Deliveries",
    "Effects",
    "Executions",
    "Family",
    "Inbox",
    "Reader",
    "Reply",
    "Steering",
    "Storage",
    "Stores",
    "TerminalOutcome",
    "Workers",
    "Writer",
]
