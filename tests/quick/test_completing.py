"""What `ys` lines are completed with, in a real bash and as each shell asks for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import NOON, Shop
from yieldstar_cli.cli import shells
from yieldstar_cli.cli.quick.completing import complete, split
from yieldstar_cli.model import Completed, Suspended, Wait

TRY = """
source "$1"
COMP_LINE=$2
COMP_POINT=${#2}
COMP_TYPE=9
# The words as readline breaks them: at blanks, and at = and : which are words themselves.
COMP_WORDS=()
text=${2//=/ = }
text=${text//:/ : }
read -ra COMP_WORDS <<<"$text"
[[ $2 == *[[:space:]] ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_ys ys "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def filled(shop: Shop, charge_order: Callable[[], Path]) -> Shop:
    charge_order()
    shop.admit("order-41")
    shop.deliver("order-41", outcome=Completed("1"))
    wait = Wait("message", "decision", "", NOON, None, "waiting", queue="decision")
    shop.admit("order-42")
    shop.deliver("order-42", waits=[wait], outcome=Suspended(None))
    shop.admit("it's odd:1")
    shop.storage.stores.put("Stock", "widget", "{}")
    shop.storage.stores.put("Stock", "gadget", "{}")
    shop.storage.stores.put("Box", "one", "{}")
    shop.close()
    shop.ys("workflows")
    return shop


def offered(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> list[str]:
    """What zsh or fish is offered for the last word of `line`."""
    monkeypatch.chdir(shop.root)
    complete(["zsh", *split(line)[1:]])
    return [row.partition("\t")[0] for row in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("ys sh", ["show"]),
        ("ys store g", ["get"]),
        ("ys --json sh", ["show"]),
        ("ys show --hi", ["--history"]),
        ("ys show order-4", ["order-42", "order-41"]),
        ("ys show order-42 ", []),
        ("ys wait order-42 order-41", ["order-41"]),
        ("ys cancel order-4", ["order-42"]),
        ("ys approve ", ["order-42"]),
        ("ys send order-42 ", ["decision"]),
        ("ys trigger ch", ["charge-order"]),
        ("ys trigger charge-order -p ", ["order=", "note="]),
        ("ys trigger charge-order --if-exists s", ["show", "same"]),
        ("ys list --status=f", ["--status=failed"]),
        ("ys list --status c", ["completed", "cancelled"]),
        ("ys --color a", ["auto", "always"]),
        ("ys store get ", ["Box", "Stock"]),
        ("ys store get Stock ", ["gadget", "widget"]),
        ("ys store patch Stock widget --if-version ", ["0"]),
        ("ys show --db y", ["ys.db", "ys.toml"]),
        ("ys worker --workflows w", ["workflows/"]),
        ("ys completion ", ["bash", "zsh", "fish"]),
        ("ys help exit", ["exit-codes"]),
        ("ys show --db nowhere.db ", []),
        ("ys show -- --", []),
        ("ys nothing ", []),
    ],
)
def test_the_last_word_may_become(
    filled: Shop,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
    wanted: list[str],
) -> None:
    """cli.md, completion: what stands there already is of one kind, from the table or the file."""
    found = offered(filled, monkeypatch, capsys, line)

    assert found == wanted


def test_every_verb_is_offered_with_its_summary(
    filled: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(filled.root)

    complete(["fish", ""])

    rows = capsys.readouterr().out.splitlines()
    assert "show\tShow what happened to one execution." in rows
    assert not [row for row in rows if row.startswith("_")]


@pytest.mark.parametrize("content", [b"", b"no database" * 100, None])
def test_without_a_sound_database_there_is_nothing_to_offer_and_no_word_of_it(
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    content: bytes | None,
) -> None:
    """A shell that completes is no place for errors; nothing is made or changed."""
    if content is not None:
        shop.db.write_bytes(content)
        shop.db.chmod(0o600)

    assert offered(shop, monkeypatch, capsys, "ys show ") == []
    assert capsys.readouterr().err == ""
    assert (shop.db.read_bytes() if shop.db.exists() else None) == content


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ys ", ["ys", ""]),
        ("ys sh", ["ys", "sh"]),
        ("ys show 'a b", ["ys", "show", "a b"]),
        ('ys show "a ', ["ys", "show", "a "]),
        ("ys show a\\ b ", ["ys", "show", "a b", ""]),
        ("", [""]),
    ],
)
def test_a_line_that_is_being_typed_has_these_words(line: str, words: list[str]) -> None:
    assert split(line) == words


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("ys sh", ["show"]),
        ("ys show order-4", ["order-42", "order-41"]),
        ("ys list --status=f", ["failed"]),
        ("ys list --color=", ["auto", "always", "never"]),
        ("ys show it", ["'it'\"'\"'s odd:1'"]),
        ("ys trigger charge-order -p or", ["order="]),
        ("ys show nothing-like-it", [""]),
    ],
)
def test_bash_completes(filled: Shop, tmp_path: Path, line: str, wanted: list[str]) -> None:
    """The script itself, in a real bash that breaks words at = and : as readline does."""
    script = tmp_path / "script.bash"
    script.write_text(shells.SCRIPTS["bash"])
    ys = tmp_path / "bin" / "ys"
    ys.parent.mkdir()
    ys.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m yieldstar_cli "$@"\n')
    ys.chmod(0o755)

    done = subprocess.run(
        ["bash", "--norc", "-c", TRY, "try", str(script), line],
        cwd=filled.root,
        env={**os.environ, "PATH": f"{ys.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout.splitlines() == wanted


# --- ys completion -------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_printed_and_installed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    monkeypatch.setenv("HOME", str(shop.root))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    before = shop.ys("doctor")

    printed = shop.ys("completion", shell)
    made = shop.ys("completion", shell, "--install")
    again = shop.ys("completion", shell, "--install")

    assert printed.out == shells.SCRIPTS[shell]
    place = Path(made.out.removeprefix("Made ").rstrip(".\n"))
    assert place.read_text() == printed.out
    assert place.is_relative_to(shop.root)
    assert (made.code, again.code) == (0, 0)
    assert shells.installed(os.environ) == [shell]
    assert before.code in (0, 7)
    assert f"completion of ys lines is installed for {shell}" in shop.screen("doctor").out


def test_a_file_of_somebody_else_stays(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(shop.root))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    place = Path(shells.place_of("bash", os.environ) or "")
    place.parent.mkdir(parents=True)
    place.write_text("mine")

    said = shop.ys("completion", "bash", "--install", "--json")

    assert said.code == 6
    assert said.error["code"] == "FILE_IN_THE_WAY"
    assert place.read_text() == "mine"


def test_another_shell_is_a_usage_error(shop: Shop) -> None:
    said = shop.ys("completion", "tcsh")

    assert said.code == 2
    assert "bash, zsh, fish" in said.err
