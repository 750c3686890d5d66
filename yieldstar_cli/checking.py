"""Checks a trigger before anything is written: is there such a workflow, do its params fit (K4).

What the modules hold is cached in the database, by each file's modification time and size; only
what changed since is loaded. Nothing is imported because a name was given.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yieldstar_cli.checking_kept import Kept, look
from yieldstar_cli.errors import (
    InvalidExecutionEvent,
    StorageError,
    UnknownWorkflow,
    UnserializableValue,
    UsageError,
    WorkflowImportFailed,
)
from yieldstar_cli.failures_text import storable
from yieldstar_cli.model import ModuleInfo, WorkflowInfo
from yieldstar_cli.nouns import dataclass
from yieldstar_cli.project import Project
from yieldstar_cli.trust import Trust

if TYPE_CHECKING:
    from yieldstar_cli.engine.authoring import Workflow
    from yieldstar_cli.engine.catalog import Found
    from yieldstar_cli.engine.definition import Definition
    from yieldstar_cli.engine.registry import Registry
    from yieldstar_cli.json_text import Json
    from yieldstar_cli.params_plain import Pair
    from yieldstar_cli.storage.contract import Storage


@dataclass(frozen=True, slots=True)
class Target:
    """The workflow that an execution is admitted for, and what its params have to be."""

    workflow_id: str
    version: int = 1
    #: The definition, where its module had to be loaded or a workflow object was given.
    definition: Definition | None = None
    #: What the cache knows of it.
    info: WorkflowInfo | None = None
    #: What `Runtime.wait` decodes the result to.
    result_type: Any = Any

    @property
    def checked(self) -> bool:
        """False if no workflow directory is in reach: admitted by name, params as they are."""
        return self.definition is not None or self.info is not None

    def params_type(self) -> Any:
        """The type that params have to fit; None where nothing is known of the workflow."""
        from yieldstar_cli import params

        if self.definition is not None:
            return self.definition.params_type or params.NoParams
        return None if self.info is None else params.rebuild(self.info.params_description)

    def plain_text(self, pairs: Sequence[Pair], limit: int) -> Json | None:
        """What `fit` would make of `-p` options alone, where that is plain to see; else None."""
        from yieldstar_cli.params_plain import text_of

        known = self.info is not None and self.definition is None
        return text_of(self.info.params_description, pairs, limit) if known and self.info else None

    def fit(self, value: object, *, limit: int | None = None) -> object:
        """`value` as storage takes it: validated, defaults filled in (spec E4).

        `limit` is the most bytes of its text. Raises InvalidParams, InvalidExecutionEvent.
        """
        from yieldstar_cli import codec, params

        type_ = self.params_type()
        if type_ is None:
            return {} if value is None else value
        if self.info is not None and not isinstance(value, type_):
            # The type is the cache's or the module's own: a caller's instances are not of it.
            value = opened(value)
        made = params.validate(type_, value)
        try:
            text = codec.encode(made, type_, place="params", limit=limit or codec.MAX_VALUE)
        except UnserializableValue as error:
            raise InvalidExecutionEvent(error.place, error.reason) from None
        return codec.Json(text)


@dataclass(frozen=True, slots=True)
class Catalog:
    """What a workflow directory holds now, and what of it was loaded to know that."""

    directory: Path
    modules: tuple[ModuleInfo, ...]
    registry: Registry | None


def by_object(workflow: Workflow[..., Any]) -> Target:
    """The target of a workflow object. Raises InvalidWorkflow if its annotations fail."""
    definition = workflow.definition
    return Target(
        definition.workflow_id,
        definition.version,
        definition=definition,
        result_type=definition.result_type,
    )


def by_name_again(
    storage: Storage, project: Project, workflow_id: str, *, trust: Trust, kept: Kept, now: int
) -> Target:
    """As `by_name`, for one that is asked often: `kept` holds what was found before."""
    found = kept.get(workflow_id, now)
    if found is not None:
        return found
    seen = None if project.workflows is None else look(project.workflows, now)
    target = by_name(storage, project, workflow_id, trust=trust)
    # What only its module can check is loaded anew each time: it may hang on other files.
    if seen is not None and target.definition is None:
        kept.put(workflow_id, target, seen)
    return target


def by_name(storage: Storage | None, project: Project, workflow_id: str, *, trust: Trust) -> Target:
    """The target of a name: its latest version.

    Without a workflow directory in reach the name is taken as it is (`Target.checked` is false).
    Raises InvalidExecutionEvent for what is no name, UnknownWorkflow, WorkflowImportFailed for
    two workflows of one name, UntrustedPath. `storage` None: nothing is cached.
    """
    from yieldstar_cli.engine import catalog
    from yieldstar_cli.engine.sources import NAME

    if not isinstance(workflow_id, str) or not NAME.fullmatch(workflow_id):
        raise InvalidExecutionEvent(
            "workflow_id",
            f"{workflow_id!r} is not a workflow's name",
            why=(_how_named(workflow_id),),
            remedy=("ys workflows",),
        )
    if project.workflows is None:
        return Target(workflow_id)
    known = read_catalog(storage, project.workflows, trust=trust)
    found = catalog.look_up(known.modules, workflow_id)
    if found.twice:
        raise _twice(workflow_id, found.twice)
    if found.latest is None:
        raise _unknown(known, workflow_id)
    return Target(
        workflow_id,
        found.latest.version,
        definition=_definition(known, found, trust),
        info=found.latest,
    )


def _how_named(word: object) -> str:
    from yieldstar_cli.engine.sources import NAME

    if isinstance(word, str) and NAME.fullmatch(name := word.replace("_", "-")):
        return f"The function {word} is the workflow {name}, unless it was given another name."
    return "A name is a letter, then up to 99 letters, digits and hyphens."


def read_catalog(storage: Storage | None, directory: Path, *, trust: Trust) -> Catalog:
    """What `directory` holds; only files that changed since the cache was written are loaded.

    The cache is brought up to date where it can be written. Raises UntrustedPath, UsageError.
    """
    if not os.path.isdir(directory):
        raise UsageError(f"{directory} is not a directory", remedy=(f"mkdir {directory}",))
    from yieldstar_cli.engine.sources import source_files, state_of

    trust.check(directory)
    directory = Path(os.path.realpath(directory))
    present = {storable(str(path)): state_of(path) for path in source_files(directory)}
    cached = {} if storage is None else {m.path: m for m in storage.catalog.modules(str(directory))}
    changed = {
        path
        for path, state in present.items()
        if path not in cached or (cached[path].mtime_ns, cached[path].size) != state
    }
    gone = cached.keys() - present.keys()
    if not changed and not gone:
        return Catalog(directory, tuple(cached.values()), None)
    # What imported a file that is gone may not load any more: then all are looked at again.
    return _loaded(storage, directory, {} if gone else cached, changed, trust)


def refresh_catalog(storage: Storage, registry: Registry) -> None:
    """Write what `registry` loaded into the cache; harmless where it cannot be written."""
    from yieldstar_cli.engine.catalog import to_module_infos

    # The cache saves time and decides nothing: without it the modules are loaded again.
    with suppress(StorageError):
        storage.catalog.put(str(registry.directory), to_module_infos(registry))


def _loaded(
    storage: Storage | None,
    directory: Path,
    cached: dict[str, ModuleInfo],
    changed: set[str],
    trust: Trust,
) -> Catalog:
    from yieldstar_cli.engine import sources
    from yieldstar_cli.engine.catalog import to_module_infos
    from yieldstar_cli.engine.registry import Registry

    stale = {Path(path) for path in changed}
    chosen = [
        path
        for path in sources.workflow_files(directory)
        if storable(str(path)) in changed
        or storable(str(path)) not in cached
        or stale & _imported(path, directory)
    ]
    registry = Registry(directory, trust)
    registry.load(chosen)
    fresh = {module.path: module for module in to_module_infos(registry)}
    kept = {path: m for path, m in cached.items() if path not in fresh and os.path.exists(path)}
    infos = tuple({**kept, **fresh}[path] for path in sorted({**kept, **fresh}))
    if storage is not None:
        with suppress(StorageError):
            storage.catalog.put(str(directory), infos)
    return Catalog(directory, infos, registry)


def _imported(path: Path, directory: Path) -> set[Path]:
    from yieldstar_cli.engine.modules import local_imports

    return set(local_imports(path, directory))


def _definition(known: Catalog, found: Found, trust: Trust) -> Definition | None:
    """The definition, if its module was loaded or is the only one that can check the params."""
    from yieldstar_cli.params_plain import opaque

    assert found.latest is not None
    key = (found.latest.workflow_id, found.latest.version)
    if known.registry is not None and key in known.registry.definitions:
        return known.registry.definitions[key]
    if not opaque(found.latest.params_description):
        return None
    from yieldstar_cli.engine.registry import Registry

    registry = Registry(known.directory, trust)
    registry.load([Path(found.module)])
    return registry.definitions.get(key)


def opened(value: object) -> object:
    """`value` with Structs and dataclasses as mappings of their fields, at any depth.

    What is too deep to be stored, or holds itself, is left to the codec as it is: it says where.
    """
    try:
        return _opened(value)
    except RecursionError:
        return value


def _opened(value: object) -> object:
    from dataclasses import fields, is_dataclass

    if not isinstance(value, type) and is_dataclass(value):
        return {field.name: _opened(getattr(value, field.name)) for field in fields(value)}
    names = getattr(value, "__struct_fields__", None)
    if names is not None and not isinstance(value, type):
        encoded = getattr(value, "__struct_encode_fields__", names)
        return {
            shown: _opened(getattr(value, name)) for name, shown in zip(names, encoded, strict=True)
        }
    if isinstance(value, Mapping):
        return {key: _opened(part) for key, part in value.items()}
    return [_opened(part) for part in value] if type(value) is list else value


def _twice(workflow_id: str, places: Sequence[WorkflowInfo]) -> WorkflowImportFailed:
    said = " and ".join(f"{info.file}:{info.line}" for info in places)
    return WorkflowImportFailed(
        f"two workflows are called {workflow_id} version {places[0].version}: {said}",
        why=("Which of them runs would hang on the order of loading. Nothing was stored.",),
        remedy=('rename one: @workflow(id="…")', "or give it a version: @workflow(version=2)"),
    )


def _unknown(known: Catalog, workflow_id: str) -> UnknownWorkflow:
    from yieldstar_cli.engine.catalog import nearest

    broken = [(Path(m.path).name, m.error) for m in known.modules if m.error]
    read = [Path(m.path).name for m in known.modules if not Path(m.path).name.startswith("_")]
    near = nearest(known.modules, workflow_id)
    why = [f"Did you mean {' or '.join(near)}?"] if near else []
    if read:
        why.append(f"Read in {known.directory}: {', '.join(read)}.")
    else:
        why.append(f"{known.directory} holds no modules.")
    why += [f"{name} does not load: {error}" for name, error in broken]
    return UnknownWorkflow(
        f"there is no workflow {workflow_id!r}",
        why=(*why, "Nothing was stored."),
        remedy=("ys workflows", *(f"ys trigger {name}" for name in near[:1])),
    )
