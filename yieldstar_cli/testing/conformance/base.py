"""What every group of conformance rows shares: opening the adapter, and short words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from yieldstar_cli.clock import LAST_MOMENT, ManualClock
from yieldstar_cli.errors import ExecutionIdConflict
from yieldstar_cli.model import Delivery
from yieldstar_cli.testing.conformance.adapter import Adapter

#: A moment at which everything that could ever become due is due.
LATER = LAST_MOMENT


class Rows(ABC):
    """Rows of a conformance table: each test is one, and opens an adapter of its own."""

    clock: ManualClock

    @abstractmethod
    def open(self, clock: ManualClock) -> Adapter:
        """A new, empty database of the adapter under test, on `clock`."""

    @contextmanager
    def opened(self) -> Iterator[Adapter]:
        """A new adapter on a new clock, closed at the end."""
        self.clock = ManualClock()
        adapter = self.open(self.clock)
        try:
            yield adapter
        finally:
            adapter.close()

    @property
    def now(self) -> int:
        """The moment on the test's clock."""
        return self.clock.now_ms()

    def admit(self, adapter: Adapter, execution_id: str) -> str:
        """Admit a plain execution, due now."""
        record = adapter.executions.admit(workflow_id="charge-order", execution_id=execution_id)
        return record.execution_id

    def claimed(self, adapter: Adapter, execution_id: str) -> Delivery:
        """Admit a plain execution and claim it."""
        self.admit(adapter, execution_id)
        (delivery,) = adapter.executions.claim_due(self.now)
        return delivery

    def due_ids(self, adapter: Adapter, now: int) -> list[str]:
        """Which executions a claim at `now` gives, in its order."""
        return [delivery.execution_id for delivery in adapter.executions.claim_due(now)]

    def assert_conflict(self, adapter: Adapter, execution_id: str) -> None:
        """Admitting `execution_id` conflicts and leaves its record as it is."""
        before = adapter.executions.get(execution_id)
        with pytest.raises(ExecutionIdConflict):
            adapter.executions.admit(workflow_id="charge-order", execution_id=execution_id)
        assert adapter.executions.get(execution_id) == before
