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


def raw(parent: Path, rows: int) -> list[Figure]:
    """Durable one-row transactions, and rows in transactions of a hundred, per second."""
    return [
        Figure(SINGLE, _inserts(parent, rows, 1), "/s"),
        Figure(GROUPED, _inserts(parent, rows * 10, GROUP), "/s"),
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
