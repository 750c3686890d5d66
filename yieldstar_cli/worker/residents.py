"""Suspended coroutines kept in memory: how many, and which of them go first (spec R6)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from yieldstar_cli.engine.definition import Definition

if TYPE_CHECKING:
    from yieldstar_cli.engine.driver import Driver
    from yieldstar_cli.worker.waiting import Waiting

#: How many suspensions pass between two looks at the process's memory.
MEMORY_EVERY = 64
#: What sleeps for longer than this is far: replaying it once is cheap beside keeping it.
FAR_MS = 60_000
#: One in so many may be far.
FAR_SHARE = 10


@dataclass(slots=True)
class Resident:
    """One suspended coroutine, and where it stands."""

    driver: Driver
    incarnation: int
    waiting: Waiting
    #: Of the delivery that left it here.
    token: int
    #: The moment it sleeps until, UTC milliseconds; None if only others can wake it.
    due_at: int | None
    #: Its place among those that were far away when they were put here; 0 for the others.
    far: int = 0


class Residents:
    """The coroutines that one worker keeps: at most `most`, of them a tenth that are far from due.

    Of those that are far the furthest goes first, else the oldest: a worker holds no more for a
    million sleepers than for some thousands. What goes runs its `finally` blocks, and is replayed
    when it is due.
    """

    def __init__(self, most: int, memory: int) -> None:
        self._most = most
        self._most_far = -(-most // FAR_SHARE)
        self._memory = memory
        #: In the order in which they were suspended.
        self._kept: dict[int, Resident] = {}
        #: The far ones, the furthest first: (minus the moment, place, execution). Entries of those
        #: that are gone since are passed over.
        self._far: list[tuple[int, int, int]] = []
        self._last_place = 0
        self._far_count = 0
        self._since_memory = 0

    def __len__(self) -> int:
        return len(self._kept)

    def values(self) -> Iterator[Resident]:
        """All of them, the one that was suspended first at the head."""
        return iter(self._kept.values())

    def get(self, number: int) -> Resident | None:
        """That of one execution, which stays; callable from any thread."""
        return self._kept.get(number)

    def take(self, number: int) -> Resident | None:
        """That of one execution, which is the caller's from now on."""
        found = self._kept.pop(number, None)
        if found is not None and found.far:
            self._far_count -= 1
        return found

    def put(self, number: int, resident: Resident, now: int) -> None:
        """Keep one; `trim` sees to the limits."""
        self._kept[number] = resident
        if resident.due_at is not None and resident.due_at > now + FAR_MS:
            self._last_place += 1
            resident.far = self._last_place
            self._far_count += 1
            heapq.heappush(self._far, (-resident.due_at, resident.far, number))
            if len(self._far) > 2 * self._far_count + MEMORY_EVERY:
                self._far = [entry for entry in self._far if self._is_kept(entry)]
                heapq.heapify(self._far)

    def drop_changed(self, definitions: Mapping[tuple[str, int], Definition]) -> None:
        """Drop those whose code is not that of `definitions`."""
        for number, resident in list(self._kept.items()):
            own = resident.driver.definition
            if definitions.get((own.workflow_id, own.version)) is not own:
                self._drop(number)

    def trim(self, memory_used: Callable[[], int] | None) -> None:
        """Drop what is beyond the limits."""
        while self._far_count > self._most_far:
            entry = heapq.heappop(self._far)
            if self._is_kept(entry):
                self._drop(entry[2])
        keep = self._most
        self._since_memory += 1
        if self._since_memory >= MEMORY_EVERY and memory_used is not None:
            self._since_memory = 0
            if memory_used() > self._memory:
                keep = min(keep, len(self._kept) * 3 // 4)
        while len(self._kept) > keep:
            self._drop(next(iter(self._kept)))

    def forget(self) -> None:
        """Let every coroutine go."""
        for resident in self._kept.values():
            resident.driver.drop()
        self._kept.clear()
        self._far.clear()
        self._far_count = 0

    def _drop(self, number: int) -> None:
        found = self.take(number)
        if found is not None:
            found.driver.drop()

    def _is_kept(self, entry: tuple[int, int, int]) -> bool:
        found = self._kept.get(entry[2])
        return found is not None and found.far == entry[1]
