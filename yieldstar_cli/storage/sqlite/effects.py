"""Effects of the outside world: who may try one, what settled it, what did not agree (F1)."""

from __future__ import annotations

import json

from yieldstar_cli.clock import Clock
from yieldstar_cli.model import EffectRecord, EffectReport, Hold, HoldEffect, SettleEffect
from yieldstar_cli.nouns import replace
from yieldstar_cli.storage.sqlite.consequences import Consequences
from yieldstar_cli.storage.sqlite.database import Database, Row, joined
from yieldstar_cli.storage.sqlite.waits import Waits

#: How many reports of one effect are kept, the first ones.
REPORTS_KEPT = 20

STANDING = """
SELECT f, operation, input, result, holder, holder_token, holder_key
  FROM effects
 WHERE effect_id = :effect_id
"""
BEGIN = """
INSERT INTO effects (effect_id, operation, input, status, begun_at, begun_by,
                     holder, holder_token, holder_key)
VALUES (:effect_id, :operation, :input, 'pending', :now, :n, :n, :token, :step_key)
"""
TAKE = """
UPDATE effects
   SET holder = :n, holder_token = :token, holder_key = :step_key
 WHERE f = :f AND status = 'pending'
"""
# The right ends with the delivery: what is written of it may be older.
LIVE = """
SELECT 1
  FROM executions
 WHERE n = :holder AND token = :holder_token AND claimed_by IS NOT NULL
"""
SETTLE = """
UPDATE effects
   SET status = 'settled', result = :result, settled_at = :now, settled_by = :n,
       holder = NULL, holder_token = NULL, holder_key = NULL
 WHERE f = :f AND status = 'pending'
"""
LET_GO = """
UPDATE effects
   SET holder = NULL, holder_token = NULL, holder_key = NULL
 WHERE effect_id = :effect_id AND holder = :n AND holder_key = :step_key
RETURNING effect_id
"""
FREE = """
UPDATE effects
   SET holder = NULL, holder_token = NULL, holder_key = NULL
 WHERE holder = :n
RETURNING effect_id
"""
REPORT = """
INSERT INTO effect_reports (f, at, n, kind, operation, input, result)
SELECT :f, :now, :n, :kind, :operation, :input, :result
 WHERE (SELECT count(*) FROM effect_reports WHERE f = :f) < :kept
   AND NOT EXISTS (SELECT 1 FROM effect_reports
                    WHERE f = :f AND n = :n AND kind = :kind AND operation IS :operation
                      AND input IS :input AND result IS :result)
"""
NUMBER = "SELECT n FROM executions WHERE execution_id = :execution_id"
_RECORD = """
SELECT e.f, e.effect_id, e.operation, e.input, e.status, e.result,
       e.begun_at, b.execution_id, e.settled_at, s.execution_id,
       CASE WHEN h.claimed_by IS NOT NULL AND h.token = e.holder_token THEN h.execution_id END
  FROM effects AS e
  LEFT JOIN executions AS b ON b.n = e.begun_by
  LEFT JOIN executions AS s ON s.n = e.settled_by
  LEFT JOIN executions AS h ON h.n = e.holder
"""
GET = joined(_RECORD, "WHERE e.effect_id = :effect_id")
FIND = joined(
    _RECORD,
    """
 WHERE NOT :disputed
    OR EXISTS (SELECT 1 FROM effect_reports AS r
                WHERE r.f = e.f AND (r.kind <> 'late' OR r.result <> e.result))
 ORDER BY e.f DESC
 LIMIT :limit
""",
)
REPORTS = """
SELECT r.at, x.execution_id, r.kind, r.operation, r.input, r.result
  FROM effect_reports AS r
  LEFT JOIN executions AS x ON x.n = r.n
 WHERE r.f = :f
 ORDER BY r.r
"""


class SqliteEffects:
    """Effects on SQLite; `contract.Effects` says what its reading methods mean.

    `hold`, `settle`, `let_go` and `free` are parts of a delivery's transaction.
    """

    def __init__(
        self, db: Database, waits: Waits, consequences: Consequences, *, clock: Clock
    ) -> None:
        self._db = db
        self._waits = waits
        self._consequences = consequences
        self._clock = clock

    # --- reading -----------------------------------------------------------------------------

    def get(self, effect_id: str) -> EffectRecord | None:
        """See `contract.Effects.get`."""
        row = self._db.row(GET, {"effect_id": effect_id})
        return None if row is None else self._record(row)

    def find(self, *, disputed: bool = False, limit: int | None = None) -> list[EffectRecord]:
        """See `contract.Effects.find`."""
        bindings = {"disputed": disputed, "limit": -1 if limit is None else limit}
        return [self._record(row) for row in self._db.rows(FIND, bindings)]

    def _record(self, row: Row) -> EffectRecord:
        reports = self._db.rows(REPORTS, {"f": row[0]})
        record = EffectRecord(*row[1:])
        return replace(record, reports=tuple(EffectReport(*report) for report in reports))

    # --- writing -----------------------------------------------------------------------------

    def late(self, effect_id: str, execution_id: str, result: str) -> None:
        """See `contract.Effects.late`."""
        with self._db.writing():
            found = self._db.row(STANDING, {"effect_id": effect_id})
            number = self._db.row(NUMBER, {"execution_id": execution_id})
            if found is not None and number is not None:
                self._report(found[0], number[0], "late", result=result)

    # --- parts of a delivery's transaction ---------------------------------------------------

    def hold(self, number: int, token: int, asked: HoldEffect, now: int) -> Hold | tuple[bool, str]:
        """How the effect stands for who asks for it; a settled one's result, or why it is refused.

        The first to ask finds it certain that nobody has tried it; whoever comes after a right
        that ended without a settlement does not.
        """
        named = {
            "n": number,
            "token": token,
            "now": now,
            "effect_id": asked.effect_id,
            "step_key": asked.step_key,
        }
        standing = self._db.row(STANDING, named)
        if standing is None:
            self._db.rows(BEGIN, named | {"operation": asked.operation, "input": asked.input})
            return Hold(asked.step_key, "certain")
        f, operation, given, result, *right = standing
        if operation != asked.operation or not _same(given, asked.input):
            self._report(f, number, "mismatch", operation=asked.operation, given=asked.input)
            return False, _mismatch(asked, operation)
        if result is not None:
            return True, result
        if right == [number, token, asked.step_key]:
            return Hold(asked.step_key, "still")
        holder, holder_token, _ = right
        if holder is not None and self._db.row(
            LIVE, {"holder": holder, "holder_token": holder_token}
        ):
            return Hold(asked.step_key, "busy")
        self._db.rows(TAKE, named | {"f": f})
        return Hold(asked.step_key, "uncertain")

    def settle(self, number: int, asked: SettleEffect, now: int) -> str:
        """Keep the result, unless there is one; answers the one that stands."""
        f, _, _, result, *_ = self._db.rows(STANDING, {"effect_id": asked.effect_id})[0]
        if result is None:
            self._db.rows(SETTLE, {"f": f, "n": number, "now": now, "result": asked.result})
            self._wake(asked.effect_id, now)
            return asked.result
        if not _same(result, asked.result):
            self._report(f, number, "conflict", result=asked.result)
        return str(result)

    def let_go(self, number: int, step_key: str, effect_id: str, now: int) -> None:
        """The right of `number` ends here; what it is of may have been done."""
        named = {"n": number, "step_key": step_key, "effect_id": effect_id}
        if self._db.row(LET_GO, named) is not None:
            self._wake(effect_id, now)

    def free(self, number: int) -> None:
        """A delivery of `number` is over, and with it its rights."""
        now = self._clock.now_ms()
        for (effect_id,) in self._db.rows(FREE, {"n": number}):
            self._wake(effect_id, now)

    # --- their parts -------------------------------------------------------------------------

    def _wake(self, effect_id: str, now: int) -> None:
        for waiting in self._waits.mark_effect(effect_id, now):
            self._consequences.wake(waiting, now)

    def _report(
        self,
        f: int,
        number: int,
        kind: str,
        *,
        operation: str | None = None,
        given: str | None = None,
        result: str | None = None,
    ) -> None:
        self._db.rows(
            REPORT,
            {
                "f": f,
                "n": number,
                "now": self._clock.now_ms(),
                "kind": kind,
                "operation": operation,
                "input": given,
                "result": result,
                "kept": REPORTS_KEPT,
            },
        )


def _same(one: str, other: str) -> bool:
    """Whether two JSON texts say the same, in whatever order their names stand."""
    return one == other or _canonical(one) == _canonical(other)


def _canonical(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


def _mismatch(asked: HoldEffect, operation: str) -> str:
    """Why it is refused, as an entry's value: without inputs, which may hold secrets."""
    if operation != asked.operation:
        said = f"is the operation {operation!r}, not {asked.operation!r}"
    else:
        said = f"is {operation!r} of another input"
    told = {
        "name": "EffectMismatch",
        "code": "EFFECT_MISMATCH",
        "message": f"effect {asked.effect_id!r} {said}",
    }
    return json.dumps(told, separators=(",", ":"))
