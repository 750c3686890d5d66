"""Measures the product: real workers over real files with full durability, beside raw SQLite.

.venv/bin/python benchmarks/run.py --help
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import apsw
from figures import Figure, Results
from reference import sync_us
from scene import BenchmarkFailed
from sizes import FULL, QUICK, TINY, Sizes
from workloads import (
    beside_peers,
    burst,
    fan_out,
    processes,
    quiet,
    startup,
    w1_one_step,
    w2_many_steps,
    w3_round_trips,
    w4_rounds,
    w5_million,
    w5_sleepers,
    w6_finished,
    writes,
)

Run = Callable[[Path, Sizes], list[Figure]]

WORKLOADS: dict[str, tuple[str, Run]] = {
    "W1": (w1_one_step.TITLE, w1_one_step.run),
    "W2": (w2_many_steps.TITLE, w2_many_steps.run),
    "W3": (w3_round_trips.TITLE, w3_round_trips.run),
    "W4": (w4_rounds.TITLE, w4_rounds.run),
    "W5": (w5_sleepers.TITLE, w5_sleepers.run),
    "W5M": (w5_million.TITLE, w5_million.run),
    "W6": (w6_finished.TITLE, w6_finished.run),
    "fan-out": (fan_out.TITLE, fan_out.run),
    "burst": (burst.TITLE, burst.run),
    "processes": (processes.TITLE, processes.run),
    "writes": (writes.TITLE, writes.run),
    "quiet": (quiet.TITLE, quiet.run),
    "startup": (startup.TITLE, startup.run),
    "peers": (beside_peers.TITLE, beside_peers.run),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for, and print the table."""
    asked = _asked(argv)
    sizes = {"full": QUICK if asked.quick else FULL, "tiny": TINY}[asked.scale]
    if asked.quiet_s is not None:
        sizes = replace(sizes, quiet_s=asked.quiet_s)
    repeats = asked.repeats or (1 if asked.quick else 5)
    chosen = asked.workloads or [
        name for name in WORKLOADS if name != "peers" or beside_peers.installed()
    ]
    about = machine(asked.dir)
    load = {"at the start": os.getloadavg()[0]}
    try:
        results = measure(chosen, sizes, repeats, asked.dir)
    except BenchmarkFailed as failure:
        print(f"the benchmark failed: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    load["at the end"] = os.getloadavg()[0]
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print("load " + ", ".join(f"{value:.1f} {when}" for when, value in load.items()))
    print(f"medians of {repeats} runs\n" if repeats > 1 else "one run\n")
    for name in chosen:
        print(f"{name:8} {WORKLOADS[name][0]}")
    print(f"\n{results.table()}")
    if asked.json is not None:
        document = {"machine": about, "load": load, "repeats": repeats}
        document["figures"] = results.document()
        asked.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


def measure(chosen: Sequence[str], sizes: Sizes, repeats: int, parent: Path) -> Results:
    """Every chosen workload `repeats` times, taken in turn so that noise spreads over all."""
    results = Results()
    # What all turns share is in here, too.
    with tempfile.TemporaryDirectory(prefix="ys-bench-run-", dir=parent) as root:
        for turn in range(repeats):
            for name in chosen:
                print(f"run {turn + 1} of {repeats}: {name}", file=sys.stderr, flush=True)
                results.add(name, WORKLOADS[name][1](Path(root), sizes))
    return results


def machine(parent: Path) -> dict[str, object]:
    """What the figures were taken on."""
    return {
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "SQLite": apsw.sqlite_lib_version(),
        "fdatasync µs": round(sync_us(parent)),
    }


def _asked(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = _parser()
    asked = parser.parse_args(argv)
    for name in asked.workloads:
        if name not in WORKLOADS:
            parser.error(f"no workload {name}; there are {', '.join(WORKLOADS)}")
    if asked.repeats is not None and asked.repeats < 1:
        parser.error("--repeats must be 1 or more")
    if not asked.dir.is_dir():
        parser.error(f"{asked.dir} is not a directory")
    return asked


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="benchmarks/run.py", description="Measure yieldstar-cli over real files."
    )
    parser.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(WORKLOADS)} [all]"
    )
    parser.add_argument("--repeats", type=int, metavar="N", help="runs of each [5, or 1]")
    parser.add_argument("--quick", action="store_true", help="one run, shorter quiet spans")
    parser.add_argument(
        "--scale", choices=("full", "tiny"), default="full", help="tiny: only shows that it runs"
    )
    parser.add_argument(
        "--quiet-s", type=float, metavar="S", help="seconds that a quiet worker is watched"
    )
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(tempfile.gettempdir()),
        metavar="DIR",
        help="where the databases are made: the disk that is measured",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    return parser


if __name__ == "__main__":
    # As Ctrl-C does: the worker is stopped and the databases are removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
