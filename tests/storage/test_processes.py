"""Races between real processes on one file, and processes that are stopped or killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.storage.kit import LEASE_MS, admit, claim, claim_one, ids, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import DatabaseBusy
from yieldstar_cli.model import Completed, Suspended
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

ROOT = Path(__file__).parents[2]
#: The actors' moment.
NOW = 2_000_000_000_000


class Actor:
    """A process that acts on the file once told to."""

    def __init__(self, action: str, path: Path, *words: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.storage.actor", action, str(path), *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        assert self.stdout.readline() == "ready\n"

    def go(self) -> None:
        self.stdin.write("go\n")
        self.stdin.flush()

    def say(self) -> Any:
        """The next result."""
        return json.loads(self.stdout.readline())

    def results(self) -> list[Any]:
        """All results that are left; the process has ended in order."""
        found = [json.loads(line) for line in self.stdout]
        assert self.process.wait() == 0
        return found

    def kill(self) -> list[Any]:
        """End it as `kill -9` does; the results that it had given."""
        self.process.kill()
        self.process.wait()
        return [json.loads(line) for line in self.stdout if line.endswith("\n")]

    def end(self) -> None:
        """Whatever became of it, leave nothing behind."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.stdin.close()
        self.stdout.close()


@contextmanager
def actors(count: int, action: str, path: Path, *words: object) -> Iterator[list[Actor]]:
    """`count` actors of one kind, ready to go; "{me}" in a word is each one's number."""
    made = []
    try:
        for n in range(count):
            mine = [str(word).format(me=n) for word in words]
            made += [Actor(action, path, *mine)]
        yield made
    finally:
        for actor in made:
            actor.end()


def race(made: list[Actor]) -> list[list[Any]]:
    """Let all go at once; what each said."""
    for actor in made:
        actor.go()
    return [actor.results() for actor in made]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


def test_of_many_admissions_of_one_id_one_is_accepted(
    storage: SqliteStorage, db_path: Path
) -> None:
    """case 26; G2: exactly one is accepted, the others conflict, and its params are kept."""
    with actors(8, "admit_one", db_path, "order-42", "{me}") as made:
        answers = [answer for (answer,) in race(made)]

    assert sorted(answers) == ["EXECUTION_ID_CONFLICT"] * 7 + ["accepted"]
    record = storage.executions.get("order-42")
    assert record is not None
    assert record.params == str(answers.index("accepted"))


def test_many_claimers_share_out_a_thousand(storage: SqliteStorage, db_path: Path) -> None:
    """cases 83, 57; B04, B05: 1,000 claims, none twice, every outcome by its own claimer."""
    with storage.atomic():
        for n in range(1_000):
            admit(storage, f"e-{n}")

    with actors(8, "claim_all", db_path) as made:
        batches = [batch for said in race(made) for batch in said]

    claimed = [execution_id for batch in batches for execution_id in batch]
    assert len(claimed) == 1_000
    assert len(set(claimed)) == 1_000
    assert storage.reader.counts() == {"completed": 1_000}
    assert storage.db.rows("SELECT max(token), max(operations) FROM executions") == [(1, 1)]


def test_one_execution_claimed_by_many_has_rising_tokens(
    storage: SqliteStorage, db_path: Path
) -> None:
    """cases 61, 82: no token is given twice."""
    admit(storage, "a")

    with actors(3, "claim_again_and_again", db_path, 40) as made:
        said = race(made)

    for tokens in said:
        assert tokens == sorted(tokens)
    assert sorted(token for tokens in said for token in tokens) == list(range(1, 121))


def test_wakes_of_two_processes_merge_to_the_earliest(
    storage: SqliteStorage, db_path: Path
) -> None:
    """case 53: 500 each at once: due at the smallest of all."""
    admit(storage, "a", at=NOW + 10**6)

    with actors(2, "wake", db_path, "a", f"{NOW + 100}", 500) as made:
        race(made)

    record = storage.executions.get("a")
    assert record is not None
    assert record.due_at == NOW + 100


def test_the_first_of_many_outcomes_is_kept(storage: SqliteStorage, db_path: Path) -> None:
    """case 97: eight processes, a hundred tries each, one outcome for all of them."""
    admit(storage, "a")
    delivery = storage.executions.claim_due(NOW)[0]

    with actors(8, "finish", db_path, "a", delivery.token, "{me}", 100) as made:
        answers = [answer for (answer,) in race(made)]

    record = storage.executions.get("a")
    assert record is not None
    assert isinstance(record.outcome, Completed)
    assert answers == [[record.outcome.result]] * 8


@pytest.mark.parametrize("after", [1, 5, 23, 60])
def test_a_killed_process_loses_nothing_it_had_said(
    storage: SqliteStorage, db_path: Path, after: int
) -> None:
    """cases 29, 30; G1; invariant I1: what was said before `kill -9` is there."""
    with actors(2, "admit_many", db_path, "p{me}") as made:
        for actor in made:
            actor.go()
        said = [actor.say() for actor in made for _ in range(after)]
        for actor in made:
            said += actor.kill()

    assert storage.db.rows("PRAGMA integrity_check") == [("ok",)]
    there = {record.execution_id for record in storage.reader.find(limit=None)}
    assert set(said) <= there
    # At most the one that each had under way was not said.
    assert len(there - set(said)) <= 2
    assert set(ids(storage.executions.claim_due(NOW * 2))) == there


def test_a_lock_that_is_held_elsewhere_is_waited_for_and_said(
    storage: SqliteStorage, db_path: Path, clock: ManualClock
) -> None:
    """cases 33; B26: another process in its transaction: busy after the timeout; readers go on."""
    impatient = SqliteStorage(db_path, clock=clock, busy_timeout_ms=10)
    with actors(1, "hold_lock", db_path) as (holder,):
        holder.go()
        assert holder.say() == "held"

        with pytest.raises(DatabaseBusy, match="locked"):
            impatient.executions.admit(workflow_id="w")
        assert impatient.reader.counts() == {}

        holder.go()
        assert holder.results() == ["released"]
    assert impatient.executions.admit(workflow_id="w").status == "admitted"
    impatient.close()


def test_a_lock_holder_that_is_killed_lets_go(
    storage: SqliteStorage, db_path: Path, clock: ManualClock
) -> None:
    """case 86: killed within its transaction, it has written nothing and holds nobody up."""
    with actors(1, "hold_lock", db_path) as (holder,):
        holder.go()
        assert holder.say() == "held"
        holder.kill()

    assert storage.executions.admit(workflow_id="w").status == "admitted"


def test_a_stopped_worker_that_wakes_up_late_can_write_nothing(
    storage: SqliteStorage, db_path: Path, clock: ManualClock
) -> None:
    """case 85; G5: SIGSTOP beyond its lease while another finishes: every late write refused."""
    for name in ("a", "b"):
        admit(storage, name)
    second = new_worker(storage, NOW + 10 * LEASE_MS)
    with (
        actors(1, "late_write", db_path, "a") as (late_a,),
        actors(1, "late_write", db_path, "b") as (late_b,),
    ):
        for late in (late_a, late_b):
            late.go()
            assert late.say() == 1
            late.process.send_signal(signal.SIGSTOP)
        clock.advance(LEASE_MS)
        taken = claim(storage, clock.now_ms(), second)
        assert ids(taken) == ["a", "b"]
        storage.executions.acknowledge(taken[0].delivery, Completed('"second"'))

        for late in (late_a, late_b):
            late.process.send_signal(signal.SIGCONT)
            late.go()
        said_a, said_b = late_a.results(), late_b.results()

    # Of a finished execution it is told the outcome; of a running one it is refused.
    assert said_a == ["told the outcome"] * 3
    assert said_b == ["STALE_DELIVERY"] * 3
    a, b = storage.executions.get("a"), storage.executions.get("b")
    assert a is not None
    assert b is not None
    assert a.outcome == Completed('"second"')
    assert (a.operations, a.status_value_json) == (0, None)
    assert (b.status, b.operations, b.status_value_json) == ("admitted", 0, None)
    storage.executions.acknowledge(taken[1].delivery, Suspended())


def test_a_claimer_that_is_killed_gives_way_after_its_lease(
    storage: SqliteStorage, db_path: Path, clock: ManualClock
) -> None:
    """cases 50, 60, 84; B02, B03: no rescuer is needed: the next claim takes over."""
    admit(storage, "a")
    with actors(1, "late_write", db_path, "a") as (doomed,):
        doomed.go()
        assert doomed.say() == 1
        doomed.kill()
    second = new_worker(storage, NOW + 10 * LEASE_MS)

    assert claim(storage, NOW + LEASE_MS - 1, second) == []
    assert claim_one(storage, NOW + LEASE_MS, second).token == 2


def test_many_openers_of_a_new_file_set_it_up_once(tmp_path: Path) -> None:
    """spec K7: of processes that all find no database, one makes it, and all can use it."""
    script = (
        "import sys\n"
        "from yieldstar_cli.storage.sqlite.storage import SqliteStorage\n"
        "s = SqliteStorage(sys.argv[1], create=True)\n"
        "s.executions.admit(workflow_id='w', execution_id=sys.argv[2])\n"
        "s.close()\n"
    )
    path = tmp_path / "ys.db"
    made = [
        subprocess.Popen([sys.executable, "-c", script, str(path), str(n)], cwd=ROOT)
        for n in range(8)
    ]

    assert [process.wait() for process in made] == [0] * 8
    storage = SqliteStorage(path)
    assert storage.reader.counts() == {"admitted": 8}
    assert storage.db.rows("SELECT count(*) FROM file") == [(1,)]
    storage.close()
