"""Opens the project's database, and tells its workers that something became due (K3, K5, K8)."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from yieldstar_cli import clock as time
from yieldstar_cli.errors import NoDatabase, StorageError
from yieldstar_cli.ids import Chance, SystemChance
from yieldstar_cli.project import Project
from yieldstar_cli.trust import Trust

if TYPE_CHECKING:
    from yieldstar_cli.storage.contract import Storage


def ring_workers(storage: Storage, database: Path) -> None:
    """Tell the living workers that something became due; never an error (spec K3)."""
    with suppress(StorageError):
        slots = [row.slot for row in storage.workers.all(living=True)]
        if slots:
            from yieldstar_cli.doorbell import ring

            ring(os.path.realpath(database), slots)


def open_storage(
    project: Project,
    *,
    create: bool = False,
    readonly: bool = False,
    trust: Trust | None = None,
    clock: time.Clock | None = None,
    chance: Chance | None = None,
    busy_timeout_ms: int | None = None,
    settle: bool = False,
) -> Storage:
    """The project's database, checked and open.

    Only with `create`, and only where the project allows it, is it made. `settle` makes sure
    that what is read is on the disk. Raises NoDatabase, UntrustedPath, the other StorageErrors,
    and CommitUnknown where it cannot be settled. Source: spec K5, K8.
    """
    from yieldstar_cli.storage.sqlite.connection import BUSY_TIMEOUT_MS
    from yieldstar_cli.storage.sqlite.storage import SqliteStorage

    there = os.path.isdir(project.db.parent)
    if create and there and not project.may_create and not os.path.exists(project.db):
        raise NoDatabase(
            f"there is no project here and no database at {project.db}",
            why=("Nothing was created.",),
            remedy=("ys init", "--db PATH"),
        )
    (trust or Trust()).check_database(project.db)
    opened = SqliteStorage(
        project.db,
        clock=clock or time.SystemClock(),
        chance=chance or SystemChance(),
        create=create and project.may_create,
        readonly=readonly,
        durability=project.settings.durability,
        max_value=project.settings.max_value,
        busy_timeout_ms=BUSY_TIMEOUT_MS if busy_timeout_ms is None else busy_timeout_ms,
    )
    if settle:
        opened.settle()
    return opened
