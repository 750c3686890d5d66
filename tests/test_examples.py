"""The examples in `workflows/` load, and do what their docstrings say, on the real driver."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from yieldstar_cli.engine.catalog import to_module_infos
from yieldstar_cli.engine.registry import Registry, load_directory
from yieldstar_cli.testing import run

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
        "await-parcel",
        "backup-shop",
        "charge-order",
        "convert-price",
        "count-steps",
        "quote",
    ]


def test_all_examples_can_be_checked_without_loading_them(registry: Registry):
    """spec K4: what the cache says of them is enough."""
    from yieldstar_cli.params import opaque

    infos = [info for module in to_module_infos(registry) for info in module.workflows]

    assert len(infos) == 6
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
