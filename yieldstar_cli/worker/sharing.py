"""How much a worker claims where others could claim it: what its threads can begin soon (L4, K1).

Plain steps that compute hold Python's lock: what one process has claimed ahead, another with a
core of its own would have run meanwhile. Async steps are no reason to hold back.
"""

from __future__ import annotations

from typing import Protocol

from yieldstar_cli.clock import Clock

#: What begins within this span is as good as begun: less than a claim by another costs.
SOON_MS = 20
#: So many ended steps for each thread tell how long the next one takes.
TELLING = 8


class Threads(Protocol):
    """What is known of the threads that run plain functions."""

    #: How many there are.
    jobs: int
    #: How many functions have ended, when the last one did, and how long they take, in ms.
    ended: int
    last_ended_at: int
    mean_ms: float

    def open_calls(self) -> int:
        """How many plain functions run or wait for a thread."""
        ...

    def running(self) -> int:
        """The same of all functions, async ones included."""
        ...


class Sharing:
    """One worker's restraint: small claims first, and none for threads that are long busy."""

    def __init__(self, threads: Threads, clock: Clock) -> None:
        self._threads = threads
        self._clock = clock
        self._batch = threads.jobs

    def room(self, most: int, deliveries: int) -> int:
        """How many to claim now, `most` at most, while so many deliveries are open."""
        threads = self._threads
        soon = self._begin_soon()
        taken = threads.open_calls()
        if threads.ended and soon < threads.jobs:
            # They take long, or may: what is between two of them will need its thread again.
            taken += max(0, deliveries - threads.running())
        free = threads.jobs - taken
        if free <= 0:
            self._batch = threads.jobs
            return max(0, min(most, soon + free))
        if threads.ended and soon < threads.jobs:
            return min(most, self._batch, free)
        return min(most, self._batch)

    def took(self, found: int, asked: int) -> None:
        """A claim of `asked` found so many: a full one is followed by a larger one."""
        if found >= asked:
            self._batch = max(self._batch, 2 * found)
        else:
            self._batch = self._threads.jobs

    def _begin_soon(self) -> int:
        """How many functions more the threads will begin within `SOON_MS`, as far as is known."""
        threads = self._threads
        if threads.ended < TELLING * threads.jobs:
            return 0
        if self._clock.now_ms() - threads.last_ended_at > SOON_MS and threads.open_calls():
            return 0
        return int(threads.jobs * SOON_MS / max(threads.mean_ms, 0.05))
