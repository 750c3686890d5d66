"""Claims: which executions may be delivered now, and to whom (spec E7, E8, L1, L2)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from yieldstar_cli.model import HISTORY_FORMAT
from yieldstar_cli.storage.sqlite.database import Database, joined
from yieldstar_cli.storage.sqlite.lost import LostDeliveries

# Deaths from which on an execution is delivered alone (L5); NEXT_SUSPECT and its index say it, too.
SUSPECT_DEATHS = 2
_ANY_DEATHS = (0, 2**62)

# A delivery covers every wake pending now; later ones gather in due_at again. `started_at` is the
# incarnation's first claim, never before the last moment of the one ahead (R7); a hold ends with
# the claim. What a claim by tag covers is the need
# of that tag, so that a lost one is due again like any other (O5, E8).
_CLAIM = """
UPDATE executions
   SET covered_due_at = iif(due_at <= :now, due_at, ifnull(needs_since, due_at)),
       due_at         = NULL,
       token          = token + 1,
       claimed_by     = :worker,
       claimed_at     = :now,
       last_worker    = (SELECT name FROM workers WHERE n = :worker),
       started_at     = ifnull(started_at, max(:now, ifnull(last_moment, :now))),
       held_since     = NULL,
       held_until     = NULL,
       held_code      = NULL,
       held_module    = NULL,
       nudged         = 0
"""
_RETURNING = """
RETURNING n, execution_id, token, covered_due_at, workflow_id, version, params, context,
          incarnation, seed, started_at, status_value, operations, last_moment, deaths,
          cancel_at IS NOT NULL AND NOT cancel_told
"""
_NARROWED = """
   AND format <= :format
   AND deaths BETWEEN :fewest AND :most
   AND (:workflows IS NULL
        OR (workflow_id, version) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:workflows)))
   AND workflow_id NOT IN (SELECT workflow_id FROM pauses)
   AND NOT EXISTS (SELECT 1 FROM pauses WHERE workflow_id = '')
"""
# The index on claim_at holds all that this asks, so what is passed over costs little.
_DUE = joined("SELECT n FROM executions WHERE claim_at <= :now", _NARROWED)
_OLDEST_FIRST = "ORDER BY claim_at, n LIMIT :limit"
# An execution that needs one of the worker's tags is due for it at once (O5).
_HAS_TAG = """
   AND EXISTS (SELECT 1 FROM json_each(needs)
                WHERE value IN (SELECT value FROM json_each(:tags)))
"""
_TAGGED_ONLY = "AND ifnull(claim_at > :now, 1)"
CLAIM_TAGGED = joined(
    _CLAIM,
    "WHERE n IN (SELECT n FROM (",
    "SELECT claim_at AS at, n FROM executions WHERE claim_at <= :now",
    _NARROWED,
    "UNION ALL",
    "SELECT tagged_at, n FROM executions WHERE tagged_at <= :now",
    _TAGGED_ONLY,
    _NARROWED,
    _HAS_TAG,
    "ORDER BY at, n LIMIT :limit))",
    _RETURNING,
)
CLAIM_ONLY = joined(
    _CLAIM,
    "WHERE execution_id = :only AND (claim_at <= :now OR (tagged_at <= :now",
    _HAS_TAG,
    "))",
    _NARROWED,
    _RETURNING,
)
CLAIM_NUMBER = joined(_CLAIM, "WHERE n = :n", _RETURNING)

# In steps: which are due, the claim, and what was claimed, each answered as one row. Between two
# rows another thread may take the interpreter, and a claim has hundreds.
DUE_NUMBERS = joined("SELECT json_group_array(n) FROM (", _DUE, _OLDEST_FIRST, ")")
# Who came last, while a long backlog is worked off.
_LATEST_FIRST = "ORDER BY claim_at DESC, n DESC LIMIT :limit"
LATEST_NUMBERS = joined("SELECT json_group_array(n) FROM (", _DUE, _LATEST_FIRST, ")")
_NUMBERS = "WHERE n IN (SELECT value FROM json_each(:numbers))"
CLAIM_NUMBERS = joined(_CLAIM, _NUMBERS)
CLAIM_FEW = joined(_CLAIM, _NUMBERS, _RETURNING)
CLAIMED = joined(
    """
SELECT json_group_array(json_array(
           n, execution_id, token, covered_due_at, workflow_id, version, params, context,
           incarnation, hex(seed), started_at, status_value, operations, last_moment, deaths,
           cancel_at IS NOT NULL AND NOT cancel_told))
  FROM executions
""",
    _NUMBERS,
)
#: Up to how many are answered row by row.
FEW = 4

# The end of a lease alone ends nothing: a claim does, by taking over (L2). A worker never takes
# over from itself. Claims without a worker have a lease each, counted from the claim.
_LAPSED = """
  FROM executions
 WHERE claimed_by IN (SELECT n FROM workers
                       WHERE stopped_at IS NULL AND lease_until_at <= :now AND n <> :worker
                      UNION ALL
                      SELECT 0)
   AND (claimed_by <> 0 OR claimed_at <= :lapsed_at)
   AND paused IS NULL
"""
_ONLY = "AND (:only IS NULL OR execution_id = :only)"
# Who was ended by others claims nothing more: nobody would ever take it back.
_ENDED = "EXISTS (SELECT 1 FROM workers WHERE n = :worker AND n <> 0 AND stopped_at IS NOT NULL)"
ENDED_OR_LAPSED = joined("SELECT", _ENDED, ", EXISTS (SELECT 1", _LAPSED, ")")
LAPSED = joined(
    "SELECT min(ifnull(covered_due_at, due_at), ifnull(due_at, covered_due_at)) AS at, n",
    _LAPSED,
    _NARROWED,
    _ONLY,
    "ORDER BY at, n LIMIT :limit",
)
DUE = joined(
    "SELECT claim_at, n FROM executions WHERE claim_at <= :now", _NARROWED, _ONLY, _OLDEST_FIRST
)
TAGGED = joined(
    "SELECT tagged_at, n FROM executions WHERE tagged_at <= :now",
    _TAGGED_ONLY,
    _NARROWED,
    _HAS_TAG,
    _ONLY,
    "ORDER BY tagged_at, n LIMIT :limit",
)
# What the lost delivery covered is pending again, merged with later wakes (E8).
GIVE_UP = """
UPDATE executions
   SET due_at         = min(ifnull(covered_due_at, due_at), ifnull(due_at, covered_due_at)),
       covered_due_at = NULL,
       claimed_by     = NULL
 WHERE n = :n
RETURNING token, last_worker, claimed_at
"""
NEXT_DUE = joined(
    "SELECT claim_at FROM executions WHERE claim_at IS NOT NULL",
    _NARROWED,
    "ORDER BY claim_at LIMIT 1",
)
# Suspects have an index of their own; that its condition holds is to be seen without bindings.
NEXT_SUSPECT = joined(
    "SELECT claim_at FROM executions INDEXED BY executions_suspects",
    "WHERE claim_at IS NOT NULL AND deaths >= 2",
    _NARROWED,
    "ORDER BY claim_at LIMIT 1",
)
NEXT_TAGGED = joined(
    "SELECT tagged_at FROM executions WHERE tagged_at IS NOT NULL",
    _NARROWED,
    _HAS_TAG,
    "ORDER BY tagged_at LIMIT 1",
)
NEXT_LEASE_END = joined(
    """
SELECT min(w.lease_until_at)
  FROM workers AS w
 WHERE w.stopped_at IS NULL
   AND w.n <> :worker
   AND EXISTS (SELECT 1 FROM executions WHERE claimed_by = w.n AND paused IS NULL
""",
    _NARROWED,
    ")",
)


class ClaimRow(NamedTuple):
    """What a claim answers of one execution."""

    number: int
    execution_id: str
    token: int
    covered_due_at: int
    workflow_id: str
    version: int
    params: str
    context: str
    incarnation: int
    seed: bytes
    started_at: int
    status_value: str | None
    operations: int
    last_moment: int | None
    deaths: int
    cancelling: int


_SEED = ClaimRow._fields.index("seed")


class Claims:
    """Takes due executions, and those whose lease ended, inside the transaction under way."""

    def __init__(self, db: Database, lost: LostDeliveries, *, redelivery_ms: int) -> None:
        self._db = db
        self._lost = lost
        self._redelivery_ms = redelivery_ms

    def take(
        self,
        now: int,
        *,
        worker: int,
        limit: int | None,
        workflows: Sequence[tuple[str, int]] | None,
        suspects: bool | None = None,
        only: str | None = None,
        tags: Sequence[str] = (),
        fresh: int = 0,
    ) -> list[ClaimRow]:
        """Claim at most `limit`, oldest due first. `suspects` None asks for all alike.

        Of more than `limit`, `fresh` are the last that became due.
        """
        narrow = self._narrow(now, worker, limit, workflows, suspects, only, tags)
        ended, lapsed = self._db.rows(ENDED_OR_LAPSED, narrow)[0]
        if ended:
            return []
        if lapsed:
            rows = self._take_with_lapsed(narrow)
        elif only is not None:
            rows = self._db.rows(CLAIM_ONLY, narrow)
        else:
            rows = self._db.rows(CLAIM_TAGGED, narrow) if tags else self._take_due(narrow, fresh)
        claimed = [ClaimRow._make(row) for row in rows]
        # RETURNING promises no order.
        claimed.sort(key=lambda row: (row.covered_due_at, row.number))
        return claimed

    def each(
        self,
        now: int,
        *,
        worker: int,
        limit: int,
        workflows: Sequence[tuple[str, int]],
        suspects: bool,
        only: str | None,
        tags: Sequence[str],
    ) -> Iterator[tuple[int, Callable[[], ClaimRow]]]:
        """As `take`, one by one: the number of each execution, and the call that claims it."""
        narrow = self._narrow(now, worker, limit, workflows, suspects, only, tags)
        if self._db.rows(ENDED_OR_LAPSED, narrow)[0][0]:
            return
        for number, lapsed in self._candidates(narrow):
            yield number, partial(self._take_one, narrow, number, lapsed)

    def _take_due(self, narrow: dict[str, Any], fresh: int) -> list[tuple[Any, ...]]:
        numbers = self._db.rows(DUE_NUMBERS, narrow)[0][0]
        count = numbers.count(",") + (numbers != "[]")
        if fresh and count == narrow["limit"]:
            latest = json.loads(self._db.rows(LATEST_NUMBERS, narrow | {"limit": fresh})[0][0])
            oldest = json.loads(numbers)
            others = [number for number in latest if number not in oldest]
            numbers = json.dumps(oldest[: count - len(others)] + others)
        # Also where nothing is due: a file that takes no writes says so.
        claiming = narrow | {"numbers": numbers}
        if count <= FEW:
            return self._db.rows(CLAIM_FEW, claiming)
        self._db.rows(CLAIM_NUMBERS, claiming)
        told = json.loads(self._db.rows(CLAIMED, claiming)[0][0])
        return [(*row[:_SEED], bytes.fromhex(row[_SEED]), *row[_SEED + 1 :]) for row in told]

    def _take_with_lapsed(self, narrow: dict[str, Any]) -> list[tuple[Any, ...]]:
        return [
            self._take_one(narrow, number, lapsed) for number, lapsed in self._candidates(narrow)
        ]

    def _candidates(self, narrow: dict[str, Any]) -> list[tuple[int, bool]]:
        lapsed = self._db.rows(LAPSED, narrow)
        tagged = self._db.rows(TAGGED, narrow) if narrow["tags"] else []
        found = sorted(lapsed + tagged + self._db.rows(DUE, narrow))
        if narrow["limit"] >= 0:
            found = found[: narrow["limit"]]
        taken_over = {number for _, number in lapsed}
        return [(number, number in taken_over) for _, number in found]

    def _take_one(self, narrow: dict[str, Any], number: int, lapsed: bool) -> ClaimRow:
        if lapsed:
            self.give_up(number, "lease ended", narrow["now"])
        (row,) = self._db.rows(CLAIM_NUMBER, narrow | {"n": number})
        return ClaimRow._make(row)

    def give_up(self, number: int, how: str, now: int) -> None:
        """End the open delivery of `number` without an acknowledgement; it is due again."""
        ended = self._db.row(GIVE_UP, {"n": number})
        assert ended is not None, "an open delivery has a record"
        token, last_worker, claimed_at = ended
        self._lost.add(number, token, last_worker, claimed_at, now, how)

    def next_due(
        self,
        workflows: Sequence[tuple[str, int]],
        *,
        suspects: bool,
        worker: int | None,
        tags: Sequence[str],
    ) -> int | None:
        """The earliest moment at which `take` would find something, or None."""
        narrow = self._narrowed(workflows, suspects)
        moments = self._db.rows(NEXT_SUSPECT if suspects else NEXT_DUE, narrow)
        if tags:
            moments += self._db.rows(NEXT_TAGGED, narrow | {"tags": json.dumps(list(tags))})
        if worker is not None:
            moments += self._db.rows(NEXT_LEASE_END, narrow | {"worker": worker})
        known = [int(moment) for (moment,) in moments if moment is not None]
        return min(known, default=None)

    def _narrow(
        self,
        now: int,
        worker: int,
        limit: int | None,
        workflows: Sequence[tuple[str, int]] | None,
        suspects: bool | None,
        only: str | None,
        tags: Sequence[str],
    ) -> dict[str, Any]:
        return self._narrowed(workflows, suspects) | {
            "now": now,
            "worker": worker,
            "limit": -1 if limit is None else limit,
            "only": only,
            "tags": json.dumps(list(tags)) if tags else None,
            "lapsed_at": now - self._redelivery_ms,
        }

    def _narrowed(
        self, workflows: Sequence[tuple[str, int]] | None, suspects: bool | None
    ) -> dict[str, Any]:
        fewest, most = _ANY_DEATHS
        if suspects is not None:
            fewest, most = (SUSPECT_DEATHS, most) if suspects else (0, SUSPECT_DEATHS - 1)
        return {
            "format": HISTORY_FORMAT,
            "fewest": fewest,
            "most": most,
            "workflows": None if workflows is None else json.dumps(workflows),
        }
