"""One open SQLite database as the storage contract's rooms."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, suppress

from yieldstar_cli.clock import Clock, SystemClock
from yieldstar_cli.codec import MAX_VALUE
from yieldstar_cli.errors import CommitUnknown, StorageError
from yieldstar_cli.ids import Chance, SystemChance
from yieldstar_cli.storage.sqlite.actions import Actions
from yieldstar_cli.storage.sqlite.catalog import SqliteCatalog
from yieldstar_cli.storage.sqlite.claims import Claims
from yieldstar_cli.storage.sqlite.connection import BUSY_TIMEOUT_MS, Durability, open_connection
from yieldstar_cli.storage.sqlite.consequences import Consequences
from yieldstar_cli.storage.sqlite.database import Database
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
from yieldstar_cli.storage.sqlite.upkeep import SqliteUpkeep
from yieldstar_cli.storage.sqlite.waits import Waits
from yieldstar_cli.storage.sqlite.workers import SqliteWorkers

#: RFC 001's redelivery timeout: the lease of a claim made without a worker.
REDELIVERY_MS = 30_000

# Rewrites and syncs the pages; reading alone may be answered from memory.
CHECKPOINT = "PRAGMA wal_checkpoint(TRUNCATE)"


class SqliteStorage:
    """`contract.Storage` on one SQLite file, over one connection.

    For one thread at a time, in the process that made it. Raises the StorageError family.
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
        clock, chance = clock or SystemClock(), chance or SystemChance()
        self.db: Database = open_connection(
            path,
            create=create,
            readonly=readonly,
            durability=durability,
            busy_timeout_ms=busy_timeout_ms,
            clock=clock,
            chance=chance,
        )
        self.max_value = max_value
        history, lost, waits = History(self.db), LostDeliveries(self.db), Waits(self.db)
        claims = Claims(self.db, lost, redelivery_ms=redelivery_ms)
        releases = Releases(self.db, lost, clock=clock)
        consequences = Consequences(self.db, waits, history, lost)
        self.inbox = SqliteInbox(self.db, clock=clock, max_value=max_value)
        self.stores = SqliteStores(
            self.db, waits, consequences, clock=clock, chance=chance, max_value=max_value
        )
        looks = Looks(self.db, waits, self.inbox, self.stores)
        actions = Actions(self.db, consequences, self.inbox, self.stores, chance=chance)
        endings = Endings(
            self.db, history, waits, actions, consequences, self.inbox, looks, clock=clock
        )
        self.executions = SqliteExecutions(
            self.db,
            claims,
            endings,
            releases,
            self.inbox,
            clock=clock,
            chance=chance,
            redelivery_ms=redelivery_ms,
            max_value=max_value,
        )
        self.deliveries = SqliteDeliveries(
            self.db, claims, endings, releases, history, waits, looks
        )
        self.reader = SqliteReader(
            self.db, history, lost, waits, clock=clock, redelivery_ms=redelivery_ms
        )
        self.steering = SqliteSteering(self.db, consequences, clock=clock)
        self.family = SqliteFamily(self.db, history, redelivery_ms=redelivery_ms)
        self.workers = SqliteWorkers(self.db, claims, clock=clock)
        self.catalog = SqliteCatalog(self.db)
        self.upkeep = SqliteUpkeep(self.db, clock=clock)

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
