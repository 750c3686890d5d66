"""Continue-as-new: a fresh history under the same ID, and nothing else is lost (spec C7)."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import pytest

from tests.effort import rounds
from tests.engine.several import (
    HOUR,
    START,
    at,
    calls,
    fates,
    ids,
    killed_everywhere,
    logs,
    said,
    send,
    send_all,
    shown,
    status,
)
from yieldstar_cli import Cancelled, ExecutionIdConflict, InvalidParams, Step, workflow
from yieldstar_cli.engine.operations import BranchCancelled
from yieldstar_cli.errors import StaleDelivery
from yieldstar_cli.model import Completed, Continued, Entry, Round
from yieldstar_cli.testing import Bench


def give(value: Any = None) -> Any:
    return value


def tidy(what: object = "up") -> object:
    return what


@workflow
async def square(step: Step, n: int, after: str = "1s") -> int:
    await step.sleep(after)
    return n * n


@workflow
async def at_once(step: Step, n: int) -> int:
    return n


#: How many incarnations a long chain has.
LINKS = rounds(300)


class State(msgspec.Struct):
    turn: int
    total: int = 0


@workflow
async def counter(step: Step, s: State) -> int:
    got: int = await step.run(give, s.turn)
    if s.turn < 4:
        await step.continue_as(State(s.turn + 1, s.total + got))
    return s.total + got


# --- C7: the switch ---


def test_the_next_incarnation_has_new_params_under_the_same_id() -> None:
    """case 232, 235, 246; spec C7; B44: fresh steps, a number, the outcome of the last."""
    with Bench(counter) as bench:
        bench.admit("counter", {"turn": 0}, execution_id="x")
        bench.run()
        record = bench.record("x")
        kept = bench.storage.family.incarnations(record.number)

        assert bench.result("x").result == 10
        assert record.incarnation == 5
        assert record.params == {"turn": 4, "total": 6}
        assert calls(bench, "x") == ["give"] * 5
        assert shown(bench.history("x")) == ["step:give"]
        assert [one.incarnation for one in kept] == [2, 3, 4]
        assert said(bench, "x").count("continued") == 4
        assert ids(bench) == ["x"]


def test_a_crash_at_any_point_leaves_one_incarnation_and_the_same_end() -> None:
    """case 234; spec C7: the old one or the new one, never both, never neither."""

    @workflow
    async def w(step: Step, turn: int = 0, got: str = "") -> str:
        step.defer(tidy, turn)
        kid = step.child(at_once, {"n": turn})
        got += str(await step.run(give, turn)) + str(await kid)
        got += await step.message("q", str)
        if turn < 2:
            await step.continue_as({"turn": turn + 1, "got": got})
        return got

    def play(bench: Bench, run: Any) -> None:
        bench.admit("w", execution_id="x")
        for letter in "abc":
            send(bench, "x", "q", letter)
        run()

    seen = 0
    for bench in killed_everywhere(lambda: Bench(w, at_once), play, every=2):
        seen += 1
        assert bench.result("x").result == "00a11b22c"
        assert bench.record("x").incarnation == 3
        assert ids(bench) == ["x", "x/at-once", "x/at-once~2", "x/at-once~3"]
        assert [fate for _, fate in fates(bench, "x")] == ["consumed"] * 3
        assert shown(bench.history("x")) == [
            "start:at-once",
            "step:give",
            "child:at-once",
            "message:q",
            "defer:tidy",
        ]
    assert seen > 15


def test_the_token_of_the_old_incarnation_is_dead() -> None:
    """case 233; spec C7, L2: it can neither write nor wait; asked again it is answered alike."""
    with Bench(counter) as bench:
        bench.admit("counter", {"turn": 3}, execution_id="x")
        executions = bench.storage.executions
        (old,) = executions.claim_due(START)
        continued = Continued('{"turn":4,"total":3}', 1)
        first = executions.acknowledge(old, continued)
        again = executions.acknowledge(old, continued)

        assert first == again == continued
        assert executions.acknowledge(old, Completed("1")) != Completed("1")
        assert status(bench, "x") == "suspended"
        (new,) = executions.claim_due(START)
        entry = Entry(0, "step", "give", True, "3", START)
        with pytest.raises(StaleDelivery):
            bench.storage.deliveries.record(old, Round(entries=(entry,)))
        executions.release(new)
        bench.run()
        assert bench.result("x").result == 7
        assert bench.record("x").incarnation == 2


def test_a_long_chain_leaves_nothing_behind() -> None:
    """case 236; spec C7: and ten of them at once; no history grows, old ones are not kept."""

    @workflow
    async def chain(step: Step, left: int) -> str:
        step.log.info("left %s", left)
        if left:
            await step.continue_as({"left": left - 1})
        return "done"

    with Bench(chain) as bench:
        bench.admit("chain", {"left": LINKS}, execution_id="long")
        for n in range(10):
            bench.admit("chain", {"left": 20}, execution_id=f"c{n}")
        bench.run()
        number = bench.record("long").number

        assert bench.record("long").incarnation == LINKS + 1
        assert {bench.result(f"c{n}").result for n in range(10)} == {"done"}
        assert len(bench.storage.family.incarnations(number)) == 3
        assert bench.history("long") == []
        assert logs(bench, "long") == ["left 0"]
        assert bench.storage.db.rows("SELECT count(*) FROM logs WHERE n = :n", {"n": number}) == [
            (4,)
        ]


def test_others_go_on_beside_one_that_continues_without_end() -> None:
    """case 247; spec C7, L4: it is due behind whoever was due before."""

    @workflow
    async def spin(step: Step) -> None:
        if await step.try_message("stop") is None:
            await step.continue_as({})

    @workflow
    async def other(step: Step) -> int:
        for n in range(5):
            await step.run(give, n)
        await step.send("spin", "stop", True)
        return bench.record("spin").incarnation

    with Bench(spin, other) as bench:
        bench.admit("spin", execution_id="spin")
        bench.admit("other", execution_id="other")
        bench.run()

        assert status(bench, "other") == "completed"
        assert status(bench, "spin") == "completed"
        assert bench.record("spin").incarnation < 50


def test_it_may_be_the_first_thing_a_function_does() -> None:
    """case 240; spec C7: before any await, and on nothing but its params."""

    @workflow
    async def w(step: Step, turn: int = 0) -> int:
        if turn < 3:
            await step.continue_as({"turn": turn + 1})
        return turn

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == 3


def test_without_params_the_defaults_are_taken() -> None:
    """spec C7, E4."""

    @workflow
    async def w(step: Step, first: bool = False, name: str = "ann") -> str:
        if first:
            await step.continue_as()
        return name

    with Bench(w) as bench:
        bench.admit("w", {"first": True, "name": "bob"}, execution_id="x")
        bench.run()

        assert bench.result("x").result == "ann"
        assert bench.record("x").params == {"first": False, "name": "ann"}


def test_params_that_do_not_fit_raise_at_once_and_nothing_ends() -> None:
    """spec C7, E4: the function goes on and may do better."""

    @workflow
    async def w(step: Step, s: State) -> list[Any]:
        seen: list[Any] = []
        for wrong in ({"turn": "x"}, {"turn": 1, "more": 2}, 7, None, [1]):
            try:
                await step.continue_as(wrong)
            except InvalidParams as error:
                seen.append(error.code)
        if s.turn == 0:
            await step.continue_as(State(1))
        return [*seen, await step.run(give, s.turn)]

    with Bench(w) as bench:
        bench.admit("w", {"turn": 0}, execution_id="x")
        bench.run()

        assert bench.result("x").result == ["INVALID_PARAMS"] * 5 + [1]
        assert bench.record("x").incarnation == 2


def test_an_id_is_in_use_while_its_execution_switches() -> None:
    """case 244; spec E3: in every state in between."""

    @workflow
    async def w(step: Step, turn: int = 0) -> None:
        await step.sleep("1s")
        if turn < 2:
            await step.continue_as({"turn": turn + 1})

    with Bench(w, commit_ms=10) as bench:
        bench.admit("w", execution_id="x")
        for moment in range(0, 3_200, 10):
            at(bench, moment)
            with pytest.raises(ExecutionIdConflict):
                bench.admit("w", execution_id="x")
        assert status(bench, "x") == "completed"


def test_a_continuation_takes_the_latest_version() -> None:
    """case 245; spec R11: and waits for it where the worker lacks it."""

    def made(version: int) -> Any:
        @workflow(id="w", version=version)
        async def w(step: Step, turn: int = 0) -> list[int]:
            await step.sleep("1h")
            if turn == 0:
                await step.continue_as({"turn": 1})
            return [version]

        return w

    with Bench(made(1)) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        bench.crash()
        bench.definitions["w", 2] = made(2).definition
        bench.run()

        assert bench.result("x").result == [2]
        assert bench.record("x").version == 2


# --- what ends with it ---


def test_finally_runs_and_operations_in_it_are_refused() -> None:
    """spec C7: with and finally run; nothing starts there."""
    seen: list[str] = []

    @workflow
    async def w(step: Step, turn: int = 0) -> str:
        if turn:
            return "second"
        with contextlib.ExitStack() as stack:
            stack.callback(lambda: seen.append("exit"))
            try:
                await step.continue_as({"turn": 1})
            finally:
                try:
                    await step.run(give, 1)
                except BaseException as refused:
                    seen.append(type(refused).__name__)
                    raise

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == "second"
        assert seen == ["ContinueAs", "exit"]
        assert calls(bench, "x") == []


def test_an_except_exception_does_not_catch_it() -> None:
    """spec C7: nor can code that swallows everything stay in the old incarnation."""

    @workflow
    async def w(step: Step, turn: int = 0) -> str:
        if turn == 0:
            try:
                await step.continue_as({"turn": 1})
            except Exception:
                return "caught"
        if turn == 1:
            with contextlib.suppress(BaseException):
                await step.continue_as({"turn": 2})
            return "swallowed"
        return "last"

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == "last"


def test_what_its_clean_up_raises_is_the_outcome() -> None:
    """spec C7, R8: it did not get as far as to continue."""

    @workflow
    async def w(step: Step, turn: int = 0) -> str:
        try:
            await step.continue_as({"turn": 1})
        finally:
            raise ValueError("clean-up failed")

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert str(bench.result("x").error) == "clean-up failed"
        assert bench.record("x").incarnation == 1


def test_open_branches_are_cancelled() -> None:
    """case 239; spec C7, O4: they clean up, start nothing, and their timers are gone."""
    seen: list[str] = []

    @workflow
    async def w(step: Step, turn: int = 0) -> str:
        async def branch() -> None:
            try:
                await step.sleep("1m")
            except Cancelled:
                seen.append("cancelled")
                try:
                    await step.run(give)
                except Cancelled:
                    seen.append("refused")
                raise

        if not turn:
            held = step.spawn(branch())
            step.spawn(step.sleep("2m"))
            await step.sleep("1s")
            assert not held.done()
            await step.continue_as({"turn": 1})
        await step.sleep("1h")
        return "second"

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 30 * 60_000)

        assert seen == ["cancelled", "refused"]
        assert bench.record("x").deliveries == 3
        assert bench.record("x").due_at == START + 1_000 + HOUR
        bench.run()
        assert bench.result("x").result == "second"
        assert calls(bench, "x") == []


def test_a_step_that_still_runs_is_not_recorded_in_the_next_incarnation() -> None:
    """case 239; spec C7, O4: a sync one is left to end, its value dropped; nothing is confused."""

    @workflow
    async def w(step: Step, turn: int = 0) -> list[Any]:
        if turn == 0:
            step.spawn(step.run(give, "old"))
            await step.sleep("1s")
            await step.continue_as({"turn": 1})
        return [await step.run(give, "new")]

    with Bench(w, duration=lambda call: 5_000) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == ["new"]
        assert shown(bench.history("x")) == ["step:give"]


def test_in_a_branch_it_is_refused() -> None:
    """spec C7, R9: a fault of the code with the line to write instead."""

    @workflow
    async def w(step: Step, turn: int = 0) -> None:
        async def branch() -> None:
            await step.continue_as({"turn": 1})

        await step.spawn(branch())

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()
        problem = bench.record("x").problem

        assert problem is not None
        assert problem.code == "MISPLACED_CALL"
        assert "in the function itself, not in a branch" in problem.message
        assert "test_continue_as_new.py" in problem.message
        assert bench.record("x").incarnation == 1


def test_given_to_spawn_or_all_it_is_refused_as_in_a_branch() -> None:
    """spec C7: a coroutine given to them is one."""

    @workflow
    async def w(step: Step, how: str) -> None:
        call = step.continue_as({"how": how})
        match how:
            case "spawn":
                await step.spawn(call)
            case "all":
                await step.all([call])
            case _:
                await step.timeout(call, "1h")

    for how in ("spawn", "all", "timeout"):
        with Bench(w) as bench:
            bench.admit("w", {"how": how}, execution_id="x")
            bench.run()
            problem = bench.record("x").problem

            assert problem is not None
            assert problem.code == "MISPLACED_CALL"


def test_deferred_functions_run_before_the_switch() -> None:
    """spec C7: each incarnation's own, in the old history."""

    @workflow
    async def w(step: Step, turn: int = 0) -> str:
        step.defer(tidy, f"of {turn}")
        if turn == 0:
            await step.continue_as({"turn": 1})
        return "done"

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()
        number = bench.record("x").number

        assert bench.result("x").result == "done"
        assert [e.value for e in bench.storage.reader.history(number, 1)] == ['"of 0"']
        assert [e.value for e in bench.history("x")] == ['"of 1"']


# --- what stays ---


@pytest.mark.parametrize("count", [0, 1, 20, 21, 100, 101, 1_000, 10_000])
def test_unread_messages_are_carried_without_limit_and_in_order(count: int) -> None:
    """case 237, 238; spec C7; I5 of the Duroxide report."""

    @workflow
    async def w(step: Step, turn: int = 0) -> list[int]:
        if turn < 3:
            await step.continue_as({"turn": turn + 1})
        got: list[int] = []
        while await step.queue_depth("q"):
            got += await step.messages("q", int, max=10_000)
        return got

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        send_all(bench, "x", "q", range(count))
        bench.run()

        assert bench.result("x").result == list(range(count))
        assert bench.record("x").incarnation == 4


def test_messages_that_come_during_the_switch_keep_their_place() -> None:
    """case 238; B48, B49: one at every moment, a continuation after each."""

    @workflow
    async def w(step: Step, got: list[int]) -> list[int]:
        got = [*got, await step.message("q", int)]
        await step.sleep(0)
        if len(got) < 100:
            await step.continue_as({"got": got})
        return got

    with Bench(w, commit_ms=3) as bench:
        bench.admit("w", {"got": []}, execution_id="x")
        for n in range(100):
            at(bench, n * 2)
            send(bench, "x", "q", n)
        bench.run()

        assert bench.result("x").result == list(range(100))
        assert bench.record("x").incarnation == 100


def test_a_sender_without_pause_keeps_nobody_from_continuing() -> None:
    """B49: incarnations advance all the time, and every message is read once."""

    @workflow
    async def w(step: Step, total: int = 0) -> int:
        batch = await step.messages("q", int, max=5)
        if -1 not in batch:
            await step.continue_as({"total": total + sum(batch)})
        return total + sum(n for n in batch if n > 0)

    with Bench(w, commit_ms=7) as bench:
        bench.admit("w", execution_id="x")
        seen = []
        for n in range(200):
            at(bench, n * 10)
            send(bench, "x", "q", n)
            seen.append(bench.record("x").incarnation)
        send(bench, "x", "q", -1)
        bench.run()

        assert bench.result("x").result == sum(range(200))
        assert all(later - earlier >= 3 for earlier, later in zip(seen, seen[10:], strict=False))


def test_a_burst_of_messages_is_summed_over_its_incarnations() -> None:
    """B48: as fast as they come; one each, a sleep of nothing, a continuation."""

    @workflow
    async def w(step: Step, left: int, total: int = 0) -> int:
        total += await step.message("q", int)
        await step.sleep(0)
        if left > 1:
            await step.continue_as({"left": left - 1, "total": total})
        return total

    with Bench(w) as bench:
        bench.admit("w", {"left": 200}, execution_id="x")
        send_all(bench, "x", "q", range(200))
        bench.run()

        assert bench.result("x").result == sum(range(200))


def test_children_and_their_unread_results_are_carried() -> None:
    """case 242; spec C2, C7: one ended before, one ends in between, one after."""

    @workflow
    async def w(step: Step, refs: list[str], turn: int = 0) -> list[int]:
        if turn == 0:
            kids = [step.child(square, {"n": n, "after": f"{n}s"}) for n in (1, 2, 3)]
            await step.sleep("1500ms")
            await step.continue_as({"turn": 1, "refs": [kid.ref for kid in kids]})
        if turn == 1:
            await step.sleep("1s")
            await step.continue_as({"turn": 2, "refs": refs})
        return await step.all([step.handle(ref, square) for ref in refs])

    def play(bench: Bench, run: Any) -> None:
        bench.admit("w", {"refs": []}, execution_id="x")
        run()

    for bench in killed_everywhere(lambda: Bench(w, square), play, every=3):
        assert bench.result("x").result == [1, 4, 9]
        assert len(ids(bench)) == 4


def test_starts_and_sends_of_the_last_moment_are_kept() -> None:
    """case 211, 243; spec C7; I3 of the Duroxide report: linked, detached, sent, cancelled."""

    @workflow
    async def w(step: Step, turn: int = 0) -> list[int]:
        if turn == 0:
            for n in range(40):
                step.child(at_once, {"n": n}, id=f"kid-{n}", detached=n % 2 == 0)
            victim = step.child(square, {"n": 1, "after": "1h"}, id="victim")
            step.spawn(step.send("other", "q", "hello"))
            victim.cancel("no need")
            await step.continue_as({"turn": 1})
        return await step.all([step.handle(f"kid-{n}", at_once) for n in range(40)])

    def play(bench: Bench, run: Any) -> None:
        bench.admit("w", execution_id="x")
        run()

    for bench in killed_everywhere(lambda: Bench(w, at_once, square), play, every=4):
        assert bench.result("x").result == list(range(40))
        assert status(bench, "victim") == "cancelled"
        assert fates(bench, "other") == [('"hello"', "buffered")]


def test_the_status_stays_until_it_is_set_again() -> None:
    """case 241; spec R7."""

    @workflow
    async def w(step: Step, turn: int = 0) -> None:
        if turn != 1:
            step.set_status(f"turn {turn}")
        await step.sleep("1s")
        if turn < 2:
            await step.continue_as({"turn": turn + 1})

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        seen = []
        for moment in (500, 1_500, 2_500):
            at(bench, moment)
            seen.append(bench.record("x").status_value_json)

        assert seen == ['"turn 0"', '"turn 0"', '"turn 2"']


def test_log_lines_are_of_their_incarnation() -> None:
    """spec R7, C7: counted anew, so that none is taken for recorded."""

    @workflow
    async def w(step: Step, turn: int = 0) -> None:
        step.log.info("begins %s", turn)
        await step.sleep("1s")
        step.log.info("ends %s", turn)
        if turn < 2:
            await step.continue_as({"turn": turn + 1})

    with Bench(w, residents=0) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert logs(bench, "x") == ["begins 2", "ends 2"]
        told = [e.text for e in bench.events if e.kind == "log"]
        assert told == [f"{word} {n}" for n in range(3) for word in ("begins", "ends")]


def test_time_never_goes_back_and_chance_differs() -> None:
    """spec R7: now() starts at the incarnation's first claim, never before the last resolution."""

    @workflow
    async def w(step: Step, seen: list[list[Any]]) -> list[list[Any]]:
        before = step.now().timestamp()
        await step.sleep("1s")
        seen = [*seen, [before, step.now().timestamp(), step.random(), str(step.uuid())]]
        seen[-1].append(step.event.incarnation)
        seen[-1].append(step.event.operations)
        if len(seen) < 4:
            await step.continue_as({"seen": seen})
        return seen

    with Bench(w) as bench:
        bench.admit("w", {"seen": []}, execution_id="x")
        at(bench, 500)
        bench.clock.set(bench.clock.now_ms() + HOUR)
        at(bench, HOUR + 600)
        bench.clock.set(START)
        bench.run()
        seen = bench.result("x").result

        moments = [moment for one in seen for moment in one[:2]]
        assert moments == sorted(moments)
        assert len({one[2] for one in seen}) == len({one[3] for one in seen}) == 4
        assert [one[4] for one in seen] == [1, 2, 3, 4]
        assert [one[5] for one in seen] == [1] * 4


def test_the_context_is_the_same_for_ever() -> None:
    """spec E4, C7: params change, the caller's context does not."""

    @workflow
    async def w(step: Step, turn: int = 0) -> list[Any]:
        if turn == 0:
            await step.continue_as({"turn": 1})
        return [dict(step.event.context), step.event.incarnation]

    with Bench(w) as bench:
        bench.admit("w", execution_id="x", context={"by": "ann"})
        bench.run()

        assert bench.result("x").result == [{"by": "ann"}, 2]


def test_a_select_loop_rolls_over_and_loses_nothing() -> None:
    """case 230; spec C7: every tenth pass a continuation; messages, children, timers mixed."""

    @workflow
    async def w(step: Step, passes: int, got: int, refs: list[str], done: int = 0) -> list[int]:
        kids = [step.handle(ref, at_once) for ref in refs]
        for _ in range(10):
            box, tick = step.message("q", int), step.timer("1s")
            if len(kids) < 3:
                kids.append(step.child(at_once, {"n": 1}))
            won = await step.select(*kids, box, tick)
            if won is box:
                got += box.result()
            elif won is not tick:
                done += 1
                kids = [kid for kid in kids if kid is not won]
            passes += 1
        if passes < 200:
            refs = [kid.ref for kid in kids]
            await step.continue_as({"passes": passes, "got": got, "refs": refs, "done": done})
        return [got, done + sum(await step.all(kids))]

    with Bench(w, at_once) as bench:
        bench.admit("w", {"passes": 0, "got": 0, "refs": []}, execution_id="x")
        for n in range(50):
            send(bench, "x", "q", n)
            at(bench, n * 700)
        bench.run()
        got, done = bench.result("x").result

        read = [int(v) for v, state in fates(bench, "x") if state == "consumed"]
        assert got == sum(read)
        assert read == list(range(len(read)))
        assert done == len(ids(bench)) - 1
        assert bench.record("x").incarnation == 20


# --- faults of the code ---


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda step: step.continue_as({}), "step.continue_as(...)"),
        (lambda step: step.send("y", "q", 1), "step.send(...)"),
        (lambda step: step.wake("y"), "step.wake(...)"),
        (lambda step: step.map(square, [{"n": 1}]), "step.map(...)"),
        (lambda step: step.attach("y").status(), "handle.status()"),
        (lambda step: step.try_message("q"), "step.try_message(...)"),
        (lambda step: step.queue_depth("q"), "step.queue_depth(...)"),
    ],
)
@pytest.mark.parametrize("held", [False, True])
def test_a_forgotten_await_stops_the_delivery_with_its_line(
    call: Any, line: str, held: bool
) -> None:
    """spec R9: of every new call, thrown away or kept; nothing of it was done."""
    kept: list[Any] = []

    @workflow
    async def w(step: Step) -> str:
        if held:
            kept.append(call(step))
        else:
            call(step)
        return "done"

    with Bench(w, square) as bench:
        bench.admit("w", execution_id="x")
        bench.run()
        problem = bench.record("x").problem

        assert problem is not None
        assert problem.code == "STEP_NOT_AWAITED"
        assert line.split("(")[0] in problem.message
        assert "test_continue_as_new.py" in problem.message
        assert ids(bench) == ["x"]
        assert bench.storage.inbox.messages("y") == []
        for one in kept:
            one.close()


def test_a_branch_that_is_awaited_by_nobody_tells_of_nothing() -> None:
    """spec O4, C7: what a cancelled branch would have raised is nobody's."""

    @workflow
    async def w(step: Step, turn: int = 0) -> str:
        async def branch() -> None:
            await step.sleep("1h")

        held = step.spawn(branch())
        held.cancel()
        with pytest.raises(BranchCancelled):
            await held
        if turn == 0:
            await step.continue_as({"turn": 1})
        return "done"

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == "done"
