"""`ys workflows`: the workflows that can be triggered here, or one of them in detail."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yieldstar_cli.cli import exits
from yieldstar_cli.cli.arguments import Workflows, call_of
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.opened import open_reading, open_writing, project_of, trust_of
from yieldstar_cli.cli.render import safe
from yieldstar_cli.errors import DatabaseReadOnly, NoWorkflows
from yieldstar_cli.model import ExecutionRecord, ModuleInfo, WorkflowInfo
from yieldstar_cli.project import Project

if TYPE_CHECKING:
    from yieldstar_cli.cli.documents import Document
    from yieldstar_cli.storage.contract import Storage

EXAMPLES = ("ys workflows", "ys workflows charge-order --json")
EXITS = (exits.DONE, exits.NOT_FOUND, exits.DATABASE)

_LATEST = 5


def command(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Describe this one.", metavar="[NAME]")] = None,
    workflows: Workflows = None,
) -> None:
    """List the workflows here, or describe one.

    Of one: what it does, its params with types and defaults, its result, and the line that
    triggers it. Only module files that changed since the last look are loaded.
    """
    call = call_of(context)
    project = project_of(call, workflows=workflows)
    if project.workflows is None:
        raise NoWorkflows(
            "there is no workflow directory in reach",
            why=(f"Looked for workflows/ from {project.root} upwards.",),
            remedy=("ys init", "ys workflows --workflows DIR"),
        )
    storage = _opened(call, project)
    from yieldstar_cli import checking

    if name is not None:
        target = checking.by_name(storage, project, name, trust=trust_of(call))
        assert target.info is not None
        _print_one(call, project, storage, target.info)
        return
    known = checking.read_catalog(storage, project.workflows, trust=trust_of(call))
    _print_all(call, project, known.modules)


def _opened(call: Call, project: Project) -> Storage | None:
    """The database, whose cache is brought up to date where that can be; None without one."""
    if not os.path.exists(project.db):
        return None
    try:
        return open_writing(call, project)
    except DatabaseReadOnly:
        return open_reading(call, project)


def _print_all(call: Call, project: Project, modules: tuple[ModuleInfo, ...]) -> None:
    found = [info for module in modules for info in module.workflows]
    found = sorted(
        {(info.workflow_id, info.version): info for info in found}.values(),
        key=lambda info: (info.workflow_id, -info.version),
    )
    if call.settings.json:
        call.print_document([_document(info) for info in found])
    elif call.settings.quiet:
        call.print_lines(info.workflow_id for info in found)
    elif not call.drawn:
        for info in found:
            fields = (info.workflow_id, str(info.version), info.file, str(info.line), _first(info))
            call.print("\t".join(safe.visible(part) for part in fields))
    else:
        _draw_all(call, project, found)
    for line in _twice(modules, project):
        call.say(line)
    broken = [module for module in modules if module.error]
    for module in broken:
        name = safe.visible(_relative(module.path, project))
        call.say(f"{name} does not load: {safe.visible(module.error or '')}")


def _twice(modules: tuple[ModuleInfo, ...], project: Project) -> list[str]:
    """A line for each name that two functions claim: no worker loads either."""
    places: dict[tuple[str, int], set[str]] = {}
    for info in (info for module in modules for info in module.workflows):
        place = f"{_relative(info.file, project)}:{info.line}"
        places.setdefault((info.workflow_id, info.version), set()).add(place)
    return [
        safe.visible(
            f"{name}, version {version}, is defined twice, so neither is loaded: "
            f'{" and ".join(sorted(found))}. Rename one: @workflow(id="…")'
        )
        for (name, version), found in sorted(places.items())
        if len(found) > 1
    ]


def _draw_all(call: Call, project: Project, found: list[WorkflowInfo]) -> None:
    from yieldstar_cli.cli.render.table import columns

    if not found:
        call.print(f"No file in {safe.visible(str(project.workflows))} defines a workflow.")
        return
    rows = [
        (
            safe.visible(
                info.workflow_id if info.version == 1 else f"{info.workflow_id} v{info.version}"
            ),
            safe.visible(_first(info)),
            safe.visible(f"{_relative(info.file, project)}:{info.line}"),
        )
        for info in found
    ]
    call.print_lines(columns(("workflow", "what it does", "where"), rows, call.look, shrink=(1, 2)))
    if len(found) == 1 or not call.settings.quiet:
        call.hint(safe.visible(f"Next: ys workflows {found[0].workflow_id}"))


def _print_one(call: Call, project: Project, storage: Storage | None, info: WorkflowInfo) -> None:
    if call.settings.json:
        call.print_document(_document(info))
        return
    from yieldstar_cli.cli.render.workflow import workflow_lines

    latest: list[ExecutionRecord] = []
    if storage is not None:
        latest = storage.reader.find(
            workflow_id=info.workflow_id, sort="admitted", limit=_LATEST, payloads=False
        )
    call.print_lines(workflow_lines(info, _relative(info.file, project), latest, call.look))


def _document(info: WorkflowInfo) -> Document:
    return {
        "schema": "ys.workflow/1",
        "workflow_id": info.workflow_id,
        "version": info.version,
        "file": info.file,
        "line": info.line,
        "doc": info.doc,
        "params": json.loads(info.params_schema),
        "result": json.loads(info.result_schema),
        "retry": info.retry,
        "tags": list(info.tags),
        "schedule": None,
    }


def _first(info: WorkflowInfo) -> str:
    return info.doc.strip().partition("\n")[0]


def _relative(file: str, project: Project) -> str:
    path = Path(file)
    return str(path.relative_to(project.root) if path.is_relative_to(project.root) else path)
