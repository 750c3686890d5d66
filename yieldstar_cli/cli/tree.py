"""Reads the tree of an execution's children: many alike are counted, a few are shown singly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from yieldstar_cli.cli.brief import Brief
from yieldstar_cli.cli.facts import Facts
from yieldstar_cli.model import ExecutionRecord
from yieldstar_cli.nouns import dataclass, field
from yieldstar_cli.storage.contract import Storage

#: Levels below the execution asked about, unless `--depth` says otherwise.
DEPTH = 8
#: So many children of one status are shown singly; more of them are counted.
SINGLES = 5
#: So many children are looked at closely (median, slowest, what they wait for).
CLOSELY = 1_000
#: So many executions are drawn at most.
MOST_DRAWN = 100

_OPEN = ("admitted", "suspended")
_BAD = ("failed", "cancelled")


@dataclass(frozen=True, slots=True)
class Group:
    """Children alike: one workflow, one status, one kind of state."""

    workflow_id: str
    status: str
    count: int
    #: Those looked at: all, or the first ones.
    looked_at: tuple[ExecutionRecord, ...] = ()
    #: How they stand, where that is one thing; with the earliest moment of them.
    brief: Brief | None = None

    @property
    def median_ms(self) -> int:
        """Of those that were looked at; the lower one of two in the middle."""
        return sorted(map(_took, self.looked_at))[(len(self.looked_at) - 1) // 2]

    @property
    def slowest(self) -> ExecutionRecord:
        """The one that took longest."""
        return max(self.looked_at, key=_took)


def _took(record: ExecutionRecord) -> int:
    return record.updated_at - record.admitted_at


@dataclass(slots=True)
class Node:
    """One execution with its children."""

    record: ExecutionRecord
    #: How it stands, while it is open.
    brief: Brief | None = None
    groups: list[Group] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    #: Children that are there and were not read.
    hidden: int = 0


@dataclass(slots=True)
class _Growing:
    storage: Storage
    brief_of: Callable[[ExecutionRecord], Brief]
    left: int = MOST_DRAWN


def grow(
    storage: Storage,
    facts: Facts,
    brief_of: Callable[[ExecutionRecord], Brief],
    *,
    depth: int | None,
) -> Node:
    """The tree to draw; costs what is drawn, and one count for each execution in it."""
    root = Node(facts.record)
    with storage.atomic():
        growing = _Growing(storage, brief_of)
        _grow(growing, root, DEPTH if depth is None else depth)
    return root


def _grow(growing: _Growing, node: Node, depth: int) -> None:
    counts = growing.storage.family.child_counts(node.record.number)
    if not counts:
        return
    if depth <= 0 or growing.left <= 0:
        node.hidden = sum(counts.values())
        return
    singles: list[ExecutionRecord] = []
    for statuses in (("completed",), _BAD, _OPEN):
        of_these = {key: count for key, count in counts.items() if key[1] in statuses}
        if of_these:
            singles += _apart(growing, node, statuses, of_these)
    growing.left -= len(singles)
    for record in singles:
        open_one = not record.status.terminal
        child = Node(record, growing.brief_of(record) if open_one else None)
        node.nodes.append(child)
        _grow(growing, child, depth - 1)


def _apart(
    growing: _Growing, node: Node, statuses: tuple[str, ...], counts: dict[tuple[str, str], int]
) -> list[ExecutionRecord]:
    """Put children of these statuses into groups; those that are shown singly are returned."""
    found = growing.storage.family.children(node.record.number, statuses=statuses, limit=CLOSELY)
    if sum(counts.values()) <= SINGLES:
        return found
    if statuses == _OPEN:
        return _open_apart(growing, node, found, counts)
    singles: list[ExecutionRecord] = []
    for (workflow_id, status), count in sorted(counts.items()):
        alike = [r for r in found if (r.workflow_id, str(r.status)) == (workflow_id, status)]
        few = SINGLES if status != "completed" else 1
        shown = min(few, len(alike)) if count <= few or status != "completed" else 0
        singles += alike[:shown]
        if count > shown:
            node.groups.append(Group(workflow_id, status, count - shown, tuple(alike[shown:])))
    return singles


def _open_apart(
    growing: _Growing,
    node: Node,
    found: list[ExecutionRecord],
    counts: dict[tuple[str, str], int],
) -> list[ExecutionRecord]:
    """Open children by what they wait for: what several wait for is told once."""
    alike: dict[tuple[str, str, str], list[tuple[ExecutionRecord, Brief]]] = {}
    for record in found:
        brief = growing.brief_of(record)
        key = (record.workflow_id, str(record.status), brief.kind)
        alike.setdefault(key, []).append((record, brief))
    singles: list[ExecutionRecord] = []
    told: Counter[tuple[str, str]] = Counter()
    for (workflow_id, status, _), pairs in alike.items():
        records = tuple(record for record, _ in pairs)
        if len(pairs) > 1 and len(node.groups) < 3 * SINGLES:
            first = min((brief for _, brief in pairs), key=_moment)
            node.groups.append(Group(workflow_id, status, len(pairs), records, first))
        elif len(pairs) == 1 and len(singles) < SINGLES:
            singles += records
        else:
            continue
        told[workflow_id, status] += len(pairs)
    for (workflow_id, status), count in sorted(counts.items()):
        beyond = count - told[workflow_id, status]
        if beyond > 0:
            node.groups.append(Group(workflow_id, status, beyond))
    return singles


def _moment(brief: Brief) -> int:
    return 2**62 if brief.at is None else brief.at


def every(
    storage: Storage, record: ExecutionRecord, depth: int | None, level: int = 0
) -> Iterator[tuple[int, ExecutionRecord]]:
    """All executions of the tree with their level, parents before children: for programs."""
    stack = [(level, record)]
    while stack:
        here, found = stack.pop()
        yield here, found
        if depth is None or here < depth:
            children = storage.family.children(found.number)
            stack += [(here + 1, child) for child in reversed(children)]
