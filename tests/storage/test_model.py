"""Random lives of executions on SQLite, step by step the same as a model made of dicts.

The model is written from RFC 001 and spec sections 2 and 3, not from the adapter.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
)

from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import ExecutionIdConflict, ExecutionNotFound, StaleDelivery
from yieldstar_cli.model import Completed, Delivery, Entry, Failed, Outcome, Round, Suspended
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

REDELIVERY_MS = 1_000
START = 1_000_000
IDS = ("a", "b", "c")
MAY_BECOME = {
    "admitted": {"suspended", "completed", "failed"},
    "suspended": {"suspended", "completed", "failed"},
    "completed": set(),
    "failed": set(),
}
OUTCOMES = st.one_of(
    st.integers(-500, 3_000).map(lambda span: ("suspended", span)),
    st.just(("suspended", None)),
    st.sampled_from([("completed", "1"), ("completed", "2"), ("failed", '"e"')]),
)


@dataclass
class Life:
    """What the model knows of one execution."""

    params: int
    admitted_at: int
    number: int
    status: str = "admitted"
    outcome: Outcome | None = None
    #: Every wake that no delivery covers, and those that the open one covers.
    pending: list[int] = field(default_factory=list)
    covered: list[int] = field(default_factory=list)
    claimed_at: int | None = None
    token: int = 0
    acked: int = 0
    entries: int = 0
    held_until: int | None = None
    held: bool = False
    problem: str | None = None

    @property
    def terminal(self) -> bool:
        return self.status in ("completed", "failed")

    def claimable(self, now: int) -> bool:
        if self.claimed_at is not None:
            return self.claimed_at + REDELIVERY_MS <= now
        if not self.pending or min(self.pending) > now:
            return False
        return not self.held or (self.held_until is not None and self.held_until <= now)

    def due(self) -> int:
        return min(self.pending + self.covered)

    def let_go(self) -> None:
        self.pending += self.covered
        self.covered = []
        self.claimed_at = None

    def live(self, token: int) -> bool:
        return self.claimed_at is not None and token == self.token


class Executions(RuleBasedStateMachine):
    """The rules: what callers and workers may do, in any order."""

    deliveries = Bundle("deliveries")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock = ManualClock(START)
        self.lives: dict[str, Life] = {}
        self.statuses: dict[str, str] = {}
        self.updated: dict[str, int] = {}
        self.left: list[SqliteStorage] = []
        self.storage = self.opened()

    def opened(self) -> SqliteStorage:
        return SqliteStorage(
            self.folder / "ys.db",
            create=True,
            clock=self.clock,
            redelivery_ms=REDELIVERY_MS,
            durability="normal",
        )

    def teardown(self) -> None:
        for storage in (self.storage, *self.left):
            storage.close()
        shutil.rmtree(self.folder)

    @property
    def now(self) -> int:
        return self.clock.now_ms()

    # --- rules -----------------------------------------------------------------------------

    @rule(execution_id=st.sampled_from(IDS), params=st.integers(0, 9), after=st.integers(-5, 2_000))
    def admit(self, execution_id: str, params: int, after: int) -> None:
        at = self.now + after
        event: dict[str, Any] = {"workflow_id": "w", "params": params, "at": at}
        if execution_id in self.lives:
            with pytest.raises(ExecutionIdConflict):
                self.storage.executions.admit(execution_id=execution_id, **event)
            return
        record = self.storage.executions.admit(execution_id=execution_id, **event)
        self.lives[execution_id] = Life(params, self.now, record.number, pending=[at])

    @rule(execution_id=st.sampled_from((*IDS, "nobody")), after=st.integers(-500, 3_000))
    def request_wake(self, execution_id: str, after: int) -> None:
        life = self.lives.get(execution_id)
        if life is None:
            with pytest.raises(ExecutionNotFound):
                self.storage.executions.request_wake(execution_id, self.now + after)
            return
        answer = self.storage.executions.request_wake(execution_id, self.now + after)
        assert answer == ("ignored" if life.terminal else "requested")
        if not life.terminal:
            life.pending.append(self.now + after)

    @rule(execution_id=st.sampled_from(IDS))
    def ys_wake(self, execution_id: str) -> None:
        life = self.lives.get(execution_id)
        if life is None:
            return
        answer = self.storage.executions.wake(execution_id)
        assert answer == ("ignored" if life.terminal else "requested")
        if not life.terminal:
            life.pending.append(self.now)
            life.held, life.held_until = False, None

    @rule(target=deliveries, limit=st.one_of(st.none(), st.integers(1, 2)))
    def claim(self, limit: int | None) -> Any:
        claimed = self.storage.executions.claim_due(self.now, limit=limit)
        able = sum(life.claimable(self.now) for life in self.lives.values())
        assert len(claimed) == min(able, limit or able)
        assert len({delivery.execution_id for delivery in claimed}) == len(claimed)
        for delivery in claimed:
            life = self.lives[delivery.execution_id]
            assert life.claimable(self.now)
            life.let_go()
            life.covered, life.pending = life.pending, []
            life.claimed_at = self.now
            life.held, life.held_until = False, None
            assert delivery.token > life.token
            life.token = delivery.token
        return multiple(*claimed)

    @rule(delivery=deliveries, kind=OUTCOMES)
    def acknowledge(self, delivery: Delivery, kind: tuple[str, Any]) -> None:
        life = self.lives[delivery.execution_id]
        outcome = self.outcome(kind)
        if life.terminal:
            assert self.storage.executions.acknowledge(delivery, outcome) == life.outcome
        elif life.live(delivery.token):
            answer = self.storage.executions.acknowledge(delivery, outcome)
            self.ended(life, outcome, delivery.token)
            if life.terminal:
                assert answer == life.outcome
            else:
                assert answer == Suspended(min(life.pending, default=None))
        elif life.acked == delivery.token:
            assert isinstance(self.storage.executions.acknowledge(delivery, outcome), Suspended)
        else:
            with pytest.raises(StaleDelivery):
                self.storage.executions.acknowledge(delivery, outcome)

    @rule(delivery=deliveries, count=st.integers(0, 2), kind=st.one_of(st.none(), OUTCOMES))
    def record(self, delivery: Delivery, count: int, kind: tuple[str, Any] | None) -> None:
        life = self.lives[delivery.execution_id]
        outcome = None if kind is None else self.outcome(kind)
        entries = tuple(
            Entry(life.entries + n, "step", f"s-{life.entries + n}", True, "1", self.now)
            for n in range(count)
        )
        changes = Round(entries=entries, outcome=outcome)
        if life.terminal:
            assert self.storage.deliveries.record(delivery, changes).outcome == life.outcome
        elif life.live(delivery.token):
            self.storage.deliveries.record(delivery, changes)
            life.entries += count
            if outcome is not None:
                self.ended(life, outcome, delivery.token)
        elif outcome is not None and life.acked == delivery.token:
            again = self.storage.deliveries.record(delivery, changes)
            assert isinstance(again.outcome, Suspended)
        else:
            with pytest.raises(StaleDelivery):
                self.storage.deliveries.record(delivery, changes)

    @rule(
        delivery=consumes(deliveries),
        problem=st.sampled_from([None, ("X", "x"), ("Y", "y")]),
        hold=st.sampled_from([None, "event", 700]),
    )
    def release(self, delivery: Delivery, problem: Any, hold: Any) -> None:
        life = self.lives[delivery.execution_id]
        until = self.now + hold if isinstance(hold, int) else None
        words: dict[str, Any] = {
            "problem": problem,
            "held": hold is not None,
            "held_until": until,
        }
        if not life.live(delivery.token):
            with pytest.raises(StaleDelivery):
                self.storage.executions.release(delivery, **words)
            return
        self.storage.executions.release(delivery, **words)
        life.let_go()
        life.held, life.held_until = hold is not None, until
        if problem is not None:
            life.problem = problem[0]

    @rule(span=st.integers(-300, 2_000))
    def advance(self, span: int) -> None:
        self.clock.advance(span)

    @rule(crash=st.booleans())
    def restart(self, crash: bool) -> None:
        if crash:
            self.left.append(self.storage)
        else:
            self.storage.close()
        self.storage = self.opened()

    # --- the model's half --------------------------------------------------------------------

    def outcome(self, kind: tuple[str, Any]) -> Outcome:
        match kind:
            case ("suspended", span):
                return Suspended(None if span is None else self.now + span)
            case ("completed", text):
                return Completed(text)
        return Failed(kind[1])

    def ended(self, life: Life, outcome: Outcome, token: int) -> None:
        life.covered, life.claimed_at, life.acked, life.problem = [], None, token, None
        match outcome:
            case Suspended(due_at):
                life.status = "suspended"
                life.pending += [] if due_at is None else [due_at]
            case Completed():
                life.status, life.outcome, life.pending = "completed", outcome, []
            case _:
                life.status, life.outcome, life.pending = "failed", outcome, []

    # --- what always holds ----------------------------------------------------------------------

    @invariant()
    def a_status_only_changes_as_it_may(self) -> None:
        """case 108; invariant I20: every trace of statuses is a path of the automaton."""
        for execution_id in IDS:
            record = self.storage.executions.get(execution_id)
            if record is not None:
                before = self.statuses.get(execution_id, record.status)
                assert record.status == before or record.status in MAY_BECOME[before]
                self.statuses[execution_id] = record.status
                assert record.updated_at >= self.updated.get(execution_id, 0)
                self.updated[execution_id] = record.updated_at

    @invariant()
    def the_record_is_what_the_model_says(self) -> None:
        for execution_id in IDS:
            record = self.storage.executions.get(execution_id)
            life = self.lives.get(execution_id)
            if life is None:
                assert record is None
                continue
            assert record is not None
            assert record.params == life.params
            assert record.admitted_at == life.admitted_at
            assert (record.status, record.outcome) == (life.status, life.outcome)
            assert record.due_at == min(life.pending, default=None)
            assert record.covered_due_at == min(life.covered, default=None)
            assert (record.delivery is not None) == (life.claimed_at is not None)
            assert record.deliveries == life.token
            assert record.operations == life.entries
            assert (record.held is not None) == life.held
            assert (record.problem.code if record.problem else None) == life.problem
            history = self.storage.reader.history(record.number, 1)
            assert [entry.position for entry in history] == list(range(life.entries))


TestExecutions = Executions.TestCase
TestExecutions.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
