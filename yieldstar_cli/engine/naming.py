"""How operations get their names: from functions, or from a key the author gives (spec R3)."""

from __future__ import annotations

import sys
from typing import Any

KEY_BYTES = 100
TAG_BYTES = 100
_RESERVED = "#/:~"


def check_key(key: str) -> None:
    """Raise ValueError unless `key` is printable, at most 100 bytes, without `#`, `/`, `:`, `~`."""
    if not isinstance(key, str) or not key or not key.isprintable() or key != key.strip():
        raise ValueError(f"a key is printable text, not {key!r}")
    if len(key.encode("utf-8", "surrogatepass")) > KEY_BYTES:
        raise ValueError(f"a key has at most {KEY_BYTES} bytes: {key[:40]!r}...")
    found = [c for c in _RESERVED if c in key]
    if found:
        raise ValueError(f"a key may not hold {' '.join(found)}: {key!r}")


def check_tag(tag: str) -> None:
    """Raise ValueError unless `tag` is printable, at most 100 bytes, without comma and spaces.

    A tag says what a worker can do, such as `gpu` (spec O5).
    """
    if not isinstance(tag, str) or not tag or not tag.isprintable():
        raise ValueError(f"a tag is printable text, not {tag!r}")
    if len(tag.encode()) > TAG_BYTES:
        raise ValueError(f"a tag has at most {TAG_BYTES} bytes: {tag[:40]!r}...")
    if "," in tag or " " in tag:
        raise ValueError(f"a tag holds no comma and no space: {tag!r}")


def check_reference(execution_id: object, taker: str) -> None:
    """Raise TypeError or ValueError for what cannot be an execution's ID, in any file.

    An ID that nobody has is no fault of the call: it is told at the await.
    """
    if not isinstance(execution_id, str) or not execution_id:
        raise TypeError(f"{taker} takes an execution ID, which is text: {execution_id!r}")
    if any("\ud800" <= character <= "\udfff" for character in execution_id):
        raise ValueError(f"{taker}: half of a character is no valid text: {execution_id!a}")


def function_key(fn: Any) -> str:
    """The key that running `fn` has: its name with `-` for `_`."""
    name = getattr(fn, "__name__", None)
    if not callable(fn):
        raise not_callable(fn)
    definition = getattr(fn, "definition", None) if hasattr(type(fn), "definition") else None
    if definition is not None:
        raise TypeError(
            f"step.run takes a plain function, and {definition.workflow_id} is a workflow:"
            f" write await step.child({definition.fn.__name__}, params)"
        )
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(
            "a lambda, a partial or an object has no name of its own: give it one with"
            ' step.using(key="...").run(...)'
        )
    key = name.strip("_").replace("_", "-") or name
    if len(key.encode()) > KEY_BYTES:
        raise ValueError(f"{name[:40]}...: the name is too long for a key; use step.using(key=...)")
    return key


def no_handle(given: object) -> TypeError:
    """The refusal of `step.select([a, b])` and of `step.select(step.run(f))`."""
    if isinstance(given, list | tuple | set | dict):
        write = "give them one by one, step.select(*handles)"
    elif hasattr(given, "__await__"):
        write = "write step.spawn(...) around it"
    else:
        write = "a moment is step.timer(...), a message step.message(...)"
    return TypeError(f"select takes handles, not {type(given).__name__}: {write}")


def no_workflow(given: object, taker: str) -> TypeError:
    """The refusal of `step.child(function)`, which is no workflow."""
    name = getattr(given, "__name__", None) or type(given).__name__
    return TypeError(
        f"step.{taker} takes a workflow or its name, and {name} is none: write @workflow above it,"
        f" or run it as a step: await step.run({name}, ...)"
    )


def not_callable(fn: object) -> TypeError:
    """The refusal of `step.run(f())`."""
    return TypeError(f"step.run takes a function and its arguments, not {type(fn).__name__}")


def coroutine_key(coroutine: Any) -> str:
    """The key of a branch: its function's name."""
    name = getattr(coroutine, "__name__", None) or getattr(coroutine, "name", "branch")
    plain = str(name).removeprefix("step.").split("(")[0]
    if not plain.isidentifier():
        raise ValueError('this coroutine has no name: use step.using(key="...").spawn(...)')
    return plain.strip("_").replace("_", "-") or plain


def call_site(depth: int = 2) -> tuple[str, int]:
    """File and line of the author's call, `depth` frames up: by default the caller's caller."""
    frame = sys._getframe(depth)
    return frame.f_code.co_filename, frame.f_lineno
