"""Draws the operations of an execution: glyph, name, time taken, and the broken time axis."""

from __future__ import annotations

from itertools import groupby

from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.render.axis import Axis, Span
from yieldstar_cli.cli.render.terminal import STATE_GLYPHS, Look, style_of
from yieldstar_cli.cli.render.times import short, took
from yieldstar_cli.cli.steps import Operation
from yieldstar_cli.failures_view import summarize, view_error
from yieldstar_cli.model import Kind
from yieldstar_cli.nouns import dataclass, replace

_NAME = 20
_TOOK = 8
#: Where the axis begins: number, glyph, name and time stand before it.
_LEFT = 6 + _NAME + _TOOK + 2
#: More operations than this are folded in the middle.
_MOST = 40
_FIRST = 10
#: So many starts, or awaited executions, in a row are told in one line.
_ALIKE = 4
#: More tries of one operation than this are folded at the beginning.
_TRIES = 4


@dataclass(frozen=True, slots=True)
class Row:
    """One line: a try, a pause, a wait, or words about what stands above it."""

    number: str
    state: str
    name: str
    start: int
    end: int
    work: bool = False
    #: Still going on: `end` is its moment, if it has one.
    open: bool = False


@dataclass(frozen=True, slots=True)
class Words:
    """A line of words below a row: an error, with its place at the right."""

    left: str
    right: str = ""


def step_lines(
    operations: list[Operation], now_ms: int, look: Look, *, told: str | None = None
) -> list[str]:
    """The table of operations; says so when there is none.

    `told` is an error that stands above the table already and is not repeated in it.
    """
    if not operations:
        return ["  no step has ended yet"]
    numbered = _alike_folded(list(enumerate(operations, 1)), look)
    folded = len(numbered) - _MOST if len(numbered) > _MOST else 0
    if folded:
        numbered = numbered[:_FIRST] + numbered[_FIRST + folded :]
    rows: list[Row | Words] = []
    for index, (number, operation) in enumerate(numbered):
        if folded and index == _FIRST:
            rows.append(Words(f"{look.g('…')} {folded} more: ys show ID --history"))
        rows += _rows(number, operation, now_ms, look)
        if operation.value is None or operation.value != told:
            rows += _error_words(operation)
        if operation.note:
            rows.append(Words(operation.note))
    return [_heading(), *_drawn(rows, now_ms, look)]


def _alike_folded(numbered: list[tuple[int, Operation]], look: Look) -> list[tuple[int, Operation]]:
    """Long runs of starts, or of awaited executions in one state, as one operation each."""
    found: list[tuple[int, Operation]] = []
    for key, run in groupby(numbered, key=lambda pair: _alike(pair[1])):
        pairs = list(run)
        if key is None or len(pairs) < _ALIKE:
            found += pairs
            continue
        (number, first), last = pairs[0], pairs[-1][1]
        label = f"{len(pairs):,} {look.g('×')} {first.kind} {first.step_key.partition('#')[0]}"
        found.append(
            (
                number,
                replace(
                    first,
                    kind="",
                    step_key="",
                    label=label,
                    target=None,
                    finished_at=last.finished_at,
                ),
            )
        )
    return found


def _alike(operation: Operation) -> tuple[str, str, str] | None:
    if operation.kind not in (Kind.START, Kind.CHILD) or operation.state == "failed":
        return None
    return operation.kind, operation.step_key.partition("#")[0], operation.state


def _heading() -> str:
    return f"  #   {'step':<{_NAME}}{'took':>{_TOOK}}"


def _rows(number: int, operation: Operation, now_ms: int, look: Look) -> list[Row | Words]:
    rows: list[Row | Words] = []
    tries = operation.attempts[-_TRIES:]
    earlier = len(operation.attempts) - len(tries)
    if earlier:
        rows.append(Words(f"{look.g('…')} {earlier} earlier tries"))
    pause = "retry in" if operation.kind == "step" else "again in"
    for attempt in tries:
        state = "failed" if attempt.how != "empty" else "waiting"
        name = _try_name(operation.name, attempt.attempt)
        rows.append(Row(str(number), state, name, attempt.started_at, attempt.ended_at, work=True))
        span = f"  {pause} {short(attempt.retry_at - attempt.ended_at)}"
        rows.append(Row("", "retrying", span, attempt.ended_at, attempt.retry_at))
    return [*rows, *_last_rows(number, operation, now_ms)]


def _last_rows(number: int, operation: Operation, now_ms: int) -> list[Row]:
    """The row of the try that ended it, or of what goes on now."""
    finished = operation.finished_at
    if operation.state == "retrying":
        # The pause is the last row already, where its failed try was kept.
        if operation.attempts:
            return []
        start = operation.started_at or now_ms
        due = operation.due_at or now_ms
        return [Row(str(number), "retrying", operation.name, start, due, open=True)]
    start = operation.started_at if operation.started_at is not None else finished or now_ms
    if operation.attempts and operation.state == "waiting":
        start = max(start, operation.attempts[-1].retry_at)
    name = _try_name(operation.name, operation.attempt)
    if finished is not None:
        return [Row(str(number), operation.state, name, start, finished, work=operation.is_work)]
    end = operation.due_at if operation.due_at is not None else max(now_ms, start)
    return [Row(str(number), operation.state, name, start, end, operation.is_work, open=True)]


def _try_name(name: str, attempt: int) -> str:
    return f"{name}, try {attempt}" if attempt > 1 else name


def _error_words(operation: Operation) -> list[Words]:
    text = operation.value if operation.state == "failed" else None
    if text is None and operation.finished_at is None:
        errors = [attempt.error for attempt in operation.attempts if attempt.error is not None]
        text = errors[-1] if errors else None
    if text is None:
        return []
    view = view_error(text)
    place = f"{view.where.file.rsplit('/', 1)[-1]}:{view.where.line}" if view.where else ""
    where = f"{place} in {view.where.function}" if view.where else ""
    return [Words(summarize(text), where)]


# --- drawing ---------------------------------------------------------------------------------


def _drawn(rows: list[Row | Words], now_ms: int, look: Look) -> list[str]:
    width = look.width - _LEFT - 1
    real = [row for row in rows if isinstance(row, Row)]
    axis = Axis([Span(row.start, max(row.end, row.start), row.work) for row in real], width)
    # How far a wait is can be said only where it has a moment.
    alone = len(real) == 1 and real[0].open and not real[0].work and real[0].end > now_ms
    lines = []
    for row in rows:
        if isinstance(row, Words):
            lines.append(_words_line(row, look))
            continue
        glyph = look.g(STATE_GLYPHS.get(row.state, "·"))
        style = style_of(row.state)
        span = (min(row.end, now_ms) if row.open or row.end > now_ms else row.end) - row.start
        name = safe.pad(safe.clip_middle(safe.visible(row.name), _NAME, look.g("…")), _NAME)
        left = f"{row.number:>3} {look.paint(style, glyph)} {name}{took(span):>{_TOOK}}"
        bar = _progress(row, now_ms, width, look) if alone else _bar(row, axis, width, look)
        lines.append(f"{left}  {look.paint(style, bar)}".rstrip() if width >= 12 else left)
    return lines


def _words_line(words: Words, look: Look) -> str:
    right = safe.visible(words.right)
    room = look.width - 1 - 6
    left = safe.visible(words.left)
    if right and safe.cells(right) + 12 <= room:
        left = safe.pad(look.clip(left, room - safe.cells(right) - 2), room - safe.cells(right))
        return look.paint("dim", f"      {left}{right}")
    return look.paint("dim", f"      {look.clip(left, room)}")


def _bar(row: Row, axis: Axis, width: int, look: Look) -> str:
    start = min(width - 1, round(axis.column(row.start)))
    end = min(width, round(axis.column(max(row.end, row.start))))
    length = end - start
    if row.work:
        return " " * start + (look.g("█") * length if length > 0 else look.g("▏"))
    return " " * start + look.g("┄") * max(1, length)


def _progress(row: Row, now_ms: int, width: int, look: Look) -> str:
    """How far the only wait is."""
    total = row.end - row.start
    done = 1.0 if total <= 0 else min(1.0, max(0.0, (now_ms - row.start) / total))
    filled = int(done * width)
    return look.g("━") * filled + look.g("┄") * (width - filled)
