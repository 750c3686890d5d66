"""Which workflows a test needs besides the one it runs: those that it can start as children."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from yieldstar_cli.engine.authoring import Workflow
from yieldstar_cli.engine.definition import Definition
from yieldstar_cli.errors import YieldstarError
from yieldstar_cli.model import ExecutionRecord
from yieldstar_cli.storage.contract import Reader


def of_its_family(
    workflow: Workflow[..., Any], others: Sequence[Workflow[..., Any]] = ()
) -> list[Workflow[..., Any]]:
    """`workflow`, `others`, and every workflow that their modules name, theirs too, and so on.

    A name counts that is a global of the module, an attribute of a module there, or a variable
    that the function sees from the one around it. Of what was given no other version is added.
    """
    found = {(one.workflow_id, one.version): one for one in (workflow, *others)}
    given = {name for name, _ in found}
    new = list(found.values())
    while new:
        for other in _named(new.pop()):
            key = (other.workflow_id, other.version)
            if key not in found and other.workflow_id not in given:
                found[key] = other
                new.append(other)
    return list(found.values())


def refuse_missing(reader: Reader, definitions: Mapping[tuple[str, int], Definition]) -> None:
    """Raise YieldstarError if an unfinished execution waits for a workflow that is not there."""
    for record in reader.find(statuses=("admitted", "suspended"), limit=None, payloads=False):
        if (record.workflow_id, record.version) not in definitions:
            raise unknown_workflow(record, "run(..., workflows=[{name}])")


def unknown_workflow(record: ExecutionRecord, write: str) -> YieldstarError:
    """What to say of an execution whose workflow the test has not named."""
    name = record.workflow_id.replace("-", "_")
    version = f" version {record.version}" if record.version != 1 else ""
    return YieldstarError(
        f"execution {record.execution_id!r} is of workflow {record.workflow_id!r}{version}, "
        f"which this test has not loaded; write: {write.format(name=name)}"
    )


def _named(workflow: Workflow[..., Any]) -> Iterator[Workflow[..., Any]]:
    fn = inspect.unwrap(workflow.fn)
    for cell in getattr(fn, "__closure__", None) or ():
        try:
            yield from _workflows([cell.cell_contents])
        except ValueError:  # a variable that has no value yet
            continue
    yield from _workflows(list(getattr(fn, "__globals__", {}).values()))


def _workflows(values: Iterable[object]) -> Iterator[Workflow[..., Any]]:
    for value in values:
        if isinstance(value, Workflow):
            yield value
        elif isinstance(value, ModuleType):
            yield from (one for one in vars(value).values() if isinstance(one, Workflow))
