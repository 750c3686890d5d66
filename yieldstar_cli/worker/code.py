"""The code a worker runs: loaded from the workflow directory, looked at again, told to the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from yieldstar_cli.engine.catalog import to_module_infos
from yieldstar_cli.engine.registry import load_directory
from yieldstar_cli.errors import NoWorkflows, UnknownWorkflow
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

    @property
    def directory(self) -> Path:
        """The workflow directory."""
        return self._registry.directory

    def definitions(self) -> Mapping[tuple[str, int], Definition]:
        """What this worker may run: what is loaded, less what it was told to leave."""
        only, never = set(self._options.only), set(self._options.except_)
        return {
            key: definition
            for key, definition in self._registry.definitions.items()
            if (not only or key[0] in only) and key[0] not in never
        }

    def reload(self) -> bool:
        """Load again what changed or failed; True if anything was loaded (spec K1)."""
        changed = self._registry.reload_changed(self._registry.files)
        if changed:
            self._tell_broken()
            self._say("reloaded", ", ".join(sorted(changed)))
        return bool(changed)

    def telling(self, worker: int, now: int, *, starts: bool) -> Callable[[Storage], None]:
        """A request that tells the file what is loaded, and ends the holds that this ends (E12).

        A start tries faults of unchanged code again, once in `QUIET_MS`; a reload does not.
        """
        definitions = self.definitions()
        broken = self._registry.broken()
        infos = to_module_infos(self._registry)
        directory = str(self.directory)
        states = {key: found.module_state for key, found in definitions.items()}
        quiet_ms = QUIET_MS if starts else now

        def request(storage: Storage) -> None:
            storage.workers.describe(worker, sorted(definitions), broken)
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

    def _tell_broken(self) -> None:
        for error in self._registry.errors:
            told = f"{error.file}:{error.line}: {error.message}"
            # Where it has no frame of the author's, the sentence has said it all.
            if "\n  File " in f"\n{error.traceback}":
                told += "\n" + bounded(error.traceback.rstrip(), LONGEST_TRACEBACK)
            self._say("broken module", told)
