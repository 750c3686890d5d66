"""How a delivery writes its rounds and ends with an outcome (spec E9-E11, R10, C7, L2)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from yieldstar_cli.clock import Clock
from yieldstar_cli.model import (
    HISTORY_FORMAT,
    Continued,
    Delivery,
    Entry,
    Recorded,
    Round,
    Suspended,
    Wait,
)
from yieldstar_cli.storage.sqlite import records, tokens
from yieldstar_cli.storage.sqlite.actions import Actions, Done
from yieldstar_cli.storage.sqlite.consequences import Consequences, Ended
from yieldstar_cli.storage.sqlite.database import Database, joined
from yieldstar_cli.storage.sqlite.history import History
from yieldstar_cli.storage.sqlite.inbox import SqliteInbox
from yieldstar_cli.storage.sqlite.looks import Looks
from yieldstar_cli.storage.sqlite.waits import Waits

# Something new forgives the deaths before it: an execution that kills its worker records nothing.
_PROGRESS = """
UPDATE executions
   SET operations     = operations + :entries,
       last_moment    = CASE WHEN :moment IS NULL THEN last_moment
                             ELSE max(ifnull(last_moment, :moment), :moment) END,
       progress_token = CASE WHEN :progress THEN token ELSE progress_token END,
       deaths         = CASE WHEN :progress THEN 0 ELSE deaths END,
       status_value   = ifnull(:status_value, status_value),
       cancel_told    = max(cancel_told, :told),
       updated_at     = max(updated_at, :now)
"""
_ACKNOWLEDGED = """,
       covered_due_at = NULL,
       claimed_by     = NULL,
       acked_token    = token,
       acked_at       = :now,
       problem        = NULL
"""
# Liveness of a token is in every write's own WHERE (L2): the claim it came from is still open.
_LIVE = """
 WHERE n = :n AND token = :token AND claimed_by IS NOT NULL
"""
_TOLD = "cancel_at IS NOT NULL AND NOT cancel_told"
RECORD = joined(
    _PROGRESS,
    _LIVE,
    "RETURNING operations, incarnation, nudged > 0 OR",
    _TOLD,
)
# The covered wakes are cleared; what counts is what was asked for since the claim, and the
# delivery's own waits (E9).
SUSPEND = joined(
    _PROGRESS,
    _ACKNOWLEDGED,
    """,
       status         = 'suspended',
       due_at         = CASE WHEN :due_at IS NULL THEN due_at
                             ELSE min(ifnull(due_at, :due_at), :due_at) END,
       needs          = :needs,
       needs_since    = CASE WHEN :needs IS NOT NULL THEN :now END
""",
    _LIVE,
    "RETURNING due_at",
)
# Becoming terminal clears every pending wake (E10).
FINISH = joined(
    _PROGRESS,
    _ACKNOWLEDGED,
    """,
       status         = :status,
       outcome        = :outcome,
       due_at         = NULL,
       paused         = NULL,
       needs          = NULL,
       needs_since    = NULL
""",
    _LIVE,
    "RETURNING operations, incarnation, execution_id, updated_at",
)
# The next incarnation begins with an empty history, under the same ID, due now (C7).
CONTINUE = joined(
    _PROGRESS,
    _ACKNOWLEDGED,
    """,
       status         = 'suspended',
       due_at         = min(ifnull(due_at, :now), :now),
       incarnation    = incarnation + 1,
       operations     = 0,
       params         = :params,
       version        = :version,
       format         = :format,
       started_at     = NULL,
       needs          = NULL,
       needs_since    = NULL
""",
    _LIVE,
    "RETURNING incarnation",
)
# The request to cancel came when the function had left: it survives, for the next one (C6).
TELL_AGAIN = "UPDATE executions SET cancel_told = 0 WHERE n = :n"
OPEN = joined("SELECT operations, incarnation FROM executions", _LIVE)

_NOTHING = Done((), (), again=False)


class Endings:
    """Rounds and acknowledgements of a live delivery, inside the transaction under way."""

    def __init__(
        self,
        db: Database,
        history: History,
        waits: Waits,
        actions: Actions,
        consequences: Consequences,
        inbox: SqliteInbox,
        looks: Looks,
        *,
        clock: Clock,
    ) -> None:
        self._db = db
        self._history = history
        self._waits = waits
        self._actions = actions
        self._consequences = consequences
        self._inbox = inbox
        self._looks = looks
        self._clock = clock

    def end(self, delivery: Delivery, changes: Round, *, must_end: bool = False) -> Recorded:
        """Write one round and, with an outcome, end the delivery; answers what came of it.

        With `must_end` a suspension is performed also where a wait is ready; it is due then.
        """
        number = tokens.number_of(self._db, delivery)
        bindings = self._progress(number, delivery, changes)
        if not changes.actions:
            # One statement is enough.
            if changes.outcome is None:
                return self._record(delivery, changes, bindings)
            if not isinstance(changes.outcome, Suspended | Continued):
                return self._finish(delivery, changes, bindings)
        row = self._db.row(OPEN, bindings)
        if row is None:
            return tokens.told_again(self._db, delivery, changes)
        operations, incarnation = row
        entries, holds, again = self._write(bindings, incarnation, operations, changes)
        if again:
            # A store is at another version than its change was computed from: this goes on, or
            # ends, once that is computed anew (S2).
            self._db.rows(RECORD, bindings)
            return Recorded(None, entries, ready=True, holds=holds)
        match changes.outcome:
            case None:
                self._db.rows(RECORD, bindings)
                ready = self._looks.ready(number, told=changes.told).anything
                return Recorded(None, entries, ready, holds)
            case Suspended(due_at):
                return self._suspend(changes, bindings, entries, due_at, must_end=must_end)
            case Continued() as continued:
                return self._continue(bindings, incarnation, entries, continued)
            case _:
                return self._finish(delivery, changes, bindings, entries)

    def _progress(self, number: int, delivery: Delivery, changes: Round) -> dict[str, Any]:
        return {
            "n": number,
            "token": delivery.token,
            "status_value": changes.status_value,
            "told": changes.told,
            "now": self._clock.now_ms(),
            **_counted(changes, ()),
        }

    # --- the four ways a round goes ----------------------------------------------------------

    def _record(self, delivery: Delivery, changes: Round, bindings: dict[str, Any]) -> Recorded:
        row = self._db.row(RECORD, bindings)
        if row is None:
            return tokens.told_again(self._db, delivery, changes)
        operations, incarnation, stirred = row
        self._write(bindings, incarnation, operations - bindings["entries"], changes)
        # Otherwise nothing has become ready since the last look: an event raises `nudged`.
        if stirred or any(_outside(wait) for wait in changes.waits):
            ready = self._looks.ready(bindings["n"], told=changes.told).anything
            return Recorded(None, ready=ready)
        return Recorded(None)

    def _suspend(
        self,
        changes: Round,
        bindings: dict[str, Any],
        entries: tuple[Entry, ...],
        due_at: int | None,
        *,
        must_end: bool,
    ) -> Recorded:
        ready = self._looks.ready(bindings["n"], told=changes.told)
        if ready.anything:
            if not (must_end or ready.paused):
                self._db.rows(RECORD, bindings)
                return Recorded(None, entries, ready=True)
            # Not answered by this delivery, so the next one is due for it.
            due_at = bindings["now"] if due_at is None else min(due_at, bindings["now"])
        needs = json.dumps(changes.needs) if changes.needs else None
        suspended = self._db.row(SUSPEND, bindings | {"due_at": due_at, "needs": needs})
        assert suspended is not None, "its token was live a moment ago, in this same transaction"
        return Recorded(Suspended(suspended[0]), entries)

    def _continue(
        self,
        bindings: dict[str, Any],
        incarnation: int,
        entries: tuple[Entry, ...],
        continued: Continued,
    ) -> Recorded:
        number, now = bindings["n"], bindings["now"]
        self._history.keep_incarnation(number, incarnation, now, bindings["entries"])
        following = {
            "params": continued.params,
            "version": continued.version,
            "format": HISTORY_FORMAT,
        }
        assert self._db.row(CONTINUE, bindings | following) is not None, "its token was live"
        if continued.untold:
            self._db.rows(TELL_AGAIN, {"n": number})
        self._waits.end_all(number)
        self._history.end(number)
        return Recorded(continued, entries)

    def _finish(
        self,
        delivery: Delivery,
        changes: Round,
        bindings: dict[str, Any],
        entries: tuple[Entry, ...] = (),
    ) -> Recorded:
        """`entries` are those of actions: a message to itself still found it open."""
        assert changes.outcome is not None, "it ends"
        status, outcome = records.stored_outcome(changes.outcome)
        row = self._db.row(FINISH, bindings | {"status": status, "outcome": outcome})
        if row is None:
            return tokens.told_again(self._db, delivery, changes)
        operations, incarnation, execution_id, updated_at = row
        if not changes.actions:
            self._write(bindings, incarnation, operations - bindings["entries"], changes)
        number = bindings["n"]
        self._waits.end_all(number)
        self._history.end(number)
        ended = Ended(number, execution_id, status, updated_at)
        stirred = self._consequences.follow([ended], bindings["now"])
        return Recorded(changes.outcome, entries, stirred=stirred)

    # --- their parts -------------------------------------------------------------------------

    def _write(
        self, bindings: dict[str, Any], incarnation: int, first: int, changes: Round
    ) -> Done:
        """Everything but the record itself; `first` is the position of the first entry."""
        number, now = bindings["n"], bindings["now"]
        if changes.entries:
            # A gap would be read back as another history.
            last = first + len(changes.entries) - 1
            assert changes.entries[-1].position == last, "entries follow one another"
        self._history.write(number, incarnation, changes)
        if changes.unwait:
            self._waits.end(number, changes.unwait)
        if changes.consumed or changes.invalid:
            self._inbox.take(number, changes.consumed, changes.invalid, now)
        done = _NOTHING
        if changes.actions:
            position = first + len(changes.entries)
            token = bindings["token"]
            done = self._actions.perform(number, token, position, changes.actions, now)
            self._history.add_entries(number, incarnation, done.entries)
            bindings |= _counted(changes, done.entries)
        if changes.waits:
            # After the actions: a child that is awaited has been admitted by then.
            self._waits.put(number, changes.waits, now)
        return done


def _outside(wait: Wait) -> bool:
    """True for what others bring: it may be ready already."""
    return bool(wait.queue or wait.target or wait.store or wait.effect)


def _counted(changes: Round, made: Sequence[Entry]) -> dict[str, Any]:
    """What a round adds to the record's numbers; `made` are the entries of its actions."""
    moments = [x.at for x in (*changes.entries[-1:], *made[-1:])]
    return {
        "entries": len(changes.entries) + len(made),
        "moment": moments[-1] if moments else None,
        "progress": bool(moments or changes.attempts or isinstance(changes.outcome, Continued)),
    }
