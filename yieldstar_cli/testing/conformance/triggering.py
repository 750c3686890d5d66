"""RFC 001, SDK table: triggering through a whole runtime, on any adapter.

The HTTP half of its rows comes with the HTTP trigger.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pytest

from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import ExecutionAdmissionError
from yieldstar_cli.model import Completed, Status
from yieldstar_cli.storage.contract import Executions


class Shop(Protocol):
    """A runtime under test with one workflow, which takes an order's number and returns it."""

    @property
    def executions(self) -> Executions:
        """The ExecutionClient beneath, over a connection other than the runtime's own."""
        ...

    def trigger(self, order: int, execution_id: str | None = None) -> Any:
        """`Runtime.trigger` of the workflow; its reference."""
        ...

    def dispatch(self) -> None:
        """Let a dispatcher run until nothing is due."""
        ...

    def runs(self) -> list[int]:
        """The orders for which workflow code has run so far, in that order."""
        ...

    def close(self) -> None:
        """The test is over."""
        ...


class TriggerConformance(ABC):
    """Subclass it in a pytest module, and say in `open` how your runtime is opened."""

    clock: ManualClock

    @abstractmethod
    def open(self, clock: ManualClock) -> Shop:
        """A runtime over a new, empty database, on `clock`."""

    @contextmanager
    def opened(self) -> Iterator[Shop]:
        """A new runtime on a new clock, closed at the end."""
        self.clock = ManualClock()
        shop = self.open(self.clock)
        try:
            yield shop
        finally:
            shop.close()

    def test_without_an_id_the_one_that_was_admitted_is_returned(self) -> None:
        """Row: trigger omits an execution ID -> the ID accepted by ExecutionClient."""
        with self.opened() as shop:
            references = [shop.trigger(order) for order in range(5)]

            assert len({reference.execution_id for reference in references}) == 5
            for order, reference in enumerate(references):
                record = shop.executions.get(reference.execution_id)
                assert record is not None
                assert record.execution_id == str(reference) == reference.execution_id
                assert record.params == {"order": order}

    def test_an_id_in_use_is_an_admission_error(self) -> None:
        """Row: trigger supplies an ID in use -> ExecutionAdmissionError, nothing changed."""
        with self.opened() as shop:
            assert shop.trigger(42, "order-42").execution_id == "order-42"
            before = shop.executions.get("order-42")

            for order in (42, 43):
                with pytest.raises(ExecutionAdmissionError) as refused:
                    shop.trigger(order, "order-42")
                assert refused.value.code == "EXECUTION_ID_CONFLICT"

            assert shop.executions.get("order-42") == before
            shop.dispatch()
            with pytest.raises(ExecutionAdmissionError):
                shop.trigger(42, "order-42")
            assert shop.runs() == [42]

    def test_trigger_returns_once_admitted_and_the_dispatcher_delivers(self) -> None:
        """Row: direct trigger is called -> resolves once admission commits; then delivered."""
        with self.opened() as shop:
            reference = shop.trigger(42)

            record = shop.executions.get(reference.execution_id)
            assert record is not None
            assert (record.status, record.deliveries) == (Status.ADMITTED, 0)
            assert shop.runs() == []

            shop.dispatch()

            record = shop.executions.get(reference.execution_id)
            assert record is not None
            assert (record.status, record.outcome) == (Status.COMPLETED, Completed("42"))
            assert shop.runs() == [42]

    def test_a_finished_execution_that_is_woken_runs_nothing(self) -> None:
        """Outcome table: a terminal execution is delivered again -> no workflow code runs."""
        with self.opened() as shop:
            reference = shop.trigger(42)
            shop.dispatch()

            assert shop.executions.request_wake(reference.execution_id, 0) == "ignored"
            shop.dispatch()

            assert shop.runs() == [42]
