"""What was found in a workflow directory, kept for as long as it provably still stands there (K4).

A program that triggers thousands of times would read the directory, and the cache in the database,
each time anew. What tells that nothing has changed is one look at each file's entry.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from yieldstar_cli.nouns import dataclass, field

if TYPE_CHECKING:
    from yieldstar_cli.checking import Target

#: How long it is believed at most: who is in a group, say, is written in no entry of these.
BELIEVED_MS = 1_000
#: How long ago the last change must be. A file system's clock ticks: what changes twice within a
#: tick looks as if it had changed once.
TICK_NS = 20_000_000
#: The same, where it counts whole seconds only, or even two at a time.
COARSE_TICK_NS = 2_000_000_000
_SECOND_NS = 1_000_000_000

#: What tells one state of an entry from another: device, inode, size, and two moments, of which
#: the last one moves with its owner and its mode, too. None: there is none.
_Mark = tuple[int, int, int, int, int] | None


@dataclass(frozen=True, slots=True)
class Look:
    """How a directory, what holds it, and the modules in it looked at one moment."""

    marks: Mapping[str, _Mark]
    at: int

    def stands(self, now: int) -> bool:
        """Whether all of it provably looks the same at `now`."""
        return 0 <= now - self.at < BELIEVED_MS and all(
            _mark(path) == mark for path, mark in self.marks.items()
        )

    @property
    def settled(self) -> bool:
        """Whether what changes from now on will look different."""
        moments = [moment for mark in self.marks.values() if mark for moment in mark[3:]]
        coarse = all(moment % _SECOND_NS == 0 for moment in moments)
        tick = COARSE_TICK_NS if coarse else TICK_NS
        return max(moments, default=0) + tick < self.at * 1_000_000


def look(directory: Path, now: int) -> Look:
    """Look at `directory`; before it is read, so that what changes meanwhile is seen next time."""
    paths = {str(directory), os.path.dirname(os.path.abspath(directory))}
    paths.add(os.path.dirname(os.path.realpath(directory)))
    marks = {path: _mark(path) for path in sorted(paths)}
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(".py"))
    except OSError:
        names = []
    marks |= {path: _mark(path) for path in (os.path.join(directory, name) for name in names)}
    return Look(marks, now)


def _mark(path: str) -> _Mark:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@dataclass(slots=True)
class Kept:
    """The targets that one runtime has found in one workflow directory, by name."""

    _look: Look | None = None
    _targets: dict[str, Target] = field(default_factory=dict)

    def get(self, workflow_id: str, now: int) -> Target | None:
        """The target found for this name before, if the directory still looks the same."""
        target = self._targets.get(workflow_id)
        if target is None or self._look is None or not self._look.stands(now):
            return None
        return target

    def put(self, workflow_id: str, target: Target, seen: Look) -> None:
        """Keep what was found after `seen`."""
        if self._look is None or self._look.marks != seen.marks:
            self._targets.clear()
        self._targets.pop(workflow_id, None)
        self._look = seen
        if seen.settled:
            self._targets[workflow_id] = target
