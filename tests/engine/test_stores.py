"""Stores: opened once, changed by version, waited for by what was read (spec S1-S6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.engine.several import START, killed_everywhere, waits
from yieldstar_cli import Step, workflow
from yieldstar_cli.errors import InvalidState, StepTimeout, StoreChanged, StoreMissing
from yieldstar_cli.model import Completed
from yieldstar_cli.testing import Bench

SECOND = 1_000


class Stock(msgspec.Struct):
    """What is on the shelf."""

    left: int = 0
    note: str = ""
    tags: list[str] = []


class Job(msgspec.Struct):
    """Something to be done."""

    name: str


class Jobs(msgspec.Struct):
    """What is to be done."""

    waiting: list[Job] = []


def give(n: int) -> Any:
    """An update that adds to the stock."""

    def add(stock: Stock) -> None:
        stock.left += n

    return add


def take_one(stock: Stock, value: int) -> None:
    """A claim on one piece."""
    stock.left -= 1


@workflow
async def restock(step: Step, n: int) -> int:
    """Adds `n` to the stock and gives the new version."""
    stock = await step.store(Stock, "widget", initial=Stock())
    return await stock.update(give(n))


@workflow
async def buyer(step: Step) -> int:
    """Takes one piece as soon as there is one; gives how many there were."""
    stock = await step.store(Stock, "widget", initial=Stock())
    return await stock.take(lambda s: s.left or None, take_one)


@workflow
async def watcher(step: Step, n: int) -> int:
    """Waits until there are `n`."""
    stock = await step.store(Stock, "widget", initial=Stock())
    await stock.when(lambda s: s.left >= n)
    return (await stock.get()).state.left


def stored(bench: Bench, store_id: str = "widget") -> tuple[int, Stock]:
    """Version and state of the stock."""
    found = bench.storage.stores.get("Stock", store_id)
    assert found is not None
    return found.version, msgspec.json.decode(found.state, type=Stock)


def put(bench: Bench, state: Stock) -> None:
    """Write the stock from outside."""
    bench.storage.stores.put("Stock", "widget", msgspec.json.encode(state).decode())


def test_a_store_is_created_once_and_updates_rise_its_version_by_one() -> None:
    """cases 162, 168; spec S1, S2: whoever opens it again finds it as it is."""
    with Bench(restock) as bench:
        for n in range(1, 6):
            bench.admit(restock, {"n": n}, execution_id=f"r{n}")
        bench.run()

        results = sorted(bench.result(f"r{n}").result for n in range(1, 6))

        assert results == [1, 2, 3, 4, 5]
        assert stored(bench) == (5, Stock(left=15))


def test_a_store_that_is_not_there_is_missing_unless_it_is_begun() -> None:
    """case 165; spec S1: recorded, and the same on replay."""

    @workflow
    async def opens(step: Step) -> str:
        try:
            await step.store(Stock, "nowhere")
        except StoreMissing as error:
            await step.sleep("1s")
            return str(error)
        return "opened"

    with Bench(opens) as bench:
        bench.admit("opens", execution_id="x")
        bench.run_to(START)
        bench.crash()
        bench.run()

        assert "nowhere" in bench.result("x").result
        assert bench.storage.stores.get("Stock", "nowhere") is None


def test_without_an_id_the_store_is_the_executions_own() -> None:
    """case 192; spec S1: its ID is the execution's."""

    @workflow
    async def own(step: Step) -> int:
        stock = await step.store(Stock, initial=Stock(left=3))
        return (await stock.get()).state.left

    with Bench(own) as bench:
        bench.admit("own", execution_id="mine")
        bench.run()

        assert bench.result("mine").result == 3
        assert stored(bench, "mine") == (0, Stock(left=3))


def test_two_updates_of_one_round_are_both_made() -> None:
    """case 168; spec S2: the second meets another version, and is computed anew."""

    @workflow
    async def both(step: Step) -> list[int]:
        stock = await step.store(Stock, "widget", initial=Stock())
        return sorted(await step.all([stock.update(give(1)), stock.update(give(10))]))

    with Bench(both) as bench:
        bench.admit("both", execution_id="x")
        bench.run()

        assert bench.result("x").result == [1, 2]
        assert stored(bench) == (2, Stock(left=11))


def test_what_was_read_stays_as_it_was_read() -> None:
    """cases 188, 194, 195; spec S1, R2: an outside change is no other history."""

    @workflow
    async def reader(step: Step) -> list[int]:
        stock = await step.store(Stock, "widget", initial=Stock(left=1))
        first = await stock.get()
        chosen = await stock.select(lambda s: s.left * 10)
        await step.sleep("1h")
        again = await stock.get()
        return [first.state.left, chosen, again.state.left, again.version]

    with Bench(reader) as bench:
        bench.admit("reader", execution_id="x")
        bench.run_to(START)
        put(bench, Stock(left=7))
        bench.crash()
        bench.run()

        assert bench.result("x").result == [1, 10, 7, 1]


def test_a_wait_goes_on_when_another_execution_changes_what_it_read() -> None:
    """case 189; spec S3, S4: woken by the commit of the change itself."""
    with Bench(watcher, restock) as bench:
        bench.admit(watcher, {"n": 3}, execution_id="w")
        bench.run()
        assert [w.store for w in waits(bench, "w")] == [("Stock", "widget")]

        bench.admit(restock, {"n": 2}, execution_id="r2")
        bench.run()
        assert bench.record("w").outcome is None
        bench.admit(restock, {"n": 2}, execution_id="r3")
        bench.run()

        assert bench.record("w").outcome == Completed("4")


def test_a_write_to_what_nobody_reads_wakes_nobody() -> None:
    """case 181; spec S4: the paths read decide."""
    with Bench(watcher) as bench:
        bench.admit(watcher, {"n": 3}, execution_id="w")
        bench.run()
        before = bench.record("w").deliveries

        put(bench, Stock(note="counted", tags=["blue"]))
        bench.run()
        assert bench.record("w").deliveries == before
        put(bench, Stock(left=3, note="counted"))
        bench.run()

        assert bench.record("w").outcome == Completed("3")


def test_a_deadline_passes_and_leaves_nothing_behind() -> None:
    """cases 190, 191; spec S6: first recorded wins, the loser is withdrawn."""

    @workflow
    async def patient(step: Step) -> str:
        stock = await step.store(Stock, "widget", initial=Stock())
        try:
            return f"matched {await stock.when(lambda s: s.left, deadline='10s')}"
        except StepTimeout:
            await step.sleep("1h")
            return "timed out"

    with Bench(patient) as bench:
        bench.admit("patient", execution_id="x")
        bench.run_to(START + 20 * SECOND)
        found = bench.record("x").due_at

        assert [w.kind for w in waits(bench, "x")] == ["timer"]
        assert found == START + 10 * SECOND + 3_600 * SECOND
        put(bench, Stock(left=1))
        bench.run()
        assert bench.result("x").result == "timed out"


@pytest.mark.parametrize(("left", "said"), [(5, "matched 5"), (0, "timed out")])
def test_a_match_wins_over_a_deadline_that_has_passed_already(left: int, said: str) -> None:
    """case 190; spec S6: the worker was away while both came."""

    @workflow
    async def patient(step: Step) -> str:
        stock = await step.store(Stock, "widget", initial=Stock())
        try:
            return f"matched {await stock.when(lambda s: s.left, deadline='10s')}"
        except StepTimeout:
            return "timed out"

    with Bench(patient) as bench:
        bench.admit("patient", execution_id="x")
        bench.run_to(START)
        bench.crash()
        bench.clock.set(START + 60 * SECOND)
        put(bench, Stock(left=left))
        bench.run()

        assert bench.result("x").result == said


def test_each_piece_is_taken_once() -> None:
    """case 178; spec S5: test and claim are one commit."""
    with Bench(buyer, restock) as bench:
        for n in range(6):
            bench.admit(buyer, execution_id=f"b{n}")
        bench.run()
        for n in (1, 2):
            bench.admit(restock, {"n": n}, execution_id=f"r{n}")
            bench.run()

        done = [n for n in range(6) if bench.record(f"b{n}").outcome is not None]

        assert len(done) == 3
        assert stored(bench)[1] == Stock(left=0)
        assert stored(bench)[0] == 2 + 3


def test_a_take_that_lost_its_select_takes_nothing() -> None:
    """spec O4, S5: what came first is recorded, and the stock is as it was."""

    @workflow
    async def either(step: Step) -> str:
        stock = await step.store(Stock, "widget", initial=Stock())
        piece = step.spawn(stock.take(lambda s: s.left or None, take_one))
        stop = step.message("stop", str)
        won = await step.select(stop, piece)
        return stop.result() if won is stop else "took"

    with Bench(either) as bench:
        bench.admit("either", execution_id="x")
        bench.run()
        with bench.storage.atomic():
            bench.send("x", "stop", "stopped")
            put(bench, Stock(left=1))
        bench.run()

        assert bench.result("x").result == "stopped"
        assert stored(bench) == (1, Stock(left=1))


def test_a_change_from_an_old_snapshot_is_refused() -> None:
    """cases 176, 179; spec S2: version and instance are compared, and the answer is recorded."""

    @workflow
    async def careful(step: Step) -> list[str]:
        stock = await step.store(Stock, "widget", initial=Stock())
        old = await stock.get()
        await stock.update(give(1))
        said: list[str] = []
        for change in (stock.update_from(old, give(5)), stock.delete_from(old)):
            try:
                await change
            except StoreChanged as error:
                said.append(type(error).__name__)
        await step.sleep("1s")
        new = await stock.get()
        said.append(str(await stock.update_from(new, give(5))))
        await stock.delete_from(await stock.get())
        return said

    with Bench(careful) as bench:
        bench.admit("careful", execution_id="x")
        bench.run_to(START)
        bench.crash()
        bench.run()

        assert bench.result("x").result == ["StoreChanged", "StoreChanged", "2"]
        assert bench.storage.stores.get("Stock", "widget") is None


def test_a_conditional_change_needs_the_snapshot_that_it_is_of() -> None:
    """case 177; spec S2: a bare state names no instance and no version."""

    @workflow
    async def bare(step: Step) -> list[str]:
        stock = await step.store(Stock, "widget", initial=Stock())
        state: Any = (await stock.get()).state
        said: list[str] = []
        for change in (lambda: stock.update_from(state, give(1)), lambda: stock.delete_from(state)):
            try:
                await change()
            except TypeError as error:
                said.append(str(error))
        return said

    with Bench(bare) as bench:
        bench.admit("bare", execution_id="x")
        bench.run()

        assert ["not Stock" in text for text in bench.result("x").result] == [True, True]
        assert stored(bench) == (0, Stock())


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    """case 166; spec S2: checked before every commit."""

    def spoil(stock: Stock) -> None:
        stock.left = "many"  # type: ignore[assignment]

    @workflow
    async def spoils(step: Step) -> str:
        stock = await step.store(Stock, "widget", initial=Stock(left=2))
        try:
            await stock.update(spoil)
        except InvalidState:
            return "refused"
        return "done"

    with Bench(spoils) as bench:
        bench.admit("spoils", execution_id="x")
        bench.run()

        assert bench.result("x").result == "refused"
        assert stored(bench) == (0, Stock(left=2))


def test_an_async_function_is_refused_at_the_call() -> None:
    """case 167; spec S2: functions given to stores are plain."""

    async def slow(stock: Stock) -> None:
        stock.left = 1

    @workflow
    async def wrong(step: Step) -> str:
        stock = await step.store(Stock, "widget", initial=Stock())
        try:
            await stock.update(slow)  # type: ignore[arg-type]
        except TypeError as error:
            return str(error)
        return "done"

    with Bench(wrong) as bench:
        bench.admit("wrong", execution_id="x")
        bench.run()

        assert "slow" in bench.result("x").result
        assert stored(bench) == (0, Stock())


def test_a_kill_at_any_point_leaves_all_of_a_change_or_nothing() -> None:
    """case 186; spec S3: state, history and wakes are one commit."""

    def play(bench: Bench, go: Callable[[], None]) -> None:
        bench.admit(buyer, execution_id="b")
        bench.admit(watcher, {"n": 2}, execution_id="w")
        bench.admit(restock, {"n": 3}, execution_id="r")
        go()

    for bench in killed_everywhere(lambda: Bench(buyer, watcher, restock), play):
        assert stored(bench) == (2, Stock(left=2))
        assert [bench.record(name).outcome for name in ("b", "r")] == [
            Completed("3"),
            Completed("1"),
        ]
        # It saw the stock before the sale, or after it.
        assert bench.record("w").outcome in (Completed("2"), Completed("3"))


def test_a_state_that_is_too_large_is_refused_and_the_workflow_goes_on() -> None:
    """case 193; spec V2, S2: of an update, of a claim, and at the beginning; nothing is changed."""

    def bloat(stock: Stock, value: object = None) -> None:
        stock.note = "x" * (17 * 1024 * 1024)

    @workflow
    async def grows(step: Step) -> list[str]:
        stock = await step.store(Stock, "widget", initial=Stock(left=1))
        said: list[str] = []
        for change in (
            stock.update(bloat),
            stock.take(lambda s: s.left, bloat),
            stock.update_from(await stock.get(), give(1)),
        ):
            try:
                said.append(str(await change))
            except InvalidState as error:
                said.append(type(error).__name__)
        return said

    with Bench(grows) as bench:
        bench.admit("grows", execution_id="x")
        bench.run()

        assert bench.result("x").result == ["InvalidState", "InvalidState", "1"]
        assert stored(bench) == (1, Stock(left=2))


@pytest.mark.parametrize("how", ["update", "select", "when", "take"])
def test_an_operation_within_a_stores_function_is_a_fault_of_the_code(how: str) -> None:
    """spec R9, S2: it is held, nothing is recorded, and the right code goes on from there."""

    @workflow(id="w")
    async def wrong(step: Step) -> int:
        stock = await step.store(Stock, "widget", initial=Stock(left=1))

        def asks(s: Stock, value: object = None) -> Any:
            step.set_status("no")
            return 1

        calls: dict[str, Callable[[], Any]] = {
            "update": lambda: stock.update(asks),
            "select": lambda: stock.select(asks),
            "when": lambda: stock.when(asks),
            "take": lambda: stock.take(lambda s: s.left, asks),
        }
        await calls[how]()
        return 1

    @workflow(id="w")
    async def right(step: Step) -> int:
        stock = await step.store(Stock, "widget", initial=Stock(left=1))
        return (await stock.get()).state.left

    with Bench(wrong) as bench:
        bench.admit("w", execution_id="x")
        bench.run()
        held = bench.record("x").held
        bench.definitions = {right.definition.key: right.definition}
        bench.crash()
        bench.storage.executions.wake("x")
        bench.run()

        assert held is not None
        assert held.code == "MISPLACED_CALL"
        assert bench.result("x").result == 1


def test_a_state_that_fits_its_type_no_more_is_said_by_every_operation() -> None:
    """case 166; spec S2: an error that the workflow can catch, the same for all of them."""

    @workflow
    async def reads(step: Step) -> list[str]:
        stock = await step.store(Stock, "widget")
        said: list[str] = []
        for operation in (
            stock.get(),
            stock.select(lambda s: s.left),
            stock.update(give(1)),
            stock.when(lambda s: s.left),
            stock.take(lambda s: s.left, take_one),
        ):
            try:
                await operation
            except InvalidState as error:
                said.append(type(error).__name__)
        return said

    with Bench(reads) as bench:
        bench.storage.stores.put("Stock", "widget", '{"left":"many"}')
        bench.admit("reads", execution_id="x")
        bench.run()

        assert bench.result("x").result == ["InvalidState"] * 5
        assert bench.storage.stores.get("Stock", "widget").version == 0  # type: ignore[union-attr]


def test_what_take_gives_is_of_the_type_that_its_function_says() -> None:
    """spec S5, O2: the claim gets it, and so does the workflow, on replay as well."""

    def first(jobs: Jobs) -> Job | None:
        return jobs.waiting[0] if jobs.waiting else None

    def claim(jobs: Jobs, job: Job) -> None:
        jobs.waiting.remove(job)

    @workflow
    async def works(step: Step) -> str:
        jobs = await step.store(Jobs, "all", initial=Jobs([Job("a"), Job("b")]))
        job = await jobs.take(first, claim)
        await step.sleep("1s")
        return job.name

    with Bench(works) as bench:
        bench.admit("works", execution_id="x")
        bench.run_to(START)
        bench.crash()
        bench.run()

        assert bench.result("x").result == "a"
        found = bench.storage.stores.get("Jobs", "all")
        assert found is not None
        assert found.state == '{"waiting":[{"name":"b"}]}'
