"""The conformance suite finds adapters that are broken in one rule each: so it can fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.storage.broken_adapters import Broken, Refused, all_broken
from tests.storage.broken_effects import all_broken_effects
from tests.storage.broken_rooms import BrokenRooms, all_broken_rooms
from tests.storage.broken_stores import all_broken_stores
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import ExecutionAdmissionError, StaleDelivery, StoreConflict
from yieldstar_cli.testing.conformance import ExecutionConformance, StorageConformance

#: How a row notices: an assertion, an error that should have come, one that should not have. An
#: error in a broken adapter's own statements (StorageError) is none of them and proves nothing.
NOTICED = (
    AssertionError,
    pytest.fail.Exception,
    Refused,
    StaleDelivery,
    ExecutionAdmissionError,
    StoreConflict,
    ValueError,
)


class Suite(ExecutionConformance):
    """The suite on one given kind of adapter."""

    def __init__(self, kind: type[Broken], directory: Path) -> None:
        self.kind = kind
        self.directory = directory
        self.opened_so_far = 0

    def open(self, clock: ManualClock) -> Any:
        self.opened_so_far += 1
        return self.kind(self.directory / f"{self.opened_so_far}.db", clock)


@pytest.mark.parametrize("name", sorted(all_broken()))
def test_the_suite_finds_what_is_broken(name: str, tmp_path: Path) -> None:
    """The tester is tested: planted mistakes must be found (reliability C.5)."""
    kind = all_broken()[name]
    suite = Suite(kind, tmp_path)

    with pytest.raises(NOTICED):
        getattr(suite, kind.found_by)()


@pytest.mark.parametrize("row", Suite(Broken, Path()).rows())
def test_the_wrapper_alone_breaks_nothing(row: str, tmp_path: Path) -> None:
    """The control: what the broken adapters are made of passes every row."""
    getattr(Suite(Broken, tmp_path), row)()


def test_every_kind_of_row_is_shown_to_be_able_to_fail() -> None:
    """At least a dozen adapters, and rows of all three groups among those that find them."""
    kinds = all_broken().values()

    assert len(kinds) >= 12
    assert {kind.found_by for kind in kinds} <= set(Suite(Broken, Path()).rows())


ALL_BROKEN_ROOMS = {**all_broken_rooms(), **all_broken_stores(), **all_broken_effects()}


class RoomSuite(StorageConformance):
    """The suite over all rooms, on one given kind of storage."""

    def __init__(self, kind: type[BrokenRooms], directory: Path) -> None:
        self.kind = kind
        self.directory = directory

    def open(self, clock: ManualClock) -> Any:
        return self.kind(self.directory / "ys.db", clock)


@pytest.mark.parametrize("name", sorted(ALL_BROKEN_ROOMS))
def test_the_suite_finds_the_room_that_is_broken(name: str, tmp_path: Path) -> None:
    """The tester is tested: planted mistakes must be found (reliability C.5)."""
    kind = ALL_BROKEN_ROOMS[name]
    suite = RoomSuite(kind, tmp_path)

    with pytest.raises(NOTICED):
        getattr(suite, kind.found_by)()


@pytest.mark.parametrize("row", RoomSuite(BrokenRooms, Path()).rows())
def test_the_rooms_passed_through_break_nothing(row: str, tmp_path: Path) -> None:
    """The control: what the broken storages are made of passes every row."""
    getattr(RoomSuite(BrokenRooms, tmp_path), row)()


def test_every_kind_of_room_is_shown_to_be_able_to_fail() -> None:
    """At least three broken storages for the rows of each group."""
    found_by = {kind.found_by for kind in ALL_BROKEN_ROOMS.values()}

    for group in StorageConformance.__bases__:
        assert len(found_by & {name for name in vars(group) if name.startswith("test_")}) >= 3
    assert found_by <= set(RoomSuite(BrokenRooms, Path()).rows())
