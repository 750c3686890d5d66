"""Carries one delivery: look, apply, commit, start steps, until it suspends or ends (spec R4, R10).

A round collects what has happened, applies it one by one, and commits once; only then do the
steps that it led to start. One commit is under way at a time.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from yieldstar_cli import failures
from yieldstar_cli.engine import values
from yieldstar_cli.engine.effects import EffectHandle, Standing
from yieldstar_cli.engine.ledger import ACTIONS_AT_ONCE
from yieldstar_cli.engine.operations import DurableHandle, State
from yieldstar_cli.errors import Cancelled, LeaseEnded, StaleDelivery
from yieldstar_cli.model import (
    Action,
    CancelledOutcome,
    Claimed,
    Completed,
    Continued,
    Entry,
    Failed,
    Kind,
    Outcome,
    Recorded,
    Round,
    SettleEffect,
    Suspended,
)
from yieldstar_cli.worker.applying import Applying, Taken
from yieldstar_cli.worker.effects import Effects
from yieldstar_cli.worker.looks import Looks
from yieldstar_cli.worker.ports import Cancellable, Event, StepEnd
from yieldstar_cli.worker.tries import Tries

if TYPE_CHECKING:
    from yieldstar_cli.engine.definition import Definition
    from yieldstar_cli.engine.driver import Driver
    from yieldstar_cli.storage.contract import Deliveries, Writer
    from yieldstar_cli.worker.ports import Loop, Performers, Talk
    from yieldstar_cli.worker.waiting import Waiting

#: What people are told of an outcome.
_SAID = {
    Suspended: "suspended",
    Completed: "completed",
    Failed: "failed",
    CancelledOutcome: "cancelled",
    Continued: "continued",
}


class Host(Protocol):
    """What a carrier needs of the dispatcher."""

    @property
    def loop(self) -> Loop: ...
    @property
    def performers(self) -> Performers: ...
    @property
    def writer(self) -> Writer: ...
    @property
    def talk(self) -> Talk: ...
    @property
    def stopping(self) -> bool: ...
    @property
    def max_value(self) -> int: ...
    @property
    def tags(self) -> frozenset[str]: ...
    @property
    def untold(self) -> Container[str]:
        """Kinds of events that `talk` does nothing with."""
        ...

    def leased(self) -> bool:
        """False once others may take over what this worker has claimed; callable anywhere."""
        ...

    def latest(self, definition: Definition) -> int:
        """The version that the next incarnation of a `definition` runs (spec R11)."""
        ...

    def commit(self, carrier: Carrier, changes: Round) -> None:
        """Write a round, together with those of the same turn; `carrier.committed` is told."""
        ...

    def rouse(self) -> None:
        """By what was committed others may be due, here or in another worker."""
        ...

    def schedule(self, carrier: Carrier) -> None:
        """Pump the carrier soon."""
        ...

    def enter_code(self, carrier: Carrier, now: int) -> None:
        """Workflow code of this carrier is about to run (spec L5, R12)."""
        ...

    def leave_code(self) -> None:
        """It came to its next await."""
        ...

    def hold(self, carrier: Carrier, error: BaseException) -> None:
        """An infrastructure error kept the delivery from being recorded (spec E12)."""
        ...

    def ended(self, carrier: Carrier, outcome: Outcome | None) -> None:
        """The delivery is over; `outcome` is None when it was released or lost."""
        ...


class Carrier:
    """One delivery of one execution, from its claim to its acknowledgement."""

    __slots__ = (
        "_applying",
        "_begun_at",
        "_committing",
        "_effects",
        "_looks",
        "_nudged",
        "_pressed",
        "_result_type",
        "_status",
        "_timer",
        "_tries",
        "claimed",
        "driver",
        "host",
        "over",
        "recorded",
        "scheduled",
        "suspending",
        "waiting",
    )

    def __init__(
        self,
        host: Host,
        claimed: Claimed,
        driver: Driver,
        waiting: Waiting,
        result_type: Any,
        deliveries: Deliveries,
    ) -> None:
        self.host = host
        self.claimed = claimed
        self.driver = driver
        self.waiting = waiting
        self.over = False
        self.scheduled = False
        self._result_type = result_type
        self._tries = Tries(
            host.loop,
            host.performers,
            driver,
            claimed.delivery,
            ended=self._wake,
            say=self._say,
            late=self._ended_late,
            guard=self._may_act,
        )
        self._looks = Looks(deliveries, claimed.delivery, driver, waiting)
        self._effects = Effects(driver, waiting, self._tries, max_value=host.max_value)
        self._applying = Applying(
            driver,
            waiting,
            self._tries,
            self._looks,
            self._effects,
            max_value=host.max_value,
            said=self._say_attempt,
        )
        self._committing = False
        #: True while a suspension is being committed: it may be claimed again before we hear of it.
        self.suspending = False
        self._timer: Cancellable | None = None
        self._status = claimed.status_value_json
        self._nudged = 0
        #: True when a suspension was refused since something was ready, and it is to leave.
        self._pressed = False
        #: True once it has recorded something new.
        self.recorded = False
        self._begun_at = host.loop.now_ms()

    @property
    def execution_id(self) -> str:
        """The execution that is delivered."""
        return self.claimed.delivery.execution_id

    def begin(self) -> None:
        """The driver has replayed: take up recorded tries, look, go on."""
        self._effects.begin()
        for retry in self.claimed.retries:
            handle = self.driver.issued.get((retry.kind, retry.step_key))
            if handle is not None and handle.state is State.OPEN:
                handle.attempts = retry.attempts
                handle.errors = retry.errors
                handle.retry_at = retry.retry_at
                self.waiting.touch(handle)
        self.waiting.absorb()
        self._looks.stale = self.claimed.cancelling or self.waiting.outside
        self.pump()

    def nudge(self, count: int) -> None:
        """Something has happened for it that a look would find; `count` rises each time (R10)."""
        if count > self._nudged:
            self._nudged = count
            self._looks.stale = True
            self.host.schedule(self)

    def _wake(self) -> None:
        self.host.schedule(self)

    # --- a round -------------------------------------------------------------------------

    @property
    def _leaving(self) -> bool:
        """True when nothing new is to begin here: the worker stops, or the execution is paused."""
        return self.host.stopping or self._looks.paused

    def pump(self) -> None:
        """Do one round, if none is being committed."""
        if self._committing or self.over:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self.host.loop.now_ms()
        self._apply(now)
        driver = self.driver
        if driver.actions:
            driver.let_go()
        self._tries.stop_withdrawn()
        if driver.effects:
            self._about_effects(now)
        outcome: Outcome | None = None
        release = False
        if driver.fault is not None:
            release = not self._tries.running
        elif driver.finished and driver.effects and self._effects.running:
            pass  # what it comes to is kept, for whoever asks for the same effect
        elif driver.finished:
            # What went out at the end and is too much for one commit goes ahead of it.
            outcome = self._terminal() if len(driver.actions) <= ACTIONS_AT_ONCE else None
        elif not self._tries.running and (
            not driver.actions or self._effects.only_let_go(driver.actions)
        ):
            if self._startable(now) or self._looks.asked:
                # A question that is open is answered by the next look, here or elsewhere.
                release = self.host.stopping
                if self._looks.paused and not release:
                    outcome = Suspended(now)  # it goes on as soon as it is resumed (E14)
            elif self._pressed:
                release = True
            else:
                moment = self.waiting.next_moment(self._tries, now, self.host.tags)
                if moment is None or moment > now or self._leaving:
                    outcome = Suspended(moment)
                # Else what was applied led to a wait that is ready: another round (R10).
        if isinstance(outcome, Suspended) and driver.effects:
            self._effects.let_go(suspends=True)
            if len(driver.actions) > ACTIONS_AT_ONCE:
                outcome = None
        changes = self._round(now, outcome)
        if release:
            self._release(changes)
        elif changes.empty:
            self._go_on(now)
        else:
            self._commit(changes)

    def _about_effects(self, now: int) -> None:
        """Ask for the rights to what may be tried now, and give back those to what may not."""
        if not self._leaving and self._looks.cancel is None:
            self._effects.ask(now)
        if self.driver.fault is None:
            self._effects.let_go()

    def _apply(self, now: int) -> None:
        """Apply what is ready; a request to cancel once no step is left that has to end first."""
        if self._applying.idle(now) and self._looks.cancel is None:
            return
        self.host.enter_code(self, now)
        try:
            if self._looks.stale and not self.host.stopping:
                self._looks.refresh()
                self._effects.ask_again()
            self._applying.apply_ready(now, outside=not self._leaving)
            if self._looks.cancel is not None and self._cancellable:
                if not self.driver.closing:
                    self._tries.stop_async()
                if self.driver.closing or not self._tries.must_end:
                    self._applying.apply_cancel(now)
        finally:
            self.host.leave_code()

    @property
    def _cancellable(self) -> bool:
        return not self._leaving and not self.driver.fault and not self.driver.finished

    def _startable(self, now: int) -> list[DurableHandle[Any]]:
        if self._looks.cancel is not None:
            return []
        return self.waiting.startable(self._tries, now, self.host.tags)

    def _terminal(self) -> Outcome:
        driver = self.driver
        if driver.continuing is not None:
            version = self.host.latest(driver.definition)
            return Continued(driver.continuing, version, driver.untold)
        if driver.error is not None:
            if driver.cancelled and isinstance(driver.error, Cancelled):
                return CancelledOutcome(driver.cancel_reason)
            return Failed(failures.encode_error(driver.error))
        ok, text = values.encode_result(
            driver.value, self._result_type, "result", self.host.max_value
        )
        return Completed(text) if ok else Failed(text)

    def _round(self, now: int, outcome: Outcome | None) -> Round:
        driver = self.driver
        taken = self._applying.take()
        if driver.fault is not None:
            return self._what_ended(taken)
        entries, driver.fresh = tuple(driver.fresh), []
        logs, driver.fresh_logs = tuple(driver.fresh_logs), []
        status, driver.status_value = driver.status_value, None
        if status == self._status:
            status = None  # set again by the replay
        elif status is not None:
            self._status = status
        ends = outcome is not None and not isinstance(outcome, Suspended)
        suspends = isinstance(outcome, Suspended)
        tags = self.host.tags
        needs = self.waiting.needs(self._tries, now, tags) if suspends else ()
        put, gone = ((), ()) if ends else self.waiting.changes(self._tries, now, tags)
        # By position: keywords cost as much again.
        return Round(
            entries,
            taken.attempts,
            logs,
            status,
            put,
            gone,
            taken.consumed,
            taken.invalid,
            driver.take_actions(max(now, driver.moment)) if driver.actions else (),
            taken.told,
            needs,
            outcome,
        )

    def _what_ended(self, taken: Taken) -> Round:
        """After a fault of the code: what has ended is kept, and nothing of what the code said.

        Once it is put right it runs again: its log lines, its status, its waits and the answers
        of `patched` that nothing was recorded after are then made anew (spec E12).
        """
        driver = self.driver
        while driver.fresh and driver.fresh[-1].kind == Kind.PATCH:
            driver.fresh.pop()
            driver.position -= 1
        entries, driver.fresh = tuple(driver.fresh), []
        driver.fresh_logs, driver.status_value = [], None
        return Round(
            entries=entries,
            attempts=taken.attempts,
            unwait=self.waiting.forget((entry.kind, entry.step_key) for entry in entries),
            consumed=taken.consumed,
            invalid=taken.invalid,
            told=taken.told,
        )

    # --- after the round -------------------------------------------------------------------

    def _commit(self, changes: Round) -> None:
        self._committing = True
        self.suspending = isinstance(changes.outcome, Suspended)
        self.host.commit(self, changes)

    def committed(
        self, changes: Round, recorded: Recorded | None, error: BaseException | None
    ) -> None:
        """The round is written, or `error` says why it is not."""
        self._committing = self.suspending = False
        if self.over:
            return
        if error is not None or recorded is None:
            if isinstance(error, StaleDelivery):
                self._keep_late(changes.actions)
            self._lost(error or RuntimeError("the writer gave no answer"))
            return
        self.recorded = self.recorded or bool(changes.entries or changes.attempts)
        for line in changes.logs:
            self._say("log", text=line.text, attempt=line.level)
        if changes.actions or changes.needs or recorded.stirred:
            self.host.rouse()
        if recorded.outcome is not None:
            if recorded.outcome != changes.outcome:
                self._keep_late(changes.actions)
            if changes.outcome is None:
                self._say("ended elsewhere")
            self._finish(recorded.outcome)
            return
        if recorded.ready:
            self._looks.stale = True
            self._pressed = self._leaving and changes.outcome is not None
        if recorded.holds:
            self._effects.told(recorded.holds)
        if recorded.entries:
            self._feed(recorded.entries, self.host.loop.now_ms())
        if self.driver.carried:
            self.driver.ask_again()
        # A wait that is ready goes before any step that could start (spec R10).
        more = recorded.ready or self._looks.asked or self._applying.more
        now = self.host.loop.now_ms()
        if recorded.entries or changes.actions or more or self._due(now):
            self.pump()
        else:
            self._go_on(now)

    def _feed(self, entries: tuple[Entry, ...], now: int) -> None:
        """Give the driver what the round's actions came to."""
        self.host.enter_code(self, now)
        try:
            self.driver.feed(entries)
        finally:
            self.host.leave_code()

    def _due(self, now: int) -> bool:
        moment = self.waiting.next_timer()
        return moment is not None and moment <= now

    def _go_on(self, now: int) -> None:
        """Start what may start, and wait for the next thing to happen."""
        driver = self.driver
        leaving = self._leaving
        if driver.fault is None and not leaving:
            for handle in self._startable(now):
                if isinstance(handle, EffectHandle) and handle.standing is not Standing.HELD:
                    self.host.schedule(self)  # its pause has just ended: the next round asks
                    continue
                self._tries.start(handle, now)
                self.waiting.started(handle)
        if self._tries.waiting or (driver.actions and driver.fault is None):
            self.host.schedule(self)
        if leaving or self._looks.cancel is not None:
            moment = self.waiting.next_timer()  # no pause ends before what runs has ended
        else:
            moment = self.waiting.next_moment(self._tries, now, self.host.tags)
        if leaving and moment is not None and moment <= now:
            moment = None  # a deadline that takes a look, which whoever goes on takes (spec S6)
        if moment is not None and driver.fault is None:
            self._timer = self.host.loop.call_at(moment, self._wake)

    # --- ends --------------------------------------------------------------------------------

    def _release(self, changes: Round) -> None:
        """Hand the execution back: for a fault of the code held, else at once (spec E12, K2)."""
        self._committing = True
        delivery = self.claimed.delivery
        fault = self.driver.fault
        module = self.driver.definition.module_state

        def request(storage: Any) -> Outcome | None:
            if not changes.empty:
                ended: Outcome | None = storage.deliveries.record(delivery, changes).outcome
                if ended is not None:
                    return ended
            if fault is None:
                storage.executions.release(delivery)
            else:
                storage.executions.release(
                    delivery,
                    how=fault.code,
                    problem=(fault.code, fault.message),
                    held=True,
                    module=module,
                )
            return None

        def reply(outcome: Outcome | None, error: BaseException | None) -> None:
            if error is not None:
                self._lost(error)
                return
            self._say(
                "released" if fault is None else "held",
                text="" if fault is None else f"{fault.code}: {fault.message}",
            )
            self._finish(outcome)

        self.host.writer.submit(request, reply)

    def _lost(self, error: BaseException) -> None:
        """A commit was refused or failed: nothing of it stands, the coroutine is dropped (R2)."""
        stale = isinstance(error, StaleDelivery)
        self._say("stale" if stale else "refused", text=str(error))
        self._finish(None, lost=True)
        if not stale:
            self._hold_when_quiet(error)

    def _finish(self, outcome: Outcome | None, *, lost: bool = False) -> None:
        self.over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._tries.close()
        self._applying.close()
        if outcome is not None:
            took = self.host.loop.now_ms() - self._begun_at
            due = outcome.due_at if isinstance(outcome, Suspended) else None
            text = ""
            if isinstance(outcome, Failed):
                text = failures.summarize(outcome.error)
            elif isinstance(outcome, CancelledOutcome):
                text = outcome.reason or ""
            self._say(_SAID[type(outcome)], took_ms=took, due_at=due, text=text)
        self.host.ended(self, None if lost else outcome)

    def _may_act(self) -> None:
        """Called where an effect is about to be tried: another may have it once the lease ends."""
        if not self.host.leased():
            raise LeaseEnded("this worker's lease has ended: whoever has it now looks it up first")

    def _ended_late(self, handle: DurableHandle[Any], end: StepEnd) -> None:
        """An effect was done by a delivery that is over: what it came to is told to people."""
        settled = self._effects.late(handle, end)
        if settled is not None:
            self._keep_late((settled,))

    def _keep_late(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, SettleEffect):
                self._submit_late(action)

    def _submit_late(self, settled: SettleEffect) -> None:
        self.host.writer.submit(
            lambda storage: storage.effects.late(
                settled.effect_id, self.execution_id, settled.result
            ),
            lambda _, error: None if error is None else self._say("refused", text=str(error)),
        )

    def abandon(self) -> None:
        """The lease is lost or the process stops: record nothing more."""
        if not self.over:
            self._finish(None, lost=True)

    def break_off(self, error: BaseException) -> None:
        """End it after an error of our own, to be delivered again (spec E12)."""
        self.abandon()
        self._hold_when_quiet(error)

    def _hold_when_quiet(self, error: BaseException) -> None:
        """Hand it back once no sync step of it runs, which would then run twice at once (L4)."""
        self._tries.when_quiet(lambda: self.host.hold(self, error))

    # --- talk --------------------------------------------------------------------------------

    def _say_attempt(
        self, handle: DurableHandle[Any], attempt: int, end: StepEnd, again_at: int | None
    ) -> None:
        kind = "step_completed" if end.error is None else "step_failed"
        if kind in self.host.untold:
            return
        self._say(
            kind,
            step_key=handle.key,
            attempt=attempt,
            took_ms=max(0, end.ended_at - end.started_at),
            due_at=again_at,
            text=f"{type(end.error).__name__}: {failures.message_of(end.error, 500)}"
            if end.error is not None
            else "",
        )

    def _say(self, kind: str, **more: Any) -> None:
        if kind in self.host.untold:
            return
        self.host.talk(
            Event(
                at=self.host.loop.now_ms(),
                kind=kind,
                execution_id=self.execution_id,
                workflow_id=self.claimed.workflow_id,
                **more,
            )
        )


__all__ = ["Carrier", "Host"]
