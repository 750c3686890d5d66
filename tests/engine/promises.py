"""What every execution is held to once nothing moves: replay, messages, children, waits, ends."""

from __future__ import annotations

from collections import Counter
from typing import Any

from yieldstar_cli import codec, failures
from yieldstar_cli.engine import assembly
from yieldstar_cli.engine.definition import latest
from yieldstar_cli.engine.driver import Driver
from yieldstar_cli.engine.operations import State
from yieldstar_cli.errors import Cancelled
from yieldstar_cli.model import (
    CancelledOutcome,
    Claimed,
    Completed,
    Delivery,
    Entry,
    ExecutionRecord,
    Failed,
    Status,
)
from yieldstar_cli.testing import Bench

TAKES = ("message", "messages", "try-message")


def replayed(
    bench: Bench, record: ExecutionRecord, incarnation: int, params: str, started_at: int
) -> Driver:
    """What a fresh driver makes of one recorded incarnation."""
    row = bench.storage.db.row("SELECT seed FROM executions WHERE n = :n", {"n": record.number})
    assert row is not None
    history = tuple(bench.storage.reader.history(record.number, incarnation))
    claimed = Claimed(
        delivery=Delivery(record.execution_id, 1, record.number),
        workflow_id=record.workflow_id,
        version=record.version,
        params_json=params,
        context_json=record.context_json,
        incarnation=incarnation,
        seed=bytes(row[0]),
        started_at=started_at,
        status_value_json=None,
        history=history,
        first_position=0,
        retries=(),
        log_count=0,
        operations=len(history),
        last_moment=None,
        deaths=0,
    )
    definitions = bench.definitions
    driver = assembly.assemble(
        definitions[record.workflow_id, record.version],
        claimed,
        lambda name: latest(definitions, name),
    )
    assert assembly.damage(claimed) is None
    assembly.run(driver, claimed)
    return driver


def hold_all(bench: Bench, sent: Counter[str], *, one_clock: bool = True) -> None:
    """Hold every execution to what was promised; `sent` is what came from outside.

    Without `one_clock`, moments that two executions were given say nothing of which came first.
    """
    records = {r.execution_id: r for r in bench.storage.reader.find(limit=None)}
    stored: Counter[str] = Counter()
    taken = {name: _of(bench, record) for name, record in records.items()}
    for histories in taken.values():
        for entry in (e for history in histories for e in history):
            if entry.kind == "send" and entry.value in ('"delivered"', '"buffered"'):
                stored[entry.label.rpartition(" ")[0]] += 1
    for name, record in records.items():
        assert record.problem is None, (name, record.problem)
        assert record.delivery is None, name
        hold_history(bench, record, taken[name])
        hold_messages(bench, name, taken[name], stored[name] + sent[name])
        hold_children(bench, record, taken[name], records, one_clock=one_clock)
        lines = [line.index for line in bench.storage.reader.logs(record.number)]
        assert lines == list(range(len(lines))), name
        if not record.status.terminal:
            hold_wait(bench, record)


def _of(bench: Bench, record: ExecutionRecord) -> list[list[Entry]]:
    return [
        bench.storage.reader.history(record.number, incarnation)
        for incarnation in range(1, record.incarnation + 1)
    ]


# --- histories -----------------------------------------------------------------------------------


def hold_history(bench: Bench, record: ExecutionRecord, histories: list[list[Entry]]) -> None:
    """Every incarnation replays to where it led; moments never go back (spec R2, R4, R7, C7)."""
    moments = [entry.at for history in histories for entry in history]
    assert moments == sorted(moments), record.execution_id
    for history in histories:
        assert [entry.position for entry in history] == list(range(len(history)))
        keys = Counter((entry.kind, entry.step_key) for entry in history)
        assert not [key for key, count in keys.items() if count > 1]
    kept = bench.storage.family.incarnations(record.number)
    assert [k.incarnation for k in kept] == list(range(1, record.incarnation))
    following = [*(k.params_json for k in kept), record.params_json][1:]
    for one, params in zip(kept, following, strict=True):
        driver = replayed(bench, record, one.incarnation, one.params_json, one.started_at or 0)
        where = (record.execution_id, one.incarnation)
        assert driver.fault is None, (where, driver.fault)
        assert driver.finished, where
        assert driver.continuing == params, where
        driver.drop()
    if not record.deliveries or record.started_at is None:
        return
    driver = replayed(bench, record, record.incarnation, record.params_json, record.started_at)
    try:
        assert driver.fault is None, (record.execution_id, driver.fault)
        hold_end(bench, record, driver)
    finally:
        driver.drop()


def hold_end(bench: Bench, record: ExecutionRecord, driver: Driver) -> None:
    """The replay ends as the record says, and asks for nothing that is not recorded."""
    name = record.execution_id
    match record.outcome:
        case Completed(result):
            assert driver.finished, name
            assert driver.error is None, (name, driver.error)
            assert driver.continuing is None
            assert codec.encode(driver.value) == result, name
        case Failed(error):
            assert driver.finished, name
            assert driver.error is not None, name
            assert failures.summarize(failures.encode_error(driver.error)) == (
                failures.summarize(error)
            )
        case CancelledOutcome():
            # Unless somebody ended it at once.
            if record.cancel is not None and record.cancel.told and driver.finished:
                assert isinstance(driver.error, Cancelled), name
        case None:
            assert not driver.finished, (name, driver.value, driver.error)
            hold_open(bench, record, driver)


def hold_open(bench: Bench, record: ExecutionRecord, driver: Driver) -> None:
    """What a suspended execution waits for is what its history waits for (spec R10)."""
    name = record.execution_id
    # A marker would be made anew: none may be missing.
    assert not driver.fresh, (name, driver.fresh)
    assert not driver.actions, name
    assert not driver.asks, name
    rows = {(w.kind, w.step_key) for w in bench.storage.reader.waits(record.number)}
    waits = {
        place
        for place, handle in driver.open.items()
        if handle.state is State.OPEN and handle.waiters and handle.watched
    }
    assert not driver.performing, (name, "has steps that nobody runs")
    assert rows == waits, name


# --- waits ---------------------------------------------------------------------------------------


def hold_wait(bench: Bench, record: ExecutionRecord) -> None:
    """It waits for what cannot come by itself: no wake was lost (spec R10, C2, C6, M4)."""
    name = record.execution_id
    assert record.status is Status.SUSPENDED, (name, record.status)
    assert record.due_at is None, name
    assert record.held is None, (name, record.held)
    assert record.cancel is None or record.cancel.told, name
    unread = bench.storage.inbox.unread_counts(record.number)
    for wait in bench.storage.reader.waits(record.number):
        assert wait.kind != "timer", (name, wait)
        if wait.queue is not None:
            assert not unread.get(wait.queue), (name, wait, unread)
        if wait.target is not None:
            target = bench.storage.executions.get(wait.target)
            assert target is not None, (name, wait)
            assert not target.status.terminal, (name, wait)


# --- messages ------------------------------------------------------------------------------------


def hold_messages(bench: Bench, name: str, histories: list[list[Entry]], stored: int) -> None:
    """Each message is read once, in the order sent to its queue, or is there (spec M1, M2)."""
    messages = bench.storage.inbox.messages(name)
    assert len(messages) == stored, name
    for queue in {message.queue for message in messages}:
        mine = [m for m in messages if m.queue == queue]
        states = [m.state for m in mine]
        read = [s for s in states if s in ("consumed", "invalid")]
        assert states[: len(read)] == read, (name, "one was passed over")
        took = [
            taken
            for history in histories
            for entry in history
            if entry.kind in TAKES and _queue(entry) == queue
            for taken in _taken(entry)
        ]
        expected = [m.value if m.state == "consumed" else None for m in mine[: len(read)]]
        assert took == expected, (name, queue)


def _queue(entry: Entry) -> str:
    """The queue is the last part of the key, or of the name that was given to it."""
    return entry.step_key.rpartition(":")[2].partition("#")[0].removeprefix("next ")


def _taken(entry: Entry) -> list[Any]:
    """The values that an entry took, as they were sent; None for one that did not fit."""
    if not entry.ok:
        return [None]
    if entry.kind == "messages":
        return [codec.encode(value) for value in codec.decode(entry.value)]
    return [] if entry.value == "null" else [entry.value]


# --- children ------------------------------------------------------------------------------------


def hold_children(
    bench: Bench,
    record: ExecutionRecord,
    histories: list[list[Entry]],
    records: dict[str, ExecutionRecord],
    *,
    one_clock: bool,
) -> None:
    """Each recorded start is one child, and there is no other (spec C3, C4)."""
    children = bench.storage.family.children(record.number)
    started = {
        entry.label
        for history in histories
        for entry in history
        if entry.kind == "start" and entry.ok
    }
    assert {child.execution_id for child in children} == started, record.execution_id
    ends: dict[str, set[tuple[bool, str]]] = {}
    for entry in (e for history in histories for e in history if e.kind == "child"):
        ends.setdefault(entry.label, set()).add((entry.ok, entry.value.split('"traceback"')[0]))
        target = records.get(entry.label)
        if target is not None and target.outcome is not None:
            assert entry.ok == isinstance(target.outcome, Completed), (entry, target.outcome)
            if isinstance(target.outcome, Completed):
                assert entry.value == target.outcome.result
    for name, said in ends.items():
        if name in records and not any("there is no execution" in text for _, text in said):
            assert len(said) == 1, (record.execution_id, name, "ended in two ways")
    for child in children:
        if child.detached or not record.status.terminal:
            continue
        if not child.status.terminal or (one_clock and child.updated_at > record.updated_at):
            # It was asked to end, and perhaps went on of its own will.
            assert child.cancel is not None, child.execution_id
            assert child.cancel.told or child.status.terminal, child.execution_id


__all__ = ["hold_all", "replayed"]
