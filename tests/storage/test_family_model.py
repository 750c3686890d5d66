"""Random families: whatever parents, children, people and crashes do, nobody is forgotten.

What must hold after every step is written from spec sections 4 and 5, not from the adapter.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.storage.kit import WORKFLOWS, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import StaleDelivery
from yieldstar_cli.model import (
    Action,
    CancelOther,
    Claimed,
    Completed,
    Continued,
    Failed,
    Outcome,
    Round,
    Send,
    Start,
    Suspended,
    Wait,
    WakeOther,
)
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

ROOTS = ("a", "b")
#: Children that executions may start; the roots may be named, too.
NAMES = (*ROOTS, "a/x", "a/y", "b/x", "z")
OPEN = "('admitted', 'suspended')"

NAME = st.sampled_from(NAMES)
ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(Start, st.just("k"), st.just(5), NAME, st.just("w"), st.just(1), st.just("1"),
              detached=st.booleans()),
    st.builds(Send, st.just("k"), st.just(5), NAME, st.just("q"), st.just("1"), st.just(99)),
    st.builds(WakeOther, st.just("k"), st.just(5), NAME),
    st.builds(CancelOther, st.just("k"), st.just(5), NAME),
)  # fmt: skip
OUTCOMES: st.SearchStrategy[Outcome | None] = st.sampled_from(
    [None, Suspended(), Suspended(10**15), Completed("1"), Failed('"e"'), Continued("2", 1)]
)


class Families(RuleBasedStateMachine):
    """What deliveries, people and time may do, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock = ManualClock(1_000_000)
        self.storage = self.opened()
        self.worker = new_worker(self.storage, 10**15)
        #: Open deliveries, and how many entries each has by now.
        self.claimed: list[Claimed] = []
        self.outcomes: dict[str, Outcome] = {}
        for name in ROOTS:
            self.storage.executions.admit(workflow_id="w", execution_id=name)

    def opened(self) -> SqliteStorage:
        return SqliteStorage(
            self.folder / "ys.db", create=True, clock=self.clock, durability="normal"
        )

    def teardown(self) -> None:
        self.storage.close()
        shutil.rmtree(self.folder)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.storage.db.rows(sql)

    # --- rules -------------------------------------------------------------------------------

    @rule(limit=st.integers(1, 3), tags=st.sampled_from([(), ("gpu",)]))
    def claim(self, limit: int, tags: tuple[str, ...]) -> None:
        now = self.clock.now_ms()
        self.claimed += self.storage.deliveries.claim(
            now, worker=self.worker, limit=limit, workflows=WORKFLOWS, tags=tags
        )

    @precondition(lambda self: self.claimed)
    @rule(
        which=st.integers(0, 9),
        actions=st.lists(ACTIONS, max_size=2),
        awaited=st.lists(NAME, max_size=2),
        queue=st.booleans(),
        needs=st.sampled_from([(), ("gpu",)]),
        outcome=OUTCOMES,
        looks=st.booleans(),
    )
    def deliver(
        self,
        which: int,
        actions: list[Action],
        awaited: list[str],
        queue: bool,
        needs: tuple[str, ...],
        outcome: Outcome | None,
        looks: bool,
    ) -> None:
        delivery = self.claimed[which % len(self.claimed)].delivery
        told = False
        consumed: tuple[int, ...] = ()
        if looks:
            look = self.storage.deliveries.look(delivery, queues={"q": (0, 9)})
            told, consumed = look.cancel is not None, tuple(m.number for m in look.arrived)
        waits = [Wait("child", f"c-{t}", "", 5, None, "waiting", target=t) for t in awaited]
        if queue:
            waits.append(Wait("message", "q", "", 5, None, "waiting", queue="q"))
        done = self.rows(f"SELECT kind, step_key FROM waits WHERE n = {delivery.number}")
        changes = Round(
            actions=tuple(actions),
            waits=tuple(waits),
            unwait=tuple(done) if looks else (),
            consumed=consumed,
            told=told,
            needs=needs if isinstance(outcome, Suspended) else (),
            outcome=outcome,
        )
        open_before = delivery.execution_id not in self.outcomes
        try:
            recorded = self.storage.deliveries.record(delivery, changes)
        except StaleDelivery:
            raise AssertionError("only an end makes one of our tokens dead") from None
        if not open_before:
            assert recorded.outcome == self.outcomes[delivery.execution_id]
        else:
            assert len(recorded.entries) == len(actions)
            # What was ready at the claim is for the look that begins every delivery.
            ready = recorded.outcome is None and self.is_ready(delivery.number)
            assert recorded.ready in ((ready,) if outcome is not None else (ready, False))
        if recorded.outcome is not None:
            self.claimed.remove(next(c for c in self.claimed if c.delivery == delivery))

    def is_ready(self, number: int) -> bool:
        """Whether the execution has something to look at, from the tables alone."""
        found = self.rows(f"""
            SELECT 1 FROM executions
             WHERE n = {number} AND cancel_at IS NOT NULL AND NOT cancel_told
            UNION ALL
            SELECT 1 FROM waits AS w JOIN messages AS m ON m.n = w.n AND m.queue = w.queue
             WHERE w.n = {number} AND m.state = 'waiting'
            UNION ALL
            SELECT 1 FROM waits WHERE n = {number} AND ready_at IS NOT NULL
        """)
        return bool(found)

    @precondition(lambda self: self.claimed)
    @rule(which=st.integers(0, 9))
    def release(self, which: int) -> None:
        delivery = self.claimed.pop(which % len(self.claimed)).delivery
        if delivery.execution_id not in self.outcomes:
            self.storage.executions.release(delivery)

    @rule()
    def crash(self) -> None:
        self.storage.close()
        self.storage = self.opened()
        self.storage.workers.bury(self.worker, "died", {}, max_deaths=5)
        self.claimed = []
        self.worker = new_worker(self.storage, 10**15)

    @rule(name=NAME, now=st.booleans())
    def cancel(self, name: str, now: bool) -> None:
        if self.storage.executions.get(name) is not None:
            self.storage.steering.cancel(name, now=now)

    @rule(name=NAME, pauses=st.booleans())
    def pause(self, name: str, pauses: bool) -> None:
        if self.storage.executions.get(name) is not None:
            if pauses:
                self.storage.steering.pause(execution_id=name, by="me")
            else:
                self.storage.steering.resume(execution_id=name)

    @rule(name=NAME)
    def send(self, name: str) -> None:
        self.storage.inbox.send(name, "q", "1", ttl_ms=10**6)

    @rule()
    def pass_time(self) -> None:
        self.clock.advance(1)

    # --- what always holds -------------------------------------------------------------------

    @invariant()
    def a_terminal_record_never_changes(self) -> None:
        """spec E10; I5: its outcome stays, nothing of it is left to come."""
        for record in self.storage.reader.find(limit=None):
            if record.outcome is not None:
                first = self.outcomes.setdefault(record.execution_id, record.outcome)
                assert record.outcome == first
                assert self.storage.reader.waits(record.number) == []
            else:
                assert record.execution_id not in self.outcomes

    @invariant()
    def whoever_has_something_to_look_at_is_due_or_running(self) -> None:
        """spec C2, C6, M4, R10: no end, message or request is forgotten."""
        forgotten = self.rows(f"""
            SELECT e.execution_id FROM executions AS e
             WHERE e.status IN {OPEN} AND e.claimed_by IS NULL AND e.due_at IS NULL
               AND ((e.cancel_at IS NOT NULL AND NOT e.cancel_told)
                    OR EXISTS (SELECT 1 FROM waits WHERE n = e.n AND ready_at IS NOT NULL)
                    OR EXISTS (SELECT 1 FROM waits AS w
                                 JOIN messages AS m ON m.n = w.n AND m.queue = w.queue
                                WHERE w.n = e.n AND m.state = 'waiting'))
        """)
        assert forgotten == []

    @invariant()
    def a_wait_is_ready_when_its_target_has_ended(self) -> None:
        """spec C2: exactly then, and since that moment."""
        wrong = self.rows(f"""
            SELECT w.n, w.step_key FROM waits AS w JOIN executions AS t ON t.n = w.target_n
             WHERE w.ready_at IS NOT iif(t.status IN {OPEN}, NULL, t.updated_at)
        """)
        assert wrong == []

    @invariant()
    def linked_children_of_the_ended_are_told(self) -> None:
        """spec C4: in the transaction of the end."""
        untold = self.rows(f"""
            SELECT c.execution_id FROM executions AS c JOIN executions AS p ON p.n = c.parent
             WHERE c.status IN {OPEN} AND p.status NOT IN {OPEN}
               AND NOT c.detached AND c.cancel_at IS NULL
        """)
        assert untold == []

    @invariant()
    def every_start_has_its_child(self) -> None:
        """spec C3; B09: an entry that says so, and an execution, or neither."""
        orphans = self.rows("""
            SELECT h.n, h.label FROM history AS h
             WHERE h.kind = 'start' AND h.ok
               AND NOT EXISTS (SELECT 1 FROM executions AS c
                                WHERE c.execution_id = h.label AND c.parent = h.n)
        """)
        unknown = self.rows("""
            SELECT c.execution_id FROM executions AS c
             WHERE c.parent IS NOT NULL
               AND NOT EXISTS (SELECT 1 FROM history AS h
                                WHERE h.n = c.parent AND h.kind = 'start'
                                  AND h.label = c.execution_id)
               AND (SELECT incarnation FROM executions AS p WHERE p.n = c.parent) <= 4
        """)
        assert (orphans, unknown) == ([], [])

    @invariant()
    def histories_have_no_gaps(self) -> None:
        """invariant I7, also of the earlier incarnations that are kept."""
        wrong = self.rows("""
            SELECT e.n FROM executions AS e
             WHERE e.operations <> (SELECT count(*) FROM history AS h
                                     WHERE h.n = e.n AND h.incarnation = e.incarnation)
            UNION ALL
            SELECT i.n FROM incarnations AS i
             WHERE i.operations <> (SELECT count(*) FROM history AS h
                                     WHERE h.n = i.n AND h.incarnation = i.incarnation)
            UNION ALL
            SELECT n FROM history GROUP BY n, incarnation HAVING max(position) <> count(*) - 1
        """)
        assert wrong == []


TestFamilies = Families.TestCase
TestFamilies.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
