"""Prints the tree of an execution's children: drawn for a person, in full for a program."""

from __future__ import annotations

from yieldstar_cli.cli import documents
from yieldstar_cli.cli.brief import Brief, brief
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.facts import Facts
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.tree import every, grow
from yieldstar_cli.cli.verdict import judge
from yieldstar_cli.model import ExecutionRecord
from yieldstar_cli.storage.contract import Storage


def tree_picture(call: Call, storage: Storage, facts: Facts, *, depth: int | None) -> list[str]:
    """The lines for a terminal."""
    from yieldstar_cli.cli.render.tree import tree_lines

    record, times, family = facts.record, call.times, storage.family

    def brief_of(child: ExecutionRecord) -> Brief:
        return brief(
            child,
            lambda found: storage.reader.waits(found.number),
            lambda found: sum(family.child_counts(found.number).values()),
            facts.crew,
            times,
        )

    root = grow(storage, facts, brief_of, depth=depth)
    headline = "" if record.status.terminal else judge(facts, times).headline
    # What it waits for; what stands behind that is drawn below.
    headline = headline.partition("; ")[0].partition(": ")[0].removesuffix(".")
    headline = headline.replace("Waiting", "waiting", 1)
    return tree_lines(root, headline, call.look)


def print_tree(call: Call, storage: Storage, facts: Facts, *, depth: int | None) -> None:
    """Every execution of the tree: a line each in a pipe, one nested document with --json."""
    with storage.atomic():
        found = list(every(storage, facts.record, depth))
    if call.settings.json:
        call.print_document(_nested(found))
        return
    for level, record in found:
        fields = (record.execution_id, record.workflow_id, str(record.status))
        call.print("\t".join([str(level), *map(safe.visible, fields)]))


def _nested(found: list[tuple[int, ExecutionRecord]]) -> documents.Document:
    """The documents of `found`, parents before children, each with its `children`."""
    path: list[documents.Document] = []
    for level, record in found:
        document = documents.relative_document(record) if level else None
        document = document or documents.execution_document(record)
        document["children"] = []
        del path[level:]
        if path:
            path[-1]["children"].append(document)
        path.append(document)
    return path[0]
