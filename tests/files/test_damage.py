"""A damaged file is refused or what is sound of it goes on; nothing is made up (B.15, C.4)."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path
from random import Random

import apsw
import pytest

from tests import effort
from tests.cli.conftest import Said, Shop
from tests.files import damage
from tests.files.kept.make import HERE, LATEST_FLOWS, kept, taken_over, told
from yieldstar_cli.errors import (
    CorruptFile,
    ForeignFile,
    SchemaTooNew,
    YieldstarError,
)
from yieldstar_cli.storage.sqlite import schema
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

NEWEST = schema.SCHEMA_VERSION
SOUND = gzip.decompress(kept(NEWEST).read_bytes())
THEN = json.loads(kept(NEWEST).with_name(f"schema-{NEWEST}.json").read_text())
LOOKS = (
    ("list",),
    ("show", "sleeps"),
    ("show", "has-child"),
    ("explain", "hears"),
    ("explain", "takes"),
    ("messages", "hears"),
    ("store", "list"),
    ("doctor",),
)
CHANGES = (
    ("wake", "sleeps"),
    ("send", "hears", "first", "n=1"),
    ("cancel", "retries"),
    ("pause", "runs"),
    ("store", "delete", "Shelf/shared", "--yes"),
)
#: What a command may end with: never 1, a bug.
ENDS = {0, 2, 3, 4, 5, 6, 7, 8, 10}
#: Whose outcome hangs on another's rows, or on what executions share.
TOGETHER = {
    "has-child": "has-child/grows",
    "hears": "",
    "takes": "fills",
    "fills": "",
    "charges": "",
}


def damaged(shop: Shop, kind: str, dice: Random) -> bytes:
    """Put a file with work in it, damaged, in the shop's place."""
    data = bytearray(SOUND)
    damage.KINDS[kind](data, dice)
    fresh(shop, bytes(data))
    return bytes(data)


def fresh(shop: Shop, data: bytes) -> None:
    """The shop's file is this one, and nothing lies beside it."""
    for beside in shop.root.glob("ys.db*"):
        beside.unlink()
    shop.db.write_bytes(data)
    shop.db.chmod(0o600)


def refused(path: Path) -> bool:
    """Whether the file is not even opened."""
    try:
        SqliteStorage(path).close()
    except (CorruptFile, ForeignFile, SchemaTooNew):
        return True
    return False


def civil(said: Said, words: tuple[str, ...]) -> None:
    """A command has ended as commands do."""
    assert said.code in ENDS, (words, said)
    assert "Traceback" not in said.err + said.out, (words, said)


@pytest.mark.parametrize("kind", damage.KINDS)
def test_a_damaged_file_is_refused_or_answers(shop: Shop, kind: str) -> None:
    """case 346; C.4, C.1; G10: no command ends as a bug, whatever the file holds.

    What only looks changes no byte of the file, nor does anything where the open is refused.
    """
    for seed in range(effort.rounds(12)):
        dice = Random(f"{kind} {seed}")
        data = damaged(shop, kind, dice)

        shut = refused(shop.db)
        assert not shut or shop.db.read_bytes() == data, seed
        fresh(shop, data)
        for words in dice.sample(LOOKS, 2):
            said = shop.ys(*words)
            civil(said, words)
            assert not shut or said.code == (7 if words[0] == "doctor" else 10), (seed, words, said)
        assert shop.db.read_bytes() == data, seed
        words = dice.choice(CHANGES)
        said = shop.ys("--json", *words)
        civil(said, words)
        if shut:
            assert said.code == 10, (seed, words)
            assert said.error["code"] in ("CORRUPT_FILE", "FOREIGN_FILE", "SCHEMA_TOO_NEW"), said
            assert shop.db.read_bytes() == data, seed


@pytest.mark.parametrize("kind", damage.KINDS)
def test_what_is_sound_in_a_damaged_file_has_its_own_outcome_or_none(shop: Shop, kind: str) -> None:
    """C.1, C.4, invariants I4, I21: an execution whose rows are whole never ends otherwise."""
    ended = 0
    for seed in range(effort.rounds(5)):
        fresh(shop, SOUND)
        before = damage.rows_of(shop.db)
        numbers = numbers_of(shop.db)
        damaged(shop, kind, Random(f"{kind} {seed} worker"))
        if refused(shop.db):
            continue
        after = damage.rows_of(shop.db)

        for name, outcome in outcomes(shop.db).items():
            needed = {f"n {numbers[name]}"}
            if name in TOGETHER:
                needed |= {"shared", *(f"n {numbers[o]}" for o in (TOGETHER[name],) if o)}
            if all(before[key] == after.get(key) for key in needed):
                assert outcome == THEN[name]["outcome"], (seed, name)
                ended += 1

    assert ended or kind in ("zero_header", "cut_short", "cut_pages")


def numbers_of(path: Path) -> dict[str, int]:
    """The number of each execution."""
    storage = SqliteStorage(path)
    found = {record.execution_id: record.number for record in storage.reader.find(limit=None)}
    storage.close()
    return found


def outcomes(path: Path) -> dict[str, list[str]]:
    """What a worker makes of the file: the executions that end, and how."""
    found: dict[str, list[str]] = {}
    with suppress(YieldstarError), taken_over(path, NEWEST) as bench:
        with suppress(YieldstarError):
            bench.send("hears", "first", 1)
            # A worker that cannot read the file asks again, for ever.
            turns = iter(range(1_000))
            bench.run(until=lambda: next(turns, None) is None)
        for name in THEN:
            with suppress(YieldstarError):
                record = bench.storage.executions.get(name)
                # An index that is damaged may not find it.
                if record is not None and record.outcome is not None:
                    assert record.execution_id == name
                    found[name] = told(record)
    return found


def test_a_surprise_on_a_damaged_file_is_no_bug_of_ours(shop: Shop) -> None:
    """C.4: two tables stand in each other's place: refused as damage, by doctor told as that."""
    shop.admit()
    shop.start_worker()
    shop.close()
    roots = "SELECT rootpage FROM sqlite_schema WHERE name IN ('workers', 'executions') ORDER BY 1"
    connection = apsw.Connection(str(shop.db))
    one, other = (row[0] - 1 for row in connection.execute(roots))
    connection.close()
    data = bytearray(shop.db.read_bytes())
    pages = [bytes(data[n * damage.PAGE : (n + 1) * damage.PAGE]) for n in (one, other)]
    for n, page in zip((other, one), pages, strict=True):
        data[n * damage.PAGE : (n + 1) * damage.PAGE] = page
    fresh(shop, bytes(data))

    said = [shop.ys("--json", *words) for words in (("doctor",), ("list",), ("wake", "order-42"))]

    assert {one.code for one in said} <= {4, 7, 10}
    assert "CORRUPT_FILE" in {one.error["code"] for one in said if one.code == 10}
    assert shop.db.read_bytes() == data


@pytest.mark.parametrize("kind", ["flip_in_page_header", "spoil_page", "empty_page", "swap_pages"])
def test_a_worker_on_a_damaged_file_ends_as_workers_do(shop: Shop, kind: str) -> None:
    """C.1, C.4; spec E12, K1: it works, holds what is damaged, or leaves with ten; no traceback."""
    for number in range(1, LATEST_FLOWS + 1):
        shop.module(f"flows_{number}.py", (HERE / f"flows_{number}.py").read_text()).chmod(0o644)
    for seed in range(effort.rounds(1)):
        damaged(shop, kind, Random(f"{kind} {seed} process"))

        said = shop.process("worker", "--once", "--grace", "1s")

        assert said.code in (0, 10), (seed, said)
        assert "Traceback" not in said.err, (seed, said)
        assert "bug" not in said.err, (seed, said)
