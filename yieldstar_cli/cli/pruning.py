"""What `ys prune` and `ys delete` share: forgetting with pauses, and telling what was forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

import typer

from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.opened import crew
from yieldstar_cli.cli.render import safe
from yieldstar_cli.project import Project
from yieldstar_cli.storage.contract import Storage
from yieldstar_cli.storage.upkeep import Chosen, Prunable

#: How long workers may write between two transactions, in milliseconds.
PAUSE_MS = 5.0
#: So many of those that are kept are named to a person.
_NAMED = 5

Erase = Annotated[
    bool, typer.Option("--erase", help="Rewrite the file, so that no trace of it is left there.")
]


@dataclass(slots=True)
class Tally:
    """What is, or was, forgotten, and what is kept all the same."""

    execution_ids: list[str] = field(default_factory=list)
    bytes: int = 0
    kept: list[Prunable] = field(default_factory=list)

    @classmethod
    def of(cls, found: Iterable[Prunable]) -> Tally:
        """The tally of all of `found`."""
        tally = cls()
        for one in found:
            if one.kept is None:
                tally.execution_ids.append(one.execution_id)
                tally.bytes += one.bytes
            else:
                tally.kept.append(one)
        return tally

    @property
    def words(self) -> str:
        """How many, and how much."""
        count = len(self.execution_ids)
        return f"{count:,} execution{'s' * (count != 1)}, {size(self.bytes)}"


def size(count: int) -> str:
    """Bytes for a person."""
    if count < 1_000:
        return f"{count} bytes"
    for unit in ("kB", "MB"):
        count_of = count / (1_000 if unit == "kB" else 1_000_000)
        if count_of < 1_000:
            return f"{count_of:.1f} {unit}"
    return f"{count / 1_000_000_000:.1f} GB"


def forget(call: Call, project: Project, storage: Storage, chosen: Chosen) -> Tally:
    """Forget them; where workers live they get their turn between any two transactions."""
    busy = bool(crew(call, project, storage).alive)
    pause = (lambda: call.pause(PAUSE_MS)) if busy else (lambda: None)
    return Tally.of(storage.upkeep.prune(chosen, pause=pause))


def tell_kept(call: Call, tally: Tally) -> None:
    """Say which ended executions are kept, and why."""
    for one in tally.kept[:_NAMED]:
        call.hint(safe.visible(f"  {one.execution_id} is kept: {one.kept}."))
    if len(tally.kept) > _NAMED:
        call.hint(f"  {len(tally.kept) - _NAMED:,} more are kept; -n --json names them.")


def plan_document(tally: Tally) -> dict[str, object]:
    """`ys.plan/1`."""
    would = [{"execution_id": name, "change": "pruned"} for name in tally.execution_ids]
    kept = [{"execution_id": one.execution_id, "why": one.kept} for one in tally.kept]
    return {"schema": "ys.plan/1", "would": would, "kept": kept, "bytes": tally.bytes}


def erase(call: Call, storage: Storage) -> None:
    """Rewrite the file, and say what cannot be reached."""
    storage.upkeep.erase()
    call.hint("  Backups, and copies beside the file, still hold what they held.")
