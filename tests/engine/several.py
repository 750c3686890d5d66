"""What tests with several executions share: questions to a bench, and kills at every point."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from yieldstar_cli.clock import ManualClock
from yieldstar_cli.model import Entry, Message, Wait
from yieldstar_cli.testing import Bench, Killed

#: Where every bench's clock begins.
START = ManualClock().now_ms()
HOUR = 3_600_000
DAY = 24 * HOUR


def send(
    bench: Bench,
    execution_id: str,
    queue: str,
    value: Any = None,
    *,
    ttl_ms: int = DAY,
    **more: Any,
) -> str:
    """Send a message from outside, as `ys send` does."""
    text = json.dumps(value, separators=(",", ":"))
    return str(bench.storage.inbox.send(execution_id, queue, text, ttl_ms=ttl_ms, **more))


def send_all(bench: Bench, execution_id: str, queue: str, values: Iterable[Any]) -> list[str]:
    """Send many messages from outside, in one commit; what each sender was told."""
    with bench.storage.atomic():
        return [send(bench, execution_id, queue, value) for value in values]


def status(bench: Bench, execution_id: str) -> str | None:
    """`completed`, `suspended` …; None where there is no such execution."""
    found = bench.storage.executions.get(execution_id)
    return None if found is None else str(found.status)


def ids(bench: Bench) -> list[str]:
    """Every execution there is, in the order admitted."""
    return [
        str(row[0])
        for row in bench.storage.db.rows("SELECT execution_id FROM executions ORDER BY n")
    ]


def waits(bench: Bench, execution_id: str) -> list[Wait]:
    """What an execution waits for, as the file has it."""
    return bench.storage.reader.waits(bench.record(execution_id).number)


def logs(bench: Bench, execution_id: str) -> list[str]:
    """The lines that an execution logged in this incarnation."""
    number = bench.record(execution_id).number
    return [line.text for line in bench.storage.reader.logs(number)]


def fates(bench: Bench, execution_id: str) -> list[tuple[str, str]]:
    """Messages of an execution and what became of them, in the order sent."""
    found: list[Message] = bench.storage.inbox.messages(execution_id)
    return [(message.value, message.state) for message in sorted(found, key=lambda m: m.number)]


def shown(history: list[Entry] | tuple[Entry, ...]) -> list[str]:
    """A history as kind:key, in the order applied."""
    return [f"{entry.kind}:{entry.step_key}" for entry in history]


def said(bench: Bench, execution_id: str) -> list[str]:
    """What workers said of an execution, in order."""
    return [event.kind for event in bench.events if event.execution_id == execution_id]


def calls(bench: Bench, execution_id: str) -> list[str]:
    """The steps of an execution that were started, in order."""
    return [
        event.step_key
        for event in bench.events
        if event.kind == "step_started" and event.execution_id == execution_id
    ]


def at(bench: Bench, span_ms: int) -> None:
    """Run everything up to `span_ms` after the bench began."""
    bench.run_to(START + span_ms)


def killed_everywhere(
    make: Callable[[], Bench], play: Callable[[Bench, Callable[[], None]], None], every: int = 1
) -> Iterator[Bench]:
    """Play once for each point that is passed, killing the worker there; yields what is left.

    `play` gets the bench and what it calls instead of `bench.run()`. First comes a life without
    a kill. `every` leaves out points where there are many.
    """
    with make() as whole:
        play(whole, whole.run)
        points = len(whole.points.names)
        yield whole
    for index in range(0, points, every):
        with make() as bench:
            bench.points.kill_at(index)
            play(bench, lambda bench=bench: _run(bench))  # type: ignore[misc]
            yield bench


def _run(bench: Bench) -> None:
    try:
        bench.run()
    except Killed:
        bench.crash()
        bench.points.reset()
        bench.run()
