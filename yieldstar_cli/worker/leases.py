"""Keeps a worker's lease and notices the end of other workers (spec L1, L3).

One thread with a connection of its own, so that neither the loop nor the writer can hold it up.
Everything it does happens in `tick`, which takes the time; the thread only calls it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from yieldstar_cli.clock import Clock, monotonic_ms
from yieldstar_cli.errors import DatabaseBusy
from yieldstar_cli.model import WorkerRow
from yieldstar_cli.storage.contract import Workers
from yieldstar_cli.worker.liveness import LockFile
from yieldstar_cli.worker.marks import MarksFile
from yieldstar_cli.worker.ports import Loop
from yieldstar_cli.worker.watch import LoopWatch, Stepping


class LeaseStorage(Protocol):
    """What the keeper needs of a `contract.Storage`."""

    @property
    def workers(self) -> Workers:
        """The workers' rows."""
        ...

    def changes(self) -> int:
        """A number that differs after any commit by anyone else."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


@dataclass(frozen=True, slots=True)
class DeadWorker:
    """A worker whose claims are to be ended: `Workers.bury(row.number, how, marked)`."""

    row: WorkerRow
    #: "died", or "lease ended": it may live on, so nothing counts against its executions (L5).
    how: str
    #: Executions whose code ran in it when it died, and since when.
    marked: dict[int, int]


@dataclass(frozen=True, slots=True)
class Spans:
    """How long things may take, in milliseconds. Source: spec L1, L3, R12."""

    #: How long a renewal holds; it is renewed when a third of that has passed.
    lease_ms: int = 30_000
    #: How often the thread looks at everything.
    check_ms: int = 500
    #: How long the loop's thread may be in one function before that is said.
    slow_ms: int = 1_000
    #: How long the loop may make no progress before the lease is given up.
    stuck_ms: int = 300_000
    #: When dead workers that are still there are reported again.
    remind_ms: int = 5_000


@dataclass(frozen=True, slots=True)
class Reports:
    """Who is told. `dead` and `lost` are posted to the loop; `slow` is called in the thread."""

    #: Other workers whose claims are to be ended.
    dead: Callable[[Sequence[DeadWorker]], None]
    #: This worker's row is gone or was ended by another: stop (spec L2).
    lost: Callable[[], None]
    #: One line for people: what holds the loop up and where, or a lease that is not renewed.
    slow: Callable[[str], None]


class LeaseKeeper:
    """Renews one worker's lease, and looks after the others, until `stop`.

    `open_storage` is called in the keeper's thread, and again after an error: what its
    connection knew is not relied on. Errors of the storage are tried again at the next tick; a
    lease that ended without a later claim is revived by the next renewal (spec L2).
    """

    def __init__(
        self,
        *,
        worker: int,
        open_storage: Callable[[], LeaseStorage],
        loop: Loop,
        clock: Clock,
        lock: LockFile,
        marks: MarksFile,
        stepping: Stepping,
        reports: Reports,
        loop_thread: int,
        spans: Spans | None = None,
        monotonic: Callable[[], float] = monotonic_ms,
    ) -> None:
        self._worker = worker
        self._open_storage = open_storage
        self._loop = loop
        self._clock = clock
        self._lock = lock
        self._marks = marks
        self._reports = reports
        self._spans = spans if spans is not None else Spans()
        self._monotonic = monotonic
        self._watch = LoopWatch(
            loop,
            stepping,
            reports.slow,
            loop_thread,
            check_ms=self._spans.check_ms,
            slow_ms=self._spans.slow_ms,
            stuck_ms=self._spans.stuck_ms,
        )
        self._storage: LeaseStorage | None = None
        self._lease_until_at: int | None = None
        self._renewed_ms: float | None = None
        self._told_unrenewed = False
        self._is_lost = False
        self._changes: int | None = None
        self._others: list[WorkerRow] = []
        #: number -> when it was last reported.
        self._reported: dict[int, float] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="ys-lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and wait for it; the lease is left as it is."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._close()

    def stands(self) -> bool:
        """Whether the lease, as last renewed, has not ended by the wall clock; from any thread."""
        until = self._lease_until_at
        return not self._is_lost and (until is None or self._clock.now_ms() < until)

    def tick(self, now_ms: float) -> None:
        """Do what is due at `now_ms` of the monotonic clock."""
        self._watch.tick(now_ms)
        try:
            if self._storage is None:
                self._storage = self._open_storage()
                self._changes = None
            if not self._is_lost and not self._watch.stuck:
                self._renew(self._storage, now_ms)
            self._look(self._storage, now_ms)
        except DatabaseBusy as error:
            self._tell_if_unrenewed(error, now_ms)
        except Exception as error:
            # Full, of unknown fate, whatever it is: the next tick tries again with a fresh
            # connection, and a renewal said twice is said once. A thread that ended here would
            # cost the lease.
            self._close()
            self._tell_if_unrenewed(error, now_ms)

    def _run(self) -> None:
        self.tick(self._monotonic())
        while not self._stop.wait(self._spans.check_ms / 1000):
            self.tick(self._monotonic())

    def _tell_if_unrenewed(self, error: Exception, now_ms: float) -> None:
        if self._renewed_ms is None:
            self._renewed_ms = now_ms
        late = now_ms - self._renewed_ms
        if late > self._spans.lease_ms / 2 and not self._told_unrenewed:
            self._told_unrenewed = True
            self._reports.slow(
                f"this worker's lease has not been renewed for {late / 1000:.0f} s, others may "
                f"take over its executions: {error}"
            )

    def _close(self) -> None:
        storage, self._storage = self._storage, None
        if storage is not None:
            storage.close()

    def _renew(self, storage: LeaseStorage, now_ms: float) -> None:
        until = self._clock.now_ms() + self._spans.lease_ms
        third = self._spans.lease_ms / 3
        # By the wall clock, which others judge the lease by. If that was set forward they would
        # see it end; if it was set back it would stand far too long: hence the distance.
        if self._lease_until_at is not None and abs(until - self._lease_until_at) < third:
            return
        if storage.workers.renew(self._worker, until):
            self._lease_until_at = until
            self._renewed_ms = now_ms
            self._told_unrenewed = False
        else:
            self._is_lost = True
            self._loop.post(self._reports.lost)

    def _look(self, storage: LeaseStorage, now_ms: float) -> None:
        changes = storage.changes()
        if changes != self._changes:
            self._others = [
                row for row in storage.workers.all(living=True) if row.number != self._worker
            ]
            self._changes = changes
        if not self._others:
            return
        found = find_ended(self._others, self._lock, self._marks, self._clock.now_ms())
        news = [dead for dead in found if self._is_news(dead.row.number, now_ms)]
        self._reported = {dead.row.number: self._reported[dead.row.number] for dead in found}
        if news:
            self._loop.post(partial(self._reports.dead, news))

    def _is_news(self, number: int, now_ms: float) -> bool:
        last = self._reported.get(number)
        if last is not None and now_ms - last < self._spans.remind_ms:
            return False
        self._reported[number] = now_ms
        return True


def find_ended(
    rows: Sequence[WorkerRow], lock: LockFile, marks: MarksFile, now_at: int
) -> list[DeadWorker]:
    """Those of `rows` that are dead, or whose lease has ended at `now_at`, with their marks.

    `rows` are workers that are not known to have stopped. Also what a worker asks at its start.
    Source: spec L3, L5.
    """
    died = {row.number for row in lock.find_dead(rows)}
    ended = []
    for row in rows:
        if row.number in died:
            marked = {mark.number: mark.since_at for mark in marks.read(row.slot, row.nonce)}
            ended.append(DeadWorker(row, "died", marked))
        elif row.lease_until_at <= now_at:
            ended.append(DeadWorker(row, "lease ended", {}))
    return ended
