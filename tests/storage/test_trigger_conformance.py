"""RFC 001's SDK table on the real runtime, dispatcher and SQLite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from yieldstar_cli import Step, workflow
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.project import find_project
from yieldstar_cli.runtime import Runtime
from yieldstar_cli.storage.contract import Executions
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.testing.conformance import Shop, TriggerConformance
from yieldstar_cli.testing.kit import Bench


class SqliteShop:
    """A runtime, another connection, and a bench whose workers run what is due."""

    def __init__(self, path: Path, clock: ManualClock) -> None:
        self._runs: list[int] = []
        runs = self._runs

        @workflow(id="charge-order")
        async def charge_order(step: Step, order: int) -> int:
            runs.append(order)
            return order

        self._workflow = charge_order
        self._bench = Bench(charge_order, path=path, clock=clock)
        self._runtime = Runtime(
            SqliteStorage(path, clock=clock), find_project(db=path), clock=clock
        )

    @property
    def executions(self) -> Executions:
        return self._bench.storage.executions

    def trigger(self, order: int, execution_id: str | None = None) -> Any:
        return self._runtime.trigger(self._workflow, {"order": order}, id=execution_id)

    def dispatch(self) -> None:
        self._bench.run()

    def runs(self) -> list[int]:
        return self._runs

    def close(self) -> None:
        self._runtime.close()
        self._bench.close()


class TestSqliteRuntime(TriggerConformance):
    @pytest.fixture(autouse=True)
    def _directory(self, tmp_path: Path) -> None:
        self.directory = tmp_path

    def open(self, clock: ManualClock) -> Shop:
        return SqliteShop(self.directory / "ys.db", clock)
