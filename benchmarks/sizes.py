"""How large each workload is: in full, or so tiny that it only shows that everything runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Counts and spans of all workloads."""

    one_step: int = 2_000
    many_steps: int = 500
    steps_each: int = 10
    steps_alone: int = 500
    round_trips: int = 200
    rounds: tuple[int, ...] = (100, 400, 1_600)
    replayed: int = 4_000
    sleepers: int = 10_000
    #: How long a quiet worker is watched, in seconds.
    quiet_s: float = 20.0
    starts: int = 11
    #: Rows of one sample of raw SQLite; ten times as many in groups.
    raw_rows: int = 1_000


FULL = Sizes()
QUICK = Sizes(quiet_s=10.0)
TINY = Sizes(
    one_step=20,
    many_steps=4,
    steps_each=3,
    steps_alone=10,
    round_trips=4,
    rounds=(3, 6),
    replayed=20,
    sleepers=20,
    quiet_s=0.2,
    starts=1,
    raw_rows=50,
)
