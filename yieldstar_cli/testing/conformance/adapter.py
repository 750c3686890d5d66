"""What the conformance suite needs of an adapter under test."""

from __future__ import annotations

from typing import Protocol

from yieldstar_cli.storage.contract import Executions, Storage


class Adapter(Protocol):
    """One database of the adapter under test, and the ways in which its process may end.

    Its clock is the one that `ExecutionConformance.open` was given, and never moves by itself.
    """

    #: How long a claim made without a worker lasts, in milliseconds.
    redelivery_ms: int

    @property
    def executions(self) -> Executions:
        """The ExecutionClient, as opened last."""
        ...

    def restart(self) -> None:
        """Close everything in order, and open the same database again."""
        ...

    def crash(self) -> None:
        """Open the same database again as after `kill -9`: nothing is closed or flushed first."""
        ...

    def close(self) -> None:
        """The test is over."""
        ...


class StorageAdapter(Adapter, Protocol):
    """An adapter with all its rooms: what a worker and the reading commands need as well."""

    @property
    def storage(self) -> Storage:
        """The rooms, as opened last; its `executions` are those of the adapter."""
        ...
