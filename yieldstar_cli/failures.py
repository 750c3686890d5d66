"""Errors to JSON text and to people: what an exception was, kept without its class (spec E11)."""

from __future__ import annotations

import os
import traceback
import types
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from yieldstar_cli import codec
from yieldstar_cli.errors import UnserializableValue
from yieldstar_cli.failures_revive import decode_error
from yieldstar_cli.failures_text import MAX_TEXT, bounded, message_of
from yieldstar_cli.failures_view import ErrorView, Place, summarize, view_error

#: How many errors one recorded error may hold: causes and group members, however nested.
MAX_ERRORS = 100
#: How much of another execution's error is kept with the error that it caused.
MAX_CAUSE = 1 << 18
_MAX_DEPTH = 20
_SHORT = 500
_MAX_FRAMES = 60
_HOUSE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


def encode_error(error: BaseException, *, limit: int = MAX_TEXT) -> str:
    """JSON text of `error`: name, message, notes, causes, members, traceback (spec E11).

    Never fails, whatever the error's own methods do. Texts are bounded to `limit` bytes each and
    say what was left out; lone surrogates are escaped. Arguments and attributes are kept where
    the codec can store them, so that `decode_error` can give the error back (spec O2).
    """
    try:
        return codec.encode(_Recorder(limit).record(error, 0))
    except BaseException as second:  # what the error's class does is the author's code
        return codec.encode(_bare(error, second, limit))


def with_cause(text: str, cause: str) -> str:
    """What `encode_error` made, with another such text as its cause; that one stays as it was."""
    if len(cause) > MAX_CAUSE:
        return text
    # One that is damaged or nested too deeply is left out: the message says what it was.
    with suppress(codec.DecodeError, UnserializableValue):
        found = codec.decode(text)
        found["cause"] = codec.decode(cause)
        return codec.encode(found)
    return text


def named(error: BaseException) -> str:
    """`Name: message` of a live error, whatever its own methods do."""
    return f"{type(error).__name__}: {message_of(error)}"


# --- recording -------------------------------------------------------------------------------


class _Recorder:
    """One walk over an error, its causes and its members: bounded, and safe from cycles."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        #: What all texts together may still take; when it is used up, only short ones are kept.
        self.left = 8 * limit
        self.seen: set[int] = set()

    def record(self, error: BaseException, depth: int) -> dict[str, Any]:
        """The JSON object of `error`."""
        self.seen.add(id(error))
        kind = type(error)
        found: dict[str, Any] = {
            "name": bounded(kind.__name__, 500),
            "message": self.spent(message_of(error, self.room_for_text())),
            "mro": [
                [bounded(str(base.__module__), 500), bounded(base.__qualname__, 500)]
                for base in kind.__mro__
                if issubclass(base, BaseException)
            ],
        }
        # Past whatever the class makes of the name: what BaseException itself was given.
        args = self.stored(list(vars(BaseException)["args"].__get__(error)))
        if args is not None:
            found["args"] = args
        self.add_attributes(error, found)
        notes = [
            self.spent(bounded(str(note), self.room_for_text()))
            for note in _notes(error)
            if self.left > 0
        ]
        if isinstance(error, BaseExceptionGroup):
            found["group"] = bounded(error.message, self.limit)
            found["members"] = self.members(error, depth, notes)
        if notes:
            found["notes"] = notes
        cause = error.__cause__
        if cause is None and not error.__suppress_context__:
            cause = error.__context__
        if cause is not None and self.room(cause, depth):
            found["cause"] = self.record(cause, depth + 1)
        if depth == 0:
            found["traceback"] = _traceback(error, self.limit)
        where = _where(error)
        if where is not None:
            found["where"] = where
        return found

    def room(self, error: BaseException, depth: int) -> bool:
        """Whether one more error may be recorded."""
        return id(error) not in self.seen and depth < _MAX_DEPTH and len(self.seen) < MAX_ERRORS

    def members(
        self, group: BaseExceptionGroup[Any], depth: int, notes: list[str]
    ) -> list[dict[str, Any]]:
        """The group's members, as many as there is room for."""
        kept = [
            self.record(member, depth + 1)
            for member in group.exceptions
            if self.room(member, depth)
        ]
        left_out = len(group.exceptions) - len(kept)
        if left_out:
            notes.append(f"{left_out} more errors of this group were left out")
        return kept

    def stored(self, value: object) -> str | None:
        """`value` as codec text, or None where it cannot be stored."""
        try:
            return self.spent(codec.encode(value, limit=min(self.limit, max(self.left, 0))))
        except BaseException:  # not storable, or its own class says so in its own way
            return None

    def room_for_text(self) -> int:
        """How long the next text may be."""
        return self.limit if self.left > 0 else min(self.limit, _SHORT)

    def spent(self, text: str) -> str:
        """`text`, counted."""
        self.left -= len(text)
        return text

    def add_attributes(self, error: BaseException, found: dict[str, Any]) -> None:
        """The attributes that can be stored; those of C and of slots stand apart."""
        own = {
            str(name): text
            for name, value in list(vars(error).items())
            if name != "__notes__" and (text := self.stored(value)) is not None
        }
        if own:
            found["attrs"] = own
        slots = {
            name: text
            for name, value in _slot_values(error)
            if (text := self.stored(value)) is not None
        }
        if slots:
            found["slots"] = slots


def _bare(error: BaseException, second: BaseException, limit: int) -> dict[str, Any]:
    """What can be said of an error whose own class keeps it from being looked at."""
    reading = type.__getattribute__(type(second), "__name__")
    return {
        "name": bounded(type.__getattribute__(type(error), "__name__"), 500),
        "message": message_of(error, limit),
        "mro": [["builtins", "Exception"], ["builtins", "BaseException"]],
        "notes": [f"no more can be told: reading the error raised {reading}"],
    }


def _slot_values(error: BaseException) -> Iterator[tuple[str, object]]:
    for base in type(error).__mro__:
        for name, descriptor in vars(base).items():
            if name.startswith("__") or not isinstance(descriptor, types.MemberDescriptorType):
                continue
            try:
                value = descriptor.__get__(error)
            except AttributeError:
                continue
            if value is not None:
                yield name, value


def _notes(error: BaseException) -> list[object]:
    notes = getattr(error, "__notes__", None)
    return list(notes[:MAX_ERRORS]) if isinstance(notes, list | tuple) else []


def _is_library(file: str) -> bool:
    """True for Python's own modules and for what was installed."""
    installed = {"site-packages", "dist-packages"} & set(file.split(os.sep))
    return bool(installed) or file.startswith((_STDLIB, "<frozen "))


def _ours(frame: types.FrameType) -> bool:
    return os.path.abspath(frame.f_code.co_filename).startswith(_HOUSE)


def _traceback(error: BaseException, limit: int) -> str:
    """As Python prints it, without our own frames at its beginning and without locals."""
    start = error.__traceback__
    while start is not None and _ours(start.tb_frame):
        start = start.tb_next
    try:
        lines = traceback.format_exception(
            type(error), error, start or error.__traceback__, limit=-_MAX_FRAMES
        )
    except Exception as second:
        lines = [f"<the traceback cannot be printed: {type(second).__name__}>"]
    return bounded("".join(lines), limit, tail=True)


def _where(error: BaseException) -> dict[str, Any] | None:
    """The author's last line: the last frame outside our own house, and outside libraries too."""
    last = outside = None
    step = error.__traceback__
    while step is not None:
        if not _ours(step.tb_frame):
            last = step
            if not _is_library(step.tb_frame.f_code.co_filename):
                outside = step
        step = step.tb_next
    if (last := outside or last) is None:
        return None
    code = last.tb_frame.f_code
    return {
        "file": bounded(code.co_filename, 4096, tail=True),
        "line": last.tb_lineno or 0,
        "function": bounded(code.co_qualname, 500),
    }


__all__ = [
    "MAX_ERRORS",
    "MAX_TEXT",
    "ErrorView",
    "Place",
    "bounded",
    "decode_error",
    "encode_error",
    "message_of",
    "summarize",
    "view_error",
]
