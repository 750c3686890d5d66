"""What a round of a delivery leaves behind: resolutions, attempts, log lines (spec R4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yieldstar_cli.model import Attempt, Entry, Incarnation, Kind, LogLine, Retry, Round
from yieldstar_cli.storage.sqlite.bulk import Bulk
from yieldstar_cli.storage.sqlite.database import Database

#: How many ended tries of one operation are kept for people.
ATTEMPTS_KEPT = 20
#: How many earlier incarnations keep their history.
INCARNATIONS_KEPT = 3
_POLL = Kind.POLL

ADD_ENTRY = """
INSERT INTO history (n, incarnation, position, kind, step_key, ok, value, at,
                     started_at, attempt, label, withdrawn)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# Of many executions at once, each in its incarnation of now.
ADD_ENTRIES = Bulk(
    """
WITH given (n, position, kind, step_key, ok, value, at, started_at, attempt, label, withdrawn)
  AS (VALUES
""",
    "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    """
)
INSERT INTO history (n, incarnation, position, kind, step_key, ok, value, at,
                     started_at, attempt, label, withdrawn)
SELECT e.n, e.incarnation, given.position, given.kind, given.step_key, given.ok, given.value,
       given.at, given.started_at, given.attempt, given.label, given.withdrawn
  FROM given
 CROSS JOIN executions AS e ON e.n = given.n
""",
)
ENTRIES = """
SELECT position, kind, step_key, ok, value, at, started_at, attempt, label, withdrawn
  FROM history
 WHERE n = :n AND incarnation = :incarnation AND position >= :first
 ORDER BY position
"""
# Of many executions at once, each from a position on.
ENTRIES_OF = Bulk(
    "WITH given (n, incarnation, first) AS (VALUES",
    "(?, ?, ?)",
    """
)
SELECT h.n, h.position, h.kind, h.step_key, h.ok, h.value, h.at, h.started_at, h.attempt,
       h.label, h.withdrawn
  FROM given
 CROSS JOIN history AS h
    ON h.n = given.n AND h.incarnation = given.incarnation AND h.position >= given.first
 ORDER BY h.n, h.position
""",
)
ADD_ATTEMPT = """
INSERT OR REPLACE INTO attempts (n, incarnation, kind, step_key, attempt, started_at, ended_at,
                                 how, error, retry_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
FORGET_ATTEMPTS = """
DELETE FROM attempts
 WHERE n = ? AND incarnation = ? AND kind = ? AND step_key = ? AND attempt <= ?
"""
ATTEMPTS = """
SELECT step_key, kind, attempt, started_at, ended_at, how, error, retry_at
  FROM attempts
 WHERE n = :n AND incarnation = :incarnation
 ORDER BY ended_at, step_key, attempt
"""
# An empty poll uses up an attempt and is no error.
COUNT_RETRY = """
INSERT INTO retries (n, incarnation, kind, step_key, attempts, errors, retry_at)
VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (n, incarnation, kind, step_key) DO UPDATE
   SET attempts = excluded.attempts,
       errors   = errors + excluded.errors,
       retry_at = excluded.retry_at
"""
RETRIES_OF = Bulk(
    "WITH given (n, incarnation) AS (VALUES",
    "(?, ?)",
    """
)
SELECT r.n, r.step_key, r.kind, r.attempts, r.errors, r.retry_at
  FROM given
 CROSS JOIN retries AS r ON r.n = given.n AND r.incarnation = given.incarnation
 ORDER BY r.n, r.kind, r.step_key
""",
)
END_RETRY = """
DELETE FROM retries
 WHERE n = ? AND incarnation = ? AND kind = ? AND step_key = ?
"""
END_RETRIES = "DELETE FROM retries WHERE n = :n"
END_RETRY_NOW = """
DELETE FROM retries
 WHERE n = ?1
   AND incarnation = (SELECT incarnation FROM executions WHERE n = ?1)
   AND kind = ?2
   AND step_key = ?3
"""
END_RETRIES_OF = Bulk("DELETE FROM retries WHERE n IN (VALUES", "(?)", ")")
ADD_LOG = """
INSERT INTO logs (n, incarnation, line, at, level, text)
VALUES (?, ?, ?, ?, ?, ?)
"""
LOGS = """
SELECT l.line, l.at, l.level, l.text
  FROM executions AS e
  JOIN logs AS l ON l.n = e.n AND l.incarnation = e.incarnation
 WHERE e.n = :n
 ORDER BY l.line
"""
# Before the record goes over to the next incarnation.
KEEP_INCARNATION = """
INSERT INTO incarnations (n, incarnation, version, started_at, ended_at, operations, params)
SELECT n, incarnation, version, started_at, :now, operations + :entries, params
  FROM executions
 WHERE n = :n
"""
# Ranges of the keys: the cost is that of what is forgotten.
FORGET_INCARNATIONS = (
    "DELETE FROM history WHERE n = :n AND incarnation < :oldest",
    "DELETE FROM attempts WHERE n = :n AND incarnation < :oldest",
    "DELETE FROM logs WHERE n = :n AND incarnation < :oldest",
    "DELETE FROM incarnations WHERE n = :n AND incarnation < :oldest",
)
INCARNATIONS = """
SELECT incarnation, version, params, started_at, ended_at, operations
  FROM incarnations
 WHERE n = :n
 ORDER BY incarnation
"""
COUNT_LOGS_OF = Bulk(
    "WITH given (n, incarnation) AS (VALUES",
    "(?, ?)",
    """
)
SELECT l.n, count(*)
  FROM given
 CROSS JOIN logs AS l ON l.n = given.n AND l.incarnation = given.incarnation
 GROUP BY l.n
""",
)


class History:
    """The tables that a round writes, and their readers."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, number: int, incarnation: int, changes: Round) -> None:
        """Write everything of `changes` but the outcome; the caller has checked the token."""
        if changes.entries:
            self.add_entries(number, incarnation, changes.entries)
        if changes.attempts:
            self._add_attempts(number, incarnation, changes.attempts)
        if changes.logs:
            self._db.run_many(
                ADD_LOG,
                [(number, incarnation, x.index, x.at, x.level, x.text) for x in changes.logs],
            )

    def add_entries(self, number: int, incarnation: int, entries: Sequence[Entry]) -> None:
        """Append resolutions; the caller has checked that they follow what is recorded."""
        self._db.run_many(
            ADD_ENTRY,
            [
                (
                    number,
                    incarnation,
                    e.position,
                    e.kind,
                    e.step_key,
                    e.ok,
                    e.value,
                    e.at,
                    e.started_at,
                    e.attempt,
                    e.label,
                    e.withdrawn,
                )
                for e in entries
            ],
        )
        # A first attempt that resolved at once left no retries behind.
        tried = [e for e in entries if e.attempt > 1 or e.kind == Kind.POLL]
        if tried:
            self._db.run_many(END_RETRY, [(number, incarnation, e.kind, e.step_key) for e in tried])

    def add_all(self, entries: Sequence[tuple[int, Entry]]) -> None:
        """As `add_entries`, of many executions: pairs of number and entry."""
        ADD_ENTRIES.rows(
            self._db,
            [
                (
                    number,
                    e.position,
                    e.kind,
                    e.step_key,
                    e.ok,
                    e.value,
                    e.at,
                    e.started_at,
                    e.attempt,
                    e.label,
                    e.withdrawn,
                )
                for number, e in entries
            ],
        )
        tried = [(n, e.kind, e.step_key) for n, e in entries if e.attempt > 1 or e.kind == _POLL]
        if tried:
            self._db.run_many(END_RETRY_NOW, tried)

    def _add_attempts(self, number: int, incarnation: int, attempts: Sequence[Attempt]) -> None:
        for a in attempts:
            operation = (number, incarnation, a.kind, a.step_key)
            self._db.rows(
                ADD_ATTEMPT,
                (*operation, a.attempt, a.started_at, a.ended_at, a.how, a.error, a.retry_at),
            )
            if a.attempt > ATTEMPTS_KEPT:
                self._db.rows(FORGET_ATTEMPTS, (*operation, a.attempt - ATTEMPTS_KEPT))
            self._db.rows(COUNT_RETRY, (*operation, a.attempt, a.how != "empty", a.retry_at))

    def end(self, number: int) -> None:
        """No operation of the execution is tried again."""
        self._db.rows(END_RETRIES, {"n": number})

    def end_all_of(self, numbers: Sequence[int]) -> None:
        """As `end`, of many executions."""
        END_RETRIES_OF.rows(self._db, [(number,) for number in numbers])

    # --- earlier incarnations ----------------------------------------------------------------

    def keep_incarnation(self, number: int, incarnation: int, now: int, entries: int) -> None:
        """The incarnation ends with `entries` more resolutions; the last few are kept (C7)."""
        bindings = {
            "n": number,
            "now": now,
            "entries": entries,
            "oldest": incarnation - INCARNATIONS_KEPT + 1,
        }
        self._db.rows(KEEP_INCARNATION, bindings)
        if bindings["oldest"] > 1:
            for statement in FORGET_INCARNATIONS:
                self._db.rows(statement, bindings)

    def incarnations(self, number: int) -> list[Incarnation]:
        """The earlier incarnations that are still kept, oldest first."""
        return [Incarnation(*row) for row in self._db.rows(INCARNATIONS, {"n": number})]

    # --- reading ---------------------------------------------------------------------------

    def entries(self, number: int, incarnation: int, first: int = 0) -> list[Entry]:
        """The resolutions from position `first` on, in the order applied."""
        rows = self._db.rows(ENTRIES, {"n": number, "incarnation": incarnation, "first": first})
        return [_entry(row) for row in rows]

    def entries_of(self, wanted: Sequence[tuple[int, int, int]]) -> dict[int, list[Entry]]:
        """As `entries`, of many: numbers, incarnations and first positions."""
        found: dict[int, list[Entry]] = {}
        for number, *row in ENTRIES_OF.rows(self._db, wanted):
            found.setdefault(number, []).append(_entry(row))
        return found

    def retries_of(self, wanted: Sequence[tuple[int, int]]) -> dict[int, list[Retry]]:
        """The open steps and polls of many that have used up attempts, by their numbers."""
        found: dict[int, list[Retry]] = {}
        for number, *row in RETRIES_OF.rows(self._db, wanted):
            found.setdefault(number, []).append(Retry(*row))
        return found

    def count_logs_of(self, wanted: Sequence[tuple[int, int]]) -> dict[int, int]:
        """How many lines the incarnations of many have logged, by their numbers."""
        return {number: int(count) for number, count in COUNT_LOGS_OF.rows(self._db, wanted)}

    def attempts(self, number: int, incarnation: int) -> list[Attempt]:
        """Ended tries, oldest first."""
        rows = self._db.rows(ATTEMPTS, {"n": number, "incarnation": incarnation})
        return [Attempt(*row) for row in rows]

    def logs(self, number: int) -> list[LogLine]:
        """The log lines of the current incarnation."""
        return [LogLine(*row) for row in self._db.rows(LOGS, {"n": number})]


def _entry(row: Sequence[Any]) -> Entry:
    position, kind, step_key, ok, value, at, started_at, attempt, label, withdrawn = row
    return Entry(
        position,
        kind,
        step_key,
        bool(ok),
        value,
        at,
        started_at,
        attempt,
        label,
        bool(withdrawn),
    )
