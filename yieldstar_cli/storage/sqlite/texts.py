"""Text from outside as it can be stored."""

from __future__ import annotations


def plain(text: str) -> str:
    """`text` as it can be stored: what is no character stands there as an escape."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
