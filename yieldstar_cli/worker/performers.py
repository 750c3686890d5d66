"""Where step functions run: threads for plain ones, the event loop for async ones (spec R1)."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Awaitable, Coroutine, Generator
from functools import partial
from types import CoroutineType, coroutine
from typing import Any

from yieldstar_cli.clock import Clock
from yieldstar_cli.worker.loop import AsyncLoop
from yieldstar_cli.worker.ports import Event, Marks, StepCall, StepEnd, Talk
from yieldstar_cli.worker.run import Done, Run, State, never_awaited


class ThreadedPerformers:
    """The real performers. All methods belong to the loop's thread.

    At most `jobs` plain functions run at once, further ones wait in the order of their start;
    likewise async ones, at most `async_limit` at once. A plain function that is called off while
    it runs keeps its thread until it returns; meanwhile there is one thread more, and `talk` is
    told (spec O1). Threads start when they are needed, are reused, and are daemons: a function
    that never ends does not keep the process alive.
    """

    def __init__(
        self,
        loop: AsyncLoop,
        clock: Clock,
        jobs: int,
        marks: Marks,
        *,
        async_limit: int = 1_000,
        talk: Talk | None = None,
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._jobs = jobs
        self._marks = marks
        self._async_limit = async_limit
        self._talk = talk
        # What every call's context is a copy of, so that nothing a call sets reaches another.
        self._context = contextvars.copy_context()
        self._calls: queue.SimpleQueue[Run | None] = queue.SimpleQueue()
        # Guards the states of plain runs and the number of threads.
        self._lock = threading.Lock()
        self._threads = 0
        #: Plain runs that wait or run, and those among them that were called off while running.
        self._open = 0
        self._called_off = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: deque[Run] = deque()
        self._running_async = 0
        #: The task that will take up what waits, until its first step.
        self._coming: asyncio.Task[None] | None = None
        self._ended: list[tuple[Run, StepEnd]] = []
        #: What `sharing.Threads` asks of plain functions.
        self.jobs = jobs
        self.ended = 0
        self.last_ended_at = 0
        self.mean_ms = 0.0
        self._pid = os.getpid()

    def start(self, call: StepCall, done: Done) -> Run:
        """Run `call` as soon as there is a place; `done` is called on the loop, exactly once."""
        context = self._context.copy()
        if call.asynchronous:
            run = Run(call, done, context, self._call_off_task)
            self._waiting.append(run)
            self._start_tasks()
            return run
        run = Run(call, done, context, self._call_off_thread)
        self._open += 1
        self._calls.put(run)
        self._start_threads()
        return run

    def running(self) -> int:
        """How many functions run or wait for a place, called-off ones that still run included."""
        return self._open + self._running_async + len(self._waiting)

    def backlog(self) -> int:
        """How many plain functions wait for a thread."""
        return self._calls.qsize()

    def open_calls(self) -> int:
        """How many plain functions run or wait for a thread."""
        return self._open

    def close(self) -> None:
        """Drop what waits, call off async functions, let idle threads go. Waits for nothing."""
        for run in self._waiting:
            run.state = State.OVER
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()
        with self._lock, contextlib.suppress(queue.Empty):
            while True:
                dropped = self._calls.get_nowait()
                if dropped is not None and dropped.state is State.WAITS:
                    dropped.state = State.OVER
                    self._open -= 1
        with self._lock:
            threads = self._threads
        for _ in range(threads):
            self._calls.put(None)

    # --- plain functions, in threads ------------------------------------------------------

    def _start_threads(self) -> None:
        with self._lock:
            missing = min(self._open, self._jobs + self._called_off) - self._threads
            self._threads += max(missing, 0)
        for _ in range(missing):
            threading.Thread(target=self._work, name="ys-step", daemon=True).start()

    def _work(self) -> None:
        """The life of one thread."""
        stays = True
        while stays and (run := self._calls.get()) is not None:
            with self._lock:
                if run.state is not State.WAITS:
                    continue
                run.state = State.RUNS
            end = self._perform(run)
            with self._lock:
                self._called_off -= run.state is State.LINGERS
                run.state = State.OVER
                stays = self._threads <= self._jobs + self._called_off
                self._threads -= not stays
            self._loop.post(partial(self._thread_ended, run, end))
            del run, end  # a waiting thread keeps no result alive
        if stays:
            with self._lock:
                self._threads -= 1

    def _perform(self, run: Run) -> StepEnd:
        """Run the function, in this thread; whatever it raises is its error."""
        call = run.call
        run.started_at = started_at = self._clock.now_ms()
        mark = self._marks.enter(call.number, call.step_key, started_at)
        value: Any = None
        error: BaseException | None = None
        try:
            if call.guard is not None:
                call.guard()
            value = run.context.run(call.fn, *call.args, **call.kwargs)
        except BaseException as raised:
            error = raised
        if os.getpid() != self._pid:
            _leave_forked_child(error)
        self._marks.leave(mark)
        if error is None and _is_awaitable(value):
            error, value = never_awaited(call.fn, value), None
        return StepEnd(value, error, started_at, self._clock.now_ms())

    def _thread_ended(self, run: Run, end: StepEnd) -> None:
        self._open -= 1
        self.ended += 1
        self.last_ended_at = end.ended_at
        self.mean_ms += (end.ended_at - end.started_at - self.mean_ms) / min(self.ended, 16)
        if run.called_off:
            self._say(run, "returned after it had been called off; what it returned is dropped")
        else:
            run.done(end)

    def _call_off_thread(self, run: Run) -> None:
        with self._lock:
            state = run.state
            if state is State.WAITS:
                run.state = State.OVER
                self._open -= 1
            elif state is State.RUNS:
                run.state = State.LINGERS
                self._called_off += 1
        if state is State.RUNS:
            self._start_threads()
            self._say(run, "runs on after it was called off; one more thread does its work")

    def _say(self, run: Run, text: str) -> None:
        if self._talk is not None:
            call = run.call
            self._talk(
                Event(
                    at=self._clock.now_ms(),
                    kind="called-off",
                    execution_id=call.execution_id,
                    step_key=call.step_key,
                    attempt=call.attempt,
                    text=text,
                )
            )

    # --- async functions, in tasks on the loop --------------------------------------------

    def _start_tasks(self) -> None:
        """See to it that a task takes up what waits, if there is room for more."""
        if self._coming is None and self._waiting and self._running_async < self._async_limit:
            self._coming = task = self._loop.asyncio_loop.create_task(self._run_waiting())
            self._tasks.add(task)
            task.add_done_callback(self._task_over)

    def _task_over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._coming is task:  # cancelled by somebody before its first step
            self._coming = None
            self._start_tasks()

    async def _run_waiting(self) -> None:
        """Run what waits, one function after the other, until one of them has to wait.

        Most functions end at their first step, and a task for each would cost more than they do.
        One that has to wait keeps the task for itself, and another goes on: nothing that was done
        to the task, such as a cancellation, is left over for the next function.
        """
        task, self._coming = self._coming, None
        assert task is not None, "it was made to come"
        while self._waiting and self._running_async < self._async_limit:
            run = self._waiting.popleft()
            run.state = State.RUNS
            run.task = task
            self._running_async += 1
            try:
                end, waited = await self._perform_async(run)
            finally:
                self._running_async -= 1
                run.state = State.OVER
                run.task = None
            if not run.called_off:
                self._end_soon(run, end)
            if waited or task.cancelling():
                break
        self._start_tasks()

    async def _perform_async(self, run: Run) -> tuple[StepEnd, bool]:
        """Await the function; whatever it raises is its error, and never the loop's.

        And says whether it had to wait.
        """
        call = run.call
        run.started_at = started_at = self._clock.now_ms()
        mark = self._marks.enter(call.number, call.step_key, started_at)
        value: Any = None
        error: BaseException | None = None
        waited = False
        try:
            if call.guard is not None:
                call.guard()
            made = run.context.run(call.fn, *call.args, **call.kwargs)
            coroutine = made if type(made) is CoroutineType else _awaited(made)
            try:
                yielded = run.context.run(coroutine.send, None)
            except StopIteration as stop:
                value = stop.value
            else:
                waited = True
                self._start_tasks()
                value = await _rest(run.context, coroutine, yielded)
        except BaseException as raised:
            error = raised
        if os.getpid() != self._pid:
            _leave_forked_child(error)
        self._marks.leave(mark)
        return StepEnd(value, error, started_at, self._clock.now_ms()), waited

    def _end_soon(self, run: Run, end: StepEnd) -> None:
        # Not from here: an error of `done` is the loop's to handle, not asyncio's.
        self._ended.append((run, end))
        if len(self._ended) == 1:
            self._loop.post(self._tell_ended)

    def _tell_ended(self) -> None:
        ended, self._ended = deque(self._ended), []
        try:
            while ended:
                run, end = ended.popleft()
                if not run.called_off:
                    run.done(end)
        finally:
            if ended:  # an error of one keeps nothing from the others
                self._ended[:0] = ended
                self._loop.post(self._tell_ended)

    def _call_off_task(self, run: Run) -> None:
        if run.task is not None:
            run.task.cancel()
        elif run.state is State.WAITS:
            run.state = State.OVER
            self._waiting.remove(run)


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


@coroutine
def _rest(
    context: contextvars.Context, coroutine: Coroutine[Any, Any, Any], yielded: Any
) -> Generator[Any, Any, Any]:
    """Go on with `coroutine`, which has yielded once, each step of it in `context`."""
    try:
        while True:
            try:
                sent = yield yielded
            except GeneratorExit:
                context.run(coroutine.close)
                raise
            except BaseException as error:
                yielded = context.run(coroutine.throw, error)
            else:
                yielded = context.run(coroutine.send, sent)
    except StopIteration as stop:
        return stop.value


def _is_awaitable(value: object) -> bool:
    """Whether it should have been awaited; a value that may not even be asked should not."""
    try:
        return inspect.isawaitable(value)
    except BaseException:
        return False


def _leave_forked_child(error: BaseException | None) -> None:
    """End a child that a step function forked and let return.

    The child has this one thread, none of the others, and shares the parent's mapped marks and
    sockets: it must not go on as if it were the worker.
    """
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        sys.excepthook(type(error), error, error.__traceback__)
        status = 1
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(status)
