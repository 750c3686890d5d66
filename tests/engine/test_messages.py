"""Messages: kept in order, taken once, by whoever waits (spec M1-M4, O4)."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from decimal import Decimal
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
    send,
    send_all,
    shown,
    status,
    waits,
)
from yieldstar_cli import InvalidMessage, Step, StepTimeout, UnserializableValue, workflow
from yieldstar_cli.testing import Bench


class Cancel(msgspec.Struct):
    reason: str = "customer"


class Line(msgspec.Struct):
    item: str
    price: Decimal
    at: datetime


def give(value: Any = None) -> Any:
    return value


@workflow
async def listener(step: Step, count: int = 1, queue: str = "q") -> list[Any]:
    return [await step.message(queue) for _ in range(count)]


@workflow
async def batches(step: Step, most: int, until: int) -> list[list[int]]:
    got: list[list[int]] = []
    while sum(len(batch) for batch in got) < until:
        got.append(await step.messages("q", int, max=most))
    return got


# --- M1: delivery ---


def test_a_message_is_given_to_whoever_awaits_it() -> None:
    """case 250; spec M1: as the type asked for, and in one commit with its entry (M2)."""

    @workflow
    async def w(step: Step) -> str:
        stop = await step.message("cancel", Cancel)
        return stop.reason

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()
        waited = waits(bench, "x")
        answer = send(bench, "x", "cancel", {"reason": "late"})
        bench.run()

        assert [(wait.kind, wait.queue, wait.label) for wait in waited] == [
            ("message", "cancel", "Cancel")
        ]
        assert answer == "delivered"
        assert bench.result("x").result == "late"
        assert shown(bench.history("x")) == ["message:cancel"]
        assert fates(bench, "x") == [('{"reason":"late"}', "consumed")]


def test_a_message_that_comes_before_anybody_waits_is_kept() -> None:
    """case 251, 256; spec M1: before the await, before the first claim, before the admission."""

    @workflow
    async def w(step: Step) -> list[Any]:
        await step.sleep("1h")
        return [await step.message("q") for _ in range(3)]

    with Bench(w) as bench:
        told = [send(bench, "x", "q", 1)]
        bench.admit("w", execution_id="x")
        told.append(send(bench, "x", "q", 2))
        at(bench, 1_000)
        told.append(send(bench, "x", "q", 3))
        bench.run()

        assert told == ["buffered", "delivered", "delivered"]
        assert bench.result("x").result == [1, 2, 3]
        assert bench.record("x").deliveries == 2


def test_each_queue_is_first_in_first_out() -> None:
    """case 252, 254; spec M1: and no queue knows of another."""

    @workflow
    async def w(step: Step) -> list[Any]:
        seen = []
        for _ in range(3):
            seen += [await step.message("b"), await step.message("a")]
        return seen

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        for n in range(3):
            send(bench, "x", "a", f"a{n}")
        bench.run()
        for n in range(3):
            send(bench, "x", "b", f"b{n}")
        send(bench, "x", "c", "nobody asks")
        bench.run()

        assert bench.result("x").result == ["b0", "a0", "b1", "a1", "b2", "a2"]
        assert fates(bench, "x")[-1] == ('"nobody asks"', "waiting")


def test_a_buffered_message_expires_and_its_sender_can_ask() -> None:
    """case 255, 257; spec M1: at its time-to-live, and an admission after that finds nothing."""
    with Bench(listener) as bench:
        told = [send(bench, "x", "q", 1, ttl_ms=1_000), send(bench, "x", "q", 2, ttl_ms=2_000)]
        bench.clock.advance(1_500)
        between = fates(bench, "x")
        bench.admit("listener", execution_id="x")
        bench.run()

        assert told == ["buffered", "buffered"]
        assert between == [("1", "expired"), ("2", "buffered")]
        assert bench.result("x").result == [2]
        assert fates(bench, "x") == [("1", "expired"), ("2", "consumed")]


def test_a_finished_execution_refuses_messages_and_keeps_none() -> None:
    """case 258, 283; B52; spec M1: a thousand of them leave nothing behind."""
    with Bench(listener) as bench:
        bench.admit("listener", {"count": 0}, execution_id="x")
        bench.run()
        told = set(send_all(bench, "x", "q", range(1_000)))
        bench.run()

        assert told == {"refused"}
        assert fates(bench, "x") == []
        assert bench.record("x").deliveries == 1
        assert bench.record("x").due_at is None


def test_equal_messages_are_two_and_one_key_is_one() -> None:
    """case 259; spec M3: the second with a key is answered like the first and not stored."""
    with Bench(listener) as bench:
        early = [send(bench, "x", "q", 0, idempotency_key="k0") for _ in range(2)]
        bench.admit("listener", {"count": 4}, execution_id="x")
        late = [send(bench, "x", "q", 0, idempotency_key="k0")]
        late += [send(bench, "x", "q", 1), send(bench, "x", "q", 1)]
        late += [send(bench, "x", "q", 2, idempotency_key="k2") for _ in range(3)]
        bench.run()
        late.append(send(bench, "x", "q", 9, idempotency_key="k2"))

        assert early == ["buffered", "buffered"]
        assert late == ["buffered", *["delivered"] * 6]
        assert bench.result("x").result == [0, 1, 1, 2]


def test_before_start_and_trigger_the_order_of_two_shells_does_not_matter() -> None:
    """B51: `ys send order-42 cancel`, then `ys trigger charge-order --id order-42`."""

    @workflow
    async def charge_order(step: Step) -> str:
        stop = step.message("cancel", Cancel)
        if await step.select(stop, step.timer("10m")) is stop:
            return "cancelled"
        return "charged"

    with Bench(charge_order) as bench:
        told = send(bench, "order-42", "cancel", {})
        bench.admit("charge-order", execution_id="order-42")
        bench.admit("charge-order", execution_id="order-43")
        bench.run()

        assert told == "buffered"
        assert bench.result("order-42").result == "cancelled"
        assert bench.result("order-43").result == "charged"


# --- M4: wakes ---


def test_a_message_that_nobody_awaits_wakes_nobody() -> None:
    """spec M4: on another queue, or on one that lost a select."""

    @workflow
    async def w(step: Step) -> list[Any]:
        stop = step.message("stop")
        assert await step.select(stop, late := step.timer("1s")) is late
        await step.sleep("1h")
        return [await step.message("other"), await stop]

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 2_000)
        due, before = bench.record("x").due_at, bench.record("x").deliveries
        send(bench, "x", "stop", 1)
        send(bench, "x", "other", 2)
        at(bench, 60_000)

        assert bench.record("x").deliveries == before
        assert bench.record("x").due_at == due == START + 1_000 + HOUR
        bench.run()
        assert bench.result("x").result == [2, 1]


def test_a_message_is_seen_while_a_step_runs_for_an_hour() -> None:
    """case 81, 268; spec R10, M4: the delivery that is under way looks again."""

    @workflow
    async def w(step: Step) -> list[Any]:
        long = step.spawn(step.run(give, "done"))
        got = await step.message("q")
        moment = step.now().timestamp() * 1000 - START
        return [got, moment, await long]

    with Bench(w, duration=lambda call: HOUR) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 60_000)
        send(bench, "x", "q", "now")
        at(bench, 61_000)
        between = shown(bench.history("x"))
        bench.run()

        assert between == ["message:q"]
        assert bench.result("x").result == ["now", 60_000, "done"]
        assert bench.record("x").deliveries == 1
        assert calls(bench, "x") == ["give"]


# --- M2: taken once ---


def test_each_message_is_taken_once_whoever_dies() -> None:
    """case 264; spec M2: also across a batch, a lost select and a continuation."""

    @workflow
    async def w(step: Step, got: list[int], turn: int = 0) -> list[int]:
        first = step.message("q", int)
        if await step.select(step.timer("0s"), first) is first:
            got = [*got, first.result()]
        got = [*got, *await step.messages("q", int, max=3), await first]
        maybe = await step.try_message("q", int)
        got = got if maybe is None else [*got, maybe]
        if turn == 0:
            await step.continue_as({"got": got, "turn": 1})
        return got

    def play(bench: Bench, run: Any) -> None:
        bench.admit("w", {"got": []}, execution_id="x")
        run()
        for n in range(10):
            send(bench, "x", "q", n)
            if n % 3 == 2:
                run()
        for n in range(10, 14):
            send(bench, "x", "q", n)
            run()

    seen = 0
    for bench in killed_everywhere(lambda: Bench(w), play):
        seen += 1
        got = bench.result("x").result
        assert got == list(range(len(got)))
        states = [state for _, state in fates(bench, "x")]
        assert states[: len(got)] == ["consumed"] * len(got)
        assert set(states[len(got) :]) <= {"waiting"}
    assert seen > 15


def test_a_message_that_does_not_fit_is_consumed_and_raises() -> None:
    """case 266; spec M2: recorded, the same on replay; the next one is not in its way."""

    @workflow
    async def w(step: Step) -> list[Any]:
        seen: list[Any] = []
        for _ in range(3):
            try:
                seen.append(await step.message("q", int))
            except InvalidMessage as error:
                seen.append(str(error))
        await step.sleep("1s")
        return seen

    def play(bench: Bench, run: Any) -> None:
        bench.admit("w", execution_id="x")
        send(bench, "x", "q", 1)
        send(bench, "x", "q", {"a": 1})
        run()
        send(bench, "x", "q", 3)
        run()

    for bench in killed_everywhere(lambda: Bench(w), play):
        first, second, third = bench.result("x").result
        assert (first, third) == (1, 3)
        assert second.startswith("a message of queue 'q' does not fit: ")
        assert [fate for _, fate in fates(bench, "x")] == ["consumed", "invalid", "consumed"]


def test_a_failing_message_wins_a_select_like_any_other() -> None:
    """spec M2, O4: select does not raise; the winner does."""

    @workflow
    async def w(step: Step) -> list[Any]:
        bad = step.message("q", int)
        won = await step.select(step.timer("1h"), bad)
        with pytest.raises(InvalidMessage):
            bad.result()
        with pytest.raises(InvalidMessage):
            await bad
        return [won is bad, bad.done()]

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        send(bench, "x", "q", "text")
        bench.run()

        assert bench.result("x").result == [True, True]


def test_a_batch_ends_before_a_message_that_does_not_fit() -> None:
    """spec M2: that one raises by itself, and the rest comes after it."""

    @workflow
    async def w(step: Step) -> list[Any]:
        seen: list[Any] = []
        while len(seen) < 3:
            try:
                seen.append(await step.messages("q", int, max=10))
            except InvalidMessage:
                seen.append("invalid")
        return seen

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        for value in (1, 2, "x", 4, 5):
            send(bench, "x", "q", value)
        bench.run()

        assert bench.result("x").result == [[1, 2], "invalid", [4, 5]]


def test_a_failure_while_handling_a_message_leaves_the_others_to_be_seen() -> None:
    """B53: message 2 of 3; failed with that error, the third is there, unread."""

    @workflow
    async def w(step: Step) -> None:
        for _ in range(3):
            if await step.message("q") == 2:
                raise ValueError("cannot do 2")

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        for n in (1, 2, 3):
            send(bench, "x", "q", n)
        bench.run()

        assert str(bench.result("x").error) == "cannot do 2"
        assert fates(bench, "x") == [("1", "consumed"), ("2", "consumed"), ("3", "waiting")]


# --- waiting: select, several handles, cancelled waits ---


def test_a_lost_select_takes_no_message() -> None:
    """case 223, 253; spec O4: it is there for the next await."""

    @workflow
    async def w(step: Step) -> list[Any]:
        lost = step.message("q")
        assert await step.select(lost, late := step.timer("1s")) is late
        await step.sleep("10s")
        return [await step.queue_depth("q"), lost.done(), await lost]

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 5_000)
        send(bench, "x", "q", "kept")
        bench.run()

        assert bench.result("x").result == [1, False, "kept"]


def test_of_two_on_one_queue_the_first_to_wait_is_served_first() -> None:
    """case 267; spec operations: whoever was made first; one message each."""

    @workflow
    async def w(step: Step) -> list[Any]:
        async def take() -> Any:
            return await second

        first, second = step.message("q"), step.message("q")
        other = step.spawn(take())
        await step.sleep("1s")
        won = await step.select(first, other)
        return [won is other, other.result(), await first]

    def play(bench: Bench, run: Any) -> None:
        bench.admit("w", execution_id="x")
        at(bench, 2_000)
        send(bench, "x", "q", 1)
        run()
        send(bench, "x", "q", 2)
        run()

    with Bench(w) as bench:
        play(bench, bench.run)
        assert bench.result("x").result == [True, 1, 2]


def test_one_handle_awaited_by_two_branches_takes_one_message() -> None:
    """spec O4, M2: a handle is one operation, however many wait for it."""

    @workflow
    async def w(step: Step) -> list[Any]:
        one = step.message("q")

        async def take() -> Any:
            return await one

        return await step.all([take(), take(), one])

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        send(bench, "x", "q", 1)
        send(bench, "x", "q", 2)
        bench.run()

        assert bench.result("x").result == [1, 1, 1]
        assert fates(bench, "x") == [("1", "consumed"), ("2", "waiting")]


def test_a_cancelled_wait_does_not_steal() -> None:
    """case 223, 267; spec O4: of a branch that was cancelled, and of one that timed out."""

    @workflow
    async def w(step: Step) -> Any:
        async def take(name: str) -> Any:
            return [name, await step.message("q")]

        gone = step.spawn(take("gone"))
        with pytest.raises(StepTimeout):
            await step.timeout(take("late"), "1s")
        gone.cancel()
        return await take("here")

    def play(bench: Bench, run: Any) -> None:
        bench.admit("w", execution_id="x")
        at(bench, 0)
        run()
        send(bench, "x", "q", 1)
        run()

    with Bench(w) as bench:
        play(bench, bench.run)

        assert bench.result("x").result == ["here", 1]
        assert fates(bench, "x") == [("1", "consumed")]


def test_the_first_that_became_ready_wins_over_message_and_timer() -> None:
    """case 224; spec O6: by moment, then by the order named; the same after a restart."""

    @workflow
    async def w(step: Step, message_first: bool) -> str:
        note, late = step.message("q"), step.timer("10s")
        await step.run(give)
        won = await step.select(*((note, late) if message_first else (late, note)))
        return "message" if won is note else "timer"

    for moment, first, winner in (
        (9_999, False, "message"),
        (10_000, True, "message"),
        (10_000, False, "timer"),
        (10_001, True, "timer"),
    ):
        with Bench(w) as bench:
            bench.admit("w", {"message_first": first}, execution_id="x")
            at(bench, 5_000)
            bench.crash()
            bench.clock.advance(moment - 5_000)
            send(bench, "x", "q", 1)
            bench.clock.advance(HOUR)
            bench.run()

            assert bench.result("x").result == winner


# --- batches, and reads that never wait ---


@pytest.mark.parametrize(("most", "sizes"), [(1, [1] * 7), (3, [3, 3, 1]), (7, [7]), (100, [7])])
def test_a_batch_has_from_one_to_max(most: int, sizes: list[int]) -> None:
    """case 260; spec operations: in one delivery, one entry each (P4)."""
    with Bench(batches) as bench:
        bench.admit("batches", {"most": most, "until": 7}, execution_id="x")
        for n in range(7):
            send(bench, "x", "q", n)
        bench.run()

        got = bench.result("x").result
        assert [len(batch) for batch in got] == sizes
        assert [n for batch in got for n in batch] == list(range(7))
        assert len(bench.history("x")) == len(sizes)
        assert bench.record("x").deliveries == 1


def test_messages_that_came_while_no_worker_ran_are_one_batch() -> None:
    """B50: three of them; the function waits for at least one and gets all there are."""

    @workflow
    async def w(step: Step) -> list[Any]:
        return await step.messages("q")

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()
        bench.crash()
        for n in range(3):
            send(bench, "x", "q", n)
        bench.run()

        assert bench.result("x").result == [0, 1, 2]


def test_a_batch_waits_for_its_first_message() -> None:
    """case 260; spec operations: an empty batch there is not."""
    with Bench(batches) as bench:
        bench.admit("batches", {"most": 10, "until": 2}, execution_id="x")
        bench.run()
        send(bench, "x", "q", 1)
        bench.run()
        send(bench, "x", "q", 2)
        bench.run()

        assert bench.result("x").result == [[1], [2]]


def test_trying_and_counting_never_wait_and_replay_alike() -> None:
    """case 261, 262; spec operations: what they said is recorded, whatever came later."""

    @workflow
    async def w(step: Step) -> list[Any]:
        seen: list[Any] = [await step.queue_depth("q"), await step.try_message("q")]
        await step.sleep("1s")
        seen += [await step.queue_depth("q"), await step.try_message("q")]
        seen += [await step.queue_depth("q"), await step.try_message("q", int)]
        seen += [await step.queue_depth("q"), await step.try_message("q")]
        await step.sleep("1s")
        return [*seen, await step.queue_depth("q")]

    def play(bench: Bench, run: Any) -> None:
        bench.admit("w", execution_id="x")
        run_to_first_sleep(bench)
        send(bench, "x", "q", 1)
        send(bench, "x", "q", 2)
        run()

    def run_to_first_sleep(bench: Bench) -> None:
        bench.points.reset()
        at(bench, 500)
        bench.points.names.clear()

    for index in (None, *range(14)):
        with Bench(w) as bench:
            bench.admit("w", execution_id="x")
            run_to_first_sleep(bench)
            send(bench, "x", "q", 1)
            send(bench, "x", "q", 2)
            if index is not None:
                bench.points.kill_at(index)
                _kill(bench)
                send(bench, "x", "late", 3)
            bench.run()

            assert bench.result("x").result == [0, None, 2, 1, 1, 2, 0, None, 0]


def _kill(bench: Bench) -> None:
    from yieldstar_cli.testing import Killed

    with contextlib.suppress(Killed):
        bench.run()
    bench.crash()
    bench.points.reset()


def test_a_thousand_questions_at_once_are_all_answered() -> None:
    """spec operations, R4: however many one round takes; each takes its own message."""

    @workflow
    async def w(step: Step) -> list[int | None]:
        return await step.all([step.try_message("q", int) for _ in range(1_200)])

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        send_all(bench, "x", "q", range(1_000))
        bench.run()

        assert bench.result("x").result == [*range(1_000), *[None] * 200]
        assert bench.record("x").deliveries == 1


def test_trying_takes_what_does_not_fit_and_raises() -> None:
    """spec M2: as awaiting does."""

    @workflow
    async def w(step: Step) -> list[Any]:
        with pytest.raises(InvalidMessage):
            await step.try_message("q", int)
        return [await step.try_message("q", int), await step.queue_depth("q")]

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        for value in ("a", 2, "c"):
            send(bench, "x", "q", value)
        bench.run()

        assert bench.result("x").result == [2, 1]


def test_a_message_is_taken_by_the_wait_that_began_first_not_by_a_later_try() -> None:
    """spec operations, O6: a wait that is open goes before a question that comes after it."""

    @workflow
    async def w(step: Step) -> list[Any]:
        async def take() -> Any:
            return await step.message("q")

        other = step.spawn(take())
        await step.sleep("1s")
        return [await step.try_message("q"), await step.timeout(other, "1h")]

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 500)
        bench.crash()
        send(bench, "x", "q", 1)
        bench.run()

        assert bench.result("x").result == [None, 1]


def test_values_come_back_as_the_type_that_was_asked_for() -> None:
    """case 265; spec V1: structs, decimals, moments; alone, in batches, tried; a megabyte too."""

    @workflow
    async def receiver(step: Step) -> list[Any]:
        one = await step.message("lines", Line)
        many = await step.messages("lines", Line, max=2)
        tried = await step.try_message("lines", Line)
        plain = [await step.message("any") for _ in range(6)]
        assert tried is not None
        assert all(isinstance(line, Line) for line in (one, *many, tried))
        return [[line.price for line in (one, *many, tried)], one.at, plain]

    odd: list[Any] = ["$ys", {"$ys": 1}, (1, 2), {3}, b"4", "é" * 500_000]

    @workflow
    async def sender(step: Step) -> list[str]:
        moment = datetime(2026, 1, 2, tzinfo=UTC)
        answers = [
            await step.send("r", "lines", Line("w", Decimal(n) / 10, moment)) for n in range(4)
        ]
        return [*answers, *[await step.send("r", "any", value) for value in odd]]

    with Bench(receiver, sender) as bench:
        bench.admit("receiver", execution_id="r", at=START + 1_000)
        bench.admit("sender", execution_id="s")
        bench.run()

        assert bench.result("s").result == ["delivered"] * 10
        prices, moment, plain = bench.result("r").result
        assert prices == [Decimal(n) / 10 for n in range(4)]
        assert moment == datetime(2026, 1, 2, tzinfo=UTC)
        assert plain == odd


def test_a_batch_of_lists_that_look_like_marks_comes_back_as_it_was() -> None:
    """spec V1: whatever the first message of a batch is."""
    mark = "\ue000"

    @workflow
    async def w(step: Step, first: Any) -> list[Any]:
        await step.send(step.event.execution_id, "q", first)
        await step.send(step.event.execution_id, "q", [first])
        return await step.messages("q")

    from yieldstar_cli import codec

    for first in (codec.MARK, [codec.MARK, "list", 1], {codec.MARK: 1}, (1,), mark):
        with Bench(w) as bench:
            bench.admit("w", {"first": first}, execution_id="x")
            bench.run()

            assert bench.result("x").result == [first, [first]]


# --- sending and waking from a workflow ---


def test_a_workflow_sends_exactly_once_and_learns_what_became_of_it() -> None:
    """case 259; spec operations, M1: delivered, buffered, refused; whoever dies, once each."""

    @workflow
    async def sender(step: Step) -> list[str]:
        seen = [await step.send("open", "q", 1), await step.send("later", "q", 2)]
        seen += [await step.send("ended", "q", 3)]
        await step.run(give, 1)
        return [*seen, await step.send("open", "q", 4)]

    def play(bench: Bench, run: Any) -> None:
        bench.admit("listener", {"count": 0}, execution_id="ended")
        bench.admit("listener", {"count": 3}, execution_id="open")
        run()
        bench.admit("sender", execution_id="s")
        run()

    for bench in killed_everywhere(lambda: Bench(sender, listener), play):
        assert bench.result("s").result == ["delivered", "buffered", "refused", "delivered"]
        assert fates(bench, "open") == [("1", "consumed"), ("4", "consumed")]
        assert fates(bench, "later") == [("2", "buffered")]
        assert fates(bench, "ended") == []
        assert shown(bench.history("s")) == [
            "send:q",
            "send:q#2",
            "send:q#3",
            "step:give",
            "send:q#4",
        ]


def test_a_send_and_the_wake_it_leads_to_are_one_commit() -> None:
    """case 268; spec M4: seen after each kill: the message is there exactly when it is due."""

    @workflow
    async def sender(step: Step) -> str:
        await step.run(give, 1)
        return await step.send("r", "q", 1)

    from yieldstar_cli.testing import Killed

    outcomes = set()
    for index in range(12):
        with Bench(sender, listener) as bench:
            bench.admit("listener", execution_id="r")
            bench.run()
            bench.admit("sender", execution_id="s")
            bench.points.reset()
            bench.points.kill_at(index)
            try:
                bench.run(until=lambda: bool(fates(bench, "r")))
            except Killed:
                bench.crash()
            record, there = bench.record("r"), bool(fates(bench, "r"))

            assert there == (record.due_at is not None or record.deliveries > 1)
            outcomes.add(there)
    assert outcomes == {True, False}


def test_a_time_to_live_is_the_senders() -> None:
    """case 257; spec M1: a day unless it says otherwise."""

    @workflow
    async def sender(step: Step) -> list[str]:
        return [await step.send("later", "q", 1, ttl="1m"), await step.send("later", "q", 2)]

    with Bench(sender) as bench:
        bench.admit("sender", execution_id="s")
        bench.run()
        found = bench.storage.inbox.messages("later")

        assert bench.result("s").result == ["buffered", "buffered"]
        assert [m.expires_at for m in found] == [START + 60_000, START + DAY]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda step: step.send(7, "q", 1), TypeError),
        (lambda step: step.send("", "q", 1), TypeError),
        (lambda step: step.send("x", "", 1), ValueError),
        (lambda step: step.send("x", "a/b", 1), ValueError),
        (lambda step: step.send("x", "q", object()), UnserializableValue),
        (lambda step: step.send("x", "q", 1, ttl="0s"), ValueError),
        (lambda step: step.send("x", "q", 1, ttl=-1), ValueError),
        (lambda step: step.wake(None), TypeError),
        (lambda step: step.message(""), ValueError),
        (lambda step: step.message("q#2"), ValueError),
        (lambda step: step.messages("q", max=0), ValueError),
        (lambda step: step.messages("q", max=True), ValueError),
        (lambda step: step.messages("q", max=10_001), ValueError),
        (lambda step: step.try_message("a:b"), ValueError),
        (lambda step: step.queue_depth("~"), ValueError),
        (lambda step: step.using(timeout="1s").message("q"), TypeError),
        (lambda step: step.using(tag="gpu").send("x", "q"), TypeError),
    ],
)
def test_what_makes_no_sense_is_refused_at_the_call(call: Any, error: type[Exception]) -> None:
    """spec M1, V3, R3: before anything is sent or awaited."""

    @workflow
    async def w(step: Step) -> str:
        try:
            call(step)
        except error as refused:
            return str(refused)
        return ""

    with Bench(w) as bench:
        bench.admit("w", execution_id="s")
        bench.run()

        assert bench.result("s").result
        assert bench.history("s") == []
        assert bench.storage.inbox.messages("x") == []


def test_from_within_a_step_nothing_is_sent() -> None:
    """B17; spec O7, R9: it would go out once for each try; the line to write is said."""
    held: list[Step] = []

    def inside() -> None:
        str(held[0].send("y", "q", 1))

    @workflow
    async def w(step: Step) -> str:
        held.append(step)
        await step.run(inside)
        return "done"

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()
        problem = bench.record("x").problem

        assert problem is not None
        assert problem.code == "MISPLACED_CALL"
        assert bench.storage.inbox.messages("y") == []


def test_an_execution_can_send_to_itself() -> None:
    """spec M1: also as the last thing it does, and then nobody reads it."""

    @workflow
    async def w(step: Step) -> list[Any]:
        own = step.event.execution_id
        seen: list[Any] = [await step.send(own, "q", "first"), await step.message("q")]
        seen.append(await step.send(own, "q", "last"))
        return seen

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run()

        assert bench.result("x").result == ["delivered", "first", "delivered"]
        assert fates(bench, "x") == [('"first"', "consumed"), ('"last"', "waiting")]
        assert bench.record("x").deliveries == 1


def test_a_message_to_an_id_that_may_not_be_is_an_error_of_the_send() -> None:
    """spec M1, E2: it could wait for nobody; recorded at the await."""

    @workflow
    async def w(step: Step) -> list[str]:
        seen: list[str] = []
        for wrong in (" x", "x" * 256, "a\nb"):
            try:
                seen.append(await step.send(wrong, "q", 1))
            except Exception as error:
                seen.append(type(error).__name__)
        return seen

    with Bench(w) as bench:
        bench.admit("w", execution_id="s")
        bench.run()

        assert bench.result("s").result == ["InvalidMessageEvent"] * 3


def test_a_workflow_wakes_others() -> None:
    """spec operations, E6: requested, ignored, not_found; a wake resolves nothing."""

    @workflow
    async def waker(step: Step) -> list[str]:
        seen: list[str] = [
            await step.wake("open"),
            await step.wake("ended"),
            await step.wake("nobody"),
        ]
        return [*seen, await step.wake("a\nb")]

    def play(bench: Bench, run: Any) -> None:
        bench.admit("listener", {"count": 0}, execution_id="ended")
        bench.admit("listener", execution_id="open")
        run()
        bench.admit("waker", execution_id="w")
        run()

    for bench in killed_everywhere(lambda: Bench(waker, listener), play):
        assert bench.result("w").result == ["requested", "ignored", "not_found", "not_found"]
        assert status(bench, "open") == "suspended"
        assert bench.record("open").deliveries >= 2


def test_a_wake_starts_an_execution_that_was_admitted_for_later() -> None:
    """spec E6, E12: a bare wake."""

    @workflow
    async def waker(step: Step) -> str:
        return await step.wake("later")

    with Bench(waker, listener) as bench:
        bench.admit("listener", {"count": 0}, execution_id="later", at=START + DAY)
        bench.admit("waker", execution_id="w")
        at(bench, 1_000)

        assert status(bench, "later") == "completed"


def test_a_conversation_of_two_needs_no_clock() -> None:
    """spec M4: each answer wakes the other, a hundred times, at one moment."""

    @workflow
    async def player(step: Step, other: str, serve: bool, rounds: int) -> int:
        ball = 0
        if serve:
            await step.send(other, "ball", 1)
        for _ in range(rounds):
            ball = await step.message("ball", int)
            await step.send(other, "ball", ball + 1)
        return ball

    with Bench(player) as bench:
        bench.admit("player", {"other": "b", "serve": True, "rounds": 50}, execution_id="a")
        bench.admit("player", {"other": "a", "serve": False, "rounds": 50}, execution_id="b")
        bench.run()

        assert bench.result("b").result == 99
        assert bench.result("a").result == 100
        assert bench.clock.now_ms() == START


# --- many ---


def test_the_messages_of_four_senders_keep_their_order() -> None:
    """case 263: each is consumed once, and each sender's own come in order."""

    @workflow
    async def sender(step: Step, n: int, count: int) -> None:
        for i in range(count):
            await step.send("r", "q", [n, i])
            if i % 10 == n:
                await step.sleep("10ms")

    @workflow
    async def receiver(step: Step, count: int) -> list[list[int]]:
        got: list[list[int]] = []
        while len(got) < count:
            got += await step.messages("q", list[int], max=7)
        return got

    with Bench(sender, receiver) as bench:
        bench.admit("receiver", {"count": 400}, execution_id="r")
        for n in range(4):
            bench.admit("sender", {"n": n, "count": 100}, execution_id=f"s{n}")
        bench.run()

        got = bench.result("r").result
        for n in range(4):
            assert [i for who, i in got if who == n] == list(range(100))


def test_a_flooded_queue_starves_no_other() -> None:
    """case 269: twenty queues, one of which never runs dry; the others are heard at once."""

    @workflow
    async def w(step: Step) -> list[str]:
        order: list[str] = []
        own = step.event.execution_id

        async def flood() -> None:
            while len(order) < 150:
                await step.message("q0")
                order.append("q0")
                await step.send(own, "q0")

        async def hear(name: str) -> None:
            await step.message(name)
            order.append(name)

        await step.send(own, "q0")
        await step.all([flood(), *[hear(f"q{n}") for n in range(1, 20)]])
        return order

    with Bench(w) as bench:
        bench.admit("w", execution_id="x")
        bench.run(until=lambda: len(bench.history("x")) > 20)
        for n in range(1, 20):
            send(bench, "x", f"q{n}")
        bench.run()

        order = bench.result("x").result
        assert max(order.index(f"q{n}") for n in range(1, 20)) < 80
        assert len(order) >= 150


def test_what_came_before_a_flood_is_heard_before_it() -> None:
    """case 269; spec O6: by when it came, however much came since."""

    @workflow
    async def w(step: Step) -> str:
        calm, flood = step.message("calm"), step.message("flood")
        await step.run(give)
        return "calm" if await step.select(flood, calm) is calm else "flood"

    with Bench(w, duration=lambda call: HOUR) as bench:
        bench.admit("w", execution_id="x")
        at(bench, 1_000)
        send(bench, "x", "calm")
        at(bench, 2_000)
        send_all(bench, "x", "flood", range(1_000))
        bench.run()

        assert bench.result("x").result == "calm"


def test_code_that_reads_another_queue_than_it_did_has_diverged() -> None:
    """spec R5: the message that was consumed is not given to somebody else."""

    def made(queue: str) -> Any:
        @workflow(id="w")
        async def w(step: Step) -> Any:
            got = await step.message(queue)
            await step.sleep("1h")
            return got

        return w

    with Bench(made("a")) as bench:
        bench.admit("w", execution_id="x")
        send(bench, "x", "a", 1)
        at(bench, 1_000)
        bench.crash()
        bench.definitions["w", 1] = made("b").definition
        bench.run()
        problem = bench.record("x").problem
        bench.crash()
        bench.definitions["w", 1] = made("a").definition
        bench.storage.executions.wake("x")
        bench.run()

        assert problem is not None
        assert problem.code == "DIVERGED"
        assert bench.result("x").result == 1
        assert ids(bench) == ["x"]
