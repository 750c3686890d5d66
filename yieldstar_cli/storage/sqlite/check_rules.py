"""The shape of a rule that every sound file keeps, and the words that rules share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from yieldstar_cli.storage.sqlite.database import Row
from yieldstar_cli.storage.upkeep import Breach

# Statuses that a record keeps for ever.
ENDED = "('completed', 'failed', 'cancelled')"
OPEN = "('admitted', 'suspended')"
# Each statement tells at most so many of its kind.
AT_MOST = "LIMIT :most"

WAKE = "ys wake {}"
SHOW = "ys show {}"
CANCEL = "ys cancel {} --now, then trigger it anew"
RESTORE = "ys restore FILE, with a backup of it"
REPORT = "ys show {} --history; it is safe to leave, and worth a report of a bug"


class Rule(NamedTuple):
    """One thing that no sound file shows; `statement` answers where it is shown.

    Each row it answers is an execution's ID (or NULL), then what `text` has places for.
    """

    code: str
    statement: str
    #: What was found, with a place for each further column.
    text: str
    means: str
    #: As in `Breach`.
    remedy: str
    #: It reads every value, so a quick look leaves it out.
    slow: bool = False

    def breach(self, row: Row) -> Breach:
        """What one row of the statement tells."""
        execution_id, *details = row
        return Breach(
            code=self.code,
            text=self.text.format(*details),
            means=self.means,
            remedy=self.remedy,
            execution_id=execution_id,
        )


Rules = Sequence[Rule]
