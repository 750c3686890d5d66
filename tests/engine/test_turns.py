"""Two workers that take turns with one execution: each finds what the other left (spec L4, R6)."""

from __future__ import annotations

from typing import Any

from yieldstar_cli.engine.authoring import workflow
from yieldstar_cli.engine.step import Step
from yieldstar_cli.testing import Bench
from yieldstar_cli.worker.dispatcher import Dispatcher


@workflow
async def listens(step: Step) -> list[Any]:
    """Hears three messages, one queue after the other."""
    return [await step.message(queue) for queue in ("a", "b", "c")]


def let(bench: Bench, workers: list[Dispatcher], *, who: int) -> None:
    """Let one of the workers claim, and the others not."""
    for index, worker in enumerate(workers):
        worker.stopping = index != who
    bench.run_to(bench.clock.now_ms() + 1_000)


def test_a_resident_finds_what_another_worker_waited_for_meanwhile() -> None:
    """spec R6, R10: no row of a wait outlives its operation, whichever worker ended it.

    One that did would be ready for ever, and the delivery would look again without end.
    """
    with Bench(listens) as bench:
        bench.admit("listens", execution_id="x")
        number = bench.record("x").number
        workers = [bench.start_worker(), bench.start_worker()]
        let(bench, workers, who=0)

        for who, queue in ((1, "a"), (0, "b")):
            bench.storage.inbox.send("x", queue, "1", ttl_ms=1)
            let(bench, workers, who=who)

        assert [w.step_key for w in bench.storage.reader.waits(number)] == ["c"]
