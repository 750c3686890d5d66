"""A site where workers differ: in their tags, in the workflows they have; in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.engine.helpers import START
from yieldstar_cli.engine.authoring import Workflow
from yieldstar_cli.engine.definition import Definition
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.storage.sqlite.writer import InlineWriter
from yieldstar_cli.testing import Bench
from yieldstar_cli.worker.dispatcher import Dispatcher
from yieldstar_cli.worker.inline import InlinePerformers
from yieldstar_cli.worker.marks import NoMarks
from yieldstar_cli.worker.ports import Event

SECOND = 1_000


class Site:
    """One file, one clock, and workers that differ in their tags."""

    def __init__(self, path: Path, *definitions: Definition) -> None:
        self.bench = Bench(path=path)
        #: What its workers have loaded, unless told otherwise.
        self.definitions = {one.key: one for one in definitions}
        self.bench.definitions = self.definitions
        #: Which worker began which step, in order.
        self.ran: list[tuple[str, str]] = []
        self._closing = ExitStack()
        self._closing.callback(self.bench.close)

    def admit(self, execution_id: str, workflow_id: str, **more: Any) -> None:
        """Admit one execution."""
        self.bench.admit(workflow_id, execution_id=execution_id, **more)

    def hire(
        self, name: str, *tags: str, has: Sequence[Workflow[..., Any]] | None = None
    ) -> Dispatcher:
        """A worker with these tags and workflows; it claims when the bench runs."""
        bench = self.bench
        storage = SqliteStorage(bench.path, clock=bench.clock)
        self._closing.callback(storage.close)
        number = storage.workers.register(
            name=name,
            host="bench",
            pid=0,
            slot=len(bench.workers),
            nonce=name.encode().ljust(16),
            boot_id="",
            device=0,
            inode=0,
            lease_until_at=bench.clock.now_ms() + 10**12,
        )

        def talk(event: Event) -> None:
            bench.events.append(event)
            if event.kind == "step_started":
                self.ran.append((name, event.step_key))
            elif event.kind == "suspended":
                # As a worker does that sees another one's commit.
                for other in bench.workers:
                    bench.loop.post(other.poll)

        worker = Dispatcher(
            loop=bench.loop,
            writer=InlineWriter(storage, bench.loop.post),
            storage=storage,
            performers=InlinePerformers(bench.loop),
            marks=NoMarks(),
            talk=talk,
            worker=number,
            definitions=self.definitions if has is None else _by_key(has),
            tags=frozenset(tags),
        )
        bench.workers.append(worker)
        return worker

    def to(self, span_ms: int) -> None:
        """Run up to `span_ms` after the beginning."""
        self.bench.run_to(START + span_ms)

    def close(self) -> None:
        """Close every connection."""
        self._closing.close()


def _by_key(workflows: Sequence[Workflow[..., Any]]) -> dict[tuple[str, int], Definition]:
    return {one.definition.key: one.definition for one in workflows}
