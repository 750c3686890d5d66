"""The places of a state that a predicate has read, as short a list as says it all (spec S4)."""

from __future__ import annotations

from yieldstar_cli.digests import KIND
from yieldstar_cli.model import Path

#: Of how many parts of one container the readings are kept one by one.
MANY = 100


class Readings:
    """The places that were read through one view, until it is closed."""

    def __init__(self) -> None:
        # In order of the first reading; the values say nothing.
        self._paths: dict[Path, None] = {}
        self._closed = False

    def note(self, path: Path | None) -> None:
        """Note that what stands at `path` was read; None: below what has been noted already."""
        if self._closed:
            raise RuntimeError(
                "this is the state of a predicate that has returned; return plain(...) of what "
                "is needed later"
            )
        if path is not None:
            self._paths[path] = None

    def close(self) -> None:
        """Let no view be read from now on: nobody would know of it. Raises RuntimeError there."""
        self._closed = True

    def paths(self) -> tuple[Path, ...]:
        """What was read, in order, without what lies below another of them (spec S4).

        Where it ends with KIND, only what kind of container stands there was seen.
        """
        wholes = {path for path in self._paths if path[-1:] != (KIND,)}
        crowded = self._crowded()
        found = dict.fromkeys(
            # The outermost of them that is to be told as a whole.
            next((path[:n] for n in range(len(path)) if path[:n] in crowded), path)
            for path in self._paths
        )
        return tuple(
            path
            for path in found
            if not any(path[:length] in wholes for length in range(len(path)))
        )

    def _crowded(self) -> set[Path]:
        """The containers of which more than MANY parts were read: quicker told as one."""
        parts: dict[Path, set[str | int]] = {}
        for path in self._paths:
            for length, step in enumerate(path):
                if step != KIND:
                    parts.setdefault(path[:length], set()).add(step)
        return {path for path, read in parts.items() if len(read) > MANY}
