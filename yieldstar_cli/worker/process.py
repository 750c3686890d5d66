"""The worker process: wires the rooms, runs until told to stop, leaves cleanly (spec K1, K2)."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yieldstar_cli import clock as clocks
from yieldstar_cli import ids
from yieldstar_cli.checking import refresh_catalog
from yieldstar_cli.doorbell import Bell
from yieldstar_cli.engine.registry import Registry, load_directory
from yieldstar_cli.errors import CommitUnknown, NoWorkflows, StorageError
from yieldstar_cli.runtime import open_storage
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.storage.sqlite.writer import GroupWriter
from yieldstar_cli.trust import Trust
from yieldstar_cli.worker.dispatcher import Dispatcher, Limits
from yieldstar_cli.worker.guard import guarded_paths, install_guard
from yieldstar_cli.worker.leases import (
    DeadWorker,
    LeaseKeeper,
    Reports,
    Spans,
    find_ended,
)
from yieldstar_cli.worker.liveness import LockFile
from yieldstar_cli.worker.loop import AsyncLoop
from yieldstar_cli.worker.marks import MarksFile
from yieldstar_cli.worker.performers import ThreadedPerformers
from yieldstar_cli.worker.ports import Event
from yieldstar_cli.worker.signals import Signals
from yieldstar_cli.worker.watch import Stepping

if TYPE_CHECKING:
    from yieldstar_cli.engine.definition import Definition
    from yieldstar_cli.model import WorkerRow
    from yieldstar_cli.worker.carrier import Carrier
    from yieldstar_cli.worker.options import WorkerOptions

#: How often others' commits are looked for where the bell was not heard; without a bell.
LOOK_MS = 50
LOOK_WITHOUT_BELL_MS = 10
#: How often the workflow files are looked at.
MODULES_MS = 1_000
#: How old a try must be before a worker's start tries a fault of the code again (spec E12).
QUIET_MS = 300_000
#: A worker of another boot or host whose lease ended this long ago is taken for gone.
FORGOTTEN_MS = 600_000
#: How many suspects run at once, each in a process of its own (spec L5).
SUSPECTS = 1


def run_worker(options: WorkerOptions) -> int:
    """Run one worker until it is told to stop; returns the exit status (spec K1).

    Raises NoWorkflows, the StorageError family and UntrustedPath before it has begun.
    """
    process = _Process(options)
    try:
        return process.run()
    finally:
        process.close()


class _Process:
    """One worker process."""

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        self._project = options.project
        settings = options.project.settings
        self._lease_ms = options.lease_ms or settings.lease_ms
        self._grace_ms = settings.grace_ms if options.grace_ms is None else options.grace_ms
        jobs = options.jobs or settings.jobs or max(4, os.cpu_count() or 1)
        self._jobs = 1 if options.alone else jobs
        self._clock = clocks.SystemClock()
        self._talk = options.talk or (lambda event: None)
        self._exit = 0
        self._done = False
        self._ending = False
        self._handed_back = False
        #: What keeps the writer from writing, while it does.
        self._unwritable: BaseException | None = None
        self._stop_at: int | None = None
        self._linger_until: int | None = None
        self._stepped: Carrier | None = None
        self._suspects: list[subprocess.Popen[bytes]] = []
        self._begun_at = self._clock.now_ms()
        self._registry = self._load()
        self._storage = self._open()
        refresh_catalog(self._storage, self._registry)
        self._register()
        self._wire()

    # --- setting up --------------------------------------------------------------------------

    def _load(self) -> Registry:
        directory = self._project.workflows
        if directory is None or not directory.is_dir():
            where = directory or self._project.root / "workflows"
            raise NoWorkflows(
                f"there is no workflow directory at {where}",
                why=("A worker runs what the modules in it define.",),
                remedy=("ys init", "ys worker --workflows DIR"),
            )
        registry = load_directory(directory, trusted=[Path(d) for d in self._options.trust_dirs])
        for error in registry.errors:
            self._say("broken module", text=f"{error.file}:{error.line}: {error.message}")
        if not registry.definitions:
            raise NoWorkflows(
                f"no workflow in {directory} could be loaded",
                why=[f"{e.file}:{e.line}: {e.message}" for e in registry.errors]
                or ["No file there defines one with @workflow."],
                remedy=("ys workflows",),
            )
        return registry

    def _open(self) -> SqliteStorage:
        trust = Trust(tuple(Path(d).resolve() for d in self._options.trust_dirs))
        storage = open_storage(self._project, create=True, trust=trust)
        assert isinstance(storage, SqliteStorage), "a worker's leases and locks are SQLite's"
        return storage

    def _register(self) -> None:
        path = self._storage.path
        chance = ids.SystemChance()
        self._lock = LockFile(f"{path}-lock")
        self._marks = MarksFile(f"{path}-marks")
        now = self._clock.now_ms()
        living = self._storage.workers.all(living=True)
        for dead in find_ended(living, self._lock, self._marks, now):
            if self._is_gone(dead, now):
                self._storage.workers.bury(
                    dead.row.number, dead.how, dead.marked, max_deaths=Limits().deaths
                )
        nonce = chance.seed()
        # Not the slots of workers whose end nobody has noticed yet: their marks are read then.
        slot = self._lock.acquire(nonce, avoid={row.slot for row in self._unburied(now)})
        self._bell = Bell(str(Path(path).resolve()), slot)
        self._marks.take(slot, nonce)
        host = socket.gethostname()
        self._name = self._options.name or f"{host}:{os.getpid()}"
        self._number = self._storage.workers.register(
            name=self._name,
            host=host,
            pid=os.getpid(),
            slot=slot,
            nonce=nonce,
            boot_id=self._lock.boot_id,
            device=self._lock.device,
            inode=self._lock.inode,
            lease_until_at=self._clock.now_ms() + self._lease_ms,
            alone=self._options.alone is not None,
        )
        install_guard(guarded_paths(path))

    def _unburied(self, now: int) -> list[WorkerRow]:
        living = self._storage.workers.all(living=True)
        return [dead.row for dead in find_ended(living, self._lock, self._marks, now)]

    def _wire(self) -> None:
        self._loop = AsyncLoop(self._clock)
        bell = self._bell.descriptor
        self._look_ms = LOOK_WITHOUT_BELL_MS if bell is None else LOOK_MS
        if bell is not None:
            self._loop.asyncio_loop.add_reader(bell, self._rung)
        self._stepping = Stepping()
        self._performers = ThreadedPerformers(
            self._loop, self._clock, self._jobs, self._marks, talk=self._talk
        )
        self._writer = GroupWriter(
            self._open, self._loop.post, worker=self._number, on_trouble=self._trouble
        )
        settings = self._project.settings
        self._dispatcher = Dispatcher(
            loop=self._loop,
            writer=self._writer,
            storage=self._storage,
            performers=self._performers,
            marks=self._marks,
            talk=self._talk,
            worker=self._number,
            definitions=self._chosen(),
            limits=Limits(residents=settings.residents),
            stepping=self._step,
        )
        self._dispatcher.on_idle = self._idle
        if self._options.alone is None:
            self._dispatcher.on_suspect = self._start_suspect
        else:
            self._dispatcher.claim_suspect(None)
        if self._options.once:
            self._dispatcher.deliver_once(self._begun_at)
        self._keeper = LeaseKeeper(
            worker=self._number,
            open_storage=self._open,
            loop=self._loop,
            clock=self._clock,
            lock=self._lock,
            marks=self._marks,
            stepping=self._stepping,
            reports=Reports(
                dead=self._found_dead,
                lost=self._lost,
                slow=self._slow,
            ),
            loop_thread=threading.get_ident(),
            spans=Spans(lease_ms=self._lease_ms),
        )

    def _chosen(self) -> Mapping[tuple[str, int], Definition]:
        only, never = set(self._options.only), set(self._options.except_)
        return {
            key: definition
            for key, definition in self._registry.definitions.items()
            if (not only or key[0] in only) and key[0] not in never
        }

    # --- running -----------------------------------------------------------------------------

    def run(self) -> int:
        """Claim and run until something ends it."""
        self._describe()
        self._end_code_holds(QUIET_MS)
        self._say(
            "started",
            text=f"{self._name} · {self._storage.path} · "
            f"{_count(len(self._dispatcher.names), 'workflow')}, {_count(self._jobs, 'slot')}",
        )
        self._keeper.start()
        if self._options.for_ms is not None:
            self._stop_at = self._begun_at + self._options.for_ms
            self._loop.call_at(self._stop_at, self._time_is_over)
        with Signals(self._loop, self._signalled):
            self._changes = self._storage.changes()
            self._loop.post(self._dispatcher.poll)
            self._loop.post(self._look)
            self._loop.call_at(self._begun_at + MODULES_MS, self._look_at_modules)
            self._loop.run_until(lambda: self._done)
        return self._exit

    def close(self) -> None:
        """Give everything back; suspended coroutines are left as they are, never finalised."""
        self._bell.close()
        self._keeper.stop()
        self._performers.close()
        self._writer.close()
        try:
            self._storage.workers.stop(
                self._number, "handed back" if self._handed_back else "stopped"
            )
        except StorageError as error:
            self._say("trouble", text=str(error))
        _keep_for_ever(self._dispatcher)
        self._storage.close()

    def _rung(self) -> None:
        """Somebody committed something that is due."""
        self._bell.heard()
        self._loop.post(self._dispatcher.poll)

    def _look(self) -> None:
        """Look for other processes' commits, and go on looking."""
        if self._writer.fatal is not None:
            self._fail(self._writer.fatal)
            return
        changes = self._storage.changes()
        if changes != self._changes:
            self._changes = changes
            self._dispatcher.poll()
        self._reap_suspects()
        if not self._done:
            self._loop.call_at(self._loop.now_ms() + self._look_ms, self._look)

    def _idle(self) -> None:
        """Nothing is under way and nothing is due now."""
        if self._dispatcher.busy or self._suspects:
            return
        limit = self._options.max_executions
        if (
            self._ending
            or self._options.alone is not None
            or self._options.once
            or (limit is not None and self._dispatcher.delivered >= limit)
        ):
            self._done = True
        elif self._options.until_idle:
            now = self._loop.now_ms()
            due = self._dispatcher.next_due()
            if due is None or due > now + self._options.linger_ms:
                self._done = True

    def _stop(self) -> None:
        """Claim nothing more, and leave once nothing runs."""
        if not self._ending:
            self._ending = True
            self._dispatcher.stop()
            if not self._dispatcher.busy:
                self._done = True

    def _time_is_over(self) -> None:
        """`--for` has passed: let steps end, but do not wait for a file that takes no writes."""
        self._stop()
        self._loop.call_at(self._loop.now_ms() + self._grace_ms, self._leave_unwritten)

    def _leave_unwritten(self) -> None:
        if self._unwritable is not None and not self._done:
            self._exit = getattr(self._unwritable, "exit_code", 1)
            self._grace_over()
        elif not self._done:
            self._loop.call_at(self._loop.now_ms() + MODULES_MS, self._leave_unwritten)

    def _signalled(self, number: int) -> None:
        self._stop()
        if self._done:
            return
        running = self._dispatcher.open_executions()
        self._say(
            "stopping",
            text=f"finishing {len(running)}: {', '.join(running[:3])};"
            " a second signal leaves at once",
        )
        self._loop.call_at(self._loop.now_ms() + self._grace_ms, self._grace_over)

    def _grace_over(self) -> None:
        """Hand back what has not ended: claimable once this process is gone (spec K2)."""
        if self._dispatcher.busy:
            running = self._dispatcher.open_executions()
            self._say("handed back", text=", ".join(running[:5]))
            self._handed_back = True
            self._dispatcher.abandon()
        self._done = True

    def _fail(self, error: BaseException) -> None:
        self._exit = 11 if isinstance(error, CommitUnknown) else getattr(error, "exit_code", 1)
        self._say("fatal", text=str(error))
        self._dispatcher.fatal = error
        self._handed_back = True
        self._dispatcher.abandon()
        self._done = True

    def _lost(self) -> None:
        self._fail(StorageError("this worker's row was ended by another; nothing more is recorded"))

    # --- other workers, suspects ---------------------------------------------------------------

    def _found_dead(self, found: Sequence[DeadWorker]) -> None:
        now = self._loop.now_ms()
        for dead in found:
            if self._is_gone(dead, now):
                self._dispatcher.bury(dead.row, dead.how, dead.marked)
        self._dispatcher.poll()

    @staticmethod
    def _is_gone(dead: DeadWorker, now: int) -> bool:
        """A lease that only ended ends nothing: a claim takes over (spec L2)."""
        return dead.how == "died" or dead.row.lease_until_at < now - FORGOTTEN_MS

    def _start_suspect(self) -> None:
        """Deliver a suspect in a process of its own (spec L5)."""
        if len(self._suspects) >= SUSPECTS:
            return
        command = [sys.executable, "-m", "yieldstar_cli", "worker", "--alone", "next"]
        command += ["--db", self._storage.path, "--workflows", str(self._registry.directory)]
        command += ["--lease", f"{self._lease_ms}ms"]
        for trusted in self._options.trust_dirs:
            command += ["--trust-dir", trusted]
        if self._options.only:
            command += ["--only", ",".join(self._options.only)]
        if self._options.except_:
            command += ["--except", ",".join(self._options.except_)]
        self._say("alone", text="a suspect runs in a process of its own")
        self._suspects.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))

    def _reap_suspects(self) -> None:
        ended = [process for process in self._suspects if process.poll() is not None]
        if ended:
            self._suspects = [p for p in self._suspects if p not in ended]
            living = self._storage.workers.all(living=True)
            self._found_dead(find_ended(living, self._lock, self._marks, self._loop.now_ms()))

    # --- code that changes ---------------------------------------------------------------------

    def _describe(self) -> None:
        self._storage.workers.describe(
            self._number, self._dispatcher.names, self._registry.broken()
        )

    def _end_code_holds(self, quiet_ms: int) -> None:
        states = {key: d.module_state for key, d in self._dispatcher.definitions.items()}
        self._storage.deliveries.end_code_holds(self._loop.now_ms(), states, quiet_ms=quiet_ms)

    def _look_at_modules(self) -> None:
        if self._ending:
            return
        changed = self._registry.reload_changed(self._registry.files)
        if changed:
            for error in self._registry.errors:
                self._say("broken module", text=f"{error.file}:{error.line}: {error.message}")
            self._say("reloaded", text=", ".join(sorted(changed)))
            self._dispatcher.use(self._chosen())
            self._after_reload()
        self._loop.call_at(self._loop.now_ms() + MODULES_MS, self._look_at_modules)

    def _after_reload(self) -> None:
        """Tell the file what is loaded now; holds for faults of the changed code end (E12)."""
        number, names = self._number, self._dispatcher.names
        broken = self._registry.broken()
        states = {key: d.module_state for key, d in self._dispatcher.definitions.items()}
        now, registry = self._loop.now_ms(), self._registry

        def request(storage: Any) -> None:
            storage.workers.describe(number, names, broken)
            storage.deliveries.end_code_holds(now, states, quiet_ms=10 * QUIET_MS)

        def reply(_: object, error: BaseException | None) -> None:
            refresh_catalog(self._storage, registry)
            self._dispatcher.poll()

        self._writer.submit(request, reply)

    # --- talk ------------------------------------------------------------------------------------

    def _slow(self, text: str) -> None:
        """Code holds the loop's thread; called in the keeper's thread (spec R12)."""
        self._say("slow", text=text)
        carrier = self._stepped
        if carrier is not None:
            delivery = carrier.claimed.delivery
            self._writer.submit(
                lambda storage: storage.deliveries.note(delivery, "SLOW_CODE", text),
                lambda _, error: None,
            )

    def _step(self, carrier: Carrier | None) -> None:
        self._stepped = carrier
        if carrier is None:
            self._stepping.end()
        else:
            self._stepping.begin(lambda: carrier.execution_id, clocks.monotonic_ms())

    def _trouble(self, error: BaseException | None) -> None:
        text = "the database can be written again" if error is None else str(error)

        def told() -> None:
            self._unwritable = error
            self._say("trouble", text=text)

        self._loop.post(told)

    def _say(self, kind: str, text: str = "") -> None:
        self._talk(Event(at=self._clock.now_ms(), kind=kind, execution_id="", text=text))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _keep_for_ever(thing: object) -> None:
    """Never finalise what `thing` holds: suspended coroutines would run their `finally` (R6)."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
