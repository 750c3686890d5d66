"""The benchmark runs, checks what it ran, and reports every workload; no figure is judged."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).parent.parent


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "run.py"), *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_tiny_benchmark_reports_every_workload(tmp_path):
    """Each workload brings figures, each a number that can be read, in the table and the file."""
    found = tmp_path / "figures.json"

    done = run("--quick", "--scale", "tiny", "--dir", str(tmp_path), "--json", str(found))

    assert done.returncode == 0, done.stderr
    figures = json.loads(found.read_text())["figures"]
    assert {f["workload"] for f in figures} == {*("W1", "W2", "W3", "W4", "W5", "quiet", "startup")}
    assert all(math.isfinite(f["median"]) and f["median"] >= 0 for f in figures)
    assert all(f["name"] in done.stdout for f in figures)
    assert all(f["ratio"] is not None for f in figures if f["beside"])


def test_a_benchmark_leaves_no_database_and_no_worker_behind(tmp_path):
    """Every scene is a directory of its own, gone in the end."""
    done = run("quiet", "--quick", "--scale", "tiny", "--dir", str(tmp_path))

    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
    words = [" ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"])]
    assert [line for line in words if str(tmp_path) in line] == []


def test_a_workload_that_does_not_exist_is_refused_with_those_that_do(tmp_path):
    """Nothing is measured then."""
    done = run("W9", "--dir", str(tmp_path))

    assert done.returncode == 2
    assert done.stdout == ""
    assert "W9" in done.stderr
    assert "startup" in done.stderr
