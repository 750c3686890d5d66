"""The worker process: wires the rooms, runs until told to stop, leaves cleanly (spec K1, K2)."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from yieldstar_cli import clock as clocks
from yieldstar_cli.errors import CommitUnknown, StorageError
from yieldstar_cli.runtime_open import open_storage
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.storage.sqlite.writer import GroupWriter
from yieldstar_cli.trust import Trust
from yieldstar_cli.worker.code import Code
from yieldstar_cli.worker.dispatcher import Dispatcher, Limits
from yieldstar_cli.worker.leases import DeadWorker, LeaseKeeper, Reports, Spans
from yieldstar_cli.worker.loop import AsyncLoop
from yieldstar_cli.worker.member import Member
from yieldstar_cli.worker.memory import memory_reader
from yieldstar_cli.worker.neighbours import Neighbours
from yieldstar_cli.worker.performers import ThreadedPerformers
from yieldstar_cli.worker.place import Place
from yieldstar_cli.worker.ports import Event
from yieldstar_cli.worker.sharing import Sharing
from yieldstar_cli.worker.signals import Signals
from yieldstar_cli.worker.suspects import Suspects
from yieldstar_cli.worker.watch import Stepping

if TYPE_CHECKING:
    from yieldstar_cli.worker.carrier import Carrier
    from yieldstar_cli.worker.options import WorkerOptions

#: How often others' commits are looked for where the bell was not heard; while nothing has changed
#: for a second; without a bell.
LOOK_MS = 50
QUIET_LOOK_MS = 150
QUIET_AFTER_MS = 1_000
LOOK_WITHOUT_BELL_MS = 10
#: How long after the grace the loop may still be late before the process ends without it.
LATE_MS = 2_000
#: How often the workflow files are looked at.
MODULES_MS = 1_000


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
        #: How often the file is just being told what is loaded.
        self._telling = 0
        self._ending = False
        self._handed_back = False
        self._stepped: Carrier | None = None
        self._begun_at = self._clock.now_ms() if options.member is None else options.member.begun_at
        self._code = Code(options, self._say)
        self._storage = self._open()
        self._place = Place(
            self._storage,
            self._storage.path,
            self._clock,
            name=options.name,
            lease_ms=self._lease_ms,
            alone=options.alone is not None,
        )
        self._suspects = Suspects(self._shared_words())
        self._wire()

    # --- setting up --------------------------------------------------------------------------

    def _open(self) -> SqliteStorage:
        trust = Trust(tuple(Path(os.path.realpath(d)) for d in self._options.trust_dirs))
        storage = open_storage(self._project, create=True, trust=trust)
        assert isinstance(storage, SqliteStorage), "a worker's leases and locks are SQLite's"
        return storage

    def _wire(self) -> None:
        place = self._place
        self._loop = AsyncLoop(self._clock)
        bell = place.bell.descriptor
        self._look_ms = LOOK_WITHOUT_BELL_MS if bell is None else LOOK_MS
        self._quiet_look_ms = LOOK_WITHOUT_BELL_MS if bell is None else QUIET_LOOK_MS
        if bell is not None:
            self._loop.asyncio_loop.add_reader(bell, self._rung)
        self._member: Member | None = None
        if self._options.member is not None:
            self._member = Member(self._options.member, self._poll_soon, self._left_alone)
            self._loop.asyncio_loop.add_reader(self._member.descriptor, self._called)
        self._stepping = Stepping()
        self._performers = ThreadedPerformers(
            self._loop, self._clock, self._jobs, place.marks, talk=self._talk
        )
        self._writer = GroupWriter(
            self._open, self._loop.post, worker=place.number, on_trouble=self._trouble
        )
        self._dispatcher = Dispatcher(
            loop=self._loop,
            writer=self._writer,
            storage=self._storage,
            performers=self._performers,
            marks=place.marks,
            talk=self._talk,
            worker=place.number,
            definitions={},
            tags=self._code.tags,
            limits=Limits(residents=self._project.settings.residents),
            stepping=self._step,
        )
        self._use_code()
        self._dispatcher.on_idle = self._idle
        others = Neighbours(place.number, self._storage, self._storage.path, self._loop)
        self._dispatcher.on_rouse = others.rouse
        self._dispatcher.memory_used = memory_reader()
        if self._options.alone is None:
            self._dispatcher.on_suspect = self._start_suspect
        else:
            self._dispatcher.claim_suspect(None)
        if self._options.once:
            self._dispatcher.deliver_once(self._begun_at)
        self._keeper = LeaseKeeper(
            worker=place.number,
            open_storage=self._open,
            loop=self._loop,
            clock=self._clock,
            lock=place.lock,
            marks=place.marks,
            stepping=self._stepping,
            reports=Reports(dead=self._found_dead, lost=self._lost, slow=self._slow),
            loop_thread=threading.get_ident(),
            spans=Spans(lease_ms=self._lease_ms),
        )
        self._dispatcher.leased = self._keeper.stands

    def _shared_words(self) -> list[str]:
        """The options of `ys worker` that a suspect's own process shares."""
        words = ["--db", self._storage.path, "--workflows", str(self._code.directory)]
        words += ["--lease", f"{self._lease_ms}ms"]
        for trusted in self._options.trust_dirs:
            words += ["--trust-dir", trusted]
        if self._options.only:
            words += ["--only", ",".join(self._options.only)]
        if self._options.except_:
            words += ["--except", ",".join(self._options.except_)]
        words += [word for tag in sorted(self._code.tags) for word in ("--tag", tag)]
        return words

    # --- running -----------------------------------------------------------------------------

    def run(self) -> int:
        """Claim and run until something ends it."""
        # From the first thread on: Ctrl-C is a request here, and breaks nothing off half-way.
        patience_s = (self._grace_ms + LATE_MS) / 1_000
        with Signals(self._loop, self._signalled, patience_s=patience_s, on_late=self._late):
            self._say(
                "started",
                f"{self._place.name} · {self._storage.path} · "
                f"{_count(len(self._dispatcher.names), 'workflow')}, {_count(self._jobs, 'slot')}"
                f"{''.join(f', tag {tag}' for tag in sorted(self._code.tags))}",
            )
            self._keeper.start()
            if self._options.for_ms is not None:
                self._loop.call_at(self._begun_at + self._options.for_ms, self._time_is_over)
            # Thousands of suspended coroutines live long and hang in no cycles: look seldom.
            gc.freeze()
            gc.set_threshold(50_000, 20, 100)
            self._changes = self._storage.changes()
            self._changed_at = self._begun_at
            if self._member is not None:
                self._member.ready()
            self._look_for_company()
            # Nothing is claimed before the holds that this start ends have ended.
            self._tell_code(starts=True)
            self._loop.post(self._look)
            self._loop.call_at(self._begun_at + MODULES_MS, self._look_at_modules)
            self._loop.run_until(lambda: self._done)
        return self._exit

    def close(self) -> None:
        """Give everything back; suspended coroutines are left as they are, never finalised."""
        self._keeper.stop()
        self._performers.close()
        how = "handed back" if self._handed_back else "stopped"
        self._place.leave(self._writer, how, lambda text: self._say("trouble", text))
        _keep_for_ever(self._dispatcher)
        self._storage.close()

    def _rung(self) -> None:
        """Somebody committed something that is due."""
        self._place.bell.heard()
        self._loop.post(self._dispatcher.poll)

    def _called(self) -> None:
        """The crew that started this worker said something, or is gone."""
        if self._member is not None and not self._member.hear():
            self._loop.asyncio_loop.remove_reader(self._member.descriptor)

    def _poll_soon(self) -> None:
        self._loop.post(self._dispatcher.poll)

    def _left_alone(self) -> None:
        """Who started this worker has died: nobody would stop it."""
        self._loop.post(lambda: self._signalled(signal.SIGTERM))

    def _look(self) -> None:
        """Look for other processes' commits, and go on looking."""
        self._place.leave_if_moved(lambda text: self._say("fatal", text))
        if self._writer.fatal is not None:
            self._fail(self._writer.fatal)
            return
        changes = self._storage.changes()
        if changes != self._changes:
            self._changes = changes
            self._changed_at = self._loop.now_ms()
            self._dispatcher.poll()
        if self._suspects.ended():
            self._bury(self._place.gone())
        if self._member is not None and self._dispatcher.busy:
            self._member.busy(True)
        if not self._done:
            now = self._loop.now_ms()
            quiet = now - self._changed_at > QUIET_AFTER_MS
            self._loop.call_at(now + (self._quiet_look_ms if quiet else self._look_ms), self._look)

    def _idle(self) -> None:
        """Nothing is under way and nothing is due now."""
        if self._dispatcher.busy or self._suspects:
            return
        if self._ending or self._options.alone is not None:
            self._done = True
        elif self._telling:
            return  # what was held may be due once the file knows what is loaded here (E12)
        elif self._options.once:
            self._done = True
        elif self._options.until_idle:
            due = self._dispatcher.next_due()
            if due is None or due > self._loop.now_ms() + self._options.linger_ms:
                self._leave_idle()

    def _leave_idle(self) -> None:
        """Nothing is left to do here: of several, the last one so leaves, and the others then."""
        if self._member is None or self._member.all_idle:
            self._done = True
        else:
            self._member.busy(False)

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
        trouble = self._writer.trouble
        if trouble is not None and not self._done:
            self._exit = getattr(trouble, "exit_code", 1)
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
            f"finishing {len(running)}: {', '.join(running[:3])}; a second signal leaves at once",
        )
        self._loop.call_at(self._loop.now_ms() + self._grace_ms, self._grace_over)

    def _late(self) -> None:
        """The loop heeds no signal; called in a thread of its own, just before the end."""
        self._say("handed back", "code that never comes to its next await is left behind")
        # As any hand-back: it counts as no death of the execution (spec L5).
        number = self._place.number
        self._writer.submit(
            lambda storage: storage.workers.stop(number, "handed back"), lambda _, error: None
        )
        self._writer.close()

    def _grace_over(self) -> None:
        """Hand back what has not ended: claimable once this process is gone (spec K2)."""
        if self._dispatcher.busy:
            running = self._dispatcher.open_executions()
            self._say("handed back", ", ".join(running[:5]))
            self._handed_back = True
            self._dispatcher.abandon()
        self._done = True

    def _fail(self, error: BaseException) -> None:
        self._exit = 11 if isinstance(error, CommitUnknown) else getattr(error, "exit_code", 1)
        self._say("fatal", str(error))
        self._dispatcher.fatal = error
        self._handed_back = True
        self._dispatcher.abandon()
        self._done = True

    # --- other workers -----------------------------------------------------------------------

    def _look_for_company(self) -> None:
        """Hold back with claims while others could make them."""
        if self._member is None and len(self._storage.workers.all(living=True)) < 2:
            self._dispatcher.sharing = None
        elif self._dispatcher.sharing is None:
            self._dispatcher.sharing = Sharing(self._performers, self._clock)

    def _found_dead(self, found: Sequence[DeadWorker]) -> None:
        self._bury(self._place.gone(found))

    def _bury(self, gone: Sequence[DeadWorker]) -> None:
        for dead in gone:
            self._dispatcher.bury(dead.row, dead.how, dead.marked)
        self._dispatcher.poll()

    def _lost(self) -> None:
        self._fail(StorageError("this worker's row was ended by another; nothing more is recorded"))

    def _start_suspect(self) -> None:
        if self._suspects.start():
            self._say("alone", "a suspect runs in a process of its own")

    # --- code that changes ---------------------------------------------------------------------

    def _look_at_modules(self) -> None:
        if self._ending:
            return
        self._look_for_company()
        if self._code.reload():
            self._use_code()
            self._tell_code(starts=False)
        self._loop.call_at(self._loop.now_ms() + MODULES_MS, self._look_at_modules)

    def _use_code(self) -> None:
        """Claim what this worker may run; what is left to others can still be started (R11)."""
        self._dispatcher.use(self._code.loaded())
        self._dispatcher.names = sorted(self._code.definitions())

    def _tell_code(self, *, starts: bool) -> None:
        request = self._code.telling(self._place.number, self._loop.now_ms(), starts=starts)
        self._telling += 1

        def told(_: object, error: BaseException | None) -> None:
            self._telling -= 1
            self._dispatcher.poll()

        self._writer.submit(request, told)

    # --- talk ------------------------------------------------------------------------------------

    def _slow(self, text: str) -> None:
        """Code holds the loop's thread; called in the keeper's thread (spec R12)."""
        self._say("slow", text)
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
        self._loop.post(lambda: self._say("trouble", text))

    def _say(self, kind: str, text: str) -> None:
        self._talk(Event(at=self._clock.now_ms(), kind=kind, execution_id="", text=text))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _keep_for_ever(thing: object) -> None:
    """Never finalise what `thing` holds: suspended coroutines would run their `finally` (R6)."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
