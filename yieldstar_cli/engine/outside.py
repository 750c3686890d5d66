"""Handles of what comes from other executions and goes to them (spec sections 5 and 6).

None of them does anything by itself: the driver issues them, a delivery's round carries what goes
out, and a look brings what came.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from yieldstar_cli.engine import naming
from yieldstar_cli.engine.operations import (
    DurableHandle,
    Operation,
    Site,
    SpawnedHandle,
)
from yieldstar_cli.model import (
    Action,
    CancelOther,
    ChangeStore,
    HoldEffect,
    Kind,
    LetGoEffect,
    OpenStore,
    Send,
    SettleEffect,
    Start,
    WakeOther,
)

if TYPE_CHECKING:
    from yieldstar_cli.engine.driver import Driver

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

LONGEST_ID_BYTES = 255


@dataclass(frozen=True, slots=True)
class ExecutionStatus:
    """How an execution stood when it was asked (spec C4)."""

    execution_id: str
    #: `admitted`, `suspended`, `completed`, `failed`, `cancelled`; None where there is none.
    status: str | None
    #: What it returned, once it has completed.
    result: Any = None
    #: `Name: message` of its error, or the reason of its cancellation.
    error: str | None = None

    @property
    def ended(self) -> bool:
        """True for completed, failed and cancelled."""
        return self.status in ("completed", "failed", "cancelled")


class MessageHandle(DurableHandle[T_co]):
    """The next message of a queue, or the next batch; taken only while it is awaited (O4, M2)."""

    __slots__ = ("message_type", "most", "queue")

    def __init__(
        self, driver: Driver, kind: Kind, queue: str, message_type: Any, most: int, site: Site
    ) -> None:
        super().__init__(driver, kind, queue, _type_name(message_type), site)
        self.queue = queue
        self.message_type = message_type
        #: How many it takes at most.
        self.most = most


class AskHandle(SpawnedHandle[T_co]):
    """A question that is answered by the next look and never waits."""

    __slots__ = ("execution_id", "message_type", "queue", "result_type")

    def __init__(
        self,
        driver: Driver,
        kind: Kind,
        key_base: str,
        label: str,
        site: Site,
        *,
        queue: str = "",
        message_type: Any = Any,
        execution_id: str = "",
        result_type: Any = Any,
    ) -> None:
        super().__init__(driver, kind, key_base, label, site)
        self.queue = queue
        self.message_type = message_type
        self.execution_id = execution_id
        self.result_type = result_type


class ActionHandle(SpawnedHandle[T_co]):
    """Something that is done to another execution, exactly once, with the next commit."""

    __slots__ = ("child", "intent")

    def __init__(
        self, driver: Driver, kind: Kind, key_base: str, label: str, site: Site, intent: Action
    ) -> None:
        super().__init__(driver, kind, key_base, label, site)
        #: What is to be done; key and moment are put in when a round carries it.
        self.intent = intent
        #: For the start of a child: the handle of its end.
        self.child: ChildHandle[Any] | None = None


class ExecutionHandle(DurableHandle[T_co]):
    """The end of an execution: its result, or ChildFailed, ChildCancelled (spec C1, C5)."""

    __slots__ = ("execution_id", "result_type")

    def __init__(
        self, driver: Driver, key_base: str, execution_id: str, result_type: Any, site: Site
    ) -> None:
        super().__init__(driver, Kind.CHILD, key_base, execution_id, site)
        self.execution_id = execution_id
        self.result_type = result_type

    @property
    def id(self) -> str:
        """The execution's ID."""
        return self.execution_id

    @property
    def ref(self) -> str:
        """Plain data that names it: store it, send it, continue with it (spec C1).

        `step.handle(ref)` gives the handle again.
        """
        return self.execution_id

    @property
    def ready_to_wait(self) -> bool:
        """False while the record that it waits for may not be there yet."""
        return True

    def status(self) -> Operation[ExecutionStatus]:
        """How it stands now, recorded: `await handle.status()` (spec C4)."""
        driver = self._driver
        driver.check_running()
        site = naming.call_site()
        handle: AskHandle[ExecutionStatus] = AskHandle(
            driver,
            Kind.STATUS,
            "status",
            self.execution_id,
            site,
            execution_id=self.execution_id,
            result_type=self.result_type,
        )
        return direct(driver, "handle.status()", site, handle)

    def cancel(self, reason: str | None = None) -> None:
        """Ask for its cancellation; harmless when it has ended or was asked before (spec C4)."""
        driver = self._driver
        branch = driver.running_branch()
        if reason is not None and not isinstance(reason, str):
            raise TypeError(f"reason is text, not {type(reason).__name__}")
        site = naming.call_site()
        intent = CancelOther("", 0, self.execution_id, reason)
        handle: ActionHandle[str] = ActionHandle(
            driver, Kind.CANCEL_CHILD, "cancel", self.execution_id, site, intent
        )
        driver.issue(handle, branch)


class ChildHandle(ExecutionHandle[T_co]):
    """A child that this execution started (spec C1-C4)."""

    __slots__ = ("start",)

    def __init__(
        self, driver: Driver, key_base: str, execution_id: str, result_type: Any, site: Site
    ) -> None:
        super().__init__(driver, key_base, execution_id, result_type, site)
        self.start: ActionHandle[None] | None = None

    @property
    def ready_to_wait(self) -> bool:
        """True once its start is recorded."""
        return self.start is not None and self.start.done()


def direct(driver: Driver, name: str, site: Site, handle: DurableHandle[T]) -> Operation[T]:
    """The coroutine that issues `handle` at its first await and gives its result."""
    return Operation(driver, name, site, handle.directly, handle)


def carried(intent: Action, key: str, at: int, *, withdrawn: bool) -> Action:
    """What a round carries of an operation: its intent with its key and its moment."""
    match intent:
        case Start():
            return Start(
                key,
                at,
                intent.execution_id,
                intent.workflow_id,
                intent.version,
                intent.params,
                intent.detached,
                withdrawn,
            )
        case Send():
            return Send(
                key, at, intent.execution_id, intent.queue, intent.value, intent.ttl_ms, withdrawn
            )
        case WakeOther():
            return WakeOther(key, at, intent.execution_id, withdrawn)
        case CancelOther():
            return CancelOther(key, at, intent.execution_id, intent.reason, withdrawn)
        case OpenStore() | ChangeStore() | HoldEffect() | SettleEffect() | LetGoEffect():
            return replace(intent, step_key=key, at=at, withdrawn=withdrawn)


def child_id(parent: str, key: str, incarnation: int) -> str:
    """The ID of a child that was given none (spec C3)."""
    tail = f"/{key}" if incarnation == 1 else f"/{key}~{incarnation}"
    made = parent + tail
    if len(made.encode()) > LONGEST_ID_BYTES:
        made = _hashed(parent) + tail
    if len(made.encode()) > LONGEST_ID_BYTES:
        made = f"{_hashed(parent)}/{_hashed(tail)}"
    return made


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _type_name(type_: Any) -> str:
    if type_ is Any:
        return ""
    return getattr(type_, "__name__", None) or str(type_)


__all__ = [
    "ActionHandle",
    "AskHandle",
    "ChildHandle",
    "ExecutionHandle",
    "ExecutionStatus",
    "MessageHandle",
    "carried",
    "child_id",
    "direct",
]
