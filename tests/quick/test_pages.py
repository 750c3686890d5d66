"""The pages made beforehand are typer's, for whoever has the room for them."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shop
from yieldstar_cli import __version__
from yieldstar_cli.cli.quick.pages import page
from yieldstar_cli.cli.verbs import ACTIONS, NAMES

LINES = [["--help"], ["-h"], *([name, "--help"] for name in NAMES)]
LINES += [[verb, found.name, "-h"] for verb, actions in ACTIONS.items() for found in actions]


@pytest.mark.parametrize("words", LINES, ids=" ".join)
@pytest.mark.parametrize("columns", ["80", "200"])
def test_a_page_is_what_typer_prints(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, words: list[str], columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)

    assert page(words) == shop.ys(*words).out


def test_a_narrow_terminal_gets_a_page_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "79")

    assert page(["--help"]) is None


def test_the_version_is_that_of_the_package(shop: Shop) -> None:
    assert page(["--version"]) == shop.ys("--version").out == f"ys {__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["shwo", "--help"],
        ["../pages/show", "--help"],
        ["store.get", "--help"],
        ["ys", "--help"],
        ["show", "store", "--help"],
        ["--json", "--help"],
        ["--version", "--version"],
    ],
    ids=" ".join,
)
def test_what_is_no_page_is_left_to_typer(words: list[str]) -> None:
    assert page(words) is None
