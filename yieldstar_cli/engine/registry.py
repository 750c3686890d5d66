"""The registry: which workflows a directory holds, and why some of its modules do not load.

Names are looked up here and nowhere else: nothing is ever imported because data names it.
Source: spec R1, K1, K4, K5.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from yieldstar_cli.engine import authoring, modules, sources
from yieldstar_cli.engine.definition import Definition, latest
from yieldstar_cli.engine.load_errors import LoadError, load_error, sentence
from yieldstar_cli.errors import UsageError
from yieldstar_cli.failures_text import storable
from yieldstar_cli.trust import Trust

#: A workflow's name and version.
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What one file gave: its workflows or its error, and the files it hangs on."""

    path: Path
    #: The state in which each file was read: its own, and those that it imports.
    states: tuple[tuple[Path, sources.State], ...]
    definitions: tuple[Definition, ...] = ()
    error: LoadError | None = None
    #: Errors of single workflows in it.
    refused: tuple[LoadError, ...] = ()
    #: What it was executed as; None if it did not load.
    module: ModuleType | None = None

    def changed(self) -> bool:
        return any(sources.state_of(path) != state for path, state in self.states)


class Registry:
    """The workflows of one directory. `load_directory` makes it."""

    def __init__(self, directory: Path, trust: Trust) -> None:
        self.directory = directory
        self._trust = trust
        self._files: dict[Path, _Loaded] = {}
        #: What can be run: (workflow, version) to definition.
        self.definitions: dict[Key, Definition] = {}
        #: What did not load, by file.
        self.errors: list[LoadError] = []

    @property
    def files(self) -> list[str]:
        """The files that were loaded, or tried, in order."""
        return [str(path) for path in sorted(self._files)]

    def latest(self, workflow_id: str) -> Definition | None:
        """The definition that new executions take: the highest version (spec R11)."""
        return latest(self.definitions, workflow_id)

    def nearest(self, name: str) -> list[str]:
        """Loaded workflow names that look like `name`, best first."""
        return difflib.get_close_matches(name, sorted({name for name, _ in self.definitions}))

    def module_state(self, key: Key) -> str:
        """Names the state of the code of `key`, what its file imports included (spec E12)."""
        return self.definitions[key].module_state

    def file_of(self, key: Key) -> str:
        """The file in the directory through which `key` was registered."""
        for path, loaded in self._files.items():
            if any((d.workflow_id, d.version) == key for d in loaded.definitions):
                return str(path)
        raise KeyError(key)

    def declared(self, file: str) -> tuple[Definition, ...]:
        """What `file` registers as it is now, names included that another file claims too."""
        loaded = self._files[Path(file)]
        return () if loaded.error else loaded.definitions

    def loaded(self) -> list[tuple[Path, ModuleType]]:
        """The files that load, in order, with what each was executed as."""
        found = ((path, self._files[path].module) for path in sorted(self._files))
        return [(path, module) for path, module in found if module is not None]

    def states(self) -> dict[str, sources.State | None]:
        """The state in which each file was read; None if not all saw the same."""
        seen: dict[str, sources.State | None] = {}
        for loaded in self._files.values():
            for path, state in loaded.states:
                seen[str(path)] = state if seen.get(str(path), state) == state else None
        return seen

    def broken(self) -> list[tuple[str, str]]:
        """The file and the reason of each of `errors`, as they can be stored."""
        return [(storable(error.file), error.message) for error in self.errors]

    def own_errors(self) -> list[LoadError]:
        """What is wrong with single files, conflicts between them left aside."""
        found = []
        for path in sorted(self._files):
            loaded = self._files[path]
            found += [loaded.error] if loaded.error else []
            found += loaded.refused
        return found

    def load(self, only: Collection[Path] | None = None) -> None:
        """Execute the directory's modules, or those of `only`, and take up what they register."""
        present = sources.workflow_files(self.directory)
        chosen = [path for path in present if only is None or path in only]
        loading = modules.Loading(self.directory, self._trust.check)
        loading.prepare(None if only is None else chosen)
        try:
            for path in chosen:
                self._files[path] = self._load_file(loading, path)
        finally:
            loading.finish()
        self._gather()

    def reload_changed(self, holding: Iterable[str] = ()) -> set[str]:
        """Look again at files that failed, that are new, or that `holding` names (spec K1).

        `holding` are files of workflows with held executions. What changed is loaded whole; a
        file that no longer loads keeps its old definitions and shows its error. A file that is
        gone takes its error, not its definitions, with it. Returns the files loaded again.
        """
        watched = {Path(file) for file in holding}
        try:
            present = sources.workflow_files(self.directory)
        except UsageError:
            return set()  # the directory is gone for now; what is loaded goes on
        changed = {
            path
            for path in present
            if path not in self._files
            or (
                (path in watched or self._files[path].error or self._files[path].refused)
                and self._files[path].changed()
            )
        }
        gone = [p for p, loaded in self._files.items() if p not in present and loaded.error]
        for path in gone:
            del self._files[path]
        if changed:
            self.load(changed)
        elif gone:
            self._gather()
        return {str(path) for path in changed}

    def _load_file(self, loading: modules.Loading, path: Path) -> _Loaded:
        on = (path, *modules.local_imports(path, self.directory))
        states = tuple((p, sources.state_of(p)) for p in on)
        before = self._files.get(path)
        kept = before.definitions if before is not None else ()
        reason = modules.shadowed(path.stem)
        if reason is not None:
            message = f"{path.name} would shadow another module: {reason}. Rename the file."
            return _Loaded(path, states, kept, LoadError(str(path), 0, message))
        if storable(path.name) != path.name:
            message = "its name is not UTF-8, so nothing could refer to it. Rename the file."
            return _Loaded(path, states, kept, LoadError(str(path), 0, message))
        try:
            module, declared = _execute(loading, path)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a module may raise anything, SystemExit included
            return _Loaded(path, states, kept, load_error(path, error))
        state = ",".join(f"{mtime_ns}:{size}" for _, (mtime_ns, size) in states)
        definitions, refused = [], []
        for workflow in self._declared_by(module, declared):
            try:
                definition = workflow.definition
            except Exception as error:  # annotations are the author's code
                line = workflow.fn.__code__.co_firstlineno
                refused.append(LoadError(str(path), line, sentence(error)))
            else:
                definitions.append(replace(definition, module_state=state))
        return _Loaded(path, states, tuple(definitions), None, tuple(refused), module)

    def _declared_by(
        self, module: ModuleType, declared: Sequence[authoring.Workflow[..., object]]
    ) -> list[authoring.Workflow[..., object]]:
        """The module's own workflows, and those it took from elsewhere.

        What another module of the directory declares is registered there.
        """
        named = [
            v
            for v in vars(module).values()
            if isinstance(v, authoring.Workflow)
            and (v.fn.__module__ == module.__name__ or not self._holds(v.fn.__code__.co_filename))
        ]
        made = [w for w in declared if w.fn.__module__ == module.__name__]
        return list({id(workflow): workflow for workflow in (*made, *named)}.values())

    def _holds(self, file: str) -> bool:
        path = Path(file)
        return (
            path.name[0] not in "_."
            and path.suffix == ".py"
            and Path(os.path.realpath(path.parent)) == self.directory
        )

    def _gather(self) -> None:
        """Take up every file's workflows; refuse those of one name and version (spec K4)."""
        found: dict[Key, dict[tuple[str, int, int], Definition]] = {}
        for path in sorted(self._files):
            for d in self._files[path].definitions:
                # One function reached through two modules is one registration.
                place = (os.path.realpath(d.file), d.line, 0)
                found.setdefault((d.workflow_id, d.version), {}).setdefault(place, d)
        self.errors = self.own_errors()
        self.definitions = {}
        for key, places in found.items():
            if len(places) == 1:
                self.definitions[key] = next(iter(places.values()))
            else:
                self.errors += _twice(key, list(places.values()))


def load_directory(directory: Path, *, trusted: Sequence[Path] = ()) -> Registry:
    """Load all workflow modules directly in `directory`; what is broken stands in `.errors`.

    Raises UntrustedPath if others could write the directory, UsageError if it is none. A module
    that others could write is an error of that module. Source: spec R1, K4, K5.
    """
    if not os.path.isdir(directory):
        raise UsageError(f"{directory} is not a directory", remedy=(f"mkdir {directory}",))
    trust = Trust(tuple(trusted))
    trust.check(directory)
    registry = Registry(Path(os.path.realpath(directory)), trust)
    registry.load()
    return registry


def _execute(
    loading: modules.Loading, path: Path
) -> tuple[ModuleType, list[authoring.Workflow[..., object]]]:
    declared: list[authoring.Workflow[..., object]] = []
    token = authoring.gathering.set(declared)
    try:
        return loading.execute(path), declared
    finally:
        authoring.gathering.reset(token)


def _twice(key: Key, definitions: Sequence[Definition]) -> list[LoadError]:
    places = " and ".join(f"{d.file}:{d.line}" for d in definitions)
    message = (
        f"two workflows are called {key[0]} version {key[1]}: {places}. "
        'Neither is loaded; rename one with @workflow(id="…") or give it a version.'
    )
    return [LoadError(d.file, d.line, message) for d in definitions]
