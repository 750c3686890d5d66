"""Stores for programs: read, written, changed and deleted from outside of workflows (spec S7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from yieldstar_cli.errors import StoreConflict, UndecodableRecord, UnknownStore, UsageError
from yieldstar_cli.model import StoreRecord
from yieldstar_cli.runtime_open import ring_workers
from yieldstar_cli.runtime_session import Session

if TYPE_CHECKING:
    from yieldstar_cli.engine.store_handles import Snapshot

S = TypeVar("S")


class StoreSession(Session):
    """An open database and its stores."""

    @overload
    def store(
        self, state_type: type[S], store_id: str, *, name: str | None = None
    ) -> RuntimeStore[S]: ...
    @overload
    def store(self, state_type: str, store_id: str) -> RuntimeStore[Any]: ...
    def store(
        self, state_type: type[Any] | str, store_id: str, *, name: str | None = None
    ) -> RuntimeStore[Any]:
        """The store of that type and ID, whether or not it is there; reads nothing yet.

        Its name is the type's, or `name`. By name alone, as a text, states are plain data, and
        writing them loads the workflow modules to find the type. Raises UsageError for what gives
        no name. Source: spec S1, S7.
        """
        from yieldstar_cli.engine.storing import store_name

        if isinstance(state_type, str):
            if name is not None:
                raise UsageError("a type and a name, or a name alone")
            return RuntimeStore(self, state_type, store_id)
        try:
            found = store_name(state_type, name)
        except ValueError as error:
            raise UsageError(str(error)) from None
        return RuntimeStore(self, found, store_id, state_type)

    def stores(self, name: str | None = None) -> list[StoreRecord]:
        """All stores, or those of one name, in the order of name and ID, states as JSON text."""
        with self._working() as storage:
            return storage.stores.find(name=name)

    # --- for RuntimeStore --------------------------------------------------------------------

    def _read_store(self, name: str, store_id: str) -> StoreRecord | None:
        with self._working() as storage:
            return storage.stores.get(name, store_id)

    def _write_store(
        self,
        name: str,
        store_id: str,
        state: str,
        *,
        instance: str | None = None,
        version: int | None = None,
    ) -> StoreRecord:
        with self._working() as storage:
            record = storage.stores.put(name, store_id, state, instance=instance, version=version)
            ring_workers(storage, self._project.db)
            return record

    def _delete_store(self, name: str, store_id: str, version: int | None) -> bool:
        with self._working() as storage:
            deleted = storage.stores.delete(name, store_id, version=version)
            if deleted:
                ring_workers(storage, self._project.db)
            return deleted

    def _state_type(self, name: str) -> Any:
        from yieldstar_cli import checking_stores

        return checking_stores.state_type(self._project, name, trust=self._trust)


class RuntimeStore(Generic[S]):
    """One store by name and ID, for programs; made by `Runtime.store`.

    Every write wakes the executions that it concerns, like one that a workflow makes (spec S3).
    """

    __slots__ = ("_session", "_type", "name", "store_id")

    def __init__(
        self, session: StoreSession, name: str, store_id: str, state_type: Any = None
    ) -> None:
        self._session = session
        self._type = state_type
        self.name = name
        self.store_id = store_id

    def get(self) -> Snapshot[S] | None:
        """The state now, with version and instance; None where there is no such store.

        Raises UndecodableRecord for a state that is not of the type.
        """
        record = self._session._read_store(self.name, self.store_id)
        return None if record is None else self._snapshot(record)

    def set(self, state: S | Mapping[str, Any], *, if_version: int | None = None) -> Snapshot[S]:
        """Write the whole state, of the type or a mapping of its fields; creates the store.

        With `if_version` only where it is at that version (-1: where it is not there); else
        raises StoreConflict. Raises InvalidStore for what does not fit, and by name UnknownStore
        if no module here has the type. Nothing is changed then.
        """
        text = self._text(self._type_to_write(), state)
        return self._snapshot(
            self._session._write_store(self.name, self.store_id, text, version=if_version)
        )

    def update(self, fn: Callable[[S], S | None]) -> Snapshot[S]:
        """Change the state: `fn` changes a copy in place, or returns a new one.

        It is called again whenever somebody else was quicker. Raises UnknownStore where there is
        no such store, InvalidStore for what does not fit, TypeError for an async `fn`, and what
        `fn` raises. Source: spec S2.
        """
        from yieldstar_cli.engine.purity import check_pure, refuse_lazy

        check_pure(fn)
        wanted = self._type_to_write()
        while True:
            before = self.get()
            if before is None:
                raise UnknownStore(
                    f"there is no store {self.name} {self.store_id!r}",
                    why=("Nothing was changed.",),
                    remedy=("ys store list",),
                )
            returned = fn(before.state)
            refuse_lazy(returned)
            state = before.state if returned is None else returned
            text = self._text(wanted, state)
            try:
                record = self._session._write_store(
                    self.name,
                    self.store_id,
                    text,
                    instance=before.instance,
                    version=before.version,
                )
            except StoreConflict:
                continue
            return self._snapshot(record)

    def delete(self, *, if_version: int | None = None) -> bool:
        """Delete it; False where there was none. Raises StoreConflict, as `set` does."""
        return self._session._delete_store(self.name, self.store_id, if_version)

    def _type_to_write(self) -> Any:
        return self._session._state_type(self.name) if self._type is None else self._type

    def _text(self, wanted: Any, state: object) -> str:
        from yieldstar_cli import checking_stores

        limit = self._session.project.settings.max_value
        return checking_stores.state_from_value(wanted, state, limit=limit)

    def _snapshot(self, record: StoreRecord) -> Snapshot[S]:
        from yieldstar_cli import codec
        from yieldstar_cli.engine.store_handles import Snapshot

        try:
            state = codec.decode(record.state, Any if self._type is None else self._type)
        except codec.DecodeError as error:
            raise UndecodableRecord(
                f"the state of {self.name} {self.store_id!r} is not of its type: {error}",
                remedy=f"ys store get {self.name} {self.store_id}",
            ) from None
        return Snapshot(state, record.version, record.instance)


__all__ = ["RuntimeStore", "StoreSession"]
