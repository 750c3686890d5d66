"""Says of each open wait what it is for, whether it is ready, and what would end it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from yieldstar_cli.cli.effect_waits import effect_words
from yieldstar_cli.cli.facts import DECISION, Awaited, Facts
from yieldstar_cli.cli.render.times import Times
from yieldstar_cli.cli.steps import Operation
from yieldstar_cli.cli.typed import typed, word
from yieldstar_cli.model import Kind
from yieldstar_cli.nouns import dataclass

if TYPE_CHECKING:
    from yieldstar_cli.cli.verdict import Verdict

#: Judges an awaited execution in turn.
Judge = Callable[[Facts], "Verdict"]
_MESSAGES = (Kind.MESSAGE, Kind.MESSAGES)


@dataclass(frozen=True, slots=True)
class Link:
    """One open wait, and what stands behind it."""

    operation: Operation
    #: `message "cancel"`, `child charge-43`, `timer 15m`.
    name: str
    #: "none has come", "suspended; it waits for …", "fires 12:15:00, in 9m40s".
    state: str
    #: It is there already: the next delivery takes it up.
    ready: bool = False
    #: The earliest moment at which it can be ready, as far as anyone can know.
    earliest_at: int | None = None
    #: Nothing under way can end it.
    stuck: bool = False
    #: What stands behind it was not looked at: there is too much of it, or too deep.
    unknown: bool = False
    #: Commands that end it or help it on, each labelled ("Send it: ys send …").
    remedies: tuple[str, ...] = ()
    #: The awaited execution and how it stands.
    awaited: Awaited | None = None
    verdict: Verdict | None = None
    #: A further sentence, where it is the only wait.
    note: str = ""

    @property
    def is_execution(self) -> bool:
        """Whether the end of an execution is awaited."""
        return self.operation.target is not None

    @property
    def is_outside(self) -> bool:
        """Whether it waits for a store, or for an effect that another tries."""
        return self.operation.store is not None or self.operation.effect is not None

    @property
    def is_moment(self) -> bool:
        """Whether nothing but a moment is waited for: a timer's, or that of the next try."""
        wait = self.operation
        return wait.due_at is not None and wait.store is None and not self.is_execution


def links_of(waits: list[Operation], facts: Facts, times: Times, judge: Judge) -> list[Link]:
    """The open operations in the order they were named."""
    unread = Counter(facts.unread)
    return [_link(wait, facts, times, judge, unread) for wait in waits]


def _link(wait: Operation, facts: Facts, times: Times, judge: Judge, unread: Counter[str]) -> Link:
    if wait.kind in _MESSAGES:
        return _message(wait, facts, unread)
    if wait.target is not None:
        return _execution(wait, wait.target, facts, times, judge)
    if wait.store is not None:
        return _store(wait, wait.store, facts, times)
    if wait.kind == Kind.EFFECT:
        return _effect(wait, facts, times, judge)
    if wait.tag is not None and wait.state == "waiting":
        return _tagged(wait, wait.tag, facts)
    if wait.due_at is not None:
        return _moment(wait, wait.due_at, facts, times)
    name = f"{wait.kind} {wait.step_key}"
    if wait.state == "running":
        since = times.at(wait.started_at or facts.now_ms)
        return Link(wait, name, f"running since {since}", earliest_at=facts.now_ms)
    return Link(wait, name, "runs with the next delivery", earliest_at=facts.now_ms)


def _moment(wait: Operation, due_at: int, facts: Facts, times: Times) -> Link:
    """A timer, or the pause before the next try."""
    name = f"timer {wait.label or wait.step_key}"
    verb = "fires"
    if wait.kind != Kind.TIMER:
        name = f"{wait.kind} {wait.step_key}, try {wait.attempt}"
        verb = "tries again" if wait.kind == Kind.STEP else "looks again"
    if due_at <= facts.now_ms:
        return Link(wait, name, "its moment has come", ready=True, earliest_at=facts.now_ms)
    return Link(wait, name, f"{verb} {times.coming(due_at)}", earliest_at=due_at)


def _message(wait: Operation, facts: Facts, unread: Counter[str]) -> Link:
    queue = wait.queue or wait.step_key.partition("#")[0]
    several = wait.kind == Kind.MESSAGES
    kind = f" ({wait.label})" if wait.label and wait.label != queue else ""
    name = f'{"messages" if several else "message"} "{queue}"{kind}'
    waiting = unread[queue]
    if waiting > 0:
        unread[queue] = 0 if several else waiting - 1
        state = f"{waiting} {'waits' if waiting == 1 else 'wait'} to be read"
        return Link(wait, name, state, ready=True, earliest_at=facts.now_ms)
    name_typed = typed(facts.record.execution_id)
    value = " …" if kind else ""
    remedies = [f"Send one: ys send {name_typed} {word(queue)}{value}"]
    if queue == DECISION:
        remedies = [
            f"Say yes: ys approve {name_typed}",
            f"Say no: ys reject {name_typed}",
        ]
    return Link(wait, name, "none has come", remedies=tuple(remedies))


def _store(wait: Operation, store: tuple[str, str], facts: Facts, times: Times) -> Link:
    """A condition on a store's state (spec S4-S6)."""
    from yieldstar_cli.cli.store_waits import store_words

    words = store_words(wait, store, facts, times)
    return Link(
        wait,
        words.name,
        words.state,
        ready=words.ready,
        earliest_at=facts.now_ms if words.ready else wait.due_at,
        stuck=words.stuck,
        unknown=words.unknown,
        remedies=words.remedies,
    )


def _effect(wait: Operation, facts: Facts, times: Times, judge: Judge) -> Link:
    """An effect that is in doubt, or that another execution tries (spec F1)."""
    words = effect_words(wait, facts, times)
    if words.awaited is None or words.awaited.facts is None:
        return Link(
            wait,
            words.name,
            words.state,
            ready=words.ready,
            earliest_at=words.earliest_at,
            unknown=words.unknown,
            note=words.note,
        )
    verdict = judge(words.awaited.facts)
    return Link(
        wait,
        words.name,
        f"{words.state}; {verdict.clause}",
        earliest_at=verdict.earliest_at,
        stuck=verdict.judgement == "stuck",
        unknown=verdict.judgement == "unknown",
        remedies=tuple(verdict.remedies),
        awaited=words.awaited,
        verdict=verdict,
    )


def _tagged(wait: Operation, tag: str, facts: Facts) -> Link:
    """A step for which no worker that had the execution has the tag (spec O5)."""
    record = facts.record
    name = f"{wait.kind} {wait.step_key}"
    takers = [
        row for row in facts.crew.who_has(record.workflow_id, record.version) if tag in row.tags
    ]
    if takers:
        names = ", ".join(row.name for row in takers[:3])
        state = f"needs the tag {tag}; worker {names} has it"
        return Link(wait, name, state, earliest_at=facts.now_ms)
    tags = " ".join(f"--tag {word(part)}" for part in dict.fromkeys((*facts.tags, tag)))
    return Link(
        wait,
        name,
        f"needs the tag {tag}, and no live worker has it",
        stuck=True,
        remedies=(f"Start one: ys worker {tags}",),
    )


# --- executions ---------------------------------------------------------------------------------


def _in_a_circle(target: str, own: str) -> str:
    if target == own:
        return "which is itself: that cannot end by itself"
    return f"which waits for {own} in turn: neither can end by itself"


def _execution(wait: Operation, target: str, facts: Facts, times: Times, judge: Judge) -> Link:
    awaited = facts.awaited.get(target)
    record = None if awaited is None else awaited.record
    mine = record is not None and record.parent_execution_id == facts.record.execution_id
    name = f"{'child' if mine else 'execution'} {target}"
    now = facts.now_ms
    if awaited is None:
        # One of very many: not looked at.
        return Link(wait, f"execution {target}", "not looked at", unknown=True)
    if record is None:
        return Link(
            wait, name, "there is no such execution", ready=True, earliest_at=now, awaited=awaited
        )
    if record.status.terminal:
        state = f"{record.status} at {times.at(record.updated_at)}"
        return Link(wait, name, state, ready=True, earliest_at=now, awaited=awaited)
    if awaited.above:
        state = _in_a_circle(target, facts.record.execution_id)
        remedies = (f"End one: ys cancel {typed(target)}",)
        return Link(wait, name, state, stuck=True, remedies=remedies, awaited=awaited)
    if awaited.facts is None:
        state = f"{record.status}; what it waits for was not followed"
        at = record.due_at
        return Link(wait, name, state, earliest_at=at, unknown=True, awaited=awaited)
    verdict = judge(awaited.facts)
    return Link(
        wait,
        name,
        f"{record.status}; {verdict.clause}",
        earliest_at=verdict.earliest_at,
        stuck=verdict.judgement == "stuck",
        unknown=verdict.judgement == "unknown",
        remedies=tuple(verdict.remedies),
        awaited=awaited,
        verdict=verdict,
    )
