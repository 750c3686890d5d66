"""What the peers' programs share: enqueue, then time one worker process until all is done.

Only the standard library, since every peer has an environment of its own. A program prints one
JSON object; a worker prints READY once it can take work, and is ended by its number.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Protocol

READY = "ready"
#: The longest that a peer may take, in seconds.
PATIENCE_S = 240.0
STEPS_EACH = 10


class Peer(Protocol):
    """One system, over a directory of its own."""

    #: How often it is asked how much is done, in seconds: asking costs some of them much.
    every_s: float

    def prepare(self, folder: Path) -> None:
        """Make what a client needs before it can enqueue."""

    def enqueue(self, folder: Path, work: str, count: int) -> None:
        """Hand over `count` executions of `work`, "one" or "ten" steps, durably, one by one."""

    def done(self, folder: Path) -> int:
        """How many have ended; asked of the system itself."""

    def serve(self, folder: Path) -> None:
        """Be a worker for ever; call `ready` once work can be taken."""


def ready() -> None:
    """Say that work can be taken, and nothing more on standard output."""
    print(READY, flush=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def main(peer: Peer) -> None:
    """Do what the words of the call say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=("prepare", "measure", "worker"))
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--work", choices=("one", "ten"), default="one")
    parser.add_argument("--count", type=int, default=10)
    asked = parser.parse_args()
    if asked.role == "worker":
        threading.Thread(target=_end_with_parent, daemon=True).start()
        peer.serve(asked.dir)
    elif asked.role == "prepare":
        peer.prepare(asked.dir)
    else:
        print(json.dumps(_measured(peer, asked.dir, asked.work, asked.count)))
    sys.stdout.flush()
    os._exit(0)  # threads of a peer's client do not hold up the end


def _end_with_parent() -> None:
    """However that ends, its end of the pipe is closed then."""
    sys.stdin.read()
    os._exit(0)


def _measured(peer: Peer, folder: Path, work: str, count: int) -> dict[str, float]:
    # In a process of its own: some leave threads behind.
    subprocess.run(_words("prepare", folder), check=True, stdout=subprocess.DEVNULL)
    began = time.perf_counter()
    peer.enqueue(folder, work, count)
    enqueued = time.perf_counter() - began
    worker = subprocess.Popen(
        _words("worker", folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert worker.stdout is not None
        while (line := worker.stdout.readline()).strip() != READY:
            if not line:
                raise SystemExit("the worker ended before it was ready")
        began = time.perf_counter()
        while peer.done(folder) < count:
            if worker.poll() is not None or time.perf_counter() - began > PATIENCE_S:
                raise SystemExit(f"only {peer.done(folder)} of {count} were done in time")
            time.sleep(peer.every_s)
        drained = time.perf_counter() - began
    finally:
        worker.kill()
        worker.wait()
    steps = count * (STEPS_EACH if work == "ten" else 1)
    return {
        "enqueued_per_s": count / enqueued,
        "drained_per_s": count / drained,
        "steps_per_s": steps / drained,
    }


def _words(role: str, folder: Path) -> list[str]:
    return [sys.executable, sys.argv[0], role, "--dir", str(folder)]
