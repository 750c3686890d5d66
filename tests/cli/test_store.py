"""`ys store`: list, get, watch, set, patch, delete."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import apsw
import pexpect
import pytest

from tests.cli.conftest import MINUTE, Said, Screen, Shop
from tests.storage.faulty_vfs import broken, faulty_disk
from yieldstar_cli.cli import call as calls
from yieldstar_cli.digests import digest_at
from yieldstar_cli.model import Reading, StoreRecord, Suspended, Wait

STOCK = """
from dataclasses import dataclass
from datetime import date
from enum import Enum

import msgspec

from yieldstar_cli import RetryPolicy, workflow


class Shade(Enum):
    RED = "red"


class Bin(msgspec.Struct):
    shelf: int = 1
    row: int = 1


class Stock(msgspec.Struct):
    left: int = 0
    note: str | None = None
    tags: list[str] = []
    counted: date | None = None
    shade: Shade = Shade.RED
    bin: Bin = msgspec.field(default_factory=Bin)


@dataclass
class Price_List:
    pens: float
    api_key: str = "none"


@workflow
async def ship(step) -> None: ...
"""

HOSTILE = "\x1b[31mred\u202e"


@pytest.fixture
def stock(shop: Shop) -> Shop:
    """A module with types, and the store Stock widget, ten left."""
    shop.module("stock.py", STOCK)
    shop.storage.stores.put("Stock", "widget", '{"left":10,"note":"new","tags":["a"]}')
    return shop


def now(shop: Shop, store_id: str = "widget", name: str = "Stock") -> StoreRecord:
    record = shop.storage.stores.get(name, store_id)
    assert record is not None
    return record


def state(shop: Shop, store_id: str = "widget", name: str = "Stock") -> Any:
    return json.loads(now(shop, store_id, name).state)


# --- looking -------------------------------------------------------------------------------------


def test_a_state_is_shown_for_people_pipes_and_programs(stock: Shop) -> None:
    """cli.md b.6; spec S7."""
    stock.storage.stores.put("Price-List", "shop", '{"pens":1.5,"api_key":"hush"}')
    stock.clock.advance(4 * MINUTE)

    screen = stock.screen("store", "get", "Price-List", "shop")
    revealed = stock.screen("store", "get", "Price-List", "shop", "--reveal")
    pipe = stock.ys("store", "get", "Price-List", "shop")
    document = stock.ys("store", "get", "Price-List", "shop", "--json")

    assert screen.out == '{\n  "pens": 1.5,\n  "api_key": "****"\n}\n'
    assert screen.err == "Price-List shop, version 0, written 4m ago.\n"
    assert '"api_key": "hush"' in revealed.out
    assert pipe == Said(0, '{"pens":1.5,"api_key":"hush"}\n', "")
    assert document.json == {
        "schema": "ys.store/1",
        "store": "Price-List",
        "id": "shop",
        "instance": now(stock, "shop", "Price-List").instance,
        "version": 0,
        "created_at": "2026-11-30T12:00:00.000Z",
        "updated_at": "2026-11-30T12:00:00.000Z",
        "state": {"pens": 1.5, "api_key": "hush"},
    }


def test_looking_loads_no_module(stock: Shop) -> None:
    """spec S7, K4."""
    stock.module("stock.py", "raise SystemExit('loaded')")

    assert stock.ys("store", "get", "Stock", "widget").code == 0
    assert stock.ys("store", "list").code == 0
    assert stock.ys("store", "watch", "Stock", "widget", "-n", "1").code == 0
    assert stock.ys("store", "delete", "Stock", "widget", "--yes").code == 0


def test_the_only_store_of_a_name_needs_no_id(stock: Shop) -> None:
    """cli.md b.3: NAME [ID]."""
    one = stock.ys("store", "get", "Stock")
    for store_id in ("b", "c", "d"):
        stock.storage.stores.put("Stock", store_id, "{}")
    several = stock.ys("store", "get", "Stock")
    written = stock.ys("store", "patch", "Stock", "left=1")

    assert (one.code, one.out) == (0, '{"left":10,"note":"new","tags":["a"]}\n')
    assert (several.code, written.code) == (2, 2)
    assert "which Stock? There are b, c, d, …" in several.err
    assert "→ ys store get Stock b\n" in several.err
    assert "→ ys store patch Stock b\n" in written.err
    assert state(stock)["left"] == 10


def test_an_unknown_store_is_four_with_the_nearest_names(stock: Shop) -> None:
    """spec S7; cli.md b.0."""
    store_id = stock.ys("store", "get", "Stock", "wigdet", "--json")
    name = stock.ys("store", "get", "Stok", "widget")
    hostile = stock.ys("store", "get", HOSTILE, HOSTILE)

    assert (store_id.code, name.code, hostile.code) == (4, 4, 4)
    assert store_id.error["code"] == "UNKNOWN_STORE"
    assert store_id.error["why"][0] == "Nearest: widget."
    assert store_id.error["remedy"] == ["ys store get Stock widget", "ys store list"]
    assert "there is no store 'Stok'" in name.err
    assert "Nearest: Stock." in name.err
    assert "\x1b" not in hostile.err
    assert "\u202e" not in hostile.err


def test_the_list_is_a_table_fields_by_tab_and_an_array(stock: Shop) -> None:
    """spec S7; cli.md b.6."""
    stock.storage.stores.put("Price-List", "shop", '{"pens":1.5}')
    stock.storage.stores.put("Stock", "gadget", '{"left":3}')
    stock.storage.stores.put("Stock", "gadget", '{"left":2}')
    stock.clock.advance(MINUTE)

    screen = stock.screen("store", "list")
    pipe = stock.ys("store", "list")
    named = stock.ys("store", "list", "Stock", "--json").json
    first = stock.ys("store", "list", "-n", "1", "-q")

    assert screen.out.splitlines() == [
        "  store       id      version  written",
        "  Price-List  shop    0        1m ago",
        "  Stock       gadget  1        1m ago",
        "  Stock       widget  0        1m ago",
    ]
    assert pipe.out == (
        "Price-List\tshop\t0\t2026-11-30T12:00:00.000Z\n"
        "Stock\tgadget\t1\t2026-11-30T12:00:00.000Z\n"
        "Stock\twidget\t0\t2026-11-30T12:00:00.000Z\n"
    )
    assert [(found["id"], found["state"]["left"]) for found in named] == [
        ("gadget", 2),
        ("widget", 10),
    ]
    assert first.out == "Price-List\tshop\n"


def test_a_list_can_do_without_the_states(stock: Shop) -> None:
    """case B88: a list stays fast whatever is stored."""
    stock.storage.stores.put("Stock", "big", '{"note":"' + "x" * 1_000_000 + '"}')

    whole = stock.storage.stores.find()
    named = stock.storage.stores.find(states=False)

    assert [len(record.state) > 1_000_000 for record in whole] == [True, False]
    assert named == [replace(record, state="") for record in whole]


def test_an_empty_list_is_no_error(shop: Shop) -> None:
    shop.admit()

    assert shop.ys("store", "list") == Said(0, "", "")
    assert shop.ys("store", "list", "--json").json == []
    assert shop.screen("store", "list", "Stock").out == "There is no store called Stock.\n"


# --- set -----------------------------------------------------------------------------------------


def test_set_writes_a_whole_state_and_fills_in_the_defaults(stock: Shop) -> None:
    """spec S7, V4: text takes the declared type."""
    said = stock.ys("store", "set", "Stock", "widget", "left=4", "counted=2026-11-30", "bin.row=7")

    assert said == Said(0, "Stock\twidget\t1\n", "")
    assert state(stock) == {
        "left": 4,
        "note": None,
        "tags": [],
        "counted": ["$ys", "date", "2026-11-30"],
        "shade": "red",
        "bin": {"shelf": 1, "row": 7},
    }


def test_set_creates_a_store_that_is_not_there(stock: Shop) -> None:
    screen = stock.screen("store", "set", "Price-List", "shop", "pens=2")
    again = stock.screen("store", "set", "Price-List", "shop", "pens=3")
    document = stock.ys("store", "set", "Price-List", "shop", "pens=4", "--json").json

    assert screen.out == "✓ Made Price-List shop, version 0.\n"
    assert again.out == "✓ Wrote Price-List shop, version 1.\n"
    assert (document["schema"], document["version"]) == ("ys.store/1", 2)
    assert document["state"] == {"pens": 4, "api_key": "none"}


@pytest.mark.parametrize("how", ["inline", "file", "stdin"])
def test_data_gives_the_whole_state_and_fields_win_over_it(stock: Shop, how: str) -> None:
    """cli.md b.3."""
    text = '{"left": 4, "tags": ["x"]}'
    (stock.root / "state.json").write_text(text)
    word = {"inline": text, "file": "@state.json", "stdin": "-"}[how]

    said = stock.ys("store", "set", "Stock", "widget", "--data", word, "left=5", stdin=text)

    assert said.code == 0, said.err
    assert (state(stock)["left"], state(stock)["tags"]) == (5, ["x"])
    assert state(stock)["note"] is None


def test_without_fields_or_data_nothing_is_set(stock: Shop) -> None:
    """A state is not lost to a line that was sent too early."""
    said = stock.ys("store", "set", "Stock", "widget")
    defaults = stock.ys("store", "set", "Stock", "widget", "--data", "{}")

    assert said.code == 2
    assert "which state?" in said.err
    assert defaults.code == 0
    assert state(stock)["left"] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["left=many"], 'state.left: expected int, got "many"'),
        (["lef=3"], "state.lef: there is no such field; did you mean left?"),
        (["bin.row=x"], 'state.bin.row: expected int, got "x"'),
        (["left=1", "left=2"], "state.left: given 2 times, but it takes one value"),
        (["left:=nope"], "state.left: "),
        (["--data", "[1]"], "state: --data takes a JSON object"),
        (["--data", '{"left":1,"left":2}'], "state"),
        (["note=\udcff"], "state.note: "),
        (["--data", '{"left":"4"}'], 'state.left: expected int, got "4"'),
    ],
)
def test_what_does_not_fit_is_five_and_changes_nothing(
    stock: Shop, words: list[str], message: str
) -> None:
    """case 166; spec S2, V3, V4."""
    before = now(stock)

    said = stock.ys("store", "set", "Stock", "widget", *words, "--json")

    assert (said.code, said.out) == (5, "")
    assert said.error["code"] == "INVALID_STATE"
    assert said.error["message"].startswith(message)
    assert "Nothing was changed." in said.error["why"]
    assert now(stock) == before


def test_a_field_without_default_has_to_be_given(stock: Shop) -> None:
    said = stock.ys("store", "set", "Price-List", "shop", "api_key=x")

    assert said.code == 5
    assert "state.pens: it has to be given" in said.err
    assert "It takes: pens: float" in said.err
    assert stock.storage.stores.get("Price-List", "shop") is None


def test_a_state_beyond_the_limit_is_refused_with_its_size(stock: Shop) -> None:
    """case 193; spec V2."""
    (stock.root / "ys.toml").write_text("max_value = 1000\n")

    said = stock.ys("store", "set", "Stock", "widget", f"note={'x' * 2000}")
    kept = stock.ys("store", "patch", "Stock", "widget", f"note={'x' * 2000}")

    assert (said.code, kept.code) == (5, 5)
    assert "bytes of JSON are more than the limit of 1,000" in said.err
    assert state(stock)["note"] == "new"


# --- the type ------------------------------------------------------------------------------------


def test_without_a_type_of_that_name_nothing_is_written(stock: Shop) -> None:
    """spec S7: none is imported because the file names it."""
    stock.storage.stores.put("Order", "1", "{}")
    stock.module("broken.py", "import nowhere_at_all")

    for action in ("set", "patch"):
        said = stock.ys("store", action, "Order", "1", "left=1", "--json")
        near = stock.ys("store", action, "Stok", "widget", "left=1")

        assert said.code == 4
        assert said.error["code"] == "UNKNOWN_STORE"
        assert "stock.py" in "".join(said.error["why"])
        assert "broken.py does not load" in "".join(said.error["why"])
        assert near.code == 4
    assert "Did you mean Stock?" in stock.ys("store", "set", "Stok", "w", "left=1").err
    assert state(stock, "1", "Order") == {}


def test_types_that_no_author_wrote_are_none(stock: Shop) -> None:
    """A module has more in it than its own types."""
    said = stock.ys("store", "set", "RetryPolicy", "x", "attempts=3")

    assert said.code == 4


def test_one_type_in_two_modules_is_one_and_two_of_a_name_are_refused(stock: Shop) -> None:
    """spec S7, K4: which of them would be a guess."""
    stock.module("yard.py", "from stock import Stock\n")
    shared = stock.ys("store", "set", "Stock", "widget", "left=1")
    stock.module("yard.py", "import msgspec\n\nclass Stock(msgspec.Struct):\n    here: int = 0\n")
    stock.module("other.py", "")

    said = stock.ys("store", "set", "Stock", "widget", "left=2")

    assert shared.code == 0, shared.err
    assert said.code == 4
    words = " ".join(said.err.split())
    assert "2 types are called Stock" in words
    assert "stock.py" in words
    assert "yard.py" in words
    assert state(stock)["left"] == 1


def test_a_type_beside_the_workflows_is_found_through_what_imports_it(shop: Shop) -> None:
    """spec R1: files that begin with _ hold no workflows, and may be imported."""
    shop.module(
        "_shapes.py", "import msgspec\n\nclass Tank(msgspec.Struct):\n    litres: int = 0\n"
    )
    shop.module("water.py", "import _shapes\n")

    said = shop.ys("store", "set", "Tank", "roof", "litres=7")

    assert said.code == 0, said.err
    assert state(shop, "roof", "Tank") == {"litres": 7}


def test_without_a_workflow_directory_there_is_no_type(shop: Shop) -> None:
    said = shop.ys("store", "set", "Stock", "widget", "left=1")

    assert said.code == 4
    assert "no workflow directory is in reach" in said.err


def test_a_directory_that_others_may_write_is_not_loaded(stock: Shop) -> None:
    """spec K5: looking needs none of it."""
    directory = stock.root / "workflows"
    directory.chmod(0o777)

    refused = stock.ys("store", "set", "Stock", "widget", "left=1", "--json")
    looked = stock.ys("store", "get", "Stock", "widget")
    trusted = stock.ys("--trust-dir", str(directory), "store", "set", "Stock", "widget", "left=1")

    assert refused.code != 0
    assert refused.error["code"] == "UNTRUSTED_PATH"
    assert looked.code == 0
    assert trusted.code == 0


def test_a_type_that_cannot_be_stored_is_said_to_be_none(shop: Shop) -> None:
    shop.module(
        "odd.py",
        "import msgspec\n\nclass Odd(msgspec.Struct):\n    fn: 'nowhere.Type'\n",
    )

    said = shop.ys("store", "set", "Odd", "x", "fn=1")

    assert said.code == 5, said.err
    assert "Odd in odd.py is no type of a state" in said.err


@pytest.mark.parametrize("error", ["ValueError", "KeyError"])
def test_what_the_types_own_code_refuses_is_five(shop: Shop, error: str) -> None:
    """spec V3: no traceback for what a user can cause."""
    shop.module(
        "strict.py",
        "import msgspec\n\nclass Strict(msgspec.Struct):\n    left: int\n\n"
        f"    def __post_init__(self):\n        if self.left < 0: raise {error}('below nothing')\n",
    )

    said = shop.ys("store", "set", "Strict", "x", "left=-1")

    assert said.code == 5, said.err
    assert "below nothing" in said.err


# --- patch ---------------------------------------------------------------------------------------


def test_patch_changes_the_fields_given_and_no_others(stock: Shop) -> None:
    """cli.md b.3; spec S7."""
    stock.ys("store", "set", "Stock", "widget", "left=4", "counted=2026-11-30", "bin.shelf=9")
    before = state(stock)

    said = stock.ys("store", "patch", "Stock", "widget", "note=sold out", "bin.row=2")

    assert said == Said(0, "Stock\twidget\t2\n", "")
    assert state(stock) == before | {"note": "sold out", "bin": {"shelf": 9, "row": 2}}


def test_patch_takes_null_and_json(stock: Shop) -> None:
    """spec V4."""
    stock.ys("store", "patch", "Stock", "widget", "note:=null", 'tags:=["x", "y"]')

    assert state(stock)["note"] is None
    assert state(stock)["tags"] == ["x", "y"]


def test_patch_needs_fields_and_a_store(stock: Shop) -> None:
    assert stock.ys("store", "patch", "Stock", "widget").code == 2
    assert stock.ys("store", "patch", "Stock", "gadget", "left=1").code == 4
    assert stock.ys("store", "patch", "Price-List", "pens=1").code == 4
    assert stock.storage.stores.get("Stock", "gadget") is None


def test_patch_may_put_right_what_no_longer_fits(stock: Shop) -> None:
    """A type gained a field; the state lacks it until it is given."""
    stock.storage.stores.put("Price-List", "shop", '{"api_key":"k","gone":1}')

    wrong = stock.ys("store", "patch", "Price-List", "shop", "api_key=l")
    stock.storage.stores.put("Price-List", "shop", '{"api_key":"k"}')
    right = stock.ys("store", "patch", "Price-List", "shop", "pens=1")

    assert wrong.code == 5
    assert right.code == 0, right.err
    assert state(stock, "shop", "Price-List") == {"pens": 1, "api_key": "k"}


def test_patch_keeps_what_others_write_meanwhile(
    stock: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spec S2: computed anew from the state as it is."""
    from yieldstar_cli import checking_stores

    real = checking_stores.patched_state
    others = iter(['{"left":7,"note":"theirs"}'])

    def slow(*args: Any, **words: Any) -> str:
        made = real(*args, **words)
        for text in others:
            stock.storage.stores.put("Stock", "widget", text)
        return made

    monkeypatch.setattr(checking_stores, "patched_state", slow)

    said = stock.ys("store", "patch", "Stock", "widget", "left=1")

    assert said == Said(0, "Stock\twidget\t2\n", "")
    assert (state(stock)["left"], state(stock)["note"]) == (1, "theirs")


# --- versions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("set", "Stock", "widget", "left=1"),
        ("patch", "Stock", "widget", "left=1"),
        ("delete", "Stock", "widget", "--yes"),
    ],
)
def test_another_version_is_three_and_names_the_actual_one(
    stock: Shop, words: tuple[str, ...]
) -> None:
    """case 176; cli.md b.3."""
    stock.storage.stores.put("Stock", "widget", '{"left":9}')

    late = stock.ys("store", *words, "--if-version", "0", "--json")
    before = state(stock)
    right = stock.ys("store", *words, "--if-version", "1")

    assert (late.code, late.out) == (3, "")
    assert late.error["code"] == "STORE_CONFLICT"
    assert "is at version 1" in late.error["message"]
    assert late.error["remedy"] == ["ys store get Stock widget"]
    assert before == {"left": 9}
    assert right.code == 0, right.err


def test_version_minus_one_is_only_where_there_is_none(stock: Shop) -> None:
    there = stock.ys("store", "set", "Stock", "widget", "left=1", "--if-version", "-1")
    new = stock.ys("store", "set", "Stock", "gadget", "left=1", "--if-version", "-1")
    missing = stock.ys("store", "set", "Stock", "other", "left=1", "--if-version", "0")

    assert (there.code, new.code, missing.code) == (3, 0, 3)
    assert state(stock)["left"] == 10


def test_an_id_that_looks_like_something_else_is_given_literally(stock: Shop) -> None:
    """cli.md b.0: --id=ID."""
    for store_id in ("a=b", "-x", "it's"):
        assert stock.ys("store", "set", "Stock", f"--id={store_id}", "left=1").code == 0
        late = stock.ys(
            "store", "set", "Stock", f"--id={store_id}", "left=1", "--if-version=7", "--json"
        )
        assert state(stock, store_id)["left"] == 1
        # The line that is named can be typed.
        words = shlex.split(late.error["remedy"][0])
        assert stock.ys(*words[1:], "--json").json["id"] == store_id
    assert stock.ys("store", "get", "Stock", "a=b").code == 0
    assert stock.ys("store", "set", "Stock", "x", "--id=y", "left=1").code == 2


@pytest.mark.parametrize("store_id", ["", " x", "a\nb", HOSTILE, "x" * 256])
def test_an_id_that_cannot_be_one_is_refused(stock: Shop, store_id: str) -> None:
    """spec S1, E2."""
    said = stock.ys("store", "set", "Stock", f"--id={store_id}", "left=1", "--json")

    assert said.code == 5
    assert said.error["code"] == "INVALID_STATE"
    assert "\x1b" not in said.err


# --- delete --------------------------------------------------------------------------------------


def test_delete_needs_a_yes(stock: Shop) -> None:
    """cli.md b.3: asks before delete."""
    refused = stock.ys("store", "delete", "Stock", "widget")
    kept = now(stock)
    screen = stock.screen("store", "delete", "Stock", "widget", "-y")

    assert refused.code == 2
    assert "--yes" in refused.err
    assert "--dry-run" not in refused.err
    assert kept.version == 0
    assert screen.out == "✓ Deleted Stock widget.\n"
    assert stock.storage.stores.get("Stock", "widget") is None
    assert stock.ys("store", "delete", "Stock", "widget", "--yes").code == 4


@pytest.mark.parametrize(("answer", "code", "left"), [("n\n", 0, True), ("y\n", 0, False)])
def test_on_a_terminal_it_is_asked(
    stock: Shop, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, left: bool
) -> None:
    said = on_a_terminal(stock, monkeypatch, lambda: answer, "store", "delete", "Stock", "widget")

    assert said.code == code
    assert "Delete Stock widget, version 0? [y/N]" in said.err
    assert (stock.storage.stores.get("Stock", "widget") is not None) == left


def test_what_was_written_while_it_was_asked_is_not_deleted(
    stock: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person says yes to what was shown."""

    def answer() -> str:
        stock.storage.stores.put("Stock", "widget", '{"left":99}')
        return "y\n"

    said = on_a_terminal(stock, monkeypatch, answer, "store", "delete", "Stock", "widget")

    assert said.code == 3
    assert state(stock) == {"left": 99}


def on_a_terminal(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, answer: Callable[[], str], *words: str
) -> Said:
    """A call whose question is answered by a person."""
    from yieldstar_cli.cli.app import run

    class Person:
        encoding = "utf-8"

        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            return answer()

    out, err = Screen(), Screen()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", Person())
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        patch.chdir(shop.root)
        code = run(["--color", "never", *words], clock=shop.clock)
    return Said(code, out.getvalue(), err.getvalue())


def test_a_deleted_store_is_told_as_an_answer(stock: Shop) -> None:
    said = stock.ys("store", "delete", "Stock", "--yes", "--json")

    assert said.json == {
        "schema": "ys.answer/1",
        "store": "Stock",
        "id": "widget",
        "answer": "deleted",
    }


# --- who waits -----------------------------------------------------------------------------------


def await_left(shop: Shop, execution_id: str) -> None:
    """An execution that has read in vain how many are left."""
    before = now(shop)
    shop.admit(execution_id)
    readings = (Reading(("left",), digest_at({"left": 10}, ("left",))),)
    wait = Wait(
        "store-when",
        execution_id,
        "",
        shop.clock.now_ms(),
        None,
        "waiting",
        store=("Stock", "widget"),
        read=readings,
        instance=before.instance,
    )
    shop.deliver(execution_id, waits=[wait], outcome=Suspended())


def due_at(shop: Shop, execution_id: str = "order-42") -> int | None:
    record = shop.storage.executions.get(execution_id)
    assert record is not None
    return record.due_at


@pytest.mark.parametrize(
    ("words", "wakes"),
    [
        (("set", "Stock", "widget", "left=11"), True),
        (("set", "Stock", "widget", "left=10"), False),
        (("patch", "Stock", "widget", "left=9"), True),
        (("patch", "Stock", "widget", "note=other"), False),
        (("delete", "Stock", "widget", "--yes"), True),
        (("set", "Stock", "gadget", "left=11"), False),
    ],
)
def test_a_write_from_outside_wakes_who_waits_for_what_it_changed(
    stock: Shop, words: tuple[str, ...], wakes: bool
) -> None:
    """cases 181, 189; spec S3, S4, S7."""
    await_left(stock, "order-42")
    assert due_at(stock) is None

    said = stock.ys("store", *words)

    assert said.code == 0, said.err
    assert (due_at(stock) is not None) == wakes


# --- watch ---------------------------------------------------------------------------------------


@pytest.fixture
def meanwhile(stock: Shop, monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What others do while a watching call rests, one after the other."""
    waiting: list[Callable[[], object]] = []

    def rest(span: float) -> None:
        assert waiting, "it rests, and nothing is to come"
        waiting.pop(0)()

    real = calls.Call.__init__

    def with_rest(self: calls.Call, *args: Any, **words: Any) -> None:
        real(self, *args, **{"pause": rest, **words})

    monkeypatch.setattr(calls.Call, "__init__", with_rest)
    return waiting


def test_watch_prints_the_state_now_and_after_each_change(
    stock: Shop, meanwhile: list[Callable[[], object]]
) -> None:
    """spec S7."""
    stores = stock.storage.stores
    meanwhile += [
        lambda: stores.put("Stock", "gadget", '{"left":1}'),
        lambda: stores.put("Stock", "widget", '{"left":9}'),
        lambda: stores.put("Stock", "widget", '{"left":8}'),
    ]

    said = stock.ys("store", "watch", "Stock", "widget", "-n", "3")

    assert said.out == (
        '0\t2026-11-30T12:00:00.000Z\t{"left":10,"note":"new","tags":["a"]}\n'
        '1\t2026-11-30T12:00:00.000Z\t{"left":9}\n'
        '2\t2026-11-30T12:00:00.000Z\t{"left":8}\n'
    )
    assert said.code == 0


def test_watch_sees_a_store_deleted_and_made_anew(
    stock: Shop, meanwhile: list[Callable[[], object]]
) -> None:
    """case 162; spec S2: another instance at the same version is another state."""
    stores = stock.storage.stores
    first = now(stock).instance
    meanwhile += [
        lambda: stores.delete("Stock", "widget"),
        lambda: stores.put("Stock", "widget", '{"left":10}'),
    ]

    said = stock.ys("store", "watch", "Stock", "-n", "3", "--json")

    found = [json.loads(line) for line in said.out.splitlines()]
    assert [(one["version"], one["state"] and one["state"]["left"]) for one in found] == [
        (0, 10),
        (None, None),
        (0, 10),
    ]
    assert found[0]["instance"] == first != found[2]["instance"]
    assert {(one["schema"], one["store"], one["id"]) for one in found} == {
        ("ys.store/1", "Stock", "widget")
    }


def test_watch_on_a_terminal_is_a_line_for_each_state(
    stock: Shop, meanwhile: list[Callable[[], object]]
) -> None:
    stores = stock.storage.stores
    stores.put("Stock", "widget", '{"left":9,"api_key":"hush"}')
    meanwhile += [lambda: stores.delete("Stock", "widget")]

    said = stock.screen("store", "watch", "Stock", "-n", "2")

    lines = said.out.splitlines()
    assert lines[0].endswith("  1  left=9  api_key=****")
    assert lines[1] == "· deleted"


def test_watch_ends_with_ctrl_c(stock: Shop, meanwhile: list[Callable[[], object]]) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    meanwhile += [interrupt]

    said = stock.ys("store", "watch", "Stock", "widget")

    assert said.code == 130
    assert len(said.out.splitlines()) == 1


# --- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("get",),
        ("get", "Stock", "a", "b"),
        ("get", "Stock", "a", "--id=b"),
        ("set", "left=1"),
        ("set", "Stock", "widget", "left"),
        ("patch",),
        ("delete",),
        ("watch", "Stock", "-n", "0"),
        ("list", "Stock", "widget"),
        ("set", "Stock", "widget", "left=1", "--if-version", "two"),
        ("set", "Stock", "widget", "note=@/nowhere"),
    ],
)
def test_words_that_do_not_fit_are_two(stock: Shop, words: tuple[str, ...]) -> None:
    before = now(stock)

    said = stock.ys("store", *words, "--json")

    assert (said.code, said.out) == (2, "")
    assert said.error["code"] == "USAGE"
    assert now(stock) == before


def test_global_options_stand_anywhere(stock: Shop) -> None:
    """cli.md b.0: before or after the verb."""
    places = [
        ("--json", "store", "get", "Stock"),
        ("store", "--json", "get", "Stock"),
        ("store", "get", "--json", "Stock"),
        ("store", "get", "Stock", "--json"),
    ]

    assert {stock.ys(*words).json["id"] for words in places} == {"widget"}


def test_hostile_text_reaches_no_terminal(stock: Shop) -> None:
    """spec K6."""
    stock.ys("store", "patch", "Stock", "widget", f"note={HOSTILE}")

    for said in (
        stock.screen("store", "get", "Stock"),
        stock.screen("store", "list"),
        stock.screen("store", "watch", "Stock", "-n", "1"),
        stock.ys("store", "get", "Stock"),
        stock.ys("store", "get", "Stock", "--json"),
        stock.ys("store", "watch", "Stock", "-n", "1"),
    ):
        assert said.code == 0
        assert "\x1b" not in said.out
        assert "\u202e" not in said.out
    assert state(stock)["note"] == HOSTILE


# --- trouble -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("set", "Stock", "widget", "left=1"), "the state was written"),
        (("patch", "Stock", "widget", "left=1"), "the state was written"),
        (("delete", "Stock", "widget", "--yes"), "it was deleted"),
    ],
)
def test_a_write_of_unknown_fate_is_said_to_be_unknown(
    stock: Shop, words: tuple[str, ...], said: str
) -> None:
    """case 31: never "failed", and what tells is named."""
    with faulty_disk() as disk:
        disk.arm(broken, at=1, times=10_000, only=("sync", "-wal"))
        answer = stock.ys("store", *words)
        disk.disarm()

    assert (answer.code, answer.out) == (11, "")
    assert f"it is not known whether {said}" in answer.err
    assert "→ This tells: ys store get Stock widget\n" in answer.err


@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("get", "Stock", "widget"),
        ("watch", "Stock", "widget"),
        ("set", "Stock", "widget", "left=1"),
        ("patch", "Stock", "widget", "left=1"),
        ("delete", "Stock", "widget", "--yes"),
    ],
)
def test_a_newer_file_is_ten(stock: Shop, words: tuple[str, ...]) -> None:
    """case B30; spec K7."""
    stock.close()
    connection = apsw.Connection(str(stock.db))
    (version,) = next(connection.execute("PRAGMA user_version"))
    connection.execute(f"PRAGMA user_version = {version + 1}")
    connection.close()

    said = stock.ys("store", *words, "--json")

    assert (said.code, said.error["code"]) == (10, "SCHEMA_TOO_NEW")


def test_without_a_database_looking_is_ten_and_setting_makes_it(shop: Shop) -> None:
    """spec K8."""
    shop.module("stock.py", STOCK)

    assert shop.ys("store", "list").code == 10
    assert shop.ys("store", "get", "Stock", "widget").code == 10
    assert shop.ys("store", "set", "Stock", "widget", "left=1").code == 0
    assert shop.ys("store", "get", "Stock", "widget").code == 0


# --- processes -----------------------------------------------------------------------------------

SHIP = """
import msgspec

from yieldstar_cli import Step, workflow


class Stock(msgspec.Struct):
    left: int = 0


def claim(state: Stock, count: int) -> None:
    state.left -= count


@workflow
async def ship(step: Step, count: int) -> int:
    stock = await step.store(Stock, "widget", initial=Stock())
    return await stock.take(lambda state: count if state.left >= count else None, claim)
"""


def test_what_is_set_from_outside_lets_a_waiting_execution_go_on(shop: Shop) -> None:
    """cases 178, 189; spec S5, S7: the real command, each call a process."""
    shop.module("ship.py", SHIP)
    shop.process("trigger", "ship", "--id", "order-42", "-p", "count=3")
    shop.process("worker", "--until-idle")
    waiting = shop.process("show", "order-42", "--json").json

    too_few = shop.process("store", "set", "Stock", "widget", "left=2")
    shop.process("worker", "--until-idle")
    still = shop.process("show", "order-42", "--json").json
    enough = shop.process("store", "set", "Stock", "widget", "left=10")
    shop.process("worker", "--until-idle")
    done = shop.process("wait", "order-42", "--timeout", "20s")

    assert waiting["status"] == still["status"] == "suspended"
    assert (too_few.code, enough.code) == (0, 0)
    assert (done.code, done.out) == (0, "order-42\tcompleted\t3\n")
    assert shop.process("store", "get", "Stock").out == '{"left":7}\n'


def test_a_watch_in_a_process_sees_what_others_write_and_ends_with_ctrl_c(stock: Shop) -> None:
    """spec S7."""
    watching = pexpect.spawn(
        sys.executable,
        ["-m", "yieldstar_cli", "store", "watch", "Stock", "widget", "--json"],
        cwd=str(stock.root),
        encoding="utf-8",
        dimensions=(24, 300),
        timeout=30,
    )
    watching.expect('"version":0')

    written = stock.process("store", "patch", "Stock", "widget", "left=9")
    watching.expect('"version":1.*"left":9')
    watching.sendintr()
    watching.expect(pexpect.EOF)
    watching.close()

    assert written.code == 0
    assert watching.exitstatus == 130
