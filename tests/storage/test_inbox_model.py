"""Random lives of messages on SQLite, step by step the same as a model made of lists.

The model is written from spec M1-M4, E9 and R10, not from the adapter.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.storage.kit import WORKFLOWS, admit, entry, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.model import Completed, Delivery, Round, Suspended, Wait
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

START = 1_000_000
WEEK_MS = 7 * 86_400_000
IDS = ("a", "b")
QUEUES = ("x", "y")
EXECUTIONS = st.sampled_from(IDS)


@dataclass
class Sent:
    """One message, as the model knows it."""

    queue: str
    value: str
    key: str | None
    answer: str
    #: "waiting", "consumed", "invalid", "buffered" or, once adopted, "expired".
    state: str
    sent_at: int
    expires_at: int | None = None

    def fate(self, now: int) -> str:
        expired = self.state == "buffered" and (self.expires_at or 0) <= now
        return "expired" if expired else self.state


@dataclass
class Target:
    """One execution, admitted or not."""

    messages: list[Sent] = field(default_factory=list)
    number: int | None = None
    ended: bool = False
    due_at: int | None = None
    covered_at: int | None = None
    delivery: Delivery | None = None
    entries: int = 0
    nudged: int = 0
    awaited: set[str] = field(default_factory=set)

    @property
    def open(self) -> bool:
        return self.number is not None and not self.ended

    def unread(self, queue: str) -> list[Sent]:
        return [m for m in self.messages if m.state == "waiting" and m.queue == queue]

    @property
    def ready(self) -> bool:
        return any(self.unread(queue) for queue in self.awaited)


class Inboxes(RuleBasedStateMachine):
    """The rules: what senders, callers and workers may do, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock = ManualClock(START)
        self.left: list[SqliteStorage] = []
        self.storage = self.opened()
        self.worker = new_worker(self.storage, START + 10**15)
        self.targets = {execution_id: Target() for execution_id in IDS}
        self.count = 0

    def opened(self) -> SqliteStorage:
        return SqliteStorage(
            self.folder / "ys.db", create=True, clock=self.clock, durability="normal"
        )

    def teardown(self) -> None:
        for storage in (self.storage, *self.left):
            storage.close()
        shutil.rmtree(self.folder)

    @property
    def now(self) -> int:
        return self.clock.now_ms()

    # --- senders -------------------------------------------------------------------------------

    @rule(
        execution_id=EXECUTIONS,
        queue=st.sampled_from(QUEUES),
        key=st.sampled_from([None, None, "k", "l"]),
        ttl_ms=st.sampled_from([0, 50, 1_000]),
    )
    def send(self, execution_id: str, queue: str, key: str | None, ttl_ms: int) -> None:
        self.count += 1
        value = str(self.count)
        expected = self.expected(self.targets[execution_id], queue, value, key, ttl_ms)

        answer = self.storage.inbox.send(
            execution_id, queue, value, ttl_ms=ttl_ms, idempotency_key=key
        )

        assert answer == expected

    def expected(self, target: Target, queue: str, value: str, key: str | None, ttl_ms: int) -> str:
        if target.number is None:
            self.forget_expired()
        for message in target.messages:
            if key is not None and message.key == key:
                if message.fate(self.now) != "expired":
                    return message.answer
                message.key = None
        if target.ended:
            return "refused"
        if target.number is None:
            until = self.now + ttl_ms
            target.messages.append(Sent(queue, value, key, "buffered", "buffered", self.now, until))
            return "buffered"
        target.messages.append(Sent(queue, value, key, "delivered", "waiting", self.now))
        if queue in target.awaited and target.delivery is not None:
            target.nudged += 1
        elif queue in target.awaited:
            target.due_at = self.earliest(target.due_at, self.now)
        return "delivered"

    def forget_expired(self) -> None:
        for target in self.targets.values():
            target.messages = [
                m
                for m in target.messages
                if m.state != "buffered" or (m.expires_at or 0) > self.now - WEEK_MS
            ]

    @staticmethod
    def earliest(*moments: int | None) -> int | None:
        return min((at for at in moments if at is not None), default=None)

    # --- callers and workers -----------------------------------------------------------------

    @precondition(lambda self: any(t.number is None for t in self.targets.values()))
    @rule(data=st.data())
    def admit(self, data: st.DataObject) -> None:
        unborn = [name for name, t in self.targets.items() if t.number is None]
        execution_id = data.draw(st.sampled_from(unborn))
        target = self.targets[execution_id]
        target.number = admit(self.storage, execution_id)
        target.due_at = self.now
        for message in target.messages:
            message.state = "expired" if message.fate(self.now) == "expired" else "waiting"
            if message.state == "waiting":
                message.expires_at = None

    @rule()
    def claim(self) -> None:
        claimed = self.storage.deliveries.claim(
            self.now, worker=self.worker, limit=9, workflows=WORKFLOWS
        )
        due = {
            name
            for name, t in self.targets.items()
            if t.open and t.delivery is None and t.due_at is not None and t.due_at <= self.now
        }
        assert {each.delivery.execution_id for each in claimed} == due
        for each in claimed:
            target = self.targets[each.delivery.execution_id]
            target.delivery, target.nudged = each.delivery, 0
            target.covered_at, target.due_at = target.due_at, None

    @rule(execution_id=EXECUTIONS, queues=st.sets(st.sampled_from(QUEUES)), ends=st.booleans())
    def wait(self, execution_id: str, queues: set[str], ends: bool) -> None:
        """Await exactly these from now on, and suspend with `ends`."""
        target = self.targets[execution_id]
        if target.delivery is None:
            return
        changes = Round(
            waits=tuple(
                Wait("message", q, q, self.now, None, "waiting", position=QUEUES.index(q), queue=q)
                for q in sorted(queues - target.awaited)
            ),
            unwait=tuple(("message", q) for q in sorted(target.awaited - queues)),
            outcome=Suspended() if ends else None,
        )
        target.awaited = queues

        recorded = self.storage.deliveries.record(target.delivery, changes)

        if not ends:
            return
        assert recorded.ready == target.ready
        if not target.ready:
            target.delivery, target.covered_at = None, None

    @rule(
        execution_id=EXECUTIONS,
        queue=st.sampled_from(QUEUES),
        wanted=st.integers(1, 3),
        fits=st.booleans(),
    )
    def take(self, execution_id: str, queue: str, wanted: int, fits: bool) -> None:
        target = self.targets[execution_id]
        if target.delivery is None:
            return
        look = self.storage.deliveries.look(target.delivery, queues={queue: (0, wanted)})
        there = target.unread(queue)[:wanted]
        assert [m.value for m in look.arrived] == [m.value for m in there]
        assert [m.at for m in look.arrived] == [m.sent_at for m in there]
        if not there:
            return
        numbers = tuple(m.number for m in look.arrived)
        taken: dict[str, Any] = {"consumed": numbers} if fits else {"invalid": numbers}
        self.storage.deliveries.record(
            target.delivery, Round(entries=(entry(target.entries, at=self.now),), **taken)
        )
        target.entries += 1
        for message in there:
            message.state = "consumed" if fits else "invalid"

    @rule(execution_id=EXECUTIONS)
    def release(self, execution_id: str) -> None:
        target = self.targets[execution_id]
        if target.delivery is None:
            return
        self.storage.executions.release(target.delivery)
        target.due_at = self.earliest(target.due_at, target.covered_at)
        target.delivery, target.covered_at = None, None

    @rule(execution_id=EXECUTIONS)
    def end(self, execution_id: str) -> None:
        target = self.targets[execution_id]
        if target.delivery is None:
            return
        self.storage.deliveries.record(target.delivery, Round(outcome=Completed()))
        target.ended, target.delivery = True, None
        target.due_at, target.covered_at, target.awaited = None, None, set()

    @rule(span=st.sampled_from([-60, 1, 49, 50, 1_000, WEEK_MS]))
    def advance(self, span: int) -> None:
        self.clock.advance(span)

    @rule(crash=st.booleans())
    def restart(self, crash: bool) -> None:
        if crash:
            self.left.append(self.storage)
        else:
            self.storage.close()
        self.storage = self.opened()

    # --- what always holds -----------------------------------------------------------------------

    @invariant()
    def messages_are_what_the_model_says(self) -> None:
        """I12; spec M1-M3: none lost, none twice, each with its fate, in the order sent."""
        for execution_id, target in self.targets.items():
            told = [
                (m.value, m.queue, m.idempotency_key, m.state, m.sent_at, m.expires_at)
                for m in self.storage.inbox.messages(execution_id)
            ]
            assert told == [
                (m.value, m.queue, m.key, m.fate(self.now), m.sent_at, m.expires_at)
                for m in target.messages
            ]
            if target.number is not None:
                for queue in QUEUES:
                    depth = self.storage.inbox.depth(target.number, queue)
                    assert depth == len(target.unread(queue))
                assert self.storage.inbox.any_unread(target.number) == target.ready

    @invariant()
    def wakes_are_what_the_model_says(self) -> None:
        """Spec M4, E9: who waits on the queue is woken, nobody else, and no wake is lost."""
        for execution_id, target in self.targets.items():
            record = self.storage.executions.get(execution_id)
            assert (record is None) == (target.number is None)
            if record is None:
                continue
            assert (record.due_at, record.covered_due_at) == (target.due_at, target.covered_at)
            if target.open and target.delivery is None and target.ready:
                assert target.due_at is not None

    @invariant()
    def open_deliveries_hear_of_messages(self) -> None:
        """Spec R10: told as often as something came for them since their claim."""
        told = dict(self.storage.deliveries.nudged(self.worker))
        for target in self.targets.values():
            if target.delivery is not None and target.number is not None:
                assert told.get(target.number, 0) == target.nudged


TestInboxes = Inboxes.TestCase
TestInboxes.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
