"""What waits have read of a store, as it is stored, and whether a state differs from it (S4)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from yieldstar_cli.model import Path, Reading


def stored(readings: Sequence[Reading]) -> str:
    """The text of the `store_read` column: JSON, pairs of path and digest."""
    return json.dumps([(r.path, r.digest) for r in readings], separators=(",", ":"))


def told(text: str | None) -> tuple[Reading, ...] | None:
    """What the column holds; None where it no longer reads."""
    try:
        pairs = [] if text is None else json.loads(text)
        return tuple(Reading(tuple(path), digest) for path, digest in pairs)
    except (ValueError, TypeError, RecursionError):
        return None


def parse(text: str | None) -> Any:
    """The plain JSON values of a state. Raises ValueError, RecursionError."""
    import msgspec

    from yieldstar_cli.codec import roomy

    return roomy(msgspec.json.decode, text)


class State:
    """One state of a store, or that there is none; parsed once, and only where it is asked."""

    def __init__(self, instance: str | None, text: str | None) -> None:
        self._instance = instance
        self._text = text
        self._value: Any = None
        self._digests: dict[Path, str] = {}
        self._parsed = False

    def differs(self, instance: str | None, readings: Iterable[Reading] | None) -> bool:
        """Whether it is not what was read: another store, or another value at one of the paths.

        What no longer reads differs from everything: who waits has to look, and meets it there.
        """
        if instance != self._instance or readings is None:
            return True
        if self._text is None:
            return False
        try:
            return any(self._digest(reading.path) != reading.digest for reading in readings)
        except (ValueError, TypeError, RecursionError):
            return True

    def _digest(self, path: Path) -> str:
        found = self._digests.get(path)
        if found is None:
            from yieldstar_cli.digests import digest_at

            if not self._parsed:
                self._value = parse(self._text)
                self._parsed = True
            found = self._digests[path] = digest_at(self._value, path)
        return found
