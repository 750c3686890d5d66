"""A worker whose disk counts syncs: prints how many there were from its start to its end.

With a number of messages, a client in this process triggers an execution that waits for one, sends
it, awaits the end, and counts only from the sending on; over and over, one at a time.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading

import apsw

from yieldstar_cli.project import find_project
from yieldstar_cli.runtime import Runtime, open_runtime
from yieldstar_cli.worker.options import WorkerOptions
from yieldstar_cli.worker.process import run_worker


class Counter:
    """How often this process asked the disk to sync, by the threads whose syncs count."""

    def __init__(self) -> None:
        self.syncs = 0

    def count(self) -> None:
        """One more, unless it is a client's own."""
        if threading.current_thread().name != "client":
            self.syncs += 1


class CountedFile(apsw.VFSFile):
    """One open file."""

    def __init__(self, counter: Counter, name: apsw.URIFilename | str, flags: list[int]) -> None:
        self._counter = counter
        super().__init__("unix", name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's word
        """Count, then sync."""
        self._counter.count()
        super().xSync(flags)


class CountedDisk(apsw.VFS):
    """The disk that every connection of this process uses."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        super().__init__("ys-counted", "unix", makedefault=True)

    def xOpen(  # noqa: N802 - SQLite's word
        self, name: apsw.URIFilename | str, flags: list[int]
    ) -> CountedFile:
        """Open a file that counts."""
        return CountedFile(self._counter, name, flags)


def main(db: str, workflows: str, messages: str) -> int:
    """Run the worker, and the client beside it if there are messages to send."""
    counter = Counter()
    disk = CountedDisk(counter)
    project = find_project(db=db, workflows=workflows)
    if messages == "0":
        status = run_worker(WorkerOptions(project=project, until_idle=True))
        print(json.dumps(counter.syncs))
        return status
    found: list[int] = []

    def client() -> None:
        try:
            with open_runtime(db, workflows) as runtime:
                found.append(sum(_one(runtime, counter) for _ in range(int(messages))))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=client, name="client")
    thread.start()
    status = run_worker(WorkerOptions(project=project))
    thread.join()
    disk.unregister()
    print(json.dumps(found[0] if found else -1))
    return status if found else 1


def _one(runtime: Runtime, counter: Counter) -> int:
    """The worker's syncs from the message to the end that it leads to."""
    execution = runtime.trigger("one-message")
    pause = threading.Event()
    while True:
        record = runtime.get(execution)
        if record is not None and record.status == "suspended":
            break
        pause.wait(0.001)
    before = counter.syncs
    runtime.send(execution, "go", 1)
    runtime.wait(execution, timeout="60s")
    return counter.syncs - before


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
