"""Texts of errors made fit to store: bounded, and without lone surrogates (spec E11)."""

from __future__ import annotations

#: The longest message, traceback, or set of arguments that is kept, in bytes.
MAX_TEXT = 64 * 1024


def message_of(error: BaseException, limit: int = MAX_TEXT) -> str:
    """`str(error)`, storable and bounded; a sentence instead where `str` itself fails."""
    try:
        text = str(error)
    except BaseException as second:  # the author's code, which may raise anything
        text = f"<str() of {type(error).__name__} raised {type(second).__name__}>"
    return bounded(text, limit)


def storable(text: str) -> str:
    """`text` with lone surrogates escaped: those of file names and sources that are not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def bounded(text: str, limit: int, *, tail: bool = False) -> str:
    """`text` without lone surrogates and at most about `limit` bytes, saying what is missing.

    With `tail` its last part is kept rather than its first.
    """
    whole = len(text)
    text = text[-limit:] if tail else text[:limit]
    raw = text.encode("utf-8", "backslashreplace")
    raw = raw[-limit:] if tail else raw[:limit]
    kept = raw.decode("utf-8", "ignore")
    missing = whole - min(whole, len(kept))
    if not missing:
        return kept
    note = f"({missing:,} of {whole:,} characters left out)"
    return f"{note} … {kept}" if tail else f"{kept} … {note}"
