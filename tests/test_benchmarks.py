"""The benchmark runs, checks what it ran, and reports every workload; no figure is judged."""

from __future__ import annotations

import itertools
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"

#: All but the one that needs other systems installed, in parts that can run side by side.
PARTS = (
    ("W1", "W2", "W3"),
    ("W4", "W5", "quiet"),
    ("W5M", "W6", "startup"),
    ("fan-out", "burst", "processes", "writes"),
)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return call("run.py", *words)


def call(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("workloads", PARTS, ids="-".join)
def test_a_tiny_benchmark_reports_every_workload(
    workloads: tuple[str, ...], tmp_path: Path
) -> None:
    """Each workload brings figures, each a number that can be read, in the table and the file."""
    found = tmp_path / "figures.json"

    words = ("--quick", "--scale", "tiny", "--dir", str(tmp_path), "--json", str(found))
    done = run(*workloads, *words)

    assert done.returncode == 0, done.stderr
    figures = json.loads(found.read_text())["figures"]
    assert {f["workload"] for f in figures} == set(workloads)
    assert all(math.isfinite(f["median"]) and f["median"] >= 0 for f in figures)
    assert all(f["name"] in done.stdout for f in figures)
    medians = {(f["workload"], f["name"]): f["median"] for f in figures}
    for f in figures:
        if f["beside"]:
            # So little work may take no time that can be measured: nothing is so many times that.
            other = medians[f["workload"], f["beside"]]
            assert f["ratio"] == (f["median"] / other if other else None)


def test_every_workload_is_run_here() -> None:
    """A new one is not forgotten: those that --help names are those of the parts, and the peers."""
    said = run("--help").stdout

    named = re.search(r"of (W1[^\[]*) \[all\]", " ".join(said.split()))
    assert named is not None
    assert set(named[1].split(", ")) == {*itertools.chain.from_iterable(PARTS), "peers"}


def test_a_second_turn_goes_on_with_the_large_files(tmp_path: Path) -> None:
    """What is made once for a run is there for all its turns, and gone after it."""
    found = tmp_path / "figures.json"

    words = ("--repeats", "2", "--scale", "tiny", "--quiet-s", "0.1", "--json", str(found))
    done = run("W5M", *words, "--dir", str(tmp_path))

    assert done.returncode == 0, done.stderr
    assert all(len(f["values"]) == 2 for f in json.loads(found.read_text())["figures"])
    assert list(tmp_path.iterdir()) == [found]


def test_a_benchmark_leaves_no_database_and_no_worker_behind(tmp_path: Path) -> None:
    """Every scene is a directory of its own, gone in the end."""
    done = run("quiet", "--quick", "--scale", "tiny", "--dir", str(tmp_path))

    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
    words = [" ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"])]
    assert [line for line in words if str(tmp_path) in line] == []


def test_a_workload_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    """Nothing is measured then."""
    done = run("W9", "--dir", str(tmp_path))

    assert done.returncode == 2
    assert done.stdout == ""
    assert "W9" in done.stderr
    assert "startup" in done.stderr
