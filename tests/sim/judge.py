"""What a world is held to once it is at rest (reliability C.3, spec R1-R10, M1, C2-C4, S5, F1)."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from tests.engine import promises
from yieldstar_cli import codec
from yieldstar_cli.model import CancelledOutcome, Completed, ExecutionRecord, Failed

if TYPE_CHECKING:
    from tests.sim.world import World


def judge(world: World) -> None:
    """Raise AssertionError for what does not hold."""
    storage = world.client
    assert [breach.text for breach in storage.upkeep.breaches()] == []
    records = {r.execution_id: r for r in storage.reader.find(limit=None)}
    for name in world.admitted:
        assert name in records, f"{name} was admitted and is gone"
    for record in records.values():
        world.witness(record)
        if record.pruned_at is None:
            expect(world, record)
    if any(record.pruned_at is not None for record in records.values()):
        assert world.pruned, "pruned by nobody"
        return
    bench = cast("Any", SimpleNamespace(storage=storage, definitions=world.definitions))
    promises.hold_all(bench, world.sent, one_clock=False)
    hold_stock(world, records)
    hold_calls(world, records)
    hold_effects(world, records)


def expect(world: World, record: ExecutionRecord) -> None:
    """An execution that has ended ended as it should."""
    outcome = record.outcome
    if outcome is None:
        return
    if isinstance(outcome, CancelledOutcome):
        assert record.cancel is not None, record
        return
    name, n = record.workflow_id, cast("Any", record.params)["n"]
    if isinstance(outcome, Failed):
        # Its child was cancelled: that is all that may go wrong in these flows.
        assert name in ("fan-out", "racer", "tree"), (record.execution_id, outcome)
        assert "Cancelled" in outcome.error, outcome
        return
    assert isinstance(outcome, Completed)
    result = codec.decode(outcome.result)
    match name:
        case "charge-order":
            assert result == f"paid {n * 100}"
        case "stubborn":
            assert result == n * 3
        case "leaf":
            assert result == n * n
        case "fan-out":
            assert result == sum(i * i for i in range(n))
        case "supplier" | "fatal-flow" | "tree":
            assert result == n, record
        case "once-charged":
            assert result == f"receipt {n % 3 * 100}"
        case "patient":
            assert result == "late" or result.startswith("got ")
        case "racer":
            assert result.endswith(f" 1600 {(n % 3) ** 2}"), result


def hold_stock(world: World, records: dict[str, ExecutionRecord]) -> None:
    """Each thing that was put is taken once or is there (spec S5)."""
    stock = world.client.stores.get("Stock", "shared")
    if stock is None:
        return
    state = codec.decode(stock.state)
    versions = world.client.db.rows(
        "SELECT count(*) FROM history WHERE kind IN ('store-update', 'store-take') AND ok"
    )
    assert versions == [(stock.version,)], (versions, stock.version)
    took = world.client.db.rows("SELECT count(*) FROM history WHERE kind = 'store-take' AND ok")
    put = world.client.db.rows("SELECT count(*) FROM history WHERE kind = 'store-update' AND ok")
    assert state["taken"] == took[0][0]
    assert len(state["things"]) + took[0][0] == put[0][0]


def hold_calls(world: World, records: dict[str, ExecutionRecord]) -> None:
    """A step runs again only in another delivery, whatever hit the one before (I8)."""
    for (execution_id, name, args), count in world.outside.calls.items():
        tries = 3 if name == "fails_twice" else 1
        again = records[execution_id].deliveries - 1
        assert count <= tries + again, (execution_id, name, args, count, again)
    if not world.hits and not world.disk.struck:
        counts = Counter(
            count for (_, name, _), count in world.outside.calls.items() if name != "fails_twice"
        )
        assert set(counts) <= {1}, counts


def hold_effects(world: World, records: dict[str, ExecutionRecord]) -> None:
    """Each effect was done once, and is settled where anybody has its result (spec F1)."""
    if not world.skewed:
        assert world.outside.charged_again == []
    for record in records.values():
        if record.workflow_id == "once-charged" and isinstance(record.outcome, Completed):
            effect = world.client.effects.get(f"charge-{cast('Any', record.params)['n'] % 3}")
            assert effect is not None
            assert effect.status == "settled"
            assert effect.result == record.outcome.result
            assert not effect.disputed
            assert effect.effect_id in world.outside.charges
