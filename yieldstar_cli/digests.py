"""What stands at a place of a stored state, as a short text to compare later (spec S4).

Places are found in the stored JSON itself, so that whoever waits and whoever writes agree on them
without the author's types. A path ends with KIND where only the kind of a container was seen.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import msgspec

from yieldstar_cli.codec import MARK, roomy
from yieldstar_cli.model import Path, Reading

#: As the last part of a path: whether an object or a list stands there, not what is in it.
KIND = -1
#: The digest where nothing stands.
NOTHING = ""

_SHORT = 32
_ABSENT = object()
# Keys stay in their order: a loop over a dict sees it.
_to_json = msgspec.json.Encoder().encode


def digest_at(value: object, path: Path) -> str:
    """A text for what stands at `path` in `value`, plain JSON values; NOTHING if nothing does.

    Two states have the same text exactly if they have the same JSON there (sha256, cut to 128
    bits; short JSON stands for itself). A tagged array (`["$ys", ...]`) has no places inside.
    Source: spec S4.
    """
    if path and path[-1] == KIND:
        found = _at(value, path[:-1])
        if type(found) is dict:
            return "{"
        return "[" if type(found) is list and not _tagged(found) else _digest(found)
    return _digest(_at(value, path))


def digests(value: object, paths: Iterable[Path]) -> tuple[Reading, ...]:
    """The readings of `paths`, in their order; `value` is the plain JSON that was read.

    The kind of a container goes without saying where something was found inside of it.
    """
    readings = [Reading(path, digest_at(value, path)) for path in paths]
    proved = {
        reading.path[:length]
        for reading in readings
        if reading.digest != NOTHING
        for length in range(len(reading.path) - (reading.path[-1:] == (KIND,)))
    }
    return tuple(
        reading
        for reading in readings
        if reading.path[-1:] != (KIND,) or reading.path[:-1] not in proved
    )


def _at(value: Any, path: Path) -> Any:
    for part in path:
        if isinstance(part, str):
            if type(value) is not dict or part not in value:
                return _ABSENT
            value = value[part]
        elif type(value) is list and not _tagged(value) and 0 <= part < len(value):
            value = value[part]
        else:
            return _ABSENT
    return value


def _tagged(array: list[Any]) -> bool:
    return bool(array) and array[0] == MARK


def _digest(found: Any) -> str:
    if found is _ABSENT:
        return NOTHING
    raw = roomy(_to_json, found)
    if len(raw) < _SHORT:
        # No hexadecimal text begins with this.
        return "=" + raw.decode("utf-8")
    return sha256(raw).hexdigest()[:_SHORT]
