"""A workflow's definition: what `@workflow` made of a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from yieldstar_cli.engine.retry import RetryPolicy, Span

if TYPE_CHECKING:
    from yieldstar_cli.engine.functions import Closures


@dataclass(frozen=True, slots=True)
class Definition:
    """One workflow at one version, all that could go wrong at load resolved (R1, O2)."""

    workflow_id: str
    version: int
    #: The author's function: `async def name(step, params)`, or a plain `def`.
    fn: Callable[..., Any]
    #: True for a plain `def`: the whole function is one recorded step.
    plain: bool
    #: The type that params decode to, or None when the function takes none.
    params_type: Any
    #: True when params are the function's own keyword arguments (params_type is a made struct).
    spread: bool
    #: The annotated return type, or Any.
    result_type: Any
    retry: RetryPolicy | None
    timeout: Span | None
    file: str
    line: int
    doc: str
    #: The globals of the author's module: where error classes are named (O2).
    namespace: Mapping[str, Any] = field(repr=False, compare=False)
    #: Names the state of the module's file (mtime and size), for holds (E12).
    module_state: str = ""
    #: What a worker must be started with, all of it, to run this (spec O5).
    tags: frozenset[str] = frozenset()
    #: What is known of functions that its steps run, and that are made while it runs.
    closures: Closures = field(default_factory=WeakKeyDictionary, repr=False, compare=False)

    @property
    def key(self) -> tuple[str, int]:
        """Name and version: what a worker claims by (spec R11)."""
        return self.workflow_id, self.version


def latest(
    definitions: Mapping[tuple[str, int], Definition], workflow_id: str
) -> Definition | None:
    """What new executions and incarnations take: the highest version, None if there is none (R11).

    `definitions` maps name and version to what is loaded.
    """
    versions = [version for name, version in definitions if name == workflow_id]
    return definitions[workflow_id, max(versions)] if versions else None
