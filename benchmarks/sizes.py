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
    #: Executions in flight, and the steps of all of them together (fewer where few are).
    crowds: tuple[int, ...] = (1, 4, 16, 64, 256, 1_000)
    crowd_steps: int = 4_000
    round_trips: int = 200
    rounds: tuple[int, ...] = (100, 400, 1_600, 6_400)
    replayed: tuple[int, ...] = (100, 1_000, 4_000, 10_000)
    #: How often one execution loses its worker, and its steps between two losses.
    restarts: int = 8
    restart_steps: int = 400
    sleepers: int = 10_000
    #: Sleepers and finished executions in the large files; what a small file has instead.
    large: int = 1_000_000
    small: int = 100
    #: What is really run before a large file is filled with copies of it.
    seeds: int = 1_000
    #: Sleepers that the worker itself suspends in the large file: more than it keeps in memory.
    fresh: int = 12_000
    wakes: int = 50
    children: tuple[int, ...] = (1_000, 10_000)
    burst: int = 100_000
    #: Worker processes on one file, the executions they share, and those that burn CPU.
    processes: tuple[int, ...] = (1, 2, 4)
    shared: int = 4_000
    burning: int = 60
    burn_ms: int = 20
    #: Steps whose growth of the file is measured, and deliveries whose syncs are counted.
    written: int = 10_000
    counted: int = 200
    #: How long a quiet worker is watched, in seconds.
    quiet_s: float = 10.0
    starts: int = 11
    #: Rows of one sample of raw SQLite; ten times as many in groups.
    raw_rows: int = 1_000
    #: Work for the peers, and for those that need seconds for a hundred executions.
    peer_one_step: int = 2_000
    peer_many_steps: int = 500
    slow_one_step: int = 300
    slow_many_steps: int = 40


FULL = Sizes()
#: The same with smaller large files and shorter quiet spans.
QUICK = Sizes(
    large=100_000,
    burst=20_000,
    rounds=(100, 400, 1_600),
    quiet_s=5.0,
    starts=5,
    slow_one_step=100,
    slow_many_steps=10,
)
TINY = Sizes(
    one_step=20,
    many_steps=4,
    steps_each=3,
    steps_alone=10,
    crowds=(1, 3),
    crowd_steps=6,
    round_trips=4,
    rounds=(3, 6),
    replayed=(10, 20),
    restarts=1,
    restart_steps=3,
    sleepers=20,
    large=60,
    small=5,
    seeds=10,
    fresh=5,
    wakes=2,
    children=(3, 6),
    burst=40,
    processes=(1, 2),
    shared=10,
    burning=2,
    burn_ms=1,
    written=30,
    counted=3,
    quiet_s=0.2,
    starts=1,
    raw_rows=50,
    peer_one_step=20,
    peer_many_steps=4,
    slow_one_step=5,
    slow_many_steps=2,
)
