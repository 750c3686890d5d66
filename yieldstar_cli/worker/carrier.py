"""Carries one delivery: look, apply, commit, start steps, until it suspends or ends (spec R4, R10).

A round collects what has happened, applies it one by one, and commits once; only then do the
steps that it led to start. One commit is under way at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from yieldstar_cli import failures
from yieldstar_cli.engine import attempts, faults, values
from yieldstar_cli.engine.operations import DurableHandle, State
from yieldstar_cli.errors import CodeFault, StaleDelivery
from yieldstar_cli.model import (
    Attempt,
    Claimed,
    Completed,
    Entry,
    Failed,
    Kind,
    Outcome,
    Round,
    Suspended,
    Wait,
)
from yieldstar_cli.worker.ports import Cancellable, Event, StepEnd
from yieldstar_cli.worker.tries import Tries
from yieldstar_cli.worker.waiting import due_timers, next_moment, open_waits, startable

if TYPE_CHECKING:
    from yieldstar_cli.engine.driver import Driver
    from yieldstar_cli.storage.contract import Writer
    from yieldstar_cli.worker.ports import Loop, Performers, Talk


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

    def schedule(self, carrier: Carrier) -> None:
        """Pump the carrier soon."""
        ...

    def enter_code(self, carrier: Carrier) -> None:
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

    def __init__(self, host: Host, claimed: Claimed, driver: Driver, result_type: Any) -> None:
        self.host = host
        self.claimed = claimed
        self.driver = driver
        self.over = False
        self.scheduled = False
        self._result_type = result_type
        self._tries = Tries(
            host.loop,
            host.performers,
            driver,
            claimed.delivery,
            ended=lambda: host.schedule(self),
            say=self._say,
        )
        self._committing = False
        self._timer: Cancellable | None = None
        self._waits: tuple[Wait, ...] = ()
        self._status = claimed.status_value_json
        #: True once it has recorded something new.
        self.recorded = False
        self._begun_at = host.loop.now_ms()

    @property
    def execution_id(self) -> str:
        """The execution that is delivered."""
        return self.claimed.delivery.execution_id

    def begin(self, waits: tuple[Wait, ...] = ()) -> None:
        """The driver has replayed: take up recorded tries, look, go on."""
        self._waits = waits
        for retry in self.claimed.retries:
            handle = self.driver.issued.get((retry.kind, retry.step_key))
            if handle is not None and handle.state is State.OPEN:
                handle.attempts = retry.attempts
                handle.errors = retry.errors
                handle.retry_at = retry.retry_at
        self.pump()

    # --- a round -------------------------------------------------------------------------

    def pump(self) -> None:
        """Do one round, if none is being committed."""
        if self._committing or self.over:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self.host.loop.now_ms()
        tries = self._apply_ready(now)
        driver = self.driver
        outcome: Outcome | None = None
        release = False
        if driver.fault is not None:
            release = not self._tries.running
        elif driver.finished:
            outcome = self._terminal()
        elif not self._tries.running:
            if startable(driver, self._tries, now):
                release = self.host.stopping
            else:
                moment = next_moment(driver, self._tries)
                if moment is None or moment > now or self.host.stopping:
                    outcome = Suspended(moment)
                # Else what was applied led to a wait that is ready: another round (R10).
        self._tries.stop_withdrawn()
        changes = self._round(tries, outcome)
        if release:
            self._release(changes)
        elif changes.empty:
            self._go_on()
        else:
            self._commit(changes)

    def _apply_ready(self, now: int) -> list[Attempt]:
        """Apply what is ready, one by one, in the order in which it became ready (spec O6)."""
        ready: list[tuple[int, int, int, DurableHandle[Any], StepEnd | None, str]] = []
        for handle, end, how in self._tries.take():
            ready.append((end.ended_at, handle.await_seq or 1 << 60, handle.seq, handle, end, how))
        for handle in due_timers(self.driver, now):
            assert handle.due_at is not None, "a timer has a moment"
            ready.append((handle.due_at, handle.await_seq, handle.seq, handle, None, ""))
        ready.sort(key=lambda item: item[:3])
        tries: list[Attempt] = []
        self.host.enter_code(self)
        try:
            for _, _, _, handle, ended, how in ready:
                if ended is not None:
                    self._apply_end(handle, ended, how, now, tries)
                elif handle.state is State.OPEN and handle.waiters and not self.driver.fault:
                    self._apply(handle, True, "null", now, handle.issued_at, 1)
        finally:
            self.host.leave_code()
        return tries

    def _apply_end(
        self, handle: DurableHandle[Any], end: StepEnd, how: str, now: int, tries: list[Attempt]
    ) -> None:
        attempt = handle.attempts + (not end.never_ran)
        if isinstance(end.error, CodeFault):
            self.driver.fault = self.driver.fault or faults.placed(end.error)
            return
        work = handle.work
        assert work is not None, "only steps and polls end"
        verdict = attempts.judge(self.driver, handle, end, now)
        if handle.state is State.OPEN and isinstance(verdict, attempts.Again):
            handle.attempts = attempt
            handle.errors += how != "empty" and end.error is not None
            handle.retry_at = verdict.at
            error = None if end.error is None else failures.encode_error(end.error)
            kind = "empty" if end.error is None else how
            tries.append(
                Attempt(
                    handle.key, handle.kind, attempt, end.started_at, now, kind, error, verdict.at
                )
            )
            self._say_attempt(handle, attempt, end, verdict.at)
            return
        final = verdict.error if isinstance(verdict, attempts.Final) else end.error
        if final is not None:
            ok, text = False, failures.encode_error(final)
        else:
            place, most = f"result of {handle.key}", self.host.max_value
            ok, text = values.encode_result(end.value, work.result_type, place, most)
        self._apply(handle, ok, text, now, end.started_at, attempt)
        self._say_attempt(handle, attempt, end, None)

    def _apply(
        self,
        handle: DurableHandle[Any],
        ok: bool,
        text: str,
        now: int,
        started_at: int | None,
        attempt: int,
    ) -> None:
        driver = self.driver
        entry = Entry(
            position=driver.position,
            kind=handle.kind,
            step_key=handle.key,
            ok=ok,
            value=text,
            at=max(now, driver.moment),
            started_at=started_at,
            attempt=attempt,
            label=handle.label,
            withdrawn=handle.state is not State.OPEN,
        )
        if driver.fault is not None:
            # What has ended is not lost: the next delivery replays it.
            driver.fresh.append(entry)
            driver.position += 1
        else:
            driver.apply(handle, entry)

    def _terminal(self) -> Outcome:
        driver = self.driver
        if driver.error is not None:
            return Failed(failures.encode_error(driver.error))
        ok, text = values.encode_result(
            driver.value, self._result_type, "result", self.host.max_value
        )
        return Completed(text) if ok else Failed(text)

    def _round(self, tries: list[Attempt], outcome: Outcome | None) -> Round:
        driver = self.driver
        if driver.fault is not None:
            return self._what_ended(tries)
        entries, driver.fresh = tuple(driver.fresh), []
        logs, driver.fresh_logs = tuple(driver.fresh_logs), []
        status, driver.status_value = driver.status_value, None
        if status == self._status:
            status = None  # set again by the replay
        elif status is not None:
            self._status = status
        terminal = outcome is not None and not isinstance(outcome, Suspended)
        waits: tuple[Wait, ...] = () if terminal else open_waits(driver, self._tries)
        changed = waits != self._waits
        self._waits = waits
        return Round(
            entries=entries,
            attempts=tuple(tries),
            logs=logs,
            status_value=status,
            waits=waits if changed and not terminal else None,
            outcome=outcome,
        )

    def _what_ended(self, tries: list[Attempt]) -> Round:
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
        ended = {(entry.kind, entry.step_key) for entry in entries}
        waits = tuple(w for w in self._waits if (w.kind, w.step_key) not in ended)
        changed, self._waits = waits != self._waits, waits
        return Round(entries=entries, attempts=tuple(tries), waits=waits if changed else None)

    # --- after the round -------------------------------------------------------------------

    def _commit(self, changes: Round) -> None:
        self._committing = True
        delivery = self.claimed.delivery
        self.host.writer.submit(
            lambda storage: storage.deliveries.record(delivery, changes),
            lambda outcome, error: self._committed(changes, outcome, error),
        )

    def _committed(
        self, changes: Round, outcome: Outcome | None, error: BaseException | None
    ) -> None:
        self._committing = False
        if self.over:
            return
        if error is not None:
            self._lost(error)
            return
        self.recorded = self.recorded or bool(changes.entries or changes.attempts)
        for line in changes.logs:
            self._say("log", text=line.text, attempt=line.level)
        if outcome is not None:
            if changes.outcome is None:
                self._say("ended elsewhere")
            self._finish(outcome)
            return
        # A wait that is ready goes before any step that could start (spec R10).
        if due_timers(self.driver, self.host.loop.now_ms()):
            self.pump()
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Start what may start, and wait for the next thing to happen."""
        now = self.host.loop.now_ms()
        driver = self.driver
        if driver.fault is None and not self.host.stopping:
            for handle in startable(driver, self._tries, now):
                self._tries.start(handle, now)
        if self._tries.waiting:
            self.host.schedule(self)
        moment = next_moment(driver, self._tries)
        if moment is not None and driver.fault is None:
            self._timer = self.host.loop.call_at(moment, lambda: self.host.schedule(self))

    # --- ends --------------------------------------------------------------------------------

    def _release(self, changes: Round) -> None:
        """Hand the execution back: for a fault of the code held, else at once (spec E12, K2)."""
        self._committing = True
        delivery = self.claimed.delivery
        fault = self.driver.fault
        module = self.driver.definition.module_state

        def request(storage: Any) -> Outcome | None:
            if not changes.empty:
                ended: Outcome | None = storage.deliveries.record(delivery, changes)
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
        if outcome is not None:
            took = self.host.loop.now_ms() - self._begun_at
            due = outcome.due_at if isinstance(outcome, Suspended) else None
            kind = {"Suspended": "suspended", "Completed": "completed", "Failed": "failed"}.get(
                type(outcome).__name__, "cancelled"
            )
            text = ""
            if isinstance(outcome, Failed):
                text = failures.summarize(outcome.error)
            self._say(kind, took_ms=took, due_at=due, text=text)
        self.host.ended(self, None if lost else outcome)

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

    @property
    def waits(self) -> tuple[Wait, ...]:
        """The open operations as last recorded."""
        return self._waits

    # --- talk --------------------------------------------------------------------------------

    def _say_attempt(
        self, handle: DurableHandle[Any], attempt: int, end: StepEnd, again_at: int | None
    ) -> None:
        failed = end.error is not None
        self._say(
            "step_failed" if failed else "step_completed",
            step_key=handle.key,
            attempt=attempt,
            took_ms=max(0, end.ended_at - end.started_at),
            due_at=again_at,
            text=f"{type(end.error).__name__}: {failures.message_of(end.error, 500)}"
            if end.error is not None
            else "",
        )

    def _say(self, kind: str, **more: Any) -> None:
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
