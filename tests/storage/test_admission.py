"""Admission on SQLite beyond RFC 001's rows: which events are kept, and how exactly."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from yieldstar_cli.clock import LAST_MOMENT, ManualClock
from yieldstar_cli.codec import Json
from yieldstar_cli.errors import ExecutionIdConflict, InvalidExecutionEvent
from yieldstar_cli.model import Completed, Suspended
from yieldstar_cli.storage.sqlite.storage import SqliteStorage


class ScriptedChance:
    """Chance that a test decides."""

    def __init__(self, suffixes: Iterator[str]) -> None:
        self.suffixes = suffixes
        self.seeds = itertools.count()

    def execution_suffix(self) -> str:
        return next(self.suffixes)

    def seed(self) -> bytes:
        return next(self.seeds).to_bytes(16, "big")


def dump(storage: SqliteStorage) -> list[tuple[object, ...]]:
    """Every column of every record."""
    return storage.db.rows("SELECT * FROM executions ORDER BY n")


def test_an_admission_is_one_row_with_all_it_needs(storage: SqliteStorage) -> None:
    """case 1; spec E1, E4: status admitted, due now, seed and nonce drawn, nothing else yet."""
    record = storage.executions.admit(
        workflow_id="charge-order", params={"order": 42}, context={"shop": "b"}, execution_id="o"
    )

    assert (record.status, record.due_at, record.deliveries) == ("admitted", record.admitted_at, 0)
    assert record.params_json == '{"order":42}'
    assert record.context_json == '{"shop":"b"}'
    assert record == storage.executions.get("o")
    ((seed, nonce),) = storage.db.rows("SELECT seed, admission_nonce FROM executions")
    assert len(seed) == len(nonce) == 16
    assert seed != nonce


@pytest.mark.parametrize("state", ["admitted", "claimed", "suspended", "completed", "poisoned"])
def test_a_conflict_changes_no_byte_in_any_state(
    storage: SqliteStorage, clock: ManualClock, state: str
) -> None:
    """cases 2-5; B18; spec E3: also with the same params; the answer names workflow and status."""
    storage.executions.admit(workflow_id="w", execution_id="x")
    if state != "admitted":
        (delivery,) = storage.executions.claim_due(clock.now_ms())
        if state == "suspended":
            storage.executions.acknowledge(delivery, Suspended())
        elif state == "completed":
            storage.executions.acknowledge(delivery, Completed("1"))
        elif state == "poisoned":
            storage.executions.release(delivery)
            storage.db.rows("UPDATE executions SET poisoned_at = 1")
    before = dump(storage)

    clock.advance(5)
    for workflow_id in ("w", "other"):
        with pytest.raises(ExecutionIdConflict) as refused:
            storage.executions.admit(workflow_id=workflow_id, execution_id="x", params={"a": 1})

    assert dump(storage) == before
    assert refused.value.workflow_id == "w"
    assert refused.value.status in {"admitted", "suspended", "completed"}
    assert refused.value.remedy == ("ys show x",)


def test_a_generated_id_that_is_taken_is_drawn_again(db_path: Path, clock: ManualClock) -> None:
    """case 8: the caller never sees a conflict for an ID that it did not choose."""
    chance = ScriptedChance(iter(["same", "same", "same", "other"]))
    storage = SqliteStorage(db_path, create=True, clock=clock, chance=chance)

    first = storage.executions.admit(workflow_id="w").execution_id
    second = storage.executions.admit(workflow_id="w").execution_id

    assert (first, second) == ("w-same", "w-other")
    storage.close()


def test_generated_ids_differ_from_all_others(storage: SqliteStorage) -> None:
    """case 7: many in a row are distinct, and begin with the workflow's name."""
    with storage.atomic():
        made = {storage.executions.admit(workflow_id="w").execution_id for _ in range(20_000)}

    assert len(made) == 20_000
    assert all(name.startswith("w-") and len(name) == 10 for name in made)


@pytest.mark.parametrize("params", [float(0), -0.0, 1, 1.0, 5e-324, 1.7976931348623157e308, 0.1])
def test_numbers_come_back_bit_for_bit(storage: SqliteStorage, params: float) -> None:
    """case 16: -0.0 stays negative; 1 stays an int and 1.0 a float."""
    storage.executions.admit(workflow_id="w", params=params, execution_id="x")

    record = storage.executions.get("x")

    assert record is not None
    assert repr(record.params) == repr(params)


@pytest.mark.parametrize(
    "params",
    [2**53 + 1, 2**63, 10**4000, "a\0b", "", [], {}, "\U0010ffff\u202e", {"k" * 65_536: 1}, None],
    ids=["2^53+1", "2^63", "10^4000", "nul", "text", "list", "dict", "planes", "key", "null"],
)
def test_odd_values_come_back_exactly(storage: SqliteStorage, params: object) -> None:
    """cases 15, 17; B83, B84, B100: big integers, NUL, empty ones, null."""
    storage.executions.admit(workflow_id="w", params={"v": params}, execution_id="x")

    record = storage.executions.get("x")

    assert record is not None
    assert record.params == {"v": params}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_json_lacks_come_back_all_the_same(
    storage: SqliteStorage, number: float
) -> None:
    """case 12; B82; spec V1: tagged, so that they come back as what they were; never null."""
    storage.executions.admit(workflow_id="w", params=[number], execution_id="x")

    record = storage.executions.get("x")

    assert record is not None
    assert repr(record.params) == repr([number])


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [501, 990, 100_000])
def test_what_is_nested_too_deeply_is_refused(storage: SqliteStorage, depth: int) -> None:
    """case 19; spec V1: at the limit it is taken, beyond it refused, without a RecursionError."""
    storage.executions.admit(workflow_id="w", params=nested(500), execution_id="x")
    record = storage.executions.get("x")
    assert record is not None
    assert record.params == nested(500)

    with pytest.raises(InvalidExecutionEvent, match="params"):
        storage.executions.admit(workflow_id="w", params=nested(depth))

    assert storage.reader.counts() == {"admitted": 1}


def test_params_none_is_null_and_none_given(storage: SqliteStorage) -> None:
    """B100: params None are null, the default."""
    assert storage.executions.admit(workflow_id="w").params_json == "null"
    assert storage.executions.admit(workflow_id="w", params=None).params is None


def test_a_value_at_the_limit_is_taken_and_one_byte_more_is_not(
    db_path: Path, clock: ManualClock
) -> None:
    """case 20; spec V2: refused with its size; no row."""
    storage = SqliteStorage(db_path, create=True, clock=clock, max_value=1_000)
    storage.executions.admit(workflow_id="w", params="x" * 998)

    for bad in ("x" * 999, Json('"' + "x" * 999 + '"'), "é" * 500):
        with pytest.raises(InvalidExecutionEvent, match="params"):
            storage.executions.admit(workflow_id="w", params=bad)

    assert storage.reader.counts() == {"admitted": 1}
    storage.close()


def test_a_large_value_is_stored_whole(storage: SqliteStorage) -> None:
    """B88: params of 5 MB."""
    storage.executions.admit(workflow_id="w", params="x" * 5_000_000, execution_id="x")

    record = storage.executions.get("x")

    assert record is not None
    assert record.params == "x" * 5_000_000


def test_a_refusal_names_the_place(storage: SqliteStorage) -> None:
    """spec E4; B81: `params.items[1].lock`, not merely params."""
    with pytest.raises(InvalidExecutionEvent) as refused:
        storage.executions.admit(workflow_id="w", params={"items": [1, {"lock": object()}]})

    assert refused.value.place == "params.items[1].lock"


@pytest.mark.parametrize(
    "workflow_id", ["", "1w", "w_", "../evil", "a.b", "w" * 101, "evil\0", "é", None, 3]
)
def test_a_workflow_name_follows_one_grammar(storage: SqliteStorage, workflow_id: str) -> None:
    """spec R1; security S2: anything else is INVALID_EXECUTION_EVENT naming workflow_id."""
    with pytest.raises(InvalidExecutionEvent) as refused:
        storage.executions.admit(workflow_id=workflow_id)

    assert refused.value.place == "workflow_id"
    assert storage.reader.counts() == {}


@pytest.mark.parametrize("execution_id", ["", " ", "   ", "a\x7f", "a\u202eb", "a\u00a0", 42, b"a"])
def test_an_id_that_cannot_be_shown_is_refused(storage: SqliteStorage, execution_id: str) -> None:
    """case 23; B89, B90; spec E2."""
    with pytest.raises(InvalidExecutionEvent) as refused:
        storage.executions.admit(workflow_id="w", execution_id=execution_id)

    assert refused.value.place == "execution_id"
    assert storage.reader.counts() == {}


@pytest.mark.parametrize("length", [256, 10_000, 1_000_000])
def test_an_id_that_is_too_long_says_its_size(storage: SqliteStorage, length: int) -> None:
    """case 23; B91: 255 bytes are the limit, and it is said."""
    storage.executions.admit(workflow_id="w", execution_id="x" * 255)

    with pytest.raises(InvalidExecutionEvent, match=f"{length} bytes; the most is 255"):
        storage.executions.admit(workflow_id="w", execution_id="x" * length)


@pytest.mark.parametrize("at", [-1, float("nan"), float("inf"), LAST_MOMENT + 1, "now", True])
def test_a_moment_that_cannot_be_stored_is_refused(storage: SqliteStorage, at: int) -> None:
    """case 47, at admission: one rule, no overflow, nothing stored."""
    with pytest.raises(InvalidExecutionEvent) as refused:
        storage.executions.admit(workflow_id="w", at=at)

    assert refused.value.place == "at"
    assert storage.reader.counts() == {}


@pytest.mark.parametrize("version", [0, -1, True, 1.0, "1", 2**31])
def test_a_version_is_a_whole_number_from_one(storage: SqliteStorage, version: int) -> None:
    """spec R11: the version is stored on the record and matched by claims."""
    with pytest.raises(InvalidExecutionEvent) as refused:
        storage.executions.admit(workflow_id="w", version=version)

    assert refused.value.place == "version"


@pytest.mark.parametrize("context", [{1: "a"}, ["a"], "text", {"\ud83d": 1}, {"a": object()}])
def test_a_context_maps_text_to_values(storage: SqliteStorage, context: dict[str, object]) -> None:
    """spec E4: context is a mapping from string to value."""
    with pytest.raises(InvalidExecutionEvent, match="context"):
        storage.executions.admit(workflow_id="w", context=context)

    assert storage.reader.counts() == {}


def test_words_of_sql_are_plain_data(storage: SqliteStorage) -> None:
    """security S8: IDs, params and filters with SQL in them mean nothing to the database."""
    hostile = "'; DROP TABLE executions; -- %_?1 :now"
    storage.executions.admit(workflow_id="w", params=hostile, execution_id=hostile)

    assert storage.executions.request_wake(hostile, 1) == "requested"
    assert storage.reader.find(workflow_id=hostile) == []
    assert storage.reader.nearest_ids(hostile) == [hostile]
    record = storage.executions.get(hostile)
    assert record is not None
    assert record.params == hostile


def test_params_are_stored_once_however_often_woken(db_path: Path, clock: ManualClock) -> None:
    """cases 38, 52: 10,000 wakes are one due time; the event is in the file once."""
    storage = SqliteStorage(db_path, create=True, clock=clock)
    marker = "MARKER-" * 150
    storage.executions.admit(workflow_id="w", params=marker, execution_id="x")
    with storage.atomic():
        for n in range(10_000):
            storage.executions.request_wake("x", 50_000 - n)
    assert storage.db.rows("SELECT count(*) FROM executions") == [(1,)]
    storage.close()
    compact = apsw.Connection(str(db_path))
    compact.execute("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    compact.close()

    assert db_path.read_bytes().count(marker.encode()) == 1
    assert db_path.stat().st_size < 300_000
