"""Orders paid at a real service that dies, lies and loses answers, by workers that are killed."""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.effort import torturing
from tests.kill.scene import KILLED
from tests.process.payment_service import MODULE, Bank
from tests.process.shop import Shop
from yieldstar_cli import open_runtime
from yieldstar_cli.clock import SystemClock
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

ORDERS, TROUBLES, WORKERS = (600, 60, 4) if torturing() else (40, 6, 3)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    found = Shop(tmp_path / "shop")
    found.module("payments", MODULE)
    return found


@pytest.fixture
def bank(shop: Shop) -> Iterator[Bank]:
    found = Bank(shop.folder)
    yield found
    found.close()


@pytest.fixture
def crew(shop: Shop) -> Iterator[Crew]:
    found = Crew(shop)
    yield found
    found.close()


class Crew:
    """The workers, and those of them that were stopped."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self.workers = [self._start() for _ in range(WORKERS)]
        self.said: list[str] = []

    def _start(self) -> subprocess.Popen[str]:
        return self._shop.start("worker", "-q", "--lease", "3s")

    def kill(self, index: int) -> None:
        """SIGKILL one and put another in its place."""
        worker = self.workers[index]
        worker.kill()
        assert worker.wait() == KILLED
        self._heard(worker)
        self.workers[index] = self._start()

    def stop_past_lease(self, index: int, storage: SqliteStorage) -> None:
        """SIGSTOP one that has no right to any effect, until its lease has ended.

        One that had a right might have its question on the way: then nobody could know.
        """
        worker = self.workers[index]
        while True:
            self._shop.stop_at_rest(worker)
            rows = [row for row in storage.workers.all(living=True) if row.pid == worker.pid]
            if rows and not self._rights(storage, rows[0].number):
                break
            worker.send_signal(signal.SIGCONT)
        past = rows[0].lease_until_at + 1
        while SystemClock().now_ms() < past or self._claims(storage, rows[0].number):
            assert worker.poll() is None
        worker.send_signal(signal.SIGCONT)

    @staticmethod
    def _claims(storage: SqliteStorage, worker: int) -> bool:
        statement = "SELECT 1 FROM executions WHERE claimed_by = :worker"
        return bool(storage.db.rows(statement, {"worker": worker}))

    @staticmethod
    def _rights(storage: SqliteStorage, worker: int) -> bool:
        return bool(
            storage.db.rows(
                """
                SELECT 1 FROM effects AS f JOIN executions AS e ON e.n = f.holder
                 WHERE e.claimed_by = :worker AND e.token = f.holder_token
                """,
                {"worker": worker},
            )
        )

    def _heard(self, worker: subprocess.Popen[str]) -> None:
        self.said += worker.communicate()

    def close(self) -> None:
        """All of them end."""
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            self._heard(worker)
        self.workers = []


def test_each_order_is_charged_once_whatever_dies(shop: Shop, bank: Bank, crew: Crew) -> None:
    """cases 351-358; spec F1, E13: by one or two executions, which are all told the same."""
    chance = random.Random(42)
    orders = [f"order-{n}" for n in range(ORDERS)]
    ids: dict[str, list[str]] = {order: [] for order in orders}
    with open_runtime(shop.folder / "ys.db", shop.folder / "workflows") as runtime:
        for n, order in enumerate(orders):
            for who in "ab"[: 1 + n % 2]:
                workflow = "pay" if (n + ord(who)) % 3 else "pay-soon"
                params = {"order": order, "amount": n}
                runtime.trigger(workflow, params, id=f"{order}-{who}")
                ids[order].append(f"{order}-{who}")
    storage = SqliteStorage(shop.folder / "ys.db", readonly=True)
    total = sum(map(len, ids.values()))
    troubles: list[Callable[[], None]] = [
        lambda: crew.kill(chance.randrange(WORKERS)),
        bank.kill,
        lambda: crew.stop_past_lease(chance.randrange(WORKERS), storage),
    ]
    try:
        for n in range(TROUBLES):
            wait_settled(storage, ORDERS * n // (TROUBLES + 1))
            troubles[n % len(troubles)]()
        with open_runtime(shop.folder / "ys.db", shop.folder / "workflows") as runtime:
            told = {
                order: [runtime.wait(one, timeout="60s") for one in ids[order]] for order in orders
            }
    finally:
        storage.close()
    crew.close()

    wrong = {order: bank.charges[order] for order in orders if bank.charges[order] != 1}
    assert not wrong, [shop.show(one) for order in wrong for one in ids[order]]
    assert sum(map(len, told.values())) == total
    for n, order in enumerate(orders):
        assert all(receipt == told[order][0] for receipt in told[order])
        assert told[order][0]["amount"] == n
    assert len({receipts[0]["number"] for receipts in told.values()}) == ORDERS
    assert bank.looks > ORDERS // 8, "hardly anything was in doubt, so this proved little"
    assert not [line for line in crew.said if "Traceback" in line]


def wait_settled(storage: SqliteStorage, wanted: int) -> None:
    """Until so many effects are settled."""
    while True:
        ((count,),) = storage.db.rows("SELECT count(*) FROM effects WHERE status = 'settled'")
        if count >= wanted:
            return
