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
from functools import partial
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
        self._tasks: set[asyncio.Task[StepEnd]] = set()
        self._waiting: deque[Run] = deque()
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
        return self._open + len(self._tasks) + len(self._waiting)

    def backlog(self) -> int:
        """How many plain functions wait for a thread."""
        return self._calls.qsize()

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

    # --- async functions, as tasks on the loop --------------------------------------------

    def _start_tasks(self) -> None:
        while self._waiting and len(self._tasks) < self._async_limit:
            run = self._waiting.popleft()
            run.state = State.RUNS
            run.task = task = self._loop.asyncio_loop.create_task(
                self._perform_async(run), context=run.context
            )
            self._tasks.add(task)
            task.add_done_callback(partial(self._task_ended, run))

    async def _perform_async(self, run: Run) -> StepEnd:
        """Await the function; whatever it raises is its error, and never the loop's."""
        call = run.call
        run.started_at = started_at = self._clock.now_ms()
        mark = self._marks.enter(call.number, call.step_key, started_at)
        value: Any = None
        error: BaseException | None = None
        try:
            if call.guard is not None:
                call.guard()
            value = await call.fn(*call.args, **call.kwargs)
        except BaseException as raised:
            error = raised
        if os.getpid() != self._pid:
            _leave_forked_child(error)
        self._marks.leave(mark)
        return StepEnd(value, error, started_at, self._clock.now_ms())

    def _task_ended(self, run: Run, task: asyncio.Task[StepEnd]) -> None:
        self._tasks.discard(task)
        run.state = State.OVER
        run.task = None
        self._start_tasks()
        if not run.called_off and not task.cancelled():
            # Not from here: an error of `done` is the loop's to handle, not asyncio's.
            self._loop.post(partial(run.done, task.result()))

    def _call_off_task(self, run: Run) -> None:
        if run.task is not None:
            run.task.cancel()
        elif run.state is State.WAITS:
            run.state = State.OVER
            self._waiting.remove(run)


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
