"""The open operations of executions, and which of them are ready (spec R4, R10, C2, S4)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from yieldstar_cli.model import Ended, Wait
from yieldstar_cli.nouns import replace
from yieldstar_cli.storage.sqlite import readings, records
from yieldstar_cli.storage.sqlite.bulk import Bulk
from yieldstar_cli.storage.sqlite.database import Database
from yieldstar_cli.storage.sqlite.readings import State

WAITS = """
SELECT kind, step_key, label, since_at, due_at, state, attempt, position, queue, target, tag,
       store_name, store_id, store_read, store_instance, effect
  FROM waits
 WHERE n = :n
 ORDER BY position, kind, step_key
"""
WAITS_OF = Bulk(
    "WITH given (n) AS (VALUES",
    "(?)",
    """
)
SELECT w.n, kind, step_key, label, since_at, due_at, state, attempt, position, queue, target, tag,
       store_name, store_id, store_read, store_instance, effect
  FROM given
 CROSS JOIN waits AS w ON w.n = given.n
 ORDER BY w.n, position, kind, step_key
""",
)
# What was ready before stays ready since then: an awaited execution that is missing has no moment
# of its own. A wait for a store or an effect is compared anew each time; what marked it before is
# known by now.
PUT = """
INSERT INTO waits (n, kind, step_key, label, since_at, due_at, state, attempt, position, queue,
                   target, tag, target_n, ready_at, store_name, store_id, store_read,
                   store_instance, effect)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (n, kind, step_key) DO UPDATE
   SET label          = excluded.label,
       since_at       = excluded.since_at,
       due_at         = excluded.due_at,
       state          = excluded.state,
       attempt        = excluded.attempt,
       position       = excluded.position,
       queue          = excluded.queue,
       target         = excluded.target,
       tag            = excluded.tag,
       target_n       = excluded.target_n,
       ready_at       = CASE WHEN target IS excluded.target AND excluded.ready_at IS NOT NULL
                             THEN ifnull(ready_at, excluded.ready_at)
                             ELSE excluded.ready_at END,
       store_name     = excluded.store_name,
       store_id       = excluded.store_id,
       store_read     = excluded.store_read,
       store_instance = excluded.store_instance,
       effect         = excluded.effect
"""
# A terminal record never changes, so `updated_at` is the moment of its end.
TARGETS = Bulk(
    "WITH given (target) AS (VALUES",
    "(?)",
    """
)
SELECT execution_id, n,
       CASE WHEN status IN ('completed', 'failed', 'cancelled') THEN updated_at END
  FROM given
 CROSS JOIN executions ON execution_id = given.target
""",
)
END = "DELETE FROM waits WHERE n = ? AND kind = ? AND step_key = ?"
END_ALL = "DELETE FROM waits WHERE n = :n"
END_ALL_OF = Bulk("DELETE FROM waits WHERE n IN (VALUES", "(?)", ")")
# The execution that is waited for has ended; answers who waits.
MARK = """
UPDATE waits
   SET ready_at = :at
 WHERE target_n = :target_n AND ready_at IS NULL
RETURNING n
"""
# The same for many ends at once: who waits, and for which of them; then the mark.
WAIT_FOR = Bulk(
    "WITH given (n) AS (VALUES",
    "(?)",
    """
)
SELECT json_group_array(DISTINCT w.n), json_group_array(DISTINCT w.target_n)
  FROM given
 CROSS JOIN waits AS w INDEXED BY waits_targets ON w.target_n = given.n
 WHERE w.ready_at IS NULL
""",
)
MARK_ALL = Bulk(
    """
UPDATE waits
   SET ready_at = (SELECT updated_at FROM executions WHERE n = target_n)
 WHERE ready_at IS NULL
   AND target_n IN (VALUES
""",
    "(?)",
    ")",
)
STORE = "SELECT instance, state FROM stores WHERE name = :name AND store_id = :store_id"
# What is marked has to be looked at already, whatever is written next.
WAITERS = """
SELECT n, kind, step_key, store_instance, store_read
  FROM waits INDEXED BY waits_stores
 WHERE store_name = :name AND store_id = :store_id AND ready_at IS NULL
"""
# Nobody tries it now, or it is settled: whoever waits for it is to ask again.
FREE_EFFECT = """
SELECT 1
  FROM effects AS f
  LEFT JOIN executions AS e ON e.n = f.holder
 WHERE f.effect_id = :effect_id
   AND (e.claimed_by IS NULL OR e.token <> f.holder_token)
"""
MARK_EFFECT = """
UPDATE waits
   SET ready_at = :at
 WHERE effect = :effect_id AND ready_at IS NULL
RETURNING n
"""
MARK_ONE = "UPDATE waits SET ready_at = ? WHERE n = ? AND kind = ? AND step_key = ?"
# Only what is ready is read, however much is open.
ENDED = """
SELECT w.step_key, w.target, w.ready_at, e.status, e.outcome, e.pruned_at IS NOT NULL
  FROM waits AS w INDEXED BY waits_ready
  LEFT JOIN executions AS e ON e.n = w.target_n
 WHERE w.n = :n AND w.ready_at IS NOT NULL AND w.target IS NOT NULL
 ORDER BY w.ready_at, w.position
"""


class Waits:
    """The table of waits, inside the transaction under way."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, number: int, waits: Sequence[Wait], now: int) -> None:
        """Add open operations, or replace them; the others stay untouched.

        Ready at once is one that awaits an execution which has ended, or which does not exist,
        one whose store is not as it was read (S4), and one whose effect nobody tries (F1).
        """
        states: dict[tuple[str, str], State] = {}
        wanted = [(wait.target,) for wait in waits if wait.target is not None]
        targets = {target: found for target, *found in TARGETS.rows(self._db, wanted)}
        self._db.run_many(PUT, [self._row(number, wait, now, states, targets) for wait in waits])

    def _row(
        self,
        number: int,
        wait: Wait,
        now: int,
        states: dict[tuple[str, str], State],
        targets: Mapping[str, Sequence[int | None]],
    ) -> tuple[object, ...]:
        target_n = ready_at = None
        if wait.target is not None:
            target_n, ready_at = targets.get(wait.target, (None, now))
        store: tuple[object, ...] = (None, None, None, None)
        if wait.store is not None:
            if wait.store not in states:
                states[wait.store] = self._state(*wait.store)
            if states[wait.store].differs(wait.instance, wait.read):
                ready_at = now
            store = (*wait.store, readings.stored(wait.read), wait.instance)
        if wait.effect is not None and self._db.row(FREE_EFFECT, {"effect_id": wait.effect}):
            ready_at = now
        return (
            number,
            wait.kind,
            wait.step_key,
            wait.label,
            wait.since_at,
            wait.due_at,
            wait.state,
            wait.attempt,
            wait.position,
            wait.queue,
            wait.target,
            wait.tag,
            target_n,
            ready_at,
            *store,
            wait.effect,
        )

    def _state(self, name: str, store_id: str) -> State:
        row = self._db.row(STORE, {"name": name, "store_id": store_id})
        return State(None, None) if row is None else State(*row)

    def end(self, number: int, operations: Sequence[tuple[str, str]]) -> None:
        """These, by kind and key, are open no more."""
        self._db.run_many(END, [(number, kind, key) for kind, key in operations])

    def end_all(self, number: int) -> None:
        """Nothing of the execution is open any more."""
        self._db.rows(END_ALL, {"n": number})

    def end_all_of(self, numbers: Sequence[int]) -> None:
        """As `end_all`, of many executions."""
        END_ALL_OF.rows(self._db, [(number,) for number in numbers])

    def mark(self, target_n: int, at: int) -> list[int]:
        """Every wait for this execution is ready; answers the numbers of those who wait."""
        rows = self._db.rows(MARK, {"target_n": target_n, "at": at})
        return sorted({number for (number,) in rows})

    def mark_effect(self, effect_id: str, at: int) -> list[int]:
        """Every wait for this effect is ready; answers the numbers of those who wait (F1)."""
        rows = self._db.rows(MARK_EFFECT, {"effect_id": effect_id, "at": at})
        return sorted({number for (number,) in rows})

    def mark_all(self, targets: Sequence[int]) -> tuple[list[int], list[int]]:
        """As `mark` for many, at the moments of their ends; who waits, and for which of them."""
        waiting: set[int] = set()
        awaited: list[int] = []
        found = WAIT_FOR.rows(self._db, [(target,) for target in targets])
        for waiters, ended in found:
            waiting.update(json.loads(waiters))
            awaited += json.loads(ended)
        if awaited:
            MARK_ALL.rows(self._db, [(target,) for target in awaited])
        return sorted(waiting), awaited

    def mark_store(self, name: str, store_id: str, state: State, at: int) -> list[int]:
        """Every wait for this store that read otherwise is ready; answers who waits (S3, S4).

        Where nobody waits, the state is not looked at.
        """
        waiters = self._db.rows(WAITERS, {"name": name, "store_id": store_id})
        concerned = [
            (at, number, kind, key)
            for number, kind, key, instance, read in waiters
            if state.differs(instance, readings.told(read))
        ]
        if concerned:
            self._db.run_many(MARK_ONE, concerned)
        return sorted({number for _, number, _, _ in concerned})

    # --- reading -----------------------------------------------------------------------------

    def of(self, number: int) -> list[Wait]:
        """The open operations, in the order they were named."""
        return [_wait(row) for row in self._db.rows(WAITS, {"n": number})]

    def of_all(self, numbers: Sequence[int]) -> dict[int, list[Wait]]:
        """As `of`, of many, by their numbers."""
        found: dict[int, list[Wait]] = {}
        for number, *row in WAITS_OF.rows(self._db, [(number,) for number in numbers]):
            found.setdefault(number, []).append(_wait(row))
        return found

    def ended(self, number: int) -> list[Ended]:
        """The awaited executions that have ended or do not exist, in the order they did."""
        return [
            Ended(
                key,
                target,
                at,
                records.terminal_outcome(status, outcome) if status else None,
                pruned=bool(pruned),
            )
            for key, target, at, status, outcome, pruned in self._db.rows(ENDED, {"n": number})
        ]


def _wait(row: Sequence[Any]) -> Wait:
    wait = Wait(*row[:11])
    name, store_id, read, instance, effect = row[11:]
    if name is None or store_id is None:
        return wait if effect is None else replace(wait, effect=effect)
    # Readings that no longer read are told as none: the next write marks the wait.
    return replace(wait, store=(name, store_id), read=readings.told(read) or (), instance=instance)
