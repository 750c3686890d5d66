"""What a round of a delivery leaves behind: resolutions, attempts, waits, log lines (spec R4)."""

from __future__ import annotations

from collections.abc import Sequence

from yieldstar_cli.model import Attempt, Entry, Kind, LogLine, Retry, Round, Wait
from yieldstar_cli.storage.sqlite.database import Database

#: How many ended tries of one operation are kept for people.
ATTEMPTS_KEPT = 20

ADD_ENTRY = """
INSERT INTO history (n, incarnation, position, kind, step_key, ok, value, at,
                     started_at, attempt, label, withdrawn)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
ENTRIES = """
SELECT position, kind, step_key, ok, value, at, started_at, attempt, label, withdrawn
  FROM history
 WHERE n = :n AND incarnation = :incarnation AND position >= :first
 ORDER BY position
"""
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
RETRIES = """
SELECT step_key, kind, attempts, errors, retry_at
  FROM retries
 WHERE n = :n AND incarnation = :incarnation
 ORDER BY kind, step_key
"""
END_RETRY = """
DELETE FROM retries
 WHERE n = ? AND incarnation = ? AND kind = ? AND step_key = ?
"""
END_RETRIES = "DELETE FROM retries WHERE n = :n"
WAITS = """
SELECT kind, step_key, label, since_at, due_at, state, attempt, position
  FROM waits
 WHERE n = :n
 ORDER BY position
"""
PUT_WAIT = """
INSERT OR REPLACE INTO waits (n, kind, step_key, label, since_at, due_at, state, attempt, position)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
END_WAIT = "DELETE FROM waits WHERE n = ? AND position = ?"
END_WAITS = "DELETE FROM waits WHERE n = :n"
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
COUNT_LOGS = "SELECT count(*) FROM logs WHERE n = :n AND incarnation = :incarnation"


class History:
    """The tables that a round writes, and their readers."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def write(self, number: int, incarnation: int, changes: Round) -> None:
        """Write everything of `changes` but the outcome; the caller has checked the token."""
        if changes.entries:
            self._add_entries(number, incarnation, changes.entries)
        if changes.attempts:
            self._add_attempts(number, incarnation, changes.attempts)
        if changes.logs:
            self._db.run_many(
                ADD_LOG,
                [(number, incarnation, x.index, x.at, x.level, x.text) for x in changes.logs],
            )
        if changes.waits is not None:
            self._replace_waits(number, changes.waits)

    def _add_entries(self, number: int, incarnation: int, entries: Sequence[Entry]) -> None:
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

    def _replace_waits(self, number: int, waits: Sequence[Wait]) -> None:
        """Write what changed: of a thousand sleepers one wakes, and only its row is touched."""
        stored = self._db.rows(WAITS, {"n": number})
        wanted = {
            (w.kind, w.step_key): (
                w.kind,
                w.step_key,
                w.label,
                w.since_at,
                w.due_at,
                w.state,
                w.attempt,
            )
            for w in waits
        }
        last = stored[-1][-1] if stored else -1
        kept = {row[:2]: row for row in stored}
        gone = [(number, row[-1]) for key, row in kept.items() if key not in wanted]
        if gone:
            self._db.run_many(END_WAIT, gone)
        put = []
        for key, columns in wanted.items():
            old = kept.get(key)
            # What was named earlier stays ahead of what was named later.
            position = old[-1] if old else (last := last + 1)
            if old is None or old[:-1] != columns:
                put.append((number, *columns, position))
        if put:
            self._db.run_many(PUT_WAIT, put)

    def end(self, number: int) -> None:
        """A terminal execution waits for nothing."""
        self._db.rows(END_WAITS, {"n": number})
        self._db.rows(END_RETRIES, {"n": number})

    # --- reading ---------------------------------------------------------------------------

    def entries(self, number: int, incarnation: int, first: int = 0) -> list[Entry]:
        """The resolutions from position `first` on, in the order applied."""
        rows = self._db.rows(ENTRIES, {"n": number, "incarnation": incarnation, "first": first})
        return [
            Entry(
                position=position,
                kind=kind,
                step_key=step_key,
                ok=bool(ok),
                value=value,
                at=at,
                started_at=started_at,
                attempt=attempt,
                label=label,
                withdrawn=bool(withdrawn),
            )
            for (
                position,
                kind,
                step_key,
                ok,
                value,
                at,
                started_at,
                attempt,
                label,
                withdrawn,
            ) in rows
        ]

    def retries(self, number: int, incarnation: int) -> list[Retry]:
        """The open steps and polls that have used up attempts."""
        rows = self._db.rows(RETRIES, {"n": number, "incarnation": incarnation})
        return [Retry(*row) for row in rows]

    def attempts(self, number: int, incarnation: int) -> list[Attempt]:
        """Ended tries, oldest first."""
        rows = self._db.rows(ATTEMPTS, {"n": number, "incarnation": incarnation})
        return [Attempt(*row) for row in rows]

    def waits(self, number: int) -> list[Wait]:
        """The open operations, in the order they were named."""
        return [Wait(*row[:-1]) for row in self._db.rows(WAITS, {"n": number})]

    def logs(self, number: int) -> list[LogLine]:
        """The log lines of the current incarnation."""
        return [LogLine(*row) for row in self._db.rows(LOGS, {"n": number})]

    def count_logs(self, number: int, incarnation: int) -> int:
        """How many lines this incarnation has logged."""
        return int(self._db.rows(COUNT_LOGS, {"n": number, "incarnation": incarnation})[0][0])
