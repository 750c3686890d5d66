"""A worker that is not alone claims what its threads can begin soon, and leaves the rest (L4)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from yieldstar_cli.clock import ManualClock
from yieldstar_cli.worker.sharing import SOON_MS, TELLING, Sharing

MOST = 256
JOBS = 4


@dataclass
class Known:
    """What the threads are known to have done."""

    jobs: int = JOBS
    ended: int = 0
    last_ended_at: int = 0
    mean_ms: float = 0.0
    open: int = 0

    def open_calls(self) -> int:
        return self.open

    def running(self) -> int:
        return self.open


@pytest.fixture
def threads() -> Known:
    return Known()


@pytest.fixture
def sharing(threads: Known, clock: ManualClock) -> Sharing:
    return Sharing(threads, clock)


def well_known(threads: Known, clock: ManualClock, mean_ms: float) -> None:
    """Enough functions have ended, the last one just now."""
    threads.ended, threads.mean_ms = TELLING * JOBS, mean_ms
    threads.last_ended_at = clock.now_ms()


def test_the_first_claim_is_small_and_full_ones_double_it(sharing: Sharing) -> None:
    """spec L4: where no thread is needed, the whole batch is reached in a few claims."""
    asked = []
    for _ in range(8):
        asked.append(sharing.room(MOST, 0))
        sharing.took(asked[-1], asked[-1])

    assert asked == [4, 8, 16, 32, 64, 128, 256, 256]


def test_a_claim_that_was_not_full_is_followed_by_a_small_one(sharing: Sharing) -> None:
    """spec L4: what comes in bulk after a quiet time is shared again."""
    for _ in range(4):
        sharing.took(sharing.room(MOST, 0), sharing.room(MOST, 0))

    sharing.took(3, sharing.room(MOST, 0))

    assert sharing.room(MOST, 0) == JOBS


def test_nothing_is_claimed_for_busy_threads_of_which_nothing_is_known(
    sharing: Sharing, threads: Known
) -> None:
    """spec L4: the first functions may take for ever."""
    threads.open = JOBS

    assert sharing.room(MOST, 0) == 0


def test_short_functions_are_claimed_ahead(
    sharing: Sharing, threads: Known, clock: ManualClock
) -> None:
    """spec L4: as many as begin within `SOON_MS`."""
    well_known(threads, clock, mean_ms=1.0)
    threads.open = JOBS + 10

    assert sharing.room(MOST, 0) == JOBS * SOON_MS - 10


def test_threads_that_are_long_busy_get_nothing_more(
    sharing: Sharing, threads: Known, clock: ManualClock
) -> None:
    """spec L4: whatever the functions before them took."""
    well_known(threads, clock, mean_ms=0.1)
    threads.open = JOBS

    clock.advance(SOON_MS + 1)

    assert sharing.room(MOST, 0) == 0


def test_of_long_functions_each_free_thread_gets_one(
    sharing: Sharing, threads: Known, clock: ManualClock
) -> None:
    """spec L4: the others have free threads, too."""
    well_known(threads, clock, mean_ms=1_000.0)
    threads.open = JOBS - 1

    assert sharing.room(MOST, 0) == 1


def test_a_delivery_between_two_long_functions_keeps_its_thread(
    sharing: Sharing, threads: Known, clock: ManualClock
) -> None:
    """spec L4: the next of them begins as soon as the last one is recorded."""
    well_known(threads, clock, mean_ms=1_000.0)
    threads.open = 1

    assert sharing.room(MOST, JOBS - 1) == 1
    assert sharing.room(MOST, JOBS) == 0


def test_there_is_never_more_room_than_deliveries_may_be_open(
    sharing: Sharing, threads: Known, clock: ManualClock
) -> None:
    """spec K1: the limit of open deliveries stands."""
    well_known(threads, clock, mean_ms=0.1)

    assert sharing.room(2, 0) == 2
    threads.open = JOBS
    assert sharing.room(3, 0) == 3
