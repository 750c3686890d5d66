"""Recorded errors for people and for JSON (spec E11)."""

from __future__ import annotations

import json
from typing import Any

from yieldstar_cli.nouns import dataclass

#: Where a value is tagged, it takes the codec to read it.
_MARKED = '["$ys",'


@dataclass(frozen=True, slots=True)
class Place:
    """The author's line that an error left last."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class ErrorView:
    """A recorded error for people and for JSON (spec E11)."""

    name: str
    message: str
    notes: tuple[str, ...] = ()
    #: What it was raised from, or while handling which.
    cause: ErrorView | None = None
    #: Of an exception group.
    members: tuple[ErrorView, ...] = ()
    #: As Python prints it, causes included; empty for causes and members themselves.
    traceback: str = ""
    #: None where no code of the author's was on the stack.
    where: Place | None = None

    def plain(self) -> dict[str, Any]:
        """The documented JSON form."""
        return {
            "name": self.name,
            "message": self.message,
            "notes": list(self.notes),
            "cause": self.cause.plain() if self.cause else None,
            "members": [member.plain() for member in self.members],
            "traceback": self.traceback,
        }


def view_error(text: str) -> ErrorView:
    """What `encode_error` kept, for display. Never fails: damaged text is shown as it is."""
    try:
        return _view(_decoded(text))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return ErrorView("UnreadableError", f"the recorded error cannot be read: {text[:1000]}")


def summarize(text: str) -> str:
    """One line: `Name: message`, of which the first line stands for the rest."""
    view = view_error(text)
    first, _, rest = view.message.strip().partition("\n")
    if not first:
        return view.name
    return f"{view.name}: {first.rstrip()}{' …' if rest else ''}"


def _decoded(text: str) -> dict[str, Any]:
    if _MARKED in text:
        from yieldstar_cli import codec

        tagged: dict[str, Any] = codec.decode(text)
        return tagged
    found: dict[str, Any] = json.loads(text)
    return found


def _view(found: dict[str, Any]) -> ErrorView:
    where = found.get("where")
    cause = found.get("cause")
    return ErrorView(
        name=found["name"],
        message=found["message"],
        notes=tuple(found.get("notes", ())),
        cause=_view(cause) if cause else None,
        members=tuple(_view(member) for member in found.get("members", ())),
        traceback=found.get("traceback", ""),
        where=Place(where["file"], where["line"], where["function"]) if where else None,
    )
