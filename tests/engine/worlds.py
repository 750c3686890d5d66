"""Plays random worlds with any worker, and holds what is left to what was promised."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.engine.programs import CALLS
from tests.engine.test_random_programs import FixedChance, some_time, stable
from tests.engine.world import LIVES, person, small
from yieldstar_cli import codec, ids
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import ExecutionAdmissionError, ExecutionNotFound
from yieldstar_cli.model import Entry, ExecutionRecord
from yieldstar_cli.storage.contract import Reply, Storage, Writer
from yieldstar_cli.testing import Bench, Killed
from yieldstar_cli.worker.dispatcher import Dispatcher
from yieldstar_cli.worker.loop import VirtualLoop
from yieldstar_cli.worker.ports import Loop

TTL = 86_400_000
#: Longer than everything that a program waits for by itself.
LONG_MS = 3_600_000
#: More callbacks than any program here needs at one moment.
STANDS_STILL = 5_000


@dataclass(frozen=True)
class World:
    """Who runs, and what happens outside."""

    p: list[Any]
    q: list[Any] | None = None
    events: list[Any] = field(default_factory=list)
    slow: bool = False


@dataclass(frozen=True)
class Way:
    """What the workers are like, and at which points they die."""

    kills: tuple[int, ...] = ()
    residents: int = 100
    workers: int = 1
    timed: bool = False
    commit_ms: int = 0
    #: How long a commit waits for its turn; things happen between a look and what comes of it.
    queue_ms: int = 0


class BusyWriter:
    """A writer that is busy with others for a while, and rings at other workers after a commit."""

    def __init__(self, writer: Writer, loop: Loop, queue_ms: int, ring: Callable[[], None]) -> None:
        self._writer = writer
        self._loop = loop
        self._queue_ms = queue_ms
        self._ring = ring

    def submit(self, request: Callable[[Storage], Any], reply: Reply) -> None:
        """As Writer.submit."""
        if self._queue_ms:
            at = self._loop.now_ms() + self._queue_ms
            self._loop.call_at(at, lambda: self._submit(request, reply))
        else:
            self._submit(request, reply)

    def _submit(self, request: Callable[[Storage], Any], reply: Reply) -> None:
        self._writer.submit(request, reply)
        self._ring()

    def close(self) -> None:
        """As Writer.close."""
        self._writer.close()


class Outside:
    """Whoever admits, sends, cancels and pauses from another process."""

    def __init__(self, bench: Bench, *, slow: bool) -> None:
        self._bench = bench
        self._slow = slow
        self._count = 0
        #: What was sent and stored, by execution.
        self.sent: Counter[str] = Counter()

    def admit(self, execution_id: str, lives: list[Any]) -> None:
        """Admit a person with these lives."""
        params = {"acts": lives, "refs": [], "no": 1, "slow": self._slow}
        with contextlib.suppress(ExecutionAdmissionError):
            self._bench.admit("person", params, execution_id=execution_id)

    def happen(self, event: list[Any]) -> None:
        """Do one thing now."""
        kind, *about = event
        storage = self._bench.storage
        with contextlib.suppress(ExecutionNotFound):
            match kind:
                case "send":
                    self._send(*about)
                case "wake":
                    storage.executions.request_wake(about[0], self._bench.clock.now_ms())
                case "cancel":
                    storage.steering.cancel(about[0], reason="enough")
                case "cancel_now":
                    storage.steering.cancel(about[0], now=True)
                case "pause":
                    storage.steering.pause(**_scope(about[0]), by="me")
                case "resume":
                    storage.steering.resume(**_scope(about[0]))
                case "admit":
                    self.admit(about[0], [[["message_only", "a"], ["message_only", "b"]]])

    def _send(self, target: str, queue: str, keyed: bool) -> None:
        inbox = self._bench.storage.inbox
        before = len(inbox.messages(target))
        self._count += 1
        key = f"k{self._count % 2}" if keyed else None
        value = codec.encode(self._count if self._count % 3 == 2 else f"out {self._count}")
        answer = inbox.send(target, queue, value, ttl_ms=TTL, idempotency_key=key)
        stored = len(inbox.messages(target)) - before
        assert stored == 0 if answer == "refused" else keyed or stored == 1
        self.sent[target] += stored


class PatientLoop(VirtualLoop):
    """A loop that says so when virtual time stands still for ever."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self._stood = 0
        self._at = 0

    def step(self) -> bool:
        went = super().step()
        self._stood = self._stood + 1 if self._at == self.now_ms() else 0
        self._at = self.now_ms()
        assert self._stood < STANDS_STILL, "it never comes to rest"
        return went


class Play:
    """One run of a world, from its first admission to the moment when nothing moves."""

    def __init__(self, world: World, way: Way) -> None:
        CALLS.clear()
        LIVES.clear()
        self.world = world
        self.way = way
        self.kills = list(way.kills)
        self.moments: list[int] = []
        self.points = 0
        self.died = False
        #: At each death: how many calls there had been, and whose ends were recorded.
        self.deaths: list[tuple[int, set[str]]] = []
        self.bench = Bench(
            person,
            small,
            clock=ManualClock(),
            chance=FixedChance(),
            residents=way.residents,
            duration=some_time if way.timed else None,
            commit_ms=way.commit_ms,
        )
        self.outside = Outside(self.bench, slow=world.slow)

    def play(self) -> None:
        """Run everything."""
        self.outside.admit("p", self.world.p)
        if self.world.q is not None:
            self.outside.admit("q", self.world.q)
        self.bench.admit("small", {"how": "plain", "n": 1}, execution_id="r")
        self._start()
        at = self.bench.clock.now_ms()
        for gap, event in self.world.events:
            at += gap
            self._survive(lambda to=at: self.bench.run_to(to))  # type: ignore[misc]
            self.moments.append(at)
            self._happen(event)
        for _ in range(2):
            # Not to the end of all timers: with two workers one of them is a lease.
            at += LONG_MS
            self._survive(lambda to=at: self.bench.run_to(to))  # type: ignore[misc]
            for scope in ("p", "person", ""):
                self._happen(["resume", scope])
        self._survive(lambda: self.bench.run_to(at + LONG_MS))
        self.points = len(self.bench.points.names)

    def recorded(self) -> set[str]:
        """The keys for the outside of all steps whose ends are recorded."""
        found: set[str] = set()
        for record in self.bench.storage.reader.find(limit=None):
            known = {"n": record.number}
            row = self.bench.storage.db.row("SELECT seed FROM executions WHERE n = :n", known)
            assert row is not None
            for index, history in enumerate(histories(self.bench, record)):
                found.update(
                    ids.idempotency_key(bytes(row[0]), index + 1, f"{e.kind}/{e.step_key}")
                    for e in history
                )
        return found

    def wake_all(self) -> None:
        """A new worker looks at everything that is open: all is replayed, and nothing is ready."""
        self.kills.clear()
        self.crash()
        for record in self.bench.storage.reader.find(limit=None):
            self.outside.happen(["wake", record.execution_id])
        self._rest()

    def cancel_all(self, kind: str) -> None:
        """Ask everything that is open to end."""
        for record in self.bench.storage.reader.find(limit=None):
            self.outside.happen([kind, record.execution_id])
        self._rest()

    def _rest(self) -> None:
        self._ring()
        self.bench.run_to(self.bench.clock.now_ms() + LONG_MS)

    def _start(self) -> None:
        self.bench.loop = PatientLoop(self.bench.clock)
        for index in range(self.way.workers):
            # Of two only the second can do what is tagged.
            tags = None if self.way.workers == 1 else ["gpu"][:index]
            worker = self.bench.start_worker(tags)
            ring = lambda worker=worker: self._ring(worker)  # noqa: E731
            worker.writer = BusyWriter(worker.writer, self.bench.loop, self.way.queue_ms, ring)
        self.bench.points.kill_at(self.kills[0] if self.kills else None)

    def _ring(self, but: Dispatcher | None = None) -> None:
        for worker in self.bench.workers:
            if worker is not but:
                self.bench.loop.post(worker.poll)

    def _survive(self, run: Callable[[], None]) -> None:
        """`run`, again after each death."""
        while True:
            try:
                run()
            except Killed:
                self.crash()
            else:
                return

    def crash(self) -> None:
        """All workers die, and as many start."""
        self.died = True
        self.deaths.append((len(CALLS), self.recorded()))
        if self.kills:
            self.kills.pop(0)
        self.bench.crash()
        self._start()

    def _happen(self, event: list[Any]) -> None:
        if event[0] == "crash":
            self.crash()
        else:
            self.outside.happen(event)
        self._ring()


def _scope(name: str) -> dict[str, str]:
    if name == "p":
        return {"execution_id": "p"}
    return {"workflow_id": name} if name else {}


@contextlib.contextmanager
def played(world: World, way: Way) -> Iterator[Play]:
    """A world that has been played."""
    play = Play(world, way)
    try:
        play.play()
        yield play
    finally:
        play.bench.close()


# --- what is seen --------------------------------------------------------------------------------


def histories(bench: Bench, record: ExecutionRecord) -> list[list[Entry]]:
    """The histories of all incarnations that are kept, the first first."""
    reader = bench.storage.reader
    return [
        reader.history(record.number, incarnation)
        for incarnation in range(1, record.incarnation + 1)
    ]


def seen(play: Play) -> Any:
    """What must be the same whenever the worker dies."""
    bench = play.bench
    record = bench.record("p")
    return {
        "histories": [[_row(e) for e in history] for history in histories(bench, record)],
        "status": str(record.status),
        "outcome": stable(str(record.outcome)),
        "logs": [(line.index, line.text) for line in bench.storage.reader.logs(record.number)],
        "status value": record.status_value_json,
        "messages": [
            (m.queue, m.value, m.state, m.sent_at, m.consumed_at)
            for m in bench.storage.inbox.messages("p")
        ],
        "waits": [(w.kind, w.step_key) for w in bench.storage.reader.waits(record.number)],
        "children": [
            (c.execution_id, str(c.status), c.updated_at)
            for c in bench.storage.family.children(record.number)
        ],
    }


def standing(play: Play) -> Any:
    """The history and the end of every execution."""
    return {
        record.execution_id: (histories(play.bench, record), record.status, record.outcome)
        for record in play.bench.storage.reader.find(limit=None)
    }


def _row(entry: Entry) -> Any:
    value = stable(entry.value)
    if entry.kind == "status":
        # Whether it has begun at the moment of its admission is nobody's promise.
        value = value.replace('"admitted"', '"suspended"')
    return (entry.position, entry.kind, entry.step_key, entry.ok, value, entry.at, entry.withdrawn)


def steps(calls: Counter[tuple[str, str, int]]) -> Counter[tuple[str, int]]:
    """Calls without the key for the outside, which hangs on chance."""
    found: Counter[tuple[str, int]] = Counter()
    for (_, key, attempt), count in calls.items():
        found[key, attempt] += count
    return found


def ties(play: Play) -> bool:
    """Whether two things that p can see happened at one moment, so that either may be first."""
    bench = play.bench
    record = bench.record("p")
    moments = Counter(play.moments)
    moments.update(child.updated_at for child in bench.storage.family.children(record.number))
    entries = [e for history in histories(bench, record) for e in history]
    own = {e.at for e in entries if e.kind == "timer" or e.attempt > 1}
    for incarnation in range(1, record.incarnation + 1):
        tried = bench.storage.reader.attempts(record.number, incarnation)
        own.update(attempt.retry_at for attempt in tried)
    moments.update(own)
    return any(count > 1 for count in moments.values())
