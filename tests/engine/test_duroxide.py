"""Lessons from Duroxide: its report's tests, proposals and limits, each held here.

microsoft/duroxide, "Lessons from building durable Workflows": T1-T6 are its tests, P1-P6 its
proposals, I1-I9 the limits that a long-lived controller met; here none of them can be met.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.engine.several import (
    DAY,
    HOUR,
    START,
    at,
    calls,
    fates,
    ids,
    killed_everywhere,
    said,
    send,
    send_all,
    shown,
    status,
    waits,
)
from yieldstar_cli import ChildCancelled, RetryPolicy, Step, StepTimeout, workflow
from yieldstar_cli.model import HISTORY_FORMAT
from yieldstar_cli.testing import Bench


def give(value: Any = None) -> Any:
    return value


def fail() -> None:
    raise ValueError("no")


@workflow
async def job(step: Step, n: int, takes: str = "10s") -> int:
    await step.sleep(takes)
    return n


@workflow
async def waiting(step: Step) -> Any:
    return await step.message("go")


# --- its tests ---


def test_t1_a_child_that_loses_a_select_is_awaited_again_later() -> None:
    """T1: child loses a select against a timer; awaited later: it ran on, and its result comes."""

    @workflow
    async def parent(step: Step) -> list[Any]:
        kid = step.child(job, {"n": 7})
        lost = [await step.select(kid, step.timer("1s")) is not kid for _ in range(3)]
        return [lost, await kid]

    def play(bench: Bench, run: Any) -> None:
        bench.admit("parent", execution_id="p")
        run()

    for bench in killed_everywhere(lambda: Bench(parent, job), play, every=3):
        assert bench.result("p").result == [[True, True, True], 7]
        assert "cancelled" not in said(bench, "p/job")


def test_t2_the_successor_receives_the_result_of_a_child_of_before() -> None:
    """T2: parent continues as new with a child outstanding; it completes afterwards."""

    @workflow
    async def parent(step: Step, ref: str = "", turn: int = 0) -> int:
        if turn < 3:
            ref = ref or step.child(job, {"n": 7}).ref
            await step.continue_as({"ref": ref, "turn": turn + 1})
        return await step.handle(ref, job)

    with Bench(parent, job) as bench:
        bench.admit("parent", execution_id="p")
        at(bench, 1_000)
        before = bench.record("p").incarnation, status(bench, "p/job")
        bench.run()

        assert before == (4, "suspended")
        assert bench.result("p").result == 7


def test_t3_a_child_that_completes_in_the_window_is_carried() -> None:
    """T3: after the old incarnation's end is decided, before the successor starts."""

    @workflow
    async def parent(step: Step, ref: str = "") -> int:
        if not ref:
            kid = step.child(job, {"n": 7, "takes": "100ms"})
            await step.sleep("90ms")
            await step.continue_as({"ref": kid.ref})
        return await step.handle(ref, job)

    # The answer to each commit takes its time: the child ends at each moment of the switch.
    for answer_ms in range(1, 16, 2):
        with Bench(parent, job, commit_ms=answer_ms) as bench:
            bench.admit("parent", execution_id="p")
            bench.run()

            assert bench.result("p").result == 7
            assert bench.record("p").incarnation == 2


def test_t4_a_child_is_cancelled_once_and_the_second_time_is_nothing() -> None:
    """T4: let it go, then cancel twice."""

    @workflow
    async def parent(step: Step) -> str:
        kid = step.child(waiting)
        assert await step.select(kid, late := step.timer("1s")) is late
        step.handle(kid.ref).cancel("first")
        kid.cancel("second")
        with pytest.raises(ChildCancelled, match="first"):
            await kid
        return "told"

    with Bench(parent, waiting) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()

        assert bench.result("p").result == "told"
        assert said(bench, "p/waiting").count("cancelled") == 1
        assert shown(bench.history("p/waiting")) == ["cancel:cancel"]


def test_t5_children_end_with_their_parent_unless_detached() -> None:
    """T5: parent completes with linked children outstanding."""

    @workflow
    async def parent(step: Step) -> str:
        for n in range(5):
            step.child(job, {"n": n}, id=f"linked-{n}")
            step.child(job, {"n": n}, id=f"loose-{n}", detached=True)
        await step.sleep("1s")
        return "done"

    with Bench(parent, job) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()

        assert {status(bench, f"linked-{n}") for n in range(5)} == {"cancelled"}
        assert [bench.result(f"loose-{n}").result for n in range(5)] == list(range(5))


def test_t6_what_was_admitted_under_an_older_format_replays_as_it_was() -> None:
    """T6, case 207; spec R11: format and version stand on the record, per incarnation."""

    @workflow
    async def parent(step: Step) -> int:
        return await step.child(job, {"n": 1})

    with Bench(parent, job) as bench:
        bench.admit("parent", execution_id="p")
        at(bench, 1_000)
        # A newer program has left a mark: this one does not know that format.
        bench.storage.db.rows(
            "UPDATE executions SET format = :format WHERE execution_id = 'p'",
            {"format": HISTORY_FORMAT + 1},
        )
        at(bench, HOUR)
        between = status(bench, "p"), status(bench, "p/job"), bench.record("p").deliveries
        bench.storage.db.rows(
            "UPDATE executions SET format = :format WHERE execution_id = 'p'",
            {"format": HISTORY_FORMAT},
        )
        bench.run()

        assert between == ("suspended", "completed", 1)
        assert bench.result("p").result == 1


# --- its limits ---


def test_i1_dropping_a_future_cancels_nothing() -> None:
    """I1: a lost select, a loop iteration, a variable that goes out of scope."""

    @workflow
    async def parent(step: Step) -> str:
        for n in range(5):
            kid = step.child(job, {"n": n}, id=f"kid-{n}")
            await step.select(kid, step.timer("1s"))
            del kid
        await step.sleep("1h")
        return "done"

    with Bench(parent, job) as bench:
        bench.admit("parent", execution_id="p")
        at(bench, HOUR // 2)

        assert [bench.result(f"kid-{n}").result for n in range(5)] == list(range(5))
        assert all(e.kind in ("start", "timer") for e in bench.history("p"))


def test_i2_the_end_of_a_child_finds_its_parent_in_any_incarnation() -> None:
    """I2: a child that ends after its parent continued is neither orphaned nor run for nothing."""

    @workflow
    async def parent(step: Step, refs: list[str], turn: int = 0) -> list[int]:
        if turn < 5:
            refs = [*refs, step.child(job, {"n": turn, "takes": "1m"}).ref]
            await step.sleep("1s")
            await step.continue_as({"refs": refs, "turn": turn + 1})
        return await step.all([step.handle(ref, job) for ref in refs])

    with Bench(parent, job) as bench:
        bench.admit("parent", {"refs": []}, execution_id="p")
        at(bench, 30_000)
        asleep = bench.record("p").due_at
        bench.run()

        assert asleep is None
        assert bench.result("p").result == [0, 1, 2, 3, 4]


def test_i3_starts_in_the_turn_of_a_continuation_are_not_dropped() -> None:
    """I3, case 211, 243: no step has to follow a start before the switch."""

    @workflow
    async def parent(step: Step, turn: int = 0) -> str:
        if turn == 0:
            step.child(job, {"n": 1}, id="linked")
            step.child(job, {"n": 2}, id="loose", detached=True)
            await step.continue_as({"turn": 1})
        await step.sleep("1h")
        return "done"

    def play(bench: Bench, run: Any) -> None:
        bench.admit("parent", execution_id="p")
        run()

    for bench in killed_everywhere(lambda: Bench(parent, job), play, every=2):
        assert bench.result("linked").result == 1
        assert bench.result("loose").result == 2


@pytest.mark.parametrize("count", [2, 3, 5, 16, 100])
def test_i4_a_select_takes_any_number_of_any_kind(count: int) -> None:
    """I4, P2, case 221: not two; timers, messages, children, branches and steps alike."""

    @workflow
    async def parent(step: Step, count: int) -> int:
        async def branch() -> None:
            await step.message("never")

        made: list[Any] = []
        for n in range(count - 1):
            match n % 4:
                case 0:
                    made.append(step.timer("1h"))
                case 1:
                    made.append(step.message(f"q{n}"))
                case 2:
                    made.append(step.child(waiting, id=f"kid-{n}"))
                case _:
                    made.append(step.spawn(branch()))
        made.append(step.timer("1s"))
        won = await step.select(*made)
        return [won is one for one in made].index(True)

    with Bench(parent, waiting) as bench:
        bench.admit("parent", {"count": count}, execution_id="p")
        bench.run()

        assert bench.result("p").result == count - 1


def test_i4_selects_and_joins_nest() -> None:
    """I4, P2, case 222: a select within a branch of a select of joins."""

    @workflow
    async def parent(step: Step) -> list[Any]:
        async def first_of(*spans: int) -> int:
            timers = [step.timer(span) for span in spans]
            won = await step.select(*timers)
            return spans[[won is one for one in timers].index(True)]

        async def both(n: int) -> list[int]:
            return await step.all([first_of(n, n + 1), first_of(n + 2, n + 3)])

        a, b = step.spawn(both(10)), step.spawn(both(5))
        won = await step.select(a, b)
        return [won is b, won.result(), await a]

    with Bench(parent) as bench:
        bench.admit("parent", execution_id="p")
        bench.run()

        assert bench.result("p").result == [True, [5, 7], [10, 12]]


def test_i5_a_continuation_carries_every_message() -> None:
    """I5, case 237, 238: not a hundred; ten thousand, in order, over ten incarnations."""

    @workflow
    async def w(step: Step, turn: int = 0, next_one: int = 0) -> int:
        for message in await step.messages("q", int, max=1_000):
            assert message == next_one
            next_one += 1
        if turn < 9:
            await step.continue_as({"turn": turn + 1, "next_one": next_one})
        return next_one

    with Bench(w) as bench:
        send_all(bench, "x", "q", range(5_000))
        bench.admit("w", execution_id="x")
        send_all(bench, "x", "q", range(5_000, 10_000))
        bench.run()

        assert bench.result("x").result == 10_000


def test_i6_a_message_before_the_start_is_kept_and_its_sender_told() -> None:
    """I6, P4, case 255-257: delivered, buffered, refused or expired; never silently dropped."""
    with Bench(waiting) as bench:
        told = [send(bench, "x", "go", "early"), send(bench, "y", "go", "lost", ttl_ms=1_000)]
        bench.admit("waiting", execution_id="x")
        bench.run()
        told.append(send(bench, "x", "go", "late"))
        bench.clock.advance(2_000)

        assert told == ["buffered", "buffered", "refused"]
        assert bench.result("x").result == "early"
        assert fates(bench, "y") == [('"lost"', "expired")]


def test_i7_a_delivery_takes_as_many_rounds_as_it_needs() -> None:
    """I7, case 228: two hundred select rounds at once, and a thousand; no quiescence limit."""

    @workflow
    async def w(step: Step, rounds: int) -> int:
        total = 0
        for _ in range(rounds):
            box = step.message("q", int)
            assert await step.select(step.timer("1h"), box) is box
            total += box.result()
        return total

    for rounds in (200, 1_000):
        with Bench(w) as bench:
            bench.admit("w", {"rounds": rounds}, execution_id="x")
            send_all(bench, "x", "q", range(rounds))
            bench.run()

            assert bench.result("x").result == sum(range(rounds))
            assert bench.record("x").deliveries == 1


def test_i8_a_timer_that_lost_leaves_nothing() -> None:
    """I8, P5: no row, no wake, no delivery, no entry at its moment; not one of a hundred."""

    @workflow
    async def w(step: Step) -> str:
        for n in range(100):
            box = step.message("q")
            assert await step.select(box, step.timer(f"{n + 1}h")) is box
        return str(await step.message("last"))

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        send_all(bench, "x", "q", range(100))
        at(bench, 1_000)
        before = bench.record("x"), len(bench.history("x")), len(bench.events)
        held = [(wait.kind, wait.queue) for wait in waits(bench, "x")]
        at(bench, 200 * HOUR)
        after = bench.record("x"), len(bench.history("x")), len(bench.events)

        assert held == [("message", "last")]
        assert before[0].due_at is None
        assert after == before
        assert shown(bench.history("x")) == [
            "message:q",
            *[f"message:q#{n}" for n in range(2, 101)],
        ]


def test_i8_a_deadline_of_which_only_the_nearest_counts_costs_one_wake() -> None:
    """I8: of many timers the earliest is the due time; the others are no rows of a queue."""

    @workflow
    async def w(step: Step) -> int:
        timers = [step.timer_until(step.now() + timedelta(hours=1, seconds=n)) for n in range(50)]
        won = await step.select(*timers)
        return [won is one for one in timers].index(True)

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 60_000)
        due = bench.record("x").due_at
        bench.run()

        assert due == START + HOUR
        assert bench.result("x").result == 0
        assert bench.record("x").deliveries == 2
        assert len(bench.history("x")) == 1


def test_i9_the_clock_costs_no_turn() -> None:
    """I9, P6: now() is a value of the round; ten thousand of them need no entry and no commit."""

    @workflow
    async def w(step: Step) -> float:
        first = step.now()
        for _ in range(10_000):
            assert step.now() == first
        await step.sleep("1m")
        return (step.now() - first).total_seconds()

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == 60.0
        assert shown(bench.history("x")) == ["timer:sleep"]
        assert bench.record("x").deliveries == 2


# --- its proposals ---


def test_p1_handles_are_plain_data_and_cancellation_is_explicit() -> None:
    """P1: start, stop waiting, ask, wait again, cancel; several awaits of one child."""

    @workflow
    async def parent(step: Step, refs: list[str]) -> list[Any]:
        if not refs:
            kids = [step.child(job, {"n": 1}), step.child(waiting)]
            await step.continue_as({"refs": [kid.ref for kid in kids]})
        first, second = (step.handle(ref) for ref in refs)
        seen: list[Any] = [(await first.status()).ended, await first, await first]
        seen.append((await first.status()).result)
        second.cancel("explicit")
        with pytest.raises(ChildCancelled):
            await second
        return seen

    with Bench(parent, job, waiting) as bench:
        bench.admit("parent", {"refs": []}, execution_id="p")
        bench.run()

        assert bench.result("p").result == [False, 1, 1, 1]


def test_p2_a_deadline_is_a_moment() -> None:
    """P2: timer_until, so that a controller need not read the clock to convert deadlines."""

    @workflow
    async def w(step: Step, deadline: datetime) -> datetime:
        for _ in range(5):
            late = step.timer_until(deadline)
            if await step.select(late, step.message("q")) is late:
                break
        return step.now()

    deadline = datetime.fromtimestamp(START / 1000 + 3_600, UTC)
    with Bench(w) as bench:
        bench.admit("w", {"deadline": deadline}, execution_id="x")
        for n in range(3):
            at(bench, n * 60_000)
            send(bench, "x", "q")
        bench.run()

        assert bench.result("x").result == deadline


def test_p3_a_continuation_is_lossless() -> None:
    """P3: starts, sends, cancels, messages, results and wakes of the last turn, in one commit."""

    @workflow
    async def w(step: Step, turn: int = 0) -> list[Any]:
        own = step.event.execution_id
        if turn == 0:
            step.child(job, {"n": 1, "takes": "0s"}, id="kid")
            step.spawn(step.send(own, "q", "to myself"))
            await step.continue_as({"turn": 1})
        return [await step.handle("kid"), await step.message("q"), await step.message("q")]

    def play(bench: Bench, run: Any) -> None:
        bench.admit("w", execution_id="x")
        send(bench, "x", "q", "from outside")
        run()

    for bench in killed_everywhere(lambda: Bench(w, job), play, every=2):
        assert bench.result("x").result == [1, "from outside", "to myself"]


def test_p4_a_batch_is_one_bounded_call() -> None:
    """P4: up to max arrivals in one operation; a try and the depth beside it."""

    @workflow
    async def w(step: Step) -> list[Any]:
        seen: list[Any] = [await step.queue_depth("q")]
        seen.append(len(await step.messages("q", max=32)))
        seen.append(await step.try_message("q"))
        seen.append(await step.queue_depth("q"))
        return seen

    with Bench(w) as bench:
        send_all(bench, "x", "q", range(100))
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == [100, 32, 32, 67]
        assert len(bench.history("x")) == 4
        assert bench.record("x").deliveries == 1


def test_p5_there_is_no_timer_to_cancel() -> None:
    """P5: the due time of what waits is that of what it awaits now, and of nothing else."""

    @workflow
    async def w(step: Step) -> str:
        late = step.timer("1h")
        box = step.message("q")
        await step.select(late, box)
        await step.select(step.timer("2d"), step.message("q"))
        return "done"

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        dues = []
        for moment in (1_000, 2_000):
            at(bench, moment)
            dues.append(bench.record("x").due_at)
            send(bench, "x", "q")
        at(bench, 1_500)
        bench.run()

        assert dues[0] == START + HOUR
        assert dues[1] == START + 1_000 + 2 * DAY
        assert [e.kind for e in bench.history("x")] == ["message", "message"]


def test_p6_a_retry_has_a_total_time_and_a_tag() -> None:
    """P6: the total is over all tries and pauses; a step may ask for a worker's tag."""

    @workflow
    async def w(step: Step) -> str:
        policy = RetryPolicy(attempts=100, first="1m", factor=1, total_timeout="10m")
        with pytest.raises((ValueError, StepTimeout)):
            await step.using(retry=policy).run(fail)
        return "gave up"

    @workflow
    async def tagged(step: Step) -> Any:
        return await step.using(tag="gpu").run(give, 1)

    with Bench(w, tagged) as bench:
        bench.start_worker(tags=())
        bench.admit("w", execution_id="x")
        bench.admit("tagged", execution_id="t")
        bench.run()

        assert bench.result("x").result == "gave up"
        assert len(calls(bench, "x")) == 10
        assert bench.record("x").updated_at <= START + 10 * 60_000
        assert bench.record("t").needs == ("gpu",)
        bench.start_worker(tags={"gpu"})
        bench.run()
        assert bench.result("t").result == 1


# --- the whole ---


class Command(msgspec.Struct):
    do: str
    n: int = 0


class Controller(msgspec.Struct):
    """What the controller carries from one incarnation to the next."""

    refs: list[str] = []
    done: list[int] = []
    elapsed: int = 0
    passes: int = 0
    deadline: datetime | None = None


@workflow
async def controller(step: Step, s: Controller) -> Controller:
    """The event loop of the report: children, commands, deadlines; no rows of its own."""
    kids = {ref: step.handle(ref, job) for ref in s.refs}
    stopping = False
    while not stopping and step.event.operations < 12:
        inbox = step.messages("commands", Command, max=32)
        late = step.timer_until(s.deadline or step.now() + timedelta(minutes=10))
        won = await step.select(inbox, late, *kids.values())
        s.passes += 1
        if won is inbox:
            for command in inbox.result():
                if command.do == "stop":
                    stopping = True
                    break
                kid = step.child(job, {"n": command.n, "takes": f"{1 + command.n % 7}s"})
                kids[kid.ref] = kid
        elif won is late:
            s.elapsed += 1
            s.deadline = step.now() + timedelta(minutes=10)
        else:
            ref = next(ref for ref, kid in kids.items() if kid is won)
            s.done.append(await kids.pop(ref))
    if not stopping:
        s.refs = list(kids)
        await step.continue_as(s)
    s.done += await step.all(kids.values())
    return s


def test_the_controller_of_the_report_runs_for_a_day_and_loses_nothing() -> None:
    """The report's loop; case 230: commands all day, a continuation every dozen resolutions."""
    sent = 60
    with Bench(controller, job) as bench:
        bench.admit("controller", {}, execution_id="c")
        for n in range(sent):
            at(bench, n * DAY // sent)
            send(bench, "c", "commands", {"do": "start", "n": n})
            if n % 7 == 0:
                bench.crash()
        longest = len(bench.history("c"))
        send(bench, "c", "commands", {"do": "stop"})
        bench.run()
        end = bench.result("c").result

        assert sorted(end.done) == list(range(sent))
        assert end.elapsed >= 100
        assert bench.record("c").incarnation > 20
        assert longest < 40
        assert len(ids(bench)) == sent + 1
