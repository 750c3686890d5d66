"""Huey over SQLite, as shipped: a bare task queue without durable steps; one thread."""

from __future__ import annotations

from pathlib import Path

from common import main, ready
from huey import SqliteHuey


def queue_of(folder: Path) -> SqliteHuey:
    """The queue in `folder`; its defaults are write-ahead logging and SQLite's own FULL."""
    return SqliteHuey("measured", filename=str(folder / "huey.db"))


class HueyPeer:
    """One task is one execution."""

    every_s = 0.01

    def __init__(self) -> None:
        self._queue: SqliteHuey | None = None

    def prepare(self, folder: Path) -> None:
        """Make the file."""
        queue_of(folder)

    def enqueue(self, folder: Path, work: str, count: int) -> None:
        """One task each."""
        _, add_one = self._task(folder)
        for n in range(count):
            add_one(n)

    def done(self, folder: Path) -> int:
        """Results that are there."""
        self._queue = self._queue or queue_of(folder)
        return int(self._queue.storage.result_store_size())

    def serve(self, folder: Path) -> None:
        """A consumer in this process."""
        queue, _ = self._task(folder)
        consumer = queue.create_consumer(workers=1, periodic=False)
        ready()
        consumer.run()

    def _task(self, folder: Path):
        queue = queue_of(folder)

        @queue.task(name="add_one")
        def add_one(n: int) -> int:
            return n + 1

        return queue, add_one


if __name__ == "__main__":
    main(HueyPeer())
