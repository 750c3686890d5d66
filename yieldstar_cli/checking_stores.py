"""Checks a store's state before it is written: which type it has here, and whether it fits (S7).

The type of a store's name is one that a module of the workflow directory holds by itself: the
modules are loaded, and nothing is imported because a name was given or the file has it.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from yieldstar_cli.errors import (
    ExecutionAdmissionError,
    InvalidStore,
    UnknownStore,
    UnserializableValue,
    UsageError,
)
from yieldstar_cli.failures_text import storable
from yieldstar_cli.project import Project
from yieldstar_cli.trust import Trust

if TYPE_CHECKING:
    from yieldstar_cli.engine.registry import Registry
    from yieldstar_cli.params import Pair

_NOTHING = "Nothing was changed."
#: Whose types are no author's.
_NOT_AUTHORS = ("yieldstar_cli", "msgspec")


@dataclass(frozen=True, slots=True)
class _Held:
    """A type, and the first file in which it was found."""

    type_: Any
    file: Path


def state_type(project: Project, name: str, *, trust: Trust) -> Any:
    """The type of the states of the stores called `name`, after loading the project's modules.

    Raises UnknownStore if no module holds such a type or several hold different ones,
    InvalidStore for one whose values cannot be stored, UntrustedPath, UsageError. Source: spec S7.
    """
    from yieldstar_cli import codec
    from yieldstar_cli.engine.registry import Registry

    directory = project.workflows
    if directory is None:
        raise UnknownStore(
            f"there is no type {name!r}: no workflow directory is in reach",
            why=(f"Looked for workflows/ from {project.root} upwards.", _NOTHING),
            remedy=("the same line with --workflows DIR",),
        )
    if not os.path.isdir(directory):
        raise UsageError(f"{directory} is not a directory", remedy=(f"mkdir {directory}",))
    trust.check(directory)
    registry = Registry(Path(os.path.realpath(directory)), trust)
    registry.load()
    known = _by_name(registry)
    held = known.get(name, [])
    if not held:
        raise _no_type(registry, name, known)
    if len(held) > 1:
        raise _several(name, held)
    try:
        codec.check_type(held[0].type_)
    except Exception as error:  # annotations are the author's code
        raise InvalidStore(
            f"{held[0].type_.__name__} in {held[0].file.name} is no type of a state: {error}",
            why=(_NOTHING,),
        ) from None
    return held[0].type_


# --- finding the type ----------------------------------------------------------------------------


def _by_name(registry: Registry) -> dict[str, list[_Held]]:
    """Every type that the modules hold, by the name that its stores have."""
    from yieldstar_cli.engine.storing import store_name

    found: dict[str, dict[int, _Held]] = {}
    for path, type_ in _types(registry):
        try:
            name = store_name(type_)
        except ValueError:
            continue  # no store of it can be opened without a name of its own
        found.setdefault(name, {}).setdefault(id(type_), _Held(type_, path))
    return {name: list(held.values()) for name, held in found.items()}


def _types(registry: Registry) -> Iterator[tuple[Path, Any]]:
    """The types in the workflow modules, and in what those import from beside them."""
    todo: list[tuple[Path, ModuleType]] = list(registry.loaded())
    seen = {id(module) for _, module in todo}
    while todo:
        path, module = todo.pop(0)
        for value in list(vars(module).values()):
            if isinstance(value, ModuleType):
                file = _file_of(value)
                if id(value) not in seen and file is not None and file.parent == path.parent:
                    seen.add(id(value))
                    todo.append((file, value))
            elif _is_record(value):
                yield _home(value, path), value


def _is_record(value: object) -> bool:
    if not isinstance(value, type) or value.__module__.partition(".")[0] in _NOT_AUTHORS:
        return False
    return is_dataclass(value) or hasattr(value, "__struct_fields__")


def _home(type_: type, path: Path) -> Path:
    """The file that defines a type found in `path`, where that can be told."""
    import sys

    module = sys.modules.get(type_.__module__)
    return path if module is None else _file_of(module) or path


def _file_of(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(os.path.realpath(file)) if isinstance(file, str) else None


def _several(name: str, held: Sequence[_Held]) -> UnknownStore:
    places = " and ".join(
        storable(f"{one.type_.__module__}.{one.type_.__qualname__} ({one.file})") for one in held
    )
    return UnknownStore(
        f"{len(held)} types are called {name}: {places}",
        why=("Which of them a state has to fit would be a guess.", _NOTHING),
        remedy=("rename one of them",),
    )


def _no_type(registry: Registry, name: str, known: Iterable[str]) -> UnknownStore:
    near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.5)
    why = [f"Did you mean {' or '.join(near)}?"] if near else []
    names = ", ".join(Path(file).name for file in registry.files) or "nothing"
    why += [
        f"Read in {registry.directory}: {names}.",
        "A store is named like the type of its state, a Struct or a dataclass.",
    ]
    why += [f"{Path(error.file).name} does not load: {error.message}" for error in registry.errors]
    return UnknownStore(
        f"no module here has a type {name!r}", why=(*why, _NOTHING), remedy=("ys store list",)
    )


# --- making the state ----------------------------------------------------------------------------


def state_from_pairs(type_: Any, pairs: Sequence[Pair], base: object, *, limit: int) -> str:
    """A whole state as JSON text: `pairs` over `base`, the type's defaults for the rest.

    Raises InvalidStore with the place of what does not fit. Source: spec S7, V4.
    """
    from yieldstar_cli import params

    with _about_a_state():
        made = params.coerce(type_, pairs, base, place="state", option="")
        return _text(made, type_, limit)


def patched_state(type_: Any, state: str, pairs: Sequence[Pair], *, limit: int) -> str:
    """`state` with the fields of `pairs` changed, and no others. Raises InvalidStore.

    What `type_` no longer has is left out, as by any change that a workflow makes.
    """
    from yieldstar_cli import codec

    tree = codec.decode(state)
    try:
        made = codec.decode(state, type_)
        tree = codec.decode(codec.encode(made, type_, place="state"))
    except (codec.DecodeError, UnserializableValue):
        pass  # it may fit once it is patched
    return state_from_pairs(type_, pairs, tree, limit=limit)


def state_from_value(type_: Any, value: object, *, limit: int) -> str:
    """A whole state that a program gives: of its type, or a mapping that fits a Struct's fields.

    Raises InvalidStore with the place of what does not fit.
    """
    from yieldstar_cli import checking, params

    if not isinstance(type_, type) or not _is_record(type_):
        with _about_a_state():
            return _text(value, type_, limit)
    with _about_a_state():
        if not isinstance(value, type_):
            value = checking.opened(value)
        if not isinstance(value, type_ | Mapping):
            raise InvalidStore(
                f"state: expected {type_.__name__} or a mapping, got {type(value).__name__}",
                why=(_NOTHING,),
            )
        return _text(params.validate(type_, value, place="state"), type_, limit)


def _text(value: object, type_: Any, limit: int) -> str:
    from yieldstar_cli import codec

    return codec.encode(value, type_, place="state", limit=limit)


@contextmanager
def _about_a_state() -> Iterator[None]:
    """What is said of params said of a state."""
    try:
        yield
    except UnserializableValue as error:
        raise InvalidStore(str(error), why=(_NOTHING,)) from None
    except InvalidStore:
        raise
    except ExecutionAdmissionError as error:
        takes = [line for line in error.why if line.startswith("It takes: ")]
        raise InvalidStore(
            error.message.replace("no such parameter", "no such field"),
            why=(*takes, _NOTHING),
            remedy=tuple(words.strip().removeprefix("-p ") for words in error.remedy),
        ) from None
    except Exception as error:
        # Code of the author's that runs when a state is made: a __post_init__, a _missing_.
        raise InvalidStore(
            f"state: it cannot be made: {type(error).__name__}: {error}", why=(_NOTHING,)
        ) from error


__all__ = ["patched_state", "state_from_pairs", "state_from_value", "state_type"]
