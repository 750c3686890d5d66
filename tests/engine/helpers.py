"""What the engine's tests share: small step functions that count their calls, and questions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from yieldstar_cli.clock import ManualClock
from yieldstar_cli.engine.definition import Definition
from yieldstar_cli.engine.step import Step
from yieldstar_cli.model import Entry, ExecutionRecord
from yieldstar_cli.testing import Bench, RunResult

#: Where every bench's clock begins.
START = ManualClock().now_ms()

Body = Callable[[Step], Any]


def keys(found: RunResult) -> list[str]:
    """The keys of a history, in the order applied."""
    return [entry.step_key for entry in found.history]


def called(found: RunResult) -> list[str]:
    """The keys of the steps that were called, in order."""
    return [key for key, _ in found.calls]


def moments(found: RunResult | list[Entry]) -> list[int]:
    """When each entry was applied, in milliseconds since the bench began."""
    history = found.history if isinstance(found, RunResult) else found
    return [entry.at - START for entry in history]


def definition_of(body: Body, workflow_id: str = "w", **changes: Any) -> Definition:
    """A workflow `workflow_id` whose function is `body`; `changes` are fields of its definition."""
    fields: dict[str, Any] = {
        "workflow_id": workflow_id,
        "version": 1,
        "fn": body,
        "plain": False,
        "params_type": None,
        "spread": False,
        "result_type": Any,
        "retry": None,
        "timeout": None,
        "file": body.__code__.co_filename,
        "line": body.__code__.co_firstlineno,
        "doc": "",
        "namespace": body.__globals__,
    }
    return Definition(**(fields | changes))


class Rig:
    """A bench for one execution `x` of one workflow `w`, whose code may be swapped and crashed."""

    def __init__(self, path: Path, body: Body, **more: Any) -> None:
        self._changes = {k: more.pop(k) for k in list(more) if k in ("retry", "timeout")}
        self.bench = Bench(path=path, **more)
        self.code(body)
        self.bench.admit("w", execution_id="x")

    def code(self, body: Body, **changes: Any) -> None:
        """From now on `w` is this function, as after a new start of the worker."""
        definition = definition_of(body, **(self._changes | changes))
        self.bench.definitions = {definition.key: definition}

    def go(self) -> RunResult:
        """Run until nothing is left to do."""
        self.bench.run()
        return self.result

    def to(self, span_ms: int) -> RunResult:
        """Run up to `span_ms` after the bench began."""
        self.bench.run_to(START + span_ms)
        return self.result

    def until(self, stopped: Callable[[], bool]) -> RunResult:
        """Run until `stopped()`."""
        self.bench.run(until=stopped)
        return self.result

    def recorded(self, key: str) -> RunResult:
        """Run until the operation `key` is recorded."""
        return self.until(lambda: any(e.step_key == key for e in self.history))

    def restart(self, body: Body | None = None, **changes: Any) -> None:
        """Kill the worker; the next run replays, with other code if given."""
        self.bench.crash()
        if body is not None:
            self.code(body, **changes)

    @property
    def result(self) -> RunResult:
        """How `x` stands."""
        return self.bench.result("x")

    @property
    def record(self) -> ExecutionRecord:
        """The record of `x`."""
        return self.bench.record("x")

    @property
    def history(self) -> list[Entry]:
        """The history of `x`."""
        return self.bench.history("x")

    @property
    def logs(self) -> list[str]:
        """The lines that `x` logged."""
        return [line.text for line in self.bench.storage.reader.logs(self.record.number)]

    def close(self) -> None:
        """Close the file."""
        self.bench.close()


MakeRig = Callable[..., Rig]
