"""What a registry holds, as plain data for the cache that `ys trigger` checks against (K4)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from yieldstar_cli.engine import sources
from yieldstar_cli.failures_text import storable
from yieldstar_cli.model import ModuleInfo, WorkflowInfo
from yieldstar_cli.nouns import dataclass

if TYPE_CHECKING:
    from yieldstar_cli.engine.definition import Definition
    from yieldstar_cli.engine.registry import Registry
    from yieldstar_cli.engine.retry import RetryPolicy


def to_module_infos(registry: Registry) -> list[ModuleInfo]:
    """One entry for each file that the registry read, broken ones with their reason.

    Files whose names begin with `_` are listed too, without workflows: when one of them changes,
    what imports it has changed.
    """
    errors: dict[str, list[str]] = {}
    for error in registry.own_errors():
        errors.setdefault(error.file, []).append(
            f"line {error.line}: {error.message}" if error.line else error.message
        )
    # The state in which a file was read, not the one it has now: what changed since is stale.
    seen = registry.states()
    infos = []
    for found in sources.source_files(registry.directory):
        path = str(found)
        state = seen.get(path, sources.state_of(found))
        if state is None or (path not in seen and not found.name.startswith("_")):
            continue
        loaded = path in registry.files
        infos.append(
            ModuleInfo(
                path=storable(path),
                mtime_ns=state[0],
                size=state[1],
                error="; ".join(errors[path]) if path in errors else None,
                workflows=tuple(_info(d) for d in registry.declared(path)) if loaded else (),
            )
        )
    return infos


def _info(definition: Definition) -> WorkflowInfo:
    from yieldstar_cli import params

    return WorkflowInfo(
        workflow_id=definition.workflow_id,
        version=definition.version,
        file=definition.file,
        line=definition.line,
        doc=storable(definition.doc),
        params_description=params.describe(definition.params_type),
        params_schema=params.schema(definition.params_type),
        result_schema=params.schema(definition.result_type),
        retry=None if definition.retry is None else _policy(definition.retry),
        tags=tuple(sorted(definition.tags)),
    )


def _policy(policy: RetryPolicy) -> str:
    tries = "no limit" if policy.attempts is None else f"{policy.attempts} attempts"
    return f"{tries}, first after {policy.first}, factor {policy.factor:g}, at most {policy.max}"


@dataclass(frozen=True, slots=True)
class Found:
    """What the catalog says of one workflow name."""

    #: The version that new executions take, or None if there is none.
    latest: WorkflowInfo | None
    #: The file through which that version was registered.
    module: str = ""
    #: Every place that claims this name at one and the same version.
    twice: tuple[WorkflowInfo, ...] = ()


def look_up(known: Iterable[ModuleInfo], workflow_id: str) -> Found:
    """The latest version of `workflow_id`; `twice` if two functions claim it (spec K4, R11)."""
    named = [(m, w) for m in known for w in m.workflows if w.workflow_id == workflow_id]
    if not named:
        return Found(None)
    version = max(info.version for _, info in named)
    # One function reached through two modules is one registration.
    places = {
        (os.path.realpath(info.file), info.line): (module, info)
        for module, info in named
        if info.version == version
    }
    if len(places) > 1:
        return Found(None, twice=tuple(info for _, info in places.values()))
    ((module, info),) = places.values()
    return Found(info, module.path)


def nearest(known: Sequence[ModuleInfo], name: str) -> list[str]:
    """Workflow names that look like `name`, best first."""
    import difflib

    names = {info.workflow_id for module in known for info in module.workflows}
    return difflib.get_close_matches(name, sorted(names))
