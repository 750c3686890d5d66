"""Counts what SQLite is asked to do and how often it waits for the disk; reads no clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw


class Meter:
    """Statements begun by every connection opened since, and the syncs that they asked for."""

    def __init__(self) -> None:
        self.by_statement: Counter[str] = Counter()
        #: Calls that wait until the disk has what was written.
        self.syncs = 0

    def reset(self) -> None:
        """Count from nothing again."""
        self.by_statement.clear()
        self.syncs = 0

    @property
    def statements(self) -> int:
        """Statements begun, BEGIN and COMMIT included."""
        return self.by_statement.total()

    def hear(self, connection: apsw.Connection) -> None:
        """Count this connection's statements."""
        connection.trace_v2(apsw.SQLITE_TRACE_STMT, self._began)

    def _began(self, event: dict[str, Any]) -> None:
        self.by_statement[event["sql"]] += 1


class _File(apsw.VFSFile):
    def __init__(self, meter: Meter, name: object, flags: list[int]) -> None:
        self._meter = meter
        super().__init__("unix", name, flags)  # type: ignore[arg-type]

    def xSync(self, flags: int) -> None:
        # Counted and not done: no power is cut here, and the disk may be slow.
        self._meter.syncs += 1


class _Vfs(apsw.VFS):
    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        super().__init__("ys-metered", "unix", makedefault=True)

    def xOpen(self, name: object, flags: list[int]) -> _File:  # type: ignore[override]
        return _File(self._meter, name, flags)


@contextmanager
def metered() -> Iterator[Meter]:
    """Everything that is opened inside is counted."""
    meter = Meter()
    vfs = _Vfs(meter)
    apsw.connection_hooks.append(meter.hear)
    try:
        yield meter
    finally:
        apsw.connection_hooks.remove(meter.hear)
        vfs.unregister()
