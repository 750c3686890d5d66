"""How an execution stands after a test ran it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from yieldstar_cli import codec, failures
from yieldstar_cli.engine.definition import Definition
from yieldstar_cli.model import CancelledOutcome, Completed, Entry, ExecutionRecord, Failed
from yieldstar_cli.worker.ports import Event

#: So many bytes of a value are enough to see what came out.
_LONGEST_REPR = 1_000


@dataclass(frozen=True, slots=True)
class RunResult:
    """How an execution stands after `run`: its record, history, and what its workflow gave."""

    record: ExecutionRecord
    history: tuple[Entry, ...]
    #: Step functions called, in order, as (step_key, attempt).
    calls: tuple[tuple[str, int], ...]
    events: tuple[Event, ...]
    _definition: Definition

    def __repr__(self) -> str:
        """One line: what a failed assertion of a test has to show."""
        record = self.record
        match record.outcome:
            case Completed(result):
                how = f": {result}"
            case Failed(error):
                how = f": {failures.summarize(error)}"
            case CancelledOutcome(reason):
                how = f": {reason}" if reason else ""
            case None:
                how = ""
        said = failures.bounded(f"{record.workflow_id} {record.status}{how}", _LONGEST_REPR)
        return f"<RunResult {record.execution_id!r} {said}>"

    @property
    def status(self) -> str:
        """`completed`, `failed`, `suspended` …"""
        return str(self.record.status)

    @property
    def result(self) -> Any:
        """What the workflow returned, as its annotated type; raises the error it failed with."""
        outcome = self.record.outcome
        if isinstance(outcome, Completed):
            return codec.decode(outcome.result, self._definition.result_type)
        if isinstance(outcome, Failed):
            raise failures.decode_error(outcome.error, self._definition.namespace)
        raise RuntimeError(f"{self.record.execution_id} is {self.record.status}: it has no result")

    @property
    def error(self) -> Exception | None:
        """The error it failed with, or None."""
        outcome = self.record.outcome
        if isinstance(outcome, Failed):
            return failures.decode_error(outcome.error, self._definition.namespace)
        return None
