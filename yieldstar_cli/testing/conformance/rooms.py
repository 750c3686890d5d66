"""What the rows about a whole storage share: a worker, its deliveries, and short words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from yieldstar_cli.clock import ManualClock
from yieldstar_cli.model import (
    Completed,
    Delivery,
    Entry,
    ExecutionRecord,
    Look,
    Outcome,
    Recorded,
    Round,
    Start,
    Suspended,
    Wait,
)
from yieldstar_cli.storage.contract import Storage
from yieldstar_cli.testing.conformance.adapter import StorageAdapter

#: The one workflow of these rows, and its version.
WORKFLOW = ("order", 1)
#: How long the one worker's lease lasts: no row comes to its end.
LEASE_MS = 10**9


class RoomRows(ABC):
    """Rows about a whole storage: each opens an adapter of its own, with one worker."""

    clock: ManualClock
    worker: int

    @abstractmethod
    def open(self, clock: ManualClock) -> StorageAdapter:
        """A new, empty database of the adapter under test, on `clock`."""

    @contextmanager
    def opened(self) -> Iterator[StorageAdapter]:
        """A new adapter on a new clock with a worker, closed at the end."""
        self.clock = ManualClock()
        adapter = self.open(self.clock)
        try:
            self.worker = adapter.storage.workers.register(
                name="worker",
                host="here",
                pid=1,
                slot=1,
                nonce=b"nonce",
                boot_id="boot",
                device=1,
                inode=1,
                lease_until_at=self.now + LEASE_MS,
            )
            yield adapter
        finally:
            adapter.close()

    @property
    def now(self) -> int:
        """The moment on the test's clock."""
        return self.clock.now_ms()

    # --- executions --------------------------------------------------------------------------

    def begun(self, storage: Storage, execution_id: str) -> Delivery:
        """Admit an execution and claim it for the worker."""
        name, version = WORKFLOW
        storage.executions.admit(workflow_id=name, version=version, execution_id=execution_id)
        return self.claimed(storage, execution_id)

    def claimed(self, storage: Storage, execution_id: str) -> Delivery:
        """The delivery of an execution that must be due now."""
        found = storage.deliveries.claim(
            self.now, worker=self.worker, limit=1, workflows=[WORKFLOW], only=execution_id
        )
        assert [each.delivery.execution_id for each in found] == [execution_id]
        return found[0].delivery

    def due(self, storage: Storage) -> list[str]:
        """Which executions a claim of the worker gives now; their deliveries stay open."""
        found = storage.deliveries.claim(
            self.now, worker=self.worker, limit=100, workflows=[WORKFLOW]
        )
        return [each.delivery.execution_id for each in found]

    def record_of(self, storage: Storage, execution_id: str) -> ExecutionRecord:
        """The record, which must be there."""
        record = storage.executions.get(execution_id)
        assert record is not None, f"there is no execution {execution_id}"
        return record

    def suspended(self, storage: Storage, delivery: Delivery, *waits: Wait) -> Recorded:
        """End the delivery, waiting for these and for no moment."""
        return storage.deliveries.record(delivery, Round(waits=waits, outcome=Suspended()))

    def ended(
        self, storage: Storage, delivery: Delivery, outcome: Outcome | None = None
    ) -> Recorded:
        """End the delivery, by default as completed."""
        return storage.deliveries.record(delivery, Round(outcome=outcome or Completed()))

    def looked(self, storage: Storage, delivery: Delivery, *queues: str) -> Look:
        """What a look finds that awaits up to a hundred messages of each queue."""
        return storage.deliveries.look(delivery, queues=dict.fromkeys(queues, (0, 100)))

    # --- operations --------------------------------------------------------------------------

    def entry(self, position: int, kind: str = "step", step_key: str = "") -> Entry:
        """A resolution."""
        return Entry(position, kind, step_key or f"{kind}-{position}", True, "1", self.now)

    def message(self, queue: str, position: int = 0) -> Wait:
        """The wait for the next message of a queue."""
        return Wait(
            "message", queue, queue, self.now, None, "waiting", position=position, queue=queue
        )

    def child(self, execution_id: str, position: int = 0) -> Wait:
        """The wait for the end of an execution."""
        return Wait(
            *("child", execution_id, execution_id, self.now, None, "waiting"),
            position=position,
            target=execution_id,
        )

    def start(self, execution_id: str, *, detached: bool = False) -> Start:
        """The start of a child."""
        name, version = WORKFLOW
        return Start(execution_id, self.now, execution_id, name, version, "{}", detached)
