"""What an adapter promises for the upkeep of its file: checking, pruning, copying."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from yieldstar_cli.nouns import dataclass


@dataclass(frozen=True, slots=True)
class Breach:
    """One thing in the file that no sound file shows."""

    code: str
    #: What was found, in a sentence.
    text: str
    #: What it means for the execution, or for whoever relies on it.
    means: str
    #: What helps, with `{}` in the place of the execution's ID.
    remedy: str
    #: The execution that it is about; None for the file, a store or what has no record.
    execution_id: str | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which ended executions are to be pruned; at least one of the three is given."""

    #: Ended before this moment; None: however lately.
    ended_before: int | None = None
    #: Of these statuses; all are terminal ones.
    statuses: Sequence[str] = ("completed", "failed", "cancelled")
    #: Of those, that many that ended last are kept.
    keep: int = 0
    #: Only these, whatever the others say.
    execution_ids: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Prunable:
    """An ended execution that is to be pruned, or was."""

    execution_id: str
    #: Of values, names and log lines: what they take at least in the file.
    bytes: int
    #: Why it is kept all the same: what still needs it; None where nothing does.
    kept: str | None = None


class Upkeep(Protocol):
    """Looking after the file. Nothing here changes what an execution that is open can see."""

    def breaches(self, *, quick: bool = False) -> Iterator[Breach]:
        """What is not as every sound file is, on one unchanging view; never writes.

        In the order in which a person can act on it: the file, what will not go on, what
        contradicts itself, what lies about. `quick` leaves out what reads every value and page.
        """
        ...

    def prunable(self, chosen: Chosen) -> Iterator[Prunable]:
        """What `prune` would do now, oldest end first; never writes."""
        ...

    def prune(self, chosen: Chosen, *, pause: Callable[[], None]) -> Iterator[Prunable]:
        """Forget history and values of ended executions; ID, workflow, status and moments stay.

        Kept are those that an open execution waits for, is the parent of or was started by.
        Short transactions, `pause` called between them; what was interrupted is finished by the
        next one. Source: spec E3, C2.
        """
        ...

    def erase(self) -> None:
        """Rewrite the file, so that nothing that was forgotten is left in it or in its log.

        Holds the write lock for as long as that takes. Raises DatabaseBusy where a reader keeps
        the log from being emptied: then it may still hold what was forgotten.
        """
        ...

    def back_up(self, target: str, *, replace: bool = False) -> int:
        """Copy the file as it is at one moment to `target`, mode 0600; answers its bytes.

        Writers go on meanwhile. The copy is synced and then gets its name. Raises FileInTheWay.
        """
        ...
