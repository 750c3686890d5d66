"""The checks of `ys doctor`, one after the other; none of them changes anything."""

from __future__ import annotations

import contextlib
import os
import platform
import stat
from collections import Counter

from yieldstar_cli.cli import mounts, shells
from yieldstar_cli.cli.call import Call
from yieldstar_cli.cli.checkup_effects import disputed_effects
from yieldstar_cli.cli.checkup_names import several_names
from yieldstar_cli.cli.checkup_steering import SteeringCheck
from yieldstar_cli.cli.checkup_upkeep import check_upkeep
from yieldstar_cli.cli.facts import Crew, seen_at
from yieldstar_cli.cli.findings import Finding
from yieldstar_cli.cli.opened import crew, open_reading, trust_of, workflow_tags
from yieldstar_cli.cli.render import safe
from yieldstar_cli.cli.render.times import rough
from yieldstar_cli.cli.typed import typed
from yieldstar_cli.cli.worker import MANY_WORKERS
from yieldstar_cli.errors import DatabaseBusy, DatabaseReadOnly, StorageError, YieldstarError
from yieldstar_cli.model import ExecutionRecord
from yieldstar_cli.nouns import dataclass, field
from yieldstar_cli.project import Project
from yieldstar_cli.storage.contract import Storage

#: A WAL this large was not folded back for long: a reader or a stopped process keeps it.
_LARGE_WAL = 64 * 1024 * 1024
#: Nobody should hold the write lock longer than this.
_LONGEST_LOCK_MS = 1_000
#: Due for longer than this with workers alive is worth a word.
_LATE_MS = 60_000
#: A record from further in the future than this shows a clock that jumped.
_CLOCK_MS = 60_000
#: How many open executions are looked at.
_MOST = 1_000


@dataclass(slots=True)
class Checkup:
    """One look at a project: what is fine, and what is not."""

    call: Call
    project: Project
    fine: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def run(self) -> None:
        """Make all checks that can be made."""
        self.fine.append(f"Python {platform.python_version()}, {platform.system()}")
        self.fine.append(shells.told(os.environ))
        self._check_mount()
        self._check_modes()
        self.findings += several_names(self.project.db)
        self._check_workflow_directory()
        storage = self._open()
        if storage is None:
            return
        self._check_lock()
        self._check_wal()
        fine, findings = check_upkeep(storage, self.call.clock.now_ms())
        self.fine += fine
        self.findings += findings
        people = crew(self.call, self.project, storage, everyone=True)
        self._check_workers(people)
        self._check_due(storage, people)
        self._check_stuck(storage)
        steering = SteeringCheck(storage, people, workflow_tags(self.project, storage))
        self.findings += steering.findings(self._open_ones(storage))
        self.findings += disputed_effects(storage)
        self._check_modules(storage, people)
        self._check_code(storage, people)
        self._check_clock(storage)

    def _found(self, code: str, text: str, remedy: str | None = None, **more: object) -> None:
        level = str(more.pop("level", "error"))
        self.findings.append(Finding(code, level, text, remedy, **more))  # type: ignore[arg-type]

    def _failed(self, error: YieldstarError) -> None:
        text = " ".join((error.message.rstrip(".") + ".", *error.why))
        self._found(error.code, text, error.remedy[0] if error.remedy else None)

    # --- the file ------------------------------------------------------------------------------

    def _open(self) -> Storage | None:
        try:
            storage = open_reading(self.call, self.project)
            storage.reader.counts()
        except YieldstarError as error:
            self._failed(error)
            return None
        size = os.stat(self.project.db).st_size
        self.fine.append(f"{self.project.db} opens, {size / 1_000_000:.1f} MB")
        return storage

    def _check_mount(self) -> None:
        mount = mounts.mount_of(self.project.db.parent)
        if mount is not None and mount.is_network:
            self._found(
                "UNSAFE_FILESYSTEM",
                f"{mount.place} is a network file system ({mount.kind}); its locks do not keep "
                "two machines apart, and SQLite's WAL needs shared memory.",
                "Put the database on a local disk: --db or YS_DB.",
            )
        elif mount is not None:
            self.fine.append(f"file system {mount.kind}, local")

    def _check_modes(self) -> None:
        for suffix in ("", "-wal", "-shm", "-lock", "-marks"):
            path = f"{self.project.db}{suffix}"
            with contextlib.suppress(OSError):
                mode = stat.S_IMODE(os.stat(path).st_mode)
                if mode & 0o077:
                    self._found(
                        "OPEN_TO_OTHERS",
                        f"{path} can be read or written by others (mode {mode:04o}).",
                        f"chmod 600 {path}",
                        level="warning",
                        file=path,
                    )

    def _check_lock(self) -> None:
        from yieldstar_cli.runtime_open import open_storage

        try:
            storage = open_storage(
                self.project,
                trust=trust_of(self.call),
                clock=self.call.clock,
                busy_timeout_ms=_LONGEST_LOCK_MS,
            )
        except DatabaseBusy:
            self._found_locked()
            return
        except DatabaseReadOnly as error:
            self._failed(error)
            return
        except StorageError as error:
            self._failed(error)
            return
        self.call.closing.append(storage.close)
        try:
            with storage.atomic():
                pass
        except DatabaseBusy:
            self._found_locked()
        except StorageError as error:
            self._failed(error)
        else:
            self.fine.append("the write lock is free")

    def _found_locked(self) -> None:
        holder = mounts.write_lock_holder(f"{self.project.db}-shm")
        who = "" if holder is None else f" by process {holder}"
        self._found(
            "WRITE_LOCK_HELD",
            f"The write lock is held{who} for longer than {_LONGEST_LOCK_MS // 1000} s. "
            "The file is locked, not damaged.",
            "End that process, or let it go on (kill -CONT)."
            if holder is None
            else f"ps -p {holder}; if it is stopped: kill -CONT {holder}",
        )

    def _check_wal(self) -> None:
        with contextlib.suppress(OSError):
            size = os.stat(f"{self.project.db}-wal").st_size
            if size > _LARGE_WAL:
                self._found(
                    "LARGE_WAL",
                    f"{self.project.db}-wal has {size / 1_000_000:.0f} MB: a process keeps an old "
                    "view of the file open.",
                    "ys doctor names the live workers; end readers that hang.",
                    level="warning",
                )

    # --- workers and what they leave lying ------------------------------------------------------

    def _check_workers(self, people: Crew) -> None:
        alive = people.alive
        if not alive:
            last = people.last
            seen = ""
            if last is not None:
                ago = rough(max(0, self.call.clock.now_ms() - seen_at(last)))
                seen = f"; the last, {last.name}, was seen {ago} ago"
            self.fine.append(f"no worker is running{seen}")
            return
        names = ", ".join(row.name for row in alive[:5])
        self.fine.append(f"{len(alive)} live worker{'s' if len(alive) > 1 else ''}: {names}")
        for host, count in Counter(row.host for row in alive if not row.alone).items():
            if count >= MANY_WORKERS:
                self._found(
                    "MANY_WORKERS",
                    f"{count} workers run on {host}. From cron they pile up without an end.",
                    "In the crontab: ys worker --until-idle, or --for 55s",
                    level="warning",
                )

    def _check_due(self, storage: Storage, people: Crew) -> None:
        now = self.call.clock.now_ms()
        due = [
            record
            for record in storage.reader.find(due_by=now, sort="due", limit=_MOST, payloads=False)
            if record.delivery is None
            and record.held is None
            and record.poisoned_at is None
            and record.paused is None
        ]
        if not due:
            return
        waited = now - (due[0].due_at or now)
        words = f"{_count(due)} due, the oldest ({due[0].execution_id}) for {rough(waited)}"
        if not people.alive:
            self._found("NO_WORKER", f"{words}, and no worker is running.", "ys worker")
        elif waited > _LATE_MS:
            self._found(
                "LATE",
                f"{words}, although a worker is alive.",
                f"ys explain {typed(due[0].execution_id)}",
                level="warning",
            )

    def _check_stuck(self, storage: Storage) -> None:
        for record in self._open_ones(storage):
            name, problem = record.execution_id, record.problem
            words = safe.in_one_line(f": {problem.code}: {problem.message}" if problem else "")
            if record.poisoned_at is not None:
                self._found("POISONED", f"{name} is poisoned{words}", f"ys explain {typed(name)}")
            elif record.held is not None and record.held.until_at is None:
                self._found("HELD", f"{name} is held{words}", f"ys explain {typed(name)}")

    def _open_ones(self, storage: Storage) -> list[ExecutionRecord]:
        return storage.reader.find(statuses=("admitted", "suspended"), limit=_MOST, payloads=False)

    # --- the code --------------------------------------------------------------------------------

    def _check_workflow_directory(self) -> None:
        directory = self.project.workflows
        if directory is None:
            self.fine.append("no workflow directory in reach")
            return
        try:
            trust_of(self.call).check(directory)
        except YieldstarError as error:
            self._failed(error)

    def _check_modules(self, storage: Storage, people: Crew) -> None:
        broken = {file: message for row in people.alive for file, message in row.broken}
        if self.project.workflows is not None:
            for module in storage.catalog.modules(os.path.realpath(self.project.workflows)):
                if module.error is not None and os.path.exists(module.path):
                    broken.setdefault(module.path, module.error)
        for file, message in sorted(broken.items()):
            self._found(
                "WORKFLOW_IMPORT_FAILED",
                f"{file} does not load: {message}",
                "ys workflows",
                file=file,
            )

    def _check_code(self, storage: Storage, people: Crew) -> None:
        """Open executions whose workflow nobody has."""
        known = {key for row in people.alive for key in row.workflows}
        if self.project.workflows is not None:
            for module in storage.catalog.modules(os.path.realpath(self.project.workflows)):
                known |= {(info.workflow_id, info.version) for info in module.workflows}
        if not known:
            return
        missing = Counter(
            (record.workflow_id, record.version)
            for record in self._open_ones(storage)
            if (record.workflow_id, record.version) not in known
        )
        for (workflow_id, version), count in sorted(missing.items()):
            which = workflow_id if version == 1 else f"{workflow_id} version {version}"
            word = "execution hangs" if count == 1 else "executions hang"
            self._found(
                "UNKNOWN_WORKFLOW",
                f"{count} open {word} on {which}, which no module here registers.",
                f"ys list {workflow_id}",
            )

    def _check_clock(self, storage: Storage) -> None:
        now = self.call.clock.now_ms()
        latest = storage.reader.find(sort="admitted", limit=1, payloads=False)
        if latest and latest[0].admitted_at > now + _CLOCK_MS:
            ahead = rough(latest[0].admitted_at - now)
            self._found(
                "CLOCK",
                f"{latest[0].execution_id} was admitted {ahead} in the future: a clock has jumped.",
                "date; look at the time service of this machine",
                level="warning",
            )


def _count(records: list[ExecutionRecord]) -> str:
    if len(records) == 1:
        return "1 execution is"
    more = " or more" if len(records) == _MOST else ""
    return f"{len(records):,}{more} executions are"
