"""Faults of the code, said with file, line and the line to write instead (spec R5, R9)."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from yieldstar_cli import failures
from yieldstar_cli.errors import (
    CodeFault,
    Diverged,
    ForeignAwait,
    InvalidEffectAnswer,
    MisplacedCall,
    StepNotAwaited,
)

if TYPE_CHECKING:
    from yieldstar_cli.engine.operations import DurableHandle, Site
    from yieldstar_cli.model import Entry, Start

_LOGGING = os.path.dirname(os.path.abspath(logging.__file__)) + os.sep
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
#: What to write for what asyncio offers.
_INSTEAD = {
    "asyncio.gather": "step.all([step.run(f, a), step.run(g, b)])",
    "asyncio.wait": 'step.select(step.spawn(step.run(f, a)), step.timer("1s"))',
    "asyncio.wait_for": 'step.timeout(step.run(f, a), "1s")',
}
_MISSING_LOOP = ("no running event loop", "There is no current event loop")


def at(site: Site) -> str:
    """`charge_order.py:14`."""
    return f"{os.path.basename(site[0])}:{site[1]}"


def not_awaited(name: str, site: Site) -> CodeFault:
    """An operation was made and never awaited."""
    return StepNotAwaited(
        f"{name} at {at(site)} was not awaited, so it did not run. Write: await {name}",
        remedy=f"await {name}",
    )


def is_misuse(error: BaseException) -> bool:
    """True for what Python raises where an operation is taken for its result (`run(f) + 1`)."""
    return isinstance(error, TypeError | AttributeError) and "'Operation'" in str(error)


def diverged(
    entry: Entry, open_handles: Iterable[DurableHandle[Any]], returned: Site | None
) -> CodeFault:
    """The history holds what the code never asked for.

    `returned` is where the function stands that has ended already.
    """
    asked = [f"{h.kind} {h.key!r} at {at(h.site)}" for h in open_handles if h.awaited]
    if returned is not None:
        code = f"the function has returned: {at(returned)}"
    elif asked:
        code = " and ".join(asked[:3])
    else:
        code = "nothing"
    remedy = "put the code back, or keep the old key with step.using(key=...)"
    return Diverged(
        f"the code does not fit the history at entry {entry.position + 1}\n"
        f"  recorded: {entry.kind} {entry.step_key!r}\n"
        f"  code:     {code}\n"
        f"  remedy:   {remedy}",
        remedy=remedy,
    )


def no_answer(handle: DurableHandle[Any], value: object) -> CodeFault:
    """A `lookup` that returned none of its three answers."""
    return InvalidEffectAnswer(
        f"lookup of effect {handle.label!r} at {at(handle.site)} returned"
        f" {type(value).__name__}, not settled(result), not_found or unknown",
        remedy="return settled(result), not_found or unknown",
    )


def unusable_result(handle: DurableHandle[Any], error: str) -> CodeFault:
    """A result of an effect that cannot be stored: that it was done is known all the same."""
    return InvalidEffectAnswer(
        f"the result of effect {handle.label!r} at {at(handle.site)} cannot be kept:"
        f" {failures.summarize(error)}",
        remedy="return plain data of the annotated type; the effect is looked up, not done again",
    )


def other_child(
    entry: Entry, handle: DurableHandle[Any], intent: Start, recorded: str
) -> CodeFault:
    """The history holds the start of another workflow's child under this key."""
    remedy = "put the code back, or name the new child with step.using(key=...)"
    return Diverged(
        f"the code does not fit the history at entry {entry.position + 1}\n"
        f"  recorded: child {entry.step_key!r}, a {recorded}\n"
        f"  code:     child {handle.key!r}, a {intent.workflow_id}, at {at(handle.site)}\n"
        f"  remedy:   {remedy}",
        remedy=remedy,
    )


def foreign_await(coroutine: Any, yielded: object) -> CodeFault:
    """The function awaits something that is not ours."""
    place, awaited = _innermost(coroutine)
    what = awaited or type(yielded).__name__
    listen = getattr(yielded, "add_done_callback", None)
    if listen is not None:
        # Nobody will await this future: its error would be a traceback of our frames on stderr.
        listen(lambda done: done.cancelled() or done.exception())
    if what == "_GatheringFuture":
        what = "asyncio.gather"
    return _foreign(place, what)


def _foreign(place: str, what: str) -> CodeFault:
    write = _INSTEAD.get(what, 'step.sleep("1s")')
    return ForeignAwait(
        f"{place} awaits {what}, which is not an operation of step. In the function use"
        f" await {write}; asyncio belongs inside a step:"
        " await step.run(fetch, url) where fetch is async def.",
        remedy="await step.run(...)",
    )


def is_missing_loop(error: BaseException) -> bool:
    """True for what asyncio raises where no event loop runs: the same fault, met earlier.

    The recorded error of a step that met it is not: that one is raised by our own house.
    """
    if not isinstance(error, RuntimeError) or not str(error).startswith(_MISSING_LOOP):
        return False
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    return step is not None and not step.tb_frame.f_code.co_filename.startswith(_HERE)


def foreign_error(error: BaseException) -> CodeFault:
    """`is_missing_loop`, told as the fault that it is."""
    place, name = "the function", "asyncio"
    step: TracebackType | None = error.__traceback__
    while step is not None:
        frame = step.tb_frame
        if not frame.f_code.co_filename.startswith(_HERE):
            if "asyncio" in frame.f_code.co_filename.split(os.sep):
                name = f"asyncio.{frame.f_code.co_name}"
                break
            place = at((frame.f_code.co_filename, step.tb_lineno))
        step = step.tb_next
    return _foreign(place, name)


def misplaced_operation() -> CodeFault:
    """An operation of `step` was used outside the workflow function."""
    return MisplacedCall(
        f"{_authors_line()} uses an operation of step outside the workflow function: in a step, a"
        " thread or a task. Await it in the function itself, or in a coroutine given to step.spawn;"
        " a step gets values, and returns one.",
        remedy="await it in the workflow function",
    )


def foreign_handle() -> CodeFault:
    """What an execution made was used in another, or in a later run of its function."""
    return MisplacedCall(
        f"{_authors_line()} uses a step or a handle of another execution, or of an earlier run of"
        " this one. Use the step that the function was given, and make the handle there; a child's"
        " .ref may be kept and passed on: step.handle(ref) gives its handle again.",
        remedy="make the handle in the function that awaits it",
    )


def _authors_line() -> str:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_HERE, _LOGGING)):
        frame = frame.f_back
    return "code" if frame is None else at((frame.f_code.co_filename, frame.f_lineno))


def placed(fault: CodeFault) -> CodeFault:
    """`fault`, raised by a call in the author's code, with that line and with what to write."""
    place = ""
    step: TracebackType | None = fault.__traceback__
    while step is not None:
        if not step.tb_frame.f_code.co_filename.startswith(_HERE):
            place = at((step.tb_frame.f_code.co_filename, step.tb_lineno))
        step = step.tb_next
    if not place or place in fault.message:
        return fault
    remedy = f"; {fault.remedy}" if fault.remedy else ""
    return type(fault)(f"{place}: {fault.message}{remedy}", remedy=fault.remedy)


def _innermost(coroutine: Any) -> tuple[str, str]:
    """Where the author's code awaits, and the name of the foreign thing awaited there."""
    place, foreign = "the function", ""
    current: Any = coroutine
    while current is not None:
        frame: FrameType | None = getattr(current, "cr_frame", None) or getattr(
            current, "gi_frame", None
        )
        if frame is not None:
            name = frame.f_code.co_filename
            if "asyncio" in name.split(os.sep):
                foreign = f"asyncio.{frame.f_code.co_name}"
                break
            if not name.startswith(_HERE):
                place = at((name, frame.f_lineno))
        current = getattr(current, "cr_await", None) or getattr(current, "gi_yieldfrom", None)
    return place, foreign
