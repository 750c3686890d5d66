"""The short way prints what typer's way prints, byte for byte, whatever the file holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.conftest import HELLO, MINUTE, NOON, Said, Shop
from tests.quick.conftest import ShortWay
from yieldstar_cli.failures import encode_error
from yieldstar_cli.model import (
    CancelledOutcome,
    Completed,
    Entry,
    ExecutionRecord,
    Failed,
    Suspended,
    Wait,
)
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

ODD = "o \"dd' \x1b[31m\u202e wörd 🦉"


def flat(parts: Iterable[list[str]]) -> list[str]:
    return [word for part in parts for word in part]


def alike(text: str) -> str:
    """What was printed, without the chance in an ID that was made."""
    return re.sub(r"\b(charge-order|ship-order|rest)-[0-9a-z]{8}\b", r"\1-made", text)


def kept(db: Path) -> list[ExecutionRecord]:
    """Every record of the file; made IDs are told apart by nothing."""
    storage = SqliteStorage(db, readonly=True)
    found = storage.reader.find(limit=None, sort="admitted")
    storage.close()
    return [replace(r, execution_id=alike(r.execution_id)) for r in found]


SHIP = '''
"""Orders that are sent."""

from yieldstar_cli import Step, workflow


@workflow
async def ship_order(
    step: Step,
    order: int,
    to: str = "nobody \\"here\\"",
    fast: bool = False,
    gift: str | None = None,
    parts: int | None = None,
    weight: float = 1,
    tags: list[str] = [],
) -> None:
    """Send an order."""


@workflow
async def rest(step: Step) -> None:
    """Do nothing."""
'''


def fill(shop: Shop) -> None:
    """An execution of every kind that a record can be."""
    shop.admit("fresh")
    shop.admit("later", at=NOON + 60 * MINUTE)
    shop.admit("Zoë 🦉", params={"name": ODD, "n": 2**70, "x": 1.5, "deep": [{"a": None}]})
    shop.sleeping("asleep")
    for name, outcome in (
        ("done", Completed('{"order":42,"token":"tok","text":"\\u001b[0m ü"}')),
        ("failed", Failed(encode_error(ValueError(ODD)))),
        ("cancelled", CancelledOutcome("no \x07 longer")),
    ):
        shop.admit(name, context={"by": "Ann"})
        entry = Entry(0, "step", "load-order", True, '{"a":[1,2]}', shop.clock.now_ms(), label="x")
        shop.deliver(name, entries=[entry], outcome=outcome)
    now = shop.clock.now_ms()
    waits = [
        Wait("message", "decision", "", now, None, "waiting", queue="decision"),
        Wait("timer", "timer", "1h", now, now + 60 * MINUTE, "waiting", position=1),
        Wait("step", "charge", "", now, now + MINUTE, "retrying", attempt=2, position=2),
    ]
    shop.admit("several")
    shop.deliver("several", waits=waits, outcome=Suspended(now + MINUTE))
    shop.admit("running")
    shop.claim("running")
    shop.storage.stores.put("Stock", "widget", '{"left":3}')
    store = Wait("store-when", "stock", "Stock widget", now, None, "waiting", store=("Stock", "w"))
    shop.admit("stocked")
    shop.deliver("stocked", waits=[store], outcome=Suspended(None))
    shop.storage.steering.pause(execution_id="fresh", by="Ann", reason="so")
    shop.storage.steering.pause(workflow_id="charge-order", by="Bob")
    shop.storage.steering.cancel("asleep", reason=ODD)
    shop.storage.inbox.send("asleep", "cancel", '"x"', ttl_ms=MINUTE)
    shop.close()


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory, short_way: ShortWay
) -> Iterator[Callable[..., None]]:
    """Compares one call both ways; what it admits, each way to the file as it was before."""
    root = tmp_path_factory.mktemp("project")
    (root / "ys.toml").write_text("")
    monkeypatch = pytest.MonkeyPatch()
    shop = Shop(root, monkeypatch)
    shop.module("charge_order.py", HELLO)
    shop.module("ship_order.py", SHIP)
    fill(shop)
    shop.ys("workflows")
    assert short_way.serve(root, shop.clock.now_ms(), "trigger", "rest", "-n") is not None
    assert shop.ys("trigger", "rest", "--id", "rested").code == 0
    now = shop.clock.now_ms()

    def by_typer(at: Path, words: tuple[str, ...], columns: int) -> Said:
        other = Shop(at, monkeypatch)
        other.clock.set(now)
        monkeypatch.delenv("COLUMNS", raising=False)
        return other.screen(*words, columns=columns, colour=True) if columns else other.ys(*words)

    pristine = shop.db.read_bytes()

    def compare(*words: str, columns: int = 0, admits: bool = False) -> None:
        short = short_way.serve(root, now, *words, columns=columns)
        if short is None:
            return
        stored = [kept(shop.db)] if admits else []
        if admits:
            shop.db.write_bytes(pristine)
        typer = by_typer(root, words, columns)
        assert (short.code, alike(short.out), alike(short.err)) == (
            typer.code,
            alike(typer.out),
            alike(typer.err),
        )
        if admits:
            assert stored == [kept(shop.db)]
            shop.db.write_bytes(pristine)

    yield compare
    monkeypatch.undo()


IDS = (
    *("fresh", "later", "Zoë 🦉", "asleep", "done", "failed", "cancelled", "several", "running"),
    *("stocked", "nobody", "@last", "don", "", ODD, "\udc80"),
)
_ID = st.sampled_from(IDS)
_GLOBALS = st.lists(
    st.sampled_from(
        [
            *(["--json"], ["-q"], ["--color", "always"], ["--color", "never"], ["--times", "utc"]),
            *(["--times", "local"], ["-v"], ["--db", "other.db"], ["-C", "nowhere"]),
        ]
    ),
    max_size=2,
)
_SHOW = st.tuples(
    st.just(["show"]),
    st.one_of(_ID.map(lambda name: [name]), _ID.map(lambda name: [f"--id={name}"]), st.just([])),
    st.lists(
        st.sampled_from(
            [
                *(["--history"], ["--result"], ["--reveal"], ["--step", "1"], ["--step", "9"]),
                *(["--tree"], ["--depth", "2"], ["--exit-status"], ["--incarnation", "1"]),
            ]
        ),
        max_size=3,
    ).map(flat),
)
_LIST = st.tuples(
    st.just(["list"]),
    st.sampled_from([[], ["charge-order"], ["nothing"], [ODD]]),
    st.lists(
        st.sampled_from(
            [
                *(["--failed"], ["--done"], ["--running"], ["--waiting"], ["--due"], ["--all"]),
                *(["--approvals"], ["-r"], ["--header"], ["-n", "2"], ["--sort", "due"]),
                *(["--sort", "took"], ["--sort", "x"], ["--status", "failed,suspended"]),
                *(["--status", "fialed"], ["--since", "1h"], ["--older", "1ms"], ["--since", "x"]),
                *(["--where", "order=42"], ["--where", "x"], ["--columns", "status,version"]),
            ]
        ),
        max_size=3,
    ).map(flat),
)
_WAIT = st.tuples(
    st.just(["wait", "--timeout", "0s"]),
    st.lists(_ID, max_size=3),
    st.lists(
        st.sampled_from(
            [
                *(["--any"], ["--all"], ["--result"], ["--reveal"], ["--for", "suspended"]),
                *(["--for", "sleeping"], ["--id", "done"]),
            ]
        ),
        max_size=2,
    ).map(flat),
)


@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(line=st.one_of(_SHOW, _LIST, _WAIT), options=_GLOBALS, columns=st.sampled_from([0, 60, 90]))
def test_what_is_read_is_printed_alike(
    both: Callable[..., None],
    line: tuple[list[str], ...],
    options: list[list[str]],
    columns: int,
) -> None:
    """Standard output, standard error and exit status, in a pipe and on a terminal."""
    words = flat(line)

    both(*flat(options), *words, columns=columns)


_PAIR = st.one_of(
    st.sampled_from(
        [
            *("order=42", "order=007", "order=0", "order=-1", "order=4x", "order:=5", "order="),
            *(
                'to=Zoë "q" \\\\ 🦉',
                "to=",
                "to=@nowhere",
                "to=\x1b[0m\x7f",
                "to=\udc80",
                "fast=true",
            ),
            *("fast=yes", "gift=null", "gift=x", "parts=null", "parts=3", "weight=2", "tags=a"),
            *("tags=[1]", "note=n", "odd=1", "order.x=1", "=", "x", "order=999999999999999999999"),
        ]
    ),
    st.text(max_size=4).map(lambda text: f"to={text}"),
)
_TRIGGER = st.tuples(
    st.just(["trigger"]),
    st.sampled_from(["charge-order", "ship-order", "rest", "charge_order", "nothing", "9", ""]).map(
        lambda name: [name]
    ),
    st.lists(_PAIR.map(lambda pair: ["-p", pair]), max_size=3).map(flat),
    st.lists(
        st.sampled_from(
            [
                *(["--id", "new"], ["--id", "done"], ["--id", ODD], ["--id", ""], ["--in", "10m"]),
                *(["--at", "2031-01-01T00:00Z"], ["--at", "x"], ["-n"], ["--if-exists", "show"]),
                *(["--if-exists", "same"], ["--context", "by=Ann"], ["--params", '{"order":1}']),
                *(["--params", "[]"], ["--workflows", "nowhere"], ["--timeout", "1s"]),
            ]
        ),
        max_size=2,
    ).map(flat),
)


@settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(line=_TRIGGER, options=_GLOBALS, columns=st.sampled_from([0, 0, 80]))
def test_what_is_admitted_is_stored_and_told_alike(
    both: Callable[..., None],
    line: tuple[list[str], ...],
    options: list[list[str]],
    columns: int,
) -> None:
    """The records too, to the byte of their params."""
    both(*flat(options), *flat(line), columns=columns, admits=True)
