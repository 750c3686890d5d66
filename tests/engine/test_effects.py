"""Effects: performed once, looked up after any doubt, one operation for all executions (F1)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.bank import Bank, Receipt, admit, kept, payer
from tests.engine.several import START, at, killed_everywhere, shown, status, waits
from yieldstar_cli import Fatal, Step, settled, unknown, workflow
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.errors import EffectMismatch, StepTimeout
from yieldstar_cli.model import Entry, HoldEffect, Kind, Round, SettleEffect, Suspended, Wait
from yieldstar_cli.testing import Bench

SECOND = 1_000


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_new_effect_is_performed_and_settled_without_a_look(asynchronous: bool) -> None:
    """case 351; spec F1: nobody can have done it before, so nobody is asked."""
    bank = Bank()
    pay = payer(bank, asynchronous=asynchronous)
    with Bench(pay) as bench:
        admit(bench, pay, "a")
        bench.run()

        assert bench.result("a").result == Receipt(1, 100)
        assert bank.taken == ["charge"]
        assert shown(bench.history("a")) == ["effect:charge"]
        found = kept(bench)
        assert (found.status, found.begun_by, found.settled_by) == ("settled", "a", "a")
        assert (found.operation, found.input, found.holder) == ("charge", "100", None)


def test_what_is_settled_is_given_to_another_execution_without_a_call() -> None:
    """cases 351, 357; spec F1: the stored result, as the type that was annotated."""
    bank = Bank()
    pay = payer(bank)
    with Bench(pay) as bench:
        admit(bench, pay, "a")
        bench.run()
        admit(bench, pay, "b")
        bench.run()

        assert bench.result("b").result == bench.result("a").result == Receipt(1, 100)
        assert bank.taken == ["charge"]


def test_what_was_not_found_is_performed_after_the_look() -> None:
    """case 352; spec F1: the answer was lost before the bank did anything."""
    bank = Bank()
    bank.charging = ["lost before"]
    pay = payer(bank)
    with Bench(pay) as bench:
        admit(bench, pay, "a")
        bench.run()

        assert bank.taken == ["charge", "look", "charge"]
        assert bench.result("a").result == Receipt(1, 100)
        assert bench.clock.now_ms() == START + 10 * SECOND


def test_what_was_found_settled_is_not_performed_again() -> None:
    """case 353; spec F1: the bank had done it, and its answer was lost."""
    bank = Bank()
    bank.charging = ["lost after"]
    pay = payer(bank)
    with Bench(pay) as bench:
        admit(bench, pay, "a")
        bench.run()

        assert bank.taken == ["charge", "look"]
        assert bank.charges == {"order-1": 1}
        assert bench.result("a").result == Receipt(1, 100)


@pytest.mark.parametrize("doubt", ["unknown", "lost"])
def test_while_nobody_can_say_it_is_looked_up_after_pauses_and_not_performed(doubt: str) -> None:
    """case 354; spec F1: unknown, or a look that raised; the pauses survive the worker."""
    bank = Bank()
    bank.charging = ["lost after"]
    bank.looking = [doubt] * 3
    pay = payer(bank)
    with Bench(pay) as bench:
        admit(bench, pay, "a")
        at(bench, 0)
        assert bank.taken == ["charge"]
        assert status(bench, "a") == "suspended"
        (pause,) = waits(bench, "a")
        assert (pause.kind, pause.state, pause.due_at) == (
            "effect",
            "retrying",
            START + 10 * SECOND,
        )

        for look in (10, 20, 30):
            bench.crash()
            at(bench, look * SECOND - 1)
            assert bank.taken == []
            at(bench, look * SECOND)
            assert bank.taken == ["look"]

        bench.run()
        assert bank.taken == ["look"]
        assert bench.result("a").result == Receipt(1, 100)


def test_the_pause_is_as_long_as_it_was_asked_to_be() -> None:
    """case 354; spec F1: `retry_in`."""
    bank = Bank()
    bank.charging = ["lost after"]

    @workflow
    async def slow_pay(step: Step) -> None:
        await step.effect(
            "x", operation="o", input=1, lookup=bank.look, perform=bank.charge, retry_in="3h"
        )

    with Bench(slow_pay) as bench:
        bench.admit(slow_pay, execution_id="a")
        at(bench, 3 * 3_600 * SECOND - 1)
        assert bank.taken == ["charge"]

        bench.run()

        assert bank.taken == ["look"]
        assert bench.clock.now_ms() == START + 3 * 3_600 * SECOND


def test_a_kill_at_any_point_leads_to_a_look_and_to_one_charge() -> None:
    """case 355; spec F1, E13: before, while and after it is done, and around each commit."""
    banks: list[Bank] = []
    pays: list[Any] = []

    def make() -> Bench:
        banks.append(Bank())
        pays.append(payer(banks[-1]))
        return Bench(pays[-1])

    def play(bench: Bench, run: Callable[[], None]) -> None:
        admit(bench, pays[-1], "a", "b")
        run()

    for bench in killed_everywhere(make, play):
        assert banks[-1].charges == {"order-1": 1}
        assert bench.result("a").result == bench.result("b").result == Receipt(1, 100)
        calls = banks[-1].taken
        assert calls.count("charge") == 1
        assert kept(bench).reports == ()
    assert len(banks) > 10


def test_a_kill_at_any_point_of_an_uncertain_one_leads_to_one_charge() -> None:
    """case 355; spec F1: also while it is looked up, and in the pauses."""
    banks: list[Bank] = []
    pays: list[Any] = []

    def make() -> Bench:
        banks.append(Bank())
        banks[-1].charging = ["lost before", "lost after"]
        banks[-1].looking = ["", "lost", "unknown"]
        pays.append(payer(banks[-1]))
        return Bench(pays[-1])

    def play(bench: Bench, run: Callable[[], None]) -> None:
        admit(bench, pays[-1], "a", "b")
        run()

    for bench in killed_everywhere(make, play):
        assert banks[-1].charges == {"order-1": 1}
        assert bench.result("a").result == bench.result("b").result == Receipt(1, 100)


@pytest.mark.parametrize("other", [{"amount": 101}, {"operation": "refund"}])
@pytest.mark.parametrize("pending", [False, True])
def test_one_id_for_another_thing_is_a_mismatch_and_nothing_is_called(
    other: dict[str, Any], pending: bool
) -> None:
    """case 356; spec F1: told to who asks, kept for people, and the effect is as it was."""
    bank = Bank()
    bank.looking = ["unknown"] * 3
    bank.charging = ["lost after"] if pending else []
    pay = payer(bank)
    with Bench(pay) as bench:
        admit(bench, pay, "a")
        at(bench, SECOND)
        assert bank.taken == ["charge"]

        admit(bench, pay, "b", **other)
        at(bench, 2 * SECOND)

        assert bank.taken == []
        error = bench.result("b").error
        assert isinstance(error, EffectMismatch)
        assert "order-1" in str(error)
        (report,) = kept(bench).reports
        assert (report.kind, report.execution_id) == ("mismatch", "b")
        assert (report.operation, report.input) == (
            other.get("operation", "charge"),
            str(other.get("amount", 100)),
        )
        assert kept(bench).disputed
        bench.run()
        assert bench.result("a").result == Receipt(1, 100)
        assert kept(bench).settled_by == "a"


def test_a_mismatch_is_recorded_and_may_be_caught() -> None:
    """case 356; spec F1, R2: it comes back the same on replay, and is reported once."""
    bank = Bank()

    @workflow
    async def careful(step: Step) -> str:
        await step.effect("x", operation="o", input=1, lookup=bank.look, perform=bank.charge)
        try:
            await step.effect("x", operation="o", input=2, lookup=bank.look, perform=bank.charge)
        except EffectMismatch as error:
            await step.sleep("1h")
            return str(error)
        return "the same"

    with Bench(careful) as bench:
        bench.admit(careful, execution_id="a")
        at(bench, SECOND)
        bench.crash()
        bench.run()

        assert "'x'" in bench.result("a").result
        assert bank.taken == ["charge"]
        assert len(kept(bench, "x").reports) == 1


def test_the_same_input_in_another_order_of_names_is_the_same_input() -> None:
    """case 356; spec F1: JSON objects have no order."""
    bank = Bank()

    @workflow
    async def pays(step: Step, names: list[str]) -> int:
        given = {name: len(name) for name in names}
        return await step.effect(
            "x",
            operation="o",
            input=given,
            lookup=lambda e, i: unknown,
            perform=lambda e, i: bank.charge(e, 1).number,
        )

    with Bench(pays) as bench:
        bench.admit(pays, {"names": ["a", "bb"]}, execution_id="a")
        bench.admit(pays, {"names": ["bb", "a"]}, execution_id="b")
        bench.run()

        assert bench.result("a").status == bench.result("b").status == "completed"
        assert bank.charges == {"x": 1}


def test_a_second_execution_waits_while_the_first_tries_and_gets_its_result() -> None:
    """cases 353, 358; spec F1: it suspends meanwhile, without a moment of its own."""
    bank = Bank()
    pay = payer(bank)
    with Bench(pay, duration=lambda call: 60 * SECOND) as bench:
        admit(bench, pay, "a", "b", "c")
        at(bench, 30 * SECOND)

        for other in "bc":
            (wait,) = waits(bench, other)
            assert (wait.effect, wait.due_at, status(bench, other)) == (
                "order-1",
                None,
                "suspended",
            )
        assert kept(bench).holder == "a"

        bench.run()
        assert [bench.result(x).result for x in "abc"] == [Receipt(1, 100)] * 3
        assert bank.taken == ["charge"]
        assert bench.clock.now_ms() == START + 60 * SECOND


def dies(bench: Bench) -> None:
    """The worker is killed while it performs."""
    bench.crash()


def is_cancelled_now(bench: Bench) -> None:
    """The first ends at once, without code."""
    bench.cancel("a", now=True)


def stops(bench: Bench) -> None:
    """Its worker is told to stop, and does not wait for what runs."""
    for worker in bench.workers:
        worker.stop()
        worker.abandon()
    bench.crash()


@pytest.mark.parametrize("ends", [dies, is_cancelled_now, stops])
def test_a_second_execution_takes_over_when_the_first_ones_delivery_ends(
    ends: Callable[[Bench], None],
) -> None:
    """cases 352, 355; spec F1, L3, C6: and looks before it does anything."""
    bank = Bank()
    pay = payer(bank)
    long = [60 * SECOND]
    with Bench(pay, duration=lambda call: long[0]) as bench:
        admit(bench, pay, "a", "b")
        at(bench, SECOND)
        assert status(bench, "b") == "suspended"

        ends(bench)
        long[0] = 0
        bench.run_to(bench.clock.now_ms() + SECOND)

        assert bench.result("b").result == Receipt(1, 100)
        assert bank.calls[0] == "look"
        bench.run()
        assert bank.charges["order-1"] <= 2  # of a thread that a kit cannot stop


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_cancelled_execution_lets_go_of_what_it_tries(asynchronous: bool) -> None:
    """spec F1, C6: an async one is called off; a sync one ends first, and settles it."""
    bank = Bank()
    pay = payer(bank, asynchronous=asynchronous)
    with Bench(pay, duration=lambda call: 60 * SECOND) as bench:
        admit(bench, pay, "a", "b")
        at(bench, SECOND)
        bench.cancel("a")
        bench.run()

        assert bench.result("b").result == Receipt(1, 100)
        assert bank.charges == {"order-1": 1}
        if asynchronous:
            assert status(bench, "a") == "cancelled"
            assert bank.taken == ["look", "charge"]
        else:
            assert bank.taken == ["charge"]
            assert kept(bench).settled_by == "a"


def test_what_fails_for_good_is_not_tried_again_and_another_looks_first() -> None:
    """spec F1, O1: `Fatal` ends the operation; the effect stays pending for whoever asks next."""
    bank = Bank()
    refused = [True]

    def perform(effect_id: str, amount: int) -> Receipt:
        if refused.pop() if refused else False:
            raise Fatal("no such account")
        return bank.charge(effect_id, amount)

    @workflow
    async def pay(step: Step) -> Receipt:
        return await step.effect("x", operation="o", input=1, lookup=bank.look, perform=perform)

    with Bench(pay, duration=lambda call: SECOND) as bench:
        bench.admit(pay, execution_id="a")
        bench.admit(pay, execution_id="b")
        bench.run()

        assert isinstance(bench.result("a").error, Fatal)
        assert bench.result("b").result == Receipt(1, 1)
        assert bank.taken == ["look", "charge"]
        assert kept(bench, "x").begun_by == "a"
        assert kept(bench, "x").settled_by == "b"


def test_a_paused_first_lets_another_take_over() -> None:
    """spec F1, E14: what it found out is kept, and nobody waits for who does not go on."""
    bank = Bank()
    bank.charging = ["lost before"]
    pay = payer(bank)
    with Bench(pay, duration=lambda call: 5 * SECOND) as bench:
        admit(bench, pay, "a")
        at(bench, 16 * SECOND)  # it looks from 15 to 20
        assert kept(bench).holder == "a"
        admit(bench, pay, "b")
        at(bench, 17 * SECOND)
        assert status(bench, "b") == "suspended"

        bench.storage.steering.pause(execution_id="a", by="me")
        bench.run()

        assert status(bench, "a") == "suspended"
        assert bench.result("b").result == Receipt(1, 100)
        bench.storage.steering.resume(execution_id="a")
        bench.run()
        assert bench.result("a").result == Receipt(1, 100)
        assert bank.charges == {"order-1": 1}


def test_a_first_that_is_released_while_it_looks_lets_another_take_over() -> None:
    """spec F1, K2: a worker that stops starts nothing more, and hands back what it held."""
    bank = Bank()
    bank.charging = ["lost before"]
    pay = payer(bank)
    with Bench(pay, duration=lambda call: 5 * SECOND) as bench:
        admit(bench, pay, "a", "b")
        at(bench, 6 * SECOND)
        for worker in bench.workers:
            worker.stop()
        at(bench, 11 * SECOND)
        assert bank.taken == ["charge", "look"]
        assert kept(bench).holder is None

        bench.crash()
        bench.run()

        assert bench.result("a").result == bench.result("b").result == Receipt(1, 100)
        assert bank.charges == {"order-1": 1}


def test_a_cancel_of_a_worker_that_stops_leaves_nobody_waiting() -> None:
    """case 358; spec F1, K2, C6: what it was called off from is free for another worker's."""
    bank = Bank()

    async def look(effect_id: str, amount: int) -> Any:
        return bank.look(effect_id, amount)

    async def perform(effect_id: str, amount: int) -> Receipt:
        return bank.charge(effect_id, amount)

    def work() -> int:
        return 1

    @workflow
    async def both(step: Step) -> int:
        step.spawn(step.run(work))
        await step.effect("order-1", operation="charge", input=100, lookup=look, perform=perform)
        return 1

    pay = payer(bank)
    with Bench(both, pay, duration=lambda call: 5 * SECOND) as bench:
        bench.admit(both, execution_id="a")
        at(bench, SECOND)
        admit(bench, pay, "b")
        at(bench, 2 * SECOND)
        assert status(bench, "b") == "suspended"
        bench.cancel("a")
        at(bench, 3 * SECOND)
        bench.workers[0].stop()
        at(bench, 9 * SECOND)
        assert kept(bench).holder is None

        bench.crash()
        bench.start_worker()
        bench.run()

        assert bench.result("b").result == Receipt(1, 100)
        assert bank.charges == {"order-1": 1}
        assert status(bench, "a") == "cancelled"


def test_two_branches_with_one_id_are_one_operation() -> None:
    """spec F1: the second waits within the same execution, and gets the same."""
    bank = Bank()
    bank.charging = ["lost after"]

    @workflow
    async def twice(step: Step) -> list[int]:
        async def once() -> int:
            receipt = await step.effect(
                "x", operation="o", input=1, lookup=bank.look, perform=bank.charge
            )
            return receipt.number

        return await step.all([once(), once()])

    with Bench(twice, duration=lambda call: SECOND) as bench:
        bench.admit(twice, execution_id="a")
        bench.run()

        assert bench.result("a").result == [1, 1]
        assert bank.charges == {"x": 1}
        assert bank.taken == ["charge", "look"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_effect_that_lost_a_race_is_let_go_or_ends_for_whoever_asks_next(
    asynchronous: bool,
) -> None:
    """spec F1, O4: async it is called off and looked up; sync it settles, though nobody waits."""
    bank = Bank()

    @workflow
    async def impatient(step: Step) -> str:
        charge = step.effect(
            "order-1",
            operation="charge",
            input=100,
            lookup=bank.look_soon if asynchronous else bank.look,
            perform=bank.charge_soon if asynchronous else bank.charge,
        )
        try:
            await step.timeout(charge, "5s")
        except StepTimeout:
            return "late"
        return "in time"

    pay = payer(bank)
    with Bench(impatient, pay, duration=lambda call: 60 * SECOND) as bench:
        bench.admit(impatient, execution_id="a")
        at(bench, 2 * SECOND)
        admit(bench, pay, "b")
        bench.run()

        assert bench.result("a").result == "late"
        assert bench.result("b").result == Receipt(1, 100)
        assert bank.charges == {"order-1": 1}
        assert bank.taken == (["look", "charge"] if asynchronous else ["charge"])
        assert kept(bench).settled_by == ("b" if asynchronous else "a")
        assert kept(bench).reports == ()


def test_a_look_that_ends_when_nobody_asks_any_more_leads_to_nothing() -> None:
    """case 358; spec F1, O4: the right goes back, and whoever waits for it tries it."""
    bank = Bank()
    bank.charging = ["lost before"]

    @workflow
    async def impatient(step: Step) -> str:
        charge = step.effect(
            "order-1", operation="charge", input=100, lookup=bank.look, perform=bank.charge
        )
        try:
            await step.timeout(charge, "15s")
        except StepTimeout:
            return "late"
        return "in time"

    pay = payer(bank)
    with Bench(impatient, pay, duration=lambda call: 4 * SECOND) as bench:
        bench.admit(impatient, execution_id="a")
        at(bench, 14 * SECOND + 1)  # it looks from 14 to 18
        admit(bench, pay, "b")
        at(bench, 15 * SECOND)
        assert status(bench, "b") == "suspended"
        bench.run()

        assert bench.result("a").result == "late"
        assert bench.result("b").result == Receipt(1, 100)
        assert bank.taken == ["charge", "look", "look", "charge"]
        assert not bench.storage.db.rows("SELECT * FROM effects WHERE holder IS NOT NULL")


def test_an_effect_that_lost_a_select_is_as_good_as_before() -> None:
    """spec F1, O4: its handle goes on, and is awaited again."""
    bank = Bank()

    @workflow
    async def patient(step: Step) -> Receipt:
        charge = step.spawn(
            step.effect("x", operation="o", input=1, lookup=bank.look, perform=bank.charge)
        )
        timer = step.timer("5s")
        assert await step.select(charge, timer) is timer
        return await charge

    with Bench(patient, duration=lambda call: 60 * SECOND) as bench:
        bench.admit(patient, execution_id="a")
        bench.run()

        assert bench.result("a").result == Receipt(1, 1)
        assert bank.taken == ["charge"]


def test_an_effect_runs_in_finally_and_keeps_the_key_it_is_given() -> None:
    """spec F1, R3, C6: clean-up after a cancel may have effects."""
    bank = Bank()

    @workflow
    async def tidy(step: Step) -> None:
        try:
            await step.sleep("1h")
        finally:
            await step.using(key="refund").effect(
                "x", operation="o", input=1, lookup=bank.look, perform=bank.charge
            )

    with Bench(tidy) as bench:
        bench.admit(tidy, execution_id="a")
        at(bench, SECOND)
        bench.cancel("a")
        bench.run()

        assert bank.charges == {"x": 1}
        assert shown(bench.history("a")) == ["cancel:cancel", "effect:refund"]
        assert status(bench, "a") == "cancelled"


def test_effects_of_children_in_a_map_are_each_done_once() -> None:
    """spec F1: several children with the same ID share it."""
    bank = Bank()
    pay = payer(bank)

    @workflow
    async def batch(step: Step) -> list[int]:
        orders = [{"order": f"order-{n % 3}"} for n in range(9)]
        return [receipt.amount for receipt in await step.map(pay, orders, limit=4)]

    with Bench(batch, pay, duration=lambda call: SECOND) as bench:
        bench.admit(batch, execution_id="a")
        bench.run()

        assert bench.result("a").result == [100] * 9
        assert bank.charges == {"order-0": 1, "order-1": 1, "order-2": 1}


def test_an_effect_that_was_open_when_its_execution_continued_is_looked_up_there() -> None:
    """spec F1, C7: the next incarnation asks for it like any other."""
    bank = Bank()
    bank.charging = ["lost after"]

    @workflow
    async def goes_on(step: Step, n: int = 0) -> Receipt:
        charge = step.spawn(
            step.effect("x", operation="o", input=1, lookup=bank.look, perform=bank.charge)
        )
        if n == 0:
            await step.sleep("2s")
            await step.continue_as({"n": 1})
        return await charge

    with Bench(goes_on, duration=lambda call: SECOND) as bench:
        bench.admit(goes_on, execution_id="a")
        bench.run()

        assert bench.result("a").result == Receipt(1, 1)
        assert bank.taken == ["charge", "look"]
        assert kept(bench, "x").holder is None


@pytest.mark.parametrize("residents", [0, 1, 10_000])
def test_waiting_executions_look_again_with_residents_or_without(residents: int) -> None:
    """spec F1, R6: many wait for one that is uncertain for long."""
    bank = Bank()
    bank.charging = ["lost after"]
    bank.looking = ["unknown"] * 7
    pay = payer(bank)
    with Bench(pay, residents=residents, duration=lambda call: 7 * SECOND) as bench:
        ids = [f"e{n}" for n in range(5)]
        admit(bench, pay, *ids)
        bench.run()

        assert [bench.result(x).result for x in ids] == [Receipt(1, 100)] * 5
        assert bank.charges == {"order-1": 1}
        commits = sum(name.endswith(":before") for name in bench.points.names)
        assert commits < 300, "nobody looks without an end"


def test_an_object_that_looks_like_an_error_is_a_result_like_any_other() -> None:
    """case 360; spec F1, V1: whoever reads it gets an object."""
    shaped = {"name": "ValueError", "message": "no", "code": "EFFECT_MISMATCH", "stack": "at …"}

    @workflow
    async def pay(step: Step) -> dict[str, str]:
        return await step.effect(
            "x", operation="o", lookup=lambda e, i: unknown, perform=lambda e, i: dict(shaped)
        )

    with Bench(pay) as bench:
        for execution_id in "ab":
            bench.admit(pay, execution_id=execution_id)
            bench.run()
            bench.crash()

        assert bench.result("a").result == bench.result("b").result == shaped


def test_a_look_that_answers_nothing_known_is_a_fault_and_nothing_is_done() -> None:
    """case 359; spec F1, E12: nothing is recorded, the effect stays pending, held until mended."""
    bank = Bank()
    bank.charging = ["lost after"]
    bank.looking = ["garbage"]
    pay = payer(bank)
    with Bench(pay) as bench:
        admit(bench, pay, "a")
        at(bench, 20 * SECOND)

        record = bench.record("a")
        assert record.problem is not None
        assert record.problem.code == "INVALID_EFFECT_ANSWER"
        assert "settled(result), not_found or unknown" in record.problem.message
        assert bench.history("a") == []
        assert kept(bench).status == "pending"
        assert kept(bench).holder is None

        bench.crash()
        bench.storage.executions.wake("a")
        bench.run()
        assert bench.result("a").result == Receipt(1, 100)
        assert bank.charges == {"order-1": 1}


def test_a_result_that_cannot_be_kept_is_a_fault_and_is_looked_up_later() -> None:
    """case 359; spec F1, V1: it was done, so it is never done again."""
    bank = Bank()
    bank.charging = ["garbage"]
    pay = payer(bank)
    with Bench(pay) as bench:
        admit(bench, pay, "a")
        at(bench, 20 * SECOND)

        record = bench.record("a")
        assert record.problem is not None
        assert record.problem.code == "INVALID_EFFECT_ANSWER"
        assert bench.history("a") == []
        assert kept(bench).status == "pending"

        bench.crash()
        bench.storage.executions.wake("a")
        bench.run()
        assert bench.result("a").result == Receipt(1, 100)
        assert bank.taken == ["charge", "look"]


@pytest.mark.parametrize("same", [True, False])
def test_a_late_result_is_kept_and_never_replaces_the_one_that_stands(same: bool) -> None:
    """case 357; spec F1, L2: the first delivery was over; both are shown where they differ."""
    bank = Bank()
    pay = payer(bank)

    def found(effect_id: str, amount: int) -> Any:
        return settled(Receipt(1 if same else 7, amount))

    bank.look = found  # type: ignore[method-assign]
    with Bench(pay, duration=lambda call: 60 * SECOND if "charge" in repr(call.fn) else 0) as bench:
        admit(bench, pay, "a", "b")
        at(bench, SECOND)
        bench.cancel("a", now=True)
        bench.run()

        stands = Receipt(1 if same else 7, 100)
        assert bench.result("b").result == stands
        admit(bench, pay, "c")
        bench.run()
        assert bench.result("c").result == stands
        (report,) = kept(bench).reports
        assert (report.kind, report.execution_id, report.result) == (
            "late",
            "a",
            '{"number":1,"amount":100}',
        )
        assert kept(bench).disputed is not same
        assert len(bench.storage.effects.find(disputed=True)) == (not same)


@pytest.mark.parametrize("answer", ["nothing", ""])
def test_who_lost_its_right_while_it_looked_does_not_perform(tmp_path: Path, answer: str) -> None:
    """cases 85, 355; spec F1, L2: the right is asked for again between the look and the try."""
    bank = Bank()
    bank.charging = ["lost before"]
    bank.looking = ["", answer]
    pay = payer(bank)
    clock = ManualClock()
    slow = Bench(pay, path=tmp_path / "ys.db", clock=clock, duration=lambda call: 5 * SECOND)
    with slow, Bench(pay, path=tmp_path / "ys.db", clock=clock) as quick:
        admit(slow, pay, "a")
        at(slow, 16 * SECOND)  # it looks from 15 to 20
        (worker,) = slow.storage.workers.all(living=True)
        slow.storage.workers.renew(worker.number, clock.now_ms() - 1)

        at(quick, 17 * SECOND)
        assert quick.result("a").result == Receipt(1, 100)
        assert bank.taken == ["charge", "look", "charge"]
        slow.run()

        assert bank.taken == ["look"]
        assert bank.charges == {"order-1": 1}
        assert "ended elsewhere" in [event.kind for event in slow.events]
        late = [] if answer == "nothing" else ["late"]
        assert [report.kind for report in kept(slow).reports] == late
        assert not kept(slow).disputed


def test_two_different_settlements_leave_the_first_and_show_both() -> None:
    """case 357; spec F1: whoever brings the second is told the first."""
    bank = Bank()
    pay = payer(bank)
    with Bench(pay) as bench:
        admit(bench, pay, "a", "b")
        deliveries = bench.storage.executions.claim_due(bench.clock.now_ms())
        record, now = bench.storage.deliveries.record, bench.clock.now_ms()
        record(deliveries[0], Round(actions=(HoldEffect("k", now, "order-1", "charge", "100"),)))
        told: list[Entry] = []
        for delivery, result in zip(deliveries, ['"first"', '"second"'], strict=True):
            settle = SettleEffect("k", now, "order-1", result)
            told += record(delivery, Round(actions=(settle,))).entries

        assert [entry.value for entry in told] == ['"first"', '"first"']
        found = kept(bench)
        assert (found.result, found.settled_by) == ('"first"', "a")
        (report,) = found.reports
        assert (report.kind, report.execution_id, report.result) == ("conflict", "b", '"second"')
        assert found.disputed


def test_a_wait_that_begins_when_it_is_over_is_ready_at_once() -> None:
    """case 358; spec F1: told busy, and settled before the wait was registered."""
    pay = payer(Bank())
    with Bench(pay) as bench:
        admit(bench, pay, "a", "b")
        now = bench.clock.now_ms()
        first, second = bench.storage.executions.claim_due(now)
        record = bench.storage.deliveries.record
        hold = HoldEffect("k", now, "order-1", "charge", "100")
        record(first, Round(actions=(hold,)))
        (told,) = record(second, Round(actions=(hold,))).holds
        assert told.state == "busy"
        record(first, Round(actions=(SettleEffect("k", now, "order-1", '"done"'),)))

        wait = Wait(
            kind=Kind.EFFECT,
            step_key="k",
            label="order-1",
            since_at=now,
            due_at=None,
            state="waiting",
            attempt=1,
            position=1,
            effect="order-1",
        )
        came = record(second, Round(waits=(wait,), outcome=Suspended(None)))

        assert came.ready
        assert came.outcome is None


def test_a_wait_for_an_effect_ends_with_it_and_leaves_nothing() -> None:
    """case 358; spec F1, R10: what comes after it suspends and rests."""
    bank = Bank()

    @workflow
    async def pays_and_rests(step: Step) -> Receipt:
        receipt = await step.effect(
            "x", operation="o", input=1, lookup=bank.look, perform=bank.charge
        )
        await step.sleep("1h")
        return receipt

    with Bench(pays_and_rests, duration=lambda call: SECOND) as bench:
        for execution_id in "ab":
            bench.admit(pays_and_rests, execution_id=execution_id)
        bench.run(until=lambda: len(bench.points.names) > 200)

        assert [bench.result(x).status for x in "ab"] == ["completed"] * 2
        assert bank.taken == ["charge"]
