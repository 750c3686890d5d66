"""One statement for many rows: what it costs to run a statement is paid once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yieldstar_cli.storage.sqlite.database import Database, Row

#: How many rows a statement has places for; each length is prepared once and kept. Places that
#: are left over hold NULL, which equals nothing: a statement must join on its first column.
_SIZES = (1, 4, 16, 48, 128)


class Bulk:
    """A statement with a list of VALUES in it, as long as there are rows.

    Between any two statements another thread may take the interpreter, and keep it for its whole
    switch interval; within one it runs beside us.
    """

    def __init__(self, before: str, row: str, after: str) -> None:
        self._width = row.count("?")
        self._texts = {
            size: "\n".join((before, ",\n".join([row] * size), after)) for size in _SIZES
        }

    def rows(self, db: Database, given: Sequence[Sequence[Any]]) -> list[Row]:
        """Run it for every one of `given`; everything that it answers."""
        found: list[Row] = []
        for start in range(0, len(given), _SIZES[-1]):
            part = given[start : start + _SIZES[-1]]
            size = next(size for size in _SIZES if size >= len(part))
            bindings = [value for row in part for value in row]
            bindings += [None] * (self._width * (size - len(part)))
            found += db.rows(self._texts[size], bindings)
        return found
