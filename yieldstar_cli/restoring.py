"""Puts a backup in the place of a project's database, while no worker is at it (spec L3, E13)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from yieldstar_cli.clock import Clock
from yieldstar_cli.errors import CorruptFile, FileInTheWay, NoDatabase, WorkersAlive
from yieldstar_cli.storage.sqlite import files, restores
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.worker.liveness import LockFile


class Restored(NamedTuple):
    """What a restore did, or would do."""

    executions: int
    unfinished: int
    #: Deliveries that were under way when the backup was made, and are due again.
    returned: int
    #: Where the database is that stood there before; None where there was none.
    kept: str | None


def restore(database: str, backup: str, clock: Clock) -> Restored:
    """Make the database what `backup` is; the one before it is kept beside it.

    Refused while a worker lives (WorkersAlive), and for a backup that is missing, of another
    program, of a newer schema or damaged (the StorageError family); nothing is changed then. An
    older schema is brought up to date. Source: spec L3, E8, K7.
    """
    place = files.place_of(database)
    files.check_folder(place)
    if os.path.exists(backup) and os.path.exists(place) and os.path.samefile(backup, place):
        raise FileInTheWay(f"{backup} is the database itself", why=("Nothing was changed.",))
    partial = f"{place}.restoring"
    try:
        prepared = restores.prepare(os.path.abspath(backup), partial, clock)
        with _nobody_there(place, clock):
            kept = _replace(place, partial, clock)
    finally:
        restores.discard(partial)
    return Restored(prepared.executions, prepared.unfinished, prepared.returned, kept)


@contextmanager
def _nobody_there(place: str, clock: Clock) -> Iterator[None]:
    """No worker lives, and none can begin meanwhile. Raises WorkersAlive."""
    lock = LockFile(f"{place}-lock")
    _refuse_leases(place, lock, clock)
    with lock.alone() as alone:
        if not alone:
            raise _alive(place)
        yield


def _refuse_leases(place: str, lock: LockFile, clock: Clock) -> None:
    """Of workers elsewhere only their leases tell (spec L3)."""
    try:
        storage = SqliteStorage(place, readonly=True, clock=clock)
    except (NoDatabase, CorruptFile):
        return
    try:
        rows = storage.workers.all(living=True)
    except CorruptFile:
        return
    finally:
        storage.close()
    dead = {row.number for row in lock.find_dead(rows)}
    now = clock.now_ms()
    if any(row.number not in dead and row.lease_until_at > now for row in rows):
        raise _alive(place)


def _alive(place: str) -> WorkersAlive:
    return WorkersAlive(
        f"workers are at {place}",
        why=("What they have in hand would be of another past. Nothing was changed.",),
        remedy=("ys doctor names them", "stop them, then the same line again"),
    )


def _replace(place: str, partial: str, clock: Clock) -> str | None:
    if not os.path.lexists(place):
        restores.put_in_place(place, partial)
        return None
    kept = _free(f"{place}.before-restore")
    try:
        storage = SqliteStorage(place, clock=clock)
    except CorruptFile:
        # It does not even open: so it is moved, as it is.
        restores.set_aside(place, kept)
        restores.put_in_place(place, partial)
        return kept
    try:
        restores.exchange(storage.db, partial, kept)
    finally:
        storage.close()
    return kept


def _free(stem: str) -> str:
    name, count = f"{stem}.bak", 1
    while os.path.lexists(name):
        count += 1
        name = f"{stem}-{count}.bak"
    return name
