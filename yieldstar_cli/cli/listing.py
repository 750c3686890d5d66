"""Prints a list of executions: as a table, TAB-separated, as IDs, or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from yieldstar_cli.cli import documents
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.facts import Crew, expired_at
from yieldstar_cli.cli.following import follow
from yieldstar_cli.cli.render import document, safe
from yieldstar_cli.clock import rfc3339
from yieldstar_cli.model import ExecutionRecord, Status
from yieldstar_cli.nouns import dataclass, field
from yieldstar_cli.storage.contract import Storage

#: What a pipe can get; the first five without `--columns`.
COLUMNS = (
    "execution_id",
    "workflow_id",
    "status",
    "updated_at",
    "due_at",
    "admitted_at",
    "deliveries",
    "version",
)


@dataclass(frozen=True, slots=True)
class Filters:
    """Which executions, in which order."""

    workflow_id: str | None = None
    statuses: tuple[str, ...] | None = None
    running: bool = False
    waiting: bool = False
    due: bool = False
    #: Only those that wait on this queue.
    awaiting: str | None = None
    updated_since: int | None = None
    updated_before: int | None = None
    where: Mapping[str, str] = field(default_factory=dict)
    sort: str = "updated"
    reverse: bool = False
    limit: int | None = 20
    #: Also those whose history and values are no longer kept.
    pruned: bool = False
    header: bool = False
    columns: tuple[str, ...] = COLUMNS[:5]


def print_list(
    call: Call, storage: Storage, filters: Filters, crew_now: Callable[[], Crew]
) -> None:
    """Print what matches, as stdout asks for it. Nothing is printed while a view is open."""
    if call.drawn and not call.settings.quiet:
        call.print_lines(picture(call, storage, filters, crew_now))
        return
    records = _records(call, storage, filters, crew_now)
    if call.settings.json:
        _print_array(call, records)
    elif call.settings.quiet:
        for record in records:
            call.print(safe.visible(record.execution_id))
    else:
        if filters.header:
            call.print("\t".join(filters.columns))
        for record in records:
            call.print("\t".join(safe.visible(_cell(record, c)) for c in filters.columns))


def picture(
    call: Call, storage: Storage, filters: Filters, crew_now: Callable[[], Crew]
) -> list[str]:
    """The table for a terminal, with what is hidden and what to type below."""
    from yieldstar_cli.cli.render.table import empty_lines, footer_line, table_lines

    look, crew = call.look, crew_now()
    with storage.atomic():
        records = _records(call, storage, filters, lambda: crew)
        counts = storage.reader.counts(filters.workflow_id, pruned=filters.pruned)
        if not records:
            return empty_lines(sum(storage.reader.counts().values()), look)
        lines = table_lines(
            records,
            waits=lambda record: storage.reader.waits(record.number),
            children=lambda record: sum(storage.family.child_counts(record.number).values()),
            crew=crew,
            times=call.times,
            look=look,
        )
    # Where the limit cut nothing off, a filter did.
    more = "ys list --all" if len(records) == filters.limit else "ys list"
    return [
        *lines,
        footer_line(len(records), counts, look, more=more, failed=filters.statuses is None),
    ]


def watch(call: Call, storage: Storage, filters: Filters, crew_now: Callable[[], Crew]) -> None:
    """Redraw the table on every change, until Ctrl-C."""
    from yieldstar_cli.cli.render.canvas import Canvas

    canvas = Canvas(call.out)

    def look() -> None:
        canvas.draw(picture(call, storage, filters, crew_now), call.look)

    follow(call, storage, look, least_ms=100)


def _records(
    call: Call, storage: Storage, filters: Filters, crew_now: Callable[[], Crew]
) -> list[ExecutionRecord]:
    records = storage.reader.find(
        workflow_id=filters.workflow_id,
        statuses=filters.statuses,
        running=filters.running,
        waiting=filters.waiting,
        due_by=call.clock.now_ms() if filters.due else None,
        awaiting=filters.awaiting,
        updated_since=filters.updated_since,
        updated_before=filters.updated_before,
        where=filters.where or None,
        sort=filters.sort,
        reverse=filters.reverse,
        limit=filters.limit,
        # Only the documents show them; 20 MB each would keep a short list waiting.
        payloads=call.settings.json,
        pruned=filters.pruned,
    )
    if not filters.running:
        return records
    # The lease of a worker that was killed goes on for a while; its lock does not.
    crew, now = crew_now(), call.clock.now_ms()
    return [record for record in records if expired_at(record, crew, now) is None]


def _print_array(call: Call, records: list[ExecutionRecord]) -> None:
    call.write("[")
    separator = ""
    for record in records:
        text = document.dumps(documents.execution_document(record))
        call.write(separator + text)
        separator = ","
    call.write("]\n")


def _cell(record: ExecutionRecord, column: str) -> str:
    value = getattr(record, column)
    if value is None:
        return ""
    if column.endswith("_at"):
        return rfc3339(value)
    return str(value.value if isinstance(value, Status) else value)
