"""Children: started once, never orphaned, awaited again in any incarnation (spec C1-C5)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.engine.several import (
    HOUR,
    START,
    at,
    calls,
    ids,
    killed_everywhere,
    logs,
    said,
    shown,
    status,
    waits,
)
from yieldstar_cli import (
    ChildCancelled,
    ChildFailed,
    ExecutionAdmissionError,
    InvalidParams,
    Step,
    failures,
    workflow,
)
from yieldstar_cli.engine.outside import child_id
from yieldstar_cli.model import CancelledOutcome, Completed
from yieldstar_cli.testing import Bench


class OutOfStock(Exception):
    pass


def give(value: Any = None) -> Any:
    return value


def decline() -> None:
    raise OutOfStock("no widgets")


@workflow
async def square(step: Step, n: int, after: str = "1s") -> int:
    await step.sleep(after)
    return n * n


@workflow
async def at_once(step: Step, n: int = 1) -> int:
    return n


@workflow
async def failing(step: Step) -> None:
    await step.run(decline)


@workflow
async def waiting(step: Step) -> str:
    got: str = await step.message("go", str)
    return got


# --- C1: handles ---


def test_a_child_gives_its_result_as_often_as_it_is_awaited() -> None:
    """case 199, 208; spec C1: the same value for every await, and one entry."""

    @workflow
    async def parent(step: Step) -> list[int]:
        kid = step.child(square, {"n": 3})
        assert not kid.done()
        return [await kid, await kid, kid.result(), *await step.all([kid, kid])]

    with Bench(parent, square) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()

        assert bench.result("p").result == [9, 9, 9, 9, 9]
        assert shown(bench.history("p")) == ["start:square", "child:square"]


def test_several_branches_await_one_child() -> None:
    """case 208; spec C1: each gets the value."""

    @workflow
    async def parent(step: Step) -> list[int]:
        kid = step.child(square, {"n": 3})

        async def hear(more: int) -> int:
            return more + await kid

        return await step.all([hear(1), hear(2), hear(3)])

    with Bench(parent, square) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()

        assert bench.result("p").result == [10, 11, 12]


def test_a_child_runs_on_when_nobody_awaits_it_any_more() -> None:
    """case 202, 209; spec C1, O4; B47: a lost select leaves no wait and the child untouched."""

    @workflow
    async def parent(step: Step) -> list[Any]:
        kid = step.child(square, {"n": 3, "after": "10s"})
        late = step.timer("2s")
        won = await step.select(kid, late)
        moment = step.now().timestamp()
        await step.sleep("1s")
        return [won is late, moment * 1000 - START, await kid]

    with Bench(parent, square) as bench:
        bench.admit("parent", execution_id="p")
        at(bench, 2_500)
        between = [(wait.kind, wait.step_key) for wait in waits(bench, "p")]
        running = status(bench, "p/square")
        bench.run()

        assert between == [("timer", "sleep")]
        assert running == "suspended"
        assert bench.result("p").result == [True, 2_000, 9]


def test_the_end_of_a_child_that_nobody_awaits_wakes_nobody() -> None:
    """spec C1, C2: it is read when it is awaited, however much later (case 217)."""

    @workflow
    async def parent(step: Step) -> int:
        kid = step.child(square, {"n": 3})
        await step.sleep("10d")
        return await kid

    with Bench(parent, square) as bench:
        bench.admit("parent", execution_id="p")
        at(bench, 5 * 24 * HOUR)
        before = bench.record("p").deliveries
        bench.run()

        assert before == 1
        assert bench.result("p").result == 9
        assert bench.record("p").deliveries == 2


def test_a_reference_is_plain_data_and_survives_json() -> None:
    """case 210; spec C1: through a message, a step's result, and the next incarnation's params."""

    @workflow
    async def parent(step: Step, ref: str = "", turn: int = 0) -> list[int]:
        if turn == 0:
            kid = step.child(square, {"n": 3})
            assert json.loads(json.dumps(kid.ref)) == kid.ref == kid.id
            kept = await step.run(give, kid.ref)
            await step.send(step.event.execution_id, "refs", kept)
            await step.continue_as({"turn": 1, "ref": kept})
        sent: str = await step.message("refs", str)
        typed = step.handle(sent, square)
        return [await step.handle(ref, square), await typed]

    with Bench(parent, square) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()

        assert bench.result("p").result == [9, 9]
        assert ids(bench) == ["p", "p/square"]


def test_a_reference_is_text() -> None:
    """spec C1, C5: anything else is refused at the call."""

    @workflow
    async def parent(step: Step) -> list[str]:
        seen = []
        for wrong in (None, 7, "", step):
            for call in (step.handle, step.attach):
                with pytest.raises(TypeError, match="takes an execution ID, which is text") as told:
                    call(wrong)  # type: ignore[arg-type]
                seen.append(str(told.value).split()[0])
        return seen

    with Bench(parent) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()

        assert bench.result("p").result == ["step.handle", "step.attach"] * 4


# --- C2: no result is lost ---


def test_the_parent_is_woken_by_the_childs_own_end() -> None:
    """spec C2: due in the very transaction that ends the child; nobody else need do anything."""

    @workflow
    async def parent(step: Step) -> str:
        kid = step.child(waiting)
        return await kid

    with Bench(parent, waiting) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()
        before = bench.record("p").due_at
        claims = bench.storage.executions
        claims.request_wake("p/waiting", bench.clock.now_ms())
        (delivery,) = claims.claim_due(bench.clock.now_ms())
        claims.acknowledge(delivery, Completed('"done"'))

        assert before is None
        assert bench.record("p").due_at == bench.clock.now_ms()
        bench.run()
        assert bench.result("p").result == "done"


def test_a_crash_at_any_point_leaves_one_child_and_its_result() -> None:
    """case 196, 198; spec C3; B09: start and admission are one commit, whoever dies when."""

    @workflow
    async def parent(step: Step) -> list[int]:
        first = step.child(square, {"n": 2})
        await step.run(give, 1)
        second = step.child(square, {"n": 3})
        late = step.timer("500ms")
        assert await step.select(late, second, first) is late
        return await step.all([first, second])

    def play(bench: Bench, run: Any) -> None:
        bench.admit("parent", execution_id="p")
        run()

    seen = 0
    for bench in killed_everywhere(lambda: Bench(parent, square), play):
        seen += 1
        assert bench.result("p").result == [4, 9]
        assert ids(bench) == ["p", "p/square", "p/square#2"]
        assert shown(bench.history("p")) == [
            "start:square",
            "step:give",
            "start:square#2",
            "timer:timer",
            "child:square",
            "child:square#2",
        ]
    assert seen > 20


def test_a_start_is_recorded_exactly_when_the_child_exists() -> None:
    """case 196; spec C3: looked at right after each kill, before anybody goes on."""

    @workflow
    async def parent(step: Step) -> int:
        await step.run(give, 1)
        return await step.child(square, {"n": 2})

    from yieldstar_cli.testing import Killed

    outcomes = set()
    for index in range(40):
        with Bench(parent, square) as bench:
            bench.admit("parent", execution_id="p")
            bench.points.kill_at(index)
            try:
                bench.run()
            except Killed:
                bench.crash()
            recorded = "start:square" in shown(bench.history("p"))

            assert recorded == (status(bench, "p/square") is not None)
            outcomes.add(recorded)
    assert outcomes == {True, False}


# --- C3: IDs and admission ---


def test_default_ids_come_from_the_key() -> None:
    """case 213; spec C3, R3: counted, given, and within branches; the same on every replay."""

    @workflow
    async def parent(step: Step) -> list[str]:
        async def aside() -> str:
            return step.child(at_once, {}).id

        made = [step.child(at_once, {}).id, step.child(at_once, {}).id]
        made.append(step.using(key="eu").child(at_once, {}).id)
        made += await step.all([aside(), aside()])
        await step.sleep("1s")
        return [*made, step.child("at-once", {"n": 2}).id]

    def play(bench: Bench, run: Any) -> None:
        bench.admit("parent", execution_id="p")
        run()

    for bench in killed_everywhere(lambda: Bench(parent, at_once), play, every=3):
        assert bench.result("p").result == [
            "p/at-once",
            "p/at-once#2",
            "p/eu",
            "p/aside:at-once",
            "p/aside#2:at-once",
            "p/at-once#3",
        ]
        assert sorted(ids(bench)) == sorted(["p", *bench.result("p").result])


def test_each_incarnation_has_children_of_its_own() -> None:
    """case 213; spec C3: `~2`, `~3` from the second incarnation on."""

    @workflow
    async def parent(step: Step, turn: int = 1) -> int:
        got = await step.child(at_once, {"n": turn})
        if turn < 3:
            await step.continue_as({"turn": turn + 1})
        return got

    with Bench(parent, at_once) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()

        assert bench.result("p").result == 3
        assert ids(bench) == ["p", "p/at-once", "p/at-once~2", "p/at-once~3"]


@pytest.mark.parametrize("length", [1, 200, 245, 246, 247, 254, 255])
def test_an_id_that_would_be_too_long_has_a_hash_of_the_parent(length: int) -> None:
    """spec C3, E2: never longer than 255 bytes, and siblings stay apart."""

    @workflow
    async def parent(step: Step) -> list[int]:
        return await step.all([step.child(at_once, {"n": 1}), step.child(at_once, {"n": 2})])

    name = "é" * (length // 2) + "p" * (length % 2)
    with Bench(parent, at_once) as bench:
        bench.admit("parent", execution_id=name)
        bench.run()

        assert bench.result(name).result == [1, 2]
        first, second = ids(bench)[1:]
        assert first.endswith("/at-once")
        assert second == child_id(name, "at-once#2", 1)
        assert max(len(first.encode()), len(second.encode())) <= 255
        assert first.startswith(name + "/") == (length + len("/at-once") <= 255)


def test_a_key_and_parent_that_are_both_long_still_name_a_child() -> None:
    """spec C3: keys of deep branches can be long by themselves."""
    made = {child_id("p" * 255, "k" * 300 + str(n), 1) for n in range(50)}

    assert len(made) == 50
    assert all(len(one.encode()) <= 255 for one in made)


class Order(msgspec.Struct):
    number: int
    tip: int = 5


@workflow
async def ship(step: Step, p: Order) -> int:
    return p.number + p.tip


def test_a_wrong_parameter_raises_at_the_call_and_starts_nothing() -> None:
    """spec C3, E4: at step.child, not at the await; params are stored with their defaults."""

    @workflow
    async def parent(step: Step) -> list[Any]:
        seen: list[Any] = []
        for wrong in ({"number": "seven"}, {}, {"number": 1, "colour": 2}, 7):
            try:
                step.child(ship, wrong)  # type: ignore[arg-type]
            except InvalidParams as error:
                seen.append(error.code)
        for wrong_id in (7, b"x"):
            with pytest.raises(TypeError, match="an execution ID is text"):
                step.child(ship, Order(1), id=wrong_id)  # type: ignore[call-overload]
        seen.append(await step.child(ship, Order(1)))
        return seen

    with Bench(parent, ship) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()

        assert bench.result("p").result == ["INVALID_PARAMS"] * 4 + [6]
        assert ids(bench) == ["p", "p/ship"]
        assert bench.record("p/ship").params == {"number": 1, "tip": 5}


def test_an_id_in_use_raises_when_the_handle_is_awaited() -> None:
    """case 212; spec C3: recorded, the same on replay, and the other execution is untouched."""

    @workflow
    async def parent(step: Step) -> list[str]:
        kid = step.child(square, {"n": 3}, id="taken")
        await step.sleep("1s")
        won = await step.select(kid, step.timer("1h"))
        assert won is kid
        told = []
        for _ in range(2):
            with pytest.raises(ExecutionAdmissionError) as error:
                await kid
            told.append(error.value.code)
        return told

    def play(bench: Bench, run: Any) -> None:
        bench.admit("at-once", {"n": 1}, execution_id="taken", at=START + HOUR)
        bench.admit("parent", execution_id="p")
        run()

    for bench in killed_everywhere(lambda: Bench(parent, square, at_once), play):
        assert bench.result("p").result == ["EXECUTION_ID_CONFLICT"] * 2
        shown = failures.view_error(bench.history("p")[0].value)
        assert shown.name == "ExecutionIdConflict"
        assert shown.message.startswith("execution 'taken' already exists")
        assert bench.result("taken").result == 1
        assert bench.record("taken").parent_execution_id is None
        assert ids(bench) == ["taken", "p"]


def test_an_id_that_may_not_be_raises_when_the_handle_is_awaited() -> None:
    """spec C3, E2: recorded as INVALID_EXECUTION_EVENT."""

    @workflow
    async def parent(step: Step) -> list[str]:
        told = []
        for wrong in ("", " x", "a\nb", "x" * 256, "é" * 128):
            kid = step.child(at_once, {"n": 1}, id=wrong)
            with pytest.raises(ExecutionAdmissionError) as error:
                await kid
            told.append(error.value.code)
        return told

    with Bench(parent, at_once) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()

        assert ids(bench) == ["p"]
        assert bench.result("p").result == ["INVALID_EXECUTION_EVENT"] * 5


def test_a_function_is_no_child_and_a_workflow_no_step_and_each_says_what_it_is() -> None:
    """spec C1, R3: with what to write."""

    def plain(n: int) -> int:
        return n

    @workflow
    async def parent(step: Step) -> list[str]:
        with pytest.raises(TypeError) as child:
            step.child(plain, {"n": 1})  # type: ignore[call-overload]
        with pytest.raises(TypeError) as run:
            step.run(at_once, 1)  # type: ignore[call-overload]
        return [str(child.value), str(run.value)]

    with Bench(parent, at_once) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()
        child, run = bench.result("p").result

    assert child.startswith("step.child takes a workflow or its name, and plain is none:")
    assert "await step.run(plain, ...)" in child
    assert run == (
        "step.run takes a plain function, and at-once is a workflow:"
        " write await step.child(at_once, params)"
    )


def test_a_handle_that_is_returned_is_told_to_be_awaited() -> None:
    """spec V1: and as text it is the same in every run."""

    @workflow
    async def forgets(step: Step) -> int:
        return step.child(at_once, {"n": 1})  # type: ignore[return-value]

    @workflow
    async def formats(step: Step) -> str:
        return f"{step.child(at_once, {'n': 1})}"

    with Bench(forgets, formats, at_once) as bench:
        bench.admit("forgets", execution_id="a")
        bench.admit("formats", execution_id="b")
        bench.run()

        assert "await it, and pass what it gives" in str(bench.result("a").error)
        assert bench.result("b").result == "<ChildHandle: await it for its value>"


def test_an_own_earlier_child_is_given_again() -> None:
    """case 197; spec C3: an explicit id with the same workflow and params; else it is in use."""

    @workflow
    async def parent(step: Step, turn: int = 1) -> list[Any]:
        again = step.child(square, {"n": 3}, id="kid")
        seen: list[Any] = [await step.child(square, {"n": 3}, id="kid"), await again]
        with pytest.raises(ExecutionAdmissionError):
            await step.child(square, {"n": 4}, id="kid")
        with pytest.raises(ExecutionAdmissionError):
            await step.child(at_once, {"n": 3}, id="kid")
        if turn < 3:
            await step.continue_as({"turn": turn + 1})
        return seen

    with Bench(parent, square, at_once) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()

        assert bench.result("p").result == [9, 9]
        assert ids(bench) == ["p", "kid"]
        assert bench.record("p").incarnation == 3


def test_two_parents_cannot_share_one_child_by_its_id() -> None:
    """case 212; spec C3: the second is told, and may attach instead (C5)."""

    @workflow
    async def parent(step: Step) -> list[Any]:
        kid = step.child(square, {"n": 3}, id="kid")
        try:
            return ["own", await kid]
        except ExecutionAdmissionError:
            return ["other's", await step.attach("kid", square)]

    with Bench(parent, square) as bench:
        bench.admit("parent", execution_id="p1")
        bench.admit("parent", execution_id="p2")
        bench.run()

        assert bench.result("p1").result == ["own", 9]
        assert bench.result("p2").result == ["other's", 9]


def test_a_child_of_a_workflow_that_is_not_loaded_waits_for_it() -> None:
    """spec C3, E12: admitted by name; whoever loads it runs it."""

    @workflow
    async def parent(step: Step) -> int:
        got: int = await step.child("square", {"n": 5})
        return got

    with Bench(parent) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()
        before = (status(bench, "p"), status(bench, "p/square"))
        bench.crash()
        bench.definitions["square", 1] = square.definition
        bench.run()

        assert before == ("suspended", "admitted")
        assert bench.result("p").result == 25


# --- C4: ends ---


def test_the_failure_of_a_child_says_which_and_why() -> None:
    """case 199; spec C4: ChildFailed, with the child's own error as its cause, recorded."""

    @workflow
    async def parent(step: Step) -> list[Any]:
        kid = step.child(failing)
        won = await step.select(kid)
        assert won is kid
        try:
            await kid
        except ChildFailed as error:
            cause = error.__cause__
            assert isinstance(cause, OutOfStock)
            await step.sleep("1s")
            return [str(error), error.execution_id, error.error_name, str(cause)]
        return []

    def play(bench: Bench, run: Any) -> None:
        bench.admit("parent", execution_id="p")
        run()

    for bench in killed_everywhere(lambda: Bench(parent, failing), play, every=2):
        text, name, kind, cause = bench.result("p").result
        assert text == "p/failing failed: OutOfStock: no widgets"
        assert (name, kind, cause) == ("p/failing", "OutOfStock", "no widgets")


def test_a_failure_that_nobody_catches_fails_the_parent_too() -> None:
    """spec C4, R8, E11: its error keeps the child's as cause."""

    @workflow
    async def parent(step: Step) -> None:
        await step.child(failing)

    with Bench(parent, failing) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()

        error = bench.result("p").error
        assert isinstance(error, ChildFailed)
        assert isinstance(error.__cause__, OutOfStock)


def test_a_cancelled_child_is_no_cancellation_of_ones_own() -> None:
    """case 215; spec C4: ChildCancelled, an ordinary exception, with the reason."""

    @workflow
    async def parent(step: Step) -> list[str]:
        kid = step.child(waiting)
        try:
            await kid
        except ChildCancelled as error:
            return [str(error), error.execution_id, type(error).__name__]
        return []

    with Bench(parent, waiting) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()
        answer = bench.storage.steering.cancel("p/waiting", reason="sold out")
        bench.run()

        assert answer == "requested"
        assert bench.result("p").result == [
            "p/waiting was cancelled: sold out",
            "p/waiting",
            "ChildCancelled",
        ]


def test_when_the_parent_ends_its_linked_children_are_asked_to_cancel() -> None:
    """case 206; spec C4: in that transaction; detached ones go on."""

    @workflow
    async def kid(step: Step) -> str:
        try:
            await step.sleep("1h")
        finally:
            await step.run(give, "tidied")
        return "slept"

    @workflow
    async def parent(step: Step, how: str) -> None:
        step.child(kid, {}, id="linked")
        step.child(kid, {}, id="loose", detached=True)
        await step.sleep("1s")
        if how == "raises":
            raise ValueError("no")

    for how, ended in (("returns", "completed"), ("raises", "failed")):
        with Bench(parent, kid) as bench:
            bench.admit("parent", {"how": how}, execution_id="p")
            at(bench, 10_000)

            assert status(bench, "p") == ended
            assert bench.record("linked").outcome == CancelledOutcome(f"its parent p {ended}")
            assert calls(bench, "linked") == ["give"]
            assert status(bench, "loose") == "suspended"
            assert bench.record("loose").detached
            bench.run()
            assert bench.result("loose").result == "slept"


def test_a_child_whose_parent_ends_before_its_first_claim_never_runs() -> None:
    """spec C4, C6: start and end in one delivery; a detached one runs all the same (case 211)."""

    @workflow
    async def parent(step: Step) -> str:
        step.child(at_once, {"n": 1}, id="linked")
        step.child(at_once, {"n": 2}, id="loose", detached=True)
        return "gone"

    with Bench(parent, at_once) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()

        assert bench.result("p").result == "gone"
        assert status(bench, "linked") == "cancelled"
        assert "claimed" not in said(bench, "linked")
        assert bench.result("loose").result == 2


def test_a_detached_child_can_be_awaited() -> None:
    """spec C4: as any other."""

    @workflow
    async def parent(step: Step) -> int:
        return await step.child(square, {"n": 4}, detached=True)

    with Bench(parent, square) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()

        assert bench.result("p").result == 16


def test_a_child_is_cancelled_as_often_as_one_likes() -> None:
    """case 205; spec C4: explicit and idempotent; recorded, and harmless after its end."""

    @workflow
    async def parent(step: Step) -> list[str]:
        kid = step.child(waiting)
        await step.sleep("1s")
        kid.cancel("changed my mind")
        kid.cancel("again")
        told = []
        try:
            await kid
        except ChildCancelled as error:
            told.append(str(error))
        kid.cancel()
        await step.sleep("1s")
        return told

    def play(bench: Bench, run: Any) -> None:
        bench.admit("parent", execution_id="p")
        run()

    for bench in killed_everywhere(lambda: Bench(parent, waiting), play, every=2):
        assert bench.result("p").result == ["p/waiting was cancelled: changed my mind"]
        assert [e.value for e in bench.history("p") if e.kind == "cancel-child"] == [
            '"requested"',
            '"requested"',
            '"ignored"',
        ]


def test_a_child_can_be_started_and_cancelled_at_once() -> None:
    """case 279; spec C4: nothing of it runs, and its parent hears of it."""

    @workflow
    async def parent(step: Step) -> str:
        kid = step.child(at_once, {})
        kid.cancel()
        with pytest.raises(ChildCancelled):
            await kid
        return "so be it"

    with Bench(parent, at_once) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()

        assert bench.result("p").result == "so be it"
        assert "claimed" not in said(bench, "p/at-once")


def test_how_a_child_stands_is_recorded() -> None:
    """case 218; spec C4: no value, later the value; replays say the same."""

    @workflow
    async def parent(step: Step) -> list[Any]:
        kid = step.child(square, {"n": 3, "after": "10s"})
        bad = step.child(failing)
        seen: list[Any] = []
        for _ in range(2):
            for one in (kid, bad, step.attach("nobody")):
                found = await one.status()
                seen.append([found.status, found.ended, found.result, found.error])
            await step.sleep("20s")
        return seen

    def play(bench: Bench, run: Any) -> None:
        bench.admit("parent", execution_id="p")
        run()

    firsts = set()
    for bench in killed_everywhere(lambda: Bench(parent, square, failing), play, every=2):
        seen = bench.result("p").result
        firsts.add(seen[0][0])
        assert seen[0][1:] == [False, None, None]
        assert seen[2] == seen[5] == [None, False, None, None]
        assert seen[3] == ["completed", True, 9, None]
        assert seen[4] == ["failed", True, None, "OutOfStock: no widgets"]
    assert firsts <= {"admitted", "suspended"}


def test_a_child_that_is_parked_keeps_its_parent_waiting_and_is_no_end() -> None:
    """case 216; spec L5, C6: poisoned is not terminal; woken it goes on, or `--now` ends it."""

    @workflow
    async def parent(step: Step) -> Any:
        try:
            return await step.child(square, {"n": 3})
        except ChildCancelled as error:
            return str(error)

    for mend, end in (("wake", 9), ("cancel", "p/square was cancelled: given up")):
        with Bench(parent, square) as bench:
            bench.admit("parent", execution_id="p")
            at(bench, 500)
            bench.storage.db.rows(
                "UPDATE executions SET poisoned_at = :now WHERE execution_id = 'p/square'",
                {"now": START},
            )
            at(bench, HOUR)
            between = status(bench, "p"), [wait.target for wait in waits(bench, "p")]
            if mend == "wake":
                bench.storage.executions.wake("p/square")
            else:
                bench.storage.steering.cancel("p/square", reason="given up", now=True)
            bench.run()

            assert between == ("suspended", ["p/square"])
            assert bench.result("p").result == end


# --- C5: any execution ---


def test_any_execution_can_be_attached_to() -> None:
    """case 217; spec C5: one that runs, one that ended long ago, one that failed."""

    @workflow
    async def onlooker(step: Step) -> list[Any]:
        seen: list[Any] = [await step.attach("old", square), await step.attach("new", square)]
        with pytest.raises(ChildFailed):
            await step.attach("bad")
        return seen

    with Bench(onlooker, square, failing) as bench:
        bench.admit("square", {"n": 2}, execution_id="old")
        bench.admit("failing", execution_id="bad")
        bench.run()
        bench.clock.advance(100 * HOUR)
        bench.admit("square", {"n": 3, "after": "2d"}, execution_id="new")
        bench.admit("onlooker", execution_id="o")
        bench.run()

        assert bench.result("o").result == [4, 9]
        assert bench.record("new").parent_execution_id is None


def test_attaching_to_nobody_is_a_failure_that_says_so() -> None:
    """spec C5, C4: there is nothing to wait for."""

    @workflow
    async def onlooker(step: Step) -> str:
        with pytest.raises(ChildFailed, match="there is no execution 'nobody'"):
            await step.attach("nobody")
        with pytest.raises(ChildFailed, match="there is no execution"):
            await step.attach("not\nan id")
        return "told"

    with Bench(onlooker) as bench:
        bench.admit("onlooker", execution_id="o")
        bench.run()

        assert bench.result("o").result == "told"


def test_an_attached_execution_goes_on_when_the_onlooker_ends() -> None:
    """spec C4, C5: it was never a child; `handle.cancel()` asks for it all the same."""

    @workflow
    async def onlooker(step: Step, cancel: bool) -> str:
        other = step.attach("other")
        await step.select(other, step.timer("1s"))
        if cancel:
            other.cancel("seen enough")
        return "done"

    for cancel, after in ((False, "suspended"), (True, "cancelled")):
        with Bench(onlooker, waiting) as bench:
            bench.admit("waiting", execution_id="other")
            bench.admit("onlooker", {"cancel": cancel}, execution_id="o")
            bench.run()

            assert bench.result("o").result == "done"
            assert status(bench, "other") == after


def test_many_may_wait_for_one() -> None:
    """spec C2, C5: all are woken by its end."""

    @workflow
    async def onlooker(step: Step) -> int:
        return await step.attach("one", square)

    with Bench(onlooker, square) as bench:
        bench.admit("square", {"n": 3, "after": "1h"}, execution_id="one")
        for n in range(20):
            bench.admit("onlooker", execution_id=f"o{n}")
        bench.run()

        assert [bench.result(f"o{n}").result for n in range(20)] == [9] * 20


def test_two_executions_that_wait_for_each_other_wait() -> None:
    """spec C5; B54: a circle costs nothing while it lasts, and a cancellation ends it."""

    @workflow
    async def onlooker(step: Step, other: str) -> str:
        try:
            await step.attach(other)
        except ChildCancelled:
            return "freed"
        return "never"

    with Bench(onlooker) as bench:
        bench.admit("onlooker", {"other": "b"}, execution_id="a")
        bench.admit("onlooker", {"other": "a"}, execution_id="b")
        bench.run()
        before = [status(bench, one) for one in "ab"]
        bench.storage.steering.cancel("a")
        bench.run()

        assert before == ["suspended", "suspended"]
        assert status(bench, "a") == "cancelled"
        assert bench.result("b").result == "freed"


# --- trees ---


@workflow
async def tree(step: Step, depth: int, width: int = 1) -> int:
    if depth == 0:
        await step.sleep("1s")
        return 1
    below = {"depth": depth - 1, "width": width}
    return 1 + sum(await step.all([step.child(tree, below) for _ in range(width)]))


def test_fifty_children_are_joined() -> None:
    """case 200; spec C2."""

    @workflow
    async def parent(step: Step) -> int:
        return sum(await step.all([step.child(square, {"n": n}) for n in range(50)]))

    with Bench(parent, square) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()

        assert bench.result("p").result == sum(n * n for n in range(50))


def test_a_tree_of_ten_levels_comes_together() -> None:
    """case 201; spec C2, C3: ids stay within their length all the way down."""
    with Bench(tree) as bench:
        bench.admit("tree", {"depth": 10}, execution_id="root")
        bench.admit("tree", {"depth": 3, "width": 4}, execution_id="broad")
        bench.run()

        assert bench.result("root").result == 11
        assert bench.result("broad").result == 1 + 4 + 16 + 64
        deepest = "root" + "/tree" * 10
        assert status(bench, deepest) == "completed"
        assert bench.record(deepest).parent_execution_id == "root" + "/tree" * 9


def test_a_parent_that_waits_takes_no_room_from_its_children() -> None:
    """B54; spec K1: three levels deep, with room for one open delivery only."""
    from yieldstar_cli.worker.dispatcher import Limits

    with Bench(tree) as bench:
        bench._limits = Limits(open=1)
        bench.admit("tree", {"depth": 3, "width": 2}, execution_id="root")
        bench.run()

        assert bench.result("root").result == 15


def test_parent_and_child_have_a_status_each() -> None:
    """case 220; spec C1: progress values and logs are their own."""

    @workflow
    async def kid(step: Step) -> None:
        step.set_status("small")
        step.log.info("kid speaks")
        await step.sleep("1s")

    @workflow
    async def parent(step: Step) -> None:
        step.set_status("big")
        step.log.info("parent speaks")
        await step.child(kid, {})

    with Bench(parent, kid) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()

        assert bench.record("p").status_value_json == '"big"'
        assert bench.record("p/kid").status_value_json == '"small"'
        assert (logs(bench, "p"), logs(bench, "p/kid")) == (["parent speaks"], ["kid speaks"])


@pytest.mark.parametrize("moment", range(12))
def test_a_worker_that_is_told_to_stop_leaves_no_nameless_child(moment: int) -> None:
    """B55; spec K2, C3: no child, or the right one; the next worker goes on."""

    @workflow
    async def parent(step: Step) -> int:
        await step.run(give, 1)
        return await step.child(square, {"n": 2})

    with Bench(parent, square, commit_ms=10) as bench:
        bench.admit("parent", execution_id="p")
        at(bench, moment * 5)
        for worker in bench.workers:
            worker.stop()
        bench.loop.run()
        between = ids(bench)
        bench.crash()
        bench.run()

        assert between in (["p"], ["p", "p/square"])
        assert bench.result("p").result == 4
        assert ids(bench) == ["p", "p/square"]


# --- faults of the code ---


def test_a_child_is_started_from_the_function_only() -> None:
    """spec R9, O7: not from within a step."""
    held: list[Any] = []

    def inside() -> str:
        try:
            held[0].child(at_once, {"n": 1})
        except Exception as error:
            return type(error).__name__
        return "started"

    @workflow
    async def parent(step: Step) -> str:
        held[:] = [step]
        return await step.run(inside)

    with Bench(parent, at_once) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()

        problem = bench.record("p").problem
        assert problem is not None
        assert problem.code == "MISPLACED_CALL"
        assert ids(bench) == ["p"]


def test_code_that_starts_another_workflow_under_the_same_key_has_diverged() -> None:
    """spec R5, C3: what was started is not what the code asks for."""

    def made(kind: Any) -> Any:
        @workflow(id="parent")
        async def parent(step: Step) -> int:
            kid = step.using(key="kid").child(kind, {"n": 2})
            await step.sleep("1h")
            return int(await kid)

        return parent

    with Bench(made(square), square, at_once) as bench:
        bench.admit("parent", execution_id="p")
        at(bench, 2_000)
        bench.crash()
        bench.definitions["parent", 1] = made(at_once).definition
        bench.run()
        held = bench.record("p")
        bench.crash()
        bench.definitions["parent", 1] = made(square).definition
        bench.storage.executions.wake("p")
        bench.run()

        assert held.problem is not None
        assert held.problem.code == "DIVERGED"
        assert bench.result("p").result == 4
