"""The attempts of one delivery: started, bounded in time, ended, and not yet applied (spec O1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from yieldstar_cli.engine import attempts
from yieldstar_cli.engine.operations import DurableHandle, State
from yieldstar_cli.errors import StepTimeout
from yieldstar_cli.model import Kind
from yieldstar_cli.worker.ports import Cancellable, Performed, StepCall, StepEnd

_EFFECT = Kind.EFFECT

if TYPE_CHECKING:
    from yieldstar_cli.engine.driver import Driver
    from yieldstar_cli.model import Delivery
    from yieldstar_cli.worker.ports import Loop, Performers

Handle = DurableHandle[Any]


class _NotHandedOver:
    """Stands for an attempt that the performers do not have yet, or no more."""

    started_at: int | None = None

    def cancel(self) -> None:
        """Nothing to call off."""


_NOT_HANDED_OVER = _NotHandedOver()


class _Running:
    """One attempt under way."""

    __slots__ = ("asynchronous", "attempt", "handle", "performed", "started_at", "timer", "tries")

    def __init__(
        self, tries: Tries, handle: Handle, started_at: int, attempt: int, *, asynchronous: bool
    ) -> None:
        self.tries = tries
        self.handle = handle
        self.started_at = started_at
        self.attempt = attempt
        self.performed: Performed = _NOT_HANDED_OVER
        self.asynchronous = asynchronous
        self.timer: Cancellable | None = None

    def ended(self, end: StepEnd) -> None:
        """It is over, and this is how."""
        self.tries.end(self, end)


class Tries:
    """Attempts of a delivery's steps and polls. A handle in it must not be started again.

    `ended` is called whenever something waits to be taken; `say` tells people; `late` hears of
    what ended after `close`; `guard` is called before each try of an effect.
    """

    __slots__ = (
        "_closed",
        "_delivery",
        "_driver",
        "_guard",
        "_late",
        "_loop",
        "_performers",
        "_say",
        "_tell_ended",
        "_when_quiet",
        "running",
        "waiting",
    )

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
        #: Attempts under way; ends that are not applied yet, and how each ended. Both are asked of
        #: so often that a property for each question would be felt.
        self.running: dict[Handle, _Running] = {}
        self.waiting: dict[Handle, tuple[Handle, StepEnd, str]] = {}
        self._closed = False
        self._when_quiet: Callable[[], None] | None = None

    def __contains__(self, handle: Handle) -> bool:
        return handle in self.running or handle in self.waiting

    def take(self) -> list[tuple[Handle, StepEnd, str]]:
        """What has ended since the last call, and how: "error" or "timeout"."""
        if not self.waiting:
            return []
        ended, self.waiting = self.waiting, {}
        return list(ended.values())

    def start(self, handle: Handle, now: int) -> None:
        """Begin the next attempt of a step or poll, unless its time is up already."""
        work = handle.work
        assert work is not None, "only steps and polls start"
        early = attempts.expired(handle, now)
        if early is not None:
            end = StepEnd(None, early, now, now, never_ran=True)
            self.waiting[handle] = (handle, end, "timeout")
            return
        attempt = handle.attempts + 1
        delivery = self._delivery
        call = StepCall(
            delivery.number,
            delivery.execution_id,
            handle.key,
            attempt,
            self._driver.idempotency_key(handle),
            work.fn,
            work.args,
            work.kwargs,
            work.asynchronous,
            self._guard if handle.kind is _EFFECT else None,
        )
        running = _Running(self, handle, now, attempt, asynchronous=call.asynchronous)
        self.running[handle] = running
        self._say("step_started", step_key=handle.key, attempt=attempt)
        performed = self._performers.start(call, running.ended)
        if self.running.get(handle) is running:
            running.performed = performed
            self._limit(handle, running)

    @property
    def must_end(self) -> bool:
        """True while a sync function runs whose result is still asked for (spec C6)."""
        return any(
            not running.asynchronous and handle.state is State.OPEN
            for handle, running in self.running.items()
        )

    def stop_async(self) -> None:
        """Async steps stop, since the execution is to be cancelled (spec C6)."""
        for handle, running in list(self.running.items()):
            if running.asynchronous:
                self._call_off(running)
                del self.running[handle]

    def stop_withdrawn(self) -> None:
        """Async steps of cancelled branches stop; sync ones run on and hold the delivery open."""
        if not self.running:
            return
        for handle, running in list(self.running.items()):
            if handle.state is State.WITHDRAWN and running.asynchronous:
                self._call_off(running)
                del self.running[handle]

    def close(self) -> None:
        """Nothing is taken any more: async attempts stop, sync ones are left to end."""
        self._closed = True
        for handle, running in list(self.running.items()):
            self._call_off(running)
            if running.asynchronous:
                del self.running[handle]
        if not self.running:
            self._let_go()

    def _let_go(self) -> None:
        # Whoever made this holds it: without this, both would wait for the garbage collector.
        self._tell_ended = self._say = self._late = self._guard = _nothing

    def when_quiet(self, callback: Callable[[], None]) -> None:
        """After `close`: call `callback` once no sync attempt runs any more (spec L4)."""
        if self.running:
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
        work = handle.work
        if work is None or (work.timeout_ms is None and work.retry is None):
            return  # most have no limit
        now = self._loop.now_ms()
        at = attempts.must_end_at(handle, running.performed.started_at, now)
        if at is not None:
            running.timer = self._loop.call_at(at, lambda: self._timed_out(handle, running))

    def _timed_out(self, handle: Handle, running: _Running) -> None:
        if self.running.get(handle) is not running or self._closed:
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
        self.end(running, StepEnd(None, error, started_at, now))

    def end(self, running: _Running, end: StepEnd) -> None:
        """An attempt is over; nothing happens where it was given up before."""
        handle = running.handle
        running.performed = _NOT_HANDED_OVER
        if running.timer is not None:
            running.timer.cancel()
            running.timer = None
        if self.running.get(handle) is not running:
            return
        del self.running[handle]
        if self._closed:
            self._say("dropped", step_key=handle.key, attempt=running.attempt)
            self._late(handle, end)
            if not self.running:
                self._let_go()
                callback, self._when_quiet = self._when_quiet, None
                if callback is not None:
                    callback()
            return
        how = "timeout" if isinstance(end.error, StepTimeout) else "error"
        self.waiting[handle] = (handle, end, how)
        self._tell_ended()


def _nothing(*_: Any, **__: Any) -> None:
    """Nobody is told any more."""
