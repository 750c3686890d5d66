"""Checks and admits one execution, and tells what became of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from yieldstar_cli.cli import documents
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.conflicts import TriggerConflict, free_id, is_same
from yieldstar_cli.cli.given import read_object, read_pairs
from yieldstar_cli.cli.opened import trust_of
from yieldstar_cli.cli.render import document, safe, values
from yieldstar_cli.cli.steering import hint_paused, hint_worker
from yieldstar_cli.cli.typed import typed
from yieldstar_cli.errors import CommitUnknown, ExecutionIdConflict, UnserializableValue
from yieldstar_cli.json_text import Json
from yieldstar_cli.model import ExecutionRecord
from yieldstar_cli.nouns import dataclass
from yieldstar_cli.project import Project

if TYPE_CHECKING:
    from yieldstar_cli.checking import Target
    from yieldstar_cli.params_plain import Pair
    from yieldstar_cli.storage.contract import Storage


@dataclass(frozen=True, slots=True)
class Asked:
    """The words of one `ys trigger`."""

    workflow_id: str
    execution_id: str | None
    params: tuple[str, ...]
    whole: str | None
    context: tuple[str, ...]
    at: int | None
    if_exists: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be stored: everything is checked."""

    asked: Asked
    version: int
    params_json: str
    context: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Admitted:
    """The record, and whether this call made it."""

    record: ExecutionRecord
    created: bool


def admit(call: Call, project: Project, storage: Storage, asked: Asked) -> Admitted:
    """Admit the execution, or give the one that `--if-exists` accepts in its place."""
    ready = _checked(call, project, storage, asked)
    from yieldstar_cli.runtime_open import ring_workers

    try:
        record = storage.executions.admit(
            workflow_id=asked.workflow_id,
            params=Json(ready.params_json),
            context=ready.context,
            execution_id=asked.execution_id,
            at=asked.at,
            version=ready.version,
        )
    except ExecutionIdConflict as conflict:
        existing = storage.executions.get(conflict.execution_id)
        if existing is None:
            raise
        return Admitted(_accepted(call, storage, ready, existing), created=False)
    except CommitUnknown as error:
        name = asked.execution_id
        look = "ys list --sort admitted -n 1" if name is None else f"ys show {typed(name)}"
        raise CommitUnknown(
            f"it is not known whether {name or 'the execution'} was admitted",
            why=("An I/O error struck in the commit: it may or may not stand.", *error.why),
            remedy=(f"This tells: {look}",),
        ) from error
    ring_workers(storage, project.db)
    return Admitted(record, created=True)


def plan(call: Call, project: Project, asked: Asked) -> Plan:
    """Check everything that `admit` would check, and store nothing."""
    if not os.path.exists(project.db):
        return _checked(call, project, None, asked)
    from yieldstar_cli.cli.opened import open_reading

    storage = open_reading(call, project)
    ready = _checked(call, project, storage, asked)
    existing = storage.executions.get(asked.execution_id) if asked.execution_id else None
    if existing is not None:
        _accepted(call, storage, ready, existing)
    return ready


def _checked(call: Call, project: Project, storage: Storage | None, asked: Asked) -> Plan:
    from yieldstar_cli import checking

    limit = project.settings.max_value
    base = read_object(asked.whole, limit)
    pairs = read_pairs("-p", asked.params, limit)
    carried = read_pairs("--context", asked.context, limit)
    target = checking.by_name(storage, project, asked.workflow_id, trust=trust_of(call))
    if not target.checked:
        call.say("No workflow directory is in reach: name and params are not checked.")
    plain = target.plain_text(pairs, limit) if base is None else None
    fitted = _fitted(target, pairs, base, limit) if plain is None else plain
    return Plan(asked, target.version, fitted, _context(carried) if carried else {})


def _fitted(target: Target, pairs: list[Pair], base: object, limit: int) -> str:
    from yieldstar_cli import params

    value = params.coerce(target.params_type(), pairs, base)
    fitted = target.fit(value, limit=limit)
    return fitted if isinstance(fitted, Json) else _encoded(fitted, limit)


def _context(carried: list[Pair]) -> dict[str, Any]:
    from yieldstar_cli import params

    found: dict[str, Any] = params.coerce(None, carried, place="context", option="--context")
    return found


def _encoded(value: object, limit: int) -> str:
    from yieldstar_cli import codec
    from yieldstar_cli.errors import InvalidExecutionEvent

    try:
        return codec.encode(value, place="params", limit=limit)
    except UnserializableValue as error:
        raise InvalidExecutionEvent(error.place, error.reason) from None


def _accepted(
    call: Call, storage: Storage, ready: Plan, existing: ExecutionRecord
) -> ExecutionRecord:
    """The existing record, where `--if-exists` accepts it. Raises TriggerConflict."""
    asked = ready.asked
    same = is_same(existing, asked.workflow_id, ready.params_json)
    if asked.if_exists == "show" or (asked.if_exists == "same" and same):
        return existing
    raise TriggerConflict(
        existing,
        asked.workflow_id,
        ready.params_json,
        free_id(storage, existing.execution_id),
        call.times,
    )


# --- telling ----------------------------------------------------------------------------------


def tell_admitted(call: Call, project: Project, storage: Storage, admitted: Admitted) -> None:
    """Print the ID, the record or a sentence, as stdout asks for it."""
    record = admitted.record
    if call.settings.json:
        found = documents.execution_document(record)
        call.print_document({**found, "created": admitted.created})
        return
    tell_name(call, admitted)
    drawn = call.drawn and not call.settings.quiet
    if drawn and admitted.created and not hint_paused(call, storage, record.execution_id):
        hint_worker(call, project, storage)


def tell_name(call: Call, admitted: Admitted) -> None:
    """Print the ID; on a terminal a sentence with it."""
    record = admitted.record
    name = safe.visible(record.execution_id)
    if not call.drawn or call.settings.quiet:
        call.print(name)
        return
    look = call.look
    what = f"{name} ({safe.visible(record.workflow_id)})"
    if not admitted.created:
        call.print(f"{look.g('·')} {what} exists and is {record.status}. Nothing was changed.")
        return
    due = record.due_at
    soon = due is None or due <= call.clock.now_ms()
    when = "Due now." if soon or due is None else f"Due {call.times.coming(due)}."
    call.print(f"{look.paint('good', look.g('✓'))} Admitted {what}. {when}")


def tell_plan(call: Call, ready: Plan) -> None:
    """Print what would be stored."""
    asked = ready.asked
    if call.settings.json:
        call.print_document(
            {
                "schema": "ys.execution/1",
                "execution_id": asked.execution_id,
                "workflow_id": asked.workflow_id,
                "version": ready.version,
                "status": "admitted",
                "params": document.raw(ready.params_json),
                "context": ready.context,
                "due_at": documents.moment(asked.at),
                "created": False,
            }
        )
        return
    look = call.look
    name = safe.visible(asked.execution_id) if asked.execution_id is not None else "a new ID"
    when = "due now" if asked.at is None else f"due {call.times.coming(asked.at)}"
    call.print(f"Would admit {name} ({safe.visible(asked.workflow_id)}), {when}.")
    shown = values.pairs(ready.params_json, look.width - 15, reveal=False, ellipsis=look.g("…"))
    call.print(f"  {'params':<12}{shown}", "Nothing was stored.")
