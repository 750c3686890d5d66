"""How the file and the worker's memory grow: bytes and objects, no time."""

from __future__ import annotations

import gc

import pytest

from tests.figures.flows import sleeper, texts
from tests.figures.meters import metered
from yieldstar_cli.testing import Bench

CHECKPOINT = "PRAGMA wal_checkpoint(TRUNCATE)"
STEPS = 1_000
#: SQLite's page: where a row no longer fits, it takes one for itself.
PAGE = 4_096


@pytest.mark.parametrize("length", [1, 100, 800, 2_000, 10_000])
def test_the_file_grows_per_step_by_little_more_than_its_result(length: int) -> None:
    """spec K3: at most 3 x the encoded result + 150 bytes; today 57 for 3, 181 for 102."""
    assert growth(length) <= 3 * (length + 2) + 150


def test_a_result_of_about_a_kilobyte_costs_at_most_a_page_more() -> None:
    """spec K3: where a row just no longer fits among others; today 4,682 for 1,002."""
    assert growth(1_000) <= 1_000 + PAGE


def growth(length: int) -> float:
    """Bytes of the checkpointed file for each step with a result of so many letters."""
    steps = STEPS if length < 10_000 else STEPS // 10
    with metered(), Bench(texts) as bench:
        bench.admit(texts, {"count": 0, "length": 0}, execution_id="first")
        bench.run()
        before = size(bench)
        bench.admit(texts, {"count": steps, "length": length}, execution_id="x")
        bench.run()
        assert bench.record("x").status == "completed"
        return (size(bench) - before) / steps


def size(bench: Bench) -> int:
    """Bytes of the file, once what is in the log is in it."""
    bench.storage.db.rows(CHECKPOINT)
    return bench.path.stat().st_size


def test_a_worker_holds_nothing_for_each_sleeper() -> None:
    """spec K3, R6: beyond the residents that it is allowed to keep."""
    few, many = held(100, residents=10), held(1_100, residents=10)

    assert many - few <= 100


def test_a_resident_is_held_in_few_objects() -> None:
    """spec R6: what the bound is for; today 47 objects that the garbage collector looks at."""
    few, many = held(100, residents=10_000), held(600, residents=10_000)

    assert 5 <= (many - few) / 500 <= 50


def held(sleepers: int, *, residents: int) -> int:
    """Objects that the garbage collector knows of while so many sleep."""
    with metered(), Bench(sleeper, residents=residents) as bench:
        for n in range(sleepers):
            bench.admit(sleeper, execution_id=f"x{n}")
        bench.run_to(bench.clock.now_ms() + 1_000)
        assert bench.record(f"x{sleepers - 1}").status == "suspended"
        bench.events.clear()
        gc.collect()
        return len(gc.get_objects())
