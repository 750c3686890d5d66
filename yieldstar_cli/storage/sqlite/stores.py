"""Durable shared values, and whom their changes wake (spec S1-S4)."""

from __future__ import annotations

from yieldstar_cli.clock import Clock
from yieldstar_cli.errors import StoreConflict
from yieldstar_cli.ids import Chance
from yieldstar_cli.model import ChangeStore, OpenStore, StoreRecord
from yieldstar_cli.storage.sqlite import sendable, storable
from yieldstar_cli.storage.sqlite.consequences import Consequences
from yieldstar_cli.storage.sqlite.database import Database
from yieldstar_cli.storage.sqlite.readings import State
from yieldstar_cli.storage.sqlite.waits import Waits

GET = """
SELECT name, store_id, instance, version, state, created_at, updated_at
  FROM stores
 WHERE name = :name AND store_id = :store_id
"""
FIND = """
SELECT name, store_id, instance, version,
       CASE WHEN :states THEN state ELSE '' END,
       created_at, updated_at
  FROM stores
 WHERE :name IS NULL OR name = :name
 ORDER BY name, store_id
 LIMIT :limit OFFSET :offset
"""
# A state may be large: who only compares does not read it.
STANDING = "SELECT instance, version FROM stores WHERE name = :name AND store_id = :store_id"
CREATE = """
INSERT INTO stores (name, store_id, instance, version, created_at, updated_at, state)
VALUES (:name, :store_id, :instance, 0, :now, :now, :state)
"""
# The guard is the version that the transaction under way has seen (S2).
WRITE = """
UPDATE stores
   SET version    = version + 1,
       state      = :state,
       updated_at = max(updated_at, :now)
 WHERE name = :name AND store_id = :store_id AND instance = :instance AND version = :version
RETURNING version, created_at, updated_at
"""
DELETE = "DELETE FROM stores WHERE name = :name AND store_id = :store_id"

#: Asked of `put`: that there is no such store.
ABSENT = -1


class SqliteStores:
    """Stores on SQLite; `contract.Stores` says what each method means.

    `open` and `change` are parts of a delivery's transaction.
    """

    def __init__(
        self,
        db: Database,
        waits: Waits,
        consequences: Consequences,
        *,
        clock: Clock,
        chance: Chance,
        max_value: int,
    ) -> None:
        self._db = db
        self._waits = waits
        self._consequences = consequences
        self._clock = clock
        self._chance = chance
        self._max_value = max_value

    # --- reading -----------------------------------------------------------------------------

    def get(self, name: str, store_id: str) -> StoreRecord | None:
        """See `contract.Stores.get`."""
        if not storable.is_store(name, store_id):
            return None
        row = self._db.row(GET, {"name": name, "store_id": store_id})
        return None if row is None else StoreRecord(*row)

    def find(
        self,
        *,
        name: str | None = None,
        limit: int | None = None,
        offset: int = 0,
        states: bool = True,
    ) -> list[StoreRecord]:
        """See `contract.Stores.find`."""
        if name is not None and not sendable.is_queue(name):
            return []
        bindings = {
            "name": name,
            "limit": -1 if limit is None else limit,
            "offset": offset,
            "states": states,
        }
        return [StoreRecord(*row) for row in self._db.rows(FIND, bindings)]

    # --- writing -----------------------------------------------------------------------------

    def put(
        self,
        name: str,
        store_id: str,
        state: str,
        *,
        instance: str | None = None,
        version: int | None = None,
    ) -> StoreRecord:
        """See `contract.Stores.put`."""
        storable.checked_name(name)
        storable.checked_store_id(store_id)
        storable.checked_state(state, self._max_value)
        with self._db.writing():
            standing = self._expected(name, store_id, instance, version)
            if standing is None:
                return self._create(name, store_id, state)
            return self._write(name, store_id, state, *standing)

    def delete(self, name: str, store_id: str, *, version: int | None = None) -> bool:
        """See `contract.Stores.delete`."""
        if not storable.is_store(name, store_id):
            return False
        with self._db.writing():
            if self._standing(name, store_id) is None:
                return False
            self._expected(name, store_id, None, version)
            self._delete(name, store_id)
        return True

    # --- parts of a delivery's transaction ---------------------------------------------------

    def open(self, opened: OpenStore) -> tuple[str, int] | None:
        """Instance and version of the store, made if it has to be; None where it is missing.

        Raises InvalidStore for what cannot be one.
        """
        name = storable.checked_name(opened.name)
        store_id = storable.checked_store_id(opened.store_id)
        standing = self._standing(name, store_id)
        if standing is not None or opened.initial is None:
            return standing
        state = storable.checked_state(opened.initial, self._max_value)
        created = self._create(name, store_id, state)
        return created.instance, created.version

    def change(self, change: ChangeStore) -> tuple[str, int]:
        """Write or delete; instance and version that stand then, or stood last.

        Raises StoreConflict where the store is not at the version of the change, InvalidStore
        for a state that cannot be stored; nothing is changed then.
        """
        if not storable.is_store(change.name, change.store_id):
            raise StoreConflict(change.name, change.store_id, None)
        standing = self._expected(change.name, change.store_id, change.instance, change.version)
        assert standing is not None, "an instance was asked for"
        if change.state is None:
            self._delete(change.name, change.store_id)
            return standing
        state = storable.checked_state(change.state, self._max_value)
        written = self._write(change.name, change.store_id, state, *standing)
        return written.instance, written.version

    # --- their parts -------------------------------------------------------------------------

    def _standing(self, name: str, store_id: str) -> tuple[str, int] | None:
        row = self._db.row(STANDING, {"name": name, "store_id": store_id})
        return None if row is None else (str(row[0]), int(row[1]))

    def _expected(
        self, name: str, store_id: str, instance: str | None, version: int | None
    ) -> tuple[str, int] | None:
        """What stands, if that is what was asked for. Raises StoreConflict."""
        standing = self._standing(name, store_id)
        if standing is None:
            met = instance is None and version in (None, ABSENT)
        else:
            met = instance in (None, standing[0]) and version in (None, standing[1])
        if not met:
            raise StoreConflict(name, store_id, None if standing is None else standing[1])
        return standing

    def _create(self, name: str, store_id: str, state: str) -> StoreRecord:
        now, instance = self._clock.now_ms(), self._chance.seed().hex()
        created = StoreRecord(name, store_id, instance, 0, state, now, now)
        self._db.rows(
            CREATE,
            {
                "name": name,
                "store_id": store_id,
                "instance": instance,
                "now": now,
                "state": state,
            },
        )
        self._wake(name, store_id, State(instance, state), now)
        return created

    def _write(
        self, name: str, store_id: str, state: str, instance: str, version: int
    ) -> StoreRecord:
        now = self._clock.now_ms()
        row = self._db.row(
            WRITE,
            {
                "name": name,
                "store_id": store_id,
                "instance": instance,
                "version": version,
                "now": now,
                "state": state,
            },
        )
        assert row is not None, "it was at this version a moment ago, in this same transaction"
        self._wake(name, store_id, State(instance, state), now)
        return StoreRecord(name, store_id, instance, row[0], state, row[1], row[2])

    def _delete(self, name: str, store_id: str) -> None:
        self._db.rows(DELETE, {"name": name, "store_id": store_id})
        self._wake(name, store_id, State(None, None), self._clock.now_ms())

    def _wake(self, name: str, store_id: str, state: State, now: int) -> None:
        """Who waits, and has read otherwise than it is now, is to look again (S3)."""
        for number in self._waits.mark_store(name, store_id, state, now):
            self._consequences.wake(number, now)
