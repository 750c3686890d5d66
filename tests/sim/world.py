"""One simulated world: a file on a disk, workers, clients, and what goes wrong; from one seed.

A run is a list of moves, each two numbers and a name: the same list gives the same run, and a
shorter one is a run as well.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from random import Random
from typing import Any, NamedTuple

import apsw

from tests.sim import flows
from tests.sim.actors import LEASE_MS, SimClock, SimWorker
from tests.sim.disk import Disk, simulated_disk
from yieldstar_cli.errors import CommitUnknown, DatabaseBusy, StorageError, YieldstarError
from yieldstar_cli.model import ExecutionRecord
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.storage.upkeep import Chosen, Prunable
from yieldstar_cli.worker.ports import StepCall

BEGIN_AT = 1_700_000_000_000
SECOND = 1_000
HOUR = 3_600_000
DAY = 24 * HOUR
WORKERS = 3


class Move(NamedTuple):
    """What happens next; `a` and `b` choose among what there is."""

    name: str
    a: int
    b: int


#: What the file may answer; everything else is a refusal, or a fault of ours.
TROUBLES = (StorageError, CommitUnknown)

#: Every move, and how often it comes: what goes wrong is left out of some seeds.
ALWAYS = {"run": 60, "time": 8, "admit": 6, "ring": 3, "renew": 4}
CLIENTS = {"send": 5, "wake": 1, "cancel": 1, "cancel_now": 1, "pause": 1, "resume": 2, "look": 3}
TROUBLE = {
    "kill": 2,
    "freeze": 1,
    "thaw": 2,
    "bury": 3,
    "skew": 1,
    "eio": 1,
    "full": 1,
    "sync": 1,
    "short": 1,
    "lock": 1,
    "unlock": 2,
    "cut": 1,
    "swap": 1,
    "checkpoint": 1,
    "moody": 2,
    "slow": 1,
}


def moves_of(seed: int, count: int) -> list[Move]:
    """The moves of a seed. Swarm testing: each has some kinds of trouble, and none of others."""
    dice = Random(seed)
    weights = dict(ALWAYS)
    for name, weight in (CLIENTS | TROUBLE).items():
        if dice.random() < 0.6:
            weights[name] = weight * dice.choice((1, 1, 3))
    if seed % 5 == 0:
        # What is pruned cannot be replayed any more: the judge knows less of such a world.
        weights["prune"] = 2
    names = sorted(weights)
    chosen = dice.choices(names, [weights[name] for name in names], k=count)
    return [Move(name, dice.randrange(1 << 20), dice.randrange(1 << 20)) for name in chosen]


class SeededChance:
    """Chance that is the same each time."""

    def __init__(self, seed: int) -> None:
        self._dice = Random(seed)

    def execution_suffix(self) -> str:
        """As Chance."""
        return f"{self._dice.getrandbits(40):08x}"[:8]

    def seed(self) -> bytes:
        """As Chance."""
        return self._dice.randbytes(16)


class Breach(AssertionError):
    """Something promised did not hold."""


class World:
    """Everything there is, between two moves."""

    def __init__(self, seed: int, folder: str, disk: Disk, *, workers: int = 2) -> None:
        self.disk = disk
        self.now = BEGIN_AT
        self.path = os.path.join(folder, "ys.db")
        self.chance = SeededChance(seed)
        dice = Random(seed ^ 0x5EED)
        self.residents = dice.choice((0, 1, 1_000))
        self.open_limit = dice.choice((1, 3, 1_000))
        self.slow = False
        self.definitions = {
            (w.definition.workflow_id, w.definition.version): w.definition for w in flows.ALL
        }
        self.outside = flows.Outside()
        self.outside.called = self._called
        flows.begin(self.outside)
        self.clock = SimClock(self)
        self.client = self.open(self.clock)
        self.workers: list[SimWorker | None] = [None] * WORKERS
        self._locker: SqliteStorage | None = None
        #: What people were told: admitted IDs, messages sent, outcomes seen.
        self.admitted: dict[str, tuple[str, int]] = {}
        self.sent: Counter[str] = Counter()
        self.seen: dict[str, Any] = {}
        #: What was pruned.
        self.pruned: set[str] = set()
        #: What hit the workers: a step may have run once more for each.
        self.hits = 0
        #: Whether clocks were set: then a lease may be seen to end before its owner sees it.
        self.skewed = False
        self.trace = hashlib.blake2b(digest_size=16)
        self._running: SimWorker | None = None
        self._wanted = workers
        for index in range(workers):
            self.workers[index] = SimWorker(self, index)

    # --- files -------------------------------------------------------------------------------

    def open(self, clock: SimClock) -> SqliteStorage:
        """A connection of a process's own; it never waits for a lock."""
        return SqliteStorage(
            self.path, clock=clock, chance=self.chance, create=True, busy_timeout_ms=0
        )

    def discard(self, storage: SqliteStorage) -> None:
        """A process is gone: its connection closes as it is."""
        with suppress(YieldstarError, apsw.ConnectionClosedError):
            if storage.db.in_transaction:
                storage.db.rollback()
        with suppress(YieldstarError):
            storage.close()

    # --- moves -------------------------------------------------------------------------------

    def do(self, move: Move) -> None:
        """Make one move."""
        said = getattr(self, f"_{move.name}")(move.a, move.b)
        self.trace.update(f"{move.name} {said} {self.now}\n".encode())

    def alive(self) -> list[SimWorker]:
        """The workers that are there, frozen ones included."""
        return [worker for worker in self.workers if worker is not None]

    def _run(self, a: int, b: int) -> object:
        """Some callbacks of the workers, in turns of any kind."""
        turns = Random(b)
        for _ in range(1 + a % 16):
            able = [worker for worker in self.alive() if worker.can_run]
            if not able:
                return self._time(a, b)
            self.step(turns.choice(able), turns.getrandbits(16))
        return ""

    def step(self, worker: SimWorker, choice: int) -> None:
        """One callback of a worker; what ends its process ends it."""
        self._running = worker
        try:
            worker.run(choice)
        except flows.Died:
            self.lose(worker)
        except TROUBLES:
            # As the real loop: an error that nobody takes ends the process.
            self.lose(worker)
        finally:
            self._running = None

    def lose(self, worker: SimWorker) -> None:
        """The process of a worker is gone."""
        self.hits += 1
        healed = self.disk
        healed.heal()  # what a dying process closes is not the point of a fault
        worker.kill()
        self.workers[worker.index] = None

    def _time(self, a: int, b: int) -> object:
        """Time passes: to the next timer, or by any span."""
        moments = [
            at
            for worker in self.alive()
            if not worker.frozen and (at := worker.loop.next_at()) is not None and at > self.now
        ]
        if moments and a % 3:
            self.now = min(moments)
        else:
            self.now += (1, 50, SECOND, 10 * SECOND, 5 * 60 * SECOND, HOUR)[b % 6]
        return self.now

    def _ring(self, a: int, b: int) -> object:
        for worker in self.alive():
            worker.ring()
        return ""

    def _renew(self, a: int, b: int) -> object:
        for worker in self.alive():
            if not worker.frozen:
                try:
                    worker.renew()
                except DatabaseBusy:
                    continue
                except (flows.Died, *TROUBLES):
                    self.lose(worker)
        return ""

    def _slow(self, a: int, b: int) -> object:
        self.slow = not self.slow
        return self.slow

    def duration(self, call: StepCall) -> int:
        """How long a step takes, while steps take time."""
        return len(call.step_key) * 700 % 4_000 if self.slow else 0

    # --- clients -----------------------------------------------------------------------------

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """A client's call: what it is told is believed. Raises what it was told otherwise."""
        try:
            yield
        except TROUBLES:
            self.reopen()
            raise

    def reopen(self) -> None:
        """The client begins anew, and believes nothing before the file is settled."""
        self.disk.heal()
        self.discard(self.client)
        self.client = self.open(self.clock)
        with suppress(*TROUBLES):
            self.client.settle()
        self.client = self.open(self.clock)

    def _admit(self, a: int, b: int) -> object:
        flow = flows.FLOWS[a % len(flows.FLOWS)]
        workflow_id = flow.definition.workflow_id
        n = b % 5
        name = f"{workflow_id}-{b % 4}"
        if flow is flows.fatal_flow and name not in self.admitted:
            self.outside.deaths[name] = n % 3
        params = f'{{"n":{n},"total":0}}' if flow is flows.reader else f'{{"n":{n}}}'
        try:
            with self._asking():
                self.client.executions.admit(
                    workflow_id=workflow_id, params=json.loads(params), execution_id=name
                )
        except TROUBLES as error:
            found = self.client.executions.get(name)
            if name in self.admitted and found is None:
                raise Breach(f"{name} is gone") from error
            if found is not None:
                self.admitted.setdefault(name, (workflow_id, n))
            return error.code
        except YieldstarError as error:
            return error.code
        self.admitted.setdefault(name, (workflow_id, n))
        self._ring(0, 0)
        return name

    def _named(self, a: int) -> str:
        """An execution there is, or one that may come."""
        known = sorted(self.admitted) or ["reader-0"]
        return known[a % len(known)] if a % 7 else f"reader-{a % 4}"

    def _send(self, a: int, b: int) -> object:
        name, value = self._named(a), -1 if b % 9 == 0 else b % 5
        key = f"k{a}-{b}"
        try:
            with self._asking():
                answer = self.client.inbox.send(
                    name, "box", str(value), ttl_ms=1_000 * DAY, idempotency_key=key
                )
        except TROUBLES as error:
            if any(m.idempotency_key == key for m in self.client.inbox.messages(name)):
                self.sent[name] += 1
            return error.code
        if answer != "refused":
            self.sent[name] += 1
        self._ring(0, 0)
        return answer

    def _told(self, call: Any) -> object:
        try:
            with self._asking():
                said = call()
        except YieldstarError as error:
            return error.code
        self._ring(0, 0)
        return said

    def _wake(self, a: int, b: int) -> object:
        return self._told(lambda: self.client.executions.request_wake(self._named(a), self.now))

    def _cancel(self, a: int, b: int) -> object:
        return self._told(lambda: self.client.steering.cancel(self._named(a), reason=f"r{b}"))

    def _cancel_now(self, a: int, b: int) -> object:
        return self._told(lambda: self.client.steering.cancel(self._named(a), now=True))

    def _pause(self, a: int, b: int) -> object:
        if b % 3:
            return self._told(
                lambda: self.client.steering.pause(execution_id=self._named(a), by="sim")
            )
        return self._told(lambda: self.client.steering.pause(by="sim"))

    def _resume(self, a: int, b: int) -> object:
        if b % 2:
            return self._told(lambda: self.client.steering.resume(execution_id=self._named(a)))
        return self._told(lambda: self.client.steering.resume())

    def _look(self, a: int, b: int) -> object:
        """Somebody reads a record: an outcome, once seen, never changes."""
        name = self._named(a)
        try:
            with self._asking():
                found = self.client.executions.get(name)
        except TROUBLES as error:
            return error.code
        if name in self.admitted and found is None:
            raise Breach(f"{name} is gone")
        self.witness(found)
        return None if found is None else found.status

    def witness(self, record: ExecutionRecord | None) -> None:
        """An outcome was seen."""
        if record is None:
            return
        if record.pruned_at is not None:
            before = self.seen.get(record.execution_id)
            if not record.status.terminal or type(before) not in (type(record.outcome), type(None)):
                raise Breach(f"{record.execution_id} was {before}, is pruned and {record.status}")
            return
        if record.outcome is not None:
            before = self.seen.setdefault(record.execution_id, record.outcome)
            if before != record.outcome:
                raise Breach(f"{record.execution_id} was {before}, is {record.outcome}")
        elif record.execution_id in self.seen:
            raise Breach(f"{record.execution_id} had ended and is open again")

    # --- trouble -----------------------------------------------------------------------------

    def _kill(self, a: int, b: int) -> object:
        there = self.alive()
        if there and b % 2:
            self.lose(there[a % len(there)])
            return "killed"
        return self._start(a)

    def _start(self, a: int) -> object:
        free = [index for index, worker in enumerate(self.workers) if worker is None]
        if not free:
            return ""
        return self._start_at(free[a % len(free)])

    def _start_at(self, index: int) -> object:
        try:
            self.workers[index] = SimWorker(self, index)
        except flows.Died:
            return "died"
        except TROUBLES as error:
            return error.code
        return f"started {index}"

    def _freeze(self, a: int, b: int) -> object:
        able = [worker for worker in self.alive() if not worker.frozen]
        if able:
            able[a % len(able)].frozen = True
        return len(able)

    def _thaw(self, a: int, b: int) -> object:
        frozen = [worker for worker in self.alive() if worker.frozen]
        if frozen:
            frozen[a % len(frozen)].frozen = False
        return len(frozen)

    def _bury(self, a: int, b: int) -> object:
        """A living worker notices who is gone, or whose lease has ended."""
        able = [worker for worker in self.alive() if not worker.frozen]
        if not able:
            return ""
        finder = able[a % len(able)]
        there = {worker.number for worker in self.alive()}
        gone: list[Any] = []
        try:
            for row in finder.storage.workers.all(living=True):
                if row.number not in there:
                    gone.append((row, "died"))
                elif row.number != finder.number and row.lease_until_at <= finder.clock.now_ms():
                    gone.append((row, "lease ended"))
                    self.hits += 1
        except (flows.Died, *TROUBLES):
            self.lose(finder)
            return "lost"
        finder.take_over(gone)
        return len(gone)

    def _skew(self, a: int, b: int) -> object:
        clocks = [self.clock, *(worker.clock for worker in self.alive())]
        clock = clocks[a % len(clocks)]
        self.skewed = True
        clock.skew = (0, 0, -HOUR, HOUR, -DAY, DAY, 5, -5)[b % 8]
        return clock.skew

    def _eio(self, a: int, b: int) -> object:
        self.disk.arm("eio", after=1 + a % 40, times=1 + (b % 4) * (b % 3))
        return ""

    def _full(self, a: int, b: int) -> object:
        self.disk.arm("full", after=1 + a % 40, times=1 + b % 30)
        return ""

    def _sync(self, a: int, b: int) -> object:
        self.disk.arm("sync", after=1 + a % 5, times=1 + b % 3)
        return ""

    def _short(self, a: int, b: int) -> object:
        self.disk.arm("short", after=1 + a % 40, times=1)
        return ""

    def _lock(self, a: int, b: int) -> object:
        """Another program holds the file's write lock."""
        if self._locker is not None:
            return ""
        locker = None
        try:
            locker = self.open(self.clock)
            locker.db.begin()
        except TROUBLES as error:
            if locker is not None:
                self.discard(locker)
            return error.code
        self._locker = locker
        return "locked"

    def _unlock(self, a: int, b: int) -> object:
        locker, self._locker = self._locker, None
        if locker is not None:
            self.discard(locker)
        return ""

    def _cut(self, a: int, b: int) -> object:
        """The power fails: every process is gone, and what was not synced perhaps."""
        self.lose_power(a * 1_000_003 + b)
        self._start(a)
        return "cut"

    def lose_power(self, dice: int = 0) -> None:
        """Every process is gone; the client's machine comes up again."""
        self.disk.heal()
        self._unlock(0, 0)
        # Nothing may be written while the files close: what is on the disk now is what counts.
        self.disk.freeze()
        for worker in self.alive():
            self.hits += 1
            worker.kill()
        self.discard(self.client)
        self.disk.cut(Random(dice))
        self.workers = [None] * WORKERS
        self.clock.skew = 0
        self.client = self.open(self.clock)

    def _prune(self, a: int, b: int) -> object:
        """History and values of some that ended go; what is needed is kept."""
        chosen = Chosen(ended_before=self.now - (0, HOUR)[a % 2], keep=b % 3)

        def prune() -> object:
            pruned = [one.execution_id for one in self._upkeep(chosen)]
            self.pruned.update(pruned)
            return pruned

        return self._told(prune)

    def _upkeep(self, chosen: Chosen) -> Iterator[Prunable]:
        for one in self.client.upkeep.prune(chosen, pause=lambda: None):
            if one.kept is None:
                yield one

    def _swap(self, a: int, b: int) -> object:
        """The modules were loaded anew: the same functions, and no resident of the old ones."""
        for worker in self.alive():
            worker.dispatcher.use({})
            worker.dispatcher.use(self.definitions)
        return ""

    def _checkpoint(self, a: int, b: int) -> object:
        def checkpoint() -> object:
            return self.client.db.rows("PRAGMA wal_checkpoint(PASSIVE)")

        return self._told(checkpoint)

    def _moody(self, a: int, b: int) -> object:
        """The payment service is not itself for a while."""
        moods = ("ok", "lost before", "lost after", "unknown")
        self.outside.moods += [moods[(a >> shift) % 4] for shift in range(0, 2 + b % 8, 2)]
        return len(self.outside.moods)

    # --- what steps tell ---------------------------------------------------------------------

    def _called(self, execution_id: str, name: str) -> None:
        """A step runs: it belongs to a delivery that is open, or whose end is not known yet."""
        self.trace.update(f"{execution_id} {name}\n".encode())

    # --- the end -----------------------------------------------------------------------------

    def calm(self) -> None:
        """Nothing goes wrong any more; run until nothing moves."""
        self.disk.forget()
        self._unlock(0, 0)
        self.outside.moods.clear()
        self.slow = False
        for worker in self.alive():
            self.lose(worker)
        self.clock.skew = 0
        self.reopen()
        # Clocks that ran ahead left moments in the future.
        self.now += 3 * DAY
        self._resume(0, 0)
        for name in sorted(self.admitted):
            self._told(lambda name=name: self.client.steering.resume(execution_id=name))
        rounds = 0
        while self.turn():
            rounds += 1
            if rounds > 400:
                raise Breach("it never comes to rest")

    def turn(self) -> bool:
        """Everything that can run runs; then time goes to the next timer. False at rest."""
        self.go()
        if not self.complete:
            return True
        due = [at for w in self.alive() if (at := w.loop.next_at()) is not None]
        record = self.client.db.row(
            "SELECT min(due_at) FROM executions WHERE due_at IS NOT NULL AND claimed_by IS NULL"
        )
        if not due and (record is None or record[0] is None):
            return False
        self.now = max(self.now + 1, min(due, default=self.now + SECOND))
        return True

    @property
    def complete(self) -> bool:
        """True while no worker is missing."""
        return None not in self.workers[: self._wanted]

    def go(self) -> None:
        """Workers are there, and everything that can run now runs."""
        for index in range(self._wanted):
            if self.workers[index] is None:
                self._start_at(index)
                self._bury(index, 0)
        self._renew(0, 0)
        self._ring(0, 0)
        self._bury(0, 0)
        for _ in range(20_000):
            able = [worker for worker in self.alive() if worker.can_run]
            if not able:
                return
            self.step(able[0], self.now)
        raise Breach("it never comes to rest")

    def digest(self) -> bytes:
        """What the file says in the end, whatever it was made from."""
        rows = self.client.db.rows(
            "SELECT execution_id, status, outcome, token, operations FROM executions ORDER BY n"
        )
        return repr(rows).encode()

    def close(self) -> None:
        """Everything is closed."""
        for worker in self.alive():
            worker.kill()
        self._unlock(0, 0)
        self.discard(self.client)


def run(seed: int, moves: Sequence[Move], folder: str) -> str:
    """Make the moves, come to rest, hold everything to what was promised; answers the trace."""
    from tests.sim.judge import judge

    with simulated_disk(folder) as disk:
        world = World(seed, folder, disk)
        try:
            for move in moves:
                world.do(move)
            world.calm()
            judge(world)
            world.trace.update(world.digest())
            return world.trace.hexdigest()
        finally:
            world.close()


__all__ = ["LEASE_MS", "Breach", "Move", "World", "moves_of", "run"]
