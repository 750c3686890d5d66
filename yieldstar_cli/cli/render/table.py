"""Draws the table of `ys list`, and aligned columns in general."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from yieldstar_cli.cli.brief import wait_words
from yieldstar_cli.cli.facts import Crew, expired_at
from yieldstar_cli.cli.render import safe, values
from yieldstar_cli.cli.render.terminal import STATUS_GLYPHS, Look, style_of
from yieldstar_cli.cli.render.times import Times, rough, took
from yieldstar_cli.failures_view import view_error
from yieldstar_cli.model import Completed, ExecutionRecord, Failed, Status, Wait

#: A column is not made narrower than this.
_NARROWEST = 8
_HEADINGS = ("execution", "workflow", "status", "when", "detail")


def table_lines(
    records: Sequence[ExecutionRecord],
    *,
    waits: Callable[[ExecutionRecord], Sequence[Wait]],
    children: Callable[[ExecutionRecord], int],
    crew: Crew,
    times: Times,
    look: Look,
) -> list[str]:
    """One line for each record below a heading, within the terminal's width."""
    rows = []
    for record in records:
        glyph = look.g(STATUS_GLYPHS[record.status])
        rows.append(
            (
                safe.visible(record.execution_id),
                safe.visible(record.workflow_id),
                f"{glyph} {record.status}",
                _when(record, crew, times),
                _detail(record, waits, children, crew, look),
            )
        )
    styles = [{2: style_of(record.status)} for record in records]
    return columns(_HEADINGS, rows, look, styles=styles, shrink=(0, 1, 4))


def columns(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    look: Look,
    *,
    styles: Sequence[Mapping[int, str]] = (),
    shrink: Sequence[int] = (0,),
) -> list[str]:
    """Aligned columns, two spaces before and between; those of `shrink` are cut to fit."""
    count = len(headings)
    widths = [max(safe.cells(row[c]) for row in (headings, *rows)) for c in range(count)]
    while sum(widths) > look.width - 1 - 2 * len(widths):
        # Where none of those is left, the first one gives way.
        left = [c for c in shrink if c < len(widths)] or [0]
        widest = max(left, key=lambda c: widths[c])
        if widths[widest] > _NARROWEST:
            widths[widest] -= 1
        elif len(widths) > 1:
            # No room: the last column goes.
            widths.pop()
        else:
            break
    lines = [_line(headings, widths, look, dict.fromkeys(range(count), "dim"))]
    for index, row in enumerate(rows):
        lines.append(_line(row, widths, look, styles[index] if styles else {}))
    return lines


def _line(row: Sequence[str], widths: Sequence[int], look: Look, styles: Mapping[int, str]) -> str:
    cells = []
    for column, width in enumerate(widths):
        # What comes first is a name: the ends of names differ.
        clip = safe.clip_middle if column == 0 else safe.clip
        cell = safe.pad(clip(row[column], width, look.g("…")), width)
        cells.append(look.paint(styles[column], cell) if column in styles else cell)
    return ("  " + "  ".join(cells)).rstrip()


def _when(record: ExecutionRecord, crew: Crew, times: Times) -> str:
    now = times.now_ms
    if record.status.terminal:
        return times.ago(record.updated_at)
    if record.delivery is not None:
        if expired_at(record, crew, now) is not None:
            return "expired"
        return f"running {took(now - record.delivery.since_at)}"
    if record.poisoned_at is not None:
        return "poisoned"
    if record.paused is not None:
        return "paused"
    if record.held is not None and (record.held.until_at is None or record.held.until_at > now):
        until = record.held.until_at
        return "held" if until is None else f"held, {times.ahead(until)}"
    if record.due_at is None:
        return f"since {rough(now - record.updated_at)}"
    if record.due_at > now:
        verb = "starts" if record.status is Status.ADMITTED else "wakes"
        return f"{verb} {times.ahead(record.due_at)}"
    waited = now - record.due_at
    return "due now" if waited < 1000 else f"due for {rough(waited)}"


def _detail(
    record: ExecutionRecord,
    waits: Callable[[ExecutionRecord], Sequence[Wait]],
    children: Callable[[ExecutionRecord], int],
    crew: Crew,
    look: Look,
) -> str:
    match record.outcome:
        case Failed(error):
            return safe.visible(view_error(error).name)
        case Completed():
            return f"took {took(record.updated_at - record.admitted_at)}"
        case None:
            pass
        case _:
            return ""
    words = _open_detail(record, waits, children, crew, look)
    if record.cancel is not None:
        return f"cancelling, {words}" if words else "cancelling"
    return words


def _open_detail(
    record: ExecutionRecord,
    waits: Callable[[ExecutionRecord], Sequence[Wait]],
    children: Callable[[ExecutionRecord], int],
    crew: Crew,
    look: Look,
) -> str:
    steps = [run.step_key for run in crew.running.get(record.number, []) if run.step_key]
    if steps:
        return safe.visible(", ".join(steps))
    if record.held is not None or record.poisoned_at is not None:
        return "" if record.problem is None else safe.visible(record.problem.code)
    if record.paused is not None:
        mark = record.paused
        what = {"workflow": "workflow ", "all": "all "}.get(mark.scope, "")
        return safe.visible(f"{what}paused by {mark.by}")
    if record.status_value_json is not None:
        return values.pairs(record.status_value_json, 40, reveal=False, ellipsis=look.g("…"))
    found = waits(record)
    if not found:
        return "waits for nothing" if record.status is Status.SUSPENDED else ""
    if record.needs:
        return safe.visible(f"needs the tag {' or '.join(record.needs)}")
    return safe.visible(wait_words(found, lambda: children(record)))


def footer_line(
    shown: int, counts: Mapping[str, int], look: Look, *, more: str, failed: bool = True
) -> str:
    """What the table hides: how many there are, by status, and how to see them.

    `more` is the command that shows what was left out; `failed`: whether to tell of that filter.
    """
    total = sum(counts.values())
    parts = [
        f"{look.g(STATUS_GLYPHS[status])} {counts[status]:,}"
        for status in ("completed", "failed", "cancelled", "suspended", "admitted")
        if counts.get(status)
    ]
    words = [f"{shown:,} of {total:,}", "  ".join(parts)]
    if failed and counts.get("failed"):
        words.append("ys list --failed")
    if shown < total:
        words.append(more)
    line = look.g(" · ").join(words)
    return look.paint("dim", look.clip(line, look.width - 1))


def empty_lines(total: int, look: Look) -> list[str]:
    """Why the list is empty, and what to type."""
    arrow = look.g("→")
    if not total:
        return [
            "Nothing has been triggered yet.",
            f"  {arrow} ys workflows",
            f"  {arrow} ys trigger WORKFLOW --id ID",
        ]
    return [f"No execution matches; there are {total:,}.", f"  {arrow} ys list"]
