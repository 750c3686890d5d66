"""Chooses the executions to cancel, cancels them, and tells what became of each (spec C6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.render.times import rough
from yieldstar_cli.cli.steering import (
    Ended,
    answer_of,
    hint_worker,
    look_at,
    status_of,
    tell,
    told_if_unknown,
)
from yieldstar_cli.cli.typed import typed
from yieldstar_cli.errors import UsageError
from yieldstar_cli.model import CancelAnswer, ExecutionRecord
from yieldstar_cli.nouns import dataclass, field
from yieldstar_cli.project import Project
from yieldstar_cli.storage.contract import Storage

_OPEN = ("admitted", "suspended")


@dataclass(frozen=True, slots=True)
class Wish:
    """How they are to be cancelled."""

    now: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Filters:
    """Which open executions are meant, and how many at most."""

    workflow_id: str | None
    statuses: tuple[str, ...]
    where: Mapping[str, str] = field(default_factory=dict)
    limit: int = 500


@dataclass(frozen=True, slots=True)
class Done:
    """An execution as it was, and what the wish came to."""

    record: ExecutionRecord
    answer: CancelAnswer


def filters_of(
    workflow_id: str | None, status: str | None, where: Sequence[str], limit: int
) -> Filters | None:
    """The filters of a call; None where it has none. Raises UsageError."""
    if workflow_id is None and status is None and not where:
        return None
    statuses = _OPEN if status is None else tuple(word.strip() for word in status.split(","))
    for word in statuses:
        if word not in _OPEN:
            raise UsageError(
                f"--status is admitted or suspended, not {word!r}",
                why=("Others have ended; what is held, paused or due is one of the two.",),
                remedy=("ys list",),
            )
    wanted = {}
    for pair in where:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise UsageError(f"--where takes NAME=VALUE, such as order=42, not {pair!r}")
        wanted[key] = value
    return Filters(workflow_id, statuses, wanted, limit)


def choose(call: Call, storage: Storage, filters: Filters) -> list[ExecutionRecord]:
    """The open executions that match, those admitted last first; says what the limit left out."""
    found = storage.reader.find(
        workflow_id=filters.workflow_id,
        statuses=filters.statuses,
        where=filters.where or None,
        sort="admitted",
        limit=filters.limit + 1,
        payloads=False,
    )
    if len(found) > filters.limit:
        call.say(f"More than {filters.limit:,} match; --limit takes {filters.limit:,} of them.")
    return found[: filters.limit]


def cancel(
    project: Project, storage: Storage, records: Sequence[ExecutionRecord], wish: Wish
) -> list[Done]:
    """Cancel all of them in one transaction, and ring the workers."""
    from yieldstar_cli.runtime_open import ring_workers

    what = "the cancel stands" if len(records) == 1 else "they are cancelled"
    with told_if_unknown(what, look_at(records)), storage.atomic():
        done = [
            Done(
                record,
                storage.steering.cancel(record.execution_id, reason=wish.reason, now=wish.now),
            )
            for record in records
        ]
    ring_workers(storage, project.db)
    return done


def tell_cancelled(
    call: Call,
    project: Project,
    storage: Storage,
    done: Sequence[Done],
    wish: Wish,
    *,
    single: bool,
    named: bool,
) -> int:
    """Print what became of each; the exit status. Raises Ended for a single one that had ended."""
    if single and done[0].answer == "ignored":
        record = storage.executions.get(done[0].record.execution_id) or done[0].record
        raise Ended(record, call.times, "Nothing was changed.")
    answers = [answer_of(one.record.execution_id, one.answer) for one in done]
    lines = [_line(call, one, wish) for one in done]
    tell(call, answers, lines, single=single)
    if not done and not call.settings.json:
        call.hint("No open execution matches. Nothing was changed.")
    asked = [one.record for one in done if one.answer == "requested"]
    for record in asked:
        _hint_way_out(call, record)
    if asked:
        hint_worker(call, project, storage)
    return status_of(answers) if named else exits.DONE


def _line(call: Call, one: Done, wish: Wish) -> str:
    name, look = safe.visible(one.record.execution_id), call.look
    if not call.drawn:
        return f"{name}\t{one.answer}"
    good = look.paint("good", look.g("✓"))
    match one.answer:
        case "requested" if one.record.cancel is not None:
            since = rough(call.times.now_ms - one.record.cancel.at)
            return f"{look.g('·')} Cancel of {name} was requested {since} ago already."
        case "requested":
            return f"{good} Cancel of {name} requested. Its function is told at its next delivery."
        case "cancelled":
            how = " at once; no clean-up ran" if wish.now else ": it had not begun"
            return f"{good} Cancelled {name}{how}."
        case "ignored":
            return f"{look.g('·')} Cancel of {name} ignored: it had ended."


def _hint_way_out(call: Call, record: ExecutionRecord) -> None:
    """A request waits where nothing is delivered (spec C6)."""
    state = (
        "paused"
        if record.paused is not None
        else "poisoned"
        if record.poisoned_at is not None
        else "held"
        if record.held is not None
        else None
    )
    if state is not None:
        name = typed(record.execution_id)
        call.hint(safe.visible(f"  It is {state}, so that waits. At once:  ys cancel {name} --now"))


def tell_plan(call: Call, records: Sequence[ExecutionRecord], wish: Wish) -> None:
    """Print what would be done, `ys.plan/1`."""
    changes: list[tuple[ExecutionRecord, CancelAnswer]] = [
        (record, _change(record, wish)) for record in records
    ]
    if call.settings.json:
        would = [{"execution_id": r.execution_id, "change": change} for r, change in changes]
        call.print_document({"schema": "ys.plan/1", "would": would, "bytes": 0})
        return
    for record, change in changes:
        name = safe.visible(record.execution_id)
        words = _would(record, change, wish).format(name)
        call.print(words if call.drawn else f"{name}\t{change}")
    if call.drawn:
        found = f"{len(records):,} in all" if records else "No open execution matches"
        call.print(f"{found}. Nothing was changed.")


def _would(record: ExecutionRecord, change: CancelAnswer, wish: Wish) -> str:
    """A line of the plan, with a place for the ID."""
    match change:
        case "requested" if record.cancel is not None:
            return "{} was asked to cancel already."
        case "requested":
            return "Would ask {} to cancel."
        case "cancelled":
            how = " at once, without clean-up" if wish.now else ": it has not begun"
            return f"Would cancel {{}}{how}."
        case "ignored":
            return "Would leave {} as it is: it has ended."


def _change(record: ExecutionRecord, wish: Wish) -> CancelAnswer:
    if record.status.terminal:
        return "ignored"
    return "cancelled" if wish.now or not record.deliveries else "requested"
