"""Forgets the history and values of ended executions, a little at a time (spec E3, C2)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import apsw

from yieldstar_cli.clock import LAST_MOMENT, Clock
from yieldstar_cli.errors import DatabaseBusy
from yieldstar_cli.storage.sqlite.database import Database, joined
from yieldstar_cli.storage.upkeep import Chosen, Prunable

#: One transaction prunes at most so many executions, and so many rows: others write in between.
EXECUTIONS_AT_ONCE = 50
ROWS_AT_ONCE = 1_000
#: How many are looked at together where nothing is written.
PAGE = 1_000

# What has no mark yet, and what was begun and not finished.
_PRUNABLE = """
   AND status IN ('completed', 'failed', 'cancelled')
   AND (pruned_at IS NULL OR operations > 0)
"""
CANDIDATES = joined(
    """
SELECT n, execution_id, updated_at
  FROM executions INDEXED BY executions_ended
 WHERE updated_at >= :from_at
   AND (updated_at, n) > (:from_at, :from_n)
   AND (updated_at, n) < (:to_at, :to_n)
   AND status IN (SELECT value FROM json_each(:statuses))
""",
    _PRUNABLE,
    "ORDER BY updated_at, n LIMIT :limit",
)
NAMED = joined(
    """
SELECT n, execution_id, updated_at
  FROM executions
 WHERE execution_id IN (SELECT value FROM json_each(:execution_ids))
   AND (updated_at, n) > (:from_at, :from_n)
""",
    _PRUNABLE,
    "ORDER BY updated_at, n LIMIT :limit",
)
# The oldest of those that are kept for having ended last.
LAST_ENDED = """
SELECT updated_at, n
  FROM executions INDEXED BY executions_ended
 WHERE status IN ('completed', 'failed', 'cancelled')
   AND status IN (SELECT value FROM json_each(:statuses)) AND pruned_at IS NULL
 ORDER BY updated_at DESC, n DESC
 LIMIT 1 OFFSET :keep - 1
"""
# Who still needs it.
NEEDED = """
SELECT (SELECT p.execution_id FROM executions AS p
         WHERE p.n = e.parent AND p.status IN ('admitted', 'suspended')),
       (SELECT o.execution_id FROM waits AS w JOIN executions AS o ON o.n = w.n
         WHERE w.target_n = e.n LIMIT 1),
       (SELECT c.execution_id FROM executions AS c
         WHERE c.parent = e.n AND c.status IN ('admitted', 'suspended') LIMIT 1)
  FROM executions AS e
 WHERE e.n = :n
"""
# How large it is, and in how many rows. Lengths alone read none of the text.
SIZE = """
SELECT octet_length(params) + octet_length(context) + octet_length(outcome)
       + ifnull(octet_length(status_value), 0) + ifnull(octet_length(problem), 0)
       + (SELECT ifnull(sum(octet_length(value) + octet_length(step_key) + octet_length(label)), 0)
            FROM history WHERE n = e.n)
       + (SELECT ifnull(sum(octet_length(step_key) + ifnull(octet_length(error), 0)), 0)
            FROM attempts WHERE n = e.n)
       + (SELECT ifnull(sum(octet_length(text)), 0) FROM logs WHERE n = e.n)
       + (SELECT ifnull(sum(octet_length(params)), 0) FROM incarnations WHERE n = e.n)
       + (SELECT ifnull(sum(octet_length(value) + octet_length(queue)), 0)
            FROM messages WHERE n = e.n),
       (SELECT count(*) FROM history WHERE n = e.n)
       + (SELECT count(*) FROM attempts WHERE n = e.n)
       + (SELECT count(*) FROM logs WHERE n = e.n)
       + (SELECT count(*) FROM messages WHERE n = e.n)
  FROM executions AS e
 WHERE e.n = :n
"""
# The error of one that failed: shown wherever an error is.
FORGOTTEN = '{"name":"OutcomePruned","message":"the error is no longer kept"}'
# First the record says that it is pruned; then its rows go, in as many transactions as they need.
MARK = joined(
    """
UPDATE executions
   SET pruned_at     = ifnull(pruned_at, :now),
       operations    = max(operations, 1),
       params        = 'null',
       context       = '{}',
       outcome       = CASE status WHEN 'failed' THEN :forgotten ELSE 'null' END,
       status_value  = NULL,
       problem       = NULL,
       cancel_reason = NULL
 WHERE n = :n
""",
    _PRUNABLE,
)
DONE = "UPDATE executions SET operations = 0 WHERE n = :n AND pruned_at IS NOT NULL"
# The history goes first: without it nothing else is read. All of an execution's tables stand here.
FORGET_ALL = (
    "DELETE FROM history WHERE n = :n",
    "DELETE FROM attempts WHERE n = :n",
    "DELETE FROM logs WHERE n = :n",
    "DELETE FROM messages WHERE n = :n",
    "DELETE FROM incarnations WHERE n = :n",
    "DELETE FROM lost_deliveries WHERE n = :n",
    "DELETE FROM retries WHERE n = :n",
)
# Of a large one a part at a time; the tables that hold few rows of each follow at the end.
FORGET_SOME = (
    """
DELETE FROM history
 WHERE n = :n
   AND (incarnation, position) IN (SELECT incarnation, position FROM history
                                    WHERE n = :n LIMIT :most)
""",
    """
DELETE FROM attempts
 WHERE n = :n
   AND (incarnation, kind, step_key, attempt) IN (
       SELECT incarnation, kind, step_key, attempt FROM attempts WHERE n = :n LIMIT :most)
""",
    """
DELETE FROM logs
 WHERE n = :n
   AND (incarnation, line) IN (SELECT incarnation, line FROM logs WHERE n = :n LIMIT :most)
""",
    "DELETE FROM messages WHERE m IN (SELECT m FROM messages WHERE n = :n LIMIT :most)",
)
VACUUM = "VACUUM"
CHECKPOINT = "PRAGMA wal_checkpoint(TRUNCATE)"


class _Candidate(NamedTuple):
    number: int
    execution_id: str
    ended_at: int


class _Sized(NamedTuple):
    """What is to go, and how many rows that are."""

    number: int
    told: Prunable
    #: Counted before its transaction; what has ended gets no more of them.
    rows: int


class Pruning:
    """Which executions may be forgotten, and forgetting them."""

    def __init__(self, db: Database, *, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def prunable(self, chosen: Chosen) -> Iterator[Prunable]:
        """See `upkeep.Upkeep.prunable`."""
        for page in self._pages(chosen, PAGE):
            for candidate in page:
                told = self._sized(candidate).told
                yield replace(told, kept=self._kept(candidate.number))

    def prune(self, chosen: Chosen, pause: Callable[[], None]) -> Iterator[Prunable]:
        """See `upkeep.Upkeep.prune`."""
        for page in self._pages(chosen, EXECUTIONS_AT_ONCE):
            # Sizes are asked for outside of the transactions, which are to be short.
            waiting = [self._sized(candidate) for candidate in page]
            while waiting:
                done = self._some(waiting)
                yield from done
                del waiting[: len(done)]
                pause()

    def _some(self, waiting: Sequence[_Sized]) -> list[Prunable]:
        """One transaction: forget as many of these as it may hold; answers the finished ones."""
        done: list[Prunable] = []
        left = ROWS_AT_ONCE
        with self._db.atomic():
            for one in waiting:
                kept = self._kept(one.number)
                if kept is None:
                    left = self._forget(one, left)
                    if left <= 0:
                        # Perhaps not all of it; the next transaction goes on with it.
                        break
                done.append(replace(one.told, kept=kept))
        return done

    def _forget(self, one: _Sized, left: int) -> int:
        """Mark it and delete up to `left` of its rows; answers how many more may be deleted.

        0 where it may not be all; then the next transaction has to go on with it.
        """
        bindings = {"n": one.number, "now": self._clock.now_ms(), "forgotten": FORGOTTEN}
        if not self._db.run(MARK, bindings):
            return left
        if one.rows < left:
            left -= one.rows
        else:
            for statement in FORGET_SOME:
                left -= self._db.run(statement, {"n": one.number, "most": left})
                if left <= 0:
                    return 0
        for statement in FORGET_ALL:
            self._db.run(statement, {"n": one.number})
        self._db.run(DONE, {"n": one.number})
        return left

    def _kept(self, number: int) -> str | None:
        """Why it may not go."""
        ((parent, waiting, child),) = self._db.rows(NEEDED, {"n": number})
        if parent is not None:
            return f"its parent {parent} is open"
        if waiting is not None:
            return f"{waiting} waits for it"
        return None if child is None else f"its child {child} is open"

    def _sized(self, candidate: _Candidate) -> _Sized:
        ((size, rows),) = self._db.rows(SIZE, {"n": candidate.number})
        return _Sized(candidate.number, Prunable(candidate.execution_id, size), rows)

    # --- which ---------------------------------------------------------------------------------

    def _pages(self, chosen: Chosen, size: int) -> Iterator[Sequence[_Candidate]]:
        to_at, to_n = self._before(chosen)
        bindings = {
            "from_at": -1,
            "from_n": 0,
            "to_at": to_at,
            "to_n": to_n,
            "statuses": json.dumps(list(chosen.statuses)),
            "execution_ids": json.dumps(list(chosen.execution_ids or ())),
            "limit": size,
        }
        statement = CANDIDATES if chosen.execution_ids is None else NAMED
        while True:
            page = [_Candidate(*row) for row in self._db.rows(statement, bindings)]
            if not page:
                return
            yield page
            bindings |= {"from_at": page[-1].ended_at, "from_n": page[-1].number}

    def _before(self, chosen: Chosen) -> tuple[int, int]:
        """What ended before this moment, and under a number below this at it, may go."""
        bounds = [(LAST_MOMENT + 1, 0)]
        if chosen.ended_before is not None:
            bounds.append((chosen.ended_before, 0))
        if chosen.keep > 0:
            kept = {"statuses": json.dumps(list(chosen.statuses)), "keep": chosen.keep}
            row = self._db.row(LAST_ENDED, kept)
            bounds.append((-1, 0) if row is None else (row[0], row[1]))
        return min(bounds)


def erase(db: Database) -> None:
    """See `upkeep.Upkeep.erase`."""
    # It writes the new file by way of a second database.
    before = db.connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 1)
    try:
        db.rows(VACUUM)
    finally:
        db.connection.limit(apsw.SQLITE_LIMIT_ATTACHED, before)
    if db.rows(CHECKPOINT)[0][0]:
        raise DatabaseBusy(
            f"{db.path} was rewritten, but its log could not be emptied: another process reads",
            why=("The log may still hold what was forgotten.",),
            remedy=("the same line again, once ys doctor names no old reader",),
        )
