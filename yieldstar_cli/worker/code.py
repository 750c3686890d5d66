"""The code a worker runs: loaded from the workflow directory, looked at again, told to the file."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from yieldstar_cli.engine.catalog import to_module_infos
from yieldstar_cli.engine.registry import load_directory
from yieldstar_cli.errors import NoWorkflows, UnknownWorkflow, UsageError
from yieldstar_cli.failures_text import bounded

if TYPE_CHECKING:
    from yieldstar_cli.engine.definition import Definition
    from yieldstar_cli.storage.contract import Storage
    from yieldstar_cli.worker.options import WorkerOptions

#: How old a try must be before a worker's start tries a fault of the code again (spec E12).
QUIET_MS = 300_000
#: How much of a broken module's traceback is told, in bytes.
LONGEST_TRACEBACK = 4_000


class Code:
    """What one worker has loaded, and may run. Raises NoWorkflows, UnknownWorkflow."""

    def __init__(self, options: WorkerOptions, say: Callable[[str, str], None]) -> None:
        self._options = options
        self._say = say
        #: What this worker was started with (spec O5).
        self.tags = frozenset(options.tags)
        directory = options.project.workflows
        if directory is None or not os.path.isdir(directory):
            where = directory or options.project.root / "workflows"
            raise NoWorkflows(
                f"there is no workflow directory at {where}",
                why=("A worker runs what the modules in it define.",),
                remedy=("ys init", "ys worker --workflows DIR"),
            )
        self._registry = load_directory(directory, trusted=[Path(d) for d in options.trust_dirs])
        self._tell_broken()
        if not self._registry.definitions:
            raise NoWorkflows(
                f"no workflow in {directory} could be loaded",
                why=[f"{e.file}:{e.line}: {e.message}" for e in self._registry.errors]
                or ["No file there defines one with @workflow."],
                remedy=("ys workflows",),
            )
        self._check_names()
        self._check_tags()
        self._left_out: set[str] = set()
        self._tell_left_out()

    @property
    def directory(self) -> Path:
        """The workflow directory."""
        return self._registry.directory

    def loaded(self) -> Mapping[tuple[str, int], Definition]:
        """All that is loaded: what the workflows here may start, though others run it."""
        return dict(self._registry.definitions)

    def definitions(self) -> Mapping[tuple[str, int], Definition]:
        """What this worker may run: what is loaded, less what it was told to leave (spec K1), and
        less what asks for a tag that it lacks (spec O5)."""
        return {
            key: definition
            for key, definition in self._wanted().items()
            if not self._lacks(definition)
        }

    def _wanted(self) -> Mapping[tuple[str, int], Definition]:
        only, never = set(self._options.only), set(self._options.except_)
        return {
            key: definition
            for key, definition in self._registry.definitions.items()
            if (not only or key[0] in only) and key[0] not in never
        }

    def _lacks(self, definition: Definition) -> frozenset[str]:
        return definition.tags - self.tags

    def reload(self) -> bool:
        """Load again what changed or failed; True if anything was loaded (spec K1)."""
        changed = self._registry.reload_changed(self._registry.files)
        if changed:
            self._tell_broken()
            self._say("reloaded", ", ".join(sorted(changed)))
            self._tell_left_out()
        return bool(changed)

    def telling(self, worker: int, now: int, *, starts: bool) -> Callable[[Storage], None]:
        """A request that tells the file what is loaded, and ends the holds that this ends (E12).

        A start tries faults of unchanged code again, once in `QUIET_MS`; a reload does not.
        """
        definitions = self.definitions()
        broken = self._registry.broken()
        infos = to_module_infos(self._registry)
        directory, tags = str(self.directory), sorted(self.tags)
        states = {key: found.module_state for key, found in definitions.items()}
        quiet_ms = QUIET_MS if starts else now

        def request(storage: Storage) -> None:
            storage.workers.describe(worker, sorted(definitions), broken, tags)
            storage.catalog.put(directory, infos)
            storage.deliveries.end_code_holds(now, states, quiet_ms=quiet_ms)

        return request

    def _check_names(self) -> None:
        """Refuse a name that no workflow here has: a worker for it would run nothing, unsaid.

        Where a module does not load it may be that one's, so the worker stays and says it.
        """
        loaded = {name for name, _ in self._registry.definitions}
        for option, names in (("--only", self._options.only), ("--except", self._options.except_)):
            for name in sorted(set(names) - loaded):
                near = self._registry.nearest(name)
                sentence = f"there is no workflow {name!r} for {option}"
                if self._registry.errors:
                    self._say("trouble", f"{sentence}, unless in a module that does not load")
                    continue
                raise UnknownWorkflow(
                    sentence,
                    why=[f"Did you mean {' or '.join(near)}?"] if near else [],
                    remedy=("ys workflows", *(f"ys worker {option} {found}" for found in near[:1])),
                )

    def _check_tags(self) -> None:
        """Refuse a worker that could run nothing for want of a tag: it would wait, unsaid."""
        wanted = self._wanted()
        runs = {name for name, _ in self.definitions()}
        idle = [name for name in self._options.only if name not in runs]
        found = [d for (name, _), d in wanted.items() if not runs or name in idle]
        lacking = frozenset[str]().union(*map(self._lacks, found))
        if not lacking:
            return
        names = ", ".join(sorted({d.workflow_id for d in found if self._lacks(d)}))
        only = f"--only {','.join(self._options.only)} " if self._options.only else ""
        raise UsageError(
            f"without {_words(lacking)} this worker cannot run {names}",
            why=("A workflow with tags runs only where each of them was given.",),
            remedy=(f"ys worker {only}{_words(self.tags | lacking)}",),
        )

    def _tell_left_out(self) -> None:
        """Say what is left to workers with its tags (spec O5), each once."""
        lines = [
            f"{name if version == 1 else f'{name} version {version}'} asks for {_words(lacking)}"
            for (name, version), definition in sorted(self._wanted().items())
            if (lacking := self._lacks(definition))
        ]
        for line in lines:
            if line not in self._left_out:
                self._say("left out", line)
        self._left_out = set(lines)

    def _tell_broken(self) -> None:
        for error in self._registry.errors:
            told = f"{error.file}:{error.line}: {error.message}"
            # Where it has no frame of the author's, the sentence has said it all.
            if "\n  File " in f"\n{error.traceback}":
                told += "\n" + bounded(error.traceback.rstrip(), LONGEST_TRACEBACK)
            self._say("broken module", told)


def _words(tags: Iterable[str]) -> str:
    """The options that give these tags."""
    return " ".join(f"--tag {shlex.quote(tag)}" for tag in sorted(tags))
