"""Faults of the code: the execution is held, told by file and line, and goes on (spec R9, E12)."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import msgspec
import pytest

from tests.engine.helpers import START, MakeRig, Rig, called, definition_of, keys
from yieldstar_cli.engine import faults
from yieldstar_cli.engine.step import Step
from yieldstar_cli.engine.this_step import this_step
from yieldstar_cli.errors import MisplacedCall, StepTimeout
from yieldstar_cli.runtime import open_runtime


def give(value: Any = None) -> Any:
    return value


async def fetch() -> int:
    await asyncio.sleep(0)
    return 1


def held_for(x: Rig, code: str) -> str:
    """The message of the problem, with all that must be true of a fault of the code."""
    found = x.go()
    record = found.record
    assert record.problem is not None, found.record.outcome
    assert record.problem.code == code, record.problem
    assert record.outcome is None
    assert record.status in ("admitted", "suspended")
    assert record.held is not None
    assert (record.held.until_at, record.held.code) == (None, code)
    assert record.delivery is None
    assert record.due_at is not None
    assert record.deaths == 0
    # Held means: not delivered again.
    x.bench.clock.advance(86_400_000)
    assert x.go().record.deliveries == record.deliveries
    return record.problem.message


# --- not awaited ---------------------------------------------------------------------------------


async def forgets(step: Step) -> int:
    step.run(give, 1)
    return 1


async def keeps_in_a_list(step: Step) -> int:
    made = [step.run(give, n) for n in range(2)]
    await made[0]
    return len(made)


async def keeps_until_the_end(step: Step) -> int:
    late = step.run(give, 1)
    await step.sleep("1s")
    return 1 if late else 0


async def forgets_in_a_branch(step: Step) -> int:
    async def branch() -> None:
        step.sleep("1s")

    await step.spawn(branch())
    return 1


async def gives_it_to_a_tuple(step: Step) -> Any:
    return step.run(give), 1


@pytest.mark.parametrize(
    "body",
    [forgets, keeps_in_a_list, keeps_until_the_end, forgets_in_a_branch, gives_it_to_a_tuple],
)
def test_an_operation_that_is_never_awaited_holds_the_execution(rig: MakeRig, body: Any) -> None:
    """spec R9: at once, in a list, at the end of the function, in a branch; with what to write."""
    message = held_for(rig(body), "STEP_NOT_AWAITED")

    assert "was not awaited" in message
    assert "test_faults.py:" in message
    assert "Write: await step." in message


async def adds_to_it(step: Step) -> Any:
    return step.run(give, 1) + 1  # type: ignore[operator]


async def asks_it_for_a_field(step: Step) -> Any:
    made = step.run(give, 1)
    return made.total  # type: ignore[attr-defined]


@pytest.mark.parametrize("body", [adds_to_it, asks_it_for_a_field])
def test_an_operation_taken_for_its_result_is_told_as_a_forgotten_await(
    rig: MakeRig, body: Any
) -> None:
    """spec R9: Python's own error says nothing of `await`, and would end the execution."""
    assert "Write: await step.run(give)" in held_for(rig(body), "STEP_NOT_AWAITED")


def test_an_error_of_the_function_is_its_outcome_though_an_operation_waits(rig: MakeRig) -> None:
    """spec R9: only an error that the forgotten await explains is told as one."""

    async def w(step: Step) -> Any:
        made = step.run(give, 1)
        raise TypeError(f"no such item in {[made][:0]}")

    record = rig(w).go().record

    assert record.status == "failed"
    assert record.problem is None


@pytest.mark.parametrize("name", ["select", "all", "timeout", "poll", "sleep_until"])
def test_every_kind_of_operation_may_be_forgotten(rig: MakeRig, name: str) -> None:
    """spec R9."""

    async def w(step: Step) -> int:
        timer = step.timer(1)
        args: dict[str, list[Any]] = {
            "select": [timer],
            "all": [[timer]],
            "timeout": [timer, 1],
            "poll": [give],
            "sleep_until": [0],
        }
        getattr(step, name)(*args[name])
        return 1

    assert f"step.{name}(" in held_for(rig(w), "STEP_NOT_AWAITED")


def test_a_handle_that_is_never_used_is_no_fault(rig: MakeRig) -> None:
    """spec, operations table: things that one may hold without awaiting."""

    async def w(step: Step) -> int:
        step.timer("1s")
        step.timer_until(step.now())
        step.spawn(step.run(give))
        return 1

    assert rig(w).go().result == 1


def test_an_operation_that_a_failing_function_leaves_behind_is_no_fault(rig: MakeRig) -> None:
    """spec R8, R9: the function's own error is what counts."""

    async def w(step: Step) -> int:
        made = step.run(give)
        raise ValueError("no")
        await made

    found = rig(w).go()

    assert isinstance(found.error, ValueError)


def test_an_operation_that_a_branch_had_not_come_to_is_no_fault(rig: MakeRig) -> None:
    """spec O4, R9: the end of the function cuts the branch short, cancel does, or a timeout."""

    async def branch(step: Step) -> None:
        made = step.run(give)
        await step.sleep("1h")
        await made

    async def w(step: Step) -> int:
        held = step.spawn(branch(step))
        step.spawn(branch(step))
        await step.sleep("1s")
        held.cancel()
        try:
            await step.timeout(branch(step), "1s")
        except StepTimeout:
            await step.sleep("1s")
        return 1

    for residents in (0, 100):
        assert rig(w, residents=residents).go().result == 1


def test_an_operation_that_a_branch_returns_must_be_awaited(rig: MakeRig) -> None:
    """spec R9: its branch has ended, so nobody is left who could."""

    async def branch(step: Step) -> Any:
        return step.run(give)

    async def w(step: Step) -> int:
        made = await step.spawn(branch(step))
        return 1 if made else 0

    assert "step.run(give)" in held_for(rig(w), "STEP_NOT_AWAITED")


def test_an_operation_that_waits_across_deliveries_is_no_fault(rig: MakeRig) -> None:
    """spec R9: made before a sleep and awaited after it."""

    async def w(step: Step) -> Any:
        made = step.run(give, 5)
        await step.sleep("1h")
        gc.collect()
        return await made

    for residents in (0, 100):
        assert rig(w, residents=residents).go().result == 5


# --- foreign awaits ------------------------------------------------------------------------------


async def sleeps_in_asyncio(step: Step) -> None:
    await asyncio.sleep(1)


async def gathers(step: Step) -> None:
    await asyncio.gather(asyncio.sleep(1))


async def uses_a_task_group(step: Step) -> None:
    async with asyncio.TaskGroup():
        pass


async def waits_for(step: Step) -> None:
    await asyncio.wait_for(fetch(), 1)


async def yields_to_the_loop(step: Step) -> None:
    await asyncio.sleep(0)


async def awaits_a_future(step: Step) -> None:
    loop = asyncio.new_event_loop()
    try:
        await loop.create_future()
    finally:
        loop.close()


class Foreign:
    def __await__(self) -> Any:
        yield "something"


async def awaits_its_own(step: Step) -> None:
    await Foreign()


async def in_a_branch(step: Step) -> None:
    await step.all([sleeps_in_asyncio(step), step.timer("1h")])


@pytest.mark.filterwarnings("ignore:coroutine.*was never awaited:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "body",
    [
        sleeps_in_asyncio,
        gathers,
        uses_a_task_group,
        waits_for,
        yields_to_the_loop,
        awaits_a_future,
        awaits_its_own,
        in_a_branch,
    ],
)
def test_an_await_of_what_is_not_ours_holds_the_execution(rig: MakeRig, body: Any) -> None:
    """spec R9: file, line, what is awaited, and what to write instead."""
    message = held_for(rig(body), "FOREIGN_AWAIT")
    gc.collect()

    assert "test_faults.py:" in message
    assert "not an operation of step" in message
    assert "In the function use await step." in message


def test_gathered_steps_are_told_to_be_given_to_all() -> None:
    """spec R9: with what to write, and without tracebacks of tasks that nobody awaits."""
    unheard: list[dict[str, Any]] = []

    async def fails() -> None:
        raise MisplacedCall("no step here")

    async def worker() -> str:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: unheard.append(what))
        gathered = asyncio.gather(fails(), fails())
        message = faults.foreign_await(None, gathered).message
        await asyncio.wait([gathered])
        return message

    message = asyncio.run(worker())
    gc.collect()

    assert "awaits asyncio.gather" in message
    assert "await step.all([" in message
    assert unheard == []


@pytest.mark.filterwarnings("ignore:coroutine.*was never awaited:RuntimeWarning")
def test_a_limit_of_asyncios_is_told_to_be_a_timeout_of_steps(rig: MakeRig) -> None:
    """spec R9: what to write is what the author meant."""

    async def limits(step: Step) -> None:
        await asyncio.wait_for(fetch(), 1)

    message = held_for(rig(limits), "FOREIGN_AWAIT")

    assert "awaits asyncio.wait_for" in message
    assert "await step.timeout(step.run(f, a)" in message


def test_asyncio_is_named_by_its_function(rig: MakeRig) -> None:
    """spec R9: `asyncio.sleep`, and the line of the author's that awaits it."""
    line = sleeps_in_asyncio.__code__.co_firstlineno + 1
    message = held_for(rig(sleeps_in_asyncio), "FOREIGN_AWAIT")

    assert f"test_faults.py:{line} awaits asyncio.sleep" in message


def test_a_step_that_meets_a_missing_loop_fails_as_any_step(rig: MakeRig) -> None:
    """spec R8, R9: the same words from a step are a step's error, not a fault of the function."""

    def needs_a_loop() -> None:
        asyncio.get_running_loop()

    async def w(step: Step) -> None:
        await step.run(needs_a_loop)

    found = rig(w).go()

    assert found.status == "failed"
    assert isinstance(found.error, RuntimeError)


def test_asyncio_inside_an_async_step_is_fine(rig: MakeRig) -> None:
    """spec R1, R9."""

    async def w(step: Step) -> int:
        return await step.run(fetch)

    assert rig(w).go().result == 1


# --- in the wrong place --------------------------------------------------------------------------


HANDLES: list[Any] = []


def runs_in_a_step(step: Step) -> None:
    step.run(give)


def sleeps_in_a_step(step: Step) -> None:
    step.sleep(1)


def logs_in_a_step(step: Step) -> None:
    step.log.info("x")


def patches_in_a_step(step: Step) -> bool:
    return step.patched("x")


def sets_status_in_a_step(step: Step) -> None:
    step.set_status(1)


def asks_the_time_in_a_step(step: Step) -> str:
    return str(step.now())


def draws_in_a_step(step: Step) -> float:
    return step.random()


def cancels_in_a_step(step: Step) -> None:
    HANDLES[0].cancel()


def spawns_in_a_step(step: Step) -> None:
    step.spawn(step.timer(1))  # type: ignore[arg-type]


def swallows_it_in_a_step(step: Step) -> None:
    try:
        step.sleep(1)
    except MisplacedCall:
        return


async def awaits_in_a_step(step: Step) -> None:
    await step.sleep(1)


@pytest.mark.parametrize(
    "fn",
    [
        runs_in_a_step,
        sleeps_in_a_step,
        logs_in_a_step,
        patches_in_a_step,
        sets_status_in_a_step,
        asks_the_time_in_a_step,
        draws_in_a_step,
        cancels_in_a_step,
        spawns_in_a_step,
        swallows_it_in_a_step,
        awaits_in_a_step,
    ],
)
def test_an_operation_inside_a_step_holds_the_execution(rig: MakeRig, fn: Any) -> None:
    """B65; spec O7, R9: whichever, also when the step swallows the refusal."""

    async def w(step: Step) -> Any:
        HANDLES[:] = [step.spawn(step.sleep("1h"))]
        return await step.run(fn, step)

    x = rig(w)
    message = held_for(x, "MISPLACED_CALL")

    line = fn.__code__.co_firstlineno + (2 if fn is swallows_it_in_a_step else 1)
    assert f"test_faults.py:{line}" in message
    assert "in the function itself" in message
    assert [e.kind for e in x.history if e.kind == "patch"] == []
    assert x.logs == []


def test_the_step_of_another_execution_holds_only_the_one_that_uses_it(rig: MakeRig) -> None:
    """spec R9: the owner of the handle did nothing wrong."""
    lent: list[Step] = []

    async def w(step: Step) -> int:
        if step.event.execution_id == "x":
            lent.append(step)
            await step.sleep("1m")
            return 1
        await lent[0].sleep("1s")
        return 2

    x = rig(w)
    x.to(1_000)
    x.bench.admit("w", execution_id="y")
    x.go()
    other = x.bench.record("y")

    assert x.result.result == 1
    assert x.record.problem is None
    assert other.problem is not None
    assert other.problem.code == "MISPLACED_CALL"


def test_an_operation_in_a_thread_holds_the_execution(rig: MakeRig) -> None:
    """B63; case 318; spec R9: a clear refusal before any runs."""

    async def w(step: Step) -> int:
        def work() -> None:
            try:
                step.run(give)
            except MisplacedCall:
                return

        threads = [threading.Thread(target=work) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return 1

    x = rig(w)
    message = held_for(x, "MISPLACED_CALL")

    assert "test_faults.py:" in message
    assert called(x.result) == []


def test_a_runtime_opened_in_the_function_holds_the_execution(rig: MakeRig, tmp_path: Any) -> None:
    """spec R9: `Runtime` calls belong in a step."""

    async def w(step: Step) -> None:
        open_runtime(db=str(tmp_path / "0.db"))

    message = held_for(rig(w), "MISPLACED_CALL")

    assert f"test_faults.py:{w.__code__.co_firstlineno + 1}" in message
    assert "await step.run(fn" in message


def test_this_step_outside_a_step_holds_the_execution(rig: MakeRig) -> None:
    """spec O7, R9: it is known inside a step function only."""

    async def w(step: Step) -> int:
        return this_step().attempt

    message = held_for(rig(w), "MISPLACED_CALL")

    assert f"test_faults.py:{w.__code__.co_firstlineno + 1}" in message
    assert "await step.run(fn" in message


# --- what a fault leaves behind ------------------------------------------------------------------


def test_a_step_that_ended_before_the_fault_is_recorded_and_not_run_again(rig: MakeRig) -> None:
    """spec R9, E12: once the code is put right it goes on from there."""

    async def faulty(step: Step) -> Any:
        a = await step.run(give, "a")
        step.run(give, "b")
        return a

    async def mended(step: Step) -> Any:
        return [await step.run(give, "a"), await step.run(give, "b")]

    x = rig(faulty)
    held_for(x, "STEP_NOT_AWAITED")
    assert keys(x.result) == ["give"]
    x.restart(mended)
    x.bench.storage.executions.wake("x")
    found = x.go()

    assert found.result == ["a", "b"]
    assert found.calls == (("give", 1), ("give#2", 1))
    assert found.record.problem is None


def test_steps_that_run_at_the_fault_are_let_to_end_and_recorded(rig: MakeRig) -> None:
    """spec E12: what has ended is not lost; nothing new starts."""

    async def faulty(step: Step) -> Any:
        slow = step.spawn(step.using(key="slow").run(give, "slow"))
        await step.sleep("1s")
        step.spawn(step.using(key="never").run(give))
        step.run(give)
        return await slow

    async def mended(step: Step) -> Any:
        slow = step.spawn(step.using(key="slow").run(give, "slow"))
        await step.sleep("1s")
        return await slow

    x = rig(faulty, duration=lambda call: 5_000)
    held_for(x, "STEP_NOT_AWAITED")
    assert keys(x.result) == ["sleep", "slow"]
    x.restart(mended)
    x.bench.storage.executions.wake("x")
    found = x.go()

    assert found.result == "slow"
    assert called(found) == ["slow"]


def test_several_ends_of_one_look_are_all_kept_when_the_first_leads_to_a_fault(
    rig: MakeRig,
) -> None:
    """spec R4, E12: they replay in the order they were recorded."""

    async def faulty(step: Step) -> Any:
        held = [step.spawn(step.using(key=f"k{n}").run(give, n)) for n in range(3)]
        await step.select(*held)
        await asyncio.sleep(0)

    async def mended(step: Step) -> Any:
        held = [step.spawn(step.using(key=f"k{n}").run(give, n)) for n in range(3)]
        await step.select(*held)
        return await step.all(held)

    x = rig(faulty, duration=lambda call: 1_000)
    held_for(x, "FOREIGN_AWAIT")
    assert sorted(keys(x.result)) == ["k0", "k1", "k2"]
    x.restart(mended)
    x.bench.storage.executions.wake("x")
    found = x.go()

    assert found.result == [0, 1, 2]
    assert len(called(found)) == 3


def test_the_problem_stays_until_a_later_delivery_is_acknowledged(rig: MakeRig) -> None:
    """spec E12: first and last seen, and how often."""
    x = rig(forgets)
    x.go()
    for _ in range(3):
        x.bench.clock.advance(60_000)
        x.bench.storage.executions.wake("x")
        x.go()
    problem = x.record.problem
    assert problem is not None
    assert (problem.count, problem.first_at, problem.last_at) == (4, START, START + 180_000)

    async def mended(step: Step) -> None:
        await step.sleep("1h")

    x.restart(mended)
    x.bench.storage.executions.wake("x")
    x.to(200_000)

    assert x.record.problem is None
    assert x.record.status == "suspended"


def test_one_held_execution_leaves_the_others_alone(rig: MakeRig) -> None:
    """cases 296, 297; spec E12."""

    async def some_fault(step: Step) -> str:
        if step.event.execution_id == "x":
            step.run(give)
        await step.sleep("1s")
        return "fine"

    x = rig(some_fault)
    for n in range(20):
        x.bench.admit("w", execution_id=f"y{n}")
    held_for(x, "STEP_NOT_AWAITED")

    assert {x.bench.result(f"y{n}").result for n in range(20)} == {"fine"}


def test_what_faulty_code_said_is_said_again_once_it_is_put_right(rig: MakeRig) -> None:
    """spec R4, E12; B61: log lines, status and answers of `patched` come from the mended code."""

    async def mended(step: Step) -> bool:
        step.log.info("A")
        new = step.patched("p")
        await step.run(give, 1)
        step.log.info("B")
        await step.run(give, 2)
        step.log.info("C")
        return new

    async def at_once(step: Step) -> None:
        step.log.info("A")
        await step.run(give, 1)
        step.log.info("faulty")
        step.set_status("faulty")
        step.patched("p")
        await asyncio.sleep(0)

    x = rig(at_once)
    held_for(x, "FOREIGN_AWAIT")
    assert (keys(x.result), x.logs, x.record.status_value_json) == (["give"], ["A"], None)
    x.restart(mended)
    x.bench.storage.executions.wake("x")
    found = x.go()

    # Where recorded entries remain, the old arm is taken: no marker was left behind.
    assert found.result is False
    assert x.logs == ["A", "B", "C"]
    assert called(found) == ["give", "give#2"]


def test_the_waits_of_a_held_execution_are_those_it_had(rig: MakeRig) -> None:
    """spec E12: the record stays as it is; what the changed code would wait for is not shown."""

    async def before(step: Step) -> None:
        await step.run(give, 1)
        await step.select(step.timer("1h"), step.timer("2h"))

    async def after(step: Step) -> None:
        await step.using(key="other").sleep("5h")

    async def forgets_later(step: Step) -> None:
        await step.run(give, 1)
        await step.select(step.timer("1h"), step.timer("2h"))
        step.run(give, 2)

    def waits(x: Rig) -> list[str]:
        return [w.step_key for w in x.bench.storage.reader.waits(x.record.number)]

    x = rig(before)
    x.to(60_000)
    x.restart(after)
    x.bench.storage.executions.request_wake("x", START + 61_000)
    held_for(x, "DIVERGED")
    assert waits(x) == ["timer", "timer#2"]

    x.restart(forgets_later)
    x.bench.storage.executions.wake("x")
    held_for(x, "STEP_NOT_AWAITED")
    assert keys(x.result) == ["give", "timer"]
    assert "timer" not in waits(x)


# --- what was recorded does not fit any more -----------------------------------------------------


class OldParams(msgspec.Struct):
    order: int


class NewParams(msgspec.Struct):
    order: int
    shop: str


class Mended(msgspec.Struct):
    order: int
    shop: str = "main"


async def takes_params(step: Step, params: Any) -> Any:
    await step.sleep("1h")
    return [params.order, getattr(params, "shop", None)]


def test_params_that_no_longer_fit_hold_the_execution(rig: MakeRig) -> None:
    """spec E4, E12: INVALID_PARAMS with the place; a default for the new field lets it go on."""
    x = rig(takes_params)
    x.bench.crash()
    old = definition_of(takes_params, params_type=OldParams)
    x.bench.definitions = {old.key: old}
    x.bench.admit("w", {"order": 7}, execution_id="y")
    x.bench.run_to(START + 60_000)
    assert x.bench.record("y").status == "suspended"

    x.restart(takes_params, params_type=NewParams)
    x.bench.clock.advance(3_600_000)
    x.bench.run()
    record = x.bench.record("y")
    assert record.problem is not None
    assert record.problem.code == "INVALID_PARAMS"
    assert "shop" in record.problem.message
    assert "give the new field a default" in record.problem.message
    assert (record.status, record.outcome) == ("suspended", None)

    x.restart(takes_params, params_type=Mended)
    x.bench.storage.executions.wake("y")
    x.bench.run()
    assert x.bench.result("y").result == [7, "main"]


class Order(msgspec.Struct):
    total: int


def load_order() -> Order:
    return Order(5)


def load_order_changed() -> msgspec.Struct:
    return Order(5)


async def loads(step: Step) -> Any:
    order = await step.run(load_order)
    await step.sleep("1h")
    return order.total


def test_a_recorded_value_that_no_longer_decodes_holds_the_execution(rig: MakeRig) -> None:
    """case 141; spec E12, O2: UNDECODABLE with the entry; putting the type back lets it go on."""

    class Bigger(msgspec.Struct):
        total: int
        currency: str

    def load_bigger() -> Bigger:
        return Bigger(5, "EUR")

    load_bigger.__annotations__["return"] = Bigger

    async def changed(step: Step) -> Any:
        order = await step.using(key="load-order").run(load_bigger)
        await step.sleep("1h")
        return order.total

    x = rig(loads)
    x.to(60_000)
    x.restart(changed)
    x.bench.clock.advance(3_600_000)
    message = held_for(x, "UNDECODABLE")
    assert "entry 1" in message
    assert "currency" in message
    assert "test_faults.py:" in message
    assert "put back the type" in message

    x.restart(loads)
    x.bench.storage.executions.wake("x")
    found = x.go()

    assert found.result == 5
    assert called(found) == ["load-order"]


DAMAGE = {
    "not JSON": "UPDATE history SET value = '{' WHERE position = 0",
    "another type": "UPDATE history SET value = '\"text\"' WHERE position = 0",
    "an error that is none": "UPDATE history SET ok = 0 WHERE position = 0",
    "another kind": "UPDATE history SET kind = 'poll' WHERE position = 0",
    "another key": "UPDATE history SET step_key = 'other' WHERE position = 0",
    "the first is gone": "DELETE FROM history WHERE position = 0",
    "twice": "UPDATE history SET kind = 'step', step_key = 'load-order' WHERE position = 1",
    "a kind of the future": "UPDATE history SET kind = 'wormhole' WHERE position = 0",
    "all is gone": "DELETE FROM history",
    "the last is gone": "DELETE FROM history WHERE position = 1",
    "a gap": "UPDATE history SET position = 5 WHERE position = 1",
    "a position before the first": "UPDATE history SET position = -1 WHERE position = 0",
    "the other way round": "UPDATE history SET position = 1 - position + 10 * (position = 0)",
    "one too many": "INSERT INTO history SELECT n, incarnation, 2, kind, 'extra', ok, value, at,"
    " started_at, attempt, label, withdrawn FROM history WHERE position = 0",
    "a value that is null": "UPDATE history SET value = 'null' WHERE position = 0",
    "deeply nested": "UPDATE history SET value = replace(hex(zeroblob(5000)), '00', '[')"
    " WHERE position = 0",
    "no key": "UPDATE history SET step_key = '' WHERE position = 0",
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_history_gives_no_wrong_result_and_no_loop(rig: MakeRig, how: str) -> None:
    """cases 141, 296: typed, held, rows untouched; repaired, it goes on."""

    async def w(step: Step) -> Any:
        order = await step.run(load_order)
        await step.sleep("1s")
        await step.sleep("1h")
        return order.total

    x = rig(w)
    x.to(60_000)
    x.restart()
    db = x.bench.storage.db
    before = [(e.kind, e.step_key, e.ok, e.value) for e in x.history]
    with x.bench.storage.atomic():
        db.rows(DAMAGE[how], {})
    damaged = x.history
    x.bench.clock.advance(3_600_000)
    found = x.go()
    record = found.record

    assert before
    assert record.outcome is None
    assert record.problem is not None
    assert record.problem.code in ("UNDECODABLE", "DIVERGED")
    assert record.held is not None
    assert x.history == damaged
    assert called(found) == ["load-order"]
