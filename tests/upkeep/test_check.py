"""`ys check`: what it prints, how it exits, and that it writes nothing."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from tests.cli.conftest import Shop
from tests.upkeep import scene
from yieldstar_cli.clock import ManualClock
from yieldstar_cli.ids import SystemChance
from yieldstar_cli.storage.sqlite.storage import SqliteStorage


def spoil(shop: Shop, *statements: str) -> None:
    """Change the file as another program would."""
    shop.close()
    connection = apsw.Connection(str(shop.db))
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for statement in statements:
        connection.execute(statement)
    connection.close()


def contents(shop: Shop) -> dict[str, bytes]:
    """Every file of the project, byte for byte; the shared memory holds no data."""
    found = scene.contents(shop.root)
    return {name: data for name, data in found.items() if not name.endswith("-shm")}


def test_a_sound_file_is_said_to_be_sound(shop: Shop) -> None:
    """case 348; b.4: exit 0, and nothing in a pipe."""
    shop.sleeping()

    drawn, piped, document = shop.screen("check"), shop.ys("check"), shop.ys("check", "--json")

    assert (drawn.code, piped.code, document.code) == (0, 0, 0)
    assert drawn.out == "✓ 1 execution checked. Nothing is wrong.\n"
    assert piped.out == ""
    assert document.json == {"schema": "ys.findings/1", "ok": True, "findings": []}


def test_a_breach_says_what_which_what_it_means_and_what_helps(shop: Shop) -> None:
    """case 348: exit 7."""
    shop.sleeping("order 42")
    spoil(shop, "UPDATE executions SET due_at = NULL")

    drawn, piped, document = shop.screen("check"), shop.ys("check"), shop.ys("check", "--json")

    assert (drawn.code, piped.code, document.code) == (7, 7, 7)
    assert drawn.out.splitlines() == [
        "✗ order 42: no wake stands for the moment of sleep.",
        "  It sleeps past that moment.",
        "  → ys wake 'order 42'",
        "1 breach in 1 execution.",
    ]
    assert piped.out == (
        "error\tTIMER_WITHOUT_WAKE\torder 42\t"
        "order 42: no wake stands for the moment of sleep.\tys wake 'order 42'\n"
    )
    assert document.json["ok"] is False
    assert document.json["findings"] == [
        {
            "code": "TIMER_WITHOUT_WAKE",
            "level": "error",
            "file": None,
            "line": None,
            "text": "order 42: no wake stands for the moment of sleep.",
            "remedy": "ys wake 'order 42'",
            "means": "It sleeps past that moment.",
            "execution_id": "order 42",
        }
    ]


def test_a_file_with_nothing_but_a_message_sent_ahead_is_sound(shop: Shop) -> None:
    """spec M1: it belongs to nobody yet."""
    shop.storage.inbox.send("later", "q", "1", ttl_ms=1_000)

    assert shop.screen("check").out == "✓ 0 executions checked. Nothing is wrong.\n"


def test_what_helps_does_help(shop: Shop) -> None:
    """case 348: after `ys wake` the file is sound again."""
    shop.sleeping()
    spoil(shop, "UPDATE executions SET due_at = NULL")
    assert shop.ys("check").code == 7

    shop.ys("wake", "order-42")

    assert shop.ys("check").code == 0


def test_of_many_breaches_of_one_kind_a_person_sees_the_first(shop: Shop) -> None:
    """A file that is damaged all over is no reason to scroll."""
    for n in range(25):
        shop.admit(f"order-{n}")
    spoil(shop, "UPDATE executions SET due_at = NULL")

    drawn = shop.screen("check").out

    assert drawn.count("ys wake order-") == 20
    assert "5 more of NEVER_DUE: ys check | cat" in drawn
    assert len(shop.ys("check").out.splitlines()) == 25


def test_text_of_the_file_is_shown_and_never_interpreted(shop: Shop) -> None:
    """spec K6."""
    shop.admit()
    spoil(shop, "UPDATE executions SET due_at = NULL, execution_id = 'a' || char(27) || '[2J'")

    said = shop.screen("check")

    assert said.code == 7
    assert "\x1b[2J" not in said.out
    assert "a\\x1b[2J" in said.out


def test_a_page_that_is_damaged_is_told_first(shop: Shop) -> None:
    """invariant of the file: SQLite's own check, and then what can still be read."""
    for n in range(200):
        shop.admit(f"order-{n}", params={"text": "x" * 200})
    shop.close()
    whole = bytearray(shop.db.read_bytes())
    page = len(whole) // 4096 - 2
    whole[page * 4096 : page * 4096 + 4096] = b"\xff" * 4096
    shop.db.write_bytes(whole)

    said = shop.ys("check", "--json")

    assert said.code == 7
    assert said.json["findings"][0]["code"] == "DAMAGED"
    assert "ys restore" in said.json["findings"][0]["remedy"]


@pytest.mark.parametrize("how", ["none", "foreign", "newer"])
def test_what_is_no_database_of_ours_is_exit_10(shop: Shop, how: str) -> None:
    """b.4: 0, 7, 10."""
    if how == "foreign":
        shop.db.write_bytes(b"not ours" * 100)
        shop.db.chmod(0o600)
    if how == "newer":
        shop.admit()
        spoil(shop, "PRAGMA user_version = 99")

    said = shop.ys("check")

    assert said.code == 10
    assert "Traceback" not in said.err


def test_it_writes_nothing(shop: Shop) -> None:
    """b.4: file and log stay as they are, byte for byte, also with a log that nobody folded."""
    shop.sleeping()
    shop.admit("another")
    before = contents(shop)
    assert any(name.endswith("-wal") for name in before)

    shop.ys("check")

    assert contents(shop) == before
    shop.close()
    before = contents(shop)
    shop.ys("check")
    after = contents(shop)
    assert {name: after[name] for name in before} == before
    assert all(not data for name, data in after.items() if name not in before)


def test_it_sees_one_moment_while_others_write(shop: Shop) -> None:
    """I3, I11 on one view: what is committed meanwhile is not half seen."""
    shop.sleeping()
    reading = SqliteStorage(shop.db, readonly=True, clock=ManualClock())
    looking = reading.upkeep.breaches()
    other = SqliteStorage(shop.db, clock=shop.clock, chance=SystemChance())
    other.db.rows("UPDATE executions SET token = 0 WHERE execution_id = 'order-42'")

    first = list(reading.upkeep.breaches())
    other.db.rows("UPDATE executions SET token = 1 WHERE execution_id = 'order-42'")
    with reading.atomic():
        assert list(looking) == []
        other.db.rows("UPDATE executions SET token = 0 WHERE execution_id = 'order-42'")
        assert list(reading.upkeep.breaches()) == []

    assert first
    other.close()
    reading.close()


def test_a_file_that_others_may_read_is_a_breach(shop: Shop, tmp_path: Path) -> None:
    """S11; I17: mode 0600."""
    shop.admit()
    shop.db.chmod(0o644)

    found = shop.ys("check", "--json").json["findings"]

    assert [f["code"] for f in found] == ["OPEN_TO_OTHERS"]
    assert found[0]["remedy"] == f"chmod 600 {shop.db}"
