"""What the reading commands are answered, and the cache of the workflow modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.kit import admit, claim_one, new_worker
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import UsageError
from yieldstar_cli.model import Completed, Failed, ModuleInfo, Suspended, WorkflowInfo
from yieldstar_cli.storage.sqlite.storage import SqliteStorage


def names(storage: SqliteStorage, **filters: object) -> list[str]:
    """The IDs that a filter finds, in their order."""
    return [record.execution_id for record in storage.reader.find(**filters)]  # type: ignore[arg-type]


@pytest.fixture
def shop(storage: SqliteStorage, clock: ManualClock) -> SqliteStorage:
    """Executions in every state, each touched one second after the other."""
    worker = new_worker(storage, clock.now_ms())
    ends = {
        "done": Completed("1"),
        "broken": Failed('"e"'),
        "asleep": Suspended(10**13),
        "run": None,
    }
    for name, outcome in ends.items():
        clock.advance(1_000)
        admit(storage, name, params={"order": len(name), "paid": name == "done", "who": "x"})
        delivery = claim_one(storage, clock.now_ms(), worker)
        if outcome is not None:
            clock.advance(100 * len(name))
            storage.executions.acknowledge(delivery, outcome)
    clock.advance(1_000)
    storage.executions.admit(workflow_id="other", execution_id="new", params=[1])
    return storage


def test_unfinished_ones_come_first_and_the_latest_of_them(shop: SqliteStorage) -> None:
    """case 327: `list`: what is still open, then the rest, the latest of each first."""
    assert names(shop) == ["new", "run", "asleep", "broken", "done"]
    assert names(shop, reverse=True) == ["done", "broken", "asleep", "run", "new"]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 9, None])
def test_pages_follow_one_another(shop: SqliteStorage, limit: int | None) -> None:
    """case 327: whatever the page's length, no record twice and none left out."""
    for reverse in (False, True):
        for sort in ("updated", "due", "admitted", "took"):
            order = {"sort": sort, "reverse": reverse}
            paged: list[str] = []
            while page := names(shop, limit=limit, offset=len(paged), **order):
                paged += page
            assert paged == names(shop, limit=None, **order)
            assert len(paged) == 5


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"workflow_id": "other"}, ["new"]),
        ({"workflow_id": "nobody's"}, []),
        ({"statuses": ["completed", "failed"]}, ["broken", "done"]),
        ({"statuses": []}, []),
        ({"running": True}, ["run"]),
        ({"waiting": True}, ["asleep"]),
        ({"due_by": 10**13 - 1}, ["new", "run"]),
        ({"due_by": 10**13}, ["new", "run", "asleep"]),
        ({"where": {"order": "6"}}, ["asleep", "broken"]),
        ({"where": {"order": "6", "who": "x"}}, ["asleep", "broken"]),
        ({"where": {"paid": "true"}}, ["done"]),
        ({"where": {"paid": "false", "order": "3"}}, ["run"]),
        ({"where": {"order": "7"}}, []),
        ({"where": {"missing": "x"}}, []),
        ({"where": {"who": "x' OR 1 --"}}, []),
    ],
)
def test_filters_narrow_the_list(
    shop: SqliteStorage, filters: dict[str, object], found: list[str]
) -> None:
    """case 327; security S8: by status, workflow, params, moments; what was typed is data."""
    assert names(shop, **filters) == found


def test_moments_of_the_last_change_narrow_the_list(
    shop: SqliteStorage, clock: ManualClock
) -> None:
    """case 327: since is inclusive, before is not."""
    record = shop.executions.get("run")
    assert record is not None

    assert names(shop, updated_since=record.updated_at) == ["new", "run"]
    assert names(shop, updated_before=record.updated_at) == ["asleep", "broken", "done"]


def test_other_orders(shop: SqliteStorage) -> None:
    """cli: by due time (what is never due comes last), by admission, by how long it took."""
    assert names(shop, sort="due") == ["run", "new", "asleep", "done", "broken"]
    assert names(shop, sort="admitted") == ["new", "run", "asleep", "broken", "done"]
    assert names(shop, sort="took", limit=3) == ["asleep", "broken", "done"]
    with pytest.raises(UsageError, match="no order 'size'"):
        names(shop, sort="size")


def test_counts_agree_with_the_rows(shop: SqliteStorage) -> None:
    """case 327; B29: counted in the database each time."""
    assert shop.reader.counts() == {"admitted": 2, "completed": 1, "failed": 1, "suspended": 1}
    assert shop.reader.counts("other") == {"admitted": 1}
    assert shop.reader.counts("nobody's") == {}


def test_ids_that_look_alike_are_found(storage: SqliteStorage) -> None:
    """cli: did you mean …? Odd words only find nothing."""
    for name in ("order-42", "order-43", "Order-99", "refund-7"):
        admit(storage, name)

    assert storage.reader.nearest_ids("order-4")[0] in {"order-42", "order-43"}
    assert storage.reader.nearest_ids("ORDER-99")[0] == "Order-99"
    assert storage.reader.nearest_ids("refnud-7", limit=1) == ["refund-7"]
    for odd in ("zzzzzz", "", "\ud83d", "\0", "x" * 10_000):
        assert storage.reader.nearest_ids(odd) == []


def test_readers_see_one_state_within_a_view(
    storage: SqliteStorage, db_path: Path, clock: ManualClock
) -> None:
    """A command that reads several times shows one moment, whatever is written meanwhile."""
    admit(storage, "a")
    reader = SqliteStorage(db_path, readonly=True, clock=clock)

    with reader.atomic():
        before = reader.reader.counts()
        admit(storage, "b")
        assert reader.reader.counts() == before == {"admitted": 1}

    assert reader.reader.counts() == {"admitted": 2}
    reader.close()


def module(path: str, *workflows: str, error: str | None = None) -> ModuleInfo:
    return ModuleInfo(
        path=path,
        mtime_ns=5,
        size=10,
        error=error,
        workflows=tuple(
            WorkflowInfo(name, 2, path, 7, "Does it.", '{"a":1}', "{}", "null", retry="3 times")
            for name in workflows
        ),
    )


def test_the_catalog_of_a_directory_is_replaced_as_a_whole(storage: SqliteStorage) -> None:
    """spec K4: what is cached is what was seen last, broken modules included."""
    first = [module("a.py", "one", "two"), module("b.py", error="SyntaxError: bad \ud7ff")]
    storage.catalog.put("/workflows", first)
    storage.catalog.put("/others", [module("a.py", "three")])
    assert storage.catalog.modules("/workflows") == first

    storage.catalog.put("/workflows", [module("c.py", "one")])

    assert storage.catalog.modules("/workflows") == [module("c.py", "one")]
    assert storage.catalog.modules("/others") == [module("a.py", "three")]
    assert storage.catalog.modules("/nowhere") == []
