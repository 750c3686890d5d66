"""Messages to executions: sent, buffered, read, expired (spec M1-M4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yieldstar_cli.clock import LAST_MOMENT, Clock
from yieldstar_cli.errors import InvalidExecutionEvent
from yieldstar_cli.model import Arrived, Message, SendAnswer, Status
from yieldstar_cli.storage.sqlite import admission, sendable
from yieldstar_cli.storage.sqlite.database import Database

#: Read messages without a key that are kept for people, of each execution.
READ_KEPT = 100
#: How long an expired message that nobody was admitted for can still be asked about.
EXPIRED_KEPT_MS = 7 * 86_400_000

TARGET = "SELECT n, status FROM executions WHERE execution_id = :execution_id"
ADD = """
INSERT INTO messages (n, execution_id, queue, state, sent_at, expires_at, idempotency_key,
                      answer, value)
VALUES (:n, :execution_id, :queue, :state, :now, :expires_at, :key, :answer, :value)
"""
# Keys are unique for each target, before and after its admission (M3).
ANSWERED = "SELECT answer FROM messages WHERE n = :n AND idempotency_key = :key"
ANSWERED_BUFFERED = """
SELECT answer FROM messages WHERE execution_id = :execution_id AND idempotency_key = :key
"""
# What expired reached nobody: its key is free again, or the second message would be lost, too.
FREE_KEY = """
UPDATE messages
   SET idempotency_key = NULL
 WHERE n = :n AND idempotency_key = :key AND state = 'expired'
"""
FREE_BUFFERED_KEY = """
UPDATE messages
   SET idempotency_key = NULL
 WHERE execution_id = :execution_id AND idempotency_key = :key AND expires_at <= :now
"""
# Only who waits on the queue is woken (M4). An open delivery is told to look again instead.
WAKE_WAITING = """
UPDATE executions
   SET due_at = iif(claimed_by IS NULL, min(ifnull(due_at, :now), :now), due_at),
       nudged = nudged + (claimed_by IS NOT NULL)
 WHERE n = :n
   AND status IN ('admitted', 'suspended')
   AND EXISTS (SELECT 1 FROM waits WHERE n = :n AND queue = :queue)
"""
FORGET_EXPIRED = """
DELETE FROM messages
 WHERE m IN (SELECT m FROM messages
              WHERE execution_id IS NOT NULL AND expires_at <= :before
              LIMIT 1000)
"""
# What was sent ahead of the admission waits from now on, or has expired.
ADOPT = """
UPDATE messages
   SET n            = :n,
       execution_id = NULL,
       state        = iif(expires_at > :now, 'waiting', 'expired'),
       expires_at   = iif(expires_at > :now, NULL, expires_at)
 WHERE execution_id = :execution_id
"""
ANY_SENT_AHEAD = """
SELECT EXISTS (SELECT 1 FROM messages INDEXED BY messages_buffered WHERE execution_id IS NOT NULL)
"""
TAKE = """
UPDATE messages
   SET state = :state, consumed_at = :now
 WHERE m = :m AND n = :n AND state = 'waiting'
"""
FORGET_READ = """
DELETE FROM messages
 WHERE m IN (SELECT m FROM messages
              WHERE n = :n AND state IN ('consumed', 'invalid') AND idempotency_key IS NULL
              ORDER BY consumed_at DESC, m DESC
              LIMIT -1 OFFSET :kept)
"""
UNREAD = """
SELECT m, queue, sent_at, value
  FROM messages
 WHERE n = :n AND queue = :queue AND state = 'waiting' AND m > :after
 ORDER BY m
 LIMIT :limit
"""
DEPTH = "SELECT count(*) FROM messages WHERE n = :n AND queue = :queue AND state = 'waiting'"
DEPTHS = """
SELECT queue, count(*)
  FROM messages
 WHERE n = :n AND state = 'waiting'
 GROUP BY queue
"""
# CROSS JOIN: of the queues that it waits on, the unread messages; never the other way round.
ANY_UNREAD = """
SELECT 1
  FROM waits AS w INDEXED BY waits_queues
 CROSS JOIN messages AS m INDEXED BY messages_unread
    ON m.n = w.n AND m.queue = w.queue AND m.state = 'waiting'
 WHERE w.n = :n AND w.queue IS NOT NULL
 LIMIT 1
"""
_MESSAGES = """
SELECT m, queue, idempotency_key,
       iif(state = 'buffered' AND expires_at <= :now, 'expired', state),
       sent_at, expires_at, consumed_at, value
  FROM messages
"""
_NEWEST = """
   AND (:queue IS NULL OR queue = :queue)
 ORDER BY m DESC
 LIMIT :limit
"""
MESSAGES = _MESSAGES + " WHERE n = :n" + _NEWEST
BUFFERED = _MESSAGES + " WHERE execution_id = :execution_id" + _NEWEST


class SqliteInbox:
    """The inbox on SQLite; `contract.Inbox` says what `send` and `messages` mean.

    The other methods are parts of a delivery's, or of an admission's, transaction.
    """

    def __init__(self, db: Database, *, clock: Clock, max_value: int) -> None:
        self._db = db
        self._clock = clock
        self._max_value = max_value

    # --- sending -----------------------------------------------------------------------------

    def send(
        self,
        execution_id: str,
        queue: str,
        value: str,
        *,
        ttl_ms: int,
        idempotency_key: str | None = None,
    ) -> SendAnswer:
        """See `contract.Inbox.send`."""
        with self._db.writing():
            return self.send_within(execution_id, queue, value, ttl_ms, idempotency_key)

    def send_within(
        self,
        execution_id: str,
        queue: str,
        value: str,
        ttl_ms: int,
        idempotency_key: str | None = None,
    ) -> SendAnswer:
        """`send` as a part of the transaction under way; nothing is changed where it raises."""
        now = self._clock.now_ms()
        message = {
            "execution_id": sendable.checked_target(execution_id),
            "queue": sendable.checked_queue(queue),
            "value": sendable.checked_value(value, self._max_value),
            "key": None if idempotency_key is None else sendable.checked_key(idempotency_key),
            "now": now,
            "expires_at": min(now + sendable.checked_ttl(ttl_ms), LAST_MOMENT),
        }
        target = self._db.row(TARGET, {"execution_id": execution_id})
        if target is None:
            return self._buffer(message)
        number, status = target
        return self._deliver(number, Status(status), message)

    def _deliver(self, number: int, status: Status, message: dict[str, Any]) -> SendAnswer:
        message |= {"n": number, "execution_id": None, "expires_at": None}
        if message["key"] is not None:
            keyed = {"n": number, "key": message["key"]}
            self._db.rows(FREE_KEY, keyed)
            first = self._db.row(ANSWERED, keyed)
            if first is not None:
                return _answer(first[0])
        if status.terminal:
            return "refused"
        self._db.rows(ADD, message | {"state": "waiting", "answer": "delivered"})
        self._db.rows(WAKE_WAITING, message)
        return "delivered"

    def _buffer(self, message: dict[str, Any]) -> SendAnswer:
        self._db.rows(FORGET_EXPIRED, {"before": message["now"] - EXPIRED_KEPT_MS})
        if message["key"] is not None:
            self._db.rows(FREE_BUFFERED_KEY, message)
            first = self._db.row(ANSWERED_BUFFERED, message)
            if first is not None:
                return _answer(first[0])
        self._db.rows(ADD, message | {"n": None, "state": "buffered", "answer": "buffered"})
        return "buffered"

    def any_sent_ahead(self) -> bool:
        """Whether any message waits for an execution that is not admitted yet."""
        return bool(self._db.rows(ANY_SENT_AHEAD)[0][0])

    def adopt(self, execution_id: str, number: int, now: int) -> None:
        """Hand what was sent ahead to the execution just admitted; costs one look into an index."""
        self._db.rows(ADOPT, {"execution_id": execution_id, "n": number, "now": now})

    # --- reading -----------------------------------------------------------------------------

    def take(self, number: int, consumed: Sequence[int], invalid: Sequence[int], now: int) -> None:
        """Mark messages as read by an execution, `invalid` ones as such (spec M2)."""
        for state, taken in (("consumed", consumed), ("invalid", invalid)):
            for m in taken:
                changed = self._db.run(TAKE, {"m": m, "n": number, "state": state, "now": now})
                # Read twice, or another's: that would be another history than the messages tell.
                assert changed == 1, f"message {m} does not wait for execution {number}"
        if consumed or invalid:
            self._db.rows(FORGET_READ, {"n": number, "kept": READ_KEPT})

    def unread(self, number: int, queue: str, after: int, limit: int) -> list[Arrived]:
        """The first `limit` unread messages of a queue with numbers beyond `after`."""
        rows = self._db.rows(UNREAD, {"n": number, "queue": queue, "after": after, "limit": limit})
        return [Arrived(*row) for row in rows]

    def depth(self, number: int, queue: str) -> int:
        """How many messages of a queue are unread."""
        return int(self._db.rows(DEPTH, {"n": number, "queue": queue})[0][0])

    def unread_counts(self, number: int) -> dict[str, int]:
        """See `contract.Inbox.unread_counts`."""
        return {str(queue): int(count) for queue, count in self._db.rows(DEPTHS, {"n": number})}

    def any_unread(self, number: int) -> bool:
        """Whether a queue that the execution waits on has an unread message."""
        return self._db.row(ANY_UNREAD, {"n": number}) is not None

    def messages(
        self, execution_id: str, *, queue: str | None = None, limit: int | None = None
    ) -> list[Message]:
        """See `contract.Inbox.messages`."""
        try:
            target = {"execution_id": admission.checked_id(execution_id)}
        except InvalidExecutionEvent:
            return []
        if queue is not None and not sendable.is_queue(queue):
            return []
        found = self._db.row(TARGET, target)
        bindings = {
            "now": self._clock.now_ms(),
            "queue": queue,
            "limit": -1 if limit is None else limit,
        }
        if found is None:
            rows = self._db.rows(BUFFERED, bindings | target)
        else:
            rows = self._db.rows(MESSAGES, bindings | {"n": found[0]})
        return [Message(*row) for row in reversed(rows)]


def _answer(stored: str) -> SendAnswer:
    return "buffered" if stored == "buffered" else "delivered"
