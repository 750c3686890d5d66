"""Claims what is due and hands it to carriers; sleeps until something can be due (spec E7, K1).

One thread, no I/O of its own: everything it needs is a port, so that the worker, the test kit
and a simulator drive the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from yieldstar_cli.engine import assembly
from yieldstar_cli.engine.definition import Definition, latest
from yieldstar_cli.errors import YieldstarError
from yieldstar_cli.failures_text import message_of
from yieldstar_cli.model import Claimed, Outcome, Recorded, Round, Suspended, WorkerRow
from yieldstar_cli.worker.carrier import Carrier
from yieldstar_cli.worker.ports import Cancellable, Event
from yieldstar_cli.worker.residents import Resident, Residents
from yieldstar_cli.worker.waiting import Waiting

if TYPE_CHECKING:
    from yieldstar_cli.engine.driver import Driver
    from yieldstar_cli.storage.contract import Storage, Writer
    from yieldstar_cli.worker.ports import Loop, Marks, Performers, Talk
    from yieldstar_cli.worker.sharing import Sharing

#: How many executions one claim takes at most: what can start soon.
CLAIM_BATCH = 256
#: How many rounds of a turn wait for each other: the writer works on them beside the turn's rest.
ROUNDS_AT_ONCE = 256
#: One of so many goes to what became due last, where more is due than one claim takes: oldest
#: first alone would let everything new wait for the end of a backlog of any length.
FRESH_SHARE = 8
#: When a claim that failed or found nothing is tried again.
RETRY_MS = 1_000
#: The longest pause after a storage error (spec E12).
LONGEST_HOLD_MS = 300_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What one worker takes on at once."""

    #: Open deliveries.
    open: int = 1_000
    #: Suspended coroutines kept in memory, a tenth of them far from due (spec R6).
    residents: int = 10_000
    #: Bytes of the process above which the oldest quarter of them goes (spec R6).
    memory: int = 1 << 30
    #: Sync steps that may wait for a thread before no more is claimed.
    backlog: int = 64
    #: Deaths while alone after which an execution is parked as poisoned (spec L5).
    deaths: int = 5


def _always() -> bool:
    return True


class Dispatcher:
    """One worker's claim loop. `definitions` maps (workflow, version) to what it can run."""

    def __init__(
        self,
        *,
        loop: Loop,
        writer: Writer,
        storage: Storage,
        performers: Performers,
        marks: Marks,
        talk: Talk,
        worker: int,
        definitions: Mapping[tuple[str, int], Definition],
        tags: frozenset[str] = frozenset(),
        limits: Limits | None = None,
        stepping: Callable[[Carrier | None], None] | None = None,
    ) -> None:
        self.loop = loop
        self.writer = writer
        self.performers = performers
        self.talk = talk
        self.untold: Container[str] = getattr(talk, "untold", ())
        self.stopping = False
        #: What this worker was started with (spec O5).
        self.tags = tags
        self.limits = limits or Limits()
        self.definitions: dict[tuple[str, int], Definition] = dict(definitions)
        #: What claims are narrowed to; changed with `use`.
        self.names: Sequence[tuple[str, int]] = sorted(self.definitions)
        self.delivered = 0
        #: How many bytes this process holds; None where that cannot be told.
        self.memory_used: Callable[[], int] | None = None
        #: Set while other workers could claim what this one does.
        self.sharing: Sharing | None = None
        #: Called when a suspect is due: it is to be run in a process of its own (spec L5).
        self.on_suspect: Callable[[], None] | None = None
        #: Called whenever a delivery ended or a claim found nothing.
        self.on_idle: Callable[[], None] | None = None
        #: Called when something may be due for other workers by what was committed here.
        self.on_rouse: Callable[[], None] | None = None
        #: False once this worker's lease has ended by its own clock.
        self.leased: Callable[[], bool] = _always
        self.fatal: BaseException | None = None
        self._storage = storage
        self._tags = sorted(tags)
        self._marks = marks
        self._worker = worker
        self._stepping = stepping
        self._mark = -1
        self._carriers: dict[int, Carrier] = {}
        self._residents = Residents(self.limits.residents, self.limits.memory)
        self._scheduled: list[Carrier] = []
        #: Rounds of this turn, which go to the writer together when it ends.
        self._rounds: list[tuple[Carrier, Round]] = []
        self._in_turn = False
        self._poll_comes = False
        self._left: list[Driver] = []
        self._flushing = False
        self._claiming = False
        self._asked = 0
        self._claim_again = False
        self._alarm: Cancellable | None = None
        self._alarm_at: int | None = None
        self._suspects = False
        self._only: str | None = None
        #: Infrastructure errors in a row, by execution.
        self._troubles: dict[int, int] = {}
        #: With `deliver_once`: the moment that bounds what is due, and what was delivered.
        self._begun_at: int | None = None
        self._seen: set[int] | None = None

    # --- what the worker calls -------------------------------------------------------------

    def use(self, definitions: Mapping[tuple[str, int], Definition]) -> None:
        """Take other code: residents of code that changed are dropped (spec R6)."""
        self.definitions = dict(definitions)
        self.names = sorted(self.definitions)
        self._residents.drop_changed(self.definitions)

    def claim_suspect(self, only: str | None) -> None:
        """From now on claim one suspect and nothing else (spec L5)."""
        self._suspects = True
        self._only = only

    def deliver_once(self, begun_at: int) -> None:
        """Claim only what was due at `begun_at`, each execution once (spec K1, `--once`)."""
        self._begun_at = begun_at
        self._seen = set()

    def poll(self) -> None:
        """Claim what is due, if anything is; else sleep until something can be."""
        if self.stopping or self.fatal is not None:
            return
        if self._carriers:
            self._nudge()
        if self._claiming:
            self._claim_again = True
            return
        room = self._room()
        if room <= 0:
            return
        now = self.loop.now_ms() if self._begun_at is None else self._begun_at
        due = self._next_due(suspects=self._suspects)
        if due is not None and due <= now:
            self._claim(now, room)
            return
        self._sleep_until(due)
        if not self._suspects and self.on_suspect is not None:
            suspect = self._next_suspect()
            if suspect is not None and suspect <= now:
                self.on_suspect()
            else:
                self._sleep_until(suspect)
        self._tell_idle()

    def _next_due(self, *, suspects: bool) -> int | None:
        return self._storage.deliveries.next_due(
            self.names, suspects=suspects, worker=self._worker, tags=self._tags
        )

    def _next_suspect(self) -> int | None:
        return self._next_due(suspects=True)

    def _nudge(self) -> None:
        """Let open deliveries look again that something has happened for (spec R10)."""
        for number, count in self._storage.deliveries.nudged(self._worker):
            carrier = self._carriers.get(number)
            if carrier is not None:
                carrier.nudge(count)

    def _tell_idle(self) -> None:
        if self.on_idle is not None and not self.busy:
            self.on_idle()

    def bury(self, row: WorkerRow, how: str, marked: Mapping[int, int]) -> None:
        """End the claims of a worker that is gone, and take up what became due (spec L3)."""
        deaths = self.limits.deaths

        def reply(count: int, error: BaseException | None) -> None:
            if error is None and count:
                self._say("buried", text=f"{row.name} {how}; {count} deliveries taken back")
            self.poll()

        self.writer.submit(
            lambda storage: storage.workers.bury(row.number, how, marked, max_deaths=deaths),
            reply,
        )

    def stop(self) -> None:
        """Claim nothing more; deliveries end as soon as nothing runs in them (spec K2)."""
        self.stopping = True
        if self._alarm is not None:
            self._alarm.cancel()
        for carrier in list(self._carriers.values()):
            self.schedule(carrier)

    def abandon(self) -> None:
        """Record nothing more: the lease is lost, or the grace is over."""
        for carrier in list(self._carriers.values()):
            carrier.abandon()

    def forget(self) -> None:
        """Let every coroutine go, as the end of a process does; nothing is recorded (spec R6)."""
        self.stopping = True
        for carrier in self._carriers.values():
            carrier.driver.drop()
        self._residents.forget()
        self._carriers.clear()

    @property
    def max_value(self) -> int:
        """How many bytes one result may have as JSON (spec V2)."""
        return self._storage.max_value

    @property
    def open_count(self) -> int:
        """Deliveries under way."""
        return len(self._carriers)

    @property
    def busy(self) -> bool:
        """True while a delivery or a claim is under way."""
        return bool(self._carriers) or self._claiming

    def next_due(self) -> int | None:
        """The earliest moment at which this worker may claim something, or have it claimed."""
        due = self._next_due(suspects=self._suspects)
        suspect = None if self._suspects or self.on_suspect is None else self._next_suspect()
        return min((moment for moment in (due, suspect) if moment is not None), default=None)

    def open_executions(self) -> list[str]:
        """The executions under way, for people."""
        return [carrier.execution_id for carrier in self._carriers.values()]

    # --- claims ----------------------------------------------------------------------------

    def _room(self) -> int:
        if self.performers.backlog() >= self.limits.backlog:
            return 0
        room = min(CLAIM_BATCH, self.limits.open - len(self._carriers))
        return room if self.sharing is None else self.sharing.room(room, len(self._carriers))

    def _claim(self, now: int, room: int) -> None:
        self._claiming = True
        self._asked = room
        names, suspects, only = self.names, self._suspects, self._only
        self.writer.submit(
            lambda storage: storage.deliveries.claim(
                now,
                worker=self._worker,
                limit=1 if suspects else room,
                workflows=names,
                suspects=suspects,
                only=only,
                tags=self._tags,
                known=self._known,
                fresh=room // FRESH_SHARE,
            ),
            self._claimed,
        )

    def _known(self, number: int, incarnation: int) -> int:
        """How much history a resident holds; called by the writer's thread, reads only."""
        carrier = self._carriers.get(number)
        if carrier is not None and carrier.suspending and self.limits.residents:
            # It suspended earlier in this very batch: by the time of the reply it is a resident.
            same = carrier.claimed.incarnation == incarnation
            return carrier.driver.position if same else 0
        resident = self._residents.get(number)
        if resident is None or resident.incarnation != incarnation:
            return 0
        return resident.driver.position

    def _claimed(self, found: list[Claimed] | None, error: BaseException | None) -> None:
        if error is not None or found is None:
            self._claiming = False
            self._say("trouble", text=str(error))
            self._sleep_until(self.loop.now_ms() + RETRY_MS)
            return
        if self.sharing is not None:
            self.sharing.took(len(found), self._asked)
        with self._turn():
            for claimed in found:
                self._begin(claimed)
        self._claiming = False
        self._drop_residents()
        again, self._claim_again = self._claim_again, False
        if again or found:
            self._poll_soon()
            return
        # Somebody else was quicker, or what is due is not for us: look again, not at once.
        self._sleep_until(self.loop.now_ms() + RETRY_MS)
        self._tell_idle()

    def _begin(self, claimed: Claimed) -> None:
        number = claimed.delivery.number
        self.delivered += 1
        resident = self._residents.take(number)
        definition = self.definitions.get((claimed.workflow_id, claimed.version))
        again = self._seen is not None and number in self._seen
        if self._seen is not None:
            self._seen.add(number)
        if again:
            # What it started with is delivered; what became due meanwhile is left.
            self.stopping = True
        if definition is None or self.stopping:
            if resident is not None:
                resident.driver.drop()
            self._hand_back(claimed)
            return
        driver, waiting, fresh = self._driver(claimed, definition, resident)
        if driver is None or waiting is None:
            self._hand_back(claimed)
            return
        deliveries = self._storage.deliveries
        carrier = Carrier(self, claimed, driver, waiting, definition.result_type, deliveries)
        self._carriers[number] = carrier
        self._say("claimed", claimed, attempt=claimed.delivery.token)
        try:
            self._replay(carrier, driver, claimed, fresh=fresh)
            carrier.begin()
        except (Exception, SystemExit, GeneratorExit) as error:
            self._break_off(carrier, error)

    def _replay(self, carrier: Carrier, driver: Driver, claimed: Claimed, *, fresh: bool) -> None:
        self.enter_code(carrier, self.loop.now_ms())
        try:
            fault = assembly.damage(claimed)
            if fault is not None:
                driver.fault = fault
            elif fresh:
                assembly.run(driver, claimed)
            else:
                driver.feed(claimed.history)
        finally:
            self.leave_code()

    def _break_off(self, carrier: Carrier, error: BaseException) -> None:
        """What should not happen happened in one delivery: the others go on (spec E12)."""
        if not isinstance(error, Exception):
            raise error  # Ctrl-C where no worker process heeds it, or the kit's own kill.
        text = f"{type(error).__name__}: {message_of(error)}"
        self._say("trouble", carrier.claimed, text=text)
        carrier.break_off(error)

    def _driver(
        self, claimed: Claimed, definition: Definition, resident: Resident | None
    ) -> tuple[Driver | None, Waiting | None, bool]:
        """The resident if it is fresh, else a new driver; None if its history must be read anew."""
        if resident is not None:
            driver = resident.driver
            if (
                driver.definition is definition
                and resident.incarnation == claimed.incarnation
                and driver.position == claimed.first_position
            ):
                if claimed.delivery.token != resident.token + 1:
                    # Others have delivered it since: what they wait for stands in the file.
                    rows = self._storage.reader.waits(claimed.delivery.number)
                    resident.waiting.compare(rows)
                return driver, resident.waiting, False
            driver.drop()
        if claimed.first_position:
            return None, None, False
        made = assembly.assemble(definition, claimed, self._library)
        return made, Waiting(made, claimed.waits), True

    def _library(self, workflow_id: str, version: int | None = None) -> Definition | None:
        """That version of a workflow, or the latest that this worker has (spec R11)."""
        if version is not None:
            return self.definitions.get((workflow_id, version))
        return latest(self.definitions, workflow_id)

    def latest(self, definition: Definition) -> int:
        """The version that the next incarnation of a `definition` runs (spec R11)."""
        found = self._library(definition.workflow_id)
        return definition.version if found is None else max(found.version, definition.version)

    def rouse(self) -> None:
        """By what was committed others may be due: see whether here, and tell elsewhere."""
        if not self.stopping:
            self._poll_soon()
        if self.on_rouse is not None:
            self.on_rouse()

    def _poll_soon(self) -> None:
        """Poll once all that is ready has been done, however many ask for it."""
        if not self._poll_comes:
            self._poll_comes = True
            self.loop.post(self._poll_now)

    def _poll_now(self) -> None:
        self._poll_comes = False
        self.poll()

    def _hand_back(self, claimed: Claimed) -> None:
        delivery = claimed.delivery
        self.writer.submit(
            lambda storage: storage.executions.release(delivery),
            lambda _, error: self._tell_idle() if self.stopping else self.poll(),
        )

    def hold(self, carrier: Carrier, error: BaseException) -> None:
        """After an infrastructure error: deliver again at once, then after growing pauses (E12)."""
        delivery = carrier.claimed.delivery
        count = 0 if carrier.recorded else self._troubles.get(delivery.number, 0)
        self._troubles[delivery.number] = count + 1
        pause = min(1_000 * 2 ** (count - 1), LONGEST_HOLD_MS) if count else 0
        until = self.loop.now_ms() + pause
        if isinstance(error, YieldstarError):
            code, text = error.code, str(error)
        else:
            code, text = "INTERNAL", f"{type(error).__name__}: {message_of(error)}"
        self.writer.submit(
            lambda storage: storage.executions.release(
                delivery, how=code, problem=(code, text), held=count > 0, held_until=until
            ),
            lambda _, refused: self.poll(),
        )

    # --- what carriers call ------------------------------------------------------------------

    def schedule(self, carrier: Carrier) -> None:
        """Pump the carrier once the callbacks that are ready have run."""
        if carrier.scheduled or carrier.over:
            return
        carrier.scheduled = True
        self._scheduled.append(carrier)
        if not self._flushing:
            self._flushing = True
            self.loop.post(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        scheduled, self._scheduled = self._scheduled, []
        with self._turn():
            for carrier in scheduled:
                carrier.scheduled = False
                try:
                    carrier.pump()
                except (Exception, SystemExit, GeneratorExit) as error:
                    self._break_off(carrier, error)

    def commit(self, carrier: Carrier, changes: Round) -> None:
        """Write a round, together with those of the same turn; `carrier.committed` is told."""
        self._rounds.append((carrier, changes))
        if not self._in_turn or len(self._rounds) >= ROUNDS_AT_ONCE:
            self._commit_rounds()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """What many carriers write meanwhile goes to the writer as one request."""
        self._in_turn = True
        try:
            yield
        finally:
            self._in_turn = False
            self._commit_rounds()

    def _commit_rounds(self) -> None:
        if not self._rounds:
            return
        rounds, self._rounds = self._rounds, []
        asked = [(carrier.claimed.delivery, changes) for carrier, changes in rounds]
        self.writer.submit(
            lambda storage: storage.deliveries.record_all(asked),
            lambda answers, error: self._committed(rounds, answers, error),
        )

    def _committed(
        self,
        rounds: Sequence[tuple[Carrier, Round]],
        answers: Sequence[Recorded | Exception] | None,
        error: BaseException | None,
    ) -> None:
        with self._turn():
            for index, (carrier, changes) in enumerate(rounds):
                answer = None if answers is None else answers[index]
                try:
                    if isinstance(answer, Exception):
                        carrier.committed(changes, None, answer)
                    else:
                        carrier.committed(changes, answer, error)
                except (Exception, SystemExit, GeneratorExit) as raised:
                    self._break_off(carrier, raised)

    def enter_code(self, carrier: Carrier, now: int) -> None:
        """Workflow code is about to run: marked for whoever outlives this process (spec L5)."""
        self._mark = self._marks.enter(carrier.claimed.delivery.number, "", now)
        if self._stepping is not None:
            self._stepping(carrier)

    def leave_code(self) -> None:
        """It came to its next await."""
        if self._stepping is not None:
            self._stepping(None)
        self._marks.leave(self._mark)

    def ended(self, carrier: Carrier, outcome: Outcome | None) -> None:
        """A delivery is over: keep the coroutine of a suspended one as a resident (spec R6)."""
        number = carrier.claimed.delivery.number
        if self._carriers.get(number) is carrier:
            del self._carriers[number]
        driver = carrier.driver
        if isinstance(outcome, Suspended) and driver.fault is None and self.limits.residents:
            self._residents.put(
                number,
                Resident(
                    driver,
                    carrier.claimed.incarnation,
                    carrier.waiting,
                    carrier.claimed.delivery.token,
                    outcome.due_at,
                ),
                self.loop.now_ms(),
            )
            self._drop_residents()
            if not self.stopping and outcome.due_at is not None:
                self._sleep_until(outcome.due_at)
        elif self.stopping:
            # The process is leaving: nothing is finalised (spec R6).
            self._left.append(driver)
        else:
            # Also when it has finished: what still hangs on it is no place to go on from.
            driver.drop()
        if outcome is not None:
            self._troubles.pop(number, None)
        if not self.stopping:
            self._poll_soon()
        else:
            self._tell_idle()

    def _drop_residents(self) -> None:
        """Keep no more than the limits; not while a claim counts on those there are."""
        if not self._claiming:
            self._residents.trim(self.memory_used)

    # --- sleeping ----------------------------------------------------------------------------

    def _sleep_until(self, moment: int | None) -> None:
        if moment is None or self._begun_at is not None:
            # With `deliver_once` nothing that is due later is waited for.
            return
        if self._alarm is not None:
            if self._alarm_at is not None and self._alarm_at <= moment:
                return
            self._alarm.cancel()
        self._alarm_at = moment
        self._alarm = self.loop.call_at(moment, self._woken)

    def _woken(self) -> None:
        self._alarm = None
        self._alarm_at = None
        self.poll()

    def _say(self, kind: str, claimed: Claimed | None = None, **more: Any) -> None:
        if kind in self.untold:
            return
        self.talk(
            Event(
                at=self.loop.now_ms(),
                kind=kind,
                execution_id=claimed.delivery.execution_id if claimed else "",
                workflow_id=claimed.workflow_id if claimed else "",
                **more,
            )
        )


__all__ = ["CLAIM_BATCH", "Dispatcher", "Limits"]
