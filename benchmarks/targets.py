"""What the product is meant to reach, as bounds on figures of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: One row of a run's JSON.
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on the median of one figure, or on its ratio to the figure it stands beside."""

    workload: str
    #: Of the figure; with `…` at its end, all that begin so.
    name: str
    #: "at least" or "at most".
    sense: str
    bound: float
    #: Whether the ratio is bounded, not the figure.
    ratio: bool = False

    def rows(self, figures: Sequence[Row]) -> list[Row]:
        """The rows that it is about."""
        return [
            row
            for row in figures
            if row["workload"] == self.workload
            and (
                row["name"].startswith(self.name[:-1])
                if self.name.endswith("…")
                else row["name"] == self.name
            )
        ]

    def found(self, row: Row) -> float | None:
        """What is bounded in `row`."""
        value = row["ratio"] if self.ratio else row["median"]
        return None if value is None else float(value)

    def met(self, row: Row) -> bool:
        """Whether it was reached."""
        found = self.found(row)
        if found is None:
            return False
        return found >= self.bound if self.sense == "at least" else found <= self.bound


def _least(workload: str, name: str, bound: float, *, ratio: bool = False) -> Target:
    return Target(workload, name, "at least", bound, ratio)


def _most(workload: str, name: str, bound: float, *, ratio: bool = False) -> Target:
    return Target(workload, name, "at most", bound, ratio)


ONE, TEN = "one-step executions: ours", "steps, ten in an execution: ours"
#: The figure over the one that it stands beside is bounded.
RATIO = {"ratio": True}

TARGETS = (
    _least("peers", f"{ONE}, async, beside yieldstar", 10),
    _least("peers", f"{ONE}, async, beside huey", 7),
    _least("peers", f"{ONE}, sync, beside huey", 3),
    _least("peers", f"{ONE}, async, beside dbos", 100),
    _least("peers", f"{ONE}, async, beside duroxide", 100),
    _least("peers", f"{TEN}, async, beside yieldstar", 8),
    _least("peers", f"{TEN}, async, beside dbos", 250),
    _least("W1", "executions.admit, one at a time", 0.5, **RATIO),
    _least("W1", "executions.admit, all in one transaction", 30_000),
    _least("W1", "async drain", 20_000),
    _least("W1", "sync drain", 8_000),
    _least("W2", "async steps", 60_000),
    _least("W2", "sync steps", 15_000),
    _least("W2", "steps of one alone", 1 / 3, **RATIO),
    _most("W3", "a one process, p50", 1.5),
    _most("W3", "b two processes, p50", 2.5),
    _most("W3", "b two processes, p99", 6),
    _most("W3", "b the same worker's CPU, idle after that", 0.5),
    _most("W4", "a round, of …", 2),
    _most("W4", "growth from …", 1.2),
    _most("W4", "replay, each operation", 5),
    _least("W5", "created", 4_000),
    _most("W5", "bytes each", 500),
    _most("W5", "worker memory (RSS)", 60),
    _most("W5", "quiet worker's CPU", 0.5),
    _most("W5M", "worker memory (RSS)", 150),
    _most("W5M", "quiet worker's CPU", 0.5),
    _most("W5M", "message to completed, among all", 1.2, **RATIO),
    _most("W6", "latest 50", 1),
    _most("W6", "one by ID", 0.2),
    _most("W6", "counts by status", 1_000),
    _most("W6", "ys show, large file", 1.2, **RATIO),
    _most("W6", "ys list, large file", 1.2, **RATIO),
    _least("W6", "admitted one at a time, large file", 0.8, **RATIO),
    _most("W6", "worker CPU per execution, large file", 1.2, **RATIO),
    _least("fan-out", "10,000 children empty", 5_000),
    _most("fan-out", "growth of the CPU per child…", 1.2),
    _least("burst", "100,000 timers", 8_000),
    _most("burst", "worker memory, most during it", 1.5, **RATIO),
    _most("burst", "others meanwhile, p99", 250),
    _least("processes", "one-step executions, 4 processes", 1, **RATIO),
    _least("processes", "steps of 20 ms CPU, 2 processes", 1.6, **RATIO),
    _most("writes", "syncs, the claim's included: one alone…", 2.1),
    _most("writes", "file growth per step with a result of 12 bytes", 3 * 12 + 150),
    _most("writes", "file growth per step with a result of 202 bytes", 3 * 202 + 150),
    _most("startup", "ys trigger", 2.5, **RATIO),
    _most("startup", "ys show", 2.5, **RATIO),
    _most("startup", "ys list", 2.5, **RATIO),
    _most("startup", "ys wait, on what has ended", 2.5, **RATIO),
    _most("startup", "ys --help", 4, **RATIO),
)


def judged(figures: Sequence[Row]) -> list[tuple[Target, Row]]:
    """Every target that the run has a figure for, with that figure."""
    return [(target, row) for target in TARGETS for row in target.rows(figures)]
