"""Duroxide over SQLite, as shipped: generators on its Rust runtime."""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

from common import STEPS_EACH, main, ready
from duroxide import Client, Runtime, RuntimeOptions, SqliteProvider


class DuroxidePeer:
    """One orchestration is one execution."""

    every_s = 0.05

    def __init__(self) -> None:
        self._client: Client | None = None

    def prepare(self, folder: Path) -> None:
        """Make the file; it must be there before it can be opened."""
        (folder / "duroxide.db").touch()

    def enqueue(self, folder: Path, work: str, count: int) -> None:
        """By a client that runs nothing itself."""
        client = self._clients(folder)
        for n in range(count):
            client.start_orchestration(f"it-{n}", work, n)

    def done(self, folder: Path) -> int:
        """As its own metrics say."""
        return int(self._clients(folder).get_system_metrics().completed_instances)

    def serve(self, folder: Path) -> None:
        """Register, start, and stay."""
        options = RuntimeOptions(log_level="error")
        runtime = Runtime(SqliteProvider.open(str(folder / "duroxide.db")), options)

        @runtime.register_activity("add_one")
        def add_one(ctx: Any, n: int) -> int:
            return n + 1

        @runtime.register_orchestration("one")
        def one(ctx: Any, n: int) -> Generator[Any, Any, int]:
            return (yield ctx.schedule_activity("add_one", n))

        @runtime.register_orchestration("ten")
        def ten(ctx: Any, n: int) -> Generator[Any, Any, int]:
            for _ in range(STEPS_EACH):
                n = yield ctx.schedule_activity("add_one", n)
            return n

        starting = threading.Thread(target=runtime.start, daemon=True)
        starting.start()
        ready()
        threading.Event().wait()

    def _clients(self, folder: Path) -> Client:
        if self._client is None:
            self._client = Client(SqliteProvider.open(str(folder / "duroxide.db")))
        return self._client


if __name__ == "__main__":
    main(DuroxidePeer())
