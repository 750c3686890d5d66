"""Sets and lifts the marks of `ys pause`, and tells what became of each (spec E14)."""

from __future__ import annotations

from collections.abc import Sequence

from yieldstar_cli.cli import exits, identify
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.opened import trust_of
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.steering import (
    Answer,
    Ended,
    answer_of,
    by_whom,
    find_all,
    hint_paused,
    look_at,
    status_of,
    tell,
    told_if_unknown,
)
from yieldstar_cli.errors import UnknownWorkflow, UsageError
from yieldstar_cli.model import ExecutionRecord, PauseAnswer, Paused
from yieldstar_cli.nouns import dataclass
from yieldstar_cli.project import Project
from yieldstar_cli.storage.contract import Storage


@dataclass(frozen=True, slots=True)
class Scope:
    """What a call pauses or resumes: executions, else a workflow, else the whole file."""

    words: tuple[tuple[str, bool], ...] = ()
    workflow_id: str | None = None
    by_id: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark, what it is on, and what became of it."""

    answer: PauseAnswer
    #: The execution it is on, as it was before; None for a workflow or the file.
    record: ExecutionRecord | None = None


def marks_of(
    words: Sequence[str], literals: Sequence[str], workflow_id: str | None, *, everything: bool
) -> Scope:
    """What this call is about. Raises UsageError unless it is exactly one kind of thing."""
    kinds = (bool(words or literals), workflow_id is not None, everything)
    if not any(kinds):
        raise UsageError("what? Give IDs, --workflow W, or --all", remedy=("ys list",))
    if sum(kinds) != 1:
        raise UsageError("give one of IDs, --workflow W and --all, not several")
    if kinds[0]:
        return Scope(words=tuple(identify.words_of(words, literals)), by_id=True)
    return Scope(workflow_id=workflow_id)


def pause_all(
    call: Call, project: Project, storage: Storage, scope: Scope, reason: str | None
) -> list[Mark]:
    """Set the marks, in one transaction, and ring the workers."""
    from yieldstar_cli.runtime_open import ring_workers
    from yieldstar_cli.runtime_words import user_name

    by = user_name()
    records = _meant(call, project, storage, scope)
    with told_if_unknown("the mark stands", look_at(records)), storage.atomic():
        marks = [
            Mark(
                storage.steering.pause(
                    execution_id=None if record is None else record.execution_id,
                    workflow_id=scope.workflow_id,
                    by=by,
                    reason=reason,
                ),
                record,
            )
            for record in records
        ]
    ring_workers(storage, project.db)
    return marks


def resume_all(call: Call, project: Project, storage: Storage, scope: Scope) -> list[Mark]:
    """Lift the marks, in one transaction, and ring the workers."""
    from yieldstar_cli.runtime_open import ring_workers

    records = _meant(call, project, storage, scope)
    with told_if_unknown("the mark is gone", look_at(records)), storage.atomic():
        marks = [
            Mark(
                storage.steering.resume(
                    execution_id=None if record is None else record.execution_id,
                    workflow_id=scope.workflow_id,
                ),
                record,
            )
            for record in records
        ]
    ring_workers(storage, project.db)
    return marks


def _meant(
    call: Call, project: Project, storage: Storage, scope: Scope
) -> Sequence[ExecutionRecord | None]:
    """The records that are meant; one None stands for a workflow, or the file."""
    if scope.by_id:
        return find_all(call, project, storage, scope.words)
    name = scope.workflow_id
    if name is not None and not _known(storage, name):
        from yieldstar_cli import checking

        try:
            checking.by_name(storage, project, name, trust=trust_of(call))
        except UnknownWorkflow as error:
            why = (*error.why[:-1], "Nothing was changed.")
            raise UnknownWorkflow(error.message, why=why, remedy=error.remedy[:1]) from None
    return [None]


def _known(storage: Storage, workflow_id: str) -> bool:
    """Whether the file knows of this workflow, although its module may be gone."""
    marked = any(mark.workflow_id == workflow_id for mark in storage.steering.pauses())
    return marked or bool(storage.reader.counts(workflow_id))


# --- telling -------------------------------------------------------------------------------------


def tell_marks(call: Call, storage: Storage, scope: Scope, marks: Sequence[Mark]) -> int:
    """Print what became of the marks; the exit status. Raises Ended for a single ended one."""
    single = not scope.by_id or len(scope.words) == 1
    first = marks[0].record if marks else None
    if single and first is not None and marks[0].answer == "ignored":
        record = storage.executions.get(first.execution_id) or first
        raise Ended(record, call.times, "Nothing was changed.")
    answers = [_answer(scope, mark) for mark in marks]
    lines = [_line(call, storage, scope, mark) for mark in marks]
    tell(call, answers, lines, single=single)
    for mark in marks:
        if mark.answer != "paused" and mark.record is not None:
            hint_paused(call, storage, mark.record.execution_id, above=True)
    return status_of(answers) if scope.by_id else exits.DONE


def _answer(scope: Scope, mark: Mark) -> Answer:
    if mark.record is not None:
        return answer_of(mark.record.execution_id, mark.answer)
    kind = "all" if scope.workflow_id is None else "workflow"
    return {
        "schema": "ys.answer/1",
        "execution_id": None,
        "scope": kind,
        "workflow_id": scope.workflow_id,
        "answer": mark.answer,
    }


def _line(call: Call, storage: Storage, scope: Scope, mark: Mark) -> str:
    if mark.record is not None:
        what, piped = (safe.visible(mark.record.execution_id),) * 2
    elif scope.workflow_id is not None:
        piped = safe.visible(scope.workflow_id)
        what = f"workflow {piped}"
    else:
        what, piped = "everything", "*"
    if not call.drawn:
        return f"{piped}\t{mark.answer}"
    look = call.look
    good, dot = look.paint("good", look.g("✓")), look.g("·")
    match mark.answer:
        case "paused":
            return f"{good} Paused {what}. No delivery of it begins; steps that run end."
        case "resumed":
            return f"{good} Resumed {what}."
        case "ignored":
            return f"{dot} Nothing to do for {what}: it has ended."
        case "unchanged":
            found = _standing(storage, scope, mark)
            begin = what if mark.record is not None else what[:1].upper() + what[1:]
            if found is None and piped == "*":
                return f"{dot} There was no pause of everything."
            if found is None:
                return f"{dot} {begin} was not paused."
            return f"{dot} {begin} was paused already{by_whom(call, found)}."


def _standing(storage: Storage, scope: Scope, mark: Mark) -> Paused | None:
    """The mark that stands on what the call is about, if one does."""
    if mark.record is not None:
        found = storage.executions.get(mark.record.execution_id)
        paused = None if found is None else found.paused
        return paused if paused is not None and paused.scope == "execution" else None
    for paused in storage.steering.pauses():
        if paused.workflow_id == scope.workflow_id:
            return paused
    return None
