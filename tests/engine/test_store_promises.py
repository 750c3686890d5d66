"""Stores where several things happen at once: who wins, what is taken, what goes on meanwhile."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.engine.several import START, status, waits
from tests.engine.worlds import BusyWriter
from yieldstar_cli import Step, workflow
from yieldstar_cli.errors import StepTimeout, StoreMissing
from yieldstar_cli.testing import Bench

SECOND = 1_000


class Box(msgspec.Struct):
    """Things to take."""

    things: list[int] = []
    open: bool = False


def first(box: Box) -> int | None:
    """The first thing."""
    return box.things[0] if box.things else None


def remove(box: Box, thing: int) -> None:
    """Take it out."""
    box.things.remove(thing)


def put(bench: Bench, store_id: str, box: Box) -> None:
    """Write a box from outside."""
    bench.storage.stores.put("Box", store_id, msgspec.json.encode(box).decode())


def box(bench: Bench, store_id: str) -> Box:
    """A box as it is."""
    found = bench.storage.stores.get("Box", store_id)
    assert found is not None
    return msgspec.json.decode(found.state, type=Box)


def test_of_two_takes_in_one_race_only_the_first_takes() -> None:
    """spec O4, O6, S5: both could at once; the loser takes nothing, as a lost message."""

    @workflow
    async def greedy(step: Step) -> int:
        boxes = [await step.store(Box, name, initial=Box()) for name in ("a", "b")]
        won = await step.select(*[step.spawn(b.take(first, remove)) for b in boxes])
        return won.result()

    with Bench(greedy) as bench:
        bench.admit("greedy", execution_id="x")
        bench.run()
        with bench.storage.atomic():
            put(bench, "a", Box([1]))
            put(bench, "b", Box([2]))
        bench.run()

        assert bench.result("x").result == 1
        assert box(bench, "a") == Box([])
        assert box(bench, "b") == Box([2])


def test_a_take_whose_rival_is_recorded_with_the_same_commit_takes_nothing() -> None:
    """spec O4, S5: a message that is sent wins the race before the take is tried."""

    @workflow
    async def torn(step: Step) -> str:
        box = await step.store(Box, "a", initial=Box())
        taking = step.spawn(box.take(first, remove))
        sending = step.spawn(step.send("nobody", "q", 1))
        won = await step.select(sending, taking)
        return "sent" if won is sending else "took"

    with Bench(torn) as bench:
        put(bench, "a", Box([1]))
        bench.admit("torn", execution_id="x")
        bench.run()

        assert bench.result("x").result == "sent"
        assert box(bench, "a") == Box([1])


@pytest.mark.parametrize("away", [False, True])
def test_a_deadline_wins_over_a_later_timer_also_when_the_worker_was_away(away: bool) -> None:
    """case 190; spec O6, S6: what became ready first wins."""

    @workflow
    async def patient(step: Step) -> str:
        box = await step.store(Box, "a", initial=Box())
        opened = step.spawn(box.when(lambda b: b.open, deadline="10s"))
        timer = step.timer("20s")
        won = await step.select(timer, opened)
        if won is timer:
            return "timer"
        try:
            opened.result()
        except StepTimeout:
            return "deadline"
        return "opened"

    with Bench(patient) as bench:
        bench.admit("patient", execution_id="x")
        bench.run_to(START)
        if away:
            bench.crash()
            bench.clock.set(START + 60 * SECOND)
        bench.run()

        assert bench.result("x").result == "deadline"


def test_a_deadline_that_passes_while_it_leaves_keeps_nobody_busy() -> None:
    """spec E14, R10, S6: paused, its step goes on; until it ends nothing is to be done."""

    async def long() -> int:
        return 1

    @workflow
    async def both(step: Step) -> list[Any]:
        box = await step.store(Box, "a", initial=Box())

        async def opened() -> str:
            try:
                return str(await box.when(lambda b: b.open, deadline="10s"))
            except StepTimeout:
                return "late"

        return await step.all([opened(), step.run(long)])

    with Bench(both, duration=lambda call: 60 * SECOND) as bench:
        bench.admit("both", execution_id="x")
        bench.run_to(START + SECOND)
        bench.storage.steering.pause(execution_id="x", by="me")
        worker = bench.workers[0]
        bench.loop.post(worker.poll)
        bench.run_to(START + 9 * SECOND)

        steps = 0
        while bench.clock.now_ms() < START + 50 * SECOND and steps < 99:
            bench.loop.step()
            steps += 1
        assert steps < 99

        bench.run_to(START + 100 * SECOND)
        bench.storage.steering.resume(execution_id="x")
        bench.run()
        assert bench.result("x").result == ["late", 1]


def test_an_update_beside_a_deadline_that_is_due_is_made_once() -> None:
    """spec S2, S6: the deadline makes the round look again, and the update is asked for once."""

    def add(box: Box) -> None:
        box.things.append(len(box.things))

    @workflow
    async def both(step: Step) -> list[Any]:
        box = await step.store(Box, "a", initial=Box())
        late = step.spawn(box.when(lambda b: b.open, deadline="0s"))
        return [await step.select(late, step.spawn(box.update(add))) is late, await box.update(add)]

    with Bench(both) as bench:
        bench.admit("both", execution_id="x")
        bench.run()

        assert bench.record("x").problem is None
        assert bench.result("x").result[1] == 2
        assert box(bench, "a") == Box([0, 1])


@workflow
async def opened(step: Step) -> str:
    """Waits until a box is open; says so when it is thrown away."""
    box = await step.store(Box, "a", initial=Box())
    try:
        await box.when(lambda b: b.open)
    except StoreMissing:
        return "missing"
    return "open"


@pytest.mark.parametrize("span_ms", range(0, 500, 50))
def test_a_write_between_the_look_and_the_commit_of_the_wait_is_heard_of(span_ms: int) -> None:
    """case 183; spec S4: a wait that is registered too late is ready at once."""
    with Bench(opened) as bench:
        bench.admit("opened", execution_id="x")
        worker = bench.start_worker()
        worker.writer = BusyWriter(worker.writer, bench.loop, 100, lambda: None)
        bench.run_to(START + span_ms)
        put(bench, "a", Box(open=True))
        bench.run()

        assert bench.result("x").result == "open"


def test_who_waits_for_a_store_that_is_deleted_hears_of_it_and_not_of_the_next_one() -> None:
    """case 180; spec S2, S4: and not of the next one by that name."""
    with Bench(opened) as bench:
        bench.admit("opened", execution_id="x")
        bench.run()
        assert bench.storage.stores.delete("Box", "a")
        bench.run()
        put(bench, "a", Box(open=True))
        bench.run()

        assert bench.result("x").result == "missing"
        assert waits(bench, "x") == []


def test_a_waiter_that_has_ended_keeps_no_other_from_its_wake() -> None:
    """case 185; spec S3: the one was cancelled at once, the other waits on."""
    with Bench(opened) as bench:
        for name in ("x", "y", "z"):
            bench.admit("opened", execution_id=name)
        bench.run()
        with bench.storage.atomic():
            bench.storage.steering.cancel("x", now=True)
            put(bench, "a", Box(open=True))
        bench.run()

        assert [status(bench, name) for name in "xyz"] == ["cancelled", "completed", "completed"]
