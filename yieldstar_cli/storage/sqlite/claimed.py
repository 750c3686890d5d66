"""What a driver needs of the executions just claimed, read for all of them at once (spec E7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from yieldstar_cli.model import Claimed, Delivery, Entry, Retry, Wait
from yieldstar_cli.storage.sqlite.claims import ClaimRow
from yieldstar_cli.storage.sqlite.history import History
from yieldstar_cli.storage.sqlite.waits import Waits

#: How many leading entries the caller has of an execution's incarnation (a resident).
Known = Callable[[int, int], int]


def read(
    rows: Sequence[ClaimRow], history: History, waits: Waits, known: Known | None
) -> list[Claimed]:
    """The claimed executions with their history and what is open, in the order of `rows`."""
    firsts = {row.number: _first(row, known) for row in rows}
    entries = history.entries_of(
        [
            (row.number, row.incarnation, firsts[row.number])
            for row in rows
            if row.operations > firsts[row.number]
        ]
    )
    # A first delivery finds nothing else there.
    again = [row for row in rows if row.token > 1]
    incarnations = [(row.number, row.incarnation) for row in again]
    retries = history.retries_of(incarnations)
    logs = history.count_logs_of(incarnations)
    # Who kept the coroutine knows its own.
    open_ones = waits.of_all([row.number for row in again if not firsts[row.number]])
    return [
        _claimed(
            row,
            firsts[row.number],
            entries.get(row.number, ()),
            retries.get(row.number, ()),
            logs.get(row.number, 0),
            open_ones.get(row.number, ()),
        )
        for row in rows
    ]


def _first(row: ClaimRow, known: Known | None) -> int:
    if known is None or not row.operations:
        return 0
    return min(known(row.number, row.incarnation), row.operations)


def _claimed(
    row: ClaimRow,
    first: int,
    entries: Sequence[Entry],
    retries: Sequence[Retry],
    log_count: int,
    waits: Sequence[Wait],
) -> Claimed:
    return Claimed(
        Delivery(row.execution_id, row.token, row.number),
        row.workflow_id,
        row.version,
        row.params,
        row.context,
        row.incarnation,
        row.seed,
        row.started_at,
        row.status_value,
        tuple(entries),
        first,
        tuple(retries),
        log_count,
        row.operations,
        row.last_moment,
        row.deaths,
        bool(row.cancelling),
        tuple(waits),
    )
