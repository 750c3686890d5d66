"""Values on their way through the history: encoded once, seen as replay will see them (spec O2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import FunctionType
from typing import TYPE_CHECKING, Any, get_type_hints

from yieldstar_cli import codec, failures
from yieldstar_cli.engine import faults
from yieldstar_cli.engine.outside import (
    ActionHandle,
    AskHandle,
    ExecutionHandle,
    ExecutionStatus,
    MessageHandle,
)
from yieldstar_cli.engine.store_handles import Snapshot, StoreAsk, StoreChange, StoreWatch
from yieldstar_cli.errors import (
    ChildCancelled,
    ChildFailed,
    EffectMismatch,
    ExecutionIdConflict,
    InvalidExecutionEvent,
    InvalidMessage,
    InvalidMessageEvent,
    InvalidState,
    InvalidStore,
    OutcomePruned,
    StepFailed,
    StoreChanged,
    StoreMissing,
    UndecodableRecord,
    UnserializableValue,
)
from yieldstar_cli.failures_text import message_of
from yieldstar_cli.model import CancelledOutcome, Completed, Failed, Kind

if TYPE_CHECKING:
    from yieldstar_cli.engine.operations import DurableHandle
    from yieldstar_cli.model import Entry, TerminalOutcome

_TIMER = Kind.TIMER


def result_type(fn: Callable[..., Any]) -> Any:
    """The annotated return type of a step's function, or Any where it names none.

    Raises TypeError where the annotation names something that the module does not have.
    """
    # A function that holds values of others is not remembered: that would keep them alive.
    if type(fn) is FunctionType and fn.__closure__ is None:
        return _remembered_type(fn)
    return _result_type(fn)


def _result_type(fn: Callable[..., Any]) -> Any:
    if "return" not in (getattr(fn, "__annotations__", None) or {}):
        return Any
    try:
        return get_type_hints(fn, include_extras=True)["return"]
    except NameError as error:
        raise TypeError(
            f"the return type of {getattr(fn, '__name__', fn)} cannot be resolved: {error}."
            " Import it in the module itself, not only for type checkers."
        ) from None


@lru_cache(maxsize=4096)
def _remembered_type(fn: FunctionType) -> Any:
    return _result_type(fn)


def encode_result(
    value: object, result_type: Any, place: str, limit: int = codec.MAX_VALUE
) -> tuple[bool, str]:
    """A step's result as (ok, JSON text); what cannot be stored is that step's error."""
    try:
        return True, codec.encode(value, result_type, place=place, limit=limit)
    except UnserializableValue as error:
        return False, failures.encode_error(error)
    except BaseException as error:  # code of the value's own class, run to see what it is
        unusable = UnserializableValue(place, f"{type(error).__name__}: {message_of(error)}")
        return False, failures.encode_error(unusable)


def revive(
    handle: DurableHandle[Any], entry: Entry, namespace: Mapping[str, Any]
) -> tuple[Any, BaseException | None]:
    """The value or the error that an entry holds; raises UndecodableRecord (spec E12)."""
    work = handle.work
    if work is None and handle.kind is _TIMER:
        return None, None
    try:
        if entry.ok:
            # Steps first: they are what replay mostly meets.
            if work is not None:
                return codec.decode(entry.value, work.result_type), None
            return _value(handle, entry), None
        if handle.kind is Kind.EFFECT or isinstance(
            handle, ActionHandle | StoreChange | StoreWatch
        ):
            told = refused(entry.value)
            if told is not None:
                return None, told
        return None, failures.decode_error(entry.value, namespace)
    except BaseException as error:  # code of the value's own class, run to make it again
        said = error if isinstance(error, codec.DecodeError) else failures.named(error)
        remedy = "put back the type that it was recorded with"
        raise UndecodableRecord(
            f"the recorded result of {entry.kind} {entry.step_key!r}, entry {entry.position + 1},"
            f" no longer decodes: {said}. {faults.at(handle.site)} asks for it;"
            f" {remedy}.",
            remedy=remedy,
        ) from error


def _value(handle: DurableHandle[Any], entry: Entry) -> Any:
    match handle:
        case MessageHandle():
            if handle.kind is Kind.MESSAGES:
                return codec.decode(entry.value, list[handle.message_type])  # type: ignore[name-defined]
            return codec.decode(entry.value, handle.message_type)
        case StoreAsk() | StoreWatch():
            return _of_store(handle, entry.value)
        case AskHandle():
            return _answer(handle, entry.value)
        case ExecutionHandle():
            return codec.decode(entry.value, handle.result_type)
        case ActionHandle():
            return _done(handle, entry.value)
    return None


def _answer(handle: AskHandle[Any], text: str) -> Any:
    if handle.kind is Kind.QUEUE_DEPTH:
        return codec.decode(text, int)
    if handle.kind is Kind.TRY_MESSAGE:
        return None if text == "null" else codec.decode(text, handle.message_type)
    found = codec.decode(text)
    if found is None:
        return ExecutionStatus(handle.execution_id, None)
    result = found.get("result")
    return ExecutionStatus(
        handle.execution_id,
        str(found["status"]),
        None if result is None else codec.decode(result, handle.result_type),
        found.get("error"),
    )


def _done(handle: ActionHandle[Any], text: str) -> Any:
    match handle.kind:
        case Kind.START | Kind.STORE | Kind.STORE_DELETE:
            return None
        case Kind.STORE_UPDATE:
            return int(codec.decode(text)["version"])
    return codec.decode(text)


def _of_store(handle: StoreAsk[Any] | StoreWatch[Any], text: str) -> Any:
    match handle.kind:
        case Kind.STORE_GET:
            found = codec.decode(text)
            state = codec.decode(found["state"], handle.store.state_type)
            return Snapshot(state, int(found["version"]), str(found["instance"]))
        case Kind.STORE_UPDATE:
            return int(codec.decode(text)["version"])
    return codec.decode(text, handle.result_type)


def fitting(text: str, message_type: Any) -> str | None:
    """None if a message fits the type it is awaited as, else what is wrong with it (M2)."""
    try:
        codec.decode(text, message_type)
    except BaseException as error:  # code of the type's own, run to make one
        return str(error) if isinstance(error, codec.DecodeError) else failures.named(error)
    return None


def invalid_message(queue: str, reason: str) -> str:
    """The recorded error of a message that does not fit."""
    return failures.encode_error(
        InvalidMessage(f"a message of queue {queue!r} does not fit: {reason}")
    )


_MARK = f'"{codec.MARK}"'
_LONE_MARK = f"[{_MARK}]"


def joined(texts: Sequence[str]) -> str:
    """A batch of messages as one list, as the codec writes lists."""
    if texts[0] == _MARK or any(_LONE_MARK in text for text in texts):
        # Beside others it would be read as a tag of the codec, so they are written as one value.
        room = sum(len(text.encode()) for text in texts) * 4 + codec.MAX_VALUE
        return codec.encode([codec.decode(text) for text in texts], limit=room)
    return f"[{','.join(texts)}]"


def ended(
    handle: ExecutionHandle[Any], outcome: TerminalOutcome | None, *, pruned: bool = False
) -> tuple[bool, str]:
    """The end of an awaited execution as (ok, JSON text) (spec C2, C4)."""
    name = handle.execution_id
    if pruned:
        gone = OutcomePruned(f"{name} has ended, and its outcome is no longer kept")
        return False, failures.encode_error(gone)
    match outcome:
        case Completed(result):
            return True, result
        case Failed(error):
            view = failures.view_error(error)
            child = ChildFailed(f"{name} failed: {failures.summarize(error)}", name, view.name)
            return False, failures.with_cause(failures.encode_error(child), error)
        case CancelledOutcome(reason):
            why = f": {reason}" if reason else ""
            return False, failures.encode_error(ChildCancelled(f"{name} was cancelled{why}", name))
        case None:
            return False, failures.encode_error(
                ChildFailed(f"there is no execution {name!r}", name)
            )


def reason(entry: Entry) -> str | None:
    """The reason that a request to cancel gave."""
    try:
        found = codec.decode(entry.value)
    except codec.DecodeError:
        return None
    return None if found is None else str(found)


def standing(status: str, outcome: TerminalOutcome | None) -> str:
    """How an execution stands, as `status()` records it."""
    found = {"status": status}
    match outcome:
        case Completed(result):
            found["result"] = result
        case Failed(error):
            found["error"] = failures.summarize(error)
        case CancelledOutcome(reason):
            found["error"] = reason or ""
    return codec.encode(found)


def begun(entry: Entry) -> tuple[str, int]:
    """The workflow and the version that a recorded start is of; its name alone is version 1."""
    try:
        match codec.decode(entry.value):
            case [str(name), int(version)]:
                return name, version
            case str(name):
                return name, 1
    except codec.DecodeError:
        pass
    # Damaged: no workflow is called so, and the driver says what it found.
    return entry.value, 1


def refused(text: str) -> Exception | None:
    """Why a child was not admitted, a message not sent, a store not changed, an effect not begun.

    None for an error that a function raised.
    """
    found = codec.decode(text)
    code, message = found.get("code"), str(found.get("message", ""))
    if "mro" in found:
        return None
    match code:
        case ExecutionIdConflict.code:
            return ExecutionIdConflict(found["execution_id"], found["workflow_id"], found["status"])
        case "STORE_MISSING":
            return StoreMissing(message)
        case "STORE_CHANGED":
            return StoreChanged(message)
        case InvalidStore.code:
            return InvalidState(message)
        case "EFFECT_MISMATCH":
            return EffectMismatch(message)
        case InvalidMessageEvent.code:
            return InvalidMessageEvent(message)
    place, _, reason = message.partition(": ")
    return InvalidExecutionEvent(place, reason)


def as_exception(error: BaseException | None) -> BaseException | None:
    """A branch's error as its parent may meet it: what is no Exception becomes StepFailed."""
    if error is None or isinstance(error, Exception):
        return error
    return StepFailed(failures.named(error), type(error).__name__)
