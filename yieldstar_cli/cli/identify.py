"""Finds the execution that a word of the command line means."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.typed import typed
from yieldstar_cli.errors import ExecutionNotFound, UsageError
from yieldstar_cli.model import ExecutionRecord
from yieldstar_cli.project import Project
from yieldstar_cli.storage.contract import Storage

LAST = "@last"
STDIN = "-"
#: A prefix shorter than this is never completed.
SHORTEST_PREFIX = 4
_SHOWN = 3


class AmbiguousId(UsageError):
    """Several executions begin with the word given."""

    code = "AMBIGUOUS_ID"


def one_word(word: str | None, literal: str | None) -> tuple[str, bool]:
    """The one ID of a call, and whether it is literal (`--id=ID`). Raises UsageError."""
    if (word is None) == (literal is None):
        raise UsageError(
            "which execution? Give one ID" if word is None else "give ID or --id=ID, not both",
            remedy=("ys list",),
        )
    return (literal, True) if literal is not None else (word or "", False)


def find_one(
    call: Call,
    project: Project,
    storage: Storage,
    word: str,
    *,
    literal: bool = False,
    complete: bool = False,
) -> ExecutionRecord:
    """The record that `word` names.

    An ID as it stands; `@last`, the execution admitted last, children apart; with `complete`, on
    a terminal, also a unique beginning, and that is said first. Raises ExecutionNotFound,
    AmbiguousId.
    """
    if word == LAST and not literal:
        latest = _latest(storage)
        if latest is None:
            raise ExecutionNotFound(
                LAST,
                why=(f"Nothing has been triggered yet in {project.db}.",),
                remedy=("ys workflows",),
            )
        return latest
    record = storage.executions.get(word)
    if record is not None:
        return record
    if complete and not literal and call.drawn and not call.settings.quiet:
        record = _completed(call, storage, word)
        if record is not None:
            return record
    raise not_found(project, storage, word)


def _latest(storage: Storage) -> ExecutionRecord | None:
    """The execution admitted last, children apart: nobody typed those."""
    offset, page = 0, 1
    while True:
        found = storage.reader.find(sort="admitted", limit=page, offset=offset, payloads=False)
        for record in found:
            if record.parent_execution_id is None:
                return storage.executions.get(record.execution_id)
        if len(found) < page:
            return None
        offset, page = offset + page, min(page * 10, 1_000)


def _completed(call: Call, storage: Storage, word: str) -> ExecutionRecord | None:
    if len(word) < SHORTEST_PREFIX:
        return None
    matches = storage.reader.ids_beginning(word, _SHOWN + 1)
    if len(matches) > 1:
        more = ", …" if len(matches) > _SHOWN else ""
        raise AmbiguousId(
            f"{word!r} is the beginning of several IDs: {', '.join(matches[:_SHOWN])}{more}",
            remedy=tuple(f"ys show {typed(match)}" for match in matches[:_SHOWN]),
        )
    record = storage.executions.get(matches[0]) if matches else None
    if record is not None:
        call.print(f"{safe.visible(record.execution_id)} (from {safe.visible(word)})")
    return record


def not_found(project: Project, storage: Storage, word: str) -> ExecutionNotFound:
    """No record has this ID: the nearest ones, and where was looked."""
    near = storage.reader.nearest_ids(word)
    why = [f"Looked in {project.db}."]
    if near:
        why.insert(0, f"Nearest: {', '.join(map(safe.visible, near))}.")
    remedies = tuple(f"ys show {typed(match)}" for match in near[:1])
    if storage.inbox.messages(word, limit=1):
        why.append("Messages were sent to it.")
        remedies = (*remedies, f"ys messages {typed(word)}")
    return ExecutionNotFound(word, why=why, remedy=(*remedies, "ys list"))


def words_of(words: Sequence[str], literals: Sequence[str]) -> list[tuple[str, bool]]:
    """All IDs of a call in order, each once: words, lines of stdin for `-`, and literal ones."""
    found: list[tuple[str, bool]] = []
    for word in words:
        if word == STDIN:
            found += [(line, True) for line in _stdin_lines()]
        else:
            found.append((word, False))
    found += [(literal, True) for literal in literals]
    unique = list(dict.fromkeys(found))
    if not unique and STDIN not in words:
        raise UsageError("which execution? Give an ID", remedy=("ys list",))
    return unique


def _stdin_lines() -> list[str]:
    try:
        text = sys.stdin.read()
    except UnicodeDecodeError:
        raise UsageError("stdin is not UTF-8 text; it must hold IDs, one a line") from None
    return [line for line in text.split("\n") if line]
