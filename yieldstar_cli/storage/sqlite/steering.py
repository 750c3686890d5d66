"""Cancelling and pausing from outside (spec C6, E14)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from yieldstar_cli.clock import Clock
from yieldstar_cli.errors import ExecutionNotFound, InvalidExecutionEvent
from yieldstar_cli.model import CancelAnswer, PauseAnswer, Paused, Status
from yieldstar_cli.storage.sqlite import admission
from yieldstar_cli.storage.sqlite.database import Database
from yieldstar_cli.storage.sqlite.texts import plain

if TYPE_CHECKING:
    from yieldstar_cli.storage.sqlite.consequences import Consequences

# An open delivery is to look: its running steps end, and it suspends (E14).
PAUSE = """
UPDATE executions
   SET paused = :mark,
       nudged = nudged + (claimed_by IS NOT NULL)
 WHERE n = :n AND paused IS NULL
RETURNING n
"""
RESUME = "UPDATE executions SET paused = NULL WHERE n = :n AND paused IS NOT NULL RETURNING n"
STATUS = "SELECT status FROM executions WHERE n = :n"
# The workflow '' is the whole file.
PAUSE_ALL = """
INSERT INTO pauses (workflow_id, by, at, reason)
VALUES (:workflow_id, :by, :now, :reason)
    ON CONFLICT (workflow_id) DO NOTHING
RETURNING workflow_id
"""
NUDGE_ALL = """
UPDATE executions
   SET nudged = nudged + 1
 WHERE claimed_by IS NOT NULL
   AND :workflow_id IN ('', workflow_id)
"""
RESUME_ALL = "DELETE FROM pauses WHERE workflow_id = :workflow_id RETURNING workflow_id"
PAUSES = "SELECT workflow_id, by, at, reason FROM pauses ORDER BY workflow_id"


class SqliteSteering:
    """Steering on SQLite; `contract.Steering` says what each method means."""

    def __init__(
        self, db: Database, consequences: Callable[[], Consequences], *, clock: Clock
    ) -> None:
        self._db = db
        self._consequences = consequences
        self._clock = clock

    def cancel(
        self, execution_id: str, *, reason: str | None = None, now: bool = False
    ) -> CancelAnswer:
        """See `contract.Steering.cancel`."""
        told = None if reason is None else plain(reason)
        with self._db.writing():
            number = self._number(execution_id)
            moment = self._clock.now_ms()
            return self._consequences().cancel(number, told, moment, at_once=now)

    def pause(
        self,
        *,
        execution_id: str | None = None,
        workflow_id: str | None = None,
        by: str,
        reason: str | None = None,
    ) -> PauseAnswer:
        """See `contract.Steering.pause`."""
        told = None if reason is None else plain(reason)
        moment = self._clock.now_ms()
        if execution_id is not None:
            mark = json.dumps({"by": plain(by), "at": moment, "reason": told})
            with self._db.writing():
                number = self._number(execution_id)
                if self._terminal(number):
                    return "ignored"
                paused = self._db.row(PAUSE, {"n": number, "mark": mark})
            return "unchanged" if paused is None else "paused"
        scope = {"workflow_id": _scope(workflow_id)}
        with self._db.writing():
            bindings = scope | {"by": plain(by), "now": moment, "reason": told}
            if self._db.row(PAUSE_ALL, bindings) is None:
                return "unchanged"
            self._db.rows(NUDGE_ALL, scope)
        return "paused"

    def resume(
        self, *, execution_id: str | None = None, workflow_id: str | None = None
    ) -> PauseAnswer:
        """See `contract.Steering.resume`."""
        with self._db.writing():
            if execution_id is None:
                resumed = self._db.row(RESUME_ALL, {"workflow_id": _scope(workflow_id)})
            else:
                number = self._number(execution_id)
                if self._terminal(number):
                    return "ignored"
                resumed = self._db.row(RESUME, {"n": number})
        return "unchanged" if resumed is None else "resumed"

    def pauses(self) -> list[Paused]:
        """See `contract.Steering.pauses`."""
        return [
            Paused("workflow" if workflow_id else "all", by, at, reason, workflow_id or None)
            for workflow_id, by, at, reason in self._db.rows(PAUSES)
        ]

    def _number(self, execution_id: str) -> int:
        try:
            number = self._consequences().find(admission.checked_id(execution_id))
        except InvalidExecutionEvent:
            number = None
        if number is None:
            raise ExecutionNotFound(execution_id)
        return number

    def _terminal(self, number: int) -> bool:
        return Status(self._db.rows(STATUS, {"n": number})[0][0]).terminal


def _scope(workflow_id: str | None) -> str:
    return "" if workflow_id is None else admission.checked_workflow(workflow_id)
