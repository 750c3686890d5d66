"""What a driver's open operations wait for: kept up to date, so that a round costs what changed.

It lives as long as the driver, from one delivery to the next (spec R6, R10).
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from yieldstar_cli.engine.effects import EffectHandle, Standing
from yieldstar_cli.engine.operations import DurableHandle, State
from yieldstar_cli.engine.outside import ExecutionHandle, MessageHandle
from yieldstar_cli.engine.store_handles import StoreWatch
from yieldstar_cli.model import Kind, Wait

if TYPE_CHECKING:
    from yieldstar_cli.engine.driver import Driver
    from yieldstar_cli.worker.tries import Tries

Handle = DurableHandle[Any]
Place = tuple[str, str]


class Waiting:
    """The awaited timers, messages and executions of one driver, and what the file says of them."""

    __slots__ = (
        "_dirty",
        "_driver",
        "_heap",
        "_in_heap",
        "_recorded",
        "_unsure",
        "children",
        "queues",
        "watches",
    )

    def __init__(self, driver: Driver, recorded: Iterable[Wait] = ()) -> None:
        self._driver = driver
        #: The rows as the file has them.
        self._recorded: dict[Place, Wait] = {(w.kind, w.step_key): w for w in recorded}
        #: True until rows of an earlier delivery were compared with what is awaited now.
        self._unsure = bool(self._recorded)
        self._dirty: dict[Handle, None] = {}
        self._heap: list[tuple[int, int, Handle]] = []
        self._in_heap: set[Handle] = set()
        #: Awaited message handles by queue, and awaited executions by key.
        self.queues: dict[str, dict[MessageHandle[Any], None]] = {}
        self.children: dict[str, ExecutionHandle[Any]] = {}
        self.watches: dict[StoreWatch[Any], None] = {}

    def compare(self, recorded: Iterable[Wait]) -> None:
        """The file has these rows now: the next changes begin from them."""
        self._recorded = {(w.kind, w.step_key): w for w in recorded}
        self._unsure = True
        self._dirty.update(dict.fromkeys(self._driver.open.values()))

    def absorb(self) -> list[Handle]:
        """Take note of what began or ceased to be awaited; returns what is awaited of it."""
        if not self._driver.touched:
            return []
        touched, self._driver.touched = self._driver.touched, {}
        awaited: list[Handle] = []
        for handle in touched:
            if not isinstance(handle, DurableHandle):
                continue
            self._dirty[handle] = None
            waits = handle.state is State.OPEN and bool(handle.waiters)
            if waits:
                awaited.append(handle)
            if handle.kind is Kind.TIMER:
                if waits:
                    self._push(handle)
            elif isinstance(handle, StoreWatch):
                self._note_watch(handle, waits)
            elif isinstance(handle, MessageHandle):
                self._note_queue(handle, waits)
            elif isinstance(handle, ExecutionHandle):
                if waits:
                    self.children[handle.key] = handle
                else:
                    self.children.pop(handle.key, None)
        return awaited

    def _note_watch(self, handle: StoreWatch[Any], waits: bool) -> None:
        if not waits:
            self.watches.pop(handle, None)
            return
        self.watches[handle] = None
        if handle.due_at is not None:
            self._push(handle)

    def renew(self, handle: StoreWatch[Any]) -> None:
        """The store was read again in vain: the file compares anew, whatever it has."""
        place = (str(handle.kind), handle.key)
        recorded = self._recorded.get(place)
        if recorded is not None:
            # As no row is: so it is written again, and still known to be there.
            self._recorded[place] = replace(recorded, position=-1)
        self._dirty[handle] = None

    def _note_queue(self, handle: MessageHandle[Any], waits: bool) -> None:
        if waits:
            self.queues.setdefault(handle.queue, {})[handle] = None
            return
        others = self.queues.get(handle.queue)
        if others is not None:
            others.pop(handle, None)
            if not others:
                del self.queues[handle.queue]

    @property
    def outside(self) -> bool:
        """True while something is awaited that others bring: a message, an execution's end."""
        return bool(self.queues or self.children or self.watches)

    def first_on(self, queue: str) -> MessageHandle[Any] | None:
        """Of the handles awaited on `queue` the one that began to wait first."""
        return min(self.queues.get(queue, ()), key=lambda h: h.await_seq, default=None)

    def touch(self, handle: Handle) -> None:
        """What the file is told of `handle` may have changed."""
        self._dirty[handle] = None

    def started(self, handle: Handle) -> None:
        """An attempt of `handle` has begun: what the file has of its pause or its tag is over."""
        if handle.retry_at is not None or (handle.work is not None and handle.work.tag is not None):
            self._dirty[handle] = None

    # --- time --------------------------------------------------------------------------------

    def _push(self, handle: Handle) -> None:
        if handle not in self._in_heap:
            assert handle.due_at is not None, "a timer has a moment"
            self._in_heap.add(handle)
            heappush(self._heap, (handle.due_at, handle.seq, handle))

    def due(self, now: int) -> bool:
        """Whether the moment of a timer has come, if only of one that is awaited no more."""
        return bool(self._heap) and self._heap[0][0] <= now

    def take_due(self, now: int) -> list[Handle]:
        """Awaited timers whose moment has come; each is given back with `keep` or applied."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            handle = heappop(self._heap)[2]
            self._in_heap.discard(handle)
            if handle.state is State.OPEN and handle.waiters:
                found.append(handle)
        return found

    def keep(self, handle: Handle) -> None:
        """A due timer was not applied; it is awaited on."""
        if handle.state is State.OPEN and handle.waiters:
            self._push(handle)

    def next_timer(self) -> int | None:
        """The earliest moment among the awaited timers."""
        while self._heap:
            due_at, _, handle = self._heap[0]
            if handle.state is State.OPEN and handle.waiters:
                return due_at
            heappop(self._heap)
            self._in_heap.discard(handle)
        return None

    def next_moment(self, tries: Tries, now: int, tags: Set[str]) -> int | None:
        """The earliest moment among what is awaited now, retry pauses included, or None."""
        # What a cancel led to is awaited since then, and nobody has taken note of it yet.
        self.absorb()
        earliest = self.next_timer() if self._heap else None
        for handle in self._driver.performing:
            at = handle.retry_at
            if at is None or handle in tries or _in_other_hands(handle):
                continue
            if (at > now or _allowed(handle, tags)) and (earliest is None or at < earliest):
                earliest = at
        return earliest

    # --- steps -------------------------------------------------------------------------------

    def startable(self, tries: Tries, now: int, tags: Set[str]) -> list[Handle]:
        """Steps and polls whose next attempt may begin here, in the order they were issued."""
        performing = self._driver.performing
        if not performing:
            return []
        running, ended = tries.running, tries.waiting
        return [
            handle
            for handle in performing
            if handle not in running
            and handle not in ended
            and (handle.retry_at is None or handle.retry_at <= now)
            and _allowed(handle, tags)
            and not _in_other_hands(handle)
        ]

    def needs(self, tries: Tries, now: int, tags: Set[str]) -> tuple[str, ...]:
        """Tags of steps that may begin, though not in this worker (spec O5)."""
        found: set[str] = set()
        for handle in self._driver.performing:
            tag = handle.work.tag if handle.work is not None else None
            if tag is None or tag in tags or handle in tries or _pauses(handle, now):
                continue
            found.add(tag)
            if handle.retry_at is not None:
                self.touch(handle)  # its pause is over, and it is told to wait for the tag
        return tuple(sorted(found))

    # --- what the file is told -----------------------------------------------------------------

    def changes(
        self, tries: Tries, now: int, tags: Set[str]
    ) -> tuple[tuple[Wait, ...], tuple[Place, ...]]:
        """The rows to write and those to delete; from now on the file is taken to have them so."""
        self.absorb()
        if not self._dirty and not self._unsure:
            return (), ()
        dirty, self._dirty = self._dirty, {}
        put: list[Wait] = []
        gone: list[Place] = []
        for handle in dirty:
            if not handle.key:
                continue
            place = (str(handle.kind), handle.key)
            row = _row(handle, tries, now, tags)
            old = self._recorded.get(place)
            if row is None:
                if old is not None:
                    del self._recorded[place]
                    gone.append(place)
            elif row != old:
                self._recorded[place] = row
                put.append(row)
        if self._unsure:
            self._unsure = False
            gone += self._left_over(tries, now, tags)
        return tuple(put), tuple(gone)

    def _left_over(self, tries: Tries, now: int, tags: Set[str]) -> list[Place]:
        """Rows of an earlier delivery that nothing stands behind any more."""
        kept = self._driver.open
        gone = [
            place
            for place in self._recorded
            if place not in kept or _row(kept[place], tries, now, tags) is None
        ]
        for place in gone:
            del self._recorded[place]
        return gone

    def forget(self, places: Iterable[Place]) -> tuple[Place, ...]:
        """Take the rows of operations that have ended for deleted; returns which there were."""
        return tuple(place for place in places if self._recorded.pop(place, None) is not None)


def _pauses(handle: Handle, now: int) -> bool:
    return handle.retry_at is not None and handle.retry_at > now


def _allowed(handle: Handle, tags: Set[str]) -> bool:
    work = handle.work
    return work is None or work.tag is None or work.tag in tags


def _in_other_hands(handle: Handle) -> bool:
    """True for an effect that another tries: its own pause is over, and no moment ends the wait."""
    return isinstance(handle, EffectHandle) and handle.standing is Standing.BUSY


def _row(handle: Handle, tries: Tries, now: int, tags: Set[str]) -> Wait | None:
    """What the file is told of `handle`; None if it does not wait."""
    if handle.state is not State.OPEN:
        return None
    if handle.work is not None:
        if handle in tries:
            return None
        if _in_other_hands(handle):
            return _wait(handle, None, "waiting", handle.attempts + 1)
        if _pauses(handle, now) or (handle.retry_at is not None and _allowed(handle, tags)):
            return _wait(handle, handle.retry_at, "retrying", handle.attempts + 1)
        if not _allowed(handle, tags):
            return _wait(handle, None, "tagged", handle.attempts + 1)
        return None
    if not handle.waiters:
        return None
    if isinstance(handle, ExecutionHandle) and not handle.ready_to_wait:
        return None
    if isinstance(handle, StoreWatch) and not handle.evaluated:
        return None
    return _wait(handle, handle.due_at, "waiting", 1)


def _wait(handle: Handle, due_at: int | None, state: str, attempt: int) -> Wait:
    return Wait(
        kind=handle.kind,
        step_key=handle.key,
        label=handle.label,
        since_at=handle.issued_at,
        due_at=due_at,
        state=state,
        attempt=attempt,
        position=handle.seq,
        queue=handle.queue if isinstance(handle, MessageHandle) else None,
        target=handle.execution_id if isinstance(handle, ExecutionHandle) else None,
        tag=handle.work.tag if handle.work is not None else None,
        store=handle.store.key if isinstance(handle, StoreWatch) else None,
        read=handle.readings if isinstance(handle, StoreWatch) else (),
        instance=handle.instance if isinstance(handle, StoreWatch) else None,
        effect=handle.effect_id
        if state == "waiting" and isinstance(handle, EffectHandle)
        else None,
    )
