"""A simulated worker: the real dispatcher and the real writer, one callback at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from yieldstar_cli.errors import CommitUnknown, DatabaseBusy, DiskFull, StorageError
from yieldstar_cli.model import WorkerRow
from yieldstar_cli.storage.contract import Reply, Storage
from yieldstar_cli.storage.sqlite.batch import Answer, Asked
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.storage.sqlite.writer import GroupWriter
from yieldstar_cli.testing.faultpoints import FaultPoints, FaultyPerformers
from yieldstar_cli.worker.dispatcher import Dispatcher, Limits
from yieldstar_cli.worker.inline import InlinePerformers
from yieldstar_cli.worker.marks import NoMarks
from yieldstar_cli.worker.timers import Callback, Timer, Timers

if TYPE_CHECKING:
    from tests.sim.world import World

LEASE_MS = 30_000


class SimClock:
    """The world's time as one process sees it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.skew = 0

    def now_ms(self) -> int:
        """As a clock's."""
        return self._world.now + self.skew


class SimLoop:
    """A loop that runs one callback when it is told to."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self._timers = Timers()
        self.ready: deque[Callback] = deque()

    def now_ms(self) -> int:
        """As `ports.Loop`."""
        return self._clock.now_ms()

    def call_at(self, at_ms: int, callback: Callback) -> Timer:
        """As `ports.Loop`."""
        return self._timers.add(at_ms, callback)

    def post(self, callback: Callback) -> None:
        """As `ports.Loop`."""
        self.ready.append(callback)

    def next_at(self) -> int | None:
        """The next timer, in the world's time."""
        at = self._timers.next_at()
        return None if at is None else at - self._clock.skew

    def step(self) -> bool:
        """Run one callback; False if none is ready."""
        while (timer := self._timers.pop_due(self.now_ms())) is not None:
            self.ready.append(timer.fire)
        if not self.ready:
            return False
        self.ready.popleft()()
        return True


class SteppedWriter(GroupWriter):
    """The real writer without its thread: a batch is written when it is told to."""

    def __init__(
        self,
        factory: Callable[[], SqliteStorage],
        post: Callable[[Callable[[], None]], None],
        worker: int,
    ) -> None:
        self._factory = factory
        self._post = post
        self._worker = worker
        self._on_trouble = lambda _: None
        self._queue: deque[Asked] = deque()
        self._fatal = None
        self._trouble = None
        self._storage = factory()
        self._batch = self._last_batch() or 0

    def submit(self, request: Callable[[Storage], Any], reply: Reply) -> None:
        """As Writer.submit."""
        self._queue.append(Asked(request, reply))

    @property
    def waiting(self) -> bool:
        """True while there is something to write."""
        return bool(self._queue)

    def step(self, most: int) -> None:
        """Write one batch of `most` requests; one that is busy or full waits for its next turn."""
        batch = [self._queue.popleft() for _ in range(min(most, len(self._queue)))]
        try:
            self._answer(self._written(batch))
        except (StorageError, CommitUnknown) as error:
            self._fatal = error
            raise

    def _written(self, batch: Sequence[Asked]) -> Sequence[Answer]:
        try:
            return self._commit(batch)
        except _NotNow:
            self._queue.extendleft(reversed(batch))
            return ()

    def _pause(self, error: BaseException, tries: int) -> bool:
        assert isinstance(error, DatabaseBusy | DiskFull)
        raise _NotNow

    def close(self) -> None:
        """The process is gone."""
        self._storage.close()


class _NotNow(Exception):
    """The file takes no writes just now."""


class SimWorker:
    """One worker process: what it knows is gone with it."""

    def __init__(self, world: World, index: int) -> None:
        self.world = world
        self.index = index
        self.clock = SimClock(world)
        self.loop = SimLoop(self.clock)
        #: It stands still (SIGSTOP): nothing of it runs, and its lease may end.
        self.frozen = False
        self._opened: list[SqliteStorage] = []
        self.storage = self._open()
        self.number = self.storage.workers.register(
            name=f"sim:{index}",
            host="sim",
            pid=index + 1,
            slot=index,
            nonce=world.chance.seed(),
            boot_id="",
            device=0,
            inode=0,
            lease_until_at=self.clock.now_ms() + LEASE_MS,
        )
        self.writer = SteppedWriter(self._open, self.loop.post, self.number)
        performers = InlinePerformers(self.loop)
        self.dispatcher = Dispatcher(
            loop=self.loop,
            writer=self.writer,
            storage=self.storage,
            performers=FaultyPerformers(
                performers, FaultPoints(), self.loop, lambda call: world.duration(call)
            ),
            marks=NoMarks(),
            talk=lambda event: None,
            worker=self.number,
            definitions=world.definitions,
            limits=Limits(residents=world.residents, open=world.open_limit),
        )
        self._leased_until = self.clock.now_ms() + LEASE_MS
        self.dispatcher.leased = lambda: self.clock.now_ms() < self._leased_until
        self.loop.post(self.dispatcher.poll)

    def _open(self) -> SqliteStorage:
        storage = self.world.open(self.clock)
        self._opened.append(storage)
        return storage

    @property
    def can_run(self) -> bool:
        """True while something of it could run now."""
        if self.frozen:
            return False
        at = self.loop.next_at()
        return bool(self.loop.ready) or self.writer.waiting or (at is not None and self.due(at))

    def due(self, at: int) -> bool:
        """Whether a timer's moment has come."""
        return at <= self.world.now

    def run(self, choice: int) -> None:
        """One callback, or one batch of the writer."""
        if self.writer.waiting and (choice % 2 or not self.loop.ready):
            self.writer.step(1 + choice // 2 % 50)
        else:
            self.loop.step()

    def ring(self) -> None:
        """Somebody committed something."""
        self.loop.post(self.dispatcher.poll)

    def renew(self) -> None:
        """Its lease thread has its turn."""
        until = self.clock.now_ms() + LEASE_MS
        if not self.storage.workers.renew(self.number, until):
            raise StorageError("this worker's row was ended by another")
        self._leased_until = until

    def take_over(self, rows: Sequence[tuple[WorkerRow, str]]) -> None:
        """End the claims of others that are gone."""
        for row, how in rows:
            self.dispatcher.bury(row, how, {})

    def kill(self) -> None:
        """SIGKILL: its memory is gone, the kernel closes its files."""
        self.dispatcher.forget()
        for storage in self._opened:
            self.world.discard(storage)


__all__ = ["LEASE_MS", "SimLoop", "SimWorker"]
