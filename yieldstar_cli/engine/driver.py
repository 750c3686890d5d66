"""One delivery's coroutine scheduler and replay: pure, without I/O, clock or threads (spec R1-R7).

The driver steps the workflow function and its branches until nothing can move, takes one
resolution (recorded or live), and steps again. Live is exactly as replay: that is what makes
keys, order and values the same after any crash.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any

from yieldstar_cli import ids
from yieldstar_cli.engine import faults, values
from yieldstar_cli.engine.ledger import Ledger
from yieldstar_cli.engine.operations import (
    PARK,
    Branch,
    BranchCancelled,
    BranchHandle,
    ContinueAs,
    Dropped,
    DurableHandle,
    Park,
    State,
    wait_any,
)
from yieldstar_cli.engine.outside import ActionHandle
from yieldstar_cli.engine.scope import in_workflow_body
from yieldstar_cli.errors import Cancelled, CodeFault, MisplacedCall
from yieldstar_cli.model import Entry, Kind, LogLine, Start

if TYPE_CHECKING:
    from yieldstar_cli.engine.definition import Definition

# Read once: a member of an Enum costs 50 ns each time it is asked for, up to Python 3.11.
_OPEN, _RESOLVED = State.OPEN, State.RESOLVED
_PATCH, _START, _CANCEL = Kind.PATCH, Kind.START, Kind.CANCEL

#: How often a branch may swallow `Cancelled` before it is cut off.
SWALLOW_LIMIT = 100


class Driver(Ledger):
    """Carries one execution's coroutines through one incarnation.

    `started_at` is the moment of the incarnation's first claim, `moment` that of the last
    resolution before it, `log_count` how many log lines are recorded already.
    """

    # A worker keeps thousands of them: without a dict of its own each is half as large.
    __slots__ = (
        "_abandoned",
        "_branches",
        "_drops",
        "_log_count",
        "_main",
        "_markers",
        "_ready",
        "_remaining",
        "_thread",
        "awaits",
        "begun",
        "cancel_reason",
        "cancelled",
        "closing",
        "continuing",
        "dead",
        "deferred",
        "definition",
        "error",
        "execution_id",
        "fault",
        "finished",
        "fresh",
        "fresh_logs",
        "incarnation",
        "library",
        "log_index",
        "operations",
        "position",
        "resolutions",
        "seed",
        "status_value",
        "untold",
        "value",
    )

    def __init__(
        self,
        definition: Definition,
        seed: bytes,
        incarnation: int,
        started_at: int,
        log_count: int = 0,
        execution_id: str = "",
        library: Callable[[str, int | None], Definition | None] | None = None,
    ) -> None:
        super().__init__(started_at)
        self.definition = definition
        self.execution_id = execution_id
        #: Finds a workflow by its name, for children: that version, or with None the latest.
        self.library = library
        #: Of the history: key of each child's start to the workflow and version it was started in.
        self.begun: dict[str, tuple[str, int]] = {}
        self.seed = seed
        self.incarnation = incarnation
        #: Entries consumed or made so far: the next entry's position.
        self.position = 0
        #: Resolutions given to the function so far.
        self.operations = 0
        self.resolutions = 0
        self.awaits = 0
        self.dead = False
        self.fault: CodeFault | None = None
        #: The function's end: its value, or its exception.
        self.finished = False
        self.value: Any = None
        self.error: BaseException | None = None
        #: True once the request to cancel was told to the function (spec C6).
        self.cancelled = False
        self.cancel_reason: str | None = None
        #: It came when the function had left to continue as new: nobody there has heard of it.
        self.untold = False
        #: The params of the next incarnation, once the function continues as new (spec C7).
        self.continuing: str | None = None
        #: Functions that run when the function has ended, and whether they do now.
        self.deferred: list[DurableHandle[Any]] = []
        self.closing = False
        #: What the next commit must carry: new entries, log lines, a status.
        self.fresh: list[Entry] = []
        self.fresh_logs: list[LogLine] = []
        self.status_value: str | None = None
        self.log_index = 0
        self._log_count = log_count
        self._markers: dict[str, bool] = {}
        #: Recorded entries that are still to be applied.
        self._remaining = 0
        self._ready: deque[Branch] = deque()
        self._thread = 0
        self._main: Branch
        self._branches: list[Branch] = []
        self._abandoned: list[Branch] = []
        self._drops = 0

    # --- running -------------------------------------------------------------------------

    def start(self, coroutine: Coroutine[Any, Any, Any], history: Iterable[Entry] = ()) -> None:
        """Run the function from the top, feeding it `history` (spec R2, R4, R5)."""
        self._main = Branch(coroutine, "")
        self._branches.append(self._main)
        self.make_ready(self._main)
        entries = list(history)
        if entries:
            self._note(entries)
        self._run()
        self._feed(entries)

    def feed(self, history: Iterable[Entry]) -> None:
        """Apply entries that others recorded since (a resident catching up, spec R6)."""
        entries = list(history)
        self._note(entries)
        self._feed(entries)

    def apply(self, handle: DurableHandle[Any], entry: Entry) -> None:
        """Apply one live resolution and run until nothing can move.

        `entry` is kept for the next commit. A handle that was withdrawn meanwhile keeps its
        entry for people and is not resolved.
        """
        self.fresh.append(entry)
        self.position += 1
        if not entry.withdrawn:
            self._resolve(handle, entry)
            self._run()

    @property
    def replaying(self) -> bool:
        """True while recorded resolutions remain to be applied."""
        return self._remaining > 0

    def _note(self, entries: list[Entry]) -> None:
        # Counted at once: a marker made while the last of them is applied stands after all.
        self.position += len(entries)
        self._remaining += len(entries)
        for entry in entries:
            kind = entry.kind
            if kind == _PATCH:
                self._markers[entry.step_key] = True
                self._remaining -= 1
            elif kind == _START and entry.ok:
                self.begun[entry.step_key] = values.begun(entry)

    def _feed(self, entries: list[Entry]) -> None:
        for entry in entries:
            if self.fault is not None:
                return
            handle = self.issued.get((entry.kind, entry.step_key))
            if handle is None:
                if entry.kind == _PATCH:
                    continue
                if entry.kind == _CANCEL:
                    self._remaining -= 1
                    self._tell_cancelled(entry)
                    continue
                self.fault = self._diverged(entry)
                return
            self._remaining -= 1
            if handle.work is None and isinstance(handle, ActionHandle):
                self._done(handle, entry)
            if self.fault is None and handle.state is _OPEN:
                self._resolve(handle, entry)
                self._run()
            elif handle.state is _RESOLVED:
                self.fault = self._diverged(entry)

    def _done(self, handle: ActionHandle[Any], entry: Entry) -> None:
        """What an action was to do is done, by this delivery or an earlier one."""
        self.actions.pop(handle, None)
        intent = handle.intent
        if isinstance(intent, Start) and entry.ok and values.begun(entry)[0] != intent.workflow_id:
            self.fault = faults.other_child(entry, handle, intent, values.begun(entry)[0])

    def cancel(self, entry: Entry) -> None:
        """Tell the function that it is to be cancelled, and run until nothing can move (C6)."""
        self.fresh.append(entry)
        self.position += 1
        self._tell_cancelled(entry)

    def _tell_cancelled(self, entry: Entry) -> None:
        self.moment = max(self.moment, entry.at)
        self.operations += 1
        self.cancelled = True
        self.cancel_reason = values.reason(entry)
        if self.finished or self.closing:
            self.untold = self.continuing is not None
            return
        for handle in list(self.performing):
            self.withdraw(handle)
        for branch in list(self._branches):
            if branch is not self._main:
                self.cancel_branch(branch)
        if not self._main.ended:
            self._main.throw = Cancelled()
            self.make_ready(self._main)
        self._run()

    def _diverged(self, entry: Entry) -> CodeFault:
        end = (self.definition.file, self.definition.line) if self.finished else None
        return faults.diverged(entry, self.open.values(), end)

    def _resolve(self, handle: DurableHandle[Any], entry: Entry) -> None:
        try:
            value, error = values.revive(handle, entry, self.definition.namespace)
        except CodeFault as fault:
            self.fault = fault
            return
        if entry.at > self.moment:
            self.moment = entry.at
        self.operations += 1
        self.close(handle)
        handle.settle(value, error, _RESOLVED)
        if handle.work is None and isinstance(handle, ActionHandle) and handle.child is not None:
            child = handle.child
            if error is None:
                self.touched[child] = None  # from now on there is a record to wait for
            elif child.state is _OPEN:
                self.close(child)
                child.settle(None, error, _RESOLVED)

    def _run(self) -> None:
        ready = self._ready
        if not ready:
            return
        self._thread = get_ident()
        outer = in_workflow_body.set(True)
        try:
            while ready and self.fault is None:
                branch = ready.popleft()
                branch.queued = False
                if not branch.ended:
                    self._step(branch)
        finally:
            self.current = None
            self._thread = 0
            in_workflow_body.reset(outer)

    def _step(self, branch: Branch) -> None:
        self.current = branch
        try:
            if branch.throw is not None:
                error, branch.throw = branch.throw, None
                yielded = branch.coroutine.throw(error)
            else:
                yielded = branch.coroutine.send(None)
        except StopIteration as stop:
            self._ended(branch, stop.value, None)
        except CodeFault as fault:
            self.fault = self.fault or faults.placed(fault)
        except BaseException as error:  # whatever the author's code raises is data here
            self._ended(branch, None, error)
        else:
            if yielded is not PARK and not isinstance(yielded, Park):
                self.fault = self.fault or faults.foreign_await(branch.coroutine, yielded)
            elif branch.refused > SWALLOW_LIMIT:
                # Keep it referenced, so that nothing finalises it.
                self._abandoned.append(branch)
                self._ended(branch, None, Cancelled())
                self._cancel_spawned(branch)
        self.current = None

    def _ended(self, branch: Branch, value: Any, error: BaseException | None) -> None:
        branch.ended = True
        self._branches.remove(branch)
        if error is not None and faults.is_missing_loop(error):
            self.fault = self.fault or faults.foreign_error(error)
            return
        handle = branch.handle
        if handle is not None:
            branch.handle = None  # which holds the branch: a ring
            if branch.cancelled and isinstance(error, Cancelled):
                handle.settle(None, BranchCancelled("the branch was cancelled"), State.WITHDRAWN)
            else:
                handle.settle(value, values.as_exception(error), _RESOLVED)
            return
        if not self.closing:
            self._leave(value, error)
        branch.spawned.clear()  # all of it has ended
        if self.deferred and self.fault is None:
            self.closing = True
            self._main = Branch(self._run_deferred(), "")
            self._branches.append(self._main)
            self.make_ready(self._main)
        else:
            self.finished = True

    def _leave(self, value: Any, error: BaseException | None) -> None:
        """The function has ended: what is open in it ends with it (spec O4, C7)."""
        self.value = value
        self.error = error
        if self.continuing is not None and not (
            error is None or isinstance(error, ContinueAs | Cancelled)
        ):
            # What its clean-up raised is its outcome: it did not get as far as to continue.
            self.continuing = None
        for other in list(self._branches):
            self.cancel_branch(other)
        for open_handle in list(self.open.values()):
            goes_out = open_handle if isinstance(open_handle, ActionHandle) else None
            kept = goes_out in self.actions
            self.withdraw(open_handle)
            if goes_out is not None and kept:
                # A start or a send that was asked for goes out all the same (spec C7).
                self.actions[goes_out] = None
        if self.fault is None and (error is None or faults.is_misuse(error)):
            # What a branch holds that is cut short here, it might have awaited yet.
            for name, site, maker in self.unawaited.values():
                if maker is None or maker.ended:
                    self.fault = faults.not_awaited(name, site)
                    return

    async def _run_deferred(self) -> None:
        """One deferred function after the other, the last first; their errors are recorded."""
        while self.deferred:
            with contextlib.suppress(Exception):
                await _Directly(self, self.deferred.pop())

    # --- what operations and handles call ----------------------------------------------------

    def make_ready(self, branch: Branch) -> None:
        """Queue `branch` to be stepped, once."""
        if not branch.queued and not branch.ended:
            branch.queued = True
            self._ready.append(branch)

    def check_alive(self) -> None:
        """Raise if this driver was given up: nothing can be recorded or started (spec R6).

        Not for ever: code that swallows it goes on to its next await, and is parked there.
        """
        if self.dead:
            if in_workflow_body.get() and self._thread != get_ident():
                # A living function uses what it kept of us: its fault, not its end.
                raise faults.foreign_handle()
            self._drops += 1
            if self._drops <= SWALLOW_LIMIT:
                raise Dropped

    def check_running(self) -> Branch:
        """The running branch; raises MisplacedCall outside the function (spec R9)."""
        branch = self.current
        if branch is not None and self._thread == get_ident():
            return branch
        if self.dead:
            self.check_alive()
            # What it starts there never runs.
            return self._main
        fault = faults.misplaced_operation()
        if not in_workflow_body.get():
            # Kept as well, for whoever catches it. Another workflow's function is not ours to hold.
            self.fault = self.fault or fault
        raise fault

    def running_branch(self) -> Branch:
        """The running branch, about to await or to start something."""
        branch = self.check_running()
        if self._refused(branch) and branch.refused <= SWALLOW_LIMIT:
            raise Cancelled if branch.cancelled else ContinueAs
        return branch

    def _refused(self, branch: Branch) -> bool:
        """Whether `branch` may begin nothing any more; counted, since code may go on asking."""
        leaving = self.continuing is not None and branch is self._main and not self.closing
        if branch.cancelled or leaving:
            branch.refused += 1
            return True
        return False

    def refusal(self) -> Generator[Any, Any, Any] | None:
        """None where an operation may go on; raises `Cancelled` or `Dropped` where it may not.

        Code that swallows them without end is parked for ever: the generator does that.
        """
        branch = self.current
        if (
            branch is not None
            and not (self.dead or branch.cancelled or self.continuing is not None)
            and self._thread == get_ident()
        ):
            return None  # as nearly always
        if self.dead:
            self.check_alive()
            return _for_ever()
        branch = self.check_running()
        if self._refused(branch):
            if branch.refused <= SWALLOW_LIMIT:
                raise Cancelled if branch.cancelled else ContinueAs
            return _for_ever()
        return None

    def continue_as(self, params: str) -> None:
        """End the function here, and begin its next incarnation with `params` (spec C7)."""
        branch = self.running_branch()
        if branch is not self._main or self.closing:
            raise MisplacedCall(
                "step.continue_as ends the function, so it belongs in the function itself, not in"
                " a branch",
                remedy="let the branch return, and continue where it is awaited",
            )
        self.continuing = params
        raise ContinueAs

    def defer(self, handle: DurableHandle[Any]) -> None:
        """Keep a step for when the function has ended."""
        self.running_branch()
        self.deferred.append(handle)

    def spawn(self, parent: Branch, coroutine: Coroutine[Any, Any, Any], base: str) -> Any:
        """Start a branch; its key is assigned now (spec R3)."""
        branch = Branch(coroutine, self.assign_key(parent, "branch", base))
        handle: BranchHandle[Any] = BranchHandle(self, branch)
        parent.spawned.append(handle)
        self._branches.append(branch)
        self.make_ready(branch)
        return handle

    def cancel_branch(self, branch: Branch) -> None:
        """End `branch` and every branch it spawned (spec O4)."""
        if branch.cancelled:
            return
        branch.cancelled = True
        if not branch.ended and branch is not self.current:
            branch.throw = Cancelled()
            self.make_ready(branch)
        self._cancel_spawned(branch)

    def _cancel_spawned(self, branch: Branch) -> None:
        for spawned in branch.spawned:
            if isinstance(spawned, BranchHandle):
                self.cancel_branch(spawned.branch)
            elif spawned.state is _OPEN:
                self.withdraw(spawned)

    def patched(self, name: str) -> bool:
        """Whether the new arm of a patch is taken; the first answer holds (spec R5)."""
        self.check_running()
        if name not in self._markers:
            live = not self.replaying
            self._markers[name] = live
            if live:
                marker = Entry(self.position, Kind.PATCH, name, True, "true", self.moment)
                self.fresh.append(marker)
                self.position += 1
        return self._markers[name]

    def log_line(self, level: int, text: str) -> None:
        """Keep a log line for the next commit, unless it is recorded already (spec R7)."""
        if self.dead:
            return
        self.check_running()
        if self.log_index >= self._log_count:
            self.fresh_logs.append(LogLine(self.log_index, self.moment, level, text))
        self.log_index += 1

    def draw(self) -> tuple[str, int]:
        """The place of the next draw of chance: branch and count (spec R7)."""
        branch = self.check_running()
        branch.draws += 1
        return branch.key, branch.draws

    def idempotency_key(self, handle: DurableHandle[Any]) -> Callable[[], str]:
        """Makes what the step may hand to the outside (spec O7): few ask, and it takes 1.5 µs."""
        return partial(_idempotency_key, self.seed, self.incarnation, handle.place)

    # --- the end -------------------------------------------------------------------------------

    def dropped_unawaited(self, key: int) -> None:
        """An operation was thrown away before it was awaited: a fault of the code (spec R9)."""
        found = self.unawaited.pop(key, None)
        if found is not None and not self.dead and self.fault is None and not self._unwinding():
            self.fault = faults.not_awaited(found[0], found[1])

    def _unwinding(self) -> bool:
        return (
            self.finished or self.closing or (self.current is not None and self.current.cancelled)
        )

    def drop(self) -> None:
        """Give the coroutines up: `finally` blocks run, and every step call raises (spec R6)."""
        self.dead = True
        for branch in list(self._branches):
            if branch is not self.current:
                self._unwind(branch)
            branch.handle = None
            branch.spawned.clear()
        self._branches.clear()
        self._ready.clear()
        self.deferred.clear()
        self.forget()

    def _unwind(self, branch: Branch) -> None:
        self._drops = 0
        for _ in range(SWALLOW_LIMIT):
            try:
                branch.coroutine.throw(Dropped())
            except BaseException:  # its end, whichever: nobody is left to tell
                return
            if self._drops > SWALLOW_LIMIT:
                break
        self._abandoned.append(branch)


class _Directly:
    """Awaits a handle as `await step.run(...)` does."""

    __slots__ = ("_driver", "_handle")

    def __init__(self, driver: Driver, handle: DurableHandle[Any]) -> None:
        self._driver = driver
        self._handle = handle

    def __await__(self) -> Generator[Any, Any, Any]:
        yield from wait_any(self._driver, (self._handle,))
        return self._handle.result()


def _idempotency_key(seed: bytes, incarnation: int, place: tuple[str, str]) -> str:
    return ids.idempotency_key(seed, incarnation, "/".join(place))


def _for_ever() -> Generator[Park, None, Any]:
    while True:
        yield PARK
