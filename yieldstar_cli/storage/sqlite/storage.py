"""One open SQLite database as the storage contract's rooms."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING

from yieldstar_cli.clock import Clock, SystemClock
from yieldstar_cli.errors import CommitUnknown, StorageError
from yieldstar_cli.ids import Chance, SystemChance
from yieldstar_cli.json_text import MAX_VALUE
from yieldstar_cli.storage.sqlite.connection import BUSY_TIMEOUT_MS, Durability, open_connection
from yieldstar_cli.storage.sqlite.database import Database

if TYPE_CHECKING:
    from yieldstar_cli.storage.sqlite.actions import Actions
    from yieldstar_cli.storage.sqlite.catalog import SqliteCatalog
    from yieldstar_cli.storage.sqlite.claims import Claims
    from yieldstar_cli.storage.sqlite.consequences import Consequences
    from yieldstar_cli.storage.sqlite.deliveries import SqliteDeliveries
    from yieldstar_cli.storage.sqlite.effects import SqliteEffects
    from yieldstar_cli.storage.sqlite.endings import Endings
    from yieldstar_cli.storage.sqlite.executions import SqliteExecutions
    from yieldstar_cli.storage.sqlite.family import SqliteFamily
    from yieldstar_cli.storage.sqlite.history import History
    from yieldstar_cli.storage.sqlite.inbox import SqliteInbox
    from yieldstar_cli.storage.sqlite.looks import Looks
    from yieldstar_cli.storage.sqlite.lost import LostDeliveries
    from yieldstar_cli.storage.sqlite.reader import SqliteReader
    from yieldstar_cli.storage.sqlite.releases import Releases
    from yieldstar_cli.storage.sqlite.steering import SqliteSteering
    from yieldstar_cli.storage.sqlite.stores import SqliteStores
    from yieldstar_cli.storage.sqlite.together import Together
    from yieldstar_cli.storage.sqlite.upkeep import SqliteUpkeep
    from yieldstar_cli.storage.sqlite.waits import Waits
    from yieldstar_cli.storage.sqlite.workers import SqliteWorkers

#: RFC 001's redelivery timeout: the lease of a claim made without a worker.
REDELIVERY_MS = 30_000

# Rewrites and syncs the pages; reading alone may be answered from memory.
CHECKPOINT = "PRAGMA wal_checkpoint(TRUNCATE)"


class SqliteStorage:
    """`contract.Storage` on one SQLite file, over one connection.

    For one thread at a time, in the process that made it. Raises the StorageError family. A room
    is made, and its module loaded, when it is first asked for: a short command needs two or three.
    """

    # The rooms of the contract; each is made by the method of its name.
    executions: SqliteExecutions
    deliveries: SqliteDeliveries
    reader: SqliteReader
    steering: SqliteSteering
    family: SqliteFamily
    inbox: SqliteInbox
    stores: SqliteStores
    effects: SqliteEffects
    upkeep: SqliteUpkeep
    workers: SqliteWorkers
    catalog: SqliteCatalog
    # What they are made of.
    _history: History
    _waits: Waits
    _lost: LostDeliveries
    _claims: Claims
    _releases: Releases
    _consequences: Consequences
    _looks: Looks
    _together: Together
    _actions: Actions
    _endings: Endings

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        chance: Chance | None = None,
        create: bool = False,
        readonly: bool = False,
        durability: Durability = "full",
        redelivery_ms: int = REDELIVERY_MS,
        max_value: int = MAX_VALUE,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
    ) -> None:
        self._clock, self._chance = clock or SystemClock(), chance or SystemChance()
        self._redelivery_ms = redelivery_ms
        self.max_value = max_value
        self.db: Database = open_connection(
            path,
            create=create,
            readonly=readonly,
            durability=durability,
            busy_timeout_ms=busy_timeout_ms,
            clock=self._clock,
            chance=self._chance,
        )

    if not TYPE_CHECKING:  # else every name would seem to exist

        def __getattr__(self, name: str) -> object:
            """The room `name`, made now."""
            make = getattr(type(self), f"_make_{name}", None)
            if make is None:
                raise AttributeError(f"{type(self).__name__} has no {name!r}")
            room = make(self)
            setattr(self, name, room)
            return room

    # --- the rooms of the contract -------------------------------------------------------------

    def _make_executions(self) -> SqliteExecutions:
        from yieldstar_cli.storage.sqlite.executions import SqliteExecutions

        return SqliteExecutions(
            self.db,
            lambda: self._claims,
            lambda: self._endings,
            lambda: self._releases,
            self.inbox,
            clock=self._clock,
            chance=self._chance,
            redelivery_ms=self._redelivery_ms,
            max_value=self.max_value,
        )

    def _make_deliveries(self) -> SqliteDeliveries:
        from yieldstar_cli.storage.sqlite.deliveries import SqliteDeliveries

        return SqliteDeliveries(
            self.db,
            self._claims,
            self._endings,
            self._releases,
            self._history,
            self._waits,
            self._looks,
            self._together,
        )

    def _make_reader(self) -> SqliteReader:
        from yieldstar_cli.storage.sqlite.reader import SqliteReader

        return SqliteReader(
            self.db,
            self._history,
            self._lost,
            self._waits,
            clock=self._clock,
            redelivery_ms=self._redelivery_ms,
        )

    def _make_steering(self) -> SqliteSteering:
        from yieldstar_cli.storage.sqlite.steering import SqliteSteering

        return SqliteSteering(self.db, lambda: self._consequences, clock=self._clock)

    def _make_family(self) -> SqliteFamily:
        from yieldstar_cli.storage.sqlite.family import SqliteFamily

        return SqliteFamily(self.db, self._history, redelivery_ms=self._redelivery_ms)

    def _make_inbox(self) -> SqliteInbox:
        from yieldstar_cli.storage.sqlite.inbox import SqliteInbox

        return SqliteInbox(self.db, clock=self._clock, max_value=self.max_value)

    def _make_stores(self) -> SqliteStores:
        from yieldstar_cli.storage.sqlite.stores import SqliteStores

        return SqliteStores(
            self.db,
            self._waits,
            self._consequences,
            clock=self._clock,
            chance=self._chance,
            max_value=self.max_value,
        )

    def _make_effects(self) -> SqliteEffects:
        from yieldstar_cli.storage.sqlite.effects import SqliteEffects

        return SqliteEffects(self.db, self._waits, self._consequences, clock=self._clock)

    def _make_upkeep(self) -> SqliteUpkeep:
        from yieldstar_cli.storage.sqlite.upkeep import SqliteUpkeep

        return SqliteUpkeep(self.db, clock=self._clock)

    def _make_workers(self) -> SqliteWorkers:
        from yieldstar_cli.storage.sqlite.workers import SqliteWorkers

        return SqliteWorkers(self.db, lambda: self._claims, clock=self._clock)

    def _make_catalog(self) -> SqliteCatalog:
        from yieldstar_cli.storage.sqlite.catalog import SqliteCatalog

        return SqliteCatalog(self.db)

    # --- what they are made of -----------------------------------------------------------------

    def _make__history(self) -> History:
        from yieldstar_cli.storage.sqlite.history import History

        return History(self.db)

    def _make__waits(self) -> Waits:
        from yieldstar_cli.storage.sqlite.waits import Waits

        return Waits(self.db)

    def _make__lost(self) -> LostDeliveries:
        from yieldstar_cli.storage.sqlite.lost import LostDeliveries

        lost = LostDeliveries(self.db)
        lost.then = lambda number: self.effects.free(number)
        return lost

    def _make__claims(self) -> Claims:
        from yieldstar_cli.storage.sqlite.claims import Claims

        return Claims(self.db, self._lost, redelivery_ms=self._redelivery_ms)

    def _make__releases(self) -> Releases:
        from yieldstar_cli.storage.sqlite.releases import Releases

        return Releases(self.db, self._lost, clock=self._clock)

    def _make__consequences(self) -> Consequences:
        from yieldstar_cli.storage.sqlite.consequences import Consequences

        return Consequences(self.db, self._waits, self._history, self._lost)

    def _make__together(self) -> Together:
        from yieldstar_cli.storage.sqlite.together import Together

        return Together(self.db, self._history, self._waits, self._consequences, clock=self._clock)

    def _make__looks(self) -> Looks:
        from yieldstar_cli.storage.sqlite.looks import Looks

        return Looks(self.db, self._waits, self.inbox, self.stores)

    def _make__actions(self) -> Actions:
        from yieldstar_cli.storage.sqlite.actions import Actions

        return Actions(
            self.db,
            self._consequences,
            self.inbox,
            self.stores,
            self.effects,
            chance=self._chance,
        )

    def _make__endings(self) -> Endings:
        from yieldstar_cli.storage.sqlite.endings import Endings

        return Endings(
            self.db,
            self._history,
            self._waits,
            self._actions,
            self._consequences,
            self.inbox,
            self._looks,
            clock=self._clock,
        )

    # --- the file as a whole -------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The absolute path of the file."""
        return self.db.path

    def atomic(self) -> AbstractContextManager[None]:
        """See `contract.Storage.atomic`."""
        return self.db.atomic()

    def changes(self) -> int:
        """See `contract.Storage.changes`."""
        return self.db.data_version()

    def settle(self) -> None:
        """Write the WAL into the file and sync it: then what is read is what a crash leaves.

        For a file that was opened after a commit of unknown fate. Raises CommitUnknown, and
        closes, where that is not possible now.
        """
        cause: StorageError | None = None
        try:
            if not self.db.rows(CHECKPOINT)[0][0]:
                return
        except StorageError as error:
            cause = error
        with suppress(StorageError):
            self.close()
        raise CommitUnknown(
            f"whether the last commit to {self.path} stands is still unknown",
            why=("It cannot be written through to the disk now.",),
            remedy=("Look at the disk, then ask again.",),
        ) from cause

    def close(self) -> None:
        """Close the connection; again is harmless."""
        self.db.close()
