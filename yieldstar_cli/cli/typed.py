"""Writes an execution ID so that it can be typed back into a shell."""

from __future__ import annotations

import shlex


def typed(execution_id: str) -> str:
    """The ID as a word of a `ys` line: quoted where needed, `--id=ID` where it looks special."""
    if execution_id.startswith(("-", "@")):
        return shlex.quote(f"--id={execution_id}")
    return shlex.quote(execution_id)


def word(text: str) -> str:
    """Any other word of a `ys` line, quoted where needed."""
    return shlex.quote(text)


def line(action: str, name: str, store_id: str) -> str:
    """The `ys store` line for a store, as it can be typed."""
    shown = f"--id={store_id}" if "=" in store_id else store_id
    return f"ys store {action} {word(name)} {typed(shown) if shown is store_id else word(shown)}"
