"""Workers, their leases, and what becomes of the claims of a dead one (spec L1, L3, L5)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from yieldstar_cli.clock import Clock
from yieldstar_cli.model import WorkerRow
from yieldstar_cli.storage.sqlite import records
from yieldstar_cli.storage.sqlite.database import Database, Row, joined
from yieldstar_cli.storage.sqlite.texts import plain

if TYPE_CHECKING:
    from yieldstar_cli.storage.sqlite.claims import Claims

#: The pause after the second death in a row; each later one doubles it (E12).
FIRST_PAUSE_MS = 1_000
LONGEST_PAUSE_MS = 300_000

REGISTER = """
INSERT INTO workers (name, host, pid, slot, nonce, boot_id, device, inode,
                     started_at, lease_until_at, alone)
VALUES (:name, :host, :pid, :slot, :nonce, :boot_id, :device, :inode, :now, :until, :alone)
RETURNING n
"""
# Workers that cron starts every minute would fill the table; numbers are never used again.
FORGET_OLD = """
DELETE FROM workers
 WHERE n > 0
   AND stopped_at IS NOT NULL
   AND n <= (SELECT max(n) FROM workers) - :kept
"""
KEPT = 1_000
DESCRIBE = """
UPDATE workers
   SET workflows = :workflows, broken = :broken, tags = :tags
 WHERE n = :worker
"""
RENEW = """
UPDATE workers
   SET lease_until_at = :until
 WHERE n = :worker AND stopped_at IS NULL
RETURNING n
"""
STOP = """
UPDATE workers
   SET stopped_at = :now, how = ifnull(how, :how)
 WHERE n = :worker AND stopped_at IS NULL
RETURNING how, alone
"""
# It lives on until somebody finds its process gone: only then do its claims come back (K2).
HAND_BACK = """
UPDATE workers
   SET how = 'handed back'
 WHERE n = :worker AND stopped_at IS NULL
RETURNING (SELECT count(*) FROM executions WHERE claimed_by = :worker)
"""
CLAIMS_OF = """
SELECT n, execution_id, token = progress_token, deaths, problem
  FROM executions
 WHERE claimed_by = :worker
 ORDER BY n
"""
COUNT_DEATH = """
UPDATE executions
   SET deaths      = :deaths,
       problem     = :problem,
       poisoned_at = CASE WHEN :poisoned THEN :now END,
       held_since  = CASE WHEN :held_until IS NOT NULL THEN :now END,
       held_until  = :held_until,
       held_code   = CASE WHEN :held_until IS NOT NULL THEN 'WORKER_DIED' END
 WHERE n = :n
"""
_COLUMNS = """
SELECT n, name, host, pid, slot, nonce, boot_id, device, inode, started_at, lease_until_at,
       stopped_at, how, workflows, broken, alone, tags
  FROM workers
"""
ALL = joined(_COLUMNS, "WHERE n > 0 ORDER BY n DESC")
# Every trigger asks for these: read from their own index, and never the stopped ones.
LIVING = joined(
    _COLUMNS, "INDEXED BY workers_living WHERE stopped_at IS NULL AND n > 0 ORDER BY n DESC"
)


def pause_ms(times: int) -> int:
    """How long redelivery is held after the `times`th death or storage error in a row (E12)."""
    if times <= 1:
        return 0
    return min(FIRST_PAUSE_MS * (1 << min(times - 2, 30)), LONGEST_PAUSE_MS)


class SqliteWorkers:
    """Workers on SQLite; `contract.Workers` says what each method means."""

    def __init__(self, db: Database, claims: Callable[[], Claims], *, clock: Clock) -> None:
        self._db = db
        self._claims = claims
        self._clock = clock

    def register(
        self,
        *,
        name: str,
        host: str,
        pid: int,
        slot: int,
        nonce: bytes,
        boot_id: str,
        device: int,
        inode: int,
        lease_until_at: int,
        alone: bool = False,
    ) -> int:
        """See `contract.Workers.register`."""
        bindings = {
            "name": plain(name),
            "host": plain(host),
            "pid": pid,
            "slot": slot,
            "nonce": nonce,
            "boot_id": plain(boot_id),
            "device": device,
            "inode": inode,
            "now": self._clock.now_ms(),
            "until": lease_until_at,
            "alone": alone,
        }
        with self._db.writing():
            number: int = self._db.rows(REGISTER, bindings)[0][0]
            self._db.rows(FORGET_OLD, {"kept": KEPT})
        return number

    def describe(
        self,
        worker: int,
        workflows: Sequence[tuple[str, int]],
        broken: Sequence[tuple[str, str]],
        tags: Sequence[str] = (),
    ) -> None:
        """See `contract.Workers.describe`."""
        with self._db.writing():
            self._db.rows(
                DESCRIBE,
                {
                    "worker": worker,
                    "workflows": json.dumps(list(workflows)),
                    "broken": json.dumps(list(broken)),
                    "tags": json.dumps(list(tags)),
                },
            )

    def renew(self, worker: int, lease_until_at: int) -> bool:
        """See `contract.Workers.renew`."""
        with self._db.writing():
            found = self._db.row(RENEW, {"worker": worker, "until": lease_until_at})
        return found is not None

    def stop(self, worker: int, how: str) -> int:
        """See `contract.Workers.stop`."""
        with self._db.writing():
            if how == "handed back":
                handed = self._db.row(HAND_BACK, {"worker": worker})
                return int(handed[0]) if handed is not None else 0
            now = self._clock.now_ms()
            if self._db.row(STOP, {"worker": worker, "now": now, "how": how}) is None:
                return 0
            claims = self._db.rows(CLAIMS_OF, {"worker": worker})
            for number, *_ in claims:
                self._claims().give_up(number, "released", now)
            return len(claims)

    def bury(self, worker: int, how: str, marked: Mapping[int, int], *, max_deaths: int) -> int:
        """See `contract.Workers.bury`. Only a `how` of "died" counts deaths."""
        now = self._clock.now_ms()
        with self._db.writing():
            stopped = self._db.row(STOP, {"worker": worker, "now": now, "how": how})
            if stopped is None:
                return 0
            recorded_how, alone = stopped
            claims = self._db.rows(CLAIMS_OF, {"worker": worker})
            for number, execution_id, progressed, deaths, problem in claims:
                self._claims().give_up(number, recorded_how, now)
                if recorded_how == "died" and number in marked and not progressed:
                    poisoned = bool(alone) and deaths + 1 >= max_deaths
                    self._count(number, execution_id, deaths + 1, problem, now, poisoned)
            return len(claims)

    def _count(
        self,
        number: int,
        execution_id: str,
        deaths: int,
        old_problem: str | None,
        now: int,
        poisoned: bool,
    ) -> None:
        pause = pause_ms(deaths)
        message = f"the worker died while it ran {execution_id}"
        self._db.rows(
            COUNT_DEATH,
            {
                "n": number,
                "deaths": deaths,
                "problem": records.next_problem(old_problem, "WORKER_DIED", message, now),
                "poisoned": poisoned,
                "now": now,
                "held_until": now + pause if pause and not poisoned else None,
            },
        )

    def all(self, *, living: bool = False) -> list[WorkerRow]:
        """See `contract.Workers.all`."""
        return [_worker(row) for row in self._db.rows(LIVING if living else ALL)]


def _worker(row: Row) -> WorkerRow:
    number, name, host, pid, slot, nonce, boot_id, device, inode = row[:9]
    started_at, lease_until_at, stopped_at, how, workflows, broken, alone, tags = row[9:]
    return WorkerRow(
        number=number,
        name=name,
        host=host,
        pid=pid,
        slot=slot,
        nonce=nonce,
        boot_id=boot_id,
        device=device,
        inode=inode,
        started_at=started_at,
        lease_until_at=lease_until_at,
        stopped_at=stopped_at,
        how=how,
        workflows=tuple(pair for pair in _listed(workflows) if _is_pair(pair, int)),
        broken=tuple(pair for pair in _listed(broken) if _is_pair(pair, str)),
        alone=bool(alone),
        tags=tuple(tag for tag in _listed(tags) if isinstance(tag, str)),
    )


def _listed(stored: str) -> list[Any]:
    """The parts of a JSON list, lists among them as tuples; what no longer reads has none.

    A worker's row is told of beside executions: damage there keeps nobody from them.
    """
    try:
        found = json.loads(stored)
    except (ValueError, RecursionError):
        return []
    parts = found if isinstance(found, list) else []
    return [tuple(part) if isinstance(part, list) else part for part in parts]


def _is_pair(part: object, second: type) -> bool:
    return (
        isinstance(part, tuple)
        and len(part) == 2
        and isinstance(part[0], str)
        and isinstance(part[1], second)
    )
