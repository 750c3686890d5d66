"""Two checks of `ys doctor`: whether the file is sound, and how much of it could be forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from yieldstar_cli.cli.check import finding_of
from yieldstar_cli.cli.findings import Finding
from yieldstar_cli.cli.pruning import Tally, size
from yieldstar_cli.storage.contract import Storage
from yieldstar_cli.storage.upkeep import Chosen

#: In a larger file a look at everything takes seconds: `ys check` is for that.
MOST_EXECUTIONS = 20_000
#: What ended before this is worth a word.
OLD_MS = 30 * 86_400_000
#: Of one kind so many breaches are named.
_NAMED = 3


def check_upkeep(storage: Storage, now_ms: int) -> tuple[list[str], list[Finding]]:
    """What is fine, and what was found."""
    count = sum(storage.reader.counts().values())
    if count > MOST_EXECUTIONS:
        return [f"{count:,} executions; ys check looks at each of them"], []
    findings = list(_breaches(storage))
    fine = [] if findings else ["every rule of a sound file holds (ys check looks closer)"]
    tally = Tally.of(storage.upkeep.prunable(Chosen(ended_before=now_ms - OLD_MS)))
    if tally.execution_ids:
        fine.append(f"{size(tally.bytes)} can be pruned: ys prune --older 30d")
    return fine, findings


def _breaches(storage: Storage) -> Iterator[Finding]:
    counts: Counter[str] = Counter()
    for breach in storage.upkeep.breaches(quick=True):
        # The checkup looks at modes by itself.
        if breach.code == "OPEN_TO_OTHERS":
            continue
        counts[breach.code] += 1
        if counts[breach.code] <= _NAMED:
            yield finding_of(breach)
    for code, many in counts.items():
        if many > _NAMED:
            yield Finding(code, "error", f"{many - _NAMED:,} more of this kind.", "ys check")
