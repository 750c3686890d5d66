"""What a delivery does to executions, stores and effects, with its entry (C3, C4, M1, S3, F1)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from yieldstar_cli.errors import (
    ExecutionIdConflict,
    InvalidExecutionEvent,
    InvalidMessageEvent,
    InvalidStore,
    StoreConflict,
    YieldstarError,
)
from yieldstar_cli.ids import Chance
from yieldstar_cli.model import (
    HISTORY_FORMAT,
    Action,
    CancelOther,
    ChangeStore,
    Entry,
    Hold,
    HoldEffect,
    Kind,
    LetGoEffect,
    OpenStore,
    Send,
    SettleEffect,
    Start,
    WakeOther,
)
from yieldstar_cli.storage.sqlite import admission
from yieldstar_cli.storage.sqlite.consequences import Consequences
from yieldstar_cli.storage.sqlite.database import Database
from yieldstar_cli.storage.sqlite.effects import SqliteEffects
from yieldstar_cli.storage.sqlite.inbox import SqliteInbox
from yieldstar_cli.storage.sqlite.stores import SqliteStores
from yieldstar_cli.storage.sqlite.texts import plain

ADMIT_CHILD = """
INSERT INTO executions (execution_id, workflow_id, version, format, params, context, status,
                        admitted_at, updated_at, admission_nonce, seed, due_at, parent, detached)
VALUES (:execution_id, :workflow_id, :version, :format, :params, '{}', 'admitted',
        :now, :now, :nonce, :seed, :now, :parent, :detached)
    ON CONFLICT (execution_id) DO NOTHING
RETURNING n
"""
IN_USE = """
SELECT workflow_id, status, parent IS :parent AND params = :params, version
  FROM executions
 WHERE execution_id = :execution_id
"""
# A caller's wake, without a word where there is no such execution; it ends no hold (E12).
REQUEST_WAKE = """
UPDATE executions
   SET due_at = min(ifnull(due_at, :now), :now)
 WHERE execution_id = :execution_id
   AND status IN ('admitted', 'suspended')
RETURNING n
"""


class Done(NamedTuple):
    """What a round's actions came to."""

    entries: tuple[Entry, ...]
    #: How the effects stand that were asked for, where no entry says it.
    holds: tuple[Hold, ...]
    #: A store is at another version than its change was computed from: that is computed anew.
    again: bool


class Actions:
    """Performs the actions of a round, inside the transaction under way."""

    def __init__(
        self,
        db: Database,
        consequences: Consequences,
        inbox: SqliteInbox,
        stores: SqliteStores,
        effects: SqliteEffects,
        *,
        chance: Chance,
    ) -> None:
        self._db = db
        self._consequences = consequences
        self._inbox = inbox
        self._stores = stores
        self._effects = effects
        self._chance = chance
        #: Whether messages wait for executions that are not admitted yet; None: look.
        self._sent_ahead: bool | None = None

    def perform(
        self, number: int, token: int, position: int, actions: Sequence[Action], now: int
    ) -> Done:
        """Do all of `actions` for execution `number`; their entries stand from `position` on.

        A change of a store that meets another version is not made and has no entry, unless that
        is how it is to fail (S2); nor has an effect that is not settled (F1).
        """
        entries: list[Entry] = []
        holds: list[Hold] = []
        again = False
        self._sent_ahead = None
        for action in actions:
            if isinstance(action, LetGoEffect):
                self._effects.let_go(number, action.step_key, action.effect_id, now)
                continue
            if isinstance(action, HoldEffect):
                held = self._effects.hold(number, token, action, now)
                if isinstance(held, Hold):
                    holds.append(held)
                    continue
                entry: Entry | None = _effect(action, position + len(entries), *held)
            else:
                entry = self._perform(number, position + len(entries), action, now)
            if entry is None:
                again = True
            else:
                entries.append(entry)
        return Done(tuple(entries), tuple(holds), again)

    def _perform(self, number: int, position: int, action: Action, now: int) -> Entry | None:
        match action:
            case SettleEffect():
                result = self._effects.settle(number, action, now)
                return _effect(action, position, True, result)
            case Start():
                kind, (ok, value) = Kind.START, self._start(number, action, now)
                label = action.execution_id
            case Send():
                kind, (ok, value) = Kind.SEND, self._send(action)
                label = f"{action.execution_id} {action.queue}"
            case WakeOther():
                kind, (ok, value) = Kind.WAKE, (True, json.dumps(self._wake(action, now)))
                label = action.execution_id
            case CancelOther():
                kind, (ok, value) = Kind.CANCEL_CHILD, (True, json.dumps(self._cancel(action, now)))
                label = action.execution_id
            case OpenStore():
                kind, (ok, value) = Kind.STORE, self._open(action)
                label = f"{action.name} {action.store_id}"
            case ChangeStore():
                changed = self._change(action)
                if changed is None:
                    return None
                kind, (ok, value) = Kind(action.kind), changed
                label = f"{action.name} {action.store_id}"
            case HoldEffect() | LetGoEffect():
                raise AssertionError("done by perform")
        return Entry(
            position=position,
            kind=kind,
            step_key=action.step_key,
            ok=ok,
            value=value,
            at=action.at,
            label=plain(label),
            withdrawn=action.withdrawn,
        )

    def _start(self, number: int, start: Start, now: int) -> tuple[bool, str]:
        """Admit a child, unless its ID is taken by another than this one's same child (C3)."""
        try:
            child = {
                "execution_id": admission.checked_id(start.execution_id),
                "workflow_id": admission.checked_workflow(start.workflow_id),
                "version": admission.checked_version(start.version),
                "format": HISTORY_FORMAT,
                "params": start.params,
                "now": now,
                "nonce": self._chance.seed(),
                "seed": self._chance.seed(),
                "parent": number,
                "detached": start.detached,
            }
            version = self._admit(child, start, now)
        except (InvalidExecutionEvent, ExecutionIdConflict) as error:
            return False, _refusal(error)
        # Told again to a replay: another workflow under this key would be other code (R5).
        # And with what version it was checked; the name alone is version 1 (R11).
        told = start.workflow_id if version == 1 else [start.workflow_id, version]
        return True, json.dumps(told, separators=(",", ":"))

    def _admit(self, child: dict[str, object], start: Start, now: int) -> int:
        """The version of the child, which may have been there already."""
        admitted = self._db.row(ADMIT_CHILD, child)
        if admitted is not None:
            if self._sent_ahead is None:
                # Asked once for a thousand children, since there is hardly ever any.
                self._sent_ahead = self._inbox.any_sent_ahead()
            if self._sent_ahead:
                self._inbox.adopt(start.execution_id, admitted[0], now)
            return start.version
        workflow_id, status, own, version = self._db.rows(IN_USE, child)[0]
        if not own or workflow_id != start.workflow_id:
            raise ExecutionIdConflict(start.execution_id, workflow_id, status)
        return int(version)

    def _send(self, send: Send) -> tuple[bool, str]:
        try:
            self._sent_ahead = None
            answer = self._inbox.send_within(send.execution_id, send.queue, send.value, send.ttl_ms)
        except InvalidMessageEvent as error:
            return False, _refusal(error)
        return True, json.dumps(answer)

    def _wake(self, wake: WakeOther, now: int) -> str:
        number = self._known(wake.execution_id)
        if number is None:
            return "not_found"
        woken = self._db.row(REQUEST_WAKE, {"execution_id": wake.execution_id, "now": now})
        return "ignored" if woken is None else "requested"

    def _cancel(self, cancel: CancelOther, now: int) -> str:
        number = self._known(cancel.execution_id)
        if number is None:
            return "not_found"
        reason = None if cancel.reason is None else plain(cancel.reason)
        return self._consequences.cancel(number, reason, now)

    def _open(self, opened: OpenStore) -> tuple[bool, str]:
        try:
            standing = self._stores.open(opened)
        except InvalidStore as error:
            return False, _refusal(error)
        if standing is None:
            missing = f"there is no store {opened.name} {opened.store_id!r}"
            return False, _told(code="STORE_MISSING", message=missing)
        instance, version = standing
        return True, _told(instance=instance, version=version)

    def _change(self, change: ChangeStore) -> tuple[bool, str] | None:
        """None where the store is at another version, and whoever asked computes anew."""
        try:
            instance, version = self._stores.change(change)
        except StoreConflict as error:
            if not change.fails:
                return None
            return False, _told(code="STORE_CHANGED", message=error.message, version=error.actual)
        except InvalidStore as error:
            return False, _refusal(error)
        told = _told(instance=instance, version=version)
        return True, told if change.result is None else change.result

    def _known(self, execution_id: str) -> int | None:
        try:
            return self._consequences.find(admission.checked_id(execution_id))
        except InvalidExecutionEvent:
            return None


def _effect(action: HoldEffect | SettleEffect, position: int, ok: bool, value: str) -> Entry:
    """The entry of an effect's end: its result, or why it is refused."""
    tried = (action.started_at, action.attempt) if isinstance(action, SettleEffect) else (None, 1)
    return Entry(
        position=position,
        kind=Kind.EFFECT,
        step_key=action.step_key,
        ok=ok,
        value=value,
        at=action.at,
        started_at=tried[0],
        attempt=tried[1],
        label=plain(action.effect_id),
        withdrawn=action.withdrawn,
    )


def _refusal(error: YieldstarError) -> str:
    """Why it was refused, as the entry's value."""
    # With its name it is an error like any other to whoever shows the history.
    name = type(error).__name__
    told: dict[str, object] = {"name": name, "code": error.code, "message": error.message}
    if isinstance(error, ExecutionIdConflict):
        told |= {
            "execution_id": error.execution_id,
            "workflow_id": error.workflow_id,
            "status": error.status,
        }
    return _told(**told)


def _told(**told: object) -> str:
    """An entry's value that has names."""
    return json.dumps(told, separators=(",", ":"))
