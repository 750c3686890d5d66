"""Random starts, ends and cancellations: every call ends once or was called off, limits hold."""

from __future__ import annotations

import asyncio
import threading

from hypothesis import given, settings
from hypothesis import strategies as st

from yieldstar_cli.clock import SystemClock
from yieldstar_cli.worker.loop import AsyncLoop
from yieldstar_cli.worker.performers import ThreadedPerformers
from yieldstar_cli.worker.ports import StepCall, StepEnd
from yieldstar_cli.worker.run import Run

PATIENCE = 20
JOBS = 2
ASYNC_LIMIT = 2

moves = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.booleans()),
        st.tuples(st.just("cancel"), st.integers(0, 11)),
        st.tuples(st.just("end"), st.integers(0, 11)),
    ),
    max_size=30,
)


class CountedMarks:
    """How many functions are inside, plain and async ones apart, and the most there were."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = {"plain": 0, "async": 0}
        self.spare = 0
        self.broken: list[str] = []

    def enter(self, number: int, step_key: str, at_ms: int) -> int:
        with self.lock:
            self.inside[step_key] += 1
            if self.inside["plain"] > JOBS + self.spare or self.inside["async"] > ASYNC_LIMIT:
                self.broken.append(str(self.inside))
            return 0 if step_key == "plain" else 1

    def leave(self, slot: int) -> None:
        with self.lock:
            self.inside["plain" if slot == 0 else "async"] -= 1


class Trial:
    """One random program."""

    def __init__(self) -> None:
        self.loop = AsyncLoop(SystemClock())
        self.marks = CountedMarks()
        self.performers = ThreadedPerformers(
            self.loop, SystemClock(), JOBS, self.marks, async_limit=ASYNC_LIMIT
        )
        self.runs: list[Run] = []
        self.gates: list[threading.Event] = []
        self.ends: list[int] = []
        self.called_off: set[int] = set()

    def start(self, asynchronous: bool) -> None:
        number, gate = len(self.runs), threading.Event()

        def plain() -> None:
            assert gate.wait(PATIENCE)

        async def waiting() -> None:
            while not gate.is_set():
                await asyncio.sleep(0)

        fn = waiting if asynchronous else plain
        key = "async" if asynchronous else "plain"
        call = StepCall(number, "order-42", key, 1, "idem", fn, asynchronous=asynchronous)

        def done(end: StepEnd) -> None:
            assert end.error is None
            self.ends.append(number)

        self.gates.append(gate)
        self.runs.append(self.performers.start(call, done))

    def cancel(self, number: int) -> None:
        if number < len(self.runs) and number not in self.ends:
            with self.marks.lock:
                self.marks.spare += 1
            self.called_off.add(number)
            self.runs[number].cancel()

    def end(self, number: int) -> None:
        if number < len(self.gates):
            self.gates[number].set()

    def go_on(self) -> None:
        passed: list[int] = []
        self.loop.post(lambda: passed.append(1))
        self.loop.run_until(lambda: bool(passed))

    def finish(self) -> None:
        for gate in self.gates:
            gate.set()
        while self.performers.running():
            self.go_on()
        self.performers.close()
        self.loop.close()


@settings(max_examples=60, deadline=None)
@given(moves)
def test_every_call_ends_once_or_was_called_off_and_the_limits_hold(program):
    """B10, B64; spec K1, O1."""
    trial = Trial()
    for move, argument in program:
        getattr(trial, move)(argument)
        trial.go_on()
    trial.finish()

    assert sorted(trial.ends) == sorted(set(range(len(trial.runs))) - trial.called_off)
    assert trial.marks.inside == {"plain": 0, "async": 0}
    assert trial.marks.broken == []
    assert trial.performers._called_off == 0
    assert trial.performers._threads <= JOBS
