"""Looking after the file: checks, pruning and copies, as one room of the storage (spec E3, E13)."""

from __future__ import annotations

from collections.abc import Iterator

from yieldstar_cli.storage.sqlite import checks
from yieldstar_cli.storage.sqlite.database import Database
from yieldstar_cli.storage.upkeep import Breach


class SqliteUpkeep:
    """Upkeep on SQLite; `storage.upkeep.Upkeep` says what each method means."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def breaches(self, *, quick: bool = False) -> Iterator[Breach]:
        """See `upkeep.Upkeep.breaches`."""
        return checks.breaches(self._db, quick=quick)
