"""The loop: callbacks in order, timers by the wall clock, in real and in virtual time."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading

import pytest

from yieldstar_cli.clock import ManualClock, SystemClock
from yieldstar_cli.errors import MisplacedCall
from yieldstar_cli.worker.loop import AsyncLoop, VirtualLoop
from yieldstar_cli.worker.timers import Timers

PATIENCE = 20


@pytest.fixture
def loop():
    made = AsyncLoop(SystemClock())
    yield made
    made.close()


def test_posted_callbacks_run_in_the_order_in_which_they_were_posted(loop):
    """spec R4: what happens first is applied first."""
    seen: list[int] = []

    for number in range(100):
        loop.post(lambda number=number: seen.append(number))
    loop.run_until(lambda: len(seen) == 100)

    assert seen == list(range(100))


def test_what_a_callback_posts_runs_after_what_was_ready_already(loop):
    """spec R4: a round ends before the next begins."""
    seen: list[str] = []

    def first() -> None:
        seen.append("first")
        loop.post(lambda: seen.append("posted by first"))

    loop.post(first)
    loop.post(lambda: seen.append("second"))
    loop.run_until(lambda: len(seen) == 3)

    assert seen == ["first", "second", "posted by first"]


def test_no_post_of_many_threads_is_lost_and_many_share_one_wake_up(loop, monkeypatch):
    """Posts are coalesced; the flag that does it loses none."""
    seen: list[int] = []
    wake_ups: list[int] = []
    threadsafe = loop.asyncio_loop.call_soon_threadsafe
    monkeypatch.setattr(
        loop.asyncio_loop,
        "call_soon_threadsafe",
        lambda *args: (wake_ups.append(1), threadsafe(*args))[1],
    )

    def post_many() -> None:
        for number in range(5_000):
            loop.post(lambda number=number: seen.append(number))

    threads = [threading.Thread(target=post_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    loop.run_until(lambda: len(seen) == 20_000)
    for thread in threads:
        thread.join()

    assert len(seen) == 20_000
    assert len(wake_ups) < 10_000


def test_a_post_from_a_signal_handler_wakes_a_loop_that_sleeps_or_is_about_to(loop):
    """spec K2: the handler runs on the loop's own thread, and only once that is awake."""
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: loop.post(lambda: seen.append(1)))
    main = threading.get_ident()

    def send_on_the_way_to_sleep() -> None:
        while "select" not in sys._current_frames()[main].f_code.co_name:
            pass
        signal.pthread_kill(main, signal.SIGUSR1)

    # No timer is set: nothing but the post ends the loop's sleep, and the watchdog the test's.
    # Some of so many signals come between the loop's last look and its sleep.
    late: list[int] = []
    loop.asyncio_loop.call_later(PATIENCE, loop.post, lambda: late.append(1))
    for turn in range(1, 101):
        loop.asyncio_loop.call_soon(threading.Thread(target=send_on_the_way_to_sleep).start)
        loop.run_until(lambda turn=turn: bool(late) or len(seen) == turn)
        assert not late, "a signal was lost"
    signal.signal(signal.SIGUSR1, before)

    assert len(seen) == 100


def test_running_leaves_the_wake_up_of_signals_as_it_was(loop):
    """A program that runs a worker may have its own."""
    before = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before)
    ended: list[int] = []

    loop.post(lambda: ended.append(1))
    loop.run_until(lambda: bool(ended))

    after = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(after)
    assert after == before


def test_a_loop_runs_in_any_thread():
    """Only the main thread hears signals; the others need not."""
    loop = AsyncLoop(SystemClock())
    seen: list[int] = []
    loop.post(lambda: seen.append(threading.get_ident()))
    thread = threading.Thread(target=loop.run_until, args=(lambda: bool(seen),))
    thread.start()
    thread.join(PATIENCE)
    loop.close()

    assert seen == [thread.ident]


class SetBackClock(ManualClock):
    """At its third look it is set back by an hour, for twenty looks."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def now_ms(self) -> int:
        self.looks += 1
        return super().now_ms() - (3_600_000 if 3 <= self.looks < 23 else 0)


def test_a_timer_does_not_fire_when_the_clock_was_set_back_meanwhile():
    """case 157; spec O3: a timer never fires early."""
    clock = SetBackClock()
    loop = AsyncLoop(clock, recheck_ms=1)
    looks_when_fired: list[int] = []

    loop.call_at(clock.now_ms() + 1, lambda: looks_when_fired.append(clock.looks))
    clock.advance(1)
    loop.run_until(lambda: bool(looks_when_fired))
    loop.close()

    assert looks_when_fired[0] >= 23


def test_a_far_timer_fires_soon_after_the_clock_was_set_forward():
    """case 158: the monotonic clock knows nothing of it, so the loop looks again by itself."""
    clock = ManualClock()
    loop = AsyncLoop(clock, recheck_ms=1)
    fired: list[int] = []

    loop.call_at(clock.now_ms() + 86_400_000, lambda: fired.append(1))
    loop.asyncio_loop.call_soon(lambda: clock.advance(86_400_000))
    loop.run_until(lambda: bool(fired))
    loop.close()

    assert fired == [1]


def test_timers_fire_by_moment_and_those_of_one_moment_in_the_order_set():
    """spec O6: the earlier moment first."""
    clock = ManualClock(1_000)
    loop = AsyncLoop(clock)
    seen: list[str] = []

    loop.call_at(990, lambda: seen.append("b"))
    loop.call_at(990, lambda: seen.append("c"))
    loop.call_at(980, lambda: seen.append("a"))
    loop.run_until(lambda: len(seen) == 3)
    loop.close()

    assert seen == ["a", "b", "c"]


def test_a_cancelled_timer_does_not_fire_even_if_its_moment_has_come(loop):
    """ports.Cancellable: calling off is final, and harmless twice."""
    seen: list[str] = []
    late = loop.call_at(0, lambda: seen.append("cancelled"))

    loop.call_at(-1, late.cancel)
    loop.call_at(1, lambda: seen.append("kept"))
    loop.run_until(lambda: bool(seen))
    late.cancel()

    assert seen == ["kept"]


def test_cancelled_timers_are_not_kept_until_their_moment():
    """spec K3: memory does not grow with the steps that had a time limit of a day."""
    timers = Timers()
    for _ in range(10_000):
        timers.add(86_400_000, lambda: None).cancel()
    kept = timers.add(86_400_000, lambda: None)

    assert len(timers._heap) < 200
    assert timers.next_at() == 86_400_000
    assert timers.pop_due(86_400_000) is kept


def test_an_error_of_a_callback_leaves_the_run_and_loses_no_other_callback(loop):
    """Without `on_error` nothing goes on as if all were well."""
    seen: list[int] = []

    loop.post(lambda: 1 / 0)
    loop.post(lambda: seen.append(1))
    with pytest.raises(ZeroDivisionError):
        loop.run_until(lambda: False)
    loop.run_until(lambda: bool(seen))

    assert seen == [1]


def test_an_error_handler_is_told_and_the_loop_goes_on():
    """`on_error` decides."""
    errors: list[BaseException] = []
    loop = AsyncLoop(SystemClock(), on_error=errors.append)
    seen: list[int] = []

    loop.post(lambda: 1 / 0)
    loop.post(lambda: seen.append(1))
    loop.run_until(lambda: bool(seen))
    loop.close()

    assert [type(error) for error in errors] == [ZeroDivisionError]


def test_a_post_to_a_closed_loop_is_dropped():
    """A step's thread may end after the worker did."""
    loop = AsyncLoop(SystemClock())
    loop.close()

    loop.post(lambda: pytest.fail("ran after the loop was closed"))

    assert loop.asyncio_loop.is_closed()


def test_closing_lets_tasks_clean_up(loop):
    """An async step that is running at the end gets its cancellation."""
    seen: list[str] = []

    async def endless() -> None:
        seen.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cleaned up")

    task = loop.asyncio_loop.create_task(endless())
    loop.asyncio_loop.call_soon(lambda: loop.post(lambda: None))
    loop.run_until(lambda: bool(seen))
    loop.close()

    assert task.cancelled()
    assert seen == ["began", "cleaned up"]


def test_an_idle_loop_wakes_once_a_second_for_a_far_timer_and_never_without_one(monkeypatch):
    """case 92; spec K3: idle costs almost nothing."""
    loop = AsyncLoop(ManualClock())
    waits: list[float] = []
    call_later = loop.asyncio_loop.call_later
    monkeypatch.setattr(
        loop.asyncio_loop,
        "call_later",
        lambda delay, *args: (waits.append(delay), call_later(delay, *args))[1],
    )
    ended: list[int] = []

    loop.post(lambda: ended.append(1))
    loop.run_until(lambda: bool(ended))
    assert waits == []

    loop.call_at(loop.now_ms() + 86_400_000, lambda: None)
    loop.close()

    assert waits == [1.0]


def test_virtual_time_jumps_to_the_next_timer_only_when_nothing_is_ready():
    """The simulator's order: callbacks first, then time."""
    clock = ManualClock(1_000)
    loop = VirtualLoop(clock)
    seen: list[tuple[str, int]] = []

    loop.call_at(5_000, lambda: seen.append(("timer", clock.now_ms())))
    loop.post(lambda: loop.post(lambda: seen.append(("posted", clock.now_ms()))))
    loop.run()

    assert seen == [("posted", 1_000), ("timer", 5_000)]


def test_virtual_time_does_not_jump_while_work_is_under_way_elsewhere():
    """A step in a thread ends before the timer that stands an hour ahead."""
    clock = ManualClock(1_000)
    work: list[int] = [1]
    running = threading.Event()
    loop = VirtualLoop(clock, busy=lambda: bool(work))
    seen: list[tuple[str, int]] = []

    def end_work() -> None:
        work.clear()
        seen.append(("work", clock.now_ms()))

    def work_elsewhere() -> None:
        assert running.wait(PATIENCE)
        loop.post(end_work)

    loop.call_at(3_601_000, lambda: seen.append(("timer", clock.now_ms())))
    thread = threading.Thread(target=work_elsewhere)
    thread.start()
    loop.post(running.set)
    loop.run()
    thread.join()

    assert seen == [("work", 1_000), ("timer", 3_601_000)]


def test_a_virtual_loop_takes_one_callback_a_step():
    """The simulator can crash the worker between any two callbacks."""
    loop = VirtualLoop(ManualClock())
    seen: list[int] = []
    loop.post(lambda: seen.append(1))
    loop.post(lambda: seen.append(2))

    assert loop.step()
    assert seen == [1]
    assert loop.step()
    assert not loop.step()
    assert seen == [1, 2]


def test_a_virtual_loop_stops_at_a_moment_and_the_clock_stands_there():
    """The test kit's `advance`."""
    clock = ManualClock(1_000)
    loop = VirtualLoop(clock)
    seen: list[int] = []
    for at in (2_000, 3_000, 3_001):
        loop.call_at(at, lambda at=at: seen.append(at))

    loop.run_until_at(3_000)

    assert seen == [2_000, 3_000]
    assert clock.now_ms() == 3_000
    assert loop.next_at() == 3_001


def test_a_virtual_loop_says_whether_what_was_waited_for_came():
    """`run_until` ends when all work has."""
    loop = VirtualLoop(ManualClock())
    seen: list[int] = []
    loop.post(lambda: seen.append(1))

    assert loop.run_until(lambda: bool(seen))
    assert not loop.run_until(lambda: len(seen) == 2)


def test_a_virtual_timer_passed_by_a_clock_set_by_hand_fires_late_not_never():
    """case 158: a clock that jumped forward."""
    clock = ManualClock(1_000)
    loop = VirtualLoop(clock)
    seen: list[int] = []
    loop.call_at(2_000, lambda: seen.append(clock.now_ms()))

    clock.set(9_000)
    loop.run()

    assert seen == [9_000]


def test_an_error_in_virtual_time_leaves_the_step_that_ran_it():
    """Nothing is swallowed in a test."""
    loop = VirtualLoop(ManualClock())
    loop.post(lambda: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        loop.run()


def test_a_task_that_nobody_awaits_is_reported_but_for_a_fault_that_its_execution_tells(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """spec R9: `asyncio.wait_for(step.run(f), 1)` left a traceback of our frames on stderr."""

    async def fails(error: Exception) -> None:
        raise error

    loop = AsyncLoop(SystemClock())
    try:
        for error in (MisplacedCall("in a task"), ValueError("in a task")):
            loop.asyncio_loop.create_task(fails(error))
        seen: list[int] = []
        loop.call_at(loop.now_ms() + 1, lambda: seen.append(1))
        loop.run_until(lambda: bool(seen))
        gc.collect()
    finally:
        loop.close()

    assert [type(record.exc_info[1]) for record in caplog.records if record.exc_info] == [
        ValueError
    ]
