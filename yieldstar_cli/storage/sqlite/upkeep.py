"""Looking after the file: checks, pruning and copies, as one room of the storage (spec E3, E13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from yieldstar_cli.clock import Clock
from yieldstar_cli.storage.sqlite import checks, copies, pruning
from yieldstar_cli.storage.sqlite.database import Database
from yieldstar_cli.storage.sqlite.pruning import Pruning
from yieldstar_cli.storage.upkeep import Breach, Chosen, Prunable


class SqliteUpkeep:
    """Upkeep on SQLite; `storage.upkeep.Upkeep` says what each method means."""

    def __init__(self, db: Database, *, clock: Clock) -> None:
        self._db = db
        self._pruning = Pruning(db, clock=clock)

    def breaches(self, *, quick: bool = False) -> Iterator[Breach]:
        """See `upkeep.Upkeep.breaches`."""
        return checks.breaches(self._db, quick=quick)

    def prunable(self, chosen: Chosen) -> Iterator[Prunable]:
        """See `upkeep.Upkeep.prunable`."""
        return self._pruning.prunable(chosen)

    def prune(
        self, chosen: Chosen, *, pause: Callable[[], None] = lambda: None
    ) -> Iterator[Prunable]:
        """See `upkeep.Upkeep.prune`."""
        return self._pruning.prune(chosen, pause)

    def erase(self) -> None:
        """See `upkeep.Upkeep.erase`."""
        pruning.erase(self._db)

    def back_up(self, target: str, *, replace: bool = False) -> int:
        """See `upkeep.Upkeep.back_up`."""
        return copies.back_up(self._db, target, replace=replace)
