"""A process that is worker and client at once: prints the milliseconds of each round trip.

The worker has the main thread, since it heeds signals; the client has a thread of its own.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from workloads.w3_round_trips import round_trips
from yieldstar_cli.project import find_project
from yieldstar_cli.runtime import open_runtime
from yieldstar_cli.worker.options import WorkerOptions
from yieldstar_cli.worker.process import run_worker


def main(db: str, workflows: str, count: str) -> int:
    """Run both, and end the worker once the client is done."""
    taken: list[float] = []

    def client() -> None:
        try:
            with open_runtime(db, workflows) as runtime:
                taken.extend(round_trips(runtime, int(count)))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=client)
    thread.start()
    status = run_worker(WorkerOptions(project=find_project(db=db, workflows=workflows)))
    thread.join()
    print(json.dumps(taken))
    return 0 if len(taken) == int(count) else status or 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
