"""Suspended coroutines that are kept in memory: the same as replay's, and bounded (spec R6)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.helpers import START, MakeRig, Rig, called, keys
from yieldstar_cli.engine.step import Step
from yieldstar_cli.errors import StepTimeout
from yieldstar_cli.model import Completed

HOUR = 3_600_000


def give(value: Any = None) -> Any:
    return value


def kept(x: Rig) -> int:
    return sum(len(worker._residents) for worker in x.bench.workers)


async def mixed(step: Step) -> list[Any]:
    async def branch(n: int) -> Any:
        await step.sleep(n)
        return await step.run(give, n)

    step.log.info("begins")
    seen: list[Any] = [await step.run(give, 1), step.random(), step.now().isoformat()]
    held = [step.spawn(branch(n)) for n in range(4)]
    await step.select(*held)
    try:
        await step.timeout(step.sleep("1h"), "2s")
    except StepTimeout:
        seen.append("timeout")
    seen.append(step.patched("p"))
    held[3].cancel()
    return [*seen, *await step.all(held[:3]), step.random(), step.event.operations]


class SameChance:
    def execution_suffix(self) -> str:
        return "aaaaaaaa"

    def seed(self) -> bytes:
        return b"s" * 16


def test_with_and_without_residents_the_history_is_the_same(rig: MakeRig) -> None:
    """spec R6; B58: byte for byte, and with two workers that take turns."""
    histories = []
    for residents, workers in ((100, 1), (0, 1), (100, 2)):
        x = rig(mixed, residents=residents, chance=SameChance())
        for _ in range(workers):
            x.bench.start_worker()
        found = x.go()
        assert found.status == "completed"
        histories.append((x.history, found.record.outcome, x.logs, found.calls))

    assert histories[1] == histories[0]
    assert histories[2] == histories[0]


def test_a_resident_goes_on_where_it_was(rig: MakeRig) -> None:
    """spec R2, R6: the function is not run from the top again."""
    runs = []

    async def w(step: Step) -> None:
        runs.append(1)
        for _ in range(10):
            await step.sleep("1s")

    x = rig(w)
    x.go()
    assert len(runs) == 1

    runs.clear()
    y = rig(w, residents=0)
    y.go()
    assert len(runs) == 11


def test_no_more_than_the_limit_are_kept(rig: MakeRig) -> None:
    """spec R6: bounded; the rest replay, and all complete."""

    async def w(step: Step) -> str:
        for _ in range(3):
            await step.sleep("1m")
        return "done"

    x = rig(w, residents=5)
    for n in range(40):
        x.bench.admit("w", execution_id=f"y{n}")
    x.to(90_000)
    assert kept(x) == 5
    x.go()

    assert {x.bench.result(f"y{n}").result for n in range(40)} == {"done"}
    assert kept(x) == 0


def test_of_those_that_sleep_for_long_only_the_next_to_wake_are_kept(rig: MakeRig) -> None:
    """spec R6, K3: a tenth of the limit; the others are replayed when they are due, and complete.

    What is woken by others, or soon, is not far from anything.
    """
    runs: list[int] = []

    async def w(step: Step) -> str:
        hours = int(step.event.execution_id[1:] or "0")
        runs.append(hours)
        if not hours:
            return await step.message("go", str)
        for _ in range(2):
            await step.sleep(hours * 3_600)
        return "rested"

    x = rig(w, residents=20)
    for hours in (5, 3, 9, 1, 2, 8, 4, 7):
        x.bench.admit("w", execution_id=f"n{hours}")
    x.to(1_000)

    resident = x.bench.workers[0]._residents.values()
    assert sorted(one.due_at or 0 for one in resident) == [0, START + HOUR, START + 2 * HOUR]
    assert sorted(runs) == [0, 1, 2, 3, 4, 5, 7, 8, 9]
    runs.clear()
    x.bench.run()
    assert all(x.bench.result(f"n{n}").result == "rested" for n in (1, 2, 3, 4, 5, 7, 8, 9))
    assert {*runs} >= {3, 4, 5, 7, 8, 9}
    assert not {*runs} & {0, 1}


def test_a_far_sleeper_that_was_woken_leaves_its_place_to_another(rig: MakeRig) -> None:
    """spec R6: what is no longer there counts for nothing, however often it came and went."""

    async def w(step: Step) -> str:
        await step.sleep("1h")
        return "rested"

    x = rig(w, residents=20)
    x.bench.admit("w", execution_id="second")
    x.to(1_000)
    for turn in range(300):
        x.bench.storage.executions.request_wake("x", x.bench.clock.now_ms())
        x.bench.workers[0].poll()
        x.to(2_000 + turn)

    assert kept(x) == 2
    assert len(x.bench.workers[0]._residents._far) < 100


def test_a_process_that_holds_too_much_lets_the_oldest_go(rig: MakeRig) -> None:
    """spec R6; case 305: residents are bounded by memory too, and cost no history when dropped."""

    async def nap(step: Step) -> str:
        await step.sleep("1h")
        return "rested"

    x = rig(nap)
    worker = x.bench.start_worker()
    for index in range(299):
        x.bench.admit("w", execution_id=f"n{index}")
    worker.memory_used = lambda: worker.limits.memory + 1

    x.to(1_000)

    assert 0 < kept(x) < 300
    worker.memory_used = lambda: 0
    x.to(3_700_000)
    assert all(x.bench.record(f"n{index}").status == "completed" for index in range(299))


def test_a_dropped_one_runs_its_finally_but_can_record_nothing(rig: MakeRig) -> None:
    """spec R6: its step handle is dead; every call raises, nothing is started or logged."""
    seen: list[str] = []

    async def w(step: Step) -> str:
        try:
            await step.sleep("1h")
        finally:
            seen.append("finally")
            for call in (
                lambda: step.run(give),
                lambda: step.sleep(0),
                lambda: step.timer(0),
                lambda: step.now(),
                lambda: step.set_status("dead"),
                lambda: step.patched("dead"),
                lambda: step.spawn(step.run(give)),
            ):
                try:
                    made: Any = call()
                    if hasattr(made, "__await__"):
                        await made
                except BaseException as error:
                    seen.append(type(error).__name__)
            step.log.info("dead")
        return "done"

    x = rig(w)
    x.to(60_000)
    x.bench.workers[0].use({})

    assert seen[0] == "finally"
    assert seen[1:] == ["Dropped"] * 7
    assert x.history == []
    assert x.logs == []
    assert x.record.status_value_json is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["sleep", "run", "timer", "now and sleep", "spawn", "cancel"])
def test_one_that_swallows_its_drop_is_cut_off(rig: MakeRig, kind: str) -> None:
    """spec R6, R9: a loop that catches everything holds nobody up, whatever it calls."""
    import gc

    rounds: list[int] = []

    async def w(step: Step) -> None:
        held = step.spawn(step.sleep("9h"))
        while True:
            try:
                match kind:
                    case "sleep":
                        await step.sleep("1h")
                    case "run":
                        await step.sleep("1h") if not rounds else await step.run(give)
                    case "timer":
                        await step.timer("1h")
                    case "now and sleep":
                        step.now()
                        step.random()
                        step.set_status("x")
                        step.patched("p")
                        await step.sleep("1h")
                    case "spawn":
                        await step.spawn(step.sleep("1h"))
                    case "cancel":
                        if rounds:
                            held.cancel()
                        await step.sleep("1h")
            except BaseException:
                rounds.append(1)

    x = rig(w)
    x.to(60_000)
    x.bench.workers[0].use({})
    gc.collect()

    assert 1 <= len(rounds) < 1_000


def test_a_resident_of_code_that_was_replaced_is_dropped(rig: MakeRig) -> None:
    """spec R6: its module was reloaded; the new code replays."""
    seen: list[str] = []

    async def old(step: Step) -> str:
        try:
            await step.sleep("1h")
        finally:
            seen.append("old dropped")
        return "old"

    async def new(step: Step) -> str:
        await step.sleep("1h")
        return "new"

    x = rig(old)
    x.to(60_000)
    assert kept(x) == 1
    x.code(new)
    x.bench.workers[0].use(x.bench.definitions)
    assert kept(x) == 0
    assert seen == ["old dropped"]

    assert x.go().result == "new"


def test_a_resident_of_the_same_code_survives_a_reload_of_others(rig: MakeRig) -> None:
    """spec R6: only what changed is dropped."""

    async def w(step: Step) -> str:
        await step.sleep("1h")
        return "kept"

    x = rig(w)
    x.to(60_000)
    x.bench.workers[0].use(dict(x.bench.definitions))

    assert kept(x) == 1
    assert x.go().result == "kept"


def test_a_resident_is_fed_what_others_recorded(rig: MakeRig) -> None:
    """spec R6: entries of the other worker are applied before it goes on."""

    async def w(step: Step) -> list[float]:
        seen = []
        for n in range(6):
            await step.sleep("1s")
            await step.run(give, n)
            seen.append(step.now().timestamp() * 1000 - START)
        return seen

    x = rig(w)
    a, b = x.bench.start_worker(), x.bench.start_worker()
    for second in range(1, 6):
        # Only one of them claims in each second.
        a.stopping, b.stopping = bool(second % 2), not second % 2
        for worker in (a, b):
            x.bench.loop.post(worker.poll)
        x.to(second * 1_000 + 500)
    a.stopping = b.stopping = False
    found = x.go()

    assert found.result == [n * 1_000 for n in range(1, 7)]
    assert called(found) == ["give", *(f"give#{n}" for n in range(2, 7))]
    assert keys(found)[::2] == ["sleep", *(f"sleep#{n}" for n in range(2, 7))]


def test_a_resident_that_is_ahead_of_the_record_is_dropped(rig: MakeRig) -> None:
    """spec R2, R6: what was shown to it was never recorded; the history is what stands."""

    runs: list[int] = []

    async def w(step: Step) -> list[Any]:
        runs.append(1)
        seen = []
        for n in range(3):
            await step.sleep("1s")
            seen.append(await step.run(give, n))
        return seen

    x = rig(w)
    x.to(1_500)
    (resident,) = x.bench.workers[0]._residents.values()
    resident.driver.position += 1
    found = x.go()

    assert found.result == [0, 1, 2]
    assert len(runs) == 2
    assert "refused" not in [e.kind for e in found.events]


def test_a_resident_whose_execution_ended_elsewhere_is_never_resumed(rig: MakeRig) -> None:
    """spec R6, E10."""
    ran: list[int] = []

    async def w(step: Step) -> str:
        await step.sleep("1h")
        ran.append(1)
        return "here"

    x = rig(w)
    x.to(60_000)
    x.bench.storage.executions.request_wake("x", START + 60_000)
    (claim,) = x.bench.storage.executions.claim_due(START + 60_000)
    x.bench.storage.executions.acknowledge(claim, Completed('"elsewhere"'))
    found = x.go()

    assert found.result == "elsewhere"
    assert ran == []


def test_many_rounds_of_one_execution_are_one_resident(rig: MakeRig) -> None:
    """B36, spec R6: flat cost per round; nothing is kept of what has ended."""

    async def w(step: Step) -> None:
        for _ in range(300):
            await step.sleep("1s")

    x = rig(w)
    x.to(250_500)

    assert kept(x) == 1
    assert x.go().status == "completed"
