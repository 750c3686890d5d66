"""Stores of the Python SDK, over a real file (spec S7)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.workflow_files import own_directory, write
from yieldstar_cli import open_runtime
from yieldstar_cli.digests import digest_at
from yieldstar_cli.engine.scope import in_workflow_body
from yieldstar_cli.errors import (
    InvalidStore,
    MisplacedCall,
    StoreConflict,
    UndecodableRecord,
    UnknownStore,
    UsageError,
)
from yieldstar_cli.model import Reading, Round, Suspended, Wait
from yieldstar_cli.runtime import Runtime
from yieldstar_cli.storage.sqlite.storage import SqliteStorage


class Stock(msgspec.Struct):
    left: int = 0
    counted: date | None = None


@dataclass
class Price_List:
    pens: float


STOCK = """
    import msgspec
    from yieldstar_cli import workflow

    class Stock(msgspec.Struct):
        left: int = 0

    @workflow
    async def ship(step) -> None: ...
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory is a project with an empty `workflows/`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("YS_DB", raising=False)
    monkeypatch.delenv("YS_WORKFLOWS", raising=False)
    with own_directory(tmp_path):
        yield tmp_path


@pytest.fixture
def runtime(project: Path) -> Iterator[Runtime]:
    with open_runtime() as opened:
        yield opened


@pytest.fixture
def other(runtime: Runtime, project: Path) -> Iterator[SqliteStorage]:
    """Another connection to the same file."""
    opened = SqliteStorage(project / "ys.db")
    yield opened
    opened.close()


def test_a_store_is_written_and_read_as_its_type(runtime: Runtime) -> None:
    """spec S1, S7: the name is the type's."""
    store = runtime.store(Stock, "widget")
    assert store.get() is None

    made = store.set(Stock(10, date(2026, 11, 30)))
    found = store.get()

    assert (store.name, store.store_id) == ("Stock", "widget")
    assert made == found
    assert found is not None
    assert (found.state, found.version) == (Stock(10, date(2026, 11, 30)), 0)
    assert [(one.name, one.store_id) for one in runtime.stores()] == [("Stock", "widget")]


def test_a_mapping_may_stand_for_the_type_and_defaults_are_filled_in(runtime: Runtime) -> None:
    """cli.md b.3: as `ys store set` does."""
    assert runtime.store(Stock, "widget").set({"left": 3}).state == Stock(3)
    assert runtime.store(Price_List, "shop").set({"pens": 1.5}).state == Price_List(1.5)
    assert [one.name for one in runtime.stores()] == ["Price-List", "Stock"]
    assert [one.store_id for one in runtime.stores("Stock")] == ["widget"]
    assert runtime.stores("Stok") == []


def test_any_type_that_can_be_stored_is_one_with_a_name(runtime: Runtime) -> None:
    """spec S1."""
    votes: Any = dict[str, int]

    snapshot = runtime.store(votes, "main", name="votes").set({"ann": 1})

    assert snapshot.state == {"ann": 1}
    assert runtime.stores()[0].name == "votes"
    with pytest.raises(UsageError, match="needs a name"):
        runtime.store(votes, "main")


def test_by_name_states_are_plain_and_the_modules_type_decides(
    runtime: Runtime, project: Path
) -> None:
    """spec S7: writing loads the modules, reading does not."""
    store = runtime.store("Stock", "widget")
    with pytest.raises(UnknownStore):
        store.set({"left": 1})
    write(project / "workflows", "stock.py", STOCK)

    store.set({"left": 1})
    with pytest.raises(InvalidStore, match=r"state\.left: expected int"):
        store.set({"left": "many"})
    with pytest.raises(InvalidStore, match=r"state\.lef"):
        store.set({"lef": 1})
    snapshot = store.update(lambda state: state | {"left": 2})

    assert snapshot.state == {"left": 2}
    assert store.get() == snapshot


@pytest.mark.parametrize("state", [Stock("many"), 3, None, {"left": "x"}, [Stock()]])  # type: ignore[arg-type]
def test_what_does_not_fit_changes_nothing(runtime: Runtime, state: Any) -> None:
    """case 166; spec S2."""
    store = runtime.store(Stock, "widget")
    before = store.set(Stock(10))

    with pytest.raises(InvalidStore, match="state"):
        store.set(state)

    assert store.get() == before


def test_another_version_is_a_conflict_that_names_the_actual_one(runtime: Runtime) -> None:
    """case 176; spec S2."""
    store = runtime.store(Stock, "widget")
    store.set(Stock(1), if_version=-1)
    store.set(Stock(2), if_version=0)

    with pytest.raises(StoreConflict) as set_late:
        store.set(Stock(3), if_version=0)
    with pytest.raises(StoreConflict) as made_twice:
        store.set(Stock(3), if_version=-1)
    with pytest.raises(StoreConflict) as deleted_late:
        store.delete(if_version=0)

    assert {late.value.actual for late in (set_late, made_twice, deleted_late)} == {1}
    found = store.get()
    assert found is not None
    assert (found.state.left, found.version) == (2, 1)


def test_a_deleted_store_is_gone_and_a_new_one_is_another(runtime: Runtime) -> None:
    """cases 162, 163; spec S2: a new instance, from version 0."""
    store = runtime.store(Stock, "widget")
    first = store.set(Stock(1))

    assert store.delete() is True
    assert store.delete() is False
    assert store.get() is None
    again = store.set(Stock(1))

    assert again.version == 0
    assert again.instance != first.instance


def test_an_update_changes_a_copy_or_gives_a_new_state(runtime: Runtime) -> None:
    """spec S2."""
    store = runtime.store(Stock, "widget")
    store.set(Stock(10))

    def take(state: Stock) -> None:
        state.left -= 1

    in_place = store.update(take)
    anew = store.update(lambda state: Stock(state.left * 2))

    assert (in_place.state.left, in_place.version) == (9, 1)
    assert (anew.state.left, anew.version) == (18, 2)


def test_an_update_runs_again_when_somebody_was_quicker(
    runtime: Runtime, other: SqliteStorage
) -> None:
    """case 168; spec S2: on the state as it is then."""
    store = runtime.store(Stock, "widget")
    store.set(Stock(10))
    seen: list[int] = []

    def take(state: Stock) -> None:
        seen.append(state.left)
        if len(seen) == 1:
            other.stores.put("Stock", "widget", '{"left":5}')
        if len(seen) == 2:
            # A store of the same version, and yet another.
            other.stores.delete("Stock", "widget")
            other.stores.put("Stock", "widget", '{"left":3}')
            other.stores.put("Stock", "widget", '{"left":4}')
        state.left -= 1

    snapshot = store.update(take)

    assert seen == [10, 5, 4]
    assert (snapshot.state.left, snapshot.version) == (3, 2)


def test_no_update_of_many_threads_is_lost(runtime: Runtime) -> None:
    """case 168; spec S2."""
    store = runtime.store(Stock, "widget")
    store.set(Stock(0))

    def add(state: Stock) -> None:
        state.left += 1

    def work() -> None:
        for _ in range(20):
            store.update(add)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    found = store.get()
    assert found is not None
    assert (found.state.left, found.version) == (80, 80)


def test_an_update_that_fails_changes_nothing(runtime: Runtime) -> None:
    """cases 166, 167; spec S2."""
    store = runtime.store(Stock, "widget")
    with pytest.raises(UnknownStore):
        store.update(lambda state: state)
    before = store.set(Stock(10))

    async def later(state: Stock) -> None:
        state.left = 1

    def broken(state: Stock) -> None:
        state.left = 1
        raise KeyError("mine")

    def misfit(state: Stock) -> None:
        state.left = "one"  # type: ignore[assignment]

    wrong: list[tuple[Any, type[Exception]]] = [
        (later, TypeError),
        (lambda state: later(state), TypeError),
        (broken, KeyError),
        (misfit, InvalidStore),
    ]
    for fn, error in wrong:
        with pytest.raises(error):
            store.update(fn)
        assert store.get() == before


@pytest.mark.parametrize("store_id", ["", " x", "a\nb", "x" * 256])
def test_an_id_that_cannot_be_one_is_refused(runtime: Runtime, store_id: str) -> None:
    """spec S1, E2."""
    with pytest.raises(InvalidStore):
        runtime.store(Stock, store_id).set(Stock())

    assert runtime.stores() == []


def test_a_state_beyond_the_limit_of_the_project_is_refused(project: Path) -> None:
    """case 193; spec V2."""
    (project / "ys.toml").write_text("max_value = 1000\n")

    with open_runtime() as runtime, pytest.raises(InvalidStore, match="limit of 1,000"):
        runtime.store(dict[str, str], "main", name="notes").set({"note": "x" * 2000})


def test_a_state_that_is_not_of_the_type_is_said_to_be_so(
    runtime: Runtime, other: SqliteStorage
) -> None:
    """spec V3; and by name it is read all the same."""
    other.stores.put("Stock", "widget", '{"left":"many"}')

    with pytest.raises(UndecodableRecord, match="Stock 'widget'"):
        runtime.store(Stock, "widget").get()
    plain = runtime.store("Stock", "widget").get()

    assert plain is not None
    assert plain.state == {"left": "many"}


def test_a_type_and_a_name_are_one_or_the_other(runtime: Runtime) -> None:
    store: Any = runtime.store

    with pytest.raises(UsageError, match="a name alone"):
        store("Stock", "widget", name="Stock")


def test_a_write_wakes_who_waits_for_what_it_changed(
    runtime: Runtime, other: SqliteStorage
) -> None:
    """cases 181, 189; spec S3, S4."""
    store = runtime.store(Stock, "widget")
    before = store.set(Stock(10))
    other.executions.admit(workflow_id="ship", execution_id="order-42", params={})
    (delivery,) = other.executions.claim_due(now=2**41)
    reading = Reading(("left",), digest_at({"left": 10}, ("left",)))
    wait = Wait(
        "store-when",
        "Stock",
        "",
        1,
        None,
        "waiting",
        store=("Stock", "widget"),
        read=(reading,),
        instance=before.instance,
    )
    other.deliveries.record(delivery, Round(waits=(wait,), outcome=Suspended()))

    store.set(Stock(10, date(2026, 11, 30)))
    unrelated = runtime.get("order-42")
    store.update(lambda state: Stock(state.left + 1))
    concerned = runtime.get("order-42")

    assert unrelated is not None
    assert concerned is not None
    assert unrelated.due_at is None
    assert concerned.due_at is not None


def test_stores_are_not_used_in_a_workflow_function(runtime: Runtime) -> None:
    """spec R9: a replay would write again."""
    store = runtime.store(Stock, "widget")
    token = in_workflow_body.set(True)
    try:
        with pytest.raises(MisplacedCall):
            store.set(Stock())
    finally:
        in_workflow_body.reset(token)

    assert store.get() is None
