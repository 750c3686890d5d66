"""Why a module, or one workflow in it, did not load: told for the author, not for us (spec K1)."""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass
from pathlib import Path

from yieldstar_cli.errors import YieldstarError
from yieldstar_cli.failures_text import bounded, message_of, storable

#: Where our own code is: its frames are left out of a module's traceback.
_PACKAGE = str(Path(__file__).parents[1]) + os.sep
#: How much of a module's own message is kept, in bytes.
_MESSAGE_BYTES = 2_000


@dataclass(frozen=True, slots=True)
class LoadError:
    """Why one file, or one workflow in it, is not there. `line` is 0 where none is to blame."""

    file: str
    line: int
    #: One sentence; `traceback` has the rest, as Python prints it, or nothing.
    message: str
    traceback: str = ""


def load_error(path: Path, error: BaseException) -> LoadError:
    """What `error`, raised while `path` was loaded, says: with the last line of that file."""
    line, culprit = 0, ""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        line = error.lineno or 0
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == str(path):
            line, culprit = frame.lineno or 0, ""
        elif Path(frame.filename).parent == path.parent:
            culprit = f"{Path(frame.filename).name} line {frame.lineno}: "
    told = storable(culprit) + sentence(error)
    return LoadError(str(path), line, told, storable(_own_traceback(error)))


def sentence(error: BaseException) -> str:
    """One sentence: the error's name and message, or ours with its remedies."""
    return bounded(_sentence(error), _MESSAGE_BYTES)


def _sentence(error: BaseException) -> str:
    if isinstance(error, YieldstarError):
        remedy = f". Remedy: {' or '.join(error.remedy)}" if error.remedy else ""
        return error.message + remedy
    if isinstance(error, SystemExit):
        return f"it exits when it is loaded: SystemExit({error.code!r})"
    said = error.msg if isinstance(error, SyntaxError) else message_of(error, _MESSAGE_BYTES)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _own_traceback(error: BaseException) -> str:
    """The traceback without our own frames and those of Python's import: they are no help."""
    told = traceback.TracebackException.from_exception(error)
    waiting, seen = [told], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        one.stack = traceback.StackSummary.from_list(
            [f for f in one.stack if not f.filename.startswith((_PACKAGE, "<frozen importlib"))]
        )
        waiting += [linked for linked in (one.__cause__, one.__context__) if linked is not None]
    return "".join(told.format())
