"""What an author or a program imports from yieldstar-cli, resolved when it is first asked for.

Lazily, since every command imports this package, also those that need nothing of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yieldstar_cli._version import __version__

if TYPE_CHECKING:
    from yieldstar_cli.awaiting import ExecutionRef
    from yieldstar_cli.engine.authoring import Workflow, workflow
    from yieldstar_cli.engine.effect_answers import EffectAnswer, not_found, settled, unknown
    from yieldstar_cli.engine.operations import BranchHandle, Handle
    from yieldstar_cli.engine.outside import ChildHandle, ExecutionHandle, ExecutionStatus
    from yieldstar_cli.engine.retry import RetryPolicy
    from yieldstar_cli.engine.step import Step
    from yieldstar_cli.engine.store_handles import Snapshot
    from yieldstar_cli.engine.storing import Store
    from yieldstar_cli.engine.this_step import ThisStep, this_step
    from yieldstar_cli.engine.views import plain
    from yieldstar_cli.errors import (
        Cancelled,
        ChildCancelled,
        ChildFailed,
        EffectMismatch,
        ExecutionAdmissionError,
        ExecutionCancelled,
        ExecutionFailed,
        ExecutionIdConflict,
        ExecutionNotFound,
        ExecutionPruned,
        ExecutionTerminal,
        Fatal,
        InvalidExecutionEvent,
        InvalidMessage,
        InvalidMessageEvent,
        InvalidParams,
        InvalidState,
        InvalidStore,
        OutcomePruned,
        RetryableError,
        StepFailed,
        StepTimeout,
        StoreChanged,
        StoreConflict,
        StoreMissing,
        UnknownStore,
        UnknownWorkflow,
        UnserializableValue,
        WaitTimeout,
        WorkflowError,
        YieldstarError,
    )
    from yieldstar_cli.model import ExecutionRecord, Message
    from yieldstar_cli.runtime import Runtime, open_runtime

__all__ = [
    "BranchHandle",
    "Cancelled",
    "ChildCancelled",
    "ChildFailed",
    "ChildHandle",
    "EffectAnswer",
    "EffectMismatch",
    "ExecutionAdmissionError",
    "ExecutionCancelled",
    "ExecutionFailed",
    "ExecutionHandle",
    "ExecutionIdConflict",
    "ExecutionNotFound",
    "ExecutionPruned",
    "ExecutionRecord",
    "ExecutionRef",
    "ExecutionStatus",
    "ExecutionTerminal",
    "Fatal",
    "Handle",
    "InvalidExecutionEvent",
    "InvalidMessage",
    "InvalidMessageEvent",
    "InvalidParams",
    "InvalidState",
    "InvalidStore",
    "Message",
    "OutcomePruned",
    "RetryPolicy",
    "RetryableError",
    "Runtime",
    "Snapshot",
    "Step",
    "StepFailed",
    "StepTimeout",
    "Store",
    "StoreChanged",
    "StoreConflict",
    "StoreMissing",
    "ThisStep",
    "UnknownStore",
    "UnknownWorkflow",
    "UnserializableValue",
    "WaitTimeout",
    "Workflow",
    "WorkflowError",
    "YieldstarError",
    "__version__",
    "not_found",
    "open_runtime",
    "plain",
    "settled",
    "this_step",
    "unknown",
    "workflow",
]

#: Which module holds the names that `errors` does not.
_HOMES = {
    "ExecutionRecord": "model",
    "ExecutionRef": "awaiting",
    "BranchHandle": "engine.operations",
    "ChildHandle": "engine.outside",
    "ExecutionHandle": "engine.outside",
    "EffectAnswer": "engine.effect_answers",
    "ExecutionStatus": "engine.outside",
    "Handle": "engine.operations",
    "Message": "model",
    "RetryPolicy": "engine.retry",
    "Runtime": "runtime",
    "Snapshot": "engine.store_handles",
    "Step": "engine.step",
    "Store": "engine.storing",
    "ThisStep": "engine.this_step",
    "Workflow": "engine.authoring",
    "not_found": "engine.effect_answers",
    "open_runtime": "runtime",
    "plain": "engine.views",
    "settled": "engine.effect_answers",
    "this_step": "engine.this_step",
    "unknown": "engine.effect_answers",
    "workflow": "engine.authoring",
}


if not TYPE_CHECKING:  # else every name would seem to exist

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        home = _HOMES.get(name, "errors")
        found: object = getattr(import_module(f"{__name__}.{home}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted(__all__)
