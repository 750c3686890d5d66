"""Waits until executions have ended, tells their outcomes, and gives the exit status for them."""

from __future__ import annotations

from collections.abc import Sequence

from yieldstar_cli.cli import documents, exits
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.following import follow
from yieldstar_cli.cli.opened import crew
from yieldstar_cli.cli.render import document, safe
from yieldstar_cli.cli.render.times import took
from yieldstar_cli.cli.showing import print_value
from yieldstar_cli.cli.typed import typed
from yieldstar_cli.errors import ExecutionFailed, ExecutionPruned, WaitTimeout
from yieldstar_cli.failures_view import summarize, view_error
from yieldstar_cli.model import (
    CancelledOutcome,
    Completed,
    ExecutionRecord,
    Failed,
    Status,
)
from yieldstar_cli.nouns import dataclass, field
from yieldstar_cli.project import Project
from yieldstar_cli.storage.contract import Storage


@dataclass(slots=True)
class Wanted:
    """What is waited for: all of these executions, or the first of them."""

    execution_ids: Sequence[str]
    #: Enough if one of them has ended.
    any_of_them: bool = False
    #: Enough if an execution has this status.
    status: str | None = None
    timeout_ms: int | None = None
    result: bool = False
    reveal: bool = False
    ended: dict[str, ExecutionRecord] = field(default_factory=dict)

    def is_met(self, record: ExecutionRecord) -> bool:
        """Whether nothing more of this execution is waited for."""
        return record.status.terminal or record.status == self.status

    @property
    def is_over(self) -> bool:
        """Whether the waiting is."""
        enough = 1 if self.any_of_them else len(self.execution_ids)
        return len(self.ended) >= enough


def wait(call: Call, project: Project, storage: Storage, wanted: Wanted) -> int:
    """Block until `wanted` is over or its time is up; print each outcome; the exit status."""
    told = False

    def look() -> bool | None:
        nonlocal told
        for execution_id in wanted.execution_ids:
            if execution_id in wanted.ended or (wanted.any_of_them and wanted.ended):
                continue
            record = storage.executions.get(execution_id)
            if record is not None and wanted.is_met(record):
                wanted.ended[execution_id] = record
                if not call.settings.json:
                    _print_outcome(call, record, wanted)
                    call.flush()
        if not wanted.is_over and not told:
            told = True
            if not crew(call, project, storage).alive:
                call.say("No worker is running on this database. Start one:  ys worker")
        return wanted.is_over or None

    over = follow(call, storage, look, timeout_ms=wanted.timeout_ms)
    ended = [wanted.ended[name] for name in wanted.execution_ids if name in wanted.ended]
    if call.settings.json and (over or ended):
        _print_documents(call, ended, single=len(wanted.execution_ids) == 1)
    if not over:
        raise _timed_out(wanted)
    return status_of(ended, wanted.status)


def status_of(records: Sequence[ExecutionRecord], wanted: str | None = None) -> int:
    """7 if one failed, else 9 if one was cancelled, else 0; one that has the wanted status is 0."""
    found = {record.status for record in records if record.status != wanted}
    if Status.FAILED in found:
        return exits.BAD_NEWS
    if Status.CANCELLED in found:
        return exits.CANCELLED
    # Waited for another status, which it can no longer reach.
    return exits.BAD_NEWS if wanted is not None and Status.COMPLETED in found else exits.DONE


def _timed_out(wanted: Wanted) -> WaitTimeout:
    open_ones = [name for name in wanted.execution_ids if name not in wanted.ended]
    first = typed(open_ones[0])
    if len(open_ones) == 1:
        what = f"execution {open_ones[0]!r} has not ended in time"
    else:
        what = f"{len(open_ones)} executions have not ended in time, among them {open_ones[0]!r}"
    if wanted.status is not None:
        what = what.replace("ended", f"become {wanted.status}")
    return WaitTimeout(
        what, why=("Nothing was changed; it goes on.",), remedy=(f"ys explain {first}",)
    )


def _print_outcome(call: Call, record: ExecutionRecord, wanted: Wanted) -> None:
    if wanted.result:
        _print_result(call, record, wanted)
    elif call.drawn:
        call.print(_drawn(call, record))
    else:
        call.print(_piped(record))


def _print_result(call: Call, record: ExecutionRecord, wanted: Wanted) -> None:
    if record.pruned_at is not None:
        from yieldstar_cli.cli.edge import report_plainly

        report_plainly(call, ExecutionPruned(record.execution_id, str(record.status)))
        return
    match record.outcome:
        case Completed(result):
            print_value(call, result, reveal=wanted.reveal)
        case Failed(error):
            view = view_error(error)
            from yieldstar_cli.cli.edge import report_plainly

            report_plainly(call, ExecutionFailed(record.execution_id, view.name, view.message))
        case CancelledOutcome() | None:
            call.say(f"{safe.visible(record.execution_id)} is {record.status}")


def _drawn(call: Call, record: ExecutionRecord) -> str:
    look = call.look
    line = f"{safe.visible(record.execution_id)}    {look.status(str(record.status))}"
    span = took(record.updated_at - record.admitted_at)
    if record.pruned_at is not None:
        return f"{line} after {span}; its outcome is no longer kept"
    match record.outcome:
        case Completed():
            return f"{line} in {span}"
        case Failed(error):
            return f"{line} after {span}: {safe.visible(summarize(error))}"
        case CancelledOutcome(reason):
            return f"{line}: {safe.visible(reason)}" if reason else line
        case None:
            return line


def _piped(record: ExecutionRecord) -> str:
    name = safe.visible(record.execution_id)
    if record.pruned_at is not None:
        return f"{name}\t{record.status}\t"
    match record.outcome:
        case Completed(result):
            value = document.dumps(document.raw(result))
        case Failed(error):
            value = safe.visible(summarize(error))
        case CancelledOutcome(reason):
            value = safe.visible(reason or "")
        case None:
            value = ""
    return f"{name}\t{record.status}\t{value}"


def _print_documents(call: Call, records: Sequence[ExecutionRecord], *, single: bool) -> None:
    found = [documents.awaited_document(record) for record in records]
    call.print_document(found[0] if single and found else found)
