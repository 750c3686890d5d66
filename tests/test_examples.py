"""The examples in `workflows/` load, and do what their docstrings say, on the real driver."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from yieldstar_cli import EffectMismatch
from yieldstar_cli.engine.catalog import to_module_infos
from yieldstar_cli.engine.registry import Registry, load_directory
from yieldstar_cli.model import ExecutionRecord
from yieldstar_cli.testing import Bench, run

EXAMPLES = Path(__file__).parents[1] / "workflows"


@pytest.fixture(scope="module")
def registry():
    path, hooks, modules = list(sys.path), list(sys.path_hooks), set(sys.modules)
    # The checkout may belong to whoever runs the tests, under any umask.
    yield load_directory(EXAMPLES, trusted=[EXAMPLES])
    sys.path[:], sys.path_hooks[:] = path, hooks
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(EXAMPLES)):
            del sys.modules[name]


def module(registry: Registry, name: str) -> ModuleType:
    assert str(EXAMPLES / f"{name}.py") in registry.files
    return sys.modules[name]


def test_all_examples_load(registry: Registry):
    """spec R1."""
    assert registry.errors == []
    assert sorted(name for name, _ in registry.definitions) == [
        "agent",
        "await-parcel",
        "backup-shop",
        "build",
        "charge-once",
        "charge-order",
        "convert-price",
        "count-steps",
        "find-place",
        "monthly-report",
        "order-article",
        "quote",
        "refill-bucket",
        "refund",
        "restock",
        "shop-report",
        "supervisor",
        "write-letter",
    ]


def test_all_examples_can_be_checked_without_loading_them(registry: Registry):
    """spec K4: what the cache says of them is enough."""
    from yieldstar_cli.params import opaque

    infos = [info for module in to_module_infos(registry) for info in module.workflows]

    assert len(infos) == 18
    for info in infos:
        assert not opaque(info.params_description)
        assert info.doc
        assert Path(info.file).parent == EXAMPLES


def test_an_order_is_charged_after_its_wait(registry: Registry, tmp_path: Path):
    """README's example: sleep, load, charge, each once."""
    charge = module(registry, "charge_order")
    ledger = tmp_path / "ledger"

    done = run(charge.charge_order, charge.ChargeOrder(42, wait="10m", ledger=str(ledger)))

    assert done.result == charge.Receipt(order=42, charged=1250)
    assert [entry.step_key for entry in done.history] == ["sleep", "load-order", "charge-card"]
    assert done.history[1].at - done.record.admitted_at >= 600_000
    assert [line.split()[0] for line in ledger.read_text().splitlines()] == [
        "load-order",
        "charge-card",
    ]


def test_nothing_is_done_twice_after_a_crash(registry: Registry, tmp_path: Path):
    """spec R2: a recorded step is not run again."""
    charge = module(registry, "charge_order")
    ledger = tmp_path / "ledger"

    done = run(
        charge.charge_order,
        charge.ChargeOrder(42, ledger=str(ledger)),
        crash_after="load-order",
    )

    assert done.result == charge.Receipt(order=42, charged=1250)
    assert len(ledger.read_text().splitlines()) == 2


def test_a_cancelled_order_and_a_bad_card(registry: Registry, tmp_path: Path):
    """Ends with nothing; a declined card is not tried again."""
    charge = module(registry, "charge_order")
    ledger = tmp_path / "ledger"

    assert run(charge.charge_order, charge.ChargeOrder(113)).result is None
    declined = run(charge.charge_order, charge.ChargeOrder(666, ledger=str(ledger)))

    assert isinstance(declined.error, charge.CardDeclined)
    assert ledger.read_text().count("charge-card") == 1


def test_a_price_is_converted_in_spite_of_outages(registry: Registry):
    """spec O1: retried by policy; what is hopeless is not."""
    convert = module(registry, "convert_price").convert_price

    done = run(convert, {"cents": 1000, "outages": 2})
    hopeless = run(convert, {"cents": 1000, "currency": "XXX"})
    down = run(convert, {"cents": 1000, "outages": 9})

    assert done.result == 1080
    assert [attempt for _, attempt in done.calls] == [1, 2, 3]
    assert "no rate for XXX" in str(hopeless.error)
    assert len(hopeless.calls) == 1
    assert type(down.error).__name__ == "RatesAreDown"
    assert len(down.calls) == 5


def test_a_parcel_is_awaited_or_given_up(registry: Registry):
    """spec, operations: poll with a limit."""
    parcel = module(registry, "await_parcel")
    answers = iter([None, None, "P-7 signed"])

    def ask(parcel: str, sent: object, takes: float) -> str | None:
        return next(answers, None)

    arrived = run(parcel.await_parcel, parcel.Parcel("P-7"), fakes={parcel.ask_carrier: ask})
    lost = run(parcel.await_parcel, parcel.Parcel("P-8"), fakes={parcel.ask_carrier: ask})

    assert arrived.result == "P-7 signed"
    assert lost.result == "P-8 is lost"


def test_the_first_offer_wins_and_the_others_are_left(registry: Registry):
    """spec O4, O6: select over branches and a timer."""
    quote = module(registry, "quote")

    def answer(supplier: str, item: str, thinks_ms: int) -> object:
        return quote.Offer(supplier, thinks_ms)

    done = run(quote.quote, quote.Ask("chair"), fakes={quote.ask_supplier: answer})

    assert done.result == quote.Offer("Near & Co", 200)


def test_a_long_loop_counts_to_its_end_and_says_how_far_it_is(registry: Registry):
    """spec R3: one name, numbered keys; set_status."""
    count = module(registry, "count_steps").count_steps

    done = run(count, {"steps": 250}, crash_after="take-step#120")

    assert done.result == 250
    assert done.history[0].step_key == "take-step"
    assert "take-step#250" in [entry.step_key for entry in done.history]
    assert done.record.status_value_json == '{"walked":200,"of":250}'


def test_a_file_is_backed_up(registry: Registry, tmp_path: Path):
    """spec R1: a plain def is one recorded step."""
    backup = module(registry, "backup_shop").backup_shop
    source, target = tmp_path / "shop", tmp_path / "copy"
    source.write_text("goods")

    done = run(backup, {"source": str(source), "target": str(target)})

    assert done.result == 5
    assert target.read_text() == "goods"
    assert [entry.step_key for entry in done.history] == ["backup-shop"]


# --- an approval ---------------------------------------------------------------------------------


def test_a_refund_is_paid_once_somebody_approves_it(registry: Registry):
    """spec M1, O4: the decision wins over the reminder; nothing is paid before it."""
    refund = module(registry, "refund")
    yes = refund.Decision(ok=True, by="ann")

    done = run(refund.refund, refund.Refund(7, 1250), messages={"decision": yes})

    assert done.result == "approved by ann"
    assert done.calls == (("ask-approvers", 1), ("pay-back", 1))


def test_a_refund_that_is_rejected_is_not_paid(registry: Registry):
    """What `ys reject` sends ends it."""
    refund = module(registry, "refund")
    no = {"ok": False, "by": "bob", "note": "twice this month"}

    done = run(refund.refund, refund.Refund(7, 1250), messages={"decision": no})

    assert done.result == "rejected by bob"
    assert done.calls == (("ask-approvers", 1),)


def test_a_refund_nobody_answers_is_asked_for_three_times_and_expires(registry: Registry):
    """A day after each question; a crash meanwhile asks nothing again."""
    refund = module(registry, "refund")

    done = run(refund.refund, refund.Refund(7, 1250), crash_after="ask-approvers#2")

    assert done.result == "expired"
    assert [key for key, _ in done.calls] == ["ask-approvers", "ask-approvers#2", "ask-approvers#3"]
    assert done.record.updated_at - done.record.admitted_at >= 3 * 86_400_000


def test_an_answer_to_the_reminder_is_heard_at_once(registry: Registry):
    """spec M4, O4: the handle that lost to a timer is awaited again and takes the message."""
    refund = module(registry, "refund")

    with Bench(refund.refund) as bench:
        bench.admit(refund.refund, refund.Refund(7, 1250), execution_id="refund-7")
        began = bench.clock.now_ms()
        bench.run_to(began + 36 * 3_600_000)
        answer = bench.send("refund-7", "decision", refund.Decision(ok=True, by="ann"))
        bench.run_to(bench.clock.now_ms())

        done = bench.result("refund-7")
    assert answer == "delivered"
    assert done.result == "approved by ann"
    assert done.record.updated_at == began + 36 * 3_600_000
    assert [key for key, _ in done.calls] == ["ask-approvers", "ask-approvers#2", "pay-back"]


# --- a fan-out -----------------------------------------------------------------------------------


def test_a_report_has_every_shop_and_names_the_one_that_failed(registry: Registry):
    """spec C4, operations: map with errors="keep"."""
    monthly = module(registry, "monthly_report")

    done = run(monthly.monthly_report, monthly.Month("2026-05", shops=8))

    assert done.result.cents == 7 * (600 + 7)
    assert done.result.missing == [
        "test/shop-7 failed: BooksAreLocked: the books of shop-7 are locked"
    ]


def test_a_report_of_many_shops_has_ten_of_them_open_at_once(registry: Registry):
    """spec, operations: a window of `limit` children, each of them once in spite of a crash."""
    monthly = module(registry, "monthly_report")

    with Bench(monthly.monthly_report, monthly.shop_report, duration=lambda call: 1_000) as bench:
        bench.admit("monthly-report", {"month": "2026-05", "shops": 35}, execution_id="may")
        report = bench.record("may").number
        most = 0

        def ended(enough: int) -> bool:
            nonlocal most
            states = Counter(one.status.terminal for one in bench.storage.family.children(report))
            most = max(most, states[False])
            return states[True] >= enough

        bench.run(until=lambda: ended(17))
        bench.crash()
        bench.run(until=lambda: ended(35))
        bench.run()

        done = bench.result("may")
        children = bench.storage.family.children(report)
    assert len(done.result.missing) == 1
    assert most == 10
    assert [child.execution_id for child in children] == [f"may/shop-{n}" for n in range(1, 36)]


# --- stores --------------------------------------------------------------------------------------


def state_of(bench: Bench, state_type: type[Any], store_id: str) -> Any:
    """The state of a store as it stands."""
    found = bench.storage.stores.get(state_type.__name__, store_id)
    assert found is not None
    return msgspec.json.decode(found.state, type=state_type)


def test_a_mailbox_gives_the_urgent_letters_first_and_each_once(registry: Registry):
    """cases 163, 178; spec S4, S5: two agents of one mailbox, in spite of a crash."""
    box = module(registry, "agent_mailbox")
    letters = [("a", False), ("b", False), ("fire", True), ("stop", False), ("stop", False)]

    with Bench(box.agent, box.write_letter) as bench:
        for number, (text, urgent) in enumerate(letters):
            params = {"to": "ann", "sender": "bob", "text": text, "urgent": urgent}
            bench.admit(box.write_letter, params, execution_id=f"letter-{number}")
        bench.run()
        for name in ("early", "late"):
            bench.admit(box.agent, box.Agent("ann"), execution_id=name)
        bench.run(until=lambda: bool(bench.history("late")))
        bench.crash()
        bench.run()

        answers = [letter.text for letter in state_of(bench, box.Mailbox, "bob").letters]
        done = [bench.result(name).result for name in ("early", "late")]
        left = state_of(bench, box.Mailbox, "ann")
    assert sorted(answers) == ["ann has read: a", "ann has read: b", "ann has read: fire"]
    assert answers[0] == "ann has read: fire"
    assert sum(done) == 3
    assert left == box.Mailbox(letters=[], written=5)


def test_a_letter_wakes_an_agent_that_waits_and_its_history_stays_short(registry: Registry):
    """spec S3, C5: waiting costs no delivery; the mailbox outlives the incarnations."""
    box = module(registry, "agent_mailbox")

    with Bench(box.agent, box.write_letter) as bench:
        bench.admit(box.agent, box.Agent("ann"), execution_id="ann")
        bench.run()
        waits_since = bench.record("ann").deliveries
        bench.run_to(bench.clock.now_ms() + 7 * 86_400_000)
        waited = bench.record("ann").deliveries
        for number in range(80):
            letter = {"to": "ann", "sender": "bob", "text": str(number)}
            bench.admit(box.write_letter, letter, execution_id=f"letter-{number}")
            bench.run()
        answered = state_of(bench, box.Mailbox, "bob").letters
        record, entries = bench.record("ann"), len(bench.history("ann"))
    assert waited == waits_since
    assert [one.text for one in answered] == [f"ann has read: {number}" for number in range(80)]
    assert record.incarnation == 2
    assert entries < box.LARGE


def test_no_piece_is_sold_twice_and_who_waits_is_served(registry: Registry):
    """cases 178, 189; spec S3, S5: five orders, three pieces, then two more."""
    shop = module(registry, "shared_stock")

    with Bench(shop.order_article, shop.restock) as bench:
        bench.admit(shop.restock, {"article": "chair", "pieces": 3}, execution_id="first")
        for number in range(5):
            bench.admit(shop.order_article, shop.OrderArticle("chair"), execution_id=f"o{number}")
        bench.run_to(bench.clock.now_ms() + 3_600_000)
        sold = [bench.record(f"o{number}").status.terminal for number in range(5)]
        bench.admit(shop.restock, {"article": "chair", "pieces": 2}, execution_id="second")
        bench.run()

        results = [bench.result(f"o{number}").result for number in range(5)]
        stock = state_of(bench, shop.Stock, "chair")
    assert sum(sold) == 3
    assert results == ["sold"] * 5
    assert stock == shop.Stock(left=0, held={})


def test_pieces_that_are_not_paid_go_to_the_next_order(registry: Registry):
    """spec S2, S3: giving back is a write like any other."""
    shop = module(registry, "shared_stock")

    with Bench(shop.order_article, shop.restock) as bench:
        bench.admit(shop.restock, {"article": "chair", "pieces": 2}, execution_id="first")
        bench.run()
        bad = shop.OrderArticle("chair", pieces=2, card="stolen")
        bench.admit(shop.order_article, bad, execution_id="bad")
        bench.run(until=lambda: len(bench.history("bad")) > 1)
        good = shop.OrderArticle("chair", pieces=1)
        bench.admit(shop.order_article, good, execution_id="good")
        bench.crash()
        bench.run()

        results = [bench.result(name).result for name in ("bad", "good")]
        stock = state_of(bench, shop.Stock, "chair")
    assert results == ["not paid: a stolen card", "sold"]
    assert stock == shop.Stock(left=1, held={})


@pytest.mark.parametrize(("paid", "left"), [(True, 0), (False, 1)])
def test_a_cancelled_order_holds_nothing(registry: Registry, paid: bool, left: int):
    """spec C6: what was paid is sold, what was not is given back, though it is cancelled there."""
    shop = module(registry, "shared_stock")

    def charge(card: str, pieces: int) -> str:
        if not paid:
            raise TimeoutError("the bank is away")
        return "paid"

    with Bench(
        shop.order_article, shop.restock, fakes={shop.charge: charge}, duration=lambda call: 1_000
    ) as bench:
        bench.admit(shop.restock, {"article": "chair", "pieces": 1}, execution_id="r")
        bench.admit(shop.order_article, shop.OrderArticle("chair"), execution_id="o")
        bench.run_to(bench.clock.now_ms() + 500)
        answer = bench.cancel("o", "no longer wanted")
        bench.run()

        status = bench.record("o").status
        stock = state_of(bench, shop.Stock, "chair")
    assert answer == "requested"
    assert status == "cancelled"
    assert stock == shop.Stock(left=left, held={})


def test_an_order_that_lost_its_patience_holds_nothing(registry: Registry):
    """spec O6, S5: what comes later is for others."""
    shop = module(registry, "shared_stock")

    with Bench(shop.order_article, shop.restock) as bench:
        bench.admit(shop.order_article, shop.OrderArticle("chair"), execution_id="o")
        bench.run()
        bench.admit(shop.restock, {"article": "chair", "pieces": 1}, execution_id="r")
        bench.run()

        done = bench.result("o")
        stock = state_of(bench, shop.Stock, "chair")
    assert done.result == "sold out"
    assert done.record.updated_at - done.record.admitted_at >= 7 * 86_400_000
    assert stock == shop.Stock(left=1, held={})


def test_no_more_calls_are_made_than_the_bucket_and_its_refill_allow(registry: Registry):
    """spec S4, S5: thirty calls, five saved up, one more each second; two workers, a crash."""
    limited = module(registry, "rate_limited")
    calls: list[int] = []

    def ask(service: str, name: str) -> str | None:
        calls.append(bench.clock.now_ms())
        return None if len(calls) == 7 else name

    fakes = {limited.ask_service: ask}
    with Bench(limited.find_place, limited.refill_bucket, fakes=fakes) as bench:
        began = bench.clock.now_ms()
        bench.admit(limited.refill_bucket, limited.Refill("maps", "1s"), execution_id="refill")
        for number in range(30):
            params = {"service": "maps", "name": f"town-{number}"}
            bench.admit(limited.find_place, params, execution_id=f"f{number}")
        bench.start_worker()
        bench.start_worker()
        bench.run_to(began + 10_000)
        bench.crash()
        bench.run()

        results = [bench.result(f"f{number}").result for number in range(30)]
        bucket = state_of(bench, limited.Bucket, "maps")
        refill = bench.record("refill")
    assert results == [f"town-{number}" for number in range(30)]
    assert len(calls) == 31
    for number, called in enumerate(calls):
        assert number < 5 + (called - began) // 1_000, "a call without a token"
    assert calls[-1] - began == 26_000
    assert bucket == limited.Bucket(left=5, size=5)
    assert refill.outcome is None
    assert refill.due_at is None


# --- a controller --------------------------------------------------------------------------------


@pytest.fixture
def fast_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: the supervisor's life is 30,000 commits."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(prefix="ys-", dir="/dev/shm") as folder:
        yield Path(folder)


class Farm:
    """The supervisor under a random life: what it was asked for, and what must come of it."""

    def __init__(self, bench: Bench, supervisor: ModuleType, seed: int) -> None:
        self.bench = bench
        self.words = supervisor
        self.chance = random.Random(seed)
        #: Each build asked for, and how it must end.
        self.asked: dict[str, str] = {}
        #: The moment at which those that take too long must be stopped.
        self.limits: dict[str, int] = {}
        self._stoppable: list[str] = []
        bench.admit("supervisor", execution_id="farm")
        # Nobody runs it: its messages stay, for the test to read.
        bench.admit("desk", execution_id="desk")

    def rounds(self) -> int:
        """How many rounds the supervisor has had so far."""
        text = self.bench.record("farm").status_value_json
        return 0 if text is None else json.loads(text)["rounds"]

    def ask(self) -> None:
        """Send one command: mostly a start, now and then a stop or what is no command."""
        draw = self.chance.random()
        if draw < 0.02:
            self.bench.send("farm", "commands", {"do": "dance"})
        elif draw < 0.45 and self._stoppable:
            # It runs for a day, so it is certain how it ends.
            name = self._stoppable.pop()
            self.bench.send("farm", "commands", self.words.Command("stop", name))
            self.asked[name] = "stopped"
        elif draw < 0.5:
            self.bench.send("farm", "commands", self.words.Command("stop", "no such build"))
        else:
            self._start()

    def _start(self) -> None:
        kind = self.chance.choice(("quick", "quick", "broken", "late", "long"))
        name = f"{kind}-{len(self.asked)}" + ("!" if kind == "broken" else "")
        takes = {"late": 9.0, "long": 86_400.0}.get(kind, self.chance.choice((0.0, 0.0, 0.0, 2.5)))
        within = 172_800.0 if kind == "long" else 3.0
        self.bench.send(
            "farm", "commands", self.words.Command("start", name, takes, within, tell="desk")
        )
        self.asked[name] = {"late": "stopped", "broken": "broken"}.get(kind, "built")
        if kind == "long":
            self._stoppable.insert(0, name)
        if kind == "late":
            self.limits[name] = self.bench.clock.now_ms() + 3_000

    def told(self) -> list[tuple[str, str]]:
        """What the desk was told: each build and how it ended."""
        sent = [json.loads(one.value) for one in self.bench.storage.inbox.messages("desk")]
        return [(one["build"], one["how"]) for one in sent]

    def builds(self) -> dict[str, ExecutionRecord]:
        """The record of each build that was ever started."""
        found = self.bench.storage.reader.find(workflow_id="build", limit=None)
        named = {json.loads(one.params_json)["build"]: one for one in found}
        assert len(named) == len(found), "a build was started twice"
        return named


def test_a_supervisor_lives_ten_thousand_rounds_and_forgets_nothing(
    registry: Registry, fast_folder: Path
):
    """spec C1-C7, M1-M4, O4: commands, children and deadlines over incarnations and crashes."""
    words = module(registry, "supervisor")
    rests: list[int] = []
    with Bench(words.supervisor, words.build, path=fast_folder / "ys.db") as bench:
        farm = Farm(bench, words, seed=7)

        while farm.rounds() < 10_000:
            for _ in range(farm.chance.choice((1, 2, 3, 40))):
                farm.ask()
            bench.run_to(bench.clock.now_ms() + farm.chance.choice((0, 500, 1_000, 4_000)))
            rests.append(len(bench.history("farm")))
            if farm.chance.random() < 0.02:
                bench.crash()
        bench.send("farm", "commands", words.Command("close"))
        bench.run()

        done, told, builds = bench.result("farm"), dict(farm.told()), farm.builds()
        first = bench.storage.reader.history(done.record.number, 1)
    assert done.result.rounds > 10_000
    assert done.record.incarnation > 100
    assert max(rests) < words.LARGE + 2 * 32  # what one batch of commands can add
    assert first == []
    assert set(builds) == set(told) == set(farm.asked)
    assert {name: how.partition(":")[0] for name, how in told.items()} == {
        name: f"{name} is built" if how == "built" else how for name, how in farm.asked.items()
    }
    assert {name: builds[name].updated_at for name in farm.limits} == farm.limits


# --- effects --------------------------------------------------------------------------------------


def test_a_card_is_charged_once_whoever_asks(registry: Registry, tmp_path: Path):
    """case 353; spec F1: the second execution has the first one's receipt."""
    charging = module(registry, "charge_once")
    bank = tmp_path / "bank"

    with Bench(charging.charge_once) as bench:
        for name in ("ann", "bob"):
            params = charging.Charge(7, bank=str(bank))
            bench.admit(charging.charge_once, params, execution_id=name)
        bench.run()

        receipts = [bench.result(name).result for name in ("ann", "bob")]
    assert receipts == [charging.Receipt("charge-order-7", 1250)] * 2
    assert bank.read_text() == "charge-order-7 1250\n"


def test_a_charge_whose_answer_was_lost_is_looked_up(registry: Registry, tmp_path: Path):
    """case 353; spec F1: charged before the answer was lost, and not again after it."""
    charging = module(registry, "charge_once")
    bank = tmp_path / "bank"

    done = run(charging.charge_once, charging.Charge(13, bank=str(bank)))

    assert done.result == charging.Receipt("charge-order-13", 1250)
    assert [entry.attempt for entry in done.history] == [2]
    assert done.record.updated_at - done.record.admitted_at == 5_000
    assert bank.read_text() == "charge-order-13 1250\n"


def test_a_declined_card_is_the_end_of_a_charge(registry: Registry, tmp_path: Path):
    """spec F1: Fatal ends the operation; nothing was charged."""
    charging = module(registry, "charge_once")

    done = run(charging.charge_once, charging.Charge(666, bank=str(tmp_path / "bank")))

    assert isinstance(done.error, charging.CardDeclined)
    assert not (tmp_path / "bank").exists()


def test_another_amount_is_another_charge_and_refused(registry: Registry, tmp_path: Path):
    """case 356; spec F1: one ID is one operation and input."""
    charging = module(registry, "charge_once")

    with Bench(charging.charge_once) as bench:
        for name, cents in (("ann", 1250), ("bob", 99)):
            params = charging.Charge(7, cents, str(tmp_path / "bank"))
            bench.admit(charging.charge_once, params, execution_id=name)
        bench.run()

        refused = bench.result("bob").error
    assert isinstance(refused, EffectMismatch)
    assert (tmp_path / "bank").read_text() == "charge-order-7 1250\n"
