"""`ys init`, `ys workflows` and `ys worker` as commands; what a first minute looks like."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.cli.conftest import Shop
from yieldstar_cli.model import Completed


@pytest.fixture
def empty(shop: Shop) -> Shop:
    (shop.root / "ys.toml").unlink()
    return shop


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.name.startswith("ys.db")
    }


# --- init -----------------------------------------------------------------------------------------


def test_init_makes_a_project_and_says_what_to_type(empty: Shop) -> None:
    said = empty.ys("init")

    assert said.code == 0
    assert said.out == (
        "Made workflows/hello.py and ys.db.\n"
        "Try:   ys trigger hello --id first -p name=Ann\n"
        "       ys worker --until-idle\n"
        "       ys show first\n"
    )
    assert stat.S_IMODE(empty.db.stat().st_mode) == 0o600
    assert (empty.root / ".gitignore").read_text() == "ys.db\nys.db-*\n"


def test_init_again_changes_nothing(empty: Shop) -> None:
    empty.ys("init")
    before = files(empty.root)

    said = empty.ys("init")

    assert said.code == 0
    assert said.out.startswith("Nothing to do")
    assert files(empty.root) == before


def test_init_never_overwrites(empty: Shop) -> None:
    module = empty.module("hello.py", "# mine\n")

    said = empty.ys("init")

    assert said.code == 6
    assert "hello.py is in the way" in said.err
    assert module.read_text() == "# mine\n"
    assert files(empty.root) == {"workflows/hello.py": b"# mine\n"}


@pytest.mark.parametrize("place", ["workflows", "shop"])
def test_a_file_where_a_directory_should_be_is_in_the_way(empty: Shop, place: str) -> None:
    (empty.root / place).write_text("x")

    said = empty.ys("init", *(["shop"] if place == "shop" else []))

    assert said.code == 6
    assert files(empty.root) == {place: b"x"}


def test_init_elsewhere_bare_and_in_json(empty: Shop) -> None:
    said = empty.ys("init", "shop", "--bare", "--json")

    assert said.json["made"] == ["ys.db"]
    assert sorted(path.name for path in (empty.root / "shop").iterdir())[:2] == [
        ".gitignore",
        "workflows",
    ]
    assert list((empty.root / "shop" / "workflows").iterdir()) == []


def test_lines_of_gitignore_are_added_once(empty: Shop) -> None:
    (empty.root / ".gitignore").write_text("*.log\nys.db")

    empty.ys("init")
    empty.ys("init")

    assert (empty.root / ".gitignore").read_text() == "*.log\nys.db\nys.db-*\n"


def test_a_first_minute(empty: Shop) -> None:
    """What `ys init` says to type works, with the real command."""
    assert empty.process("init").code == 0
    assert empty.process("trigger", "hello", "--id", "first", "-p", "name=Ann").code == 0

    worked = empty.process("worker", "--until-idle")
    shown = empty.process("show", "first", "--result")

    assert (worked.code, worked.out, worked.err) == (0, "", "")
    assert shown.out == '"Hello, Ann!"\n'


# --- workflows ------------------------------------------------------------------------------------


def test_workflows_are_listed_with_what_they_do(
    shop: Shop, charge_order: Callable[[], Path]
) -> None:
    path = charge_order()
    shop.module("broken.py", "import nothing_like_this\n")

    screen, pipe, quiet = (
        shop.screen("workflows"),
        shop.ys("workflows"),
        shop.ys("workflows", "-q"),
    )

    assert "charge-order" in screen.out
    assert "Charge an order." in screen.out
    assert "broken.py does not load" in screen.err
    assert pipe.out == f"charge-order\t1\t{path}\t15\tCharge an order.\n"
    assert quiet.out == "charge-order\n"


def test_two_workflows_of_one_name_are_told(shop: Shop, charge_order: Callable[[], Path]) -> None:
    """spec R11: no worker loads either, so the list must not pass over it."""
    path = charge_order()
    shop.module("again.py", path.read_text())

    said = shop.screen("workflows")

    assert "charge-order, version 1, is defined twice, so neither is loaded:" in said.err
    assert "workflows/again.py:15 and workflows/" in said.err


def test_one_workflow_is_described(
    shop: Shop, charge_order: Callable[[], Path], snapshot: SnapshotAssertion
) -> None:
    charge_order()
    shop.admit("order-40")
    shop.deliver("order-40", outcome=Completed("1"))

    assert shop.screen("workflows", "charge-order").out == snapshot
    document = shop.ys("workflows", "charge-order", "--json").json
    assert document["schema"] == "ys.workflow/1"
    assert "order" in json.dumps(document["params"])
    assert document["result"] == {"type": "string"}


def test_an_unknown_workflow_is_four(shop: Shop, charge_order: Callable[[], Path]) -> None:
    charge_order()

    said = shop.ys("workflows", "charge-oder")

    assert said.code == 4
    assert "Did you mean charge-order?" in said.err


def test_without_a_workflow_directory_it_says_what_to_do(shop: Shop) -> None:
    said = shop.ys("workflows")

    assert said.code == 4
    assert "→ ys init" in said.err


def test_a_directory_that_others_may_write_is_refused_unless_trusted(
    shop: Shop, charge_order: Callable[[], Path]
) -> None:
    """S3, spec K5."""
    charge_order().parent.chmod(0o777)

    refused = shop.ys("workflows")
    trusted = shop.ys("workflows", "-q", "--trust-dir", "workflows")

    assert refused.code == 10
    assert "--trust-dir" in refused.err
    assert trusted.out == "charge-order\n"


def test_nothing_is_imported_from_the_current_directory(
    shop: Shop, charge_order: Callable[[], Path]
) -> None:
    """S5."""
    charge_order()
    for name in ("json.py", "apsw.py", "typer.py"):
        (shop.root / name).write_text("raise SystemExit('imported from the current directory')\n")

    shop.admit()

    said = shop.process("list", "-q")
    script = subprocess.run(
        [Path(sys.executable).with_name("ys"), "list", "-q"], cwd=shop.root, capture_output=True
    )

    assert (said.code, said.out, said.err) == (0, "order-42\n", "")
    assert script.stdout == b"order-42\n"


# --- worker, as a command -------------------------------------------------------------------------


def test_a_worker_without_workflows_is_four(shop: Shop) -> None:
    assert shop.process("worker", "--until-idle").code == 4


def test_a_worker_in_a_pipe_is_silent_unless_something_failed(
    shop: Shop, charge_order: Callable[[], Path]
) -> None:
    """cli: cron mails every byte; failures on stderr; -v brings the lines back; 0 all the same."""
    charge_order()
    shop.module(
        "fails.py",
        "from yieldstar_cli import workflow\n\n\n@workflow\ndef fails() -> None:\n"
        "    raise ValueError('no\\x1b[2J funds')\n",
    )
    for name in ("a", "b"):
        shop.process("trigger", "charge-order", "--id", name, "-p", "order=1")
        quiet = shop.process("worker", "--until-idle", *(["-v"] if name == "b" else []))
        assert (quiet.code, quiet.err) == (0, "")
        assert bool(quiet.out) is (name == "b")
    shop.process("trigger", "fails", "--id", "c")

    said = shop.process("worker", "--until-idle")

    assert (said.code, said.out) == (0, "")
    assert "ValueError: no\\x1b[2J funds" in said.err
    assert "\x1b" not in said.err


def test_a_worker_tells_programs_one_event_a_line(
    shop: Shop, charge_order: Callable[[], Path]
) -> None:
    charge_order()
    shop.process("trigger", "charge-order", "--id", "a", "-p", "order=1")

    said = shop.process("worker", "--until-idle", "--json")

    events = [json.loads(line) for line in said.out.splitlines()]
    assert {event["schema"] for event in events} == {"ys.event/1"}
    kinds = [event["kind"] for event in events if event["execution_id"] == "a"]
    assert kinds[0] == "claimed"
    assert kinds[-1] == "completed"
