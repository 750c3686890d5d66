"""The JSON documents that programs read: keys are never renamed, only added."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yieldstar_cli.cli.facts import Facts
from yieldstar_cli.cli.render.document import raw
from yieldstar_cli.cli.steps import Operation, operations
from yieldstar_cli.clock import rfc3339
from yieldstar_cli.failures_view import ErrorView, view_error
from yieldstar_cli.model import (
    Attempt,
    CancelledOutcome,
    Completed,
    EffectRecord,
    EffectReport,
    Entry,
    ExecutionRecord,
    Failed,
    Kind,
    Paused,
    TerminalOutcome,
)

Document = dict[str, Any]


def moment(at_ms: int | None) -> str | None:
    """A moment as documents hold it."""
    return None if at_ms is None else rfc3339(at_ms)


def execution_document(record: ExecutionRecord) -> Document:
    """`ys.execution/1` without steps."""
    return {
        "schema": "ys.execution/1",
        "execution_id": record.execution_id,
        "workflow_id": record.workflow_id,
        "status": str(record.status),
        "params": raw(record.params_json),
        "context": raw(record.context_json),
        "outcome": _outcome(record),
        "admitted_at": moment(record.admitted_at),
        "updated_at": moment(record.updated_at),
        "due_at": moment(record.due_at),
        **_state(record),
        "status_value": None if record.status_value_json is None else raw(record.status_value_json),
        "incarnation": record.incarnation,
        "version": record.version,
        "parent_execution_id": record.parent_execution_id,
        "detached": record.detached,
        "needs": list(record.needs),
        "deliveries": record.deliveries,
        # Only where its history and values are no longer kept.
        **({} if record.pruned_at is None else {"pruned_at": moment(record.pruned_at)}),
    }


def _outcome(record: ExecutionRecord) -> Document | None:
    """How it ended; of a pruned one only that."""
    if record.outcome is None:
        return None
    return outcome_document(record.outcome) if record.pruned_at is None else _status(record)


def _status(record: ExecutionRecord) -> Document:
    return {"status": str(record.status)}


def relative_document(record: ExecutionRecord) -> Document:
    """One execution of a tree (`--tree`): `ys.execution/1` without params, context and result."""
    document = execution_document(record)
    for name in ("params", "context"):
        del document[name]
    if isinstance(record.outcome, Completed):
        document["outcome"] = {"status": "completed"}
    return document


def _state(record: ExecutionRecord) -> Document:
    """The facts beside the status: each a document, or null."""
    delivery, held, problem = record.delivery, record.held, record.problem
    return {
        "delivery": None
        if delivery is None
        else {
            "worker": delivery.worker,
            "since": moment(delivery.since_at),
            "expires_at": moment(delivery.expires_at),
        },
        "held": None
        if held is None
        else {"since": moment(held.since_at), "until": moment(held.until_at), "code": held.code},
        "poisoned": None
        if record.poisoned_at is None
        else {"since": moment(record.poisoned_at), "deaths": record.deaths},
        "paused": None if record.paused is None else _paused(record.paused),
        "cancel": None
        if record.cancel is None
        else {
            "at": moment(record.cancel.at),
            "reason": record.cancel.reason,
            "told": record.cancel.told,
        },
        "problem": None
        if problem is None
        else {
            "code": problem.code,
            "message": problem.message,
            "first_at": moment(problem.first_at),
            "last_at": moment(problem.last_at),
            "count": problem.count,
        },
    }


def _paused(mark: Paused) -> Document:
    return {"scope": mark.scope, "by": mark.by, "at": moment(mark.at), "reason": mark.reason}


def full_document(facts: Facts) -> Document:
    """`ys.execution/1` with what it waits for, its steps and its lost deliveries."""
    found = operations(facts)
    document = execution_document(facts.record)
    document["waiting_for"] = [
        wait_document(operation) for operation in found if operation.finished_at is None
    ]
    document["unread"] = dict(facts.unread)
    if facts.earlier is not None:
        document["incarnation_ended_at"] = moment(facts.earlier.ended_at)
    document["lost_deliveries"] = [
        {
            "worker": lost.worker,
            "started_at": moment(lost.started_at),
            "ended_at": moment(lost.ended_at),
            "how": lost.how,
        }
        for lost in facts.lost
    ]
    document["steps"] = [step_document(operation) for operation in found]
    document["effects"] = [effect_document(record) for record in facts.effects.values()]
    return document


def effect_document(record: EffectRecord) -> Document:
    """One effect as it stands for all executions, with what did not agree with it (spec F1)."""
    return {
        "effect_id": record.effect_id,
        "operation": record.operation,
        "input": raw(record.input),
        "status": record.status,
        "result": None if record.result is None else raw(record.result),
        "begun_at": moment(record.begun_at),
        "begun_by": record.begun_by,
        "settled_at": moment(record.settled_at),
        "settled_by": record.settled_by,
        "held_by": record.holder,
        "disputed": record.disputed,
        "reports": [_report(report) for report in record.reports],
    }


def _report(report: EffectReport) -> Document:
    return {
        "kind": report.kind,
        "at": moment(report.at),
        "execution_id": report.execution_id,
        "operation": report.operation,
        "input": None if report.input is None else raw(report.input),
        "result": None if report.result is None else raw(report.result),
    }


def wait_document(operation: Operation) -> Document:
    """One open operation, as `waiting_for` holds it."""
    return {
        "kind": operation.kind,
        "step_key": operation.step_key,
        "label": operation.label,
        "due_at": moment(operation.due_at),
        **_of_a_wait(operation),
    }


def _of_a_wait(operation: Operation) -> Document:
    """The queue, execution, tag, store or effect that an operation waits for, where it does."""
    found = {
        "queue": operation.queue,
        "execution_id": operation.target,
        "tag": operation.tag,
        "store": None if operation.store is None else operation.store[0],
        "store_id": None if operation.store is None else operation.store[1],
        "effect_id": operation.label if operation.kind == Kind.EFFECT else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def step_document(operation: Operation) -> Document:
    """One operation of the execution."""
    first = operation.attempts[0].started_at if operation.attempts else operation.started_at
    document: Document = {
        "step_key": operation.step_key,
        "label": operation.label,
        "kind": operation.kind,
        "state": operation.state,
        "attempt": operation.attempt,
        "started_at": moment(first),
        "finished_at": moment(operation.finished_at),
        "took_ms": operation.took_ms,
    }
    if operation.kind == Kind.EFFECT:
        document |= {"effect_id": operation.label, "note": operation.note}
    if operation.attempts:
        document["attempts"] = [_attempt_document(attempt) for attempt in operation.attempts]
    if operation.state == "failed" and operation.value is not None:
        document["error"] = error_document(operation.value)
    return document


def _attempt_document(attempt: Attempt) -> Document:
    return {
        "attempt": attempt.attempt,
        "started_at": moment(attempt.started_at),
        "ended_at": moment(attempt.ended_at),
        "how": attempt.how,
        "error": None if attempt.error is None else error_document(attempt.error),
        "retry_at": moment(attempt.retry_at),
    }


def entry_document(entry: Entry) -> Document:
    """One resolution with its raw value, in the order applied (`--history`)."""
    document: Document = {
        "position": entry.position,
        "kind": entry.kind,
        "step_key": entry.step_key,
        "label": entry.label,
        "ok": entry.ok,
        "attempt": entry.attempt,
        "started_at": moment(entry.started_at),
        "at": moment(entry.at),
        "withdrawn": entry.withdrawn,
    }
    document["value" if entry.ok else "error"] = (
        raw(entry.value) if entry.ok else error_document(entry.value)
    )
    return document


def history_documents(entries: Sequence[Entry]) -> list[Document]:
    """The incarnation's resolutions."""
    return [entry_document(entry) for entry in entries]


def outcome_document(outcome: TerminalOutcome) -> Document:
    """How it ended: `{"status", "result" | "error" | "reason"}`."""
    match outcome:
        case Completed(result):
            return {"status": "completed", "result": raw(result)}
        case Failed(error):
            return {"status": "failed", "error": error_document(error)}
        case CancelledOutcome(reason):
            return {"status": "cancelled", "reason": reason}


def awaited_document(record: ExecutionRecord) -> Document:
    """`ys.outcome/1`: what `ys wait` answers."""
    outcome: Document = _outcome(record) or _status(record)
    took_ms = None if record.outcome is None else record.updated_at - record.admitted_at
    return {
        "schema": "ys.outcome/1",
        "execution_id": record.execution_id,
        **outcome,
        "took_ms": took_ms,
    }


def error_document(json_text: str) -> Document:
    """A recorded error."""
    return _error(view_error(json_text))


def _error(view: ErrorView) -> Document:
    return {
        "name": view.name,
        "message": view.message,
        "notes": list(view.notes),
        "cause": None if view.cause is None else _error(view.cause),
        "members": [_error(member) for member in view.members],
        "traceback": view.traceback,
    }
