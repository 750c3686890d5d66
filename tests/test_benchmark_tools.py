"""The tools around a benchmark run: its report, the filling of large files, other systems."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import psutil
import pytest

from tests.test_benchmarks import BENCHMARKS, call

# --- the report ----------------------------------------------------------------------------------


@pytest.fixture
def figures_file(tmp_path: Path) -> Path:
    """A run with one figure of a target, one of a ratio, and other systems."""

    def row(workload: str, name: str, median: float, unit: str = "/s") -> dict[str, object]:
        about = {"workload": workload, "name": name, "unit": unit, "median": median}
        return about | {"values": [median], "beside": None, "ratio": None}

    one, ten = "one-step executions", "steps, ten in an execution"
    figures = [
        row("W1", "async drain", 25_000),
        row("W4", "a round, of 100", 2.5, "ms"),
        row("peers", f"{one}, ours, async", 20_000),
        row("peers", f"{one}, dbos", 100),
        row("peers", f"{one}: ours, async, beside dbos", 200, "x"),
        row("peers", f"{ten}, ours, async", 50_000),
        row("peers", f"{ten}, dbos", 250),
        row("peers", f"{ten}: ours, async, beside dbos", 199, "x"),
    ]
    path = tmp_path / "run.json"
    about = {"machine": {"cores": 2}, "load": {"at the start": 0.5}, "repeats": 5}
    path.write_text(json.dumps(about | {"figures": figures}))
    return path


@pytest.fixture
def readme(tmp_path: Path) -> Path:
    path = tmp_path / "README.md"
    path.write_text(
        "before\n<!-- targets: generated -->\nold\n<!-- targets: end -->\nbetween\n"
        "<!-- peers: generated -->\n<!-- peers: end -->\nafter\n"
    )
    return path


def test_a_report_puts_its_tables_between_the_marks(figures_file: Path, readme: Path) -> None:
    """What people wrote around them stays; what was generated before goes."""
    done = report(figures_file, readme)

    assert done.returncode in (0, 1), done.stderr
    text = readme.read_text()
    assert text.startswith("before\n")
    assert "\nbetween\n" in text
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| W1 | async drain | 25,000 /s | at least 20,000 | yes |" in text
    assert "| W4 | a round, of 100 | 2.5 ms | at most 2 | **no** |" in text
    assert "| dbos | 100 /s | 200 x | 250 /s | 199 x |" in text


def test_a_second_report_of_the_same_run_changes_nothing(figures_file: Path, readme: Path) -> None:
    """The tables are the run's, and nothing else."""
    report(figures_file, readme)
    once = readme.read_text()
    report(figures_file, readme)

    assert readme.read_text() == once


def test_a_report_of_no_run_says_what_would_make_one(tmp_path: Path, readme: Path) -> None:
    """And leaves the tables alone."""
    before = readme.read_text()
    done = report(tmp_path / "none.json", readme)

    assert done.returncode == 2
    assert "make bench" in done.stderr
    assert readme.read_text() == before


def report(run_file: Path, readme: Path) -> subprocess.CompletedProcess[str]:
    pictures = str(readme.parent / "pictures")
    words = (str(run_file), "--readme", str(readme), "--pictures", pictures)
    return call("report.py", *words)


def test_the_readme_has_a_place_for_every_table() -> None:
    """Else a report would leave one out without a word."""
    text = (BENCHMARKS / "README.md").read_text()

    for name in ("machine", "peers", "targets", "figures"):
        assert text.count(f"<!-- {name}: generated -->") == 1
        assert text.count(f"<!-- {name}: end -->") == 1


# --- filling -------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Iterator[apsw.Connection]:
    """A file with three executions, two of them with history."""
    connection = apsw.Connection(str(tmp_path / "small.db"))
    connection.execute(
        "CREATE TABLE executions (n INTEGER PRIMARY KEY, execution_id TEXT UNIQUE, updated_at"
        " INTEGER, claim_at INTEGER GENERATED ALWAYS AS (updated_at + 1) VIRTUAL);"
        "CREATE TABLE history (n INTEGER, position INTEGER, at INTEGER, PRIMARY KEY (n, position))"
        " WITHOUT ROWID;"
        "CREATE TABLE workers (n INTEGER PRIMARY KEY);"
        "CREATE TABLE stores (s INTEGER PRIMARY KEY);"
        "INSERT INTO executions (n, execution_id, updated_at)"
        " VALUES (1, 'a', 1000), (2, 'b', 2000), (3, 'c', 3000);"
        "INSERT INTO history VALUES (1, 1, 10), (1, 2, 20), (3, 1, 30);"
        "INSERT INTO workers VALUES (1); INSERT INTO stores VALUES (1)"
    )
    yield connection
    connection.close()


FILL = (
    "import sys; from pathlib import Path; from types import SimpleNamespace; from filling import"
    " fill; fill(SimpleNamespace(db=Path(sys.argv[1])), int(sys.argv[2]), earlier=sys.argv[3] =="
    " 'earlier')"
)


@pytest.mark.parametrize("when", ["earlier", "same"])
def test_a_file_is_filled_with_copies_of_whole_executions(
    small: apsw.Connection, when: str
) -> None:
    """Every copy has the history of what it is a copy of, an ID of its own, and no workers."""
    done = subprocess.run(
        [sys.executable, "-c", FILL, small.filename, "8", when],
        cwd=BENCHMARKS,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert small.execute("SELECT count(*), count(DISTINCT execution_id) FROM executions").get == (
        8,
        8,
    )
    of_each = small.execute("SELECT n, count(*) FROM history GROUP BY n ORDER BY n").fetchall()
    assert of_each == [(1, 2), (3, 1), (4, 2), (6, 1), (7, 2)]
    (moment,) = small.execute("SELECT updated_at FROM executions WHERE n = 4").fetchall()[0]
    assert moment == (997 if when == "earlier" else 1000)
    assert small.execute("SELECT count(*) FROM workers").get == 1


# --- other systems -------------------------------------------------------------------------------


def test_a_peer_that_does_not_exist_is_refused_with_those_that_do() -> None:
    """Nothing is installed then."""
    done = call("peers/install.py", "cadence")

    assert done.returncode == 2
    assert "huey" in done.stdout


PEER = '''
import sys
sys.path.insert(0, {here!r})
from common import main, ready
import threading

class Quick:
    """Does its work at once; a worker that is ready is all that is needed."""
    every_s = 0.001
    def prepare(self, folder):
        (folder / "prepared").write_text("")
    def enqueue(self, folder, work, count):
        (folder / "count").write_text(str(count))
    def done(self, folder):
        done = folder / "done"
        return int(done.read_text() or 0) if done.exists() else 0
    def serve(self, folder):
        assert (folder / "prepared").exists()
        ready()
        print("what a peer says is not in the way")
        (folder / "done").write_text((folder / "count").read_text())
        threading.Event().wait()

main(Quick())
'''


def test_a_peer_is_timed_from_ready_to_done_and_its_worker_ended(tmp_path: Path) -> None:
    """A program of four short functions is all that another system needs."""
    program = tmp_path / "quick.py"
    program.write_text(PEER.format(here=str(BENCHMARKS / "peers")))
    folder = tmp_path / "data"
    folder.mkdir()

    words = ["measure", "--dir", str(folder), "--work", "ten", "--count", "5"]
    done = subprocess.run(
        [sys.executable, str(program), *words], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    rates = json.loads(done.stdout)
    assert rates["steps_per_s"] == pytest.approx(10 * rates["drained_per_s"])
    lines = [" ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"])]
    assert [line for line in lines if str(folder) in line] == []


def test_a_peers_worker_ends_with_whoever_started_it(tmp_path: Path) -> None:
    """Also where that is killed."""
    program = tmp_path / "quick.py"
    program.write_text(PEER.format(here=str(BENCHMARKS / "peers")))
    (tmp_path / "prepared").write_text("")
    (tmp_path / "count").write_text("1")

    worker = subprocess.Popen(
        [sys.executable, str(program), "worker", "--dir", str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    said = worker.stdout.readline()
    worker.stdin.close()

    assert said == b"ready\n"
    assert worker.wait(60) == 0
    worker.stdout.close()
