"""The JSON document of `ys explain`: the verdict, and each wait with the chain behind it."""

from __future__ import annotations

from yieldstar_cli.cli.documents import Document, moment
from yieldstar_cli.cli.facts import Facts
from yieldstar_cli.cli.links import Link
from yieldstar_cli.cli.verdict import Verdict
from yieldstar_cli.model import Kind

#: Of more waits the first ones stand in the document, and how many there are.
MOST_WAITS = 100


def explain_document(facts: Facts, verdict: Verdict) -> Document:
    """`ys.explain/1`."""
    return {
        "schema": "ys.explain/1",
        "execution_id": facts.record.execution_id,
        "verdict": verdict.judgement,
        "text": " ".join([verdict.headline, *verdict.notes, *verdict.asides]),
        "waits": [_wait(link) for link in verdict.links[:MOST_WAITS]],
        "waits_count": len(verdict.links),
        "earliest_at": moment(verdict.earliest_at),
        "remedies": [command(remedy) for remedy in verdict.remedies],
    }


def command(remedy: str) -> str:
    """The command of a labelled remedy."""
    return remedy.partition(": ")[2] or remedy


def _wait(link: Link) -> Document:
    operation = link.operation
    on: Document = {
        "step_key": operation.step_key,
        "label": operation.label,
        "state": operation.state,
        "text": link.state,
        "stuck": link.stuck,
    }
    for name, value in (("queue", operation.queue), ("tag", operation.tag)):
        if value is not None:
            on[name] = value
    if operation.store is not None:
        on |= {"store": operation.store[0], "store_id": operation.store[1]}
    if operation.kind == Kind.EFFECT:
        on["effect_id"] = operation.label
        if link.awaited is not None:
            on["held_by"] = _execution(link)
    if operation.attempt > 1:
        on["attempt"] = operation.attempt
    if operation.target is not None:
        on |= _execution(link)
    return {
        "kind": operation.kind,
        "ready": link.ready,
        "due_at": moment(operation.due_at),
        "on": on,
    }


def _execution(link: Link) -> Document:
    """The awaited execution, and what it waits for in turn."""
    found = link.awaited.record if link.awaited is not None else None
    document: Document = {
        "execution_id": link.awaited.execution_id if link.awaited else link.operation.target,
        "workflow_id": None if found is None else found.workflow_id,
        "status": None if found is None else str(found.status),
    }
    if link.verdict is not None:
        document["verdict"] = link.verdict.judgement
        document["waits"] = [_wait(inner) for inner in link.verdict.links[:MOST_WAITS]]
        document["earliest_at"] = moment(link.verdict.earliest_at)
    return document
