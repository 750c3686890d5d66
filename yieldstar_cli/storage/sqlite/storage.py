"""One open SQLite database as the storage contract's rooms."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, suppress
from functools import cached_property
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

    # --- the rooms of the contract -------------------------------------------------------------

    @cached_property
    def executions(self) -> SqliteExecutions:
        """See `contract.Storage.executions`."""
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

    @cached_property
    def deliveries(self) -> SqliteDeliveries:
        """See `contract.Storage.deliveries`."""
        from yieldstar_cli.storage.sqlite.deliveries import SqliteDeliveries

        return SqliteDeliveries(
            self.db,
            self._claims,
            self._endings,
            self._releases,
            self._history,
            self._waits,
            self._looks,
        )

    @cached_property
    def reader(self) -> SqliteReader:
        """See `contract.Storage.reader`."""
        from yieldstar_cli.storage.sqlite.reader import SqliteReader

        return SqliteReader(
            self.db,
            self._history,
            self._lost,
            self._waits,
            clock=self._clock,
            redelivery_ms=self._redelivery_ms,
        )

    @cached_property
    def steering(self) -> SqliteSteering:
        """See `contract.Storage.steering`."""
        from yieldstar_cli.storage.sqlite.steering import SqliteSteering

        return SqliteSteering(self.db, lambda: self._consequences, clock=self._clock)

    @cached_property
    def family(self) -> SqliteFamily:
        """See `contract.Storage.family`."""
        from yieldstar_cli.storage.sqlite.family import SqliteFamily

        return SqliteFamily(self.db, self._history, redelivery_ms=self._redelivery_ms)

    @cached_property
    def inbox(self) -> SqliteInbox:
        """See `contract.Storage.inbox`."""
        from yieldstar_cli.storage.sqlite.inbox import SqliteInbox

        return SqliteInbox(self.db, clock=self._clock, max_value=self.max_value)

    @cached_property
    def stores(self) -> SqliteStores:
        """See `contract.Storage.stores`."""
        from yieldstar_cli.storage.sqlite.stores import SqliteStores

        return SqliteStores(
            self.db,
            self._waits,
            self._consequences,
            clock=self._clock,
            chance=self._chance,
            max_value=self.max_value,
        )

    @cached_property
    def workers(self) -> SqliteWorkers:
        """See `contract.Storage.workers`."""
        from yieldstar_cli.storage.sqlite.workers import SqliteWorkers

        return SqliteWorkers(self.db, lambda: self._claims, clock=self._clock)

    @cached_property
    def catalog(self) -> SqliteCatalog:
        """See `contract.Storage.catalog`."""
        from yieldstar_cli.storage.sqlite.catalog import SqliteCatalog

        return SqliteCatalog(self.db)

    # --- what they are made of -----------------------------------------------------------------

    @cached_property
    def _history(self) -> History:
        from yieldstar_cli.storage.sqlite.history import History

        return History(self.db)

    @cached_property
    def _waits(self) -> Waits:
        from yieldstar_cli.storage.sqlite.waits import Waits

        return Waits(self.db)

    @cached_property
    def _lost(self) -> LostDeliveries:
        from yieldstar_cli.storage.sqlite.lost import LostDeliveries

        return LostDeliveries(self.db)

    @cached_property
    def _claims(self) -> Claims:
        from yieldstar_cli.storage.sqlite.claims import Claims

        return Claims(self.db, self._lost, redelivery_ms=self._redelivery_ms)

    @cached_property
    def _releases(self) -> Releases:
        from yieldstar_cli.storage.sqlite.releases import Releases

        return Releases(self.db, self._lost, clock=self._clock)

    @cached_property
    def _consequences(self) -> Consequences:
        from yieldstar_cli.storage.sqlite.consequences import Consequences

        return Consequences(self.db, self._waits, self._history, self._lost)

    @cached_property
    def _looks(self) -> Looks:
        from yieldstar_cli.storage.sqlite.looks import Looks

        return Looks(self.db, self._waits, self.inbox, self.stores)

    @cached_property
    def _actions(self) -> Actions:
        from yieldstar_cli.storage.sqlite.actions import Actions

        return Actions(self.db, self._consequences, self.inbox, self.stores, chance=self._chance)

    @cached_property
    def _endings(self) -> Endings:
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
