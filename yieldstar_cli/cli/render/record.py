"""Draws `ys show` on a terminal: header, headline, facts, steps, error, what to type next."""

from __future__ import annotations

from yieldstar_cli.cli.effect_words import disagreements, effect_name, report_words
from yieldstar_cli.cli.facts import Facts
from yieldstar_cli.cli.render import safe, values
from yieldstar_cli.cli.render.steps import step_lines
from yieldstar_cli.cli.render.terminal import STATUS_GLYPHS, Look
from yieldstar_cli.cli.render.times import Times, took
from yieldstar_cli.cli.steps import operations
from yieldstar_cli.cli.typed import typed
from yieldstar_cli.cli.verdict import Verdict
from yieldstar_cli.failures_view import summarize, view_error
from yieldstar_cli.model import CancelledOutcome, Completed, Failed

_KEY = 12
# A longer message of an error is for --result.
_MOST_LINES = 6


def record_lines(
    facts: Facts, verdict: Verdict, *, file: str, reveal: bool, look: Look, times: Times
) -> list[str]:
    """The whole picture of one execution."""
    lines = [_header(facts, file, look)]
    if facts.earlier is not None:
        ended = times.past(facts.earlier.ended_at)
        lines += [f"Incarnation {facts.record.incarnation}; it continued as new at {ended}.", ""]
    elif not facts.record.status.terminal:
        lines += safe.wrap(safe.visible(verdict.headline), look.width - 1)
        for note in verdict.notes:
            lines += safe.wrap_lines(note, look.width - 1)
        lines.append("")
    lines += _block(facts, reveal, look, times)
    if not facts.record.status.terminal or facts.earlier is not None:
        lines.append("")
    outcome = None if facts.earlier is not None else facts.record.outcome
    told = outcome.error if isinstance(outcome, Failed) else None
    if facts.record.pruned_at is not None:
        return lines
    lines += step_lines(operations(facts), facts.now_ms, look, told=told)
    return lines + _dispute_lines(facts, reveal, look, times)


def _dispute_lines(facts: Facts, reveal: bool, look: Look, times: Times) -> list[str]:
    """What did not agree with an effect that it took part in, both sides of it (spec F1)."""
    lines = []
    for record in facts.effects.values():
        if not record.disputed:
            continue
        if record.settled_at is None:
            stands = record.status
        else:
            stands = f"{record.status} by {record.settled_by} at {times.at(record.settled_at)}"
        name = effect_name(record.effect_id, record)
        lines += safe.wrap(safe.visible(f"{name} is disputed; {stands}:"), look.width - 1)
        for report in disagreements(record):
            words = report_words(record, report, reveal=reveal)
            text = safe.visible(f"{times.at(report.at)}: {words}.")
            lines += safe.wrap(text, look.width - 1, "    ", first="  ! ")
    return ["", *lines] if lines else []


def _header(facts: Facts, file: str, look: Look) -> str:
    record = facts.record
    word = str(record.status)
    extra = ""
    if facts.expired_at is not None:
        extra = ", delivery expired"
    elif record.delivery is not None:
        extra = f", {look.g('▶')} running"
    elif record.poisoned_at is not None:
        extra = ", poisoned"
    elif record.paused is not None:
        extra = ", paused"
    elif record.held is not None:
        extra = ", held"
    elif record.outcome is not None:
        span = took(record.updated_at - record.admitted_at)
        extra = f" {'in' if word == 'completed' else 'after'} {span}"
    if record.cancel is not None and not record.status.terminal:
        extra += ", cancelling"
    name = safe.visible(record.execution_id)
    version = "" if record.version == 1 else f" v{record.version}"
    workflow = f"{safe.visible(record.workflow_id)}{version}"
    left = f"{name}    {workflow}    "
    plain = f"{left}{look.g('○')} {word}{extra}"
    room = look.width - safe.cells(plain) - 2
    right = safe.visible(file)
    tail = ""
    if right and safe.cells(right) <= room:
        tail = " " * (look.width - safe.cells(plain) - safe.cells(right)) + look.paint("dim", right)
    bold = look.paint("strong", name)
    return f"{bold}    {workflow}    {look.status(word)}{extra}{tail}"


def _block(facts: Facts, reveal: bool, look: Look, times: Times) -> list[str]:
    record = facts.record
    room = look.width - 1 - 2 - _KEY
    if record.pruned_at is not None:
        gone = f"{times.past(record.pruned_at)}; its history and values are no longer kept"
        lines = [_line("pruned", look.clip(gone, room))]
    else:
        lines = _outcome_lines(facts, reveal, look)
    if record.params_json not in ("null", "{}"):
        lines.append(_line("params", _value(record.params_json, room, reveal, look)))
    if record.context_json not in ("null", "{}"):
        lines.append(_line("context", _value(record.context_json, room, reveal, look)))
    if record.status_value_json is not None:
        lines.append(_line("status", _value(record.status_value_json, room, reveal, look)))
    lines += _family_lines(facts, room, look, times)
    if not record.status.terminal:
        lines.append(_line("admitted", times.past(record.admitted_at)))
    lines.append(_line("deliveries", look.clip(_deliveries(facts, times), room)))
    if facts.lost:
        lines += safe.wrap(_lost(facts, times), look.width - 1, " " * (_KEY + 2), _line("lost", ""))
    if record.problem is not None and record.status.terminal:
        lines.append(_line("problem", look.clip(safe.in_one_line(record.problem.message), room)))
    return lines


def _family_lines(facts: Facts, room: int, look: Look, times: Times) -> list[str]:
    """Who started it and whom it started, what it was before, and what waits to be read."""
    record, found = facts.record, []
    name = safe.visible(typed(record.execution_id))
    if record.parent_execution_id is not None:
        detached = ", detached" if record.detached else ""
        found.append(("parent", f"{safe.visible(record.parent_execution_id)}{detached}"))
    if facts.child_counts and facts.earlier is None:
        found.append(("children", f"{_statuses(facts, look)}: ys show {name} --tree"))
    if record.incarnation > 1 and facts.earlier is None:
        since = "" if record.started_at is None else f", since {times.at(record.started_at)}"
        before = f"before it: ys show {name} --incarnation {record.incarnation - 1}"
        found.append(("incarnation", f"{record.incarnation}{since}; {before}"))
    if record.needs:
        found.append(("needs", f"a worker with the tag {safe.visible(' or '.join(record.needs))}"))
    if record.cancel is not None and record.status.terminal:
        why = f": {safe.visible(record.cancel.reason)}" if record.cancel.reason else ""
        found.append(("cancel", f"asked for at {times.past(record.cancel.at)}{why}"))
    unread = sum(facts.unread.values())
    if unread:
        word = "message" if unread == 1 else "messages"
        found.append(("unread", f"{unread:,} {word}: ys messages {name}"))
    return [_line(key, look.clip(text, room)) for key, text in found]


def _statuses(facts: Facts, look: Look) -> str:
    """How many children have each status: `96 ✓  1 ✗  3 ⏸`."""
    counts: dict[str, int] = {}
    for (_, status), count in facts.child_counts.items():
        counts[status] = counts.get(status, 0) + count
    return "  ".join(
        f"{counts[status]:,} {look.g(glyph)}"
        for status, glyph in STATUS_GLYPHS.items()
        if counts.get(status)
    )


def _value(json_text: str, room: int, reveal: bool, look: Look) -> str:
    return values.pairs(json_text, room, reveal=reveal, ellipsis=look.g("…"))


def _line(key: str, text: str) -> str:
    return f"  {key:<{_KEY}}{text}"


def _deliveries(facts: Facts, times: Times) -> str:
    record = facts.record
    if record.last_claimed_at is None:
        return "0; no worker has taken it yet"
    words = f"{record.deliveries}; last {times.at(record.last_claimed_at)}"
    acked = record.last_acked_at
    if record.delivery is None and acked is not None and acked >= record.last_claimed_at:
        words += f", {took(acked - record.last_claimed_at)}"
    return f"{words}, worker {safe.visible(record.last_worker or '?')}"


def _lost(facts: Facts, times: Times) -> str:
    last = max(facts.lost, key=lambda lost: lost.ended_at)
    count = len(facts.lost)
    word = "delivery was" if count == 1 else "deliveries were"
    return (
        f"{count} {word} not acknowledged; the last from {times.at(last.started_at)} "
        f"to {times.at(last.ended_at)}: {safe.visible(last.how)}, "
        f"worker {safe.visible(last.worker)}"
    )


def _outcome_lines(facts: Facts, reveal: bool, look: Look) -> list[str]:
    room = look.width - 1 - 2 - _KEY
    match None if facts.earlier is not None else facts.record.outcome:
        case Completed(result):
            return [_line("result", _value(result, room, reveal, look))]
        case CancelledOutcome(reason):
            return [_line("reason", look.clip(safe.visible(reason), room))] if reason else []
        case Failed(error):
            return error_lines(error, look)
        case None:
            return []


def error_lines(json_text: str, look: Look) -> list[str]:
    """The error of a failed execution: message, place, the line of the author's code."""
    view = view_error(json_text)
    room = look.width - 1 - 2 - _KEY
    message = safe.visible(summarize(json_text))
    lines = safe.wrap(message, look.width - 1, _line("", ""), first=_line("error", ""))
    lines = [look.clip(line, look.width - 1) for line in lines]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], _line("", look.g("…"))]
    lines += [_line("", look.clip(safe.visible(note), room)) for note in view.notes]
    for member in view.members[:5]:
        text = safe.visible(f"{member.name}: {member.message}")
        lines.append(_line("", look.clip(f"{look.g('·')} {text}", room)))
    if view.cause is not None:
        text = safe.visible(f"from {view.cause.name}: {view.cause.message}")
        lines.append(_line("", look.clip(text, room)))
    if view.where is not None:
        where = view.where
        place = safe.visible(f"{where.file.rsplit('/', 1)[-1]}:{where.line} in {where.function}")
        lines.append(_line("", look.clip(place, room)))
        code = _code_line(view.traceback, where.line)
        if code:
            shown = f"{look.g('❱')} {where.line:>3} {look.g('│')} {safe.visible(code)}"
            lines.append(_line("", look.clip(shown, room)))
    return lines


def _code_line(traceback: str, line: int) -> str:
    """The author's line as the traceback has it, so that no file need be read."""
    rows = traceback.split("\n")
    for index in range(len(rows) - 2, -1, -1):
        if f", line {line}, in " in rows[index]:
            return rows[index + 1].strip()
    return ""
