"""Runs the real `ys` in many folders, each time killed at another point; forked, so quickly.

    python -m tests.kill.sweep ys-words... <<< '[["FOLDER", POINT], ...]'

What a process must do anyway before it reads its words (its imports) is done once; then each
folder gets a process of its own. Prints how each ended, as a JSON list; what it said stands in
`said.txt`, the points that it passed in `points.txt`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from tests.kill.harness import Points, install
from yieldstar_cli.cli.entry import main
from yieldstar_cli.worker import process

#: A process that has not ended by then hangs; SIGALRM ends it.
PATIENCE_S = 120


def run_in(folder: Path, point: int, words: list[str]) -> int:
    """Run `ys` in `folder` in a process of its own; returns how it ended."""
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE_S)
        os.chdir(folder)
        said = os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(said, 1)
        os.dup2(said, 2)
        install(Points(point, "points.txt"))
        status = 70
        try:
            status = main(words)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    assert process.run_worker, "imported before the first fork"
    ends = [run_in(Path(folder), point, sys.argv[1:]) for folder, point in json.load(sys.stdin)]
    print(json.dumps(ends))
