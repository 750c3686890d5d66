"""A project whose database holds something in every table, and ways to plant things in it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

import apsw

from tests.cli.conftest import HELLO, MINUTE, NOON, Said, Shop
from yieldstar_cli.errors import StepTimeout
from yieldstar_cli.failures import encode_error
from yieldstar_cli.model import (
    Action,
    Attempt,
    Completed,
    Entry,
    Failed,
    HoldEffect,
    LogLine,
    Outcome,
    Reading,
    SettleEffect,
    Start,
    Suspended,
    Wait,
)

#: Commands that only read one execution, and those that read the rest.
OF_ONE: tuple[tuple[str, ...], ...] = (
    ("show",),
    ("show", "--history"),
    ("show", "--reveal", "--step", "1"),
    ("show", "--result"),
    ("show", "--tree"),
    ("explain",),
    ("messages",),
)
OF_ALL: tuple[tuple[str, ...], ...] = (
    ("list",),
    ("list", "--approvals"),
    ("workflows",),
    ("workflows", "charge-order"),
    ("store", "list"),
    ("doctor",),
)
#: What a terminal would act on, or what would look like markup or like lines of ours.
NASTY = (
    "\x1b[2J\x1b]0;t\x07\x1b]8;;file:///etc\x07\x1b]52;c;eA==\x07\x1bPq\x1b\\"
    "\x9b31m\x9d0;t\x9c\x08\r\n\x7f\u202e\u2066\u200b\u2028\ufeff e"
    + "\u0301" * 12
    + "[red]x[/red][/nope][link=file:///etc/passwd]y[/link]"
)
#: Executions that hold nearly all there is: suspended, failed, held.
SOME = ("order-42", "order-43", "order-47")
#: Words that the program itself chooses: damage there is damage, and another test's.
OURS = frozenset(("status", "answer", "kind", "state", "how", "boot_id", "created_by"))
#: Columns by which executions and stores are found.
IDS = frozenset(("execution_id", "target", "store_id", "store_name", "name"))
#: Columns that hold JSON.
JSON = frozenset(
    (
        "params", "context", "status_value", "outcome", "problem", "paused", "needs", "value",
        "error", "store_read", "workflows", "broken", "tags", "state", "input", "result",
    )
)  # fmt: skip


class Scene:
    """A shop with a record of every kind, written anew from a copy for each thing planted."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        fill(shop)
        shop.close()
        self._whole = shop.db.read_bytes()

    def plant(self, *changes: tuple[str, Callable[..., object]]) -> None:
        """Put the file back and run each UPDATE, which finds its function as `planted`."""
        for beside in self.shop.root.glob("ys.db-*"):
            beside.unlink()
        self.shop.db.write_bytes(self._whole)
        raw = apsw.Connection(str(self.shop.db))
        raw.execute("PRAGMA synchronous = OFF; PRAGMA ignore_check_constraints = ON")
        for statement, change in changes:
            raw.create_scalar_function("planted", change, 1)
            raw.execute(statement)
        raw.close()

    def plant_text(self, text: str, *, ids: bool = True) -> None:
        """`text` before or in everything textual that comes from people or their code.

        With `ids` also before those of executions and stores: where it cannot be in one, no
        command that takes an ID finds anything.
        """

        def before(old: str | None) -> str | None:
            return None if old is None else text + old

        def inside(old: str | None) -> str | None:
            return None if old is None else json.dumps(_with(json.loads(old), text))

        self.plant(
            *(
                (f"UPDATE {table} SET {column} = planted({column})", change)
                for table, column in self.columns("TEXT")
                if _is_data(table, column) and (ids or column not in IDS)
                for change in ((inside if _is_json(table, column) else before),)
            )
        )

    def columns(self, kind: str) -> list[tuple[str, str]]:
        """Table and column of every column of this type that can be written."""
        raw = apsw.Connection(str(self.shop.db))
        tables = raw.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
        found = [
            (str(table), str(column[1]))
            for (table,) in tables
            for column in raw.execute(f"PRAGMA table_xinfo({table})").fetchall()
            if column[2] == kind and not column[6]
        ]
        raw.close()
        return found

    def names(self) -> list[str]:
        """The IDs of the executions."""
        return self._column("SELECT execution_id FROM executions")

    def _column(self, statement: str) -> list[str]:
        raw = apsw.Connection(str(self.shop.db))
        found = [str(row[0]) for row in raw.execute(statement).fetchall()]
        raw.close()
        return found

    def lines(self, *, some: bool = False) -> Iterator[tuple[str, ...]]:
        """Every reading command, for each store and execution there is, or for `some` of these."""
        yield from OF_ALL
        for name in self.names():
            if some and not name.endswith(SOME):
                continue
            for verb, *options in OF_ONE:
                yield (verb, *options, "--id", name)
        for name in self._column("SELECT name || char(0) || store_id FROM stores"):
            store, _, store_id = name.partition("\0")
            yield ("store", "get", "--id", store_id, "--", store)

    def said(self, lines: Iterator[tuple[str, ...]] | None = None) -> Iterator[Sentence]:
        """What every reading command says: on a terminal, in a pipe, and as JSON."""
        for line in self.lines() if lines is None else lines:
            yield line, "screen", self.shop.screen(*line, columns=90)
            yield line, "pipe", self.shop.ys(*line)
            yield line, "json", self.shop.ys("--json", *line)


def _is_json(table: str, column: str) -> bool:
    return column in JSON and (table, column) != ("modules", "error")


def _is_data(table: str, column: str) -> bool:
    """Whether what stands there comes from people or their code."""
    if table == "modules":  # The directory is this machine's, and its files are looked at.
        return column in ("error", "workflows")
    return column not in OURS or (table, column) == ("stores", "state")


Sentence = tuple[tuple[str, ...], str, Said]


def _with(value: object, text: str) -> object:
    if isinstance(value, str) and value.startswith("{"):
        return json.dumps(_with(json.loads(value), text))
    if isinstance(value, dict):
        if "k" in value:  # A type, in words of ours.
            return value
        return {**{key: _with(part, text) for key, part in value.items()}, text: text}
    if isinstance(value, list):
        return [_with(part, text) for part in value]
    return text + value if isinstance(value, str) else value


def acted_upon(text: str) -> set[str]:
    """The characters of `text` that a terminal would act on, line feeds and tabs apart."""
    hidden = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    return {char for char in text if unicodedata.category(char) in hidden} - {"\n", "\t"}


#: What our own commands would need time, a death or another program for.
REST = """
UPDATE executions
   SET problem = '{"code":"DIVERGED","message":"other key","first_at":1,"last_at":2,"count":3}',
       held_since = 1, held_code = 'DIVERGED', held_module = 'charge_order.py'
 WHERE execution_id = 'order-47';
INSERT INTO lost_deliveries (n, token, worker, started_at, ended_at, how)
SELECT n, 9, 'shop:4412', 1, 2, 'killed' FROM executions WHERE execution_id = 'order-47';
UPDATE executions SET poisoned_at = 3, deaths = 3 WHERE execution_id = 'order-48';
UPDATE executions SET needs = '["gpu"]', needs_since = 1, parent = 1
 WHERE execution_id = 'order-46';
INSERT INTO incarnations VALUES (1, 0, 1, 1, 2, 3, '{"note":"before"}');
INSERT INTO retries VALUES (1, 1, 'step', 'charge', 2, 1, 5);
INSERT INTO effect_reports (f, at, n, kind, operation, input, result)
VALUES (1, 5, 2, 'mismatch', 'refund', '{"note":"other"}', NULL),
       (1, 6, 2, 'late', NULL, NULL, '"r-2"');
INSERT INTO messages (execution_id, queue, state, sent_at, expires_at, answer, value)
VALUES ('order-99', 'go', 'buffered', 1, 9000000000000, 'buffered', '{"note":"early"}')
"""


def fill(shop: Shop) -> None:
    """Something in every table, and executions in every state."""
    shop.module("charge_order.py", HELLO)
    shop.module("broken.py", "raise ValueError('not today')\n")
    broken = [("broken.py", "ValueError: not today")]
    number = shop.start_worker(workflows=(("charge-order", 1), ("square", 1)))
    shop.storage.workers.describe(number, [("charge-order", 1)], broken, ("gpu",))
    error = encode_error(_raised())
    later = Suspended(NOON + 60 * MINUTE)
    _delivered(shop, "order-42", later, waits=_waits(), actions=_actions(), status_value='"busy"')
    _delivered(shop, "order-43", Failed(error), attempts=(_attempt(error),))
    _delivered(shop, "order-44", Completed('{"paid":"yes","api_key":"k-1","of":["a","b"]}'))
    for name in ("order-45", "order-46", "order-47", "order-48"):
        shop.admit(name, params={"note": "later"}, context={"by": "shop"})
    hold = HoldEffect("pay", NOON, "pay-2", "charge", '{"note":"card"}')
    shop.admit("order-49")
    shop.deliver("order-49", actions=(hold,))
    shop.storage.stores.put("Stock", "widget", '{"note":"full"}')
    for line in (
        ("cancel", "order-45", "--now", "--reason", "too late"),
        ("pause", "order-46", "--reason", "stock taking"),
        ("pause", "--workflow", "square", "--reason", "broken"),
        ("send", "order-42", "go", "note=hello", "--idempotency-key", "once"),
        ("cancel", "order-42", "--reason", "perhaps"),
        ("workflows",),
    ):
        said = shop.ys(*line)
        assert said.code == 0, (line, said)
    raw = apsw.Connection(str(shop.db))
    raw.execute(REST)
    raw.close()


def _delivered(shop: Shop, name: str, outcome: Outcome, **words: Any) -> None:
    shop.admit(name, params={"note": "gift", "password": "hush"}, context={"by": "shop"})
    entries = (
        Entry(0, "step", "charge", True, '{"note":"charged"}', NOON, NOON, 1, "card"),
        Entry(1, "step", "ship", False, encode_error(_raised()), NOON, NOON, 2, "parcel"),
    )
    logs = (LogLine(0, NOON, 20, "looked at it"),)
    shop.deliver(name, entries=entries, logs=logs, outcome=outcome, **words)


def _raised() -> BaseException:
    """An error with a cause, a note and a traceback."""
    try:
        try:
            raise ConnectionError("no answer")
        except ConnectionError as cause:
            error = StepTimeout("waited in vain")
            error.add_note("the bank is closed")
            raise error from cause
    except StepTimeout as error:
        return error


def _attempt(error: str) -> Attempt:
    return Attempt("charge", "step", 1, NOON, NOON, "error", error, NOON)


def _waits() -> tuple[Wait, ...]:
    """One open operation of every kind."""
    label, at = "until then", NOON + 60 * MINUTE
    read = (Reading(("left",), "0"),)
    return (
        Wait("timer", "sleep", label, NOON, at, "waiting"),
        Wait("message", "go", label, NOON, None, "waiting", position=1, queue="decision"),
        Wait("child", "kid", label, NOON, None, "waiting", position=2, target="order-46"),
        Wait("step", "render", label, NOON, None, "tagged", position=3, tag="fpga"),
        Wait("step", "charge", label, NOON, at, "retrying", 2, position=4),
        Wait(
            "when", "stock", label, NOON, None, "waiting", position=5,
            store=("Stock", "widget"), read=read, instance="0",
        ),
        Wait("effect", "pay", label, NOON, None, "waiting", position=6, effect="pay-2"),
    )  # fmt: skip


def _actions() -> tuple[Action, ...]:
    """A child, and an effect that is settled."""
    return (
        Start("kid", NOON, "kid-1", "square", 1, '{"note":"child"}'),
        HoldEffect("pay-1", NOON, "pay-1", "charge", '{"note":"card","api_key":"k-1"}'),
        SettleEffect("pay-1", NOON, "pay-1", '"r-1"'),
    )
