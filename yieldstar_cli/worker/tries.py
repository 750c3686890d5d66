"""The attempts of one delivery: started, bounded in time, ended, and not yet applied (spec O1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from yieldstar_cli.engine import attempts
from yieldstar_cli.engine.operations import DurableHandle, State
from yieldstar_cli.errors import StepTimeout
from yieldstar_cli.model import Kind
from yieldstar_cli.worker.ports import Cancellable, Performed, StepCall, StepEnd

if TYPE_CHECKING:
    from yieldstar_cli.engine.driver import Driver
    from yieldstar_cli.model import Delivery
    from yieldstar_cli.worker.ports import Loop, Performers

Handle = DurableHandle[Any]


@dataclass(slots=True)
class _Running:
    """One attempt under way."""

    started_at: int
    attempt: int
    performed: Performed
    asynchronous: bool
    timer: Cancellable | None = None


class _NotHandedOver:
    """Stands for an attempt that the performers do not have yet."""

    started_at: int | None = None

    def cancel(self) -> None:
        """Nothing to call off."""


class Tries:
    """Attempts of a delivery's steps and polls. A handle in it must not be started again.

    `ended` is called whenever something waits to be taken; `say` tells people; `late` hears of
    what ended after `close`; `guard` is called before each try of an effect.
    """

    def __init__(
        self,
        loop: Loop,
        performers: Performers,
        driver: Driver,
        delivery: Delivery,
        *,
        ended: Callable[[], None],
        say: Callable[..., None],
        late: Callable[[Handle, StepEnd], None],
        guard: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._performers = performers
        self._driver = driver
        self._delivery = delivery
        self._tell_ended = ended
        self._say = say
        self._late = late
        self._guard = guard
        self._running: dict[Handle, _Running] = {}
        #: Ends that are not applied yet.
        self._ended: dict[Handle, tuple[StepEnd, str]] = {}
        self._closed = False
        self._when_quiet: Callable[[], None] | None = None

    def __contains__(self, handle: Handle) -> bool:
        return handle in self._running or handle in self._ended

    @property
    def running(self) -> bool:
        """True while a function of this delivery runs, or waits for a thread."""
        return bool(self._running)

    @property
    def waiting(self) -> bool:
        """True while ends wait to be taken."""
        return bool(self._ended)

    def take(self) -> list[tuple[Handle, StepEnd, str]]:
        """What has ended since the last call, and how: "error" or "timeout"."""
        ended, self._ended = self._ended, {}
        return [(handle, end, how) for handle, (end, how) in ended.items()]

    def start(self, handle: Handle, now: int) -> None:
        """Begin the next attempt of a step or poll, unless its time is up already."""
        work = handle.work
        assert work is not None, "only steps and polls start"
        early = attempts.expired(handle, now)
        if early is not None:
            self._ended[handle] = (StepEnd(None, early, now, now, never_ran=True), "timeout")
            return
        attempt = handle.attempts + 1
        call = StepCall(
            number=self._delivery.number,
            execution_id=self._delivery.execution_id,
            step_key=handle.key,
            attempt=attempt,
            idempotency_key=self._driver.idempotency_key(handle),
            fn=work.fn,
            args=work.args,
            kwargs=work.kwargs,
            asynchronous=attempts.is_async(work.fn),
            guard=self._guard if handle.kind is Kind.EFFECT else None,
        )
        running = _Running(now, attempt, _NotHandedOver(), call.asynchronous)
        self._running[handle] = running
        self._say("step_started", step_key=handle.key, attempt=attempt)
        running.performed = self._performers.start(
            call, lambda end: self._end(handle, running, end)
        )
        self._limit(handle, running)

    @property
    def must_end(self) -> bool:
        """True while a sync function runs whose result is still asked for (spec C6)."""
        return any(
            not running.asynchronous and handle.state is State.OPEN
            for handle, running in self._running.items()
        )

    def stop_async(self) -> None:
        """Async steps stop, since the execution is to be cancelled (spec C6)."""
        for handle, running in list(self._running.items()):
            if running.asynchronous:
                self._call_off(running)
                del self._running[handle]

    def stop_withdrawn(self) -> None:
        """Async steps of cancelled branches stop; sync ones run on and hold the delivery open."""
        for handle, running in list(self._running.items()):
            if handle.state is State.WITHDRAWN and running.asynchronous:
                self._call_off(running)
                del self._running[handle]

    def close(self) -> None:
        """Nothing is taken any more: async attempts stop, sync ones are left to end."""
        self._closed = True
        for handle, running in list(self._running.items()):
            self._call_off(running)
            if running.asynchronous:
                del self._running[handle]

    def when_quiet(self, callback: Callable[[], None]) -> None:
        """After `close`: call `callback` once no sync attempt runs any more (spec L4)."""
        if self._running:
            self._when_quiet = callback
        else:
            callback()

    def _call_off(self, running: _Running) -> None:
        if running.timer is not None:
            running.timer.cancel()
        if running.asynchronous:
            running.performed.cancel()

    def _limit(self, handle: Handle, running: _Running) -> None:
        """Look at the attempt's time again when it may be over."""
        now = self._loop.now_ms()
        at = attempts.must_end_at(handle, running.performed.started_at, now)
        if at is not None and self._running.get(handle) is running:
            running.timer = self._loop.call_at(at, lambda: self._timed_out(handle, running))

    def _timed_out(self, handle: Handle, running: _Running) -> None:
        if self._running.get(handle) is not running or self._closed:
            return
        now = self._loop.now_ms()
        began = running.performed.started_at
        at = attempts.must_end_at(handle, began, now)
        if at is None or now < at:
            self._limit(handle, running)
            return
        running.performed.cancel()
        started_at = running.started_at if began is None else began
        seconds = (at - started_at) / 1000
        error = StepTimeout(f"{handle.key} took longer than {seconds:g} s (try {running.attempt})")
        self._end(handle, running, StepEnd(None, error, started_at, now))

    def _end(self, handle: Handle, running: _Running, end: StepEnd) -> None:
        if running.timer is not None:
            running.timer.cancel()
        if self._running.get(handle) is not running:
            return
        del self._running[handle]
        if self._closed:
            self._say("dropped", step_key=handle.key, attempt=running.attempt)
            self._late(handle, end)
            if self._when_quiet is not None and not self._running:
                callback, self._when_quiet = self._when_quiet, None
                callback()
            return
        how = "timeout" if isinstance(end.error, StepTimeout) else "error"
        self._ended[handle] = (end, how)
        self._tell_ended()
