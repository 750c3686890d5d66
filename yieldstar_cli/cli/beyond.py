"""Reads what an execution's waits lead to: awaited executions, and what those wait for."""

from __future__ import annotations

from collections.abc import Callable

from yieldstar_cli.cli.facts import Awaited, Facts, gather_open
from yieldstar_cli.model import ExecutionRecord, Paused
from yieldstar_cli.nouns import dataclass, field, replace
from yieldstar_cli.storage.contract import Storage

#: No chain is followed further down than this.
DEEPEST = 25
#: So many executions are followed in all; of more awaited ones the most telling one is.
MOST_FOLLOWED = 50
#: Open children are read in one go; others that are awaited one by one, so many at most.
MOST_CHILDREN = 1_000
MOST_OTHERS = 100
#: From here on children are read in one go.
_MANY = 5
_OPEN = ("admitted", "suspended")

#: What a workflow asks of a worker, as the catalog knows it.
TagsOf = Callable[[ExecutionRecord], tuple[str, ...]]


@dataclass(slots=True)
class _Reading:
    storage: Storage
    tags_of: TagsOf
    pauses: tuple[Paused, ...]
    left: int = MOST_FOLLOWED
    #: Those that were followed: what two executions wait for is read once.
    known: dict[str, Awaited] = field(default_factory=dict)


def look_beyond(storage: Storage, facts: Facts, tags_of: TagsOf) -> Facts:
    """`facts` with what its waits lead to, in one view; costs what it follows, not the tree."""
    with storage.atomic():
        reading = _Reading(storage, tags_of, tuple(storage.steering.pauses()))
        return _followed(reading, facts, (facts.record.execution_id,))


def _followed(reading: _Reading, facts: Facts, path: tuple[str, ...]) -> Facts:
    record = facts.record
    open_ones = not record.status.terminal
    targets = list(dict.fromkeys(wait.target for wait in facts.waits if wait.target is not None))
    counts = facts.child_counts
    if targets and not counts:
        counts = reading.storage.family.child_counts(record.number)
    return replace(
        facts,
        awaited=_awaited(reading, facts, [*targets, *_holders(facts)], path),
        child_counts=counts,
        pauses=_pauses(reading, record) if open_ones else (),
        tags=reading.tags_of(record) if open_ones else (),
    )


def _holders(facts: Facts) -> list[str]:
    """The executions that hold an effect which this one waits for (spec F1)."""
    effects = [facts.effects.get(wait.effect) for wait in facts.waits if wait.effect is not None]
    holders = dict.fromkeys(effect.holder for effect in effects if effect is not None)
    return [holder for holder in holders if holder not in (None, facts.record.execution_id)]


def _pauses(reading: _Reading, record: ExecutionRecord) -> tuple[Paused, ...]:
    return tuple(
        mark
        for mark in reading.pauses
        if mark.scope == "all" or mark.workflow_id == record.workflow_id
    )


def _awaited(
    reading: _Reading, facts: Facts, targets: list[str], path: tuple[str, ...]
) -> dict[str, Awaited]:
    found = _looked_at(reading, facts, targets, path)
    for one in sorted(found.values(), key=_urgency):
        record = one.record
        if record is None or record.status.terminal or one.above or one.facts is not None:
            continue
        if reading.left <= 0 or len(path) > DEEPEST:
            break
        reading.left -= 1
        below = gather_open(reading.storage, record, facts.crew, facts.now_ms)
        inner = _followed(reading, below, (*path, record.execution_id))
        found[record.execution_id] = Awaited(record.execution_id, record, inner)
        if not _leads_back(inner):
            reading.known[record.execution_id] = found[record.execution_id]
    return found


def _looked_at(
    reading: _Reading, facts: Facts, targets: list[str], path: tuple[str, ...]
) -> dict[str, Awaited]:
    """The awaited executions, none of them followed yet."""
    storage = reading.storage
    records: dict[str, ExecutionRecord] = {}
    if len(targets) > _MANY:
        children = storage.family.children(facts.record.number, statuses=_OPEN, limit=MOST_CHILDREN)
        records = {child.execution_id: child for child in children}
    found: dict[str, Awaited] = {}
    others = 0
    for target in targets:
        if target in reading.known:
            found[target] = reading.known[target]
            continue
        if target not in records:
            others += 1
            if others > MOST_OTHERS:
                continue
        record = records.get(target) or storage.executions.get(target)
        found[target] = Awaited(target, record, above=target in path)
    return found


def _leads_back(facts: Facts) -> bool:
    """Whether it waits for one above it: true on this path only, so not kept for others."""
    return any(
        one.above or (one.facts is not None and _leads_back(one.facts))
        for one in facts.awaited.values()
    )


def _urgency(one: Awaited) -> tuple[int, int]:
    """Those first that cannot go on by themselves, then by their next wake."""
    record = one.record
    if record is None:
        return 0, 0
    stuck = record.poisoned_at is not None or record.paused is not None or record.held is not None
    return (1, 0) if stuck else (2, 2**62 if record.due_at is None else record.due_at)
