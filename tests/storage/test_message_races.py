"""Messages from several connections at once, each in a thread of its own: none lost, none twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from tests.storage.kit import WORKFLOWS, admit, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.model import Arrived, Entry, Round, Suspended, Wait
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

SENDERS = 4
EACH = 400
TTL_MS = 10**6
INBOX = Wait("message", "inbox", "inbox", 0, None, "waiting", queue="inbox")


def opened(path: Path, clock: ManualClock) -> SqliteStorage:
    """A connection of one's own; what is under test is no power cut."""
    return SqliteStorage(path, clock=clock, create=True, durability="normal")


def at_once(*acts: Callable[[], object]) -> list[object]:
    """Run all of these at the same time, each in a thread; what they answer, in their order."""
    start = Barrier(len(acts))

    def act(one: Callable[[], object]) -> object:
        start.wait(timeout=30)
        return one()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(act, acts))


def reader_of(path: Path, clock: ManualClock, over: Callable[[], bool]) -> list[str]:
    """A worker that reads whenever it is woken, until all is `over` and it is not woken again."""
    storage = opened(path, clock)
    worker = new_worker(storage, clock.now_ms())
    read: list[str] = []
    position = 0
    while True:
        last = over()
        if storage.deliveries.next_due(WORKFLOWS, worker=worker) is None:
            if last:
                break
            continue
        (claimed,) = storage.deliveries.claim(
            clock.now_ms(), worker=worker, limit=1, workflows=WORKFLOWS
        )
        ready = True
        while ready:
            look = storage.deliveries.look(claimed.delivery, queues={"inbox": (0, 10_000)})
            changes = taking(position, look.arrived)
            ready = storage.deliveries.record(claimed.delivery, changes).ready
            read += [arrived.value for arrived in look.arrived]
            position += len(changes.entries)
    storage.close()
    return read


def let_it_read(storage: SqliteStorage, number: int) -> None:
    """Give the reader a chance to have read everything, so that it sleeps."""
    for _ in range(500):
        if not storage.inbox.depth(number, "inbox"):
            return


def taking(position: int, arrived: tuple[Arrived, ...]) -> Round:
    """The round that takes these messages and then waits for more."""
    entries = (Entry(position, "messages", f"inbox-{position}", True, "[]", 0),)
    return Round(
        entries=entries if arrived else (),
        consumed=tuple(each.number for each in arrived),
        waits=(INBOX,),
        outcome=Suspended(),
    )


def test_many_senders_are_each_read_once_and_in_their_own_order(
    db_path: Path, clock: ManualClock
) -> None:
    """case 263; I12; spec M1, M2, M4: the reader sleeps whenever it has read all there is.

    Were one wake lost it would not read the rest: there is no other, no timer, no second look.
    """
    storage = opened(db_path, clock)
    number = admit(storage, "reader")
    done: list[int] = []

    def sender(name: int) -> list[str]:
        mine = opened(db_path, clock)
        answers: list[str] = []
        for n in range(EACH):
            if n % 20 == 0:
                let_it_read(mine, number)
            answers.append(mine.inbox.send("reader", "inbox", json.dumps([name, n]), ttl_ms=TTL_MS))
        mine.close()
        done.append(name)
        return answers

    read, *answers = at_once(
        lambda: reader_of(db_path, clock, lambda: len(done) == SENDERS),
        *(lambda name=name: sender(name) for name in range(SENDERS)),
    )

    assert answers == [["delivered"] * EACH] * SENDERS
    assert isinstance(read, list)
    values = [json.loads(value) for value in read]
    for name in range(SENDERS):
        assert [n for sender_of, n in values if sender_of == name] == list(range(EACH))
    assert len(values) == SENDERS * EACH
    assert storage.executions.claim_due(clock.now_ms()) == []
    storage.close()


def test_a_message_is_never_between_the_buffer_and_the_admission(
    db_path: Path, clock: ManualClock
) -> None:
    """cases 255, 256; spec M1, M3: sent at the moment of the admission it is adopted or delivered.

    Every copy under one key is answered alike, and one is stored.
    """
    storage = opened(db_path, clock)
    names = [f"order-{n}" for n in range(60)]

    def sender(queue: str) -> list[str]:
        mine = opened(db_path, clock)
        answers: list[str] = [
            mine.inbox.send(name, queue, "1", ttl_ms=TTL_MS, idempotency_key="k") for name in names
        ]
        mine.close()
        return answers

    def admitter() -> list[int]:
        mine = opened(db_path, clock)
        numbers = [admit(mine, name) for name in names]
        mine.close()
        return numbers

    numbers, first, second = at_once(admitter, lambda: sender("a"), lambda: sender("b"))

    assert first == second
    assert isinstance(numbers, list)
    for name, number in zip(names, numbers, strict=True):
        (message,) = storage.inbox.messages(name)
        assert message.state == "waiting"
        assert storage.inbox.depth(number, message.queue) == 1
    storage.close()


def test_a_flooded_queue_starves_no_other(db_path: Path, clock: ManualClock) -> None:
    """case 269: of twenty queues each is looked at, however many wait in one of them."""
    storage = opened(db_path, clock)
    number = admit(storage, "reader")
    (delivery,) = storage.executions.claim_due(clock.now_ms())
    queues = [f"q-{n}" for n in range(20)]
    with storage.atomic():
        for n in range(2_000):
            storage.inbox.send("reader", "q-0", str(n), ttl_ms=1)
        for queue in queues[1:]:
            storage.inbox.send("reader", queue, '"other"', ttl_ms=1)

    look = storage.deliveries.look(
        delivery, queues=dict.fromkeys(queues, (0, 1)), depths=("q-0", "q-7")
    )

    assert [arrived.queue for arrived in look.arrived] == queues
    assert look.depths == {"q-0": 2_000, "q-7": 1}
    assert storage.inbox.depth(number, "q-0") == 2_000
    storage.close()
