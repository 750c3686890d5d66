"""Runs workflows in tests: the real driver, dispatcher and SQLite; a clock that skips waits."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from yieldstar_cli import clock as clocks
from yieldstar_cli.checking import Target, by_object
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.engine.authoring import Workflow
from yieldstar_cli.engine.messaging import TTL, encoded_message
from yieldstar_cli.engine.options import Span
from yieldstar_cli.errors import YieldstarError
from yieldstar_cli.ids import Chance, SystemChance
from yieldstar_cli.model import CancelAnswer, Entry, ExecutionRecord, SendAnswer
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.storage.sqlite.writer import InlineWriter
from yieldstar_cli.testing.faultpoints import FaultPoints, FaultyPerformers, FaultyWriter
from yieldstar_cli.testing.household import of_its_family, refuse_missing, unknown_workflow
from yieldstar_cli.testing.result import RunResult
from yieldstar_cli.worker.dispatcher import Dispatcher, Limits
from yieldstar_cli.worker.inline import InlinePerformers
from yieldstar_cli.worker.loop import VirtualLoop
from yieldstar_cli.worker.marks import NoMarks
from yieldstar_cli.worker.ports import Event, StepCall


class _EveryTag(frozenset[str]):
    """The tags of a worker that can do everything: a test asks what runs, not where."""

    def __contains__(self, tag: object) -> bool:
        return True


class Bench:
    """A database, a virtual clock and any number of workers in one process and one thread.

    `crash()` forgets everything that a killed process forgets. Use it as a context manager, or
    give `path` to keep the file. `duration` says how long each step call takes, in virtual
    milliseconds (default: no time at all), `commit_ms` how long the answer to a commit takes.
    Its workers have the `workflows` given and no others: name those of children too.
    """

    def __init__(
        self,
        *workflows: Workflow[..., Any],
        path: Path | None = None,
        fakes: Mapping[Callable[..., Any], Callable[..., Any]] | None = None,
        clock: ManualClock | None = None,
        chance: Chance | None = None,
        residents: int = 10_000,
        duration: Callable[[StepCall], int] | None = None,
        commit_ms: int = 0,
    ) -> None:
        self.clock = clock or ManualClock()
        self.points = FaultPoints()
        self.events: list[Event] = []
        self.fakes: dict[Callable[..., Any], Callable[..., Any]] = dict(fakes or {})
        self._folder = None if path else tempfile.TemporaryDirectory(prefix="ys-kit-")
        self.path = path or Path(self._folder.name if self._folder else "") / "ys.db"
        self._chance = chance or SystemChance()
        self._limits = Limits(residents=residents)
        self._duration = duration
        self._commit_ms = commit_ms
        self.definitions = {
            (w.definition.workflow_id, w.definition.version): w.definition for w in workflows
        }
        self.storage = self._open(create=True)
        self.workers: list[Dispatcher] = []
        self._writers: list[Any] = []
        self.loop = VirtualLoop(self.clock)

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; a file of the bench's own is removed."""
        self.crash()
        self.storage.close()
        if self._folder is not None:
            self._folder.cleanup()

    def admit(
        self,
        workflow: Workflow[..., Any] | str,
        params: object = None,
        *,
        execution_id: str | None = None,
        **more: Any,
    ) -> ExecutionRecord:
        """Admit one execution, as `Runtime.trigger` does; by name, params are taken as they are."""
        target = Target(workflow) if isinstance(workflow, str) else by_object(workflow)
        return self.storage.executions.admit(
            workflow_id=target.workflow_id,
            params=target.fit(params),
            execution_id=execution_id,
            **{"version": target.version, **more},
        )

    def send(
        self,
        execution_id: str,
        queue: str,
        value: object = None,
        *,
        ttl: Span = TTL,
        idempotency_key: str | None = None,
    ) -> SendAnswer:
        """Send a message, as `ys send` does: "delivered", "buffered" or "refused" (spec M1).

        What it moves runs in the next `run`, or at once where the bench is running.
        """
        answer = self.storage.inbox.send(
            execution_id,
            queue,
            encoded_message(value),
            ttl_ms=clocks.span_ms(ttl, what="ttl"),
            idempotency_key=idempotency_key,
        )
        self._ring()
        return answer

    def cancel(
        self, execution_id: str, reason: str | None = None, *, now: bool = False
    ) -> CancelAnswer:
        """Ask for an execution's cancellation, as `ys cancel` does (spec C6)."""
        answer = self.storage.steering.cancel(execution_id, reason=reason, now=now)
        self._ring()
        return answer

    def start_worker(self, tags: Collection[str] | None = None) -> Dispatcher:
        """A worker on this bench's loop; it claims when the loop runs.

        It runs steps for any tag, or with `tags` only for those, as `ys worker --tag` (spec O5).
        """
        storage = self._open()
        number = storage.workers.register(
            name=f"bench:{len(self.workers)}",
            host="bench",
            pid=0,
            slot=len(self.workers),
            nonce=self._chance.seed(),
            boot_id="",
            device=0,
            inode=0,
            lease_until_at=self.clock.now_ms() + 10**12,
        )
        writer = InlineWriter(storage, self.loop.post)
        self._writers.append(writer)
        performers = InlinePerformers(self.loop, self.fakes)
        worker = Dispatcher(
            loop=self.loop,
            writer=FaultyWriter(writer, self.points, self.loop, self._commit_ms),
            storage=storage,
            performers=FaultyPerformers(performers, self.points, self.loop, self._duration),
            marks=NoMarks(),
            talk=self.events.append,
            worker=number,
            definitions=self.definitions,
            tags=_EveryTag() if tags is None else frozenset(tags),
            limits=self._limits,
        )
        self.workers.append(worker)
        self.loop.post(worker.poll)
        return worker

    def run(self, until: Callable[[], bool] | None = None) -> None:
        """Run until nothing is left to do, jumping over waits; or until `until()`."""
        if not self.workers:
            self.start_worker()
        self._ring()
        if until is None:
            self.loop.run()
        else:
            self.loop.run_until(until)

    def run_to(self, at_ms: int) -> None:
        """Run everything up to the moment `at_ms`, and let the clock stand there."""
        if not self.workers:
            self.start_worker()
        self._ring()
        self.loop.run_until_at(at_ms)

    def crash(self) -> None:
        """Kill every worker: their memory is gone, their claims are taken back at once."""
        numbers = [row.number for row in self.storage.workers.all(living=True)]
        for writer in self._writers:
            writer.close()
        for worker in self.workers:
            worker.forget()
        self.workers.clear()
        self._writers.clear()
        self.loop = VirtualLoop(self.clock)
        for number in numbers:
            self.storage.workers.bury(number, "died", {}, max_deaths=5)

    def record(self, execution_id: str) -> ExecutionRecord:
        """The record, which must exist."""
        found = self.storage.executions.get(execution_id)
        assert found is not None, execution_id
        return found

    def history(self, execution_id: str) -> list[Entry]:
        """The current incarnation's history."""
        record = self.record(execution_id)
        return self.storage.reader.history(record.number, record.incarnation)

    def result(self, execution_id: str) -> RunResult:
        """How an execution stands; its workflow is one of the bench's."""
        record = self.record(execution_id)
        definition = self.definitions.get((record.workflow_id, record.version))
        if definition is None:
            raise unknown_workflow(record, "Bench(..., {name})")
        return RunResult(
            record=record,
            history=tuple(self.history(execution_id)),
            calls=tuple(
                (event.step_key, event.attempt)
                for event in self.events
                if event.kind == "step_started" and event.execution_id == execution_id
            ),
            events=tuple(e for e in self.events if e.execution_id == execution_id),
            _definition=definition,
        )

    def _ring(self) -> None:
        for worker in self.workers:
            self.loop.post(worker.poll)

    def _open(self, *, create: bool = False) -> SqliteStorage:
        return SqliteStorage(str(self.path), clock=self.clock, chance=self._chance, create=create)


def run(
    workflow: Workflow[..., Any],
    params: object = None,
    *,
    fakes: Mapping[Callable[..., Any], Callable[..., Any]] | None = None,
    clock: str | ManualClock = "skip",
    crash_after: str | None = None,
    messages: Mapping[str, object] | None = None,
    workflows: Sequence[Workflow[..., Any]] = (),
    execution_id: str = "test",
    context: Mapping[str, object] | None = None,
) -> RunResult:
    """Run one execution to its end, or until only an outside event could move it.

    `fakes` says which step functions to replace, in its children too. `clock` is "skip", to jump
    over waits, or a ManualClock, to start at its moment. `crash_after="load-order"` kills the
    worker once an operation of that key is recorded, and goes on in a new one from the history;
    raises YieldstarError if none ever is. `messages` are sent before it begins: for each queue one
    value, or a list of them. Children run too: their workflows are found where the function's own
    module names them; others are given as `workflows`, and YieldstarError says which is missing.
    """
    if isinstance(clock, str):
        if clock != "skip":
            raise YieldstarError(f"clock is 'skip' or a ManualClock, not {clock!r}")
        clock = ManualClock()
    with Bench(*of_its_family(workflow, workflows), fakes=fakes, clock=clock) as bench:
        bench.admit(workflow, params, execution_id=execution_id, context=context)
        for queue, values in (messages or {}).items():
            for value in values if isinstance(values, list) else [values]:
                bench.send(execution_id, queue, value)
        if crash_after is not None:
            crash_once_recorded(bench, execution_id, crash_after)
        bench.run()
        refuse_missing(bench.storage.reader, bench.definitions)
        return bench.result(execution_id)


def crash_once_recorded(bench: Bench, execution_id: str, step_key: str) -> None:
    """Run until `step_key` is recorded, then kill the worker.

    Raises YieldstarError if nothing of that key ever is.
    """

    def recorded() -> bool:
        return step_key in _keys(bench, execution_id)

    bench.run(until=recorded)
    if not recorded():
        keys = ", ".join(dict.fromkeys(_keys(bench, execution_id))) or "none"
        raise YieldstarError(f"crash_after: nothing was recorded as {step_key!r}; what was: {keys}")
    bench.crash()


def _keys(bench: Bench, execution_id: str) -> list[str]:
    """The keys of all incarnations that are kept."""
    record = bench.record(execution_id)
    earlier = [one.incarnation for one in bench.storage.family.incarnations(record.number)]
    return [
        entry.step_key
        for incarnation in (*earlier, record.incarnation)
        for entry in bench.storage.reader.history(record.number, incarnation)
    ]
