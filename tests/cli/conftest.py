"""Runs the real `ys`: in this process with a clock of its own, as a process, on a terminal."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from yieldstar_cli.cli.app import run as run_app
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.ids import SystemChance
from yieldstar_cli.model import Claimed, Entry, Outcome, Round, Suspended, Wait
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

#: 2026-11-30T12:00:00Z
NOON = 1_796_040_000_000
MINUTE = 60_000


@dataclass(frozen=True)
class Said:
    """What a call printed, and its exit status."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err.splitlines()[-1])


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True

    def reconfigure(self, **options: object) -> None:
        """As a real text stream's."""


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No setting of the machine's reaches a test; the wall clock is UTC's."""
    for name in (
        "YS_DB",
        "YS_WORKFLOWS",
        "YS_COLOR",
        "YS_ASCII",
        "NO_COLOR",
        "FORCE_COLOR",
        "CLICOLOR_FORCE",
        "COLUMNS",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


class Shop:
    """A project directory, its database, and ways to call `ys` in it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.clock = ManualClock(NOON)
        self._monkeypatch = monkeypatch
        self._storage: SqliteStorage | None = None
        self.worker_number: int | None = None

    @property
    def db(self) -> Path:
        return self.root / "ys.db"

    @property
    def storage(self) -> SqliteStorage:
        if self._storage is None:
            self._storage = SqliteStorage(
                self.db, create=True, clock=self.clock, chance=SystemChance()
            )
        return self._storage

    def close(self) -> None:
        if self._storage is not None:
            self._storage.close()
            self._storage = None

    # --- calling -------------------------------------------------------------------------------

    def ys(self, *words: str, stdin: str | bytes = "") -> Said:
        """Call `ys` in this process, its output in a pipe."""
        return self._call(words, stdin, _Pipe(), _Pipe())

    def screen(self, *words: str, columns: int = 80, colour: bool = False) -> Said:
        """Call `ys` in this process, as if on a terminal."""
        self._monkeypatch.setenv("COLUMNS", str(columns))
        chosen = () if colour else ("--color", "never")
        return self._call((*chosen, *words), "", Screen(), Screen())

    def _call(
        self, words: Sequence[str], stdin: str | bytes, out: io.StringIO, err: io.StringIO
    ) -> Said:
        raw = stdin.encode() if isinstance(stdin, str) else stdin
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw), encoding="utf-8"))
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            patch.chdir(self.root)
            code = run_app(words, clock=self.clock)
        return Said(code, out.getvalue(), err.getvalue())

    def process(self, *words: str, env: dict[str, str] | None = None, stdin: bytes = b"") -> Said:
        """Call `ys` as a process of its own, at the real time."""
        done = subprocess.run(
            [sys.executable, "-m", "yieldstar_cli", *words],
            cwd=self.root,
            env={**os.environ, **(env or {})},
            input=stdin,
            capture_output=True,
            timeout=60,
        )
        return Said(
            done.returncode,
            done.stdout.decode("utf-8", "surrogateescape"),
            done.stderr.decode("utf-8", "surrogateescape"),
        )

    # --- building ------------------------------------------------------------------------------

    def module(self, name: str, text: str) -> Path:
        path = self.root / "workflows" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def admit(
        self, execution_id: str = "order-42", workflow_id: str = "charge-order", **words: Any
    ) -> None:
        words.setdefault("params", {"order": 42})
        self.storage.executions.admit(workflow_id=workflow_id, execution_id=execution_id, **words)

    def start_worker(
        self,
        name: str = "shop:4412",
        workflows: Sequence[tuple[str, int]] = (("charge-order", 1),),
        tags: Sequence[str] = (),
        **words: Any,
    ) -> int:
        """A worker's row, as a worker of another boot leaves it: only its lease counts."""
        values = {
            "name": name,
            "host": "shop",
            "pid": 4412,
            "slot": 0,
            "nonce": name.encode().ljust(16, b"."),
            "boot_id": "another boot",
            "device": 0,
            "inode": 0,
            "lease_until_at": self.clock.now_ms() + 30_000,
            **words,
        }
        number = self.storage.workers.register(**values)
        self.storage.workers.describe(number, list(workflows), [], tags)
        self.worker_number = number
        return number

    def claim(self, execution_id: str = "order-42") -> Claimed:
        number = self.worker_number or self.start_worker()
        record = self.storage.executions.get(execution_id)
        assert record is not None
        (claimed,) = self.storage.deliveries.claim(
            self.clock.now_ms(),
            worker=number,
            limit=1,
            workflows=[(record.workflow_id, record.version)],
            only=execution_id,
        )
        return claimed

    def deliver(
        self,
        execution_id: str = "order-42",
        *,
        entries: Sequence[Entry] = (),
        waits: Sequence[Wait] | None = None,
        outcome: Outcome | None = None,
        took: int = 31,
        **words: Any,
    ) -> None:
        """One delivery that records this and ends with `outcome` (None: it stays open)."""
        claimed = self.claim(execution_id)
        self.clock.advance(took)
        self.storage.deliveries.record(
            claimed.delivery,
            Round(
                entries=tuple(entries),
                waits=tuple(waits or ()),
                outcome=outcome,
                **words,
            ),
        )

    def sleeping(self, execution_id: str = "order-42", span: int = 10 * MINUTE) -> None:
        """An execution of charge-order that sleeps since now."""
        self.admit(execution_id)
        now = self.clock.now_ms()
        wait = Wait("timer", "sleep", "10m", now, now + span, "waiting")
        self.deliver(execution_id, waits=[wait], outcome=Suspended(now + span))


class _Pipe(io.StringIO):
    """A stream that is no terminal, in UTF-8."""

    encoding = "utf-8"  # type: ignore[assignment]

    def reconfigure(self, **options: object) -> None:
        """As a real text stream's."""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """An empty project directory with `ys.toml`, so that commands may make the database."""
    (tmp_path / "ys.toml").write_text("")
    found = Shop(tmp_path, monkeypatch)
    yield found
    found.close()


HELLO = '''
"""Greetings."""

import msgspec

from yieldstar_cli import Step, workflow


class Order(msgspec.Struct):
    order: int
    """The order number."""
    note: str = "none"


@workflow
async def charge_order(step: Step, p: Order) -> str:
    """Charge an order.

    Not for real.
    """
    return f"order {p.order}"
'''


@pytest.fixture
def charge_order(shop: Shop) -> Callable[[], Path]:
    """Puts a small charge-order module in place."""
    return lambda: shop.module("charge_order.py", HELLO)
