"""One process of the races in test_processes.py: opens the file, waits for "go", acts, reports.

Run as `python -m tests.storage.actor ACTION DATABASE WORDS…`; says "ready", then JSON lines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import cycle
from typing import Any

from tests.storage.kit import claim, entry, new_worker
from yieldstar_cli.errors import YieldstarError
from yieldstar_cli.model import ChangeStore, Completed, Delivery, OpenStore, Round, Suspended
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

NOW = 2_000_000_000_000
COUNTER = ("counter", "main")


def say(result: Any) -> None:
    print(json.dumps(result), flush=True)


def admit_one(storage: SqliteStorage, execution_id: str, me: str) -> None:
    """Admit one ID; say "accepted" or the code of the refusal."""
    try:
        storage.executions.admit(workflow_id="w", params=me, execution_id=execution_id)
    except YieldstarError as error:
        say(error.code)
    else:
        say("accepted")


def claim_all(storage: SqliteStorage) -> None:
    """Claim by tens until nothing is due, and finish each; say what was claimed."""
    worker = new_worker(storage, NOW)
    while claimed := claim(storage, NOW, worker):
        for each in claimed:
            storage.deliveries.record(
                each.delivery, Round(entries=(entry(0, at=NOW),), outcome=Completed(str(worker)))
            )
        say([each.delivery.execution_id for each in claimed])


def claim_again_and_again(storage: SqliteStorage, count: str) -> None:
    """Claim one execution over and over; say each token."""
    worker = new_worker(storage, NOW)
    taken = 0
    while taken < int(count):
        for each in claim(storage, NOW, worker, limit=1):
            say(each.delivery.token)
            taken += 1
            storage.executions.acknowledge(each.delivery, Suspended(NOW))


def wake(storage: SqliteStorage, execution_id: str, first: str, count: str) -> None:
    """Request `count` wakes, at `first`, `first` + 2 … in falling order."""
    for n in reversed(range(int(count))):
        storage.executions.request_wake(execution_id, int(first) + 2 * n)
    say("done")


def finish(storage: SqliteStorage, execution_id: str, token: str, me: str, count: str) -> None:
    """Acknowledge one delivery with one's own outcome; say what is answered each time."""
    answers = set()
    for _ in range(int(count)):
        answer = storage.executions.acknowledge(Delivery(execution_id, int(token)), Completed(me))
        assert isinstance(answer, Completed)
        answers.add(answer.result)
    say(sorted(answers))


def admit_many(storage: SqliteStorage, prefix: str) -> None:
    """Admit without end, saying each ID once it is accepted; somebody will kill us."""
    n = 0
    while True:
        n += 1
        storage.executions.admit(workflow_id="w", execution_id=f"{prefix}-{n}")
        say(f"{prefix}-{n}")


def hold_lock(storage: SqliteStorage) -> None:
    """Hold the write lock until the next line comes."""
    with storage.atomic():
        say("held")
        sys.stdin.readline()
    say("released")


def late_write(storage: SqliteStorage, execution_id: str) -> None:
    """Claim, wait (stopped meanwhile), then try every write a delivery has."""
    worker = new_worker(storage, NOW)
    (each,) = claim(storage, NOW, worker, only=execution_id)
    say(each.delivery.token)
    sys.stdin.readline()
    rounds = (Round(entries=(entry(0),)), Round(status_value="1"), Round(outcome=Suspended()))
    for changes in rounds:
        try:
            answer = storage.deliveries.record(each.delivery, changes)
        except YieldstarError as error:
            say(error.code)
        else:
            say("written" if answer.outcome is None else "told the outcome")


def open_store(storage: SqliteStorage, execution_id: str, me: str) -> None:
    """Open one store as an execution does, each with a beginning of its own; say whose it is."""
    worker = new_worker(storage, NOW)
    (each,) = claim(storage, NOW, worker, only=execution_id)
    opens = Round(actions=(OpenStore("o", NOW, "stock", "main", me),))
    (opened,) = storage.deliveries.record(each.delivery, opens).entries
    found = storage.stores.get("stock", "main")
    assert found is not None
    say([json.loads(opened.value)["instance"], found.instance, found.state])


def count_up(storage: SqliteStorage, execution_id: str, count: str) -> None:
    """Add one to a store's state, so many times, as `update` does; say how often it was anew."""
    worker = new_worker(storage, NOW)
    (each,) = claim(storage, NOW, worker, only=execution_id)
    done = anew = 0
    while done < int(count):
        (store,) = storage.deliveries.look(
            each.delivery, queues={}, stores=[COUNTER]
        ).stores.values()
        assert store is not None
        for _ in range(5_000):
            pass  # The author's function takes its time.
        adds = ChangeStore(
            *(f"c{done}", NOW, "store-update", *COUNTER, store.instance, store.version),
            str(int(store.state) + 1),
        )
        recorded = storage.deliveries.record(each.delivery, Round(actions=(adds,)))
        assert recorded.ready or recorded.entries
        done += len(recorded.entries)
        anew += not recorded.entries
    say(anew)


def write_when_told(storage: SqliteStorage, pauses: str) -> None:
    """Write each line that comes as a store's state, a moment later; say its version."""
    for turns, line in zip(cycle(json.loads(pauses)), sys.stdin, strict=False):
        for _ in range(turns):
            pass
        say(storage.stores.put("stock", "main", line.strip()).version)


ACTIONS: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (
        admit_one,
        claim_all,
        claim_again_and_again,
        wake,
        finish,
        admit_many,
        hold_lock,
        late_write,
        open_store,
        count_up,
        write_when_told,
    )
}

if __name__ == "__main__":
    action, path, *words = sys.argv[1:]
    opened = SqliteStorage(path)
    print("ready", flush=True)
    sys.stdin.readline()
    ACTIONS[action](opened, *words)
    opened.close()
