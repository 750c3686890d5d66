"""Prints one execution: for a terminal, a pipe or a program; once, or until it has ended."""

from __future__ import annotations

from collections.abc import Callable

from yieldstar_cli.cli import documents, exits
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.effect_words import disagreements, report_words
from yieldstar_cli.cli.facts import DECISION, Facts
from yieldstar_cli.cli.following import follow
from yieldstar_cli.cli.render import document, safe, values
from yieldstar_cli.cli.steps import operations
from yieldstar_cli.cli.typed import typed
from yieldstar_cli.clock import rfc3339
from yieldstar_cli.errors import (
    ExecutionCancelled,
    ExecutionFailed,
    ExecutionPruned,
    UsageError,
    WaitTimeout,
)
from yieldstar_cli.failures_view import view_error
from yieldstar_cli.model import CancelledOutcome, Completed, Entry, ExecutionRecord, Failed
from yieldstar_cli.nouns import dataclass
from yieldstar_cli.storage.contract import Storage


@dataclass(frozen=True, slots=True)
class Wish:
    """What of an execution is to be shown."""

    history: bool = False
    reveal: bool = False
    #: With its children, `depth` levels of them.
    tree: bool = False
    depth: int | None = None
    #: The module of a record's workflow, as the cache knows it.
    file_of: Callable[[Storage, ExecutionRecord], str] = lambda storage, record: ""


def print_picture(call: Call, storage: Storage, facts: Facts, wish: Wish) -> None:
    """Print the execution as stdout asks for it."""
    if wish.tree and not call.drawn:
        from yieldstar_cli.cli.treeing import print_tree

        print_tree(call, storage, facts, depth=wish.depth)
    elif call.settings.json:
        found = documents.full_document(facts)
        if wish.history:
            found["history"] = documents.history_documents(facts.entries)
        call.print_document(found)
    elif not call.drawn:
        call.print_lines(_history_fields(facts) if wish.history else _fields(facts))
    else:
        call.print_lines(picture(call, storage, facts, wish))


def picture(call: Call, storage: Storage, facts: Facts, wish: Wish) -> list[str]:
    """The lines for a terminal."""
    from yieldstar_cli.cli.render.history import history_lines
    from yieldstar_cli.cli.render.record import record_lines
    from yieldstar_cli.cli.verdict import judge

    look, times = call.look, call.times
    if wish.tree:
        from yieldstar_cli.cli.treeing import tree_picture

        return tree_picture(call, storage, facts, depth=wish.depth)
    if wish.history:
        return history_lines(facts, reveal=wish.reveal, look=look, times=times)
    lines = record_lines(
        facts,
        judge(facts, times),
        file=wish.file_of(storage, facts.record),
        reveal=wish.reveal,
        look=look,
        times=times,
    )
    if not call.settings.quiet:
        lines += ["", f"Next: {look.g(' · ').join(map(safe.visible, _next(facts)))}"]
    return lines


def _next(facts: Facts) -> list[str]:
    from yieldstar_cli.cli.steering_words import resume_line

    name = typed(facts.record.execution_id)
    record = facts.record
    if facts.earlier is not None:
        return [f"ys show {name} --incarnation {record.incarnation} --history", f"ys show {name}"]
    if record.pruned_at is not None:
        return ["ys list --pruned"]
    if record.status.terminal:
        return [f"ys show {name} --history"]
    if record.paused is not None:
        return [f"ys explain {name}", resume_line(record.paused, record.execution_id)]
    if any(wait.queue == DECISION for wait in facts.waits):
        return [f"ys approve {name}", f"ys reject {name}", f"ys explain {name}"]
    stuck = record.held is not None or record.poisoned_at is not None
    return [f"ys explain {name}", f"ys wake {name}" if stuck else f"ys wait {name}"]


# --- in a pipe --------------------------------------------------------------------------------


def _fields(facts: Facts) -> list[str]:
    record = facts.record
    lines = [
        _fields_line("execution_id", record.execution_id),
        _fields_line("workflow_id", record.workflow_id),
        _fields_line("status", str(record.status)),
    ]
    if record.pruned_at is not None:
        lines.append(_fields_line("pruned", rfc3339(record.pruned_at)))
    elif record.outcome is not None:
        lines.append(_outcome_field(record))
    if record.due_at is not None:
        lines.append(_fields_line("due_at", rfc3339(record.due_at)))
    if record.delivery is not None:
        ended = facts.expired_at
        word = "running" if ended is None else "expired"
        since = record.delivery.since_at if ended is None else ended
        lines.append(_fields_line(word, record.delivery.worker, rfc3339(since)))
    if record.held is not None:
        until = "" if record.held.until_at is None else rfc3339(record.held.until_at)
        lines.append(_fields_line("held", record.held.code, until))
    if record.poisoned_at is not None:
        lines.append(_fields_line("poisoned", str(record.deaths), rfc3339(record.poisoned_at)))
    lines += _steered_fields(facts)
    if record.problem is not None:
        lines.append(_fields_line("problem", record.problem.code, record.problem.message))
    for number, operation in enumerate(operations(facts), 1):
        at = operation.finished_at or operation.started_at
        moment = "" if at is None else rfc3339(at)
        lines.append(
            _fields_line(
                "step", str(number), operation.step_key, operation.kind, operation.state, moment
            )
        )
    return lines + _effect_fields(facts)


def _effect_fields(facts: Facts) -> list[str]:
    """Its effects, and what did not agree with them (spec F1)."""
    lines = []
    for record in facts.effects.values():
        held_by = record.holder or ""
        lines.append(
            _fields_line("effect", record.effect_id, record.operation, record.status, held_by)
        )
        lines += [
            _fields_line("report", record.effect_id, report.kind, report_words(record, report))
            for report in disagreements(record)
        ]
    return lines


def _steered_fields(facts: Facts) -> list[str]:
    """What others did to it: started, paused, cancelled, sent messages."""
    record, lines = facts.record, []
    if record.parent_execution_id is not None:
        lines.append(_fields_line("parent_execution_id", record.parent_execution_id))
    if record.incarnation > 1 or facts.earlier is not None:
        lines.append(_fields_line("incarnation", str(record.incarnation)))
    if record.paused is not None:
        mark = record.paused
        lines.append(
            _fields_line("paused", mark.scope, mark.by, rfc3339(mark.at), mark.reason or "")
        )
    if record.cancel is not None:
        asked = record.cancel
        lines.append(_fields_line("cancel", rfc3339(asked.at), asked.reason or ""))
    if record.needs:
        lines.append(_fields_line("needs", *record.needs))
    lines += [_fields_line("unread", q, str(n)) for q, n in sorted(facts.unread.items())]
    return lines


def _outcome_field(record: ExecutionRecord) -> str:
    match record.outcome:
        case Completed(result):
            return f"result\t{document.dumps(document.raw(result))}"
        case Failed(error):
            view = view_error(error)
            return _fields_line("error", view.name, view.message)
        case CancelledOutcome(reason):
            return _fields_line("reason", reason or "")
        case None:
            return ""


def _history_fields(facts: Facts) -> list[str]:
    return [
        _fields_line(
            str(number),
            entry.step_key,
            entry.kind,
            _how(entry),
            str(entry.attempt),
            rfc3339(entry.at),
            document.dumps(document.raw(entry.value)),
        )
        for number, entry in enumerate(facts.entries, 1)
    ]


def _how(entry: Entry) -> str:
    return "withdrawn" if entry.withdrawn else "ok" if entry.ok else "error"


def _fields_line(*fields: str) -> str:
    return "\t".join(safe.visible(part) for part in fields)


# --- parts of it ------------------------------------------------------------------------------


def print_result(call: Call, record: ExecutionRecord, *, reveal: bool) -> int:
    """Print only the result, exact where a program reads it; raise what is not one."""
    name = record.execution_id
    if record.pruned_at is not None:
        raise ExecutionPruned(name, str(record.status))
    match record.outcome:
        case Completed(result):
            print_value(call, result, reveal=reveal)
            return exits.DONE
        case Failed(error):
            view = view_error(error)
            raise ExecutionFailed(name, view.name, view.message)
        case CancelledOutcome(reason):
            raise ExecutionCancelled(
                f"execution {name!r} was cancelled",
                why=(reason,) if reason else (),
                remedy=(f"ys show {typed(name)}",),
            )
        case None:
            raise WaitTimeout(
                f"execution {name!r} has not ended; it is {record.status}",
                remedy=(f"ys wait {typed(name)} --result",),
            )


def print_value(call: Call, json_text: str, *, reveal: bool) -> None:
    """Print one recorded value: masked and indented for a person, exact for a program."""
    if call.drawn:
        call.print_lines(safe.visible_lines(values.full(json_text, reveal=reveal)))
    else:
        call.print(document.dumps(document.raw(json_text)))


def print_step(call: Call, facts: Facts, step: int, *, reveal: bool) -> None:
    """Print one resolution in full: its number is that of `--history`."""
    count = len(facts.entries)
    if not 1 <= step <= count:
        raise UsageError(
            f"--step {step}: {facts.record.execution_id} has {count} resolutions",
            remedy=(f"ys show {typed(facts.record.execution_id)} --history",),
        )
    entry = facts.entries[step - 1]
    if call.settings.json:
        call.print_document(documents.entry_document(entry))
        return
    for key, text in (
        ("step", str(step)),
        ("key", entry.step_key),
        ("kind", entry.kind),
        ("outcome", _how(entry)),
        ("try", str(entry.attempt)),
        ("at", rfc3339(entry.at)),
    ):
        call.print(f"  {key:<12}{safe.visible(text)}" if call.drawn else _fields_line(key, text))
    if entry.ok:
        print_value(call, entry.value, reveal=reveal)
        return
    view = view_error(entry.value)
    call.print_lines(safe.visible_lines(view.traceback or f"{view.name}: {view.message}"))


# --- until it has ended -----------------------------------------------------------------------


def watch(
    call: Call, storage: Storage, read: Callable[[], Facts], wish: Wish, *, least_ms: float
) -> Facts:
    """Redraw on every change until the execution has ended; the last picture stays.

    Without a terminal only the last picture is printed.
    """
    from yieldstar_cli.cli.render.canvas import Canvas

    canvas = Canvas(call.out) if call.drawn else None

    def look() -> Facts | None:
        facts = read()
        if canvas is not None:
            canvas.draw(picture(call, storage, facts, wish), call.look)
        return facts if facts.record.status.terminal else None

    facts = follow(call, storage, look, least_ms=least_ms)
    assert facts is not None
    if canvas is None:
        print_picture(call, storage, facts, wish)
    return facts
