"""One thread that runs callbacks in order and knows the time: on asyncio, or in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from yieldstar_cli.clock import Clock, ManualClock
from yieldstar_cli.errors import CodeFault
from yieldstar_cli.worker.timers import Callback, Timer, Timers

OnError = Callable[[BaseException], None]

#: How long the real loop sleeps at most while a timer is set, in milliseconds. The wall clock
#: can be set, and a machine can sleep, without the monotonic clock knowing.
RECHECK_MS = 1_000


class AsyncLoop:
    """The real loop: `ports.Loop` on an asyncio event loop of its own, in the thread that runs it.

    `post` may be called from any thread and from signal handlers; everything else belongs to the
    thread that calls `run_until`. A timer fires when `clock` has reached its moment, never
    earlier, also if the clock is set back meanwhile (spec O3); if the clock is set forward, or
    the machine has slept, within `recheck_ms`. Exceptions of callbacks go to `on_error`; without
    one the loop stops and `run_until` raises the first of them.
    """

    def __init__(
        self, clock: Clock, *, on_error: OnError | None = None, recheck_ms: int = RECHECK_MS
    ) -> None:
        self.asyncio_loop = asyncio.new_event_loop()
        self.asyncio_loop.set_exception_handler(_report)
        self._clock = clock
        #: UTC milliseconds since the epoch: the clock's own word, since every round asks.
        self.now_ms = clock.now_ms
        self._on_error = on_error
        self._recheck_ms = recheck_ms
        self._timers = Timers()
        self._ready: deque[Callback] = deque()
        self._drain_is_set = False
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at: int | None = None
        self._stopped: Callable[[], bool] = bool
        self._error: BaseException | None = None

    def call_at(self, at_ms: int, callback: Callback) -> Timer:
        """Run `callback` on this loop once the clock says `at_ms` or later, never earlier."""
        timer = self._timers.add(at_ms, callback)
        if self._alarm_at is None or at_ms < self._alarm_at:
            self._arm()
        return timer

    def post(self, callback: Callback) -> None:
        """Run `callback` on this loop soon; callable from any thread. Dropped once closed."""
        self._ready.append(callback)
        # The order matters: a drain clears the flag before it looks for what is left, so a
        # callback whose poster saw the flag set is seen by that look.
        if not self._drain_is_set:
            self._set_drain()

    def run_until(self, stopped: Callable[[], bool]) -> None:
        """Run until `stopped()`, which is asked after each batch of callbacks."""
        if stopped():
            return
        self._stopped = stopped
        self._arm()
        with _woken_by_signals(self.asyncio_loop):
            while not (stopped() or self._error is not None):
                # It also ends when an author's callback stops it or raises SystemExit: no reason.
                with contextlib.suppress(SystemExit):
                    self.asyncio_loop.run_forever()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def close(self) -> None:
        """Cancel the tasks that are left, let them clean up, and close the asyncio loop."""
        if self.asyncio_loop.is_closed():
            return
        tasks = asyncio.all_tasks(self.asyncio_loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self.asyncio_loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.asyncio_loop.run_until_complete(self.asyncio_loop.shutdown_asyncgens())
        self.asyncio_loop.close()

    def _set_drain(self) -> None:
        self._drain_is_set = True
        try:
            # Always the thread-safe call: a signal handler runs on the loop's own thread while
            # that sleeps in the selector, and only the self-pipe ends that sleep.
            self.asyncio_loop.call_soon_threadsafe(self._drain)
        except RuntimeError:
            if not self.asyncio_loop.is_closed():
                raise

    def _drain(self) -> None:
        """Run what was ready when it began, in order; what is posted meanwhile comes next."""
        self._drain_is_set = True
        now = self._clock.now_ms()
        while (timer := self._timers.pop_due(now)) is not None:
            self._ready.append(timer.fire)
        try:
            for _ in range(len(self._ready)):
                self._run(self._ready.popleft())
        finally:
            self._drain_is_set = False
            if self._ready:
                self._set_drain()
        if self._stopped() or self._error is not None:
            self.asyncio_loop.stop()
        else:
            self._arm()

    def _run(self, callback: Callback) -> None:
        try:
            callback()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if self._on_error is not None:
                self._on_error(error)
            elif self._error is None:
                self._error = error

    def _arm(self) -> None:
        """Set the one asyncio timer for the earliest of ours, or for the next look at the clock."""
        at = self._timers.next_at()
        if self._alarm is not None:
            if at == self._alarm_at:
                return
            self._alarm.cancel()
            self._alarm = None
        self._alarm_at = at
        if at is not None:
            wait_ms = min(max(at - self._clock.now_ms(), 0), self._recheck_ms)
            self._alarm = self.asyncio_loop.call_later(wait_ms / 1000, self._ring)

    def _ring(self) -> None:
        # Early, if the clock was set back or the moment is far: then the drain finds nothing due
        # and arms again.
        self._alarm = None
        self._alarm_at = None
        self._drain()


def _report(loop: asyncio.AbstractEventLoop, what: dict[str, Any]) -> None:
    """As asyncio does, but for a fault of the code: its execution is held and says it (R9).

    A task of asyncio's own meets one where the function gave it an operation of `step`.
    """
    if not isinstance(what.get("exception"), CodeFault):
        loop.default_exception_handler(what)


@contextlib.contextmanager
def _woken_by_signals(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let any signal end the loop's sleep while this is in force.

    Python runs a handler only once the main thread is back from what it does. A signal that comes
    just before the thread falls asleep in the selector does not interrupt that sleep; the byte
    that the kernel's handler writes does.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.setblocking(False)
        writer.setblocking(False)
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        loop.add_reader(reader, reader.recv, 4096)
        try:
            yield
        finally:
            loop.remove_reader(reader)
            signal.set_wakeup_fd(before)


class VirtualLoop:
    """A loop in virtual time, one callback at a time: for the test kit and the simulator.

    Ready callbacks run in the order in which they were posted; when none is ready and `busy()`
    says that no work is under way elsewhere, the clock jumps to the next timer. While `busy()`,
    the loop waits for a post instead. The same calls give the same order, always. Exceptions of
    callbacks go to `on_error`; without one they leave the call that ran the callback.
    """

    def __init__(
        self,
        clock: ManualClock,
        *,
        busy: Callable[[], bool] | None = None,
        on_error: OnError | None = None,
    ) -> None:
        self.clock = clock
        #: May be set later: performers are made with the loop.
        self.busy: Callable[[], bool] = busy if busy is not None else bool
        self._on_error = on_error
        self._timers = Timers()
        self._ready: deque[Callback] = deque()
        self._posted = threading.Event()

    def now_ms(self) -> int:
        """UTC milliseconds since the epoch, as the manual clock has it."""
        return self.clock.now_ms()

    def call_at(self, at_ms: int, callback: Callback) -> Timer:
        """Run `callback` once the clock says `at_ms` or later, never earlier."""
        return self._timers.add(at_ms, callback)

    def post(self, callback: Callback) -> None:
        """Run `callback` after what is ready already; callable from any thread."""
        self._ready.append(callback)
        self._posted.set()

    def next_at(self) -> int | None:
        """The moment of the next timer, or None."""
        return self._timers.next_at()

    def step(self) -> bool:
        """Run one callback, jumping to the next timer if none is ready; False if there is none."""
        if not self._make_ready():
            return False
        callback = self._ready.popleft()
        try:
            callback()
        except Exception as error:
            if self._on_error is None:
                raise
            self._on_error(error)
        return True

    def run(self) -> None:
        """Run until nothing is ready, no timer is set and no work is under way elsewhere."""
        while self.step():
            pass

    def run_until(self, stopped: Callable[[], bool]) -> bool:
        """Run until `stopped()`, asked before each callback; False if all work ended before."""
        while not stopped():
            if not self.step():
                return False
        return True

    def run_until_at(self, at_ms: int) -> None:
        """Run everything up to the moment `at_ms`, and let the clock stand there."""
        while self._make_ready(until_at=at_ms):
            self.step()
        if self.clock.now_ms() < at_ms:
            self.clock.set(at_ms)

    def _make_ready(self, until_at: int | None = None) -> bool:
        """See to it that a callback is ready; False if there is none (up to `until_at`)."""
        while True:
            self._posted.clear()
            self._take_due()
            if self._ready:
                return True
            if self.busy():
                self._posted.wait()
                continue
            at = self._timers.next_at()
            if at is None or (until_at is not None and at > until_at):
                return False
            self.clock.set(at)

    def _take_due(self) -> None:
        now = self.clock.now_ms()
        while (timer := self._timers.pop_due(now)) is not None:
            self._ready.append(timer.fire)
