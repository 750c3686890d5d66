"""What raw apsw does on this disk, with the same durability: the ceiling beside every figure."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

import apsw
from figures import Figure

#: The size of a small execution's JSON.
PAYLOAD = b"x" * 100
GROUP = 100

SINGLE = "raw: 1-row transactions"
GROUPED = "raw: rows, 100 a transaction"


class Raw:
    """Durable one-row transactions, and rows in transactions of a hundred, per second.

    Sampled in turn with what they stand beside, since a shared disk is quick one moment and slow
    the next; the median of the samples counts.
    """

    def __init__(self, parent: Path, rows: int) -> None:
        self._parent = parent
        self._rows = rows
        self._single: list[float] = []
        self._grouped: list[float] = []

    def sample(self) -> None:
        """Measure once."""
        self._single.append(_inserts(self._parent, self._rows, 1))
        self._grouped.append(_inserts(self._parent, self._rows * 10, GROUP))

    def figures(self) -> list[Figure]:
        """The medians so far."""
        return [
            Figure(SINGLE, statistics.median(self._single), "/s"),
            Figure(GROUPED, statistics.median(self._grouped), "/s"),
        ]


def sync_us(parent: Path, times: int = 200) -> float:
    """The median of one fdatasync after 4 KiB were appended, in microseconds."""
    with tempfile.TemporaryFile(dir=parent) as file:
        taken = []
        for _ in range(times):
            file.write(b"x" * 4096)
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6


def _inserts(parent: Path, rows: int, group: int) -> float:
    with tempfile.TemporaryDirectory(prefix="ys-bench-raw-", dir=parent) as root:
        connection = apsw.Connection(f"{root}/raw.db")
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        connection.execute("CREATE TABLE item (n INTEGER PRIMARY KEY, at INTEGER, value BLOB)")
        execute = connection.cursor().execute
        began = time.perf_counter()
        for first in range(0, rows, group):
            execute("BEGIN IMMEDIATE")
            for n in range(first, first + group):
                execute("INSERT INTO item (at, value) VALUES (?, ?)", (n, PAYLOAD))
            execute("COMMIT")
        took = time.perf_counter() - began
        connection.close()
        return rows / took
