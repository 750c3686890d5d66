"""Executions that wait for others, written as a worker's rounds leave them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.cli.conftest import MINUTE, NOON, Shop
from yieldstar_cli.failures import encode_error
from yieldstar_cli.model import Completed, Failed, Start, Suspended, Wait

WORKFLOWS = (("charge-order", 1), ("square", 1), ("report", 1))


def message(queue: str, *, position: int = 0, label: str = "", kind: str = "message") -> Wait:
    """A wait on a queue."""
    return Wait(kind, queue, label, NOON, None, "waiting", position=position, queue=queue)


def end_of(target: str, *, key: str = "", position: int = 0) -> Wait:
    """A wait for the end of an execution."""
    name = key or target.replace("/", "-")
    return Wait("child", name, target, NOON, None, "waiting", position=position, target=target)


def timer(at: int, label: str = "10m", *, key: str = "sleep", position: int = 0) -> Wait:
    """A wait for a moment."""
    return Wait("timer", key, label, NOON, at, "waiting", position=position)


def tagged(tag: str) -> Wait:
    """A step that waits for a worker with a tag."""
    return Wait("step", "render", "", NOON, None, "tagged", tag=tag)


def rest(
    shop: Shop,
    execution_id: str,
    waits: Sequence[Wait],
    *,
    starts: Sequence[str] = (),
    workflow_id: str = "charge-order",
    **words: Any,
) -> None:
    """A delivery that starts children (IDs, of `square`) and suspends with these waits."""
    if shop.storage.executions.get(execution_id) is None:
        shop.admit(execution_id, workflow_id)
    if shop.worker_number is None:
        shop.start_worker(workflows=WORKFLOWS)
    now = shop.clock.now_ms()
    moments = [wait.due_at for wait in waits if wait.due_at is not None]
    shop.deliver(
        execution_id,
        waits=waits,
        actions=tuple(
            Start(f"square#{number}", now, child, "square", 1, "{}")
            for number, child in enumerate(starts, 1)
        ),
        outcome=Suspended(min(moments, default=None)),
        took=0,
        **words,
    )


def family(shop: Shop) -> None:
    """order-43 waits for a message, its child charge-43 (which sleeps) and a timer."""
    now = shop.clock.now_ms()
    rest(
        shop,
        "order-43",
        [
            message("cancel", label="Cancel"),
            end_of("charge-43", key="square", position=1),
            timer(now + 15 * MINUTE, "15m", key="timer", position=2),
        ],
        starts=["charge-43"],
    )
    rest(shop, "charge-43", [timer(now + 10 * MINUTE)])


def fan_out(shop: Shop, *, left: int = 4) -> None:
    """report-nov has 100 children: all but `left` have ended, one of those failed."""
    names = [f"report-nov/sq-{number}" for number in range(100)]
    rest(
        shop,
        "report-nov",
        [end_of(name, position=n) for n, name in enumerate(names)],
        starts=names,
        workflow_id="report",
    )
    for number, name in enumerate(names[: 100 - left]):
        failed = Failed(encode_error(ZeroDivisionError("n is 0")))
        shop.deliver(name, outcome=failed if number == 40 else Completed("1"), took=0)
    shop.deliver(
        "report-nov",
        unwait=tuple(("child", name.replace("/", "-")) for name in names[: 100 - left]),
        outcome=Suspended(None),
        took=0,
    )
