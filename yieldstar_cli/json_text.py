"""Text that is JSON already, and how long it may be."""

from __future__ import annotations

#: The largest value that is stored, in bytes, unless a project says otherwise (spec V2).
MAX_VALUE = 16 * 1024 * 1024


class Json(str):
    """Text that already is encoded JSON; storage takes it as it is."""

    __slots__ = ()
