"""Writes a store from the words of a call: a whole state, or fields of it (spec S7)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.given import read_json, read_pairs
from yieldstar_cli.cli.opened import trust_of
from yieldstar_cli.cli.steering import told_if_unknown
from yieldstar_cli.cli.store_words import Meant, chosen_id, find_store, unknown_store
from yieldstar_cli.cli.typed import line
from yieldstar_cli.errors import ExecutionAdmissionError, InvalidStore, StoreConflict
from yieldstar_cli.model import StoreRecord
from yieldstar_cli.project import Project
from yieldstar_cli.storage.contract import Storage

_HELP = ("ys help params",)


def set_store(
    call: Call,
    project: Project,
    storage: Storage,
    meant: Meant,
    *,
    data: str | None,
    if_version: int | None,
) -> StoreRecord:
    """Write a whole state: `--data`, over it the fields, the type's defaults for the rest.

    Raises UnknownStore, InvalidStore, StoreConflict, UsageError.
    """
    from yieldstar_cli import checking_stores

    limit = project.settings.max_value
    with _about_a_state():
        base: Any = None if data is None else read_json("--data", data, limit, place="state")
        pairs = read_pairs("ys store set", meant.fields, limit)
    if data is not None and not isinstance(base, dict):
        raise InvalidStore(
            "state: --data takes a JSON object", why=("Nothing was changed.",), remedy=_HELP
        )
    store_id = chosen_id(project, storage, meant, "set")
    type_ = checking_stores.state_type(project, meant.name, trust=trust_of(call))
    state = checking_stores.state_from_pairs(type_, pairs, base, limit=limit)
    return _put(project, storage, meant.name, store_id, state, version=if_version)


def patch_store(
    call: Call, project: Project, storage: Storage, meant: Meant, *, if_version: int | None
) -> StoreRecord:
    """Change the fields given and no others; anew whenever somebody else was quicker.

    Raises UnknownStore, InvalidStore, StoreConflict (with `if_version`), UsageError.
    """
    from yieldstar_cli import checking_stores

    limit = project.settings.max_value
    with _about_a_state():
        pairs = read_pairs("ys store patch", meant.fields, limit)
    before = find_store(project, storage, meant, "patch")
    type_ = checking_stores.state_type(project, meant.name, trust=trust_of(call))
    while True:
        if if_version is not None and before.version != if_version:
            with _told(before.name, before.store_id):
                raise StoreConflict(before.name, before.store_id, before.version)
        state = checking_stores.patched_state(type_, before.state, pairs, limit=limit)
        try:
            return _put(
                project,
                storage,
                before.name,
                before.store_id,
                state,
                instance=before.instance,
                version=before.version,
            )
        except StoreConflict:
            again = storage.stores.get(before.name, before.store_id)
            if again is None:
                raise unknown_store(project, storage, meant) from None
            before = again


def delete_store(
    project: Project, storage: Storage, record: StoreRecord, *, if_version: int | None
) -> bool:
    """Delete a store; whether it was still there. Raises StoreConflict."""
    from yieldstar_cli.runtime_open import ring_workers

    with _told(record.name, record.store_id, "it was deleted"):
        deleted = storage.stores.delete(record.name, record.store_id, version=if_version)
    ring_workers(storage, project.db)
    return deleted


def _put(
    project: Project,
    storage: Storage,
    name: str,
    store_id: str,
    state: str,
    *,
    instance: str | None = None,
    version: int | None = None,
) -> StoreRecord:
    from yieldstar_cli.runtime_open import ring_workers

    with _told(name, store_id, "the state was written"):
        record = storage.stores.put(name, store_id, state, instance=instance, version=version)
    ring_workers(storage, project.db)
    return record


@contextmanager
def _told(name: str, store_id: str, what: str = "") -> Iterator[None]:
    """In what is said of a write that failed: the line that shows the store, as it is typed."""
    look = line("get", name, store_id)
    try:
        with told_if_unknown(what, look):
            yield
    except StoreConflict as error:
        error.remedy = (look,)
        raise


@contextmanager
def _about_a_state() -> Iterator[None]:
    """What is said of params said of a state."""
    try:
        yield
    except ExecutionAdmissionError as error:
        remedy = error.remedy or _HELP
        raise InvalidStore(error.message, why=("Nothing was changed.",), remedy=remedy) from None
