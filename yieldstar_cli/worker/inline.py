"""Where step functions run in the test kit and the simulator: in place, one at a time."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from yieldstar_cli.errors import Cancelled
from yieldstar_cli.worker.ports import Loop, Marks, StepCall, StepEnd
from yieldstar_cli.worker.run import Done, Run, State, never_awaited

#: What a step function raises. Not Ctrl-C, nor what a test runner or a fault point raises to end
#: the whole run: here they would hit the step.
_STEP_ERRORS = (
    Exception,
    BaseExceptionGroup,
    Cancelled,
    GeneratorExit,
    SystemExit,
    asyncio.CancelledError,
)


class InlinePerformers:
    """Performers for the test kit and the simulator: one function at a time, on the loop's thread.

    A call runs as a callback of its own, so that whatever drives the loop stands between its
    start and its run. `fakes` says which functions to run in place of which; a fake may be plain
    or async whatever the original is. Async functions run to their end on an asyncio loop of
    their own.
    """

    def __init__(
        self,
        loop: Loop,
        fakes: Mapping[Callable[..., Any], Callable[..., Any]] | None = None,
        marks: Marks | None = None,
    ) -> None:
        self._loop = loop
        self._fakes = fakes if fakes is not None else {}
        self._marks = marks
        self._context = contextvars.copy_context()
        self._open = 0

    def start(self, call: StepCall, done: Done) -> Run:
        """Run `call` in the next callback and hand its end to `done` there."""
        run = Run(call, done, self._context.copy(), self._call_off)
        self._open += 1
        self._loop.post(partial(self._perform, run))
        return run

    def running(self) -> int:
        """How many calls were started and have not run."""
        return self._open

    def backlog(self) -> int:
        """Nothing ever waits for a thread here."""
        return 0

    def _call_off(self, run: Run) -> None:
        if run.state is State.WAITS:
            run.state = State.OVER
            self._open -= 1

    def _perform(self, run: Run) -> None:
        if run.state is not State.WAITS:
            return
        run.state = State.RUNS
        call = run.call
        run.started_at = started_at = self._loop.now_ms()
        mark = self._marks.enter(call.number, call.step_key, started_at) if self._marks else -1
        value: Any = None
        error: BaseException | None = None
        try:
            value = run.context.run(self._call, call)
        except _STEP_ERRORS as raised:
            error = raised
        finally:
            if self._marks:
                self._marks.leave(mark)
            run.state = State.OVER
            self._open -= 1
        if not run.called_off:
            run.done(StepEnd(value, error, started_at, self._loop.now_ms()))

    def _call(self, call: StepCall) -> Any:
        if call.guard is not None:
            call.guard()
        fn = self._fake_of(call.fn)
        faked = fn is not call.fn
        value = fn(*call.args, **call.kwargs)
        if not inspect.isawaitable(value):
            return value
        if not (call.asynchronous or faked):
            raise never_awaited(fn, value)
        return _run_to_the_end(value)

    def _fake_of(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return self._fakes.get(fn, fn)
        except TypeError:  # a callable object that has no hash can be nobody's key
            return fn


def _run_to_the_end(awaitable: Any) -> Any:
    async def outcome() -> Any:
        return await awaitable

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(outcome())
    # Called from inside an async test: asyncio allows no second loop in this thread.
    context = contextvars.copy_context()
    ended: list[tuple[Any, BaseException | None]] = []

    def run_in_thread() -> None:
        try:
            ended.append((context.run(asyncio.run, outcome()), None))
        except BaseException as error:
            ended.append((None, error))

    thread = threading.Thread(target=run_in_thread, name="ys-async-step", daemon=True)
    thread.start()
    thread.join()
    value, error = ended[0]
    if error is not None:
        raise error
    return value
