"""The execution record as RFC 001 sees it: admission, wakes, claims, outcomes (spec E1-E12)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from yieldstar_cli.clock import Clock, moment_ms
from yieldstar_cli.errors import (
    ExecutionIdConflict,
    ExecutionNotFound,
    InvalidExecutionEvent,
    StorageError,
)
from yieldstar_cli.ids import Chance
from yieldstar_cli.model import (
    HISTORY_FORMAT,
    Delivery,
    ExecutionRecord,
    Outcome,
    Round,
    Status,
    WakeAnswer,
)
from yieldstar_cli.storage.sqlite import admission, records
from yieldstar_cli.storage.sqlite.database import Database

if TYPE_CHECKING:
    from yieldstar_cli.storage.sqlite.claims import Claims
    from yieldstar_cli.storage.sqlite.endings import Endings
    from yieldstar_cli.storage.sqlite.inbox import SqliteInbox
    from yieldstar_cli.storage.sqlite.releases import Releases

# One row is both the record and its first wake: they cannot come apart (E1).
ADMIT = """
INSERT INTO executions (execution_id, workflow_id, version, format, params, context, status,
                        admitted_at, updated_at, admission_nonce, seed, due_at)
VALUES (:execution_id, :workflow_id, :version, :format, :params, :context, 'admitted',
        :now, :now, :nonce, :seed, :at)
    ON CONFLICT (execution_id) DO NOTHING
RETURNING n, (SELECT json_array(workflow_id, by, at, reason)
                FROM pauses
               WHERE workflow_id IN (:workflow_id, '')
               ORDER BY workflow_id DESC
               LIMIT 1)
"""
IN_USE = "SELECT workflow_id, status FROM executions WHERE execution_id = :execution_id"
GET = records.SELECT_RECORD + " WHERE e.execution_id = :execution_id"
# Wakes that no delivery covers merge to the earliest (E6).
REQUEST_WAKE = """
UPDATE executions
   SET due_at = min(ifnull(due_at, :at), :at)
 WHERE execution_id = :execution_id
   AND status IN ('admitted', 'suspended')
RETURNING n
"""
# `ys wake`: a wake, the end of a hold, and five more deaths (E12, L5). One that was poisoned is
# held until `at`, since the wakes it had keep their old time.
WAKE = """
UPDATE executions
   SET due_at      = min(ifnull(due_at, :at), :at),
       held_code   = CASE WHEN :hold AND (held_since IS NOT NULL OR poisoned_at IS NOT NULL)
                          THEN ifnull(held_code, 'POISONED') END,
       held_since  = CASE WHEN :hold AND (held_since IS NOT NULL OR poisoned_at IS NOT NULL)
                          THEN ifnull(held_since, :now) END,
       held_until  = CASE WHEN :hold AND (held_since IS NOT NULL OR poisoned_at IS NOT NULL)
                          THEN :at END,
       held_module = NULL,
       poisoned_at = NULL,
       deaths      = 0
 WHERE execution_id = :execution_id
   AND status IN ('admitted', 'suspended')
RETURNING n
"""

#: How often a generated ID is drawn again when it is in use (case 8).
DRAWS = 1_000


class SqliteExecutions:
    """RFC 001's ExecutionClient on SQLite; `contract.Executions` says what each method means."""

    def __init__(
        self,
        db: Database,
        claims: Callable[[], Claims],
        endings: Callable[[], Endings],
        releases: Callable[[], Releases],
        inbox: SqliteInbox,
        *,
        clock: Clock,
        chance: Chance,
        redelivery_ms: int,
        max_value: int,
    ) -> None:
        self._db = db
        self._claims = claims
        self._endings = endings
        self._releases = releases
        self._inbox = inbox
        self._clock = clock
        self._chance = chance
        self._redelivery_ms = redelivery_ms
        self._max_value = max_value

    def admit(
        self,
        *,
        workflow_id: str,
        params: object = None,
        context: Mapping[str, object] | None = None,
        execution_id: str | None = None,
        at: int | None = None,
        version: int = 1,
    ) -> ExecutionRecord:
        """See `contract.Executions.admit`."""
        now = self._clock.now_ms()
        row = {
            "execution_id": None if execution_id is None else admission.checked_id(execution_id),
            "workflow_id": admission.checked_workflow(workflow_id),
            "version": admission.checked_version(version),
            "format": HISTORY_FORMAT,
            "params": admission.encoded_params(params, self._max_value),
            "context": admission.encoded_context(context, self._max_value),
            "now": now,
            "at": now if at is None else admission.checked_moment(at),
            "nonce": self._chance.seed(),
            "seed": self._chance.seed(),
        }
        with self._db.writing():
            number, mark = self._insert(row) if execution_id is not None else self._insert_new(row)
            self._inbox.adopt(str(row["execution_id"]), number, now)
        return _admitted(number, row, mark)

    def _insert(self, row: dict[str, Any]) -> tuple[int, str | None]:
        inserted = self._db.row(ADMIT, row)
        if inserted is None:
            found = self._db.row(IN_USE, {"execution_id": row["execution_id"]})
            assert found is not None, "the ID is in use, so its record is there"
            raise ExecutionIdConflict(str(row["execution_id"]), *found)
        return inserted[0], inserted[1]

    def _insert_new(self, row: dict[str, Any]) -> tuple[int, str | None]:
        for _ in range(DRAWS):
            row["execution_id"] = f"{row['workflow_id']}-{self._chance.execution_suffix()}"
            inserted = self._db.row(ADMIT, row)
            if inserted is not None:
                return inserted[0], inserted[1]
        raise StorageError(f"no unused execution ID was found in {DRAWS} draws")

    def get(self, execution_id: str) -> ExecutionRecord | None:
        """See `contract.Executions.get`."""
        if not _storable(execution_id):
            return None
        row = self._db.row(
            GET,
            {
                "execution_id": execution_id,
                "redelivery_ms": self._redelivery_ms,
                "payloads": True,
            },
        )
        return None if row is None else records.record(row)

    def request_wake(self, execution_id: str, wake_at: int) -> WakeAnswer:
        """See `contract.Executions.request_wake`."""
        at = moment_ms(wake_at)
        return self._woken(REQUEST_WAKE, {"execution_id": execution_id, "at": at})

    def wake(self, execution_id: str, at: int | None = None) -> WakeAnswer:
        """See `contract.Executions.wake`."""
        now = self._clock.now_ms()
        moment = now if at is None else moment_ms(at)
        return self._woken(
            WAKE,
            {"execution_id": execution_id, "at": moment, "now": now, "hold": moment > now},
        )

    def _woken(self, sql: str, bindings: dict[str, object]) -> WakeAnswer:
        execution_id = str(bindings["execution_id"])
        if not _storable(execution_id):
            raise ExecutionNotFound(execution_id)
        with self._db.writing():
            if self._db.row(sql, bindings) is not None:
                return "requested"
            if self._db.row(IN_USE, {"execution_id": execution_id}) is None:
                raise ExecutionNotFound(execution_id)
            return "ignored"

    def claim_due(
        self,
        now: int,
        *,
        limit: int | None = None,
        workflows: Iterable[tuple[str, int]] | None = None,
        tags: Sequence[str] = (),
        worker: int | None = None,
    ) -> list[Delivery]:
        """See `contract.Executions.claim_due`."""
        with self._db.writing():
            rows = self._claims().take(
                now,
                worker=worker or 0,
                limit=limit,
                workflows=None if workflows is None else list(workflows),
                tags=tags,
            )
        return [Delivery(row.execution_id, row.token, row.number) for row in rows]

    def acknowledge(self, delivery: Delivery, outcome: Outcome) -> Outcome:
        """See `contract.Executions.acknowledge`."""
        with self._db.writing():
            recorded = self._endings().end(delivery, Round(outcome=outcome), must_end=True)
        assert recorded.outcome is not None, "a round that must end answers an outcome"
        return recorded.outcome

    def release(
        self,
        delivery: Delivery,
        *,
        how: str = "released",
        problem: tuple[str, str] | None = None,
        held_until: int | None = None,
        held: bool = False,
        module: str | None = None,
    ) -> None:
        """See `contract.Executions.release`."""
        with self._db.writing():
            self._releases().release(
                delivery, how=how, problem=problem, held_until=held_until, held=held, module=module
            )


def _admitted(number: int, row: Mapping[str, Any], mark: str | None) -> ExecutionRecord:
    """The record just stored: what `get` would answer, without asking."""
    return ExecutionRecord(
        number=number,
        execution_id=row["execution_id"],
        workflow_id=row["workflow_id"],
        params_json=row["params"],
        context_json=row["context"],
        status=Status.ADMITTED,
        outcome=None,
        admitted_at=row["now"],
        updated_at=row["now"],
        due_at=row["at"],
        covered_due_at=None,
        deliveries=0,
        incarnation=1,
        version=row["version"],
        format=row["format"],
        status_value_json=None,
        delivery=None,
        held=None,
        poisoned_at=None,
        deaths=0,
        problem=None,
        last_claimed_at=None,
        last_acked_at=None,
        last_worker=None,
        started_at=None,
        operations=0,
        paused=records.paused(None, mark),
    )


def _storable(execution_id: object) -> bool:
    """Whether any record could have this ID; SQLite cannot even be asked for some texts."""
    try:
        admission.checked_id(execution_id)
    except InvalidExecutionEvent:
        return False
    return True
