"""The lease keeper: renewal, the end of other workers, and a loop that does not come back."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from yieldstar_cli.clock import ManualClock, SystemClock
from yieldstar_cli.errors import DatabaseBusy
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.worker.leases import DeadWorker, LeaseKeeper, Reports, Spans, find_ended
from yieldstar_cli.worker.liveness import LockFile
from yieldstar_cli.worker.loop import AsyncLoop, VirtualLoop
from yieldstar_cli.worker.marks import MarksFile
from yieldstar_cli.worker.watch import LoopWatch, Stepping, whereabouts

PATIENCE = 20
START = ManualClock().now_ms()

WORKER = """
import sys
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.worker.liveness import LockFile
from yieldstar_cli.worker.marks import MarksFile

path, until = sys.argv[1], int(sys.argv[2])
lock, marks, nonce = LockFile(path + "-lock"), MarksFile(path + "-marks"), b"the other one's"
slot = lock.acquire(nonce)
marks.take(slot, nonce)
storage = SqliteStorage(path, clock=ManualClock())
number = storage.workers.register(
    name="other", host="h", pid=1, slot=slot, nonce=nonce, boot_id=lock.boot_id,
    device=lock.device, inode=lock.inode, lease_until_at=until,
)
marks.enter(42, "charge-card", 1_000)
print(number, flush=True)
sys.stdin.read()
"""


class Bench:
    """A database, this process's worker in it, and a keeper that only ticks when told."""

    def __init__(self, path: str, spans: Spans | None = None) -> None:
        self.path = path
        self.clock = ManualClock(START)
        self.loop = VirtualLoop(self.clock)
        self.storage = SqliteStorage(path, clock=self.clock, create=True)
        self.lock = LockFile(f"{path}-lock")
        self.marks = MarksFile(f"{path}-marks")
        self.spans = spans or Spans()
        self.worker = self.register(self.lock.acquire(b"mine"), b"mine")
        self.stepping = Stepping()
        self.dead: list[DeadWorker] = []
        self.lost: list[int] = []
        self.slow: list[str] = []
        self.opened: list[SqliteStorage] = []
        self.processes: list[subprocess.Popen[str]] = []
        self.now_ms = 0.0
        self.keeper = LeaseKeeper(
            worker=self.worker,
            open_storage=self.open,
            loop=self.loop,
            clock=self.clock,
            lock=self.lock,
            marks=self.marks,
            stepping=self.stepping,
            reports=Reports(self.dead.extend, lambda: self.lost.append(1), self.slow.append),
            loop_thread=threading.get_ident(),
            spans=self.spans,
        )

    def open(self) -> SqliteStorage:
        self.opened.append(SqliteStorage(self.path, clock=self.clock, busy_timeout_ms=1))
        return self.opened[-1]

    def register(self, slot: int, nonce: bytes, lease_ms: int = 30_000) -> int:
        return self.storage.workers.register(
            name=nonce.decode(),
            host="h",
            pid=os.getpid(),
            slot=slot,
            nonce=nonce,
            boot_id=self.lock.boot_id,
            device=self.lock.device,
            inode=self.lock.inode,
            lease_until_at=self.clock.now_ms() + lease_ms,
        )

    def start_worker(self, lease_ms: int = 30_000) -> tuple[int, subprocess.Popen[str]]:
        until = str(self.clock.now_ms() + lease_ms)
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, self.path, until],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        assert process.stdout is not None
        return int(process.stdout.readline()), process

    def tick(self, after_ms: int = 500, *, loop_answers: bool = True) -> None:
        self.now_ms += after_ms
        self.clock.advance(after_ms)
        self.keeper.tick(self.now_ms)
        if loop_answers:
            self.loop.run()

    def lease_left_ms(self, worker: int | None = None) -> int:
        (until,) = (
            row.lease_until_at
            for row in self.storage.workers.all()
            if row.number == (worker or self.worker)
        )
        return until - self.clock.now_ms()

    def close(self) -> None:
        self.keeper.stop()
        self.storage.close()
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.communicate(timeout=PATIENCE)


@pytest.fixture
def bench(tmp_path):
    made = Bench(str(tmp_path / "ys.db"))
    yield made
    made.close()


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE)


def test_the_lease_is_renewed_at_once_and_then_every_third_of_it(bench):
    """spec L1; case 78: a step of any length loses nothing."""
    left = []
    for _ in range(60):
        bench.tick(1_000)
        left.append(bench.lease_left_ms())

    assert left[0] == 30_000
    assert min(left) == 21_000
    assert left.count(30_000) == 6


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000], ids=["forward", "back"])
def test_a_wall_clock_that_is_set_leaves_no_lapsed_and_no_endless_lease(bench, jump_ms):
    """case 93: the next tick puts it right."""
    bench.tick()
    bench.clock.advance(jump_ms)
    bench.tick()

    assert bench.lease_left_ms() == 30_000


def test_a_renewal_revives_a_lease_that_had_ended(bench):
    """spec L2: a process that was stopped for an hour goes on if nobody ended it."""
    bench.tick()
    bench.tick(3_600_000)

    assert bench.lease_left_ms() == 30_000
    assert bench.lost == []


def test_a_worker_ended_by_another_is_told_once(bench):
    """spec L2: it stops; what it still writes is refused by its tokens."""
    bench.tick()
    bench.storage.workers.bury(bench.worker, "died", {}, max_deaths=5)
    for _ in range(100):
        bench.tick()

    assert bench.lost == [1]


def test_a_busy_database_is_tried_again_at_the_next_tick(bench):
    """case 315: another process holds the write lock for a while."""
    bench.tick()
    with bench.storage.atomic():
        for _ in range(25):
            bench.tick()
    assert bench.lease_left_ms() == 30_000 - 25 * 500

    bench.tick()

    assert bench.lease_left_ms() == 30_000
    assert bench.slow == []
    assert len(bench.opened) == 1


def test_after_any_other_error_the_keeper_goes_on_with_a_fresh_connection(bench):
    """design: what a connection of unknown fate says is not believed."""
    bench.tick()
    bench.opened[0].close()
    bench.tick(20_000)
    assert bench.lease_left_ms() == 10_000

    bench.tick()

    assert len(bench.opened) == 2
    assert bench.lease_left_ms() == 30_000


def test_a_lease_that_cannot_be_renewed_is_said_once(bench):
    """style: never silent, never a traceback."""
    bench.tick()
    with bench.storage.atomic():
        for _ in range(60):
            bench.tick()

    assert len(bench.slow) == 1
    assert "has not been renewed" in bench.slow[0]


def test_a_killed_worker_is_found_at_the_next_tick_with_what_ran_in_it(bench):
    """spec L3, L5: within a second, by any other worker of the host."""
    number, process = bench.start_worker()
    bench.tick()
    assert bench.dead == []

    kill(process)
    bench.tick()

    (dead,) = bench.dead
    assert (dead.row.number, dead.how, dead.marked) == (number, "died", {42: 1_000})


def test_a_dead_worker_is_reported_once_and_again_if_it_is_still_there(bench):
    """Its claims may not have been ended: a busy database."""
    _, process = bench.start_worker()
    kill(process)
    for _ in range(10):
        bench.tick()
    assert len(bench.dead) == 1

    bench.tick()
    assert len(bench.dead) == 2

    bench.storage.workers.bury(bench.dead[0].row.number, "died", {}, max_deaths=5)
    for _ in range(30):
        bench.tick()
    assert len(bench.dead) == 2


def test_a_stopped_process_keeps_its_claims_until_its_lease_ends(bench):
    """case 85; spec L3: and then nothing counts as a death."""
    number, process = bench.start_worker(lease_ms=10_000)
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    for _ in range(19):
        bench.tick()
    assert bench.dead == []

    bench.tick()

    (dead,) = bench.dead
    assert (dead.row.number, dead.how, dead.marked) == (number, "lease ended", {})


def test_a_worker_that_handed_back_is_found_when_its_process_is_gone(bench):
    """spec K2: its claims come back when the kernel frees its lock, not before."""
    number, process = bench.start_worker()
    bench.storage.workers.stop(number, "handed back")
    bench.tick()
    assert bench.dead == []

    kill(process)
    bench.tick()

    assert [dead.row.number for dead in bench.dead] == [number]


def test_dead_workers_are_found_at_a_start_before_there_is_a_keeper(bench):
    """spec L3: at once when a worker starts."""
    number, process = bench.start_worker()
    kill(process)

    ended = find_ended(
        bench.storage.workers.all(living=True), bench.lock, bench.marks, bench.clock.now_ms()
    )

    assert [(dead.row.number, dead.how) for dead in ended] == [(number, "died")]


def test_another_worker_of_this_process_is_known_from_memory(bench):
    """spec L3."""
    slot = bench.lock.acquire(b"second")
    number = bench.register(slot, b"second")
    bench.tick()
    assert bench.dead == []

    bench.lock.release(slot)
    bench.tick()

    assert [dead.row.number for dead in bench.dead] == [number]


def test_a_worker_alone_reads_the_rows_only_when_something_was_committed(bench, monkeypatch):
    """case 92; spec K3: an idle worker asks for the counter and nothing more."""
    bench.tick()
    reads: list[int] = []
    read = type(bench.opened[0].workers).all
    monkeypatch.setattr(
        type(bench.opened[0].workers),
        "all",
        lambda *args, **kw: (reads.append(1), read(*args, **kw))[1],
    )

    for _ in range(100):
        bench.tick()
    assert reads == []

    bench.register(9, b"new")
    bench.tick()
    assert reads == [1]


def test_a_loop_without_progress_for_five_minutes_loses_the_lease_and_may_come_back(bench):
    """spec R12: others may take over; when the loop goes on, so does the renewal."""
    bench.tick()
    for _ in range(590):
        bench.tick(loop_answers=False)
    assert bench.lease_left_ms() > 0

    for _ in range(100):
        bench.tick(loop_answers=False)
    assert bench.lease_left_ms() <= 0

    bench.loop.run()
    bench.tick()
    assert bench.lease_left_ms() == 30_000


def test_a_process_that_stood_still_is_not_a_loop_that_is_stuck(bench):
    """case 85: after a SIGSTOP of an hour the lease is renewed at once."""
    bench.tick(loop_answers=False)
    bench.tick(3_600_000, loop_answers=False)

    assert bench.lease_left_ms() == 30_000


def author_code(tick: Callable[[], None], ticks: int) -> int:
    """Stands for a workflow function that does not come to its next await."""
    for _ in range(ticks):
        tick()
    return sys._getframe().f_lineno


def test_a_function_that_does_not_come_to_its_next_await_is_reported_once_with_its_line(bench):
    """spec R12; B64: with file and line, after a second."""
    bench.stepping.begin(lambda: "charge-order order-42", bench.now_ms)

    author_code(lambda: bench.tick(loop_answers=False), 2)
    assert bench.slow == []
    author_code(lambda: bench.tick(loop_answers=False), 20)
    bench.stepping.end()

    (text,) = bench.slow
    assert text.startswith("charge-order order-42 has not come to its next await for 1.5 s")
    assert f"{__file__}:" in text

    bench.loop.run()
    bench.tick()
    bench.stepping.begin(lambda: "charge-order order-43", bench.now_ms)
    author_code(lambda: bench.tick(loop_answers=False), 3)
    assert [line.partition(" has")[0] for line in bench.slow] == [
        "charge-order order-42",
        "charge-order order-43",
    ]


def test_time_that_goes_into_large_values_is_not_told_of_as_slow_code():
    """spec R12: a million keys take a second to decode, and no step can take that over."""
    slow: list[str] = []
    stepping = Stepping()
    watch = LoopWatch(
        VirtualLoop(ManualClock()), stepping, slow.append, 0,
        check_ms=500, slow_ms=1_000, stuck_ms=300_000,
    )  # fmt: skip
    stepping.begin(lambda: "charge-order order-42", 0)

    watch.tick(5_000)

    assert slow == []


def test_short_steps_of_many_functions_are_not_reported(bench):
    """spec R12: each is asked for itself."""
    for _ in range(20):
        bench.stepping.begin(lambda: "charge-order", bench.now_ms)
        bench.tick()
        bench.stepping.end()

    assert bench.slow == []


def hold_in_thread(seen: threading.Event, let_go: threading.Event) -> None:
    seen.set()
    let_go.wait(PATIENCE)


def test_an_async_step_that_blocks_the_loop_is_reported_with_its_line():
    """B64: blocking code in an async step froze everything else."""
    seen, let_go = threading.Event(), threading.Event()
    thread = threading.Thread(target=hold_in_thread, args=(seen, let_go))
    thread.start()
    assert seen.wait(PATIENCE)
    assert thread.ident is not None
    said: list[str] = []
    watch = LoopWatch(
        VirtualLoop(ManualClock()),
        Stepping(),
        said.append,
        thread.ident,
        check_ms=500,
        slow_ms=1_000,
        stuck_ms=300_000,
    )

    for now in range(0, 10_000, 500):
        watch.tick(now)
    place = whereabouts(thread.ident)
    let_go.set()
    thread.join()

    (text,) = said
    assert place is not None
    assert place.startswith(f"{__file__}:")
    assert place.endswith(", in hold_in_thread")
    assert place in text


def test_a_loop_that_is_late_among_many_calls_is_no_ones_fault():
    """Two looks must find the same call: under load a sign of life comes late."""
    said: list[str] = []
    watch = LoopWatch(
        VirtualLoop(ManualClock()),
        Stepping(),
        said.append,
        threading.get_ident(),
        check_ms=500,
        slow_ms=1_000,
        stuck_ms=300_000,
    )

    for now in range(0, 10_000, 500):
        author_code(functools.partial(watch.tick, now), 1)

    assert said == []


def test_a_loop_that_is_late_in_our_own_code_is_not_the_authors_fault():
    """Under load a sign of life comes late; that is no report."""
    loop = AsyncLoop(SystemClock())
    over: list[int] = []
    until_over = functools.partial(loop.run_until, lambda: bool(over))
    thread = threading.Thread(target=until_over, daemon=True)
    thread.start()
    assert thread.ident is not None
    said: list[str] = []
    watch = LoopWatch(
        VirtualLoop(ManualClock()),
        Stepping(),
        said.append,
        thread.ident,
        check_ms=500,
        slow_ms=1_000,
        stuck_ms=300_000,
    )

    for now in range(0, 10_000, 500):
        watch.tick(now)
    loop.post(lambda: over.append(1))
    thread.join(PATIENCE)
    loop.close()

    assert said == []


def test_the_thread_looks_at_everything_as_soon_as_it_starts(tmp_path):
    """spec L3: at once when a worker starts."""
    bench = Bench(str(tmp_path / "ys.db"))
    bench.clock.advance(5_000)

    bench.keeper.start()
    bench.keeper.stop()

    assert bench.lease_left_ms() == 30_000
    bench.close()


def test_the_thread_renews_without_anyone_ticking(tmp_path):
    """spec L1: a thread of its own, whatever the loop does."""
    bench = Bench(str(tmp_path / "ys.db"), Spans(check_ms=1))
    bench.loop.busy = lambda: True
    late: list[int] = []
    watchdog = threading.Timer(PATIENCE, lambda: bench.loop.post(lambda: late.append(1)))
    watchdog.start()
    bench.clock.advance(5_000)

    bench.keeper.start()
    # Each tick asks the loop for a sign of life, so the question is put anew after each.
    bench.loop.run_until(lambda: bool(late) or bench.lease_left_ms() == 30_000)
    watchdog.cancel()
    bench.close()

    assert late == []


def test_an_error_while_opening_does_not_end_the_keeper(bench):
    """case 315: the file is busy at the very first look."""
    opened = bench.keeper._open_storage
    calls: list[int] = []

    def open_at_second_try():
        calls.append(1)
        if len(calls) == 1:
            raise DatabaseBusy("busy")
        return opened()

    bench.keeper._open_storage = open_at_second_try
    bench.clock.advance(1_000)
    bench.tick()
    assert bench.lease_left_ms() == 30_000 - 1_500

    bench.tick()

    assert bench.lease_left_ms() == 30_000
