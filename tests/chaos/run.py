"""The chaos run: admits executions while everything goes wrong, and counts what was lost.

python -m tests.chaos.run --executions 25000      # as `make chaos` does
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from tests.chaos.flows import MODULE, expected
from tests.process.shop import Shop
from yieldstar_cli.errors import CommitUnknown, ExecutionIdConflict, StorageError
from yieldstar_cli.model import Completed
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

LEASE = "2s"
#: A file may grow to this many bytes in a worker that has a quota.
QUOTA = 3_000_000
#: What goes wrong, one after the other.
KINDS = ("kill", "freeze", "lock", "kill", "quota")


@dataclass
class Told:
    """What happened, and what was found at the end: all of the second half should be 0."""

    executions: int = 0
    kills: int = 0
    pauses: int = 0
    locks: int = 0
    quotas: int = 0
    refused: int = 0
    repeated_calls: int = 0
    seconds: float = 0
    lost: int = 0
    unfinished: int = 0
    wrong: int = 0
    changed: int = 0
    charged_twice: int = 0
    findings: list[str] = field(default_factory=list)

    @property
    def bad(self) -> int:
        """How much was lost, wrong, changed or done twice."""
        return self.lost + self.unfinished + self.wrong + self.changed + self.charged_twice


class Chaos:
    """One project, its workers, and what is done to them."""

    def __init__(
        self, folder: Path, count: int, workers: int, pace_s: float, troubles: int, seed: int
    ) -> None:
        self.shop = Shop(folder)
        self.shop.module("orders", MODULE)
        (folder / "done").mkdir()
        self.path = folder / "ys.db"
        self.count = count
        self.pace_s = pace_s
        self.troubles = troubles
        self.dice = Random(seed)
        self.told = Told(executions=count)
        #: Outcomes as they were seen on the way.
        self.seen: dict[str, str] = {}
        self.storage = SqliteStorage(self.path, create=True)
        self.workers = [self.start() for _ in range(workers)]
        self.frozen: list[tuple[float, subprocess.Popen[str]]] = []

    def start(self, quota: int | None = None) -> subprocess.Popen[str]:
        """One worker; with a quota it finds no room beyond that size."""

        def limit() -> None:
            if quota is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (quota, quota))

        return subprocess.Popen(
            [sys.executable, "-m", "yieldstar_cli", "worker", "-q", "--lease", LEASE],
            cwd=self.shop.folder,
            env=self.shop._env(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=limit,
        )

    def run(self) -> Told:
        """Admit everything, with trouble; then let two workers finish, and count."""
        began = last = time.monotonic()
        admitted = 0
        try:
            for done in range(1, self.troubles + 1):
                until = self.count * done // self.troubles
                while admitted < until or time.monotonic() - last < self.pace_s:
                    some = min(50, until - admitted)
                    admitted += self.admit(admitted, some)
                    self.thaw()
                    self.look()
                    if not some:
                        time.sleep(0.02)
                last = time.monotonic()
                self.trouble(KINDS[done % len(KINDS)])
            self.finish()
        finally:
            for worker in self.workers:
                worker.kill()
                worker.wait()
        self.judge()
        self.told.seconds = round(time.monotonic() - began, 1)
        return self.told

    def admit(self, first: int, count: int) -> int:
        """Admit some more; how many of them were answered, each once for ever."""
        for n in range(first, first + count):
            while True:
                try:
                    self.storage.executions.admit(
                        workflow_id="order", params={"n": n}, execution_id=f"o-{n}"
                    )
                except ExecutionIdConflict:
                    pass
                except (StorageError, CommitUnknown):
                    self.told.refused += 1
                    self.thaw()  # it may be one who stood still that holds the lock
                    self.storage.close()
                    self.storage = SqliteStorage(self.path)
                    continue
                break
        return count

    def trouble(self, kind: str) -> None:
        """Something goes wrong."""
        index = self.dice.randrange(len(self.workers))
        match kind:
            case "kill":
                self.replace(index)
                self.told.kills += 1
            case "freeze":
                worker = self.workers[index]
                worker.send_signal(signal.SIGSTOP)
                self.frozen.append((time.monotonic() + self.dice.uniform(0.2, 5), worker))
                self.told.pauses += 1
            case "lock":
                self.lock(self.dice.uniform(0.1, 1.5))
                self.told.locks += 1
            case "quota":
                size = os.path.getsize(self.path)
                self.replace(index, quota=max(QUOTA, size + 100_000))
                self.told.quotas += 1

    def replace(self, index: int, quota: int | None = None) -> None:
        """Kill one worker and start another."""
        self.workers[index].kill()
        self.workers[index].wait()
        self.workers[index] = self.start(quota)

    def thaw(self) -> None:
        """Who stood still long enough goes on, in the middle of whatever it did."""
        now = time.monotonic()
        for at, worker in list(self.frozen):
            if at <= now:
                worker.send_signal(signal.SIGCONT)
                self.frozen.remove((at, worker))

    def lock(self, span_s: float) -> None:
        """Another program writes for a while."""
        words = (
            "import sys, time, apsw; c = apsw.Connection(sys.argv[1]); c.set_busy_timeout(20000);"
            " c.execute('BEGIN IMMEDIATE'); time.sleep(float(sys.argv[2])); c.execute('ROLLBACK')"
        )
        subprocess.run(
            [sys.executable, "-c", words, str(self.path), str(span_s)],
            check=False,
            stderr=subprocess.DEVNULL,
        )

    def look(self) -> None:
        """Somebody reads some outcomes."""
        for _ in range(5):
            name = f"o-{self.dice.randrange(self.count)}"
            try:
                found = self.storage.executions.get(name)
            except StorageError:
                continue
            if found is not None and found.outcome is not None:
                self.seen.setdefault(name, str(found.outcome))

    def finish(self) -> None:
        """No more trouble."""
        for _, worker in self.frozen:
            worker.send_signal(signal.SIGCONT)
        self.frozen.clear()
        for index in range(len(self.workers)):
            self.replace(index)
        ended = self.shop.ys("worker", "-q", "--until-idle", "--linger", "90s")
        if ended.returncode:
            self.told.findings.append(f"the last worker: {ended.returncode} {ended.stderr}")

    def judge(self) -> None:
        """Count what is lost, wrong, changed or done twice."""
        self.storage.close()
        self.storage = SqliteStorage(self.path)
        told = self.told
        for n in range(self.count):
            found = self.storage.executions.get(f"o-{n}")
            if found is None:
                told.lost += 1
            elif not isinstance(found.outcome, Completed):
                told.unfinished += 1
                told.findings.append(f"o-{n}: {found.status} {found.outcome} {found.problem}")
            elif json.loads(found.outcome.result) != expected(n):
                told.wrong += 1
            elif self.seen.get(f"o-{n}", str(found.outcome)) != str(found.outcome):
                told.changed += 1
        calls: Counter[str] = Counter()
        for log in self.shop.folder.glob("calls.*"):
            calls.update(log.read_text().splitlines())
        charges = {call: times for call, times in calls.items() if call.startswith("charge ")}
        told.charged_twice = sum(times > 1 for times in charges.values())
        told.findings += [call for call, times in charges.items() if times > 1]
        told.repeated_calls = sum(
            times - 1 for call, times in calls.items() if call.startswith(("load ", "tag "))
        )
        if self.storage.db.rows("PRAGMA integrity_check") != [("ok",)]:
            told.findings.append("the file is damaged")
            told.wrong += 1
        self.storage.close()


def main() -> int:
    """1 if anything was lost, wrong, changed or charged twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--executions", type=int, default=25_000)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--pace", type=float, default=1.5, help="seconds between two troubles")
    parser.add_argument("--troubles", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ys-chaos-") as folder:
        chaos = Chaos(
            Path(folder) / "shop",
            asked.executions,
            asked.workers,
            asked.pace,
            asked.troubles,
            asked.seed,
        )
        told = chaos.run()
    print(json.dumps(asdict(told), indent=1))
    return bool(told.bad)


if __name__ == "__main__":
    sys.exit(main())
