"""Children: started with their parent's round, awaited by its waits, told when it ends (C1-C5)."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from tests.storage.kit import admit, claim, claim_one, entry, ids, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import InvalidMessageEvent, StaleDelivery
from yieldstar_cli.model import (
    CancelledOutcome,
    CancelOther,
    CancelRequested,
    Completed,
    Continued,
    Delivery,
    Ended,
    Entry,
    Failed,
    Look,
    Outcome,
    Round,
    Send,
    Start,
    Suspended,
    TerminalOutcome,
    Wait,
    WakeOther,
)
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

CHILD = "p/pay"


@pytest.fixture
def worker(storage: SqliteStorage, clock: ManualClock) -> int:
    return new_worker(storage, clock.now_ms())


@pytest.fixture
def parent(storage: SqliteStorage, clock: ManualClock, worker: int) -> Delivery:
    """The open first delivery of the execution p."""
    admit(storage, "p")
    return claim_one(storage, clock.now_ms(), worker)


def start(
    execution_id: str = CHILD, *, key: str = "pay", params: str = "[1]", **words: object
) -> Start:
    return Start(key, 5, execution_id, "w", 1, params, **words)  # type: ignore[arg-type]


def awaits(execution_id: str = CHILD, *, key: str = "pay") -> Wait:
    return Wait("child", key, "", 5, None, "waiting", target=execution_id)


def run(
    storage: SqliteStorage, clock: ManualClock, worker: int, execution_id: str, outcome: Outcome
) -> None:
    """One delivery of an execution."""
    delivery = claim_one(storage, clock.now_ms(), worker, only=execution_id)
    storage.deliveries.record(delivery, Round(outcome=outcome))


def looked(storage: SqliteStorage, delivery: Delivery) -> Look:
    return storage.deliveries.look(delivery, queues={})


def status(storage: SqliteStorage, execution_id: str) -> str | None:
    record = storage.executions.get(execution_id)
    return None if record is None else str(record.status)


# --- the start ----------------------------------------------------------------------------------


def test_a_child_is_admitted_with_the_entry_of_its_start(
    storage: SqliteStorage, parent: Delivery
) -> None:
    """case 196; B09; spec C3: one transaction, so there is never one without the other."""
    recorded = storage.deliveries.record(
        parent, Round(entries=(entry(0, at=4),), actions=(start(),), waits=(awaits(),))
    )

    begun = Entry(1, "start", "pay", True, '"w"', 5, label=CHILD)
    assert recorded.entries == (begun,)
    assert not recorded.ready
    assert storage.reader.history(parent.number, 1) == [entry(0, at=4), begun]
    child = storage.executions.get(CHILD)
    assert child is not None
    assert (child.status, child.parent_execution_id, child.detached) == ("admitted", "p", False)
    assert (child.params_json, child.workflow_id, child.version) == ("[1]", "w", 1)
    record = storage.executions.get("p")
    assert record is not None
    assert record.operations == 2


def test_a_start_is_due_at_once_and_has_chances_of_its_own(
    storage: SqliteStorage, clock: ManualClock, worker: int, parent: Delivery
) -> None:
    """spec C3, R7: a child is an execution like any other."""
    storage.deliveries.record(parent, Round(actions=(start(),)))

    (child,) = claim(storage, clock.now_ms(), worker)

    seeds = storage.db.rows("SELECT seed, admission_nonce FROM executions")
    assert child.delivery.execution_id == CHILD
    assert len({value for row in seeds for value in row}) == 4


def test_a_superseded_delivery_starts_no_child(
    storage: SqliteStorage, clock: ManualClock, worker: int, parent: Delivery
) -> None:
    """case 73; spec L2: refused, and no child record."""
    storage.executions.release(parent)
    claim_one(storage, clock.now_ms(), worker)

    for outcome in (None, Suspended(), Completed("1"), Continued("1", 1)):
        with pytest.raises(StaleDelivery):
            storage.deliveries.record(parent, Round(actions=(start(),), outcome=outcome))

    assert status(storage, CHILD) is None


def test_the_same_child_started_again_is_the_one_there_is(
    storage: SqliteStorage, parent: Delivery
) -> None:
    """cases 196, 198; spec C3: same workflow and params under an ID of its own."""
    first = storage.deliveries.record(parent, Round(actions=(start(),)))
    again = storage.deliveries.record(parent, Round(actions=(start(), start(key="pay-2"))))

    assert [e.value for e in (*first.entries, *again.entries)] == ['"w"'] * 3
    assert all(e.ok for e in again.entries)
    assert storage.family.child_counts(parent.number) == {("w", "admitted"): 1}


@pytest.mark.parametrize("change", [{"params": "[2]"}, {"workflow_id": "other"}])
def test_another_child_under_a_used_id_is_refused_and_recorded(
    storage: SqliteStorage, parent: Delivery, change: dict[str, str]
) -> None:
    """case 197; spec C3: other params or another workflow is another child."""
    storage.deliveries.record(parent, Round(actions=(start(),)))
    asked = {"workflow_id": "w", "params": "[1]"} | change

    (refused,) = storage.deliveries.record(
        parent,
        Round(actions=(Start("pay", 6, CHILD, asked["workflow_id"], 1, asked["params"]),)),
    ).entries

    told = json.loads(refused.value)
    assert not refused.ok
    assert told.pop("message")
    assert told == {
        "name": "ExecutionIdConflict",
        "code": "EXECUTION_ID_CONFLICT",
        "execution_id": CHILD,
        "workflow_id": "w",
        "status": "admitted",
    }
    assert storage.reader.history(parent.number, 1)[-1] == refused


def test_a_foreign_execution_under_the_id_is_left_alone(
    storage: SqliteStorage, parent: Delivery
) -> None:
    """case 212; spec C3: refused, recorded, and the other execution is untouched."""
    admit(storage, "theirs", params=[1])
    before = storage.db.rows("SELECT * FROM executions WHERE execution_id = 'theirs'")

    recorded = storage.deliveries.record(
        parent, Round(actions=(start("theirs"), start("p"), start("next")))
    )

    assert [e.ok for e in recorded.entries] == [False, False, True]
    assert before == storage.db.rows("SELECT * FROM executions WHERE execution_id = 'theirs'")


@pytest.mark.parametrize("wrong", ["", " x", "x" * 256, "a\nb", "\ud800"])
def test_an_id_that_no_execution_can_have_is_refused_and_recorded(
    storage: SqliteStorage, parent: Delivery, wrong: str
) -> None:
    """spec C3, E2: the round stands, whatever the function asked for."""
    recorded = storage.deliveries.record(
        parent,
        Round(
            actions=(
                start(wrong),
                Send("say", 6, wrong, "q", "1", 1_000),
                WakeOther("wake", 7, wrong),
                CancelOther("stop", 8, wrong),
            )
        ),
    )

    begun, said, woken, stopped = recorded.entries
    assert (begun.ok, json.loads(begun.value)["code"]) == (False, "INVALID_EXECUTION_EVENT")
    assert (said.ok, json.loads(said.value)["code"]) == (False, InvalidMessageEvent.code)
    assert (woken.ok, woken.value) == (stopped.ok, stopped.value) == (True, '"not_found"')
    assert storage.reader.history(parent.number, 1) == list(recorded.entries)


def test_what_was_sent_ahead_awaits_the_child(
    storage: SqliteStorage, clock: ManualClock, worker: int, parent: Delivery
) -> None:
    """spec M1: a message for an ID that nobody had yet is there when the child begins."""
    assert storage.inbox.send(CHILD, "go", '"now"', ttl_ms=1_000) == "buffered"

    storage.deliveries.record(parent, Round(actions=(start(),)))

    child = claim_one(storage, clock.now_ms(), worker)
    (message,) = storage.deliveries.look(child, queues={"go": (0, 1)}).arrived
    assert message.value == '"now"'


def test_what_an_action_did_keeps_its_place_and_its_mark(
    storage: SqliteStorage, parent: Delivery
) -> None:
    """spec R4: entries stand in the order of the actions, withdrawn ones marked as such."""
    admit(storage, "peer")
    actions = (
        start(withdrawn=True),
        Send("say", 6, "peer", "q", "1", 1_000),
        Send("say-2", 7, "nobody", "q", "1", 1_000),
        WakeOther("wake", 8, "peer"),
        CancelOther("stop", 9, CHILD, "no need"),
        CancelOther("stop-2", 9, CHILD),
    )

    entries = storage.deliveries.record(
        parent, Round(entries=(entry(0),), actions=actions, status_value="1")
    ).entries

    told = [(e.position, e.kind, e.step_key, e.value, e.at, e.label) for e in entries]
    assert told == [
        (1, "start", "pay", '"w"', 5, CHILD),
        (2, "send", "say", '"delivered"', 6, "peer q"),
        (3, "send", "say-2", '"buffered"', 7, "nobody q"),
        (4, "wake", "wake", '"requested"', 8, "peer"),
        (5, "cancel-child", "stop", '"cancelled"', 9, CHILD),
        (6, "cancel-child", "stop-2", '"ignored"', 9, CHILD),
    ]
    assert [e.withdrawn for e in entries] == [True] + [False] * 5
    assert storage.reader.history(parent.number, 1) == [entry(0), *entries]


def test_a_wake_of_an_execution_that_has_ended_is_ignored(
    storage: SqliteStorage, clock: ManualClock, worker: int, parent: Delivery
) -> None:
    """case 283; spec E6, M1: and a message to it is refused."""
    admit(storage, "peer")
    run(storage, clock, worker, "peer", Completed("1"))

    actions = (WakeOther("wake", 5, "peer"), Send("say", 5, "peer", "q", "1", 1_000))
    recorded = storage.deliveries.record(parent, Round(actions=actions))

    assert [e.value for e in recorded.entries] == ['"ignored"', '"refused"']


def test_a_wake_by_a_delivery_outlives_the_delivery_that_runs(
    storage: SqliteStorage, clock: ManualClock, worker: int, parent: Delivery
) -> None:
    """spec E9: asked for since its claim, so it is due after it."""
    admit(storage, "peer")
    peer = claim_one(storage, clock.now_ms(), worker)

    storage.deliveries.record(parent, Round(actions=(WakeOther("wake", 5, "peer"),)))
    storage.deliveries.record(peer, Round(outcome=Suspended()))

    assert ids(claim(storage, clock.now_ms(), worker)) == ["peer"]


# --- the end -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "outcome", [Completed('{"n":1}'), Failed('"e"'), CancelledOutcome("enough")]
)
def test_the_end_of_a_child_wakes_its_parent_in_the_same_commit(
    storage: SqliteStorage,
    clock: ManualClock,
    worker: int,
    parent: Delivery,
    outcome: TerminalOutcome,
) -> None:
    """case 199; spec C2: the outcome is read from the child's record."""
    storage.deliveries.record(
        parent, Round(actions=(start(),), waits=(awaits(),), outcome=Suspended())
    )
    assert storage.deliveries.next_due([("w", 1)]) == clock.now_ms()
    child = claim_one(storage, clock.now_ms(), worker)
    assert storage.deliveries.next_due([("w", 1)]) is None

    clock.advance(10)
    storage.deliveries.record(child, Round(outcome=outcome))

    (again,) = claim(storage, clock.now_ms(), worker)
    assert again.delivery.execution_id == "p"
    ended = Ended("pay", CHILD, clock.now_ms(), outcome)
    assert looked(storage, again.delivery).ended == (ended,)
    assert looked(storage, again.delivery).ended == (ended,)


def test_an_open_delivery_is_nudged_by_the_end_it_awaits(
    storage: SqliteStorage, clock: ManualClock, worker: int, parent: Delivery
) -> None:
    """spec R10: it looks; a suspension that has not looked is refused."""
    storage.deliveries.record(parent, Round(actions=(start(),), waits=(awaits(),)))
    assert storage.deliveries.nudged(worker) == []

    run(storage, clock, worker, CHILD, Completed("1"))

    assert storage.deliveries.nudged(worker) == [(parent.number, 1)]
    recorded = storage.deliveries.record(
        parent, Round(entries=(entry(1),), outcome=Suspended(clock.now_ms() + 9))
    )
    assert (recorded.outcome, recorded.ready) == (None, True)
    record = storage.executions.get("p")
    assert record is not None
    assert (record.status, record.operations) == ("admitted", 2)
    assert record.delivery is not None

    taken = Round(unwait=(("child", "pay"),), outcome=Suspended())
    assert storage.deliveries.record(parent, taken).outcome == Suspended(None)
    assert claim(storage, clock.now_ms(), worker) == []


def test_a_child_that_ended_long_ago_is_ready_when_it_is_first_awaited(
    storage: SqliteStorage, clock: ManualClock, worker: int, parent: Delivery
) -> None:
    """case 217; spec C1, C2: the value is still there, and so is its moment."""
    storage.deliveries.record(parent, Round(actions=(start(),)))
    run(storage, clock, worker, CHILD, Completed("7"))
    then = clock.now_ms()
    clock.advance(10**9)

    recorded = storage.deliveries.record(parent, Round(waits=(awaits(),), outcome=Suspended()))

    assert (recorded.outcome, recorded.ready) == (None, True)
    assert looked(storage, parent).ended == (Ended("pay", CHILD, then, Completed("7")),)


def test_an_execution_that_does_not_exist_is_ready_without_an_outcome(
    storage: SqliteStorage, clock: ManualClock, parent: Delivery
) -> None:
    """spec C2, C5: a pruned or mistyped `attach` target is told at once, with the first moment."""
    seen = clock.now_ms()
    storage.deliveries.record(parent, Round(waits=(awaits("gone"),)))
    clock.advance(5)
    again = storage.deliveries.record(parent, Round(waits=(awaits("gone"),)))

    assert again.ready
    assert looked(storage, parent).ended == (Ended("pay", "gone", seen, None),)


def test_ends_are_told_in_the_order_in_which_they_came(
    storage: SqliteStorage, clock: ManualClock, worker: int, parent: Delivery
) -> None:
    """spec O6: the first to be ready first; at one millisecond the one that was named first."""
    names = ["c", "a", "b", "d"]
    waits = tuple(
        Wait("child", key, "", 5, None, "waiting", position=n, target=f"p/{key}")
        for n, key in enumerate(names)
    )
    starts = tuple(start(f"p/{key}", key=key) for key in names)
    storage.deliveries.record(parent, Round(actions=starts, waits=waits))

    run(storage, clock, worker, "p/d", Completed("1"))
    clock.advance(1)
    for key in ("b", "c", "a"):
        run(storage, clock, worker, f"p/{key}", Completed("1"))

    assert [e.step_key for e in looked(storage, parent).ended] == ["d", "c", "a", "b"]


def test_everybody_who_waits_is_woken(
    storage: SqliteStorage, clock: ManualClock, worker: int, parent: Delivery
) -> None:
    """spec C5: `attach` lets any execution wait for any other, as often as it likes."""
    storage.deliveries.record(parent, Round(actions=(start(),), outcome=Suspended()))
    child = claim_one(storage, clock.now_ms(), worker)
    for other in ("x", "y"):
        admit(storage, other)
        delivery = claim_one(storage, clock.now_ms(), worker)
        waits = (awaits(key="one"), awaits(key="two"))
        storage.deliveries.record(delivery, Round(waits=waits, outcome=Suspended()))

    storage.deliveries.record(child, Round(outcome=Completed("1")))

    woken = claim(storage, clock.now_ms(), worker)
    assert ids(woken) == ["x", "y"]
    assert [e.step_key for e in looked(storage, woken[0].delivery).ended] == ["one", "two"]


def test_whoever_waits_no_more_is_left_alone(
    storage: SqliteStorage, clock: ManualClock, worker: int, parent: Delivery
) -> None:
    """spec C1: dropping a wait never touches the child, nor is anybody woken for nothing."""
    storage.deliveries.record(parent, Round(actions=(start(),), waits=(awaits(),)))
    storage.deliveries.record(parent, Round(unwait=(("child", "pay"),), outcome=Suspended()))

    run(storage, clock, worker, CHILD, Completed("1"))

    assert claim(storage, clock.now_ms(), worker) == []


def test_a_lost_delivery_looks_again_at_the_end_it_was_nudged_for(
    storage: SqliteStorage, clock: ManualClock, worker: int, parent: Delivery
) -> None:
    """spec E8, R10: a nudge is no wake of its own; the covered wake comes back and looks."""
    storage.deliveries.record(
        parent, Round(actions=(start(),), waits=(awaits(),), outcome=Suspended())
    )
    storage.executions.request_wake("p", clock.now_ms())
    lost = claim_one(storage, clock.now_ms(), worker, only="p")
    run(storage, clock, worker, CHILD, Completed("1"))

    storage.executions.release(lost)

    again = claim_one(storage, clock.now_ms(), worker)
    assert storage.deliveries.nudged(worker) == []
    assert [e.execution_id for e in looked(storage, again).ended] == [CHILD]


def test_ten_thousand_open_children_cost_a_round_nothing(
    storage: SqliteStorage, clock: ManualClock, worker: int, parent: Delivery
) -> None:
    """B97: what is written is the one that ended, and what is read is what is ready."""
    many = 10_000
    starts = tuple(start(f"p/c-{n}", key=f"c-{n}") for n in range(many))
    waits = tuple(awaits(f"p/c-{n}", key=f"c-{n}") for n in range(many))
    storage.deliveries.record(parent, Round(actions=starts, waits=waits))
    run(storage, clock, worker, "p/c-77", Completed("1"))
    steps = count_steps(storage)

    assert [e.step_key for e in looked(storage, parent).ended] == ["c-77"]
    before = storage.db.connection.total_changes()
    changes = Round(entries=(entry(many),), unwait=(("child", "c-77"),), outcome=Suspended(10**15))
    assert storage.deliveries.record(parent, changes).outcome == Suspended(10**15)

    # The entry, the wait and the record.
    assert storage.db.connection.total_changes() - before == 3
    assert steps() < 200


def count_steps(storage: SqliteStorage):  # type: ignore[no-untyped-def]
    """How many tens of SQLite's own steps are run from now on."""
    seen = 0

    def step() -> bool:
        nonlocal seen
        seen += 1
        return False

    storage.db.connection.set_progress_handler(step, 10)
    return lambda: seen


# --- the parent's end -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "word"),
    [(Completed("1"), "completed"), (Failed('"e"'), "failed"), (CancelledOutcome(), "cancelled")],
)
def test_linked_children_are_asked_to_cancel_when_their_parent_ends(
    storage: SqliteStorage,
    clock: ManualClock,
    worker: int,
    parent: Delivery,
    outcome: TerminalOutcome,
    word: str,
) -> None:
    """case 206; spec C4: in that transaction; those that never began end, detached ones run on."""
    starts = (
        start("p/running", key="running"),
        start("p/asleep", key="asleep"),
        start("p/over", key="over"),
        start("p/alone", key="alone", detached=True),
    )
    storage.deliveries.record(parent, Round(actions=starts))
    run(storage, clock, worker, "p/asleep", Suspended())
    run(storage, clock, worker, "p/over", Completed("1"))
    claim_one(storage, clock.now_ms(), worker, only="p/running")
    started_last = start("p/new", key="new")

    storage.deliveries.record(parent, Round(actions=(started_last,), outcome=outcome))

    told = CancelRequested(clock.now_ms(), f"its parent p {word}")
    children = {c.execution_id: c for c in storage.family.children(parent.number)}
    assert {name: str(c.status) for name, c in children.items()} == {
        "p/running": "admitted",
        "p/asleep": "suspended",
        "p/over": "completed",
        "p/alone": "admitted",
        "p/new": "cancelled",
    }
    assert {name for name, c in children.items() if c.cancel == told} == {
        "p/running",
        "p/asleep",
        "p/new",
    }
    assert storage.deliveries.nudged(worker) == [(children["p/running"].number, 1)]
    assert ids(claim(storage, clock.now_ms(), worker)) == ["p/asleep", "p/alone"]


def test_the_child_of_a_child_is_told_when_its_parent_is(
    storage: SqliteStorage, clock: ManualClock, worker: int, parent: Delivery
) -> None:
    """case 214; spec C4, C6: three levels; each passes it on as it ends."""
    names = ["p", "p/c", "p/c/g", "p/c/g/d"]
    for above, below in itertools.pairwise(names):
        delivery = (
            parent if above == "p" else claim_one(storage, clock.now_ms(), worker, only=above)
        )
        changes = Round(
            actions=(start(below, key="c"),), waits=(awaits(below, key="c"),), outcome=Suspended()
        )
        storage.deliveries.record(delivery, changes)

    assert storage.steering.cancel("p", reason="enough") == "requested"
    for name in names[:3]:
        delivery = claim_one(storage, clock.now_ms(), worker, only=name)
        cancel = looked(storage, delivery).cancel
        assert cancel is not None
        told = Round(
            entries=(Entry(1, "cancel", "cancel", True, "null", clock.now_ms()),),
            told=True,
            outcome=CancelledOutcome(cancel.reason),
        )
        storage.deliveries.record(delivery, told)

    assert [status(storage, name) for name in names] == ["cancelled"] * 4
    assert claim(storage, clock.now_ms(), worker) == []


def test_an_outcome_that_a_terminal_parent_no_longer_awaits_wakes_nobody(
    storage: SqliteStorage, clock: ManualClock, worker: int, parent: Delivery
) -> None:
    """case 219; spec C2, E10: a child outlives its parent and reports nowhere, harmlessly."""
    storage.deliveries.record(
        parent, Round(actions=(start(detached=True),), waits=(awaits(),), outcome=Completed("1"))
    )

    run(storage, clock, worker, CHILD, Completed("2"))

    assert storage.reader.waits(parent.number) == []
    assert claim(storage, clock.now_ms(), worker) == []
    assert status(storage, CHILD) == "completed"


def test_children_are_told_in_the_order_admitted(
    storage: SqliteStorage, clock: ManualClock, worker: int, parent: Delivery
) -> None:
    """spec C2; `ys show`: by status, and no more than asked for."""
    starts = tuple(start(f"p/{key}", key=key) for key in "cab")
    storage.deliveries.record(parent, Round(actions=starts))
    run(storage, clock, worker, "p/a", Completed('"long"'))

    family = storage.family

    assert [c.execution_id for c in family.children(parent.number)] == ["p/c", "p/a", "p/b"]
    assert [c.execution_id for c in family.children(parent.number, limit=1)] == ["p/c"]
    (ended,) = family.children(parent.number, statuses=["completed", "failed"])
    assert (ended.execution_id, ended.outcome) == ("p/a", Completed("null"))
    assert family.child_counts(parent.number) == {("w", "admitted"): 2, ("w", "completed"): 1}


def test_how_another_execution_stands_can_be_looked_up(
    storage: SqliteStorage, clock: ManualClock, worker: int, parent: Delivery
) -> None:
    """spec C4: `.status()` is its status and outcome; there need not be one."""
    storage.deliveries.record(parent, Round(actions=(start(),)))
    asked = [CHILD, "nobody", "\ud800"]

    before = storage.deliveries.look(parent, queues={}, statuses=asked).statuses
    run(storage, clock, worker, CHILD, Completed("3"))
    after = storage.deliveries.look(parent, queues={}, statuses=asked).statuses

    assert before == {CHILD: ("admitted", None), "nobody": None, "\ud800": None}
    assert after == {**before, CHILD: ("completed", Completed("3"))}


def test_a_look_sees_one_moment_of_the_file(
    db_path: Path, storage: SqliteStorage, clock: ManualClock, worker: int, parent: Delivery
) -> None:
    """spec O6: of a message and a later end it never sees the end alone."""
    storage.deliveries.record(parent, Round(actions=(start(),), waits=(awaits(),)))
    child = claim_one(storage, clock.now_ms(), worker)
    other = SqliteStorage(db_path, clock=clock)

    def meanwhile(_cursor: object, sql: str, _bindings: object) -> bool:
        if "waits_ready" in sql:
            storage.db.connection.exec_trace = None
            other.inbox.send("p", "q", "1", ttl_ms=9)
            other.deliveries.record(child, Round(outcome=Completed("1")))
        return True

    storage.db.connection.exec_trace = meanwhile
    before = storage.deliveries.look(parent, queues={"q": (0, 1)})
    after = storage.deliveries.look(parent, queues={"q": (0, 1)})
    other.close()

    assert (len(before.arrived), len(before.ended)) == (0, 0)
    assert (len(after.arrived), len(after.ended)) == (1, 1)


def test_a_look_within_a_transaction_shares_its_view(
    storage: SqliteStorage, clock: ManualClock, worker: int, parent: Delivery
) -> None:
    """spec R4: also of what that transaction has written so far; and it goes on afterwards."""
    with storage.atomic():
        storage.deliveries.record(parent, Round(waits=(awaits("gone"),)))
        assert [e.execution_id for e in looked(storage, parent).ended] == ["gone"]
        storage.deliveries.record(parent, Round(entries=(entry(0),)))

    assert storage.reader.history(parent.number, 1) == [entry(0)]
