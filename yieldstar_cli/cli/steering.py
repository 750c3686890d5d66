"""What the steering verbs share: whom they mean, how they answer, what they say of an ended one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from yieldstar_cli.cli import documents, exits, identify
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.opened import crew
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.render.times import Times, rough
from yieldstar_cli.cli.steering_words import resume_line, scope_words
from yieldstar_cli.cli.typed import typed
from yieldstar_cli.errors import CommitUnknown, ExecutionNotFound, ExecutionTerminal, UsageError
from yieldstar_cli.failures_view import view_error
from yieldstar_cli.model import CancelledOutcome, ExecutionRecord, Failed, Paused
from yieldstar_cli.project import Project
from yieldstar_cli.storage.contract import Storage

Answer = dict[str, Any]

#: What an error may say of a record: everything but what may be secret.
_PRIVATE = ("params", "context", "outcome", "status_value")


class Ended(ExecutionTerminal):
    """The execution has ended: how, when, and what was therefore not done."""

    def __init__(self, record: ExecutionRecord, times: Times, nothing: str) -> None:
        super().__init__(
            record.execution_id,
            str(record.status),
            why=(_how_it_ended(record, times), nothing),
            remedy=(f"ys show {typed(record.execution_id)}",),
        )
        document = documents.execution_document(record)
        self.execution = {key: part for key, part in document.items() if key not in _PRIVATE}


def _how_it_ended(record: ExecutionRecord, times: Times) -> str:
    ago = f"{rough(times.now_ms - record.updated_at)} ago"
    match record.outcome:
        case Failed(error):
            return f"It failed {ago} with {view_error(error).name}."
        case CancelledOutcome(reason):
            return f"It was cancelled {ago}{f': {reason}' if reason else ''}."
        case _:
            return f"It completed {ago}."


@contextmanager
def told_if_unknown(what: str, look: str) -> Iterator[None]:
    """Where the commit's fate is unknown: say of what, and which command tells."""
    try:
        yield
    except CommitUnknown as error:
        raise CommitUnknown(
            f"it is not known whether {what}",
            why=("An I/O error struck in the commit: it may or may not stand.", *error.why),
            remedy=(f"This tells: {look}",),
        ) from error


def look_at(records: Sequence[ExecutionRecord | None]) -> str:
    """The command that shows what became of these."""
    first = records[0] if len(records) == 1 else None
    return "ys list" if first is None else f"ys show {typed(first.execution_id)}"


def find_all(
    call: Call, project: Project, storage: Storage, words: Sequence[tuple[str, bool]]
) -> list[ExecutionRecord]:
    """The records of these words, each once; all are looked up before any is changed.

    Raises ExecutionNotFound, which says so where there are several.
    """
    try:
        found = [
            identify.find_one(call, project, storage, word, literal=literal)
            for word, literal in words
        ]
    except ExecutionNotFound as error:
        if len(words) > 1:
            error.why = (*error.why, "Nothing was changed, of the others neither.")
        raise
    return list({record.number: record for record in found}.values())


def answer_of(execution_id: str, answer: str, **more: Any) -> Answer:
    """`ys.answer/1`."""
    return {"schema": "ys.answer/1", "execution_id": execution_id, **more, "answer": answer}


def tell(call: Call, answers: Sequence[Answer], lines: Sequence[str], *, single: bool) -> None:
    """Print the answers as stdout asks for it: a document, or `lines`.

    A summary of several goes to stderr.
    """
    if call.settings.json:
        call.print_document(answers[0] if single else list(answers))
        return
    call.print_lines(lines)
    if len(answers) > 1:
        counts = Counter(str(answer["answer"]) for answer in answers)
        late = counts.pop("ignored", 0)
        words = [f"{count:,} {answer}" for answer, count in counts.items()]
        call.flush()
        call.hint(f"{', '.join([*words, *([f'{late:,} had ended'] if late else [])])}.")


def status_of(answers: Sequence[Answer]) -> int:
    """6 if one that was named had ended already, else 0."""
    late = any(answer["answer"] == "ignored" for answer in answers)
    return exits.REFUSED if late else exits.DONE


def hint_worker(call: Call, project: Project, storage: Storage) -> None:
    """Say so where nobody is there to do what was asked."""
    if not crew(call, project, storage).alive:
        call.hint("  No worker is running on this database. Start one:  ys worker")


def hint_paused(call: Call, storage: Storage, execution_id: str, *, above: bool = False) -> bool:
    """Say so where a mark keeps an execution from being delivered; whether one does (spec E14).

    With `above` only where it is not the execution's own.
    """
    record = storage.executions.get(execution_id)
    mark = None if record is None else record.paused
    if mark is None or (above and mark.scope == "execution"):
        return False
    call.hint(
        f"  {safe.visible(scope_words(mark))}{by_whom(call, mark)}.",
        safe.visible(f"  Go on:  {resume_line(mark, execution_id)}"),
    )
    return True


def by_whom(call: Call, mark: Paused) -> str:
    """Who set a mark, how long ago, and why."""
    ago = rough(call.times.now_ms - mark.at)
    why = f": {safe.visible(mark.reason)}" if mark.reason else ""
    return f", by {safe.visible(mark.by)} {ago} ago{why}"


def check_text(option: str, text: str | None) -> str | None:
    """`text` of an option, if it can be stored. Raises UsageError for what is not UTF-8."""
    try:
        (text or "").encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"{option}: {text!r} is not UTF-8 text") from None
    return text
