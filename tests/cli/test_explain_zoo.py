"""A zoo of waiting shapes: what `ys explain` says of each is what a simulated worker then does.

For every shape: nothing moves before the moment that is named, and each thing that is named as
waking it does. Where one thing is not enough (two pauses), what is said next is done next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.conftest import MINUTE, NOON, Shop
from tests.cli.zoo import DAY, EVERYTHING, Plan, Shape, Told, World, nothing, stroll, walk, walk_3
from yieldstar_cli.model import (
    Action,
    Completed,
    Delivery,
    HoldEffect,
    LetGoEffect,
    Outcome,
    Round,
    SettleEffect,
    Suspended,
)

#: More rounds of advice than this lead nowhere.
ROUNDS = 4

TIMER: Plan = {"on": "timer"}
GO = 'message "go"'

#: What a plan ends with: itself, words about it, verdict.
LEAVES: dict[str, tuple[Plan, str, str]] = {
    "timer": (TIMER, "the sleep of 10m", "fine"),
    "message": ({"on": "message"}, f"{GO}: none has come", "fine"),
    "batch": ({"on": "messages"}, 'messages "go": none has come', "fine"),
    "decision": ({"on": "message", "queue": "decision"}, 'message "decision"', "fine"),
    "retry": ({"on": "retry"}, "flaky again (try 2)", "fine"),
    "poll": ({"on": "poll"}, "ready again (try 2)", "fine"),
    "when": ({"on": "when"}, "store Stock widget (when)", "fine"),
    "take": ({"on": "take"}, "store Stock widget (take)", "fine"),
    "when, deadline": ({"on": "when", "deadline": "10m"}, "store Stock widget (when)", "fine"),
    "effect": ({"on": "effect"}, "effect pay-1 (charge) up again (try 2)", "fine"),
    "tag": ({"on": "tag"}, "needs the tag gpu, and no live worker has it", "stuck"),
}


def admit_other(plan: Plan, world: World) -> None:
    """The execution that `a` attaches to."""
    world.admit("other", plan)


def leaf_shapes() -> Iterator[Shape]:
    """Every leaf by itself, and behind everything that can stand before it."""
    for name, (plan, says, verdict) in LEAVES.items():
        inner = says.replace("the sleep of 10m", "its sleep of 10m until")
        inner = inner.replace(" again (try 2)", " again at")
        yield Shape(name, plan, (says,), verdict)
        yield Shape(
            f"{name} of a child", {"on": "child", "plan": plan}, ("child a/walk", inner), verdict
        )
        deep = {"on": "child", "id": "b", "plan": {"on": "child", "id": "c", "plan": plan}}
        yield Shape(f"{name} of a child's child", deep, ("child b", "child c", inner), verdict)
        yield Shape(
            f"{name} of another",
            {"on": "attach", "id": "other"},
            ("execution other", inner),
            verdict,
            before=partial(admit_other, plan),
        )
        race = {"on": "race", "of": [plan, {"on": "timer", "span": "2h"}]}
        yield Shape(f"{name} in a race", race, ("the first of two things", "timer 2h"))
        yield Shape(
            f"{name} after continue-as-new", {"on": "again", "plan": plan}, (says,), verdict
        )
        both = {"on": "all", "of": [plan, {"on": "message", "queue": "other"}]}
        yield Shape(f"{name} in a branch", both, ("the first of two things", 'message "other"'))


# --- what happens to one that rests ---------------------------------------------------------------


def fire(world: World) -> None:
    """All workers are killed."""
    world.bench.crash()


def pause_it(world: World, execution_id: str = "a") -> None:
    world.bench.storage.steering.pause(execution_id=execution_id, by="ann", reason="audit")


def pause_walk(world: World) -> None:
    world.bench.storage.steering.pause(workflow_id="walk", by="ann")


def pause_all(world: World) -> None:
    world.bench.storage.steering.pause(by="ann")


def pause_thrice(world: World) -> None:
    pause_it(world)
    pause_walk(world)
    pause_all(world)


def hold(world: World, *, until: int | None = None, execution_id: str = "a") -> None:
    """A delivery found that something must pass first (spec E12)."""
    executions = world.bench.storage.executions
    executions.request_wake(execution_id, world.clock.now_ms())
    (delivery,) = executions.claim_due(world.clock.now_ms(), limit=1)
    executions.release(delivery, problem=("DIVERGED", "no fit"), held=True, held_until=until)


def hold_a_while(world: World) -> None:
    hold(world, until=world.clock.now_ms() + 5 * MINUTE)


def take(world: World, *, alone: bool = False) -> tuple[int, Delivery]:
    """Another worker claims it, under a lease of 30 s."""
    storage, now = world.bench.storage, world.clock.now_ms()
    worker = storage.workers.register(
        name="elsewhere",
        host="elsewhere",
        pid=0,
        slot=9,
        nonce=bytes(16),
        boot_id="",
        device=0,
        inode=0,
        lease_until_at=now + 30_000,
        alone=alone,
    )
    (claimed,) = storage.deliveries.claim(
        now, worker=worker, limit=1, workflows=[("walk", 1)], suspects=alone
    )
    return worker, claimed.delivery


def poison(world: World) -> None:
    """Three workers die over it, the last one alone with it (spec L5)."""
    storage = world.bench.storage
    storage.executions.request_wake("a", world.clock.now_ms())
    for alone in (False, False, True):
        worker, delivery = take(world, alone=alone)
        marked = {delivery.number: world.clock.now_ms()}
        storage.workers.bury(worker, "died", marked, max_deaths=3)
        world.clock.advance(10 * MINUTE)


def cancel(world: World) -> None:
    world.bench.storage.steering.cancel("a", reason="customer")


def cancel_and_settle(world: World) -> None:
    cancel(world)
    world.settle()


def pause_and_cancel(world: World) -> None:
    pause_it(world)
    cancel(world)


def pause_and_hold(world: World) -> None:
    hold(world)
    pause_it(world)


def lose_its_waits(world: World) -> None:
    """A delivery suspended it without a wait and without a wake (case 54)."""
    executions = world.bench.storage.executions
    (delivery,) = executions.claim_due(world.clock.now_ms(), limit=1)
    executions.acknowledge(delivery, Suspended(None))


def lose_its_lease(world: World) -> None:
    take(world)
    world.clock.advance(31_000)


def wake_early(world: World) -> None:
    world.bench.storage.executions.request_wake("a", world.clock.now_ms() + MINUTE)


def send_elsewhere(world: World) -> None:
    world.bench.send("a", "elsewhere", 1)
    world.settle()


def five_others(world: World) -> None:
    for number in range(5):
        world.admit(f"other-{number}", TIMER)
    world.clock.advance(2_000)


def fire_and_send(world: World) -> None:
    fire(world)
    world.bench.send("a", "go", 1)


def fire_and_hire_old(world: World) -> None:
    fire(world)
    world.hire(stroll)


def circle(world: World) -> None:
    world.admit("b", {"on": "attach", "id": "a"})


def ask_for_tags(world: World) -> None:
    """The catalog knows what the workflow asks for: somebody has triggered it before."""
    world.shop.module(
        "tagged.py",
        "from yieldstar_cli import Step, workflow\n\n"
        '@workflow(tags={"gpu"})\n'
        "async def tagged_walk(step: Step, plan: dict) -> str:\n"
        '    return "walked"\n',
    )
    said = world.shop.ys("trigger", "tagged-walk", "--id", "known", "--params", '{"plan": {}}')
    assert said.code == 0, said.err


FAN: Plan = {"on": "fan", "of": [*[{"on": "nothing"}] * 4, *[TIMER] * 3]}
WIDE: Plan = {"on": "fan", "of": [{"on": "message"}] * 7}


def state_shapes() -> Iterator[Shape]:
    """What is done to an execution, and what surrounds it."""
    message = {"on": "message"}
    yield Shape("paused itself", TIMER, ("It is paused by ann", "audit"), "stuck", after=pause_it)
    yield Shape("workflow paused", TIMER, ("workflow walk is paused",), "stuck", after=pause_walk)
    yield Shape("file paused", message, ("Everything here is paused",), "stuck", after=pause_all)
    yield Shape("paused thrice", TIMER, ("ys resume --all",), "stuck", after=pause_thrice)
    yield Shape(
        "paused before it began", TIMER, ("paused",), "stuck", after=pause_it, settled=False
    )
    yield Shape(
        "paused child", {"on": "child", "id": "b", "plan": TIMER}, ("child b", "paused by ann"),
        "stuck", after=lambda world: pause_it(world, "b"),
    )  # fmt: skip
    yield Shape("held until a change", TIMER, ("until its module's file",), "stuck", after=hold)
    yield Shape("held for a while", TIMER, ("It is held until",), after=hold_a_while)
    yield Shape(
        "held child", {"on": "child", "id": "b", "plan": TIMER}, ("child b", "it is held since"),
        "stuck", after=lambda world: hold(world, execution_id="b"),
    )  # fmt: skip
    yield Shape("paused and held", TIMER, ("paused", "Besides:"), "stuck", after=pause_and_hold)
    yield Shape("poisoned", TIMER, ("parked as poisoned",), "stuck", after=poison)
    yield Shape(
        "paused, cancel asked", TIMER, ("asked to cancel", "--now"), "stuck", after=pause_and_cancel
    )
    yield Shape("cancel asked", TIMER, ("Its next delivery tells",), after=cancel)
    yield Shape(
        "cleaning up", {"on": "clean"}, ("Its function knows", "the sleep of 5m", "--now"),
        after=cancel_and_settle,
    )  # fmt: skip
    yield Shape(
        "child without code", {"on": "child", "of": "stroll", "id": "b", "plan": TIMER},
        ("child b: admitted", "No live worker has loaded stroll"), "stuck",
    )  # fmt: skip
    yield Shape(
        "child with a tag", {"on": "child", "of": "tagged-walk", "id": "b", "plan": TIMER},
        ("asks for workers with the tag gpu",), "stuck", before=ask_for_tags,
    )  # fmt: skip
    yield Shape(
        "child's workflow paused", {"on": "child", "id": "b", "plan": TIMER},
        ("child b", "the workflow walk is paused"), "stuck", workflow="stroll",
        before=lambda world: world.hire(stroll), after=pause_walk,
    )  # fmt: skip
    yield Shape("never a worker", TIMER, ("No worker has run",), "stuck", hired=False)
    yield Shape("no worker any more", TIMER, ("No worker is running now",), after=fire)
    yield Shape("message, no worker", message, ("then one must be",), after=fire)
    yield Shape("message came, no worker", message, ("No worker",), "stuck", after=fire_and_send)
    yield Shape(
        "code is gone", TIMER, ("No live worker has loaded",), "stuck", after=fire_and_hire_old
    )
    yield Shape(
        "unknown workflow", TIMER, ("No live worker has loaded stroll",), "stuck", workflow="stroll"
    )
    yield Shape(
        "another version", TIMER, ("version 2 is recorded; live workers have 1 and 3",), "stuck",
        version=2, before=lambda world: world.hire(walk, walk_3),
    )  # fmt: skip
    yield Shape(
        "workflow with a tag", TIMER, ("asks for workers with the tag gpu",), "stuck",
        workflow="tagged-walk", before=ask_for_tags,
    )  # fmt: skip
    yield Shape(
        "workflow with a tag, no worker", TIMER, ("ys worker --tag gpu",), "stuck",
        workflow="tagged-walk", before=ask_for_tags, hired=False,
    )  # fmt: skip
    yield Shape(
        "behind others", TIMER, ("5 others have been due",), before=five_others, settled=False
    )
    yield Shape("admitted for later", TIMER, ("admitted for later",), at=NOON + 7 * MINUTE)
    yield Shape("a caller's wake", TIMER, ("as was asked for",), after=wake_early)
    yield Shape(
        "waits for nothing",
        TIMER,
        ("needs an external wake",),
        "stuck",
        after=lose_its_waits,
        settled=False,
    )
    yield Shape(
        "lease ended", TIMER, ("delivery has expired",), after=lose_its_lease, settled=False
    )
    yield Shape("unread elsewhere", message, ("1 message waits unread",), after=send_elsewhere)
    yield Shape(
        "a cycle of two", {"on": "attach", "id": "b"}, ("neither can end",), "stuck", before=circle,
        settled=True,
    )  # fmt: skip
    yield Shape(
        "a cycle with a way out",
        {"on": "race", "of": [{"on": "attach", "id": "b"}, TIMER]},
        ("the first of two things", "in turn"),
        before=circle,
    )
    yield Shape("some of a fan-out", FAN, ("3 of 7 children",))
    yield Shape("a wide fan-out", WIDE, ("7 of 7 children;",))
    yield Shape("completed", {"on": "nothing"}, ("completed at",), ended=True)
    yield Shape("failed", {"on": "attach", "id": "nobody"}, ("failed at",), ended=True)
    yield Shape(
        "cancelled",
        message,
        ("cancelled at", "customer"),
        after=cancel_and_settle,
        ended=True,
    )


WHEN: Plan = {"on": "when"}
WIDGET = "store Stock widget (when)"


def write(world: World, state: str = '{"left": 2}') -> None:
    """Somebody writes the stock from outside."""
    world.bench.storage.stores.put("Stock", "widget", state)


def delete(world: World) -> None:
    assert world.bench.storage.stores.delete("Stock", "widget")


def fire_and_write(world: World) -> None:
    fire(world)
    write(world)


def fire_and_delete(world: World) -> None:
    fire(world)
    delete(world)


def fire_and_make_anew(world: World) -> None:
    fire_and_delete(world)
    write(world, '{"left": 0}')


def pause_and_delete(world: World) -> None:
    pause_it(world)
    delete(world)


def write_elsewhere(world: World) -> None:
    write(world, '{"left": 0, "note": "counted"}')
    world.settle()


def pass_its_deadline(world: World) -> None:
    fire(world)
    world.clock.advance(20 * MINUTE)


def store_shapes() -> Iterator[Shape]:
    """What becomes of a store while its state is waited for (spec S3, S4, S6)."""
    late: Plan = {**WHEN, "deadline": "10m"}
    below: Plan = {"on": "child", "id": "b", "plan": WHEN}
    nothing_read: Plan = {**WHEN, "reads": ""}
    wakes = "a write that changes left wakes it"
    yield Shape(
        "a store's state", WHEN,
        (WIDGET, 'version 0 has left=0, note="", api_key=****;', wakes),
    )  # fmt: skip
    yield Shape(
        "a store's state in a child", below,
        ("child b: suspended; it waits for the", WIDGET, "version 0 has left=0", wakes),
    )  # fmt: skip
    yield Shape(
        "a store's state, with a deadline", late,
        (wakes, "its deadline is 2026-11-30T12:10:00.000Z", "Earliest wake: 2026-11-30T12:10:00"),
    )  # fmt: skip
    yield Shape(
        "a deadline in a child", {"on": "child", "id": "b", "plan": late},
        ("when b's deadline passes",),
    )  # fmt: skip
    yield Shape(
        "two stores in a race", {"on": "race", "of": [WHEN, {"on": "take", "id": "nail"}]},
        ("1. store Stock widget (when)", "2. store Stock nail (take)"),
    )  # fmt: skip
    yield Shape(
        "deadline passed, no worker", late,
        ("It waited for the", "its deadline has passed"), "stuck", after=pass_its_deadline,
    )  # fmt: skip
    yield Shape("store written elsewhere", WHEN, ("version 1 has", wakes), after=write_elsewhere)
    yield Shape(
        "store written", WHEN, ("It is due now", "what it read was written since"), after=write
    )
    yield Shape(
        "store written, no worker", WHEN, ("version 1 has left=2", "written since"), "stuck",
        after=fire_and_write,
    )  # fmt: skip
    yield Shape(
        "store deleted", WHEN, ("it does not exist any more", "raises StoreMissing"), after=delete
    )
    yield Shape(
        "store deleted, no worker", WHEN, ("does not exist any more",), "stuck",
        after=fire_and_delete,
    )  # fmt: skip
    yield Shape(
        "store of a child deleted", below, ("child b", "does not exist any more"), after=delete
    )
    yield Shape(
        "store made anew, no worker", WHEN, ("it was made anew since",), "stuck",
        after=fire_and_make_anew,
    )  # fmt: skip
    yield Shape("store deleted, paused", WHEN, ("It is paused",), "stuck", after=pause_and_delete)
    yield Shape(
        "a condition that reads nothing", nothing_read, ("no write wakes it", "ys cancel a"),
        "stuck",
    )  # fmt: skip


EFFECT: Plan = {"on": "effect"}
PAY = "effect pay-1 (charge)"
ASKED = HoldEffect("charge", NOON, "pay-1", "charge", '"in time"')


def hold_for_b(world: World, name: str) -> None:
    """Another worker is trying the effect, for b."""
    storage, now = world.bench.storage, world.clock.now_ms()
    world.admit("b", EFFECT, name)
    worker = storage.workers.register(
        name="other:1", host="other", pid=1, slot=90, nonce=b"another nonce...", boot_id="other",
        device=0, inode=0, lease_until_at=now + 30_000,
    )  # fmt: skip
    (claimed,) = storage.deliveries.claim(
        now, worker=worker, limit=1, workflows=[(name, 1)], only="b"
    )
    recorded = storage.deliveries.record(claimed.delivery, Round(actions=(ASKED,)))
    assert [hold.state for hold in recorded.holds] == ["certain"]


def held_by_b(world: World) -> None:
    hold_for_b(world, "walk")


def held_by_a_stroll(world: World) -> None:
    hold_for_b(world, "stroll")


def ended_by_b(world: World, action: Action, *, outcome: Outcome | None = None) -> None:
    """What b's try came to, told by its worker."""
    # It has been claimed once.
    delivery = Delivery("b", 1, world.bench.record("b").number)
    world.bench.storage.deliveries.record(delivery, Round(actions=(action,), outcome=outcome))


def settle_for_b(world: World) -> None:
    ended_by_b(world, SettleEffect("charge", NOON, "pay-1", '"charged"'), outcome=Completed())


def let_go_for_b(world: World) -> None:
    ended_by_b(world, LetGoEffect("charge", NOON, "pay-1"))


def end_the_lease(world: World) -> None:
    world.clock.advance(31_000)


def settle_before(world: World) -> None:
    held_by_b(world)
    settle_for_b(world)


def pass_a_minute(world: World) -> None:
    world.pass_until(world.clock.now_ms() + MINUTE)


def effect_shapes() -> Iterator[Shape]:
    """What becomes of an effect that is in doubt, or that another execution tries (spec F1)."""
    below: Plan = {"on": "child", "id": "c", "plan": EFFECT}
    expired = "b tries it; its last delivery has expired"
    yield Shape(
        "effect in doubt", EFFECT,
        (f"Waiting to look {PAY} up again (try 2)", "the last error: ConnectionError: no answer"),
    )  # fmt: skip
    yield Shape(
        "effect held by one that is lost", EFFECT, (f"{PAY}: {expired}",), before=held_by_b,
        after=end_the_lease,
    )  # fmt: skip
    yield Shape(
        "effect of a child held by one that is lost", below,
        ("child c: suspended; it waits for", PAY, expired), before=held_by_b, after=end_the_lease,
    )  # fmt: skip
    yield Shape(
        "effect held by one without code", EFFECT, (expired, "No live worker has loaded stroll"),
        "stuck", before=held_by_a_stroll, after=end_the_lease,
    )  # fmt: skip
    yield Shape(
        "effect settled by another", EFFECT, ("It is due now", f"{PAY}: b settled it"),
        before=held_by_b, after=settle_for_b,
    )  # fmt: skip
    yield Shape(
        "effect let go", EFFECT, ("It is due now", f"{PAY}: nobody tries it any more"),
        before=held_by_b, after=let_go_for_b,
    )  # fmt: skip
    yield Shape(
        "effect in two branches", {"on": "all", "of": [EFFECT, EFFECT]},
        ("the first of two things", f"1. {PAY}", "in doubt; looks it up again"),
    )  # fmt: skip
    yield Shape(
        "effect whose look-up answers nothing", {**EFFECT, "answer": "nonsense"},
        ("INVALID_EFFECT_ANSWER", "returned NoneType, not settled(result)"), "stuck",
        after=pass_a_minute,
    )  # fmt: skip
    yield Shape(
        "effect of another input", {**EFFECT, "answer": "other"}, ("failed at", "EffectMismatch"),
        before=settle_before, ended=True,
    )  # fmt: skip


SHAPES = [*leaf_shapes(), *state_shapes(), *store_shapes(), *effect_shapes()]


# --- the check ------------------------------------------------------------------------------------


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[World]]:
    """Every world that a test makes; closed at its end."""
    worlds: list[World] = []
    yield worlds
    for world in worlds:
        world.close()
        world.shop.close()


class Maker:
    """Makes the world of a shape anew, once for each way to go on."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, worlds: list[World]) -> None:
        self._root, self._monkeypatch, self._worlds = root, monkeypatch, worlds

    def world(self, shape: Shape) -> World:
        root = self._root / str(len(self._worlds))
        root.mkdir()
        (root / "ys.toml").write_text("")
        world = World(Shop(root, self._monkeypatch))
        self._worlds.append(world)
        if shape.hired:
            world.hire()
        shape.before(world)
        world.admit("a", shape.plan, shape.workflow, version=shape.version, at=shape.at)
        if shape.settled:
            world.settle()
        shape.after(world)
        return world


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_what_is_said_is_what_happens(
    shape: Shape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: list[World]
) -> None:
    """spec E5, E6, E14, O5, R11, C6, L5, M4: what would wake it, when, and what to type."""
    maker = Maker(tmp_path, monkeypatch, made)

    told = maker.world(shape).explain("a")

    for words in shape.says:
        assert words in told.text
    assert told.verdict == shape.verdict, told.text
    assert ways(told) or shape.ended, told.text

    for way in ways(told):
        follow_advice(maker.world(shape), way)
    if shape.ended:
        nothing_moves(made[0], told)


def ways(told: Told) -> list[str]:
    """Each single thing that is said to move it: a command, or its moment."""
    if told.status in ("completed", "failed", "cancelled"):
        return []
    found = [remedy for remedy in told.remedies if not remedy.startswith(("ys doctor", "ys show"))]
    return [*(["the moment"] if told.earliest_at is not None else []), *found]


def follow_advice(world: World, way: str) -> None:
    """Do the one thing named, then whatever is said next, until the execution moves."""
    before = world.state("a")
    said = ""
    for _ in range(ROUNDS):
        told = world.explain("a")
        said = told.text
        chosen = [way] if way in ways(told) else ways(told)
        nothing_moves(world, told)
        take_advice(world, told, chosen)
        if world.state("a") != before:
            return
    raise AssertionError(f"{way} does not move it: {said}")


def take_advice(world: World, told: Told, chosen: list[str]) -> None:
    """Type the commands chosen, let the moment pass if it is among them, let the workers work."""
    for step in chosen:
        if step != "the moment":
            world.act(step)
    if told.earliest_at is not None and "the moment" in chosen:
        world.pass_until(max(told.earliest_at, world.clock.now_ms()))
    world.settle()


def nothing_moves(world: World, told: Told) -> None:
    """Without anybody's doing nothing happens before the moment named, or within a day."""
    before = world.state("a")
    if told.earliest_at is None:
        world.pass_until(world.clock.now_ms() + DAY)
    elif told.earliest_at > world.clock.now_ms():
        world.pass_until(told.earliest_at - 1)
    assert world.state("a") == before, told.text


@pytest.mark.parametrize(
    ("plan", "written", "moves"),
    [
        (WHEN, '{"left": 1}', True),
        (WHEN, '{"left": 0, "note": "counted"}', False),
        ({**WHEN, "reads": "note"}, '{"left": 1, "note": ""}', False),
        ({**WHEN, "reads": "note"}, '{"left": 0, "note": "counted"}', True),
        ({**WHEN, "reads": ""}, '{"left": 1, "note": "counted"}', False),
    ],
)
def test_a_write_wakes_it_exactly_where_it_changes_what_is_named(
    plan: Plan,
    written: str,
    moves: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    made: list[World],
) -> None:
    """cases 181, 182; spec S4: the places read decide, and those are the ones that are told."""
    world = Maker(tmp_path, monkeypatch, made).world(Shape("any", plan, ()))
    told = world.explain("a")
    before = world.state("a")

    write(world, written)
    world.settle()

    named = plan.get("reads", "left")
    assert (f"a write that changes {named} wakes it" in told.text) == bool(named)
    assert (world.state("a") != before) == moves


def test_a_wait_for_a_store_that_is_deleted_ends_as_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: list[World]
) -> None:
    """spec S1, S4: the next delivery raises StoreMissing."""
    world = Maker(tmp_path, monkeypatch, made).world(Shape("any", WHEN, (), after=delete))
    told = world.explain("a")

    world.settle()

    assert "the next delivery raises StoreMissing" in told.text
    assert "StoreMissing: there is no store Stock widget" in world.explain("a").text


def test_there_are_enough_shapes() -> None:
    """At least forty, each with a name of its own."""
    assert len({shape.name for shape in SHAPES}) == len(SHAPES) >= 40


def test_the_workers_of_the_zoo_say_what_they_have() -> None:
    """A worker leaves out what asks for a tag that it lacks."""
    assert {one.definition.workflow_id for one in EVERYTHING} == {"walk", "stroll", "tagged-walk"}


# --- anything behind anything ---------------------------------------------------------------------

SIMPLE = st.sampled_from([plan for plan, _, _ in LEAVES.values()])


def composed(inner: st.SearchStrategy[Plan]) -> st.SearchStrategy[Plan]:
    """Something that waits for what `inner` makes."""
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        inner.map(lambda plan: {"on": "child", "plan": plan}),
        inner.map(lambda plan: {"on": "again", "plan": plan}),
        several.map(lambda plans: {"on": "race", "of": plans}),
        several.map(lambda plans: {"on": "all", "of": plans}),
        several.map(lambda plans: {"on": "fan", "of": plans}),
    )


PLANS = st.recursive(SIMPLE, composed, max_leaves=5)
WHAT_HAPPENS = st.sampled_from([nothing, fire, pause_it, pause_walk, pause_all, hold, hold_a_while])


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(plan=PLANS, happens=WHAT_HAPPENS)
def test_whoever_follows_the_advice_comes_to_the_end(
    plan: Plan,
    happens: Callable[[World], None],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """spec E5, C1, M4: nothing moves before the moment named; in the end everything has ended."""
    shape = Shape("any", plan, (), after=happens)
    worlds: list[World] = []
    maker = Maker(tmp_path_factory.mktemp("zoo"), monkeypatch, worlds)
    world = maker.world(shape)
    try:
        for _ in range(60):
            told = world.explain("a")
            if told.status == "completed":
                return
            nothing_moves(world, told)
            # Who has said yes does not say no.
            yes = [way for way in ways(told) if not way.startswith("ys reject")]
            take_advice(world, told, yes)
        raise AssertionError(f"no end: {world.explain('a').text}")
    finally:
        world.close()
        world.shop.close()
