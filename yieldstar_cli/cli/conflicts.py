"""Says what stands in the way when an execution ID exists already."""

from __future__ import annotations

import json
import shlex

from yieldstar_cli.cli import documents
from yieldstar_cli.cli.render import values
from yieldstar_cli.cli.render.times import Times, rough
from yieldstar_cli.cli.typed import typed
from yieldstar_cli.errors import ExecutionIdConflict
from yieldstar_cli.model import ExecutionRecord
from yieldstar_cli.storage.contract import Storage

#: What an error may say of a record: everything but what may be secret.
_PRIVATE = ("params", "context", "outcome", "status_value")


class TriggerConflict(ExecutionIdConflict):
    """The execution ID exists: its age, workflow, status, and whether the params are the same."""

    def __init__(
        self, record: ExecutionRecord, workflow_id: str, params_json: str, free: str, times: Times
    ) -> None:
        super().__init__(record.execution_id, record.workflow_id, str(record.status))
        name = typed(record.execution_id)
        same = _is_same_in_sight(record, workflow_id, params_json)
        self.message = f"{record.execution_id} already exists"
        self.why = (
            (
                f"It was triggered {rough(times.now_ms - record.admitted_at)} ago as "
                f"{record.workflow_id} with {_difference(record, params_json)}."
            ),
            f"It is {_state(record, times)}. Nothing was changed.",
        )
        again = " --if-exists show" if same else ""
        self.remedy = (
            f"See it: ys show {name}",
            f"Under a free ID: ys trigger {shlex.quote(workflow_id)} --id {shlex.quote(free)} …",
            *((f"Same call is fine: ys trigger …{again}      (exit 0)",) if same else ()),
        )
        self.execution = {
            key: value
            for key, value in documents.execution_document(record).items()
            if key not in _PRIVATE
        }


def is_same(record: ExecutionRecord, workflow_id: str, params_json: str) -> bool:
    """Whether the record is of this workflow with exactly these params, as far as is known."""
    if record.pruned_at is not None:
        return False
    return record.workflow_id == workflow_id and _canonical(record.params_json) == _canonical(
        params_json
    )


def _is_same_in_sight(record: ExecutionRecord, workflow_id: str, params_json: str) -> bool:
    """As `is_same`, but where something is secret it is not said: it could be guessed at."""
    if not is_same(record, workflow_id, params_json):
        return False
    return not _holds_secrets(record.params_json)


def _holds_secrets(json_text: str) -> bool:
    value = _load(json_text)
    return bool(values.masked(value) != value)


def free_id(storage: Storage, execution_id: str) -> str:
    """An ID like this one that no record has."""
    number = 2
    while storage.executions.get(f"{execution_id}-{number}") is not None:
        number += 1
    return f"{execution_id}-{number}"


def _difference(record: ExecutionRecord, params_json: str) -> str:
    """Which params differ, by name only; of secret ones it is not said whether they do."""
    if record.pruned_at is not None:
        return "params that are no longer kept"
    old, new = values.masked(_load(record.params_json)), values.masked(_load(params_json))
    if _canonical_value(old) == _canonical_value(new):
        secret = _holds_secrets(record.params_json) or _holds_secrets(params_json)
        return "the same params, secret ones aside" if secret else "the same params"
    if not isinstance(old, dict) or not isinstance(new, dict):
        return "other params"
    missing = object()
    keys = [
        key
        for key in sorted({*old, *new})
        if _canonical_value(old.get(key, missing)) != _canonical_value(new.get(key, missing))
    ]
    shown = ", ".join(keys[:5]) + (", …" if len(keys) > 5 else "")
    return f"other params ({shown} differ{'s' if len(keys) == 1 else ''})"


def _state(record: ExecutionRecord, times: Times) -> str:
    if record.status.terminal or record.due_at is None:
        return str(record.status)
    if record.due_at > times.now_ms:
        return f"{record.status} until {times.at(record.due_at)}"
    return f"{record.status} and due"


def _load(json_text: str) -> object:
    try:
        return json.loads(json_text)
    except (ValueError, RecursionError):
        return json_text


def _canonical(json_text: str) -> str:
    return _canonical_value(_load(json_text))


def _canonical_value(value: object) -> str:
    # Text tells 1, 1.0 and true apart, which == does not.
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, RecursionError):
        return repr(type(value))
