"""Turns rows of the executions table into the nouns of `model.py`, and back."""

from __future__ import annotations

import json
from typing import Any

from yieldstar_cli.errors import CorruptFile, UndecodableRecord
from yieldstar_cli.model import (
    CancelledOutcome,
    CancelRequested,
    Completed,
    Continued,
    ExecutionRecord,
    Failed,
    Held,
    LiveDelivery,
    Outcome,
    Paused,
    Problem,
    Status,
    Suspended,
    TerminalOutcome,
)
from yieldstar_cli.storage.sqlite.database import Row

#: Said in the place of a note whose JSON is damaged.
UNREADABLE = "what was recorded here no longer reads"

# Every reader of records begins with this, so that `record` finds each column in its place.
# Claims made without a worker (row 0) have a lease each, from the moment of the claim. Params,
# context and results, which may be large, are read only where they are asked for. Of the marks of
# a pause above the execution, that of its workflow counts before that of the file (E14).
COLUMNS = """
SELECT e.n, e.execution_id, e.workflow_id, iif(:payloads, e.params, 'null'),
       iif(:payloads, e.context, '{}'), e.status,
       iif(:payloads OR e.status <> 'completed', e.outcome, 'null'),
       e.admitted_at, e.updated_at, e.due_at, e.covered_due_at, e.token, e.incarnation,
       e.version, e.format, e.status_value, e.claimed_by, e.claimed_at,
       iif(e.claimed_by = 0, e.claimed_at + :redelivery_ms, w.lease_until_at),
       e.held_since, e.held_until, e.held_code, e.poisoned_at, e.deaths, e.problem,
       e.acked_at, e.last_worker, e.started_at, e.operations,
       (SELECT p.execution_id FROM executions AS p WHERE p.n = e.parent), e.detached,
       e.cancel_at, e.cancel_reason, e.cancel_told, e.paused, e.needs,
       (SELECT json_array(workflow_id, by, at, reason)
          FROM pauses
         WHERE workflow_id IN (e.workflow_id, '')
         ORDER BY workflow_id DESC
         LIMIT 1),
       e.pruned_at
"""
FROM = """
  FROM executions AS e
  LEFT JOIN workers AS w ON w.n = e.claimed_by
"""
SELECT_RECORD = COLUMNS + FROM


def record(row: Row) -> ExecutionRecord:
    """The record that `row` of SELECT_RECORD holds."""
    (number, execution_id, workflow_id, params, context, status, outcome) = row[:7]
    (admitted_at, updated_at, due_at, covered_due_at, token, incarnation) = row[7:13]
    (version, history_format, status_value, claimed_by, claimed_at, expires_at) = row[13:19]
    (held_since, held_until, held_code, poisoned_at, deaths, problem_json) = row[19:25]
    (acked_at, last_worker, started_at, operations, parent, detached) = row[25:31]
    (cancel_at, cancel_reason, cancel_told, own_mark, needs, mark_above, pruned_at) = row[31:38]
    return ExecutionRecord(
        number=number,
        execution_id=execution_id,
        workflow_id=workflow_id,
        params_json=params,
        context_json=context,
        status=_status(execution_id, status),
        outcome=terminal_outcome(status, outcome),
        admitted_at=admitted_at,
        updated_at=updated_at,
        due_at=due_at,
        covered_due_at=covered_due_at,
        deliveries=token,
        incarnation=incarnation,
        version=version,
        format=history_format,
        status_value_json=status_value,
        delivery=_live(claimed_by, last_worker, claimed_at, expires_at),
        held=None if held_since is None else Held(held_since, held_until, held_code),
        poisoned_at=poisoned_at,
        deaths=deaths,
        problem=problem(problem_json),
        last_claimed_at=claimed_at,
        last_acked_at=acked_at,
        last_worker=last_worker,
        started_at=started_at,
        operations=operations,
        parent_execution_id=parent,
        detached=bool(detached),
        cancel=_cancel(cancel_at, cancel_reason, cancel_told),
        paused=None if Status(status).terminal else paused(own_mark, mark_above),
        needs=_needs(needs),
        pruned_at=pruned_at,
    )


def _status(execution_id: str, stored: str) -> Status:
    try:
        return Status(stored)
    except ValueError:
        raise CorruptFile(
            f"the record of {execution_id!r} is damaged: there is no status {stored!r}",
            why=("The file's own rules were switched off to write it. Nothing was changed.",),
            remedy=("Restore a backup of the file.",),
        ) from None


def _live(
    claimed_by: int | None, worker: str | None, since_at: int, expires_at: int | None
) -> LiveDelivery | None:
    if claimed_by is None:
        return None
    return LiveDelivery(worker=worker or "", since_at=since_at, expires_at=expires_at or 0)


def _cancel(at: int | None, reason: str | None, told: int) -> CancelRequested | None:
    return None if at is None else CancelRequested(at, reason, bool(told))


def paused(own: str | None, above: str | None) -> Paused | None:
    """The mark that counts: the execution's own, else that of its workflow or the file (E14).

    `own` is the column `paused`; `above` the row of `pauses` that counts, as a JSON array.
    """
    if own is not None:
        return _own_mark(own)
    if above is None:
        return None
    workflow_id, by, at, reason = json.loads(above)
    if workflow_id:
        return Paused("workflow", by, at, reason, workflow_id)
    return Paused("all", by, at, reason)


def _own_mark(stored: str) -> Paused:
    try:
        mark: dict[str, Any] = json.loads(stored)
        reason = mark.get("reason")
        said = None if reason is None else str(reason)
        return Paused("execution", str(mark["by"]), int(mark["at"]), said)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        # The mark counts, whatever became of its words (see `problem`).
        return Paused("execution", "", 0, UNREADABLE)


def _needs(stored: str | None) -> tuple[str, ...]:
    try:
        tags = [] if stored is None else json.loads(stored)
    except (ValueError, RecursionError):
        return ()
    return tuple(str(tag) for tag in tags) if isinstance(tags, list) else ()


def terminal_outcome(status: str, stored: str | None) -> TerminalOutcome | None:
    """The outcome that the `outcome` column holds under `status`; None while it is open."""
    match status:
        case Status.COMPLETED:
            return Completed("null" if stored is None else stored)
        case Status.FAILED:
            return Failed("null" if stored is None else stored)
        case Status.CANCELLED:
            return CancelledOutcome(_reason(stored))
    return None


def _reason(stored: str | None) -> str | None:
    try:
        reason = None if stored is None else json.loads(stored)
    except (ValueError, RecursionError):
        return stored
    return reason if reason is None else str(reason)


def stored_outcome(outcome: Outcome) -> tuple[Status, str | None]:
    """The status that `outcome` leads to, and the text of its `outcome` column."""
    match outcome:
        case Suspended() | Continued():
            return Status.SUSPENDED, None
        case Completed(result):
            return Status.COMPLETED, result
        case Failed(error):
            return Status.FAILED, error
        case CancelledOutcome(reason):
            return Status.CANCELLED, json.dumps(reason)


def problem(stored: str | None) -> Problem | None:
    """What the `problem` column holds."""
    if stored is None:
        return None
    try:
        fields = json.loads(stored)
        return Problem(
            code=str(fields["code"]),
            message=str(fields["message"]),
            first_at=int(fields["first_at"]),
            last_at=int(fields["last_at"]),
            count=int(fields["count"]),
        )
    except (ValueError, TypeError, LookupError, RecursionError):
        # Told beside the record and nothing hangs on it: damage there keeps nobody from the rest.
        return Problem(UndecodableRecord.code, UNREADABLE, 0, 0, 1)


def next_problem(stored: str | None, code: str, message: str, now: int) -> str:
    """The `problem` column after `code` has struck (again) at `now` (spec E12)."""
    last = problem(stored)
    again = last is not None and last.code == code
    return json.dumps(
        {
            "code": code,
            "message": message,
            "first_at": last.first_at if last and again else now,
            "last_at": now,
            "count": last.count + 1 if last and again else 1,
        }
    )
