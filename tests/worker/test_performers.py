"""Step functions: how many at once, what of them comes back, and what being called off means."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import textwrap
import threading

import pytest

from yieldstar_cli.clock import ManualClock, SystemClock
from yieldstar_cli.engine.this_step import this_step
from yieldstar_cli.errors import Cancelled, Fatal, MisplacedCall
from yieldstar_cli.worker.inline import InlinePerformers
from yieldstar_cli.worker.loop import AsyncLoop, VirtualLoop
from yieldstar_cli.worker.performers import ThreadedPerformers
from yieldstar_cli.worker.ports import Event, StepCall, StepEnd

PATIENCE = 20


class ListedMarks:
    """Marks kept in a list: what was entered and left, in which thread."""

    def __init__(self) -> None:
        self.entered: list[tuple[int, str, str]] = []
        self.inside = 0
        self._lock = threading.Lock()

    def enter(self, number: int, step_key: str, at_ms: int) -> int:
        with self._lock:
            self.inside += 1
            self.entered.append((number, step_key, threading.current_thread().name))
            return len(self.entered)

    def leave(self, slot: int) -> None:
        with self._lock:
            self.inside -= 1


class Bench:
    """Threaded performers on a real loop, and what came of the calls."""

    def __init__(self, jobs: int = 4, async_limit: int = 1_000) -> None:
        self.loop = AsyncLoop(SystemClock())
        self.marks = ListedMarks()
        self.said: list[Event] = []
        self.performers = ThreadedPerformers(
            self.loop,
            SystemClock(),
            jobs,
            self.marks,
            async_limit=async_limit,
            talk=self.said.append,
        )
        self.ends: dict[str, StepEnd] = {}

    def start(self, fn, *args, key="step", attempt=1, asynchronous=False, **kwargs):
        call = StepCall(7, "order-42", key, attempt, f"idem-{key}", fn, args, kwargs, asynchronous)

        def done(end: StepEnd) -> None:
            assert key not in self.ends, f"{key} ended twice"
            self.ends[key] = end

        return self.performers.start(call, done)

    def run(self, fn, *args, asynchronous=False) -> StepEnd:
        self.start(fn, *args, key="only", asynchronous=asynchronous)
        self.until(lambda: "only" in self.ends)
        return self.ends.pop("only")

    def until(self, stopped) -> None:
        late: list[int] = []
        watchdog = self.loop.call_at(self.loop.now_ms() + PATIENCE * 1_000, lambda: late.append(1))
        self.loop.run_until(lambda: bool(late) or stopped())
        watchdog.cancel()
        assert not late, "what was waited for did not come"

    def until_idle(self) -> None:
        # A task that ended tells no callback of ours: ask again in each round.
        self.until(lambda: self.performers.running() == 0 or self.loop.post(lambda: None))

    def until_event(self, event: threading.Event) -> None:
        assert event.wait(PATIENCE)


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.performers.close()
    made.loop.close()


def test_a_plain_function_runs_in_a_thread_and_its_value_comes_back_on_the_loop(bench):
    """spec R1; B64: sync work is never on the event loop."""
    threads: list[threading.Thread] = []
    done_in: list[threading.Thread] = []

    def add(a: int, b: int) -> int:
        threads.append(threading.current_thread())
        return a + b

    call = StepCall(7, "order-42", "add", 1, "idem", add, (1,), {"b": 2})
    ends: list[StepEnd] = []
    bench.performers.start(
        call, lambda end: (ends.append(end), done_in.append(threading.current_thread()))
    )
    bench.until(lambda: bool(ends))

    assert ends[0].value == 3
    assert ends[0].error is None
    assert ends[0].started_at <= ends[0].ended_at
    assert threads[0] is not threading.current_thread()
    assert threads[0].daemon
    assert done_in == [threading.current_thread()]


def test_an_async_function_runs_as_a_task_on_the_loop(bench):
    """spec R1."""
    threads: list[threading.Thread] = []

    async def fetch(url: str) -> str:
        await asyncio.sleep(0)
        threads.append(threading.current_thread())
        return url.upper()

    end = bench.run(fetch, "url", asynchronous=True)

    assert end.value == "URL"
    assert threads == [threading.current_thread()]


def test_at_most_jobs_plain_functions_run_at_once_and_the_rest_in_order():
    """spec K1: `-j` bounds sync steps at once."""
    bench = Bench(jobs=2)
    gates = [threading.Event() for _ in range(5)]
    began = [threading.Event() for _ in range(5)]
    order: list[int] = []

    def wait(number: int) -> None:
        order.append(number)
        began[number].set()
        assert gates[number].wait(PATIENCE)

    for number in range(5):
        bench.start(wait, number, key=str(number))
    bench.until_event(began[0])
    bench.until_event(began[1])

    assert sorted(order) == [0, 1]
    assert bench.performers.running() == 5

    gates[1].set()
    bench.until_event(began[2])
    assert order[2:] == [2]
    for gate in gates:
        gate.set()
    bench.until(lambda: len(bench.ends) == 5)

    assert sorted(order) == [0, 1, 2, 3, 4]
    assert bench.performers.running() == 0


def test_threads_start_when_needed_and_are_used_again(bench):
    """One step after the other needs one thread."""
    threads: set[int] = set()

    for _ in range(20):
        bench.run(lambda: threads.add(threading.get_ident()))

    assert len(threads) == 1


def test_async_functions_wait_beyond_their_limit_and_run_in_order():
    """spec K1: async steps have a limit of their own."""
    bench = Bench(async_limit=2)
    began: list[int] = []
    most: list[int] = []
    inside = 0

    async def step(number: int) -> None:
        nonlocal inside
        inside += 1
        began.append(number)
        most.append(inside)
        await asyncio.sleep(0)
        inside -= 1

    for number in range(20):
        bench.start(step, number, key=str(number), asynchronous=True)
    bench.until(lambda: len(bench.ends) == 20)

    assert began == list(range(20))
    assert max(most) == 2


def test_this_step_says_which_attempt_runs_and_is_gone_outside(bench):
    """spec O7: a context variable, the same in threads and tasks."""

    def plain() -> tuple[str, str, int, str, bool]:
        this = this_step()
        return (
            this.execution_id,
            this.step_key,
            this.attempt,
            this.idempotency_key,
            this.cancelled,
        )

    async def asynchronous() -> tuple[str, str, int, str, bool]:
        await asyncio.sleep(0)
        return plain()

    bench.start(plain, key="plain", attempt=3)
    bench.start(asynchronous, key="async", attempt=4, asynchronous=True)
    bench.until(lambda: len(bench.ends) == 2)

    assert bench.ends["plain"].value == ("order-42", "plain", 3, "idem-plain", False)
    assert bench.ends["async"].value == ("order-42", "async", 4, "idem-async", False)
    with pytest.raises(MisplacedCall):
        this_step()


def test_what_one_call_sets_in_its_context_no_other_sees(bench):
    """spec O7: contexts are copies, though threads are used again."""
    colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")

    def paint(value: str) -> str:
        before = colour.get()
        colour.set(value)
        return before

    async def paint_async(value: str) -> str:
        return paint(value)

    seen = [bench.run(paint, str(number)).value for number in range(3)]
    seen += [bench.run(paint_async, str(number), asynchronous=True).value for number in range(3)]

    assert seen == ["none"] * 6
    assert colour.get() == "none"


@pytest.mark.parametrize(
    "error",
    [ValueError("no"), SystemExit(3), KeyboardInterrupt(), Cancelled(), StopIteration(1)],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_plain_function_raises_is_its_error_and_the_thread_lives(bench, error):
    """case 292 in small: `sys.exit()` in a step is that step's failure, not the worker's."""

    def fail() -> None:
        raise error

    end = bench.run(fail)
    after = bench.run(lambda: "still here")

    assert end.error is error
    assert after.value == "still here"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        SystemExit(3),
        KeyboardInterrupt(),
        Cancelled(),
        asyncio.CancelledError(),
        GeneratorExit(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_an_async_function_raises_is_its_error_and_the_loop_lives(bench, error):
    """spec R1: also what asyncio would let stop the loop."""

    async def fail() -> None:
        await asyncio.sleep(0)
        raise error

    async def fine() -> str:
        return "still here"

    end = bench.run(fail, asynchronous=True)
    after = bench.run(fine, asynchronous=True)

    assert end.error is error
    assert after.value == "still here"


def test_a_plain_function_that_returns_a_coroutine_is_told_to_become_async(bench):
    """spec O1: trying again cannot help, so the error is Fatal."""

    async def inner() -> int:
        return 1

    def send_mail():
        return inner()

    end = bench.run(send_mail)

    assert isinstance(end.error, Fatal)
    assert "async def send_mail" in str(end.error)


def test_the_marks_are_set_around_the_function_in_the_thread_that_runs_it(bench):
    """spec L5: before it enters user code the worker marks the execution, and unmarks it after."""
    inside: list[int] = []

    def plain() -> None:
        inside.append(bench.marks.inside)

    async def asynchronous() -> None:
        inside.append(bench.marks.inside)

    bench.run(plain)
    bench.run(asynchronous, asynchronous=True)

    assert inside == [1, 1]
    assert bench.marks.inside == 0
    assert [entry[:2] for entry in bench.marks.entered] == [(7, "only"), (7, "only")]
    assert bench.marks.entered[0][2] == "ys-step"
    assert bench.marks.entered[1][2] == threading.current_thread().name


def test_a_call_that_waits_for_a_place_has_no_mark_and_no_start():
    """spec L5: a claim not begun carries no mark."""
    bench = Bench(jobs=1)
    gate, began = threading.Event(), threading.Event()

    first = bench.start(lambda: (began.set(), gate.wait(PATIENCE)), key="first")
    second = bench.start(lambda: None, key="second")
    bench.until_event(began)

    assert first.started_at is not None
    assert second.started_at is None
    assert bench.marks.inside == 1

    gate.set()
    bench.until(lambda: len(bench.ends) == 2)
    assert second.started_at is not None


def test_a_called_off_plain_function_keeps_its_thread_and_gives_its_place_away():
    """B10; spec O1: the pool grows by one meanwhile, the worker says so, the late value is lost."""
    bench = Bench(jobs=1)
    gate, began, noticed = threading.Event(), threading.Event(), threading.Event()

    def slow() -> str:
        began.set()
        assert gate.wait(PATIENCE)
        if this_step().cancelled:
            noticed.set()
        return "late"

    run = bench.start(slow, key="slow")
    bench.start(lambda: "second", key="second")
    bench.until_event(began)
    run.cancel()
    bench.until(lambda: "second" in bench.ends)

    assert bench.performers.running() == 1
    assert [event.step_key for event in bench.said] == ["slow"]

    gate.set()
    bench.until_idle()
    run.cancel()

    assert noticed.is_set()
    assert "slow" not in bench.ends
    assert len(bench.said) == 2
    assert "dropped" in bench.said[1].text


def test_the_pool_is_as_small_as_before_when_a_called_off_function_has_returned():
    """spec K1: `-j` holds again: the thread that ran it ends."""
    bench = Bench(jobs=1)
    gate, began = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def slow() -> None:
        threads.append(threading.current_thread())
        began.set()
        assert gate.wait(PATIENCE)

    run = bench.start(slow, key="slow")
    bench.until_event(began)
    run.cancel()
    other = bench.run(threading.current_thread).value
    gate.set()
    bench.until_idle()
    threads[0].join(PATIENCE)

    assert not threads[0].is_alive()
    assert other is not threads[0]
    assert bench.run(threading.current_thread).value is other


def test_a_call_called_off_while_it_waits_never_runs():
    """Nothing was begun, so nothing runs on."""
    bench = Bench(jobs=1, async_limit=1)
    gate, began = threading.Event(), threading.Event()
    ran: list[str] = []

    async def hold() -> None:
        while not gate.is_set():
            await asyncio.sleep(0)

    async def never() -> None:
        ran.append("async")

    bench.start(lambda: (began.set(), gate.wait(PATIENCE)), key="sync")
    waiting = bench.start(lambda: ran.append("sync"), key="sync waiting")
    bench.start(hold, key="async", asynchronous=True)
    waiting_async = bench.start(never, key="async waiting", asynchronous=True)
    bench.until_event(began)
    waiting.cancel()
    waiting_async.cancel()

    assert bench.performers.running() == 2

    gate.set()
    bench.until(lambda: len(bench.ends) == 2)
    assert bench.run(lambda: "after").value == "after"
    assert ran == []
    assert bench.said == []


def test_a_called_off_async_function_stops_at_its_next_await_and_cleans_up(bench):
    """spec O1, O4: an async one is cancelled."""
    seen: list[str] = []

    async def endless() -> None:
        seen.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(f"cancelled: {this_step().cancelled}")

    run = bench.start(endless, asynchronous=True)
    bench.start(lambda: None, key="tick")
    bench.until(lambda: "tick" in bench.ends and bool(seen))
    run.cancel()
    bench.until_idle()

    assert seen == ["began", "cancelled: True"]
    assert "step" not in bench.ends
    assert bench.marks.inside == 0


def test_an_async_function_called_off_before_its_first_step_never_runs(bench):
    """Nothing of it is left."""
    ran: list[str] = []

    async def never() -> None:
        ran.append("ran")

    bench.start(never, asynchronous=True).cancel()
    bench.until_idle()

    assert ran == []
    assert bench.ends == {}


def test_a_call_called_off_after_it_ended_and_before_the_loop_heard_of_it_is_dropped():
    """`done` is not called once `cancel` was."""
    bench = Bench(jobs=1)
    next_began = threading.Event()
    run = bench.start(lambda: "value", key="first")
    bench.start(next_began.set, key="second")

    # The one thread has handed in the first call's end before it began the second.
    bench.until_event(next_began)
    run.cancel()
    bench.until_idle()

    assert list(bench.ends) == ["second"]


def test_closing_drops_what_waits_calls_off_async_functions_and_waits_for_nothing():
    """spec K2: what runs on is the process's to end."""
    bench = Bench(jobs=1, async_limit=1)
    gate, began = threading.Event(), threading.Event()
    ran: list[str] = []

    async def endless() -> None:
        try:
            ran.append("async began")
            await asyncio.Event().wait()
        finally:
            ran.append("async ended")

    async def never() -> None:
        ran.append("never")

    bench.start(lambda: (began.set(), gate.wait(PATIENCE)), key="running")
    bench.start(lambda: ran.append("never"), key="waiting")
    bench.start(endless, key="async", asynchronous=True)
    bench.start(never, key="async waiting", asynchronous=True)
    bench.until(lambda: bool(ran) or bench.loop.post(lambda: None))
    bench.until_event(began)
    bench.performers.close()
    gate.set()
    bench.until_idle()

    assert ran == ["async began", "async ended"]


SCRIPT = """
import os, sys, threading
from yieldstar_cli.clock import SystemClock
from yieldstar_cli.worker.loop import AsyncLoop
from yieldstar_cli.worker.marks import NoMarks
from yieldstar_cli.worker.performers import ThreadedPerformers
from yieldstar_cli.worker.ports import StepCall

loop = AsyncLoop(SystemClock())
performers = ThreadedPerformers(loop, SystemClock(), 2, NoMarks())
ends = []

def start(fn, asynchronous=False):
    performers.start(StepCall(1, "e", "k", 1, "i", fn, (), {}, asynchronous), ends.append)
"""


def run_script(body: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT + textwrap.dedent(body)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_endless_step_does_not_keep_the_process_alive():
    """case 88, B96: threads are daemons and nobody joins them."""
    ended = run_script(
        """
        began = threading.Event()
        start(lambda: (began.set(), threading.Event().wait()))
        began.wait()
        print("leaving", flush=True)
        """
    )

    assert ended.stdout == "leaving\n"
    assert ended.returncode == 0


@pytest.mark.parametrize("asynchronous", [False, True], ids=["in a thread", "on the loop"])
def test_a_child_forked_by_a_step_that_returns_from_it_ends_there(asynchronous):
    """B19; case 317: the child does not go on as the worker; the parent's step ends once."""
    ended = run_script(
        f"""
        import warnings
        warnings.simplefilter("ignore")

        def fork():
            for status in (0, 5):
                pid = os.fork()
                if pid == 0:
                    print("child", flush=True)
                    return sys.exit(status)
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == status
            return "parent"

        async def fork_async():
            return fork()

        start(fork_async if {asynchronous} else fork, {asynchronous})
        loop.run_until(lambda: bool(ends))
        print(ends[0].value or ends[0].error, flush=True)
        """
    )

    assert ended.stdout.splitlines() == ["child", "child", "parent"], ended.stderr


def test_ten_thousand_short_steps_all_end_exactly_once(bench):
    """B64: none is lost between threads and loop, whatever the interleaving."""
    for number in range(10_000):
        bench.start(lambda number=number: number, key=str(number))
    bench.until(lambda: len(bench.ends) == 10_000)

    assert [bench.ends[str(number)].value for number in range(10_000)] == list(range(10_000))


# --- in place -----------------------------------------------------------------------------------


def started_inline(fakes, fn, *args, asynchronous=False):
    loop = VirtualLoop(ManualClock(1_000))
    performers = InlinePerformers(loop, fakes)
    ends: list[StepEnd] = []
    call = StepCall(7, "order-42", "step", 1, "idem", fn, args, {}, asynchronous)
    run = performers.start(call, ends.append)
    return loop, performers, run, ends


def test_inline_a_function_runs_in_a_callback_of_its_own_in_no_time():
    """The kit: real functions, virtual time."""
    loop, performers, _, ends = started_inline({}, lambda: this_step().step_key)

    assert ends == []
    assert performers.running() == 1
    assert loop.step()

    assert ends == [StepEnd("step", None, 1_000, 1_000)]
    assert performers.running() == 0


def test_inline_an_async_function_runs_to_its_end():
    """Also one that really waits for its own tasks."""

    async def gathered() -> list[int]:
        async def one(number: int) -> int:
            await asyncio.sleep(0)
            return number

        return await asyncio.gather(one(1), one(2))

    loop, _, _, ends = started_inline({}, gathered, asynchronous=True)
    loop.run()

    assert ends[0].value == [1, 2]


def test_inline_an_async_function_also_runs_inside_an_async_test():
    """asyncio allows no loop inside a running one; the kit works there all the same."""

    async def step() -> str:
        await asyncio.sleep(0)
        return this_step().execution_id

    async def a_test() -> object:
        loop, _, _, ends = started_inline({}, step, asynchronous=True)
        loop.run()
        return ends[0].value

    assert asyncio.run(a_test()) == "order-42"


def test_inline_a_fake_runs_in_place_of_the_function_plain_or_async():
    """authoring: fakes by function, not by name."""

    def charge(amount: int) -> str:
        raise AssertionError("the real one ran")

    async def fake(amount: int) -> str:
        return f"faked {amount}"

    for stand_in in (fake, lambda amount: f"faked {amount}"):
        loop, _, _, ends = started_inline({charge: stand_in}, charge, 5)
        loop.run()
        assert ends[0].value == "faked 5"


def test_inline_a_call_called_off_before_its_turn_never_runs():
    """As in the real performers."""
    ran: list[int] = []
    loop, performers, run, ends = started_inline({}, lambda: ran.append(1))

    run.cancel()
    loop.run()

    assert (ran, ends, performers.running()) == ([], [], 0)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), Cancelled()])
def test_inline_whatever_a_function_raises_is_its_error(error):
    """As in the real performers."""

    def fail() -> None:
        raise error

    loop, _, _, ends = started_inline({}, fail)
    loop.run()

    assert ends[0].error is error


def test_inline_a_plain_function_that_returns_a_coroutine_is_told_to_become_async():
    """As in the real performers."""

    async def inner() -> int:
        return 1

    loop, _, _, ends = started_inline({}, lambda: inner())
    loop.run()

    assert isinstance(ends[0].error, Fatal)
