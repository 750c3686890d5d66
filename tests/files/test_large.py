"""Large values come back as they were, or are refused with a code (B.14)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import effort
from yieldstar_cli import Step, workflow
from yieldstar_cli.errors import StorageError
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.testing import Bench

#: Around every power of two up to these, and in the long form up to the largest that is allowed.
POWERS = 24 if effort.torturing() else 20


def text_of(size: int) -> str:
    """A text whose JSON has `size` bytes, and that is different everywhere."""
    numbers = "".join(f"{n:07d}" for n in range(size // 7 + 1))
    return numbers[: size - 2]


def many(size: int) -> str:
    return text_of(size)


@workflow
async def passes_on(step: Step, value: str) -> str:
    """What it gets, recorded twice."""
    await step.sleep("1s")
    return value


@workflow
async def collects(step: Step, size: int) -> list[str]:
    """Twenty large results, replayed after a sleep."""
    found = [await step.run(many, size + n) for n in range(20)]
    await step.sleep("1s")
    return [text[-9:] for text in found]


@workflow
async def family(step: Step) -> list[list[str]]:
    """A child for each size."""
    return await step.all([step.child(collects, {"size": n * 1_000}) for n in (10, 50, 100)])


def test_values_around_every_power_of_two_come_back_exactly() -> None:
    """case 300; spec V2: params and results, a byte less and more than every power of two."""
    sizes = sorted({2**n + more for n in range(2, POWERS + 1) for more in (-1, 0, 1)})
    sizes = [size for size in sizes if 2 <= size <= 2**24]
    with Bench(passes_on) as bench:
        for size in sizes:
            bench.admit(passes_on, {"value": text_of(size)}, execution_id=f"of-{size}")
        bench.run()

        for size in sizes:
            assert bench.result(f"of-{size}").result == text_of(size), size


def test_many_large_results_of_a_family_come_back_exactly() -> None:
    """case 301; spec V2: 10, 50 and 100 KB, twenty of each, in three children, and replayed."""
    with Bench(family, collects) as bench:
        bench.admit(family, execution_id="all")
        bench.run()

        assert bench.result("all").result == [
            [text_of(size * 1_000 + n)[-9:] for n in range(20)] for size in (10, 50, 100)
        ]


def test_an_object_of_a_hundred_thousand_keys_is_exact(storage: SqliteStorage) -> None:
    """case 307; spec V1: every key, in its order."""
    value = {f"key {n}": n for n in range(100_000)}

    storage.executions.admit(workflow_id="w", params=value, execution_id="a")
    record = storage.executions.get("a")

    assert record is not None
    assert list(record.params.items()) == list(value.items())


def test_what_repeats_itself_is_stored_as_it_is(storage: SqliteStorage) -> None:
    """case 308, S17: nothing is packed, so nothing small in a file becomes large when read."""
    storage.executions.admit(workflow_id="w", params="x" * 3_000_000, execution_id="a")

    (kept,) = storage.db.rows("SELECT length(CAST(params AS BLOB)) FROM executions")[0]
    (pages,) = storage.db.rows("PRAGMA page_count")[0]

    assert kept == 3_000_002
    assert pages * 4096 > 3_000_000


def test_a_row_that_sqlite_finds_too_large_is_refused_with_a_code(db_path: Path) -> None:
    """case 303: nothing is stored, and the next one is."""
    import apsw

    storage = SqliteStorage(db_path, create=True)
    storage.db.connection.limit(apsw.SQLITE_LIMIT_LENGTH, 100_000)

    with pytest.raises(StorageError) as refused:
        storage.executions.admit(workflow_id="w", params="x" * 200_000, execution_id="a")
    storage.executions.admit(workflow_id="w", params="x", execution_id="a")

    assert refused.value.exit_code == 10
    assert "too big" in str(refused.value)
    assert storage.reader.counts() == {"admitted": 1}
    storage.close()
