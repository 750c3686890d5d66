"""What is imported, which bytes leave, what happens when nobody reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Shop
from yieldstar_cli.cli.verbs import NAMES
from yieldstar_cli.clock import SystemClock
from yieldstar_cli.failures import encode_error
from yieldstar_cli.model import Completed, Failed

PROBE = """
import sys
from yieldstar_cli.cli.entry import main
status = main(sys.argv[1:])
names = [n for n in sys.modules if n.split(".")[0] in ("rich", "asyncio", "sqlite3")]
names += [n for n in sys.modules if "charge_order" in n]
sys.stderr.write(f"{status} {sorted(names)}")
"""


@pytest.mark.parametrize(
    "words",
    [
        ("trigger", "charge-order", "--id", "b", "-p", "order=1"),
        ("trigger", "charge-order", "--id", "c", "-p", "order=1", "--json"),
        ("show", "a"),
        ("show", "a", "--json"),
        ("show", "a", "--history"),
        ("list",),
        ("list", "--json"),
        ("wait", "a", "--json"),
        ("wake", "a"),
        ("explain", "a", "--json"),
        ("store", "list"),
        ("store", "get", "Stock", "--json"),
        ("workflows", "charge-order"),
        ("doctor",),
        ("--help",),
        ("help", "times"),
    ],
    ids=" ".join,
)
def test_nothing_heavy_is_imported_where_nothing_is_drawn_or_run(
    shop: Shop, charge_order: Callable[[], Path], words: tuple[str, ...]
) -> None:
    """No rich, no asyncio, no workflow module the cache knows (K4)."""
    charge_order()
    shop.process("trigger", "charge-order", "--id", "a", "-p", "order=1")
    shop.clock.set(SystemClock().now_ms())
    shop.start_worker()
    shop.deliver("a", outcome=Completed("1"))
    shop.storage.stores.put("Stock", "widget", "{}")

    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words], cwd=shop.root, capture_output=True, check=True
    )

    assert done.stderr.decode().splitlines()[-1] == "0 []"


@pytest.fixture
def colourful(shop: Shop) -> Shop:
    """Data that a legacy encoding cannot hold."""
    shop.admit("🦉-1", params={"name": "Zoë 🦉", "n": 1})
    shop.deliver("🦉-1", outcome=Failed(encode_error(ValueError("naïve 🦉"))))
    shop.admit("🦉-2")
    return shop


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"TERM": "dumb"},
        {"NO_COLOR": "1"},
        {"YS_ASCII": "1"},
    ],
    ids=str,
)
def test_no_encoding_stops_the_output(colourful: Shop, env: dict[str, str]) -> None:
    """B93: replacement instead of a UnicodeEncodeError; JSON is ASCII whatever happens."""
    for words in (
        ("show", "--id=🦉-1"),
        ("list",),
        ("explain", "--id=🦉-1"),
        ("show", "missing-🦉"),
        ("doctor",),
    ):
        said = colourful.process(*words, env=env)
        assert said.code in (0, 4, 7), (words, said)
        assert "Traceback" not in said.err
        assert "\x1b" not in said.out + said.err
    document = colourful.process("list", "--json", env=env)
    assert document.out.isascii()
    assert {found["execution_id"] for found in json.loads(document.out)} == {"🦉-1", "🦉-2"}


@pytest.mark.parametrize("name", [*NAMES, ""])
def test_every_help_page_can_be_printed_in_ascii(shop: Shop, name: str) -> None:
    """B93."""
    words = [name, "--help"] if name else ["--help"]

    said = shop.process(*words, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})

    assert (said.code, said.err) == (0, "")
    assert said.out.isascii()


def test_ascii_glyphs_draw_the_same_picture(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.sleeping()
    drawn = shop.screen("show", "order-42").out
    monkeypatch.setenv("YS_ASCII", "1")

    plain = shop.screen("show", "order-42").out

    assert plain.isascii()
    assert len(plain.splitlines()) == len(drawn.splitlines())
    assert "= suspended" in plain


def test_a_reader_that_stops_early_is_no_failure(shop: Shop) -> None:
    """B94: quiet on stderr; status 0."""
    for number in range(2_000):
        shop.admit(f"order-{number:04}")

    for words in (["list", "--all"], ["list", "--all", "--json"], ["list", "--all", "-q"]):
        process = subprocess.Popen(
            [sys.executable, "-m", "yieldstar_cli", *words],
            cwd=shop.root,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        said = process.stderr.read()
        process.stderr.close()
        assert (process.wait(), said) == (0, b""), words


def test_a_full_disk_behind_stdout_is_one_line(shop: Shop) -> None:
    shop.admit()
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "yieldstar_cli", "list"],
            cwd=shop.root,
            stdout=full,
            stderr=subprocess.PIPE,
        )

    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"No space left" in done.stderr


def test_output_in_a_pipe_has_no_escapes_unless_forced(shop: Shop) -> None:
    """S21."""
    shop.admit()

    assert "\x1b" not in shop.process("show", "order-42").out
    for option in ({"FORCE_COLOR": "1"}, {"CLICOLOR_FORCE": "1"}):
        said = shop.process("show", "order-42", "--json", env=option)
        assert "\x1b" not in said.out
        json.loads(said.out)


def test_a_terminal_gets_colour_unless_told_otherwise(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S21."""
    shop.admit()

    assert "\x1b[33m" in shop.screen("show", "order-42", colour=True).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shop.screen("show", "order-42", colour=True).out


def test_the_package_runs_as_a_module_and_as_a_script(shop: Shop) -> None:
    script = Path(sys.executable).with_name("ys")

    module = shop.process("--version")
    installed = subprocess.run([script, "--version"], capture_output=True, check=True)

    assert module.out.encode() == installed.stdout
