"""Of several handles on one queue, the one that began to wait first gets the first message."""

from __future__ import annotations

from typing import Any

from yieldstar_cli.engine.authoring import workflow
from yieldstar_cli.engine.step import Step
from yieldstar_cli.testing import Bench


@workflow
async def crowd(step: Step) -> list[list[str]]:
    """Two wait for messages; later a third branch awaits what the first one does."""
    first, second = step.message("a"), step.message("a")
    got: list[list[str]] = []

    async def hears(name: str, handle: Any) -> None:
        got.append([name, await handle])

    branches = [step.spawn(hears("one", first)), step.spawn(hears("two", second))]
    await step.sleep("1s")
    branches.append(step.spawn(hears("one as well", first)))
    await step.all(branches)
    return got


def test_one_more_who_awaits_a_handle_does_not_send_it_to_the_back() -> None:
    """spec M2, R4 (operations: message): it has waited since it was first awaited."""
    with Bench(crowd) as bench:
        bench.admit("crowd", execution_id="x")
        bench.run()
        for text in ('"m1"', '"m2"'):
            bench.storage.inbox.send("x", "a", text, ttl_ms=1)
        bench.run()

        assert bench.result("x").result == [["one", "m1"], ["one as well", "m1"], ["two", "m2"]]
