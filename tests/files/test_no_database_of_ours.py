"""What is no database of ours is refused at once by every command, and not touched (B.15, B.16)."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from tests.cli.conftest import Shop
from yieldstar_cli.cli.verbs import NAMES
from yieldstar_cli.storage.sqlite import schema
from yieldstar_cli.storage.sqlite.storage import SqliteStorage

WORDS = {
    "trigger": ("charge-order", "--id", "order-42", "-p", "order=42"),
    "worker": ("--until-idle",),
    "send": ("order-42", "cancel"),
    "store": ("list",),
    "show": ("order-42",),
    "explain": ("order-42",),
    "wait": ("order-42",),
    "messages": ("order-42",),
    "approve": ("order-42",),
    "reject": ("order-42",),
    "cancel": ("order-42",),
    "pause": ("order-42",),
    "resume": ("order-42",),
    "wake": ("order-42",),
    "list": (),
    "check": (),
    "prune": ("--older", "1d", "--yes"),
    "delete": ("order-42", "--yes"),
    "backup": ("copy.sqlite",),
}


def foreign(path: Path) -> None:
    """A database of another program, in the middle of its work."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA application_id = 7; CREATE TABLE executions (a); ").fetchall()
    connection.close()


def unsigned(path: Path) -> None:
    """A database that nobody has signed."""
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE mine (a)").fetchall()
    connection.close()


def newer(path: Path) -> None:
    """A database of a later version of ours."""
    SqliteStorage(path, create=True).close()
    connection = apsw.Connection(str(path))
    connection.execute(schema.set_version(schema.SCHEMA_VERSION + 1))
    connection.close()


def of_no_schema(path: Path) -> None:
    """Ours by its signature, of a schema that never was."""
    SqliteStorage(path, create=True).close()
    connection = apsw.Connection(str(path))
    connection.execute(schema.set_version(-3))
    connection.close()


def garbage(path: Path) -> None:
    """Text."""
    path.write_bytes(b"not a database\n" * 100)


def scrap(path: Path) -> None:
    """Less than a database's header."""
    path.write_bytes(b"SQLite format 3\0")


def sparse(path: Path) -> None:
    """A hole of ten gigabytes."""
    with path.open("wb") as file:
        file.truncate(10 * 1024**3)


def fifo(path: Path) -> None:
    """A pipe: opening it would wait for ever."""
    os.mkfifo(path)


def directory(path: Path) -> None:
    """A directory."""
    path.mkdir()


def sock(path: Path) -> None:
    """A socket."""
    with socket.socket(socket.AF_UNIX) as made:
        folder = os.getcwd()
        os.chdir(path.parent)  # a socket's path has to be short
        made.bind(path.name)
        os.chdir(folder)


def link(path: Path) -> None:
    """A link to a database of ours."""
    SqliteStorage(path.with_name("real.db"), create=True).close()
    path.symlink_to("real.db")


OURS_NOT: dict[Callable[[Path], None], str] = {
    foreign: "FOREIGN_FILE",
    unsigned: "FOREIGN_FILE",
    newer: "SCHEMA_TOO_NEW",
    of_no_schema: "CORRUPT_FILE",
    garbage: "CORRUPT_FILE",
    scrap: "FOREIGN_FILE",
    sparse: "CORRUPT_FILE",
    fifo: "FOREIGN_FILE",
    directory: "FOREIGN_FILE",
    sock: "FOREIGN_FILE",
    link: "UNTRUSTED_PATH",
}


def looks(folder: Path) -> dict[str, object]:
    """Every file there: kind, size, moment of the last change, and what a small one holds.

    SQLite may leave its index of a log and an empty log beside a file that it has looked at.
    """
    found: dict[str, object] = {}
    for path in folder.glob("*.db*"):
        stat = path.lstat()
        if path.name.endswith("-shm") or (path.name.endswith("-wal") and stat.st_size == 0):
            continue
        small = path.is_file() and stat.st_size < 10**6
        held = path.read_bytes() if small else b""
        found[path.name] = (stat.st_mode, stat.st_size, stat.st_blocks, stat.st_mtime_ns, held)
    return found


@pytest.mark.parametrize("what", OURS_NOT)
def test_what_is_no_database_of_ours_is_refused_untouched(
    shop: Shop, charge_order: Callable[[], Path], what: Callable[[Path], None]
) -> None:
    """cases 342, 345, 346; S10, S13; C.1; spec K7: by every command, with a code, in no time."""
    charge_order()
    what(shop.db)
    before = looks(shop.root)

    for name, words in WORDS.items():
        said = shop.ys("--json", name, *words)
        assert (said.code, said.error["code"]) == (10, OURS_NOT[what]), (name, said)
    checked = shop.ys("--json", "doctor")

    assert checked.code == 7
    assert OURS_NOT[what] in [finding["code"] for finding in checked.json["findings"]]
    assert looks(shop.root) == before


def test_these_are_all_the_commands_that_open_a_database() -> None:
    """The test above leaves out none."""
    others = {"doctor", "init", "workflows", "help", "completion"}
    # What is put in the place of the file is asked first: `tests/upkeep` holds restore.
    assert set(NAMES) == {*WORDS, *others, "restore"}


def test_a_device_is_refused(shop: Shop) -> None:
    """case 345, S13: without end, and writable by all: not a byte of it is read."""
    for device in ("/dev/null", "/dev/zero"):
        said = shop.ys("--json", "--db", device, "list")

        assert (said.code, said.error["code"]) == (10, "UNTRUSTED_PATH")


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_a_side_file_that_is_a_link_is_refused(shop: Shop, suffix: str) -> None:
    """S10: nothing is written through it, and what it names stays as it is."""
    shop.admit()
    shop.close()
    other = shop.root / "letter.txt"
    other.write_text("dear")
    beside = Path(f"{shop.db}{suffix}")
    beside.unlink(missing_ok=True)
    beside.symlink_to(other)

    for words in (("list",), ("wake", "order-42")):
        said = shop.ys("--json", *words)
        assert (said.code, said.error["code"]) == (10, "UNTRUSTED_PATH")
    assert other.read_text() == "dear"
