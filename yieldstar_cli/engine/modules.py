"""Loads the modules of one workflow directory: trusted, from source, once, whole (spec R1, K5).

Python's own machinery does the importing, with a loader of ours for this directory: it checks
each file's owner before it runs, and reads no `.pyc` that someone else may have put beside it.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from importlib.abc import PathEntryFinder
from importlib.machinery import FileFinder, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from yieldstar_cli.engine.sources import State, state_of, workflow_files

#: What a module that we loaded carries: the directory it was loaded for.
_OURS = "__workflow_directory__"

Check = Callable[[Path], None]


def local_imports(path: Path, directory: Path) -> list[Path]:
    """The files of `directory` that `path` imports, those they import included, in any order.

    Read from the source without running it; what cannot be parsed imports nothing.
    """
    found: dict[Path, None] = {}
    waiting = [path]
    while waiting:
        for name in _imported_names(waiting.pop()):
            for candidate in (directory / f"{name}.py", directory / name / "__init__.py"):
                if candidate != path and candidate not in found and os.path.isfile(candidate):
                    found[candidate] = None
                    waiting.append(candidate)
    return list(found)


def _imported_names(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def shadowed(stem: str) -> str | None:
    """What else `import stem` would find: the reason to refuse the file, or None (spec R1)."""
    if stem in sys.stdlib_module_names or stem in sys.builtin_module_names:
        return f"`{stem}` is a module of Python's standard library"
    ours = _directories()
    elsewhere = [entry for entry in sys.path if entry and os.path.realpath(entry) not in ours]
    present = sys.modules.get(stem)
    file = getattr(present, "__file__", None)
    if file and os.path.dirname(os.path.realpath(file)) not in ours:
        return f"`{stem}` is {file}"
    try:
        spec = PathFinder.find_spec(stem, elsewhere)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    return f"`import {stem}` finds {spec.origin}"


class Loading:
    """One look at `directory`: prepares `sys.path` for it and executes its modules."""

    def __init__(self, directory: Path, check: Check) -> None:
        self._directory = directory
        self._check = check

    def prepare(self, chosen: Sequence[Path] | None = None) -> None:
        """Make the directory importable, and forget its modules that are to run afresh.

        Those are `chosen` (None: all that we loaded) and every one whose file has changed since.
        """
        self._forget(None if chosen is None else {str(path) for path in chosen})
        root = str(self._directory)
        sys.path_hooks[:] = [
            _Hook(root, self._check),
            *(h for h in sys.path_hooks if not (isinstance(h, _Hook) and h.directory == root)),
        ]
        for cached in [key for key in sys.path_importer_cache if _under(key, root)]:
            del sys.path_importer_cache[cached]
        _append(root)

    def execute(self, path: Path) -> ModuleType:
        """The module of `path`, run unless it was already imported by another one."""
        name = path.stem
        present = sys.modules.get(name)
        if present is not None and _same_file(present, path):
            return present
        spec = importlib.util.spec_from_file_location(
            name, path, loader=_SourceLoader(name, str(path), self._check)
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            # What a module prints is talk, and no part of a command's answer.
            with redirect_stdout(sys.stderr):
                spec.loader.exec_module(module)
        except BaseException:
            if sys.modules.get(name) is module:
                del sys.modules[name]
            raise
        return sys.modules.get(name, module)

    def finish(self) -> None:
        """Mark what was loaded from the directory as ours, so that the next look may renew it."""
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if isinstance(getattr(module, "__loader__", None), _SourceLoader) and file:
                setattr(module, _OURS, str(self._directory))

    def _forget(self, files: set[str] | None) -> None:
        root = str(self._directory)
        stems = {path.stem for path in workflow_files(self._directory)}
        for name, module in list(sys.modules.items()):
            if not _is_ours(module):
                continue
            here = getattr(module, _OURS) == root
            if (here and (files is None or module.__file__ in files or _changed(module))) or (
                not here and name.partition(".")[0] in stems
            ):
                del sys.modules[name]


class _SourceLoader(SourceFileLoader):
    """Runs a module from its source alone, after its owner was checked."""

    def __init__(self, fullname: str, path: str, check: Check) -> None:
        super().__init__(fullname, path)
        self._check = check
        self.state: State = (0, -1)

    def get_code(self, fullname: str) -> CodeType:
        """The module's code, compiled from the file as it is now."""
        path = self.get_filename(fullname)
        self._check(Path(path))
        self.state = state_of(Path(path))
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


class _Hook:
    """Finds the modules of one directory, and of packages in it, with our loader."""

    def __init__(self, directory: str, check: Check) -> None:
        self.directory = directory
        self._loader = _loader_class(check)

    def __call__(self, path: str) -> PathEntryFinder:
        if not _under(path, self.directory):
            raise ImportError(f"{path} is not in {self.directory}")
        return FileFinder(path, (self._loader, [".py"]))


def _loader_class(check: Check) -> type[SourceFileLoader]:
    class Checked(_SourceLoader):
        """The loader of one directory: `FileFinder` gives it no room for the check."""

        def __init__(self, fullname: str, path: str) -> None:
            super().__init__(fullname, path, check)

    return Checked


def _append(root: str) -> None:
    """Put `root` at the end of `sys.path`, but before directories of earlier looks."""
    if root in sys.path:
        return
    ours = _directories()
    at = next((i for i, entry in enumerate(sys.path) if entry in ours), len(sys.path))
    sys.path.insert(at, root)


def _directories() -> set[str]:
    """The workflow directories that this process has looked at."""
    return {hook.directory for hook in sys.path_hooks if isinstance(hook, _Hook)}


def _under(path: str, root: str) -> bool:
    return path == root or path.startswith(root + os.sep)


def _is_ours(module: ModuleType) -> bool:
    return isinstance(module, ModuleType) and _OURS in vars(module)


def _changed(module: ModuleType) -> bool:
    loader = module.__loader__
    return (
        isinstance(loader, _SourceLoader)
        and module.__file__ is not None
        and state_of(Path(module.__file__)) != loader.state
    )


def _same_file(module: ModuleType, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    if not file:
        return False
    try:
        return os.path.samefile(file, path)
    except OSError:
        return False
