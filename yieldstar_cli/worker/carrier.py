"""Carries one delivery: look, apply, commit, start steps, until it suspends or ends (spec R4, R10).

A round collects what has happened, applies it one by one, and commits once; only then do the
steps that it led to start. One commit is under way at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from yieldstar_cli import failures
from yieldstar_cli.engine import attempts, faults, values
from yieldstar_cli.engine.operations import DurableHandle, State
from yieldstar_cli.errors import CodeFault, StaleDelivery, StepTimeout
from yieldstar_cli.model import (
    Attempt,
    Claimed,
    Completed,
    Entry,
    Failed,
    Kind,
    Outcome,
    Retry,
    Round,
    Suspended,
    Wait,
)
from yieldstar_cli.worker.ports import Cancellable, Event, Performed, StepCall, StepEnd

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


@dataclass(slots=True)
class _Running:
    """One attempt under way."""

    started_at: int
    attempt: int
    performed: Performed
    asynchronous: bool
    timer: Cancellable | None = None


class Carrier:
    """One delivery of one execution, from its claim to its acknowledgement."""

    def __init__(self, host: Host, claimed: Claimed, driver: Driver, result_type: Any) -> None:
        self.host = host
        self.claimed = claimed
        self.driver = driver
        self.over = False
        self.scheduled = False
        self._result_type = result_type
        self._running: dict[DurableHandle[Any], _Running] = {}
        #: Attempts that ended and are not applied yet: they must not start again meanwhile.
        self._ended: dict[DurableHandle[Any], tuple[StepEnd, str]] = {}
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
            release = not self._running
        elif driver.finished:
            outcome = self._terminal()
        elif not self._running:
            if self._startable(now):
                release = self.host.stopping
            else:
                moment = self._next_moment()
                if moment is None or moment > now or self.host.stopping:
                    outcome = Suspended(moment)
                # Else what was applied led to a wait that is ready: another round (R10).
        self._stop_withdrawn()
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
        for handle, (end, how) in self._ended.items():
            ready.append((end.ended_at, handle.await_seq or 1 << 60, handle.seq, handle, end, how))
        self._ended = {}
        for handle in self.driver.open.values():
            if handle.kind is Kind.TIMER and handle.waiters:
                assert handle.due_at is not None
                if handle.due_at <= now:
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
            ok, text = values.encode_result(end.value, work.result_type, f"result of {handle.key}")
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
        ok, text = values.encode_result(driver.value, self._result_type, "result")
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
        waits: tuple[Wait, ...] = () if terminal else self._open_waits()
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

    def _open_waits(self) -> tuple[Wait, ...]:
        found: list[Wait] = []
        for handle in self.driver.open.values():
            if handle.kind is Kind.TIMER:
                if handle.waiters:
                    found.append(
                        Wait(
                            handle.kind,
                            handle.key,
                            handle.label,
                            handle.issued_at,
                            handle.due_at,
                            "waiting",
                        )
                    )
            elif handle.retry_at is not None and handle not in self._running:
                found.append(
                    Wait(
                        handle.kind,
                        handle.key,
                        handle.label,
                        handle.issued_at,
                        handle.retry_at,
                        "retrying",
                        handle.attempts + 1,
                    )
                )
        return tuple(found)

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
        if self._look_first():
            self.pump()
        else:
            self._go_on()

    def _look_first(self) -> bool:
        """A wait that is ready goes before any step that could start (spec R10)."""
        now = self.host.loop.now_ms()
        return any(
            handle.kind is Kind.TIMER
            and handle.waiters
            and handle.due_at is not None
            and handle.due_at <= now
            for handle in self.driver.open.values()
        )

    def _go_on(self) -> None:
        """Start what may start, and wait for the next thing to happen."""
        now = self.host.loop.now_ms()
        driver = self.driver
        if driver.fault is None and not self.host.stopping:
            for handle in self._startable(now):
                self._start(handle, now)
        if self._ended:
            self.host.schedule(self)
        moment = self._next_moment()
        if moment is not None and driver.fault is None:
            self._timer = self.host.loop.call_at(moment, lambda: self.host.schedule(self))

    def _startable(self, now: int) -> list[DurableHandle[Any]]:
        return [
            handle
            for handle in self.driver.open.values()
            if handle.work is not None
            and handle not in self._running
            and handle not in self._ended
            and (handle.retry_at is None or handle.retry_at <= now)
        ]

    def _next_moment(self) -> int | None:
        """The earliest moment among what is awaited now."""
        moments = [
            handle.due_at
            if handle.kind is Kind.TIMER
            else (handle.retry_at if handle not in self._running else None)
            for handle in self.driver.open.values()
            if handle.kind is not Kind.TIMER or handle.waiters
        ]
        return min((m for m in moments if m is not None), default=None)

    def _start(self, handle: DurableHandle[Any], now: int) -> None:
        work = handle.work
        assert work is not None, "only steps and polls start"
        early = attempts.expired(handle, now)
        if early is not None:
            end = StepEnd(None, early, now, now, never_ran=True)
            self._ended[handle] = (end, "timeout")
            return
        attempt = handle.attempts + 1
        call = StepCall(
            number=self.claimed.delivery.number,
            execution_id=self.execution_id,
            step_key=handle.key,
            attempt=attempt,
            idempotency_key=self.driver.idempotency_key(handle),
            fn=work.fn,
            args=work.args,
            kwargs=work.kwargs,
            asynchronous=attempts.is_async(work.fn),
        )
        running = _Running(now, attempt, _Nothing(), call.asynchronous)
        self._running[handle] = running
        self._say("step_started", step_key=handle.key, attempt=attempt)
        running.performed = self.host.performers.start(
            call, lambda end: self._step_ended(handle, running, end)
        )
        self._limit(handle, running)

    def _limit(self, handle: DurableHandle[Any], running: _Running) -> None:
        """Look at the attempt's time again when it may be over."""
        now = self.host.loop.now_ms()
        at = attempts.must_end_at(handle, running.performed.started_at, now)
        if at is not None and self._running.get(handle) is running:
            running.timer = self.host.loop.call_at(at, lambda: self._timed_out(handle, running))

    def _step_ended(self, handle: DurableHandle[Any], running: _Running, end: StepEnd) -> None:
        if running.timer is not None:
            running.timer.cancel()
        if self._running.get(handle) is not running:
            return
        del self._running[handle]
        if self.over:
            self._say("dropped", step_key=handle.key, attempt=running.attempt)
            return
        how = "timeout" if isinstance(end.error, StepTimeout) else "error"
        self._ended[handle] = (end, how)
        self.host.schedule(self)

    def _timed_out(self, handle: DurableHandle[Any], running: _Running) -> None:
        if self._running.get(handle) is not running or self.over:
            return
        now = self.host.loop.now_ms()
        began = running.performed.started_at
        at = attempts.must_end_at(handle, began, now)
        if at is None or now < at:
            self._limit(handle, running)
            return
        running.performed.cancel()
        started_at = running.started_at if began is None else began
        seconds = (at - started_at) / 1000
        error = StepTimeout(f"{handle.key} took longer than {seconds:g} s (try {running.attempt})")
        self._step_ended(handle, running, StepEnd(None, error, started_at, now))

    def _stop_withdrawn(self) -> None:
        """Async steps of cancelled branches stop; sync ones run on and hold the delivery open."""
        for handle, running in list(self._running.items()):
            if handle.state is State.WITHDRAWN and running.asynchronous:
                running.performed.cancel()
                if running.timer is not None:
                    running.timer.cancel()
                del self._running[handle]

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
            self.host.hold(self, error)

    def _finish(self, outcome: Outcome | None, *, lost: bool = False) -> None:
        self.over = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for running in self._running.values():
            if running.timer is not None:
                running.timer.cancel()
            if running.asynchronous:
                running.performed.cancel()
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
        """End it after an error of our own, to be delivered again (spec E12).

        Not while a sync step of it still runs, which would then run twice at once (spec L4): the
        claim stands until this worker leaves.
        """
        runs_on = any(not running.asynchronous for running in self._running.values())
        self.abandon()
        if not runs_on:
            self.host.hold(self, error)

    @property
    def waits(self) -> tuple[Wait, ...]:
        """The open operations as last recorded."""
        return self._waits

    @property
    def idle(self) -> bool:
        """True while no step of it runs and no commit is under way."""
        return not self._running and not self._committing

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


class _Nothing:
    """Stands for an attempt that has not been handed over yet."""

    started_at: int | None = None

    def cancel(self) -> None:
        """Nothing to call off."""


__all__ = ["Carrier", "Host", "Retry"]
