"""Whatever RFC 001's client and the rooms of a worker are asked to do leaves a sound file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.storage.sqlite_adapter import SqliteAdapter
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.testing.conformance import ExecutionConformance, StorageConformance


class Checked(SqliteAdapter):
    """An adapter whose file is checked when it is closed."""

    def close(self) -> None:
        found = [breach.code for breach in self.storage.upkeep.breaches()]
        super().close()
        assert not found, found


class Rows(ExecutionConformance):
    """The suite, on files that are checked at the end of each row."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.count = 0

    def open(self, clock: ManualClock) -> Any:
        self.count += 1
        return Checked(self.directory / f"{self.count}.db", clock)


class Rooms(StorageConformance):
    """The suite, on files that are checked at the end of each row."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.count = 0

    def open(self, clock: ManualClock) -> Any:
        self.count += 1
        return Checked(self.directory / f"{self.count}.db", clock)


@pytest.mark.parametrize("row", Rows(Path()).rows())
def test_a_row_of_the_suite_leaves_a_sound_file(row: str, tmp_path: Path) -> None:
    """case 348; RFC 001."""
    rows = Rows(tmp_path)

    getattr(rows, row)()

    assert rows.count > 0, "no file was checked"


#: These use one key for several operations, as no driver would: the check finds it.
ONE_KEY = {
    "test_another_operation_or_input_is_refused_and_kept",
    "test_effects_are_found_the_latest_first",
    "test_the_first_result_stands_and_another_is_kept_beside_it",
    "test_who_waits_too_late_is_ready_at_once",
    "test_a_result_can_be_awaited_again",
    "test_a_snapshot_s_change_fails_with_the_actual_version",
}


@pytest.mark.parametrize("row", sorted({*Rooms(Path()).rows()} - ONE_KEY))
def test_a_row_of_the_rooms_leaves_a_sound_file(row: str, tmp_path: Path) -> None:
    """case 348."""
    rows = Rooms(tmp_path)

    getattr(rows, row)()

    assert rows.count > 0, "no file was checked"


@pytest.mark.parametrize("row", sorted(ONE_KEY))
def test_a_key_used_twice_is_found(row: str, tmp_path: Path) -> None:
    """case 348; spec R3."""
    with pytest.raises(AssertionError, match=r"RECORDED_TWICE|RECORDED_AND_OPEN"):
        getattr(Rooms(tmp_path), row)()
