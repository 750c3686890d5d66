"""A fresh project on disk, a client for it, and `ys worker` processes that are watched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw
import psutil

from yieldstar_cli.clock import SystemClock
from yieldstar_cli.project import find_project
from yieldstar_cli.runtime import Runtime, open_runtime, open_storage
from yieldstar_cli.storage.contract import Storage

FLOWS = Path(__file__).parent / "flows" / "measured.py"
#: The longest that anything here may take, in seconds.
PATIENCE_S = 300.0


class BenchmarkFailed(Exception):
    """What was to be measured did not happen."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A worker process that has ended."""

    wall_s: float
    cpu_s: float


class Worker:
    """One `ys worker` process."""

    def __init__(self, scene: Scene, *words: str) -> None:
        self.started_at = SystemClock().now_ms()
        self._began = time.perf_counter()
        handle, name = tempfile.mkstemp(prefix="worker-", suffix=".err", dir=scene.root)
        self._said = Path(name)
        with os.fdopen(handle, "wb") as said:
            self._process = subprocess.Popen(
                scene.command("worker", *words),
                cwd=scene.root,
                env=scene.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def until(self, reached: Callable[[], bool], every_s: float = 0.05) -> None:
        """Wait until `reached()`; raises BenchmarkFailed if the worker ends before that."""
        limit = time.perf_counter() + PATIENCE_S
        while not reached():
            if self._process.poll() is not None:
                raise BenchmarkFailed(f"the worker ended early: {self._words()}")
            if time.perf_counter() > limit:
                raise BenchmarkFailed("not done in time")
            time.sleep(every_s)

    def ended(self) -> Ended:
        """Wait for its end, which must be a clean one, and not for ever."""
        patience = threading.Timer(PATIENCE_S, self._process.kill)
        patience.start()
        try:
            _, status, used = os.wait4(self._process.pid, 0)
        finally:
            patience.cancel()
        self._process.returncode = os.waitstatus_to_exitcode(status)
        if self._process.returncode != 0:
            raise BenchmarkFailed(f"ys worker exited {self._process.returncode}: {self._words()}")
        return Ended(time.perf_counter() - self._began, used.ru_utime + used.ru_stime)

    def stop(self) -> None:
        """Ask it to leave and wait until it has."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def quiet_cost(self, seconds: float) -> tuple[float, float]:
        """Resident megabytes, and percent of one core used over `seconds` of doing nothing."""
        process = psutil.Process(self.pid)
        before, began = process.cpu_times(), time.perf_counter()
        time.sleep(seconds)
        after, took = process.cpu_times(), time.perf_counter() - began
        used = (after.user - before.user) + (after.system - before.system)
        return process.memory_info().rss / 1e6, max(100 * used / took, 0.0)

    def _words(self) -> str:
        return self._said.read_text(errors="replace")[-2_000:]


class Scene:
    """One project of its own: the measured workflows and an empty database."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.db = root / "ys.db"
        self.workflows = root / "workflows"
        self.workflows.mkdir(mode=0o755, exist_ok=True)
        shutil.copy(FLOWS, self.workflows)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("YS_")}
        self._project = find_project(root, env={}, db=self.db, workflows=self.workflows)
        with self.runtime():
            self.empty_bytes = self.bytes_used()

    def command(self, *words: str) -> list[str]:
        """The words of a `ys` call in this project."""
        return [sys.executable, "-m", "yieldstar_cli", *words, *self.names]

    @property
    def names(self) -> list[str]:
        """The options that name this project."""
        return ["--db", str(self.db), "--workflows", str(self.workflows)]

    def runtime(self) -> Runtime:
        """A client, as a program opens one."""
        return open_runtime(self.db, self.workflows)

    def storage(self) -> Storage:
        """The storage under the client, for what the client has no word for."""
        return open_storage(self._project, create=True)

    def admit(
        self, workflow_id: str, count: int, params: Mapping[str, object] | None = None
    ) -> None:
        """Admit `count` executions alike, in one transaction."""
        storage = self.storage()
        with storage.atomic():
            for _ in range(count):
                storage.executions.admit(workflow_id=workflow_id, params=params or {})
        storage.close()

    @contextmanager
    def worker(self, *words: str) -> Iterator[Worker]:
        """A worker process that is stopped in the end."""
        worker = Worker(self, *words)
        try:
            yield worker
        finally:
            worker.stop()

    def drain(self, *words: str) -> tuple[Worker, Ended]:
        """Run one worker until nothing is due."""
        with self.worker("--until-idle", *words) as worker:
            return worker, worker.ended()

    @contextmanager
    def crew(self, processes: int) -> Iterator[None]:
        """So many worker processes on this file, ready for work, stopped in the end."""
        living = "SELECT count(*) FROM workers WHERE stopped_at IS NULL"
        with ExitStack() as stack:
            for _ in range(processes):
                worker = stack.enter_context(self.worker())
            worker.until(lambda: self.numbers(living)[0] >= processes)
            yield

    # --- reading the file from outside ----------------------------------------------------------

    def numbers(self, query: str) -> tuple[int, ...]:
        """The one row of whole numbers that `query` answers."""
        connection = apsw.Connection(str(self.db), flags=apsw.SQLITE_OPEN_READONLY)
        # A reader waits, too, while the last one out folds the log into the file.
        connection.set_busy_timeout(10_000)
        try:
            row = connection.execute(query).fetchone()
            assert row is not None, f"no row: {query}"
            return tuple(int(value or 0) for value in row)
        finally:
            connection.close()

    def bytes_used(self) -> int:
        """Bytes of all pages of the database, those still in the WAL included."""
        (pages,) = self.numbers("PRAGMA page_count")
        (size,) = self.numbers("PRAGMA page_size")
        return pages * size

    def until(self, query: str, every_s: float = 0.05) -> None:
        """Wait until the one number that `query` answers is 0."""
        limit = time.perf_counter() + PATIENCE_S
        while self.numbers(query) != (0,):
            if time.perf_counter() > limit:
                raise BenchmarkFailed(f"not done in time: {query}")
            time.sleep(every_s)

    def until_quiet(self) -> None:
        """Wait until nothing is due and nothing is under way; cheap in a large file, too."""
        self.until(
            "SELECT (SELECT count(*) FROM executions WHERE claimed_by IS NOT NULL)"
            " + (SELECT count(*) FROM executions WHERE claim_at <= unixepoch('subsec') * 1000)"
        )

    def expect(self, status: str, count: int) -> None:
        """Raise BenchmarkFailed unless exactly `count` executions, and no others, are `status`."""
        found = self.numbers(f"SELECT count(*), sum(status = '{status}') FROM executions")
        if found != (count, count):
            raise BenchmarkFailed(f"{found[1]} of {found[0]} are {status}, not {count}")

    def claimed_to_ended(self) -> tuple[int, int]:
        """The moments of the first claim and of the last change of a record, in milliseconds."""
        first, last = self.numbers("SELECT min(started_at), max(updated_at) FROM executions")
        return first, last


@contextmanager
def fresh_scene(parent: Path) -> Iterator[Scene]:
    """A scene in a directory of its own under `parent`, removed in the end."""
    with tempfile.TemporaryDirectory(prefix="ys-bench-", dir=parent) as root:
        yield Scene(Path(root).resolve())


def kept_scene(parent: Path, name: str, build: Callable[[Scene], None]) -> Scene:
    """A scene that all turns of a run share, made by the first; it goes with `parent`."""
    root = (parent / f"kept-{name}").resolve()
    if root.is_dir():
        return Scene(root)
    root.mkdir()
    scene = Scene(root)
    build(scene)
    return scene


def per_second(count: float, milliseconds: float) -> float:
    """A rate; a span too short for the clock counts as one millisecond."""
    return count / (max(milliseconds, 1) / 1000)
