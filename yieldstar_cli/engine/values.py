"""Values on their way through the history: encoded once, seen as replay will see them (spec O2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, get_type_hints

from yieldstar_cli import codec, failures
from yieldstar_cli.engine import faults
from yieldstar_cli.errors import StepFailed, UndecodableRecord, UnserializableValue
from yieldstar_cli.failures_text import message_of

if TYPE_CHECKING:
    from yieldstar_cli.engine.operations import DurableHandle
    from yieldstar_cli.model import Entry


def result_type(fn: Callable[..., Any]) -> Any:
    """The annotated return type of a step's function, or Any where it names none.

    Raises TypeError where the annotation names something that the module does not have.
    """
    try:
        hash(fn)
    except TypeError:
        return _result_type.__wrapped__(fn)
    return _result_type(fn)


@lru_cache(maxsize=4096)
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
    if work is None:
        return None, None
    try:
        if entry.ok:
            return codec.decode(entry.value, work.result_type), None
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


def as_exception(error: BaseException | None) -> BaseException | None:
    """A branch's error as its parent may meet it: what is no Exception becomes StepFailed."""
    if error is None or isinstance(error, Exception):
        return error
    return StepFailed(failures.named(error), type(error).__name__)
