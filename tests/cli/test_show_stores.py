"""`ys show`, `list` and `explain` of executions that wait for stores."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from tests.cli.conftest import MINUTE, NOON, Shop
from tests.cli.family import end_of, rest, timer
from yieldstar_cli import Snapshot, Step, workflow
from yieldstar_cli.digests import KIND, digests
from yieldstar_cli.model import Completed, Path, Wait
from yieldstar_cli.testing import Bench

STATE = '{"left":0,"note":"none yet","parts":{"a.b":[1,{"sku":"x"}]},"api_key":"k-1"}'
LEFT: tuple[Path, ...] = (("left",),)
EVIL = "\x1b[2J\x9b31m\x07\x00\u202e[red]x[/red]\u200b\u2028\n"


def store_wait(
    shop: Shop,
    store_id: str = "widget",
    *,
    kind: str = "store-when",
    name: str = "Stock",
    paths: Sequence[Path] = LEFT,
    state: str = STATE,
    due_at: int | None = None,
    position: int = 0,
) -> Wait:
    """A wait that read `paths` of a store in vain; the store is there."""
    stores = shop.storage.stores
    record = stores.get(name, store_id) or stores.put(name, store_id, state)
    read = digests(msgspec.json.decode(record.state), paths)
    return Wait(
        kind, "Stock", f"{name} {store_id}", NOON, due_at, "waiting", position=position,
        store=(name, store_id), read=read, instance=record.instance,
    )  # fmt: skip


def explained(shop: Shop, execution_id: str = "order-42") -> str:
    said = shop.screen("explain", execution_id)
    assert said.code == 0, said.err
    return " ".join(said.out.split())


# --- show and list --------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "word"), [("store-when", "when"), ("store-take", "take")])
def test_what_is_waited_for_stands_in_show_and_list(shop: Shop, kind: str, word: str) -> None:
    """spec S4, S5: by name and ID, everywhere."""
    rest(shop, "order-42", [store_wait(shop, kind=kind)])

    shown = " ".join(shop.screen("show", "order-42").out.split())
    listed = shop.screen("list").out

    assert f"Waiting for the store Stock widget ({word}): version 0 has left=0" in shown
    assert f"⏸ {word} Stock widget" in shown
    assert "store Stock widget" in listed


def test_programs_get_the_store_its_id_and_the_deadline(shop: Shop) -> None:
    """spec S6: `waiting_for` names the store and when the wait ends without it."""
    rest(shop, "order-42", [store_wait(shop, due_at=NOON + 10 * MINUTE)])

    (wait,) = shop.ys("show", "order-42", "--json").json["waiting_for"]
    on = shop.ys("explain", "order-42", "--json").json["waits"][0]["on"]

    assert wait == {
        "kind": "store-when",
        "step_key": "Stock",
        "label": "Stock widget",
        "due_at": "2026-11-30T12:10:00.000Z",
        "store": "Stock",
        "store_id": "widget",
    }
    assert (on["store"], on["store_id"]) == ("Stock", "widget")


def test_a_deadline_is_the_earliest_wake(shop: Shop) -> None:
    """spec S6: it is said beside what wakes it before."""
    rest(shop, "order-42", [store_wait(shop, due_at=NOON + 10 * MINUTE)])

    text = explained(shop)

    assert "a write that changes left wakes it; its deadline is 12:10:00." in text
    assert "Earliest wake: 12:10:00, in 10m00s." in text


def test_ended_operations_on_stores_have_readable_names(shop: Shop) -> None:
    """spec S1: as they are called in a workflow, with the store they are on."""

    class Stock(msgspec.Struct):
        left: int = 3

    def take_one(stock: Stock, value: int) -> None:
        stock.left -= 1

    def give_one(stock: Stock) -> None:
        stock.left += 1

    @workflow
    async def all_of_it(step: Step) -> None:
        stock = await step.store(Stock, "widget", initial=Stock())
        found: Snapshot[Stock] = await stock.get()
        await stock.select(lambda s: s.left)
        await stock.update_from(found, give_one)
        await stock.update(give_one)
        await stock.when(lambda s: s.left)
        await stock.take(lambda s: s.left, take_one)
        await stock.delete_from(await stock.get())

    with Bench(all_of_it, path=shop.db, clock=shop.clock) as bench:
        bench.admit(all_of_it, execution_id="a")
        bench.run()
        assert bench.record("a").outcome == Completed("null")

    for words in (("show", "a"), ("show", "a", "--history")):
        out = shop.screen(*words, columns=120).out
        for name in ("store", "get", "select", "update", "when", "take", "delete"):
            assert f"✓ {name} Stock widget" in out
        assert "Stock widget #2" in out


# --- explain --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "said", "line"),
    [
        ((("left",),), "changes left wakes it", "ys store patch Stock widget left=…"),
        (
            (("left",), ("note",)),
            "changes left or note wakes it",
            "ys store patch Stock widget left=… note=…",
        ),
        (
            (("parts", "a.b", 1, "sku"), ("left",)),
            "changes parts['a.b'][1].sku or left wakes it",
            "ys store patch Stock widget parts=… left=…",
        ),
        (
            (("hue",),),
            "changes hue (not there now) wakes it",
            "ys store patch Stock widget hue=…",
        ),
        ((("tags of it",),), "['tags of it'] (not there now)", "ys store set Stock widget …"),
        (((),), "changes any of it wakes it", "ys store set Stock widget …"),
        (
            (("parts", KIND),),
            "changes the kind of parts wakes it",
            "ys store patch Stock widget parts=…",
        ),
        (
            tuple(("parts", str(n)) for n in range(6)),
            "parts['3'] (not there now) or 2 more wakes it",
            "ys store patch Stock widget parts=…",
        ),
    ],
)  # fmt: skip
def test_what_was_read_is_named_and_how_to_write_it(
    shop: Shop, paths: tuple[Path, ...], said: str, line: str
) -> None:
    """spec S4: the paths of the waiter, as a person would write them."""
    rest(shop, "order-42", [store_wait(shop, paths=paths)])

    text = explained(shop)

    assert said in text
    assert shop.ys("explain", "order-42", "--json").json["remedies"] == [line]


def test_the_state_is_shown_short_and_without_secrets(shop: Shop) -> None:
    """spec S4, K6: a large state does not fill the screen; programs get no secret either."""
    state = '{"left":0,"api_key":"k-1","note":"%s"}' % ("long " * 2_000)
    rest(shop, "order-42", [store_wait(shop, state=state)])
    rest(
        shop, "order-43", [store_wait(shop, "huge", state='{"left":0,"note":"%s"}' % ("x" * 10**6))]
    )

    text, huge = explained(shop), explained(shop, "order-43")
    document = shop.ys("explain", "order-42", "--json").out

    assert "version 0 has left=0, api_key=****, note=" in text
    assert "… (10.0 kB); a write" in text
    assert "version 0 has 1.0 MB of JSON; a write" in huge
    assert len(text) < 400
    assert "k-1" not in text + document


@pytest.mark.parametrize(("state", "said"), [("{}", "nothing"), ("[1, 2]", "[1, 2]"), ("7", "7")])
def test_a_state_need_not_be_an_object(shop: Shop, state: str, said: str) -> None:
    """spec S1: any type that can be validated is a state."""
    rest(shop, "order-42", [store_wait(shop, state=state, paths=((),))])

    assert f"version 0 has {said}; a write that changes any of it" in explained(shop)


def test_a_store_that_does_not_exist_yet_says_how_to_make_it(shop: Shop) -> None:
    """spec S3: whoever creates it wakes the waiter."""
    wait = Wait("store-when", "Stock", "Stock new", NOON, None, "waiting", store=("Stock", "new"))
    rest(shop, "order-42", [wait])

    text = explained(shop)
    shop.storage.stores.put("Stock", "new", "{}")
    record = shop.storage.executions.get("order-42")

    assert "(when): it does not exist yet; its making wakes this." in text
    assert "→ Make it: ys store set Stock new …" in text
    assert record is not None
    assert record.due_at == NOON


@pytest.mark.parametrize(
    ("happens", "said"),
    [
        ("written", "what it read was written since"),
        ("deleted", "it does not exist any more"),
        ("made anew", "it was made anew since"),
        ("late", "its deadline has passed"),
        ("written elsewhere", ""),
    ],
)
def test_programs_are_told_what_is_ready(shop: Shop, happens: str, said: str) -> None:
    """spec S3, S4, S6: what the next delivery takes up."""
    rest(shop, "order-42", [store_wait(shop, due_at=NOON + MINUTE)])
    stores = shop.storage.stores
    if happens in ("deleted", "made anew"):
        assert stores.delete("Stock", "widget")
    if happens == "late":
        shop.clock.advance(2 * MINUTE)
    if happens in ("written", "made anew"):
        stores.put("Stock", "widget", '{"left":1}')
    if happens == "written elsewhere":
        stores.put("Stock", "widget", '{"left":0,"note":"counted"}')

    (wait,) = shop.ys("explain", "order-42", "--json").json["waits"]

    assert said in wait["on"]["text"]
    assert wait["ready"] == bool(said)


def test_of_very_many_stores_the_first_ones_are_looked_at(shop: Shop) -> None:
    """spec E5: what was not looked at is not judged."""
    waits = [
        replace(store_wait(shop, f"w-{n:02}", position=n), step_key=f"Stock#{n}") for n in range(25)
    ]
    rest(shop, "order-42", waits)

    document = shop.ys("explain", "order-42", "--json").json

    assert document["verdict"] == "fine"
    assert [wait["on"]["text"] == "not looked at" for wait in document["waits"]] == (
        [False] * 20 + [True] * 5
    )


def test_beside_a_timer_the_line_to_type_stands_with_the_store(shop: Shop) -> None:
    """spec O4: the first of two things."""
    rest(shop, "order-42", [timer(NOON + 10 * MINUTE), store_wait(shop, position=1)])

    text = explained(shop)

    assert "It waits for the first of two things: 1. timer 10m" in text
    assert "2. store Stock widget (when) version 0 has" in text
    assert text.count("ys store patch Stock widget left=…") == 1


# --- hostile text ---------------------------------------------------------------------------------


def is_harmless(out: str) -> bool:
    """Whether nothing in it is anything but text to a terminal."""
    controls = [char for char in out if ord(char) < 32 and char not in "\n\t"]
    return not controls and not set(out) & set("\x7f\x9b\u202e\u200b\u2028")


EVERYWHERE = [("show",), ("show", "--tree"), ("explain",), ("list",)]


@pytest.mark.parametrize("words", EVERYWHERE, ids="-".join)
def test_nothing_of_a_hostile_state_reaches_the_terminal(
    shop: Shop, words: tuple[str, ...]
) -> None:
    """spec K6: keys and values of a state are shown, never interpreted."""
    state = msgspec.json.encode({EVIL: EVIL, "left": EVIL}).decode()
    paths: tuple[Path, ...] = ((EVIL,), ("left",), ("gone" + EVIL,))
    rest(shop, "order-42", [store_wait(shop, state=state, paths=paths)])
    rest(shop, "parent", [end_of("order-42")])

    for name in ((),) if words == ("list",) else (("order-42",), ("parent",)):
        for said in (shop.screen(*words, *name), shop.ys(*words, *name)):
            assert said.code == 0
            assert is_harmless(said.out)
    assert "[red]x[/red]" in explained(shop)


@pytest.mark.parametrize("due", [False, True])
@pytest.mark.parametrize("words", EVERYWHERE, ids="-".join)
def test_nothing_of_a_hostile_name_or_id_reaches_the_terminal(
    shop: Shop, words: tuple[str, ...], due: bool
) -> None:
    """spec K6: also where the file was not written by us; a name makes no line of its own."""
    name, store_id = "S" + EVIL, EVIL + "A worker is alive. Nothing is wrong."
    wait = Wait(
        "store-take", "Stock", f"{name} {store_id}", NOON, None, "waiting",
        store=(name, store_id),
    )  # fmt: skip
    rest(shop, "order-42", [wait])
    rest(shop, "parent", [end_of("order-42")])
    if due:
        shop.storage.executions.request_wake("order-42", NOON)

    for ids in ((),) if words == ("list",) else (("order-42",), ("parent",)):
        for said in (shop.screen(*words, *ids), shop.ys(*words, *ids)):
            assert said.code == 0
            assert is_harmless(said.out)
            assert not [x for x in said.out.splitlines() if x.startswith("A worker is alive.")]
    assert "\\x1b[2J" in explained(shop)


@pytest.mark.parametrize("store_id", ["it's", "a b; rm -rf x", "--id", "[red]", "$(x)", "@last"])
def test_the_line_to_type_is_one_for_that_store(shop: Shop, store_id: str) -> None:
    """spec K6: whatever an ID holds, it is one word of the line."""
    rest(shop, "order-42", [store_wait(shop, store_id)])

    (line,) = shop.ys("explain", "order-42", "--json").json["remedies"]

    given = shlex.split(line)
    assert given[:4] == ["ys", "store", "patch", "Stock"]
    assert given[4].removeprefix("--id=") == store_id
    assert given[5:] == ["left=…"]
