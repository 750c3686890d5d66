"""File names, sources and messages that are not UTF-8 cost nothing but what they belong to."""

from __future__ import annotations

import os

import pytest

from tests.process.shop import Shop


def test_a_module_whose_error_is_no_text_costs_only_itself(shop: Shop) -> None:
    """spec K1, S7: a lone surrogate in the message of a module that does not load."""
    shop.module("broken", 'raise ValueError("half \\ud800 of a pair")')

    triggered = shop.ys("trigger", "simple", "--id", "a", "-p", "name=a")
    worked = shop.ys("worker", "--until-idle")

    assert (triggered.returncode, worked.returncode) == (0, 0)
    assert shop.show("a")["status"] == "completed"
    assert "broken.py:1: ValueError: half \\ud800 of a pair" in worked.stderr


def test_a_huge_message_of_a_broken_module_is_cut(shop: Shop) -> None:
    """spec K1: the reason is a line for people."""
    shop.module("broken", 'raise ValueError("x" * 10_000_000)')

    listed = shop.ys("workflows")

    assert listed.returncode == 0
    assert "characters left out" in listed.stderr
    assert len(listed.stderr) < 10_000


def test_a_docstring_that_is_no_text_is_shown_escaped(shop: Shop) -> None:
    """spec K4, K6: the catalog keeps what it can."""
    shop.module(
        "odd",
        """
        from yieldstar_cli import Step, workflow

        @workflow
        async def odd(step: Step, name: str = "\\ud800") -> str:
            "Half \\ud800 of a pair."
            return name
        """,
    )

    shown = shop.ys("workflows", "odd")
    triggered = shop.ys("trigger", "odd", "--id", "a")

    assert shown.returncode == 0
    assert "Half \\ud800 of a pair." in shown.stdout
    assert triggered.returncode == 5
    assert "lone surrogate" in triggered.stderr


def test_a_module_whose_file_name_is_not_utf8_is_refused_alone(shop: Shop) -> None:
    """spec K1: the others load, and it is named with a remedy."""
    name = os.fsencode(shop.folder) + b"/workflows/odd\xff.py"
    with open(name, "w") as file:
        file.write("x = 1\n")
    os.chmod(name, 0o644)

    triggered = shop.ys("trigger", "simple", "--id", "a", "-p", "name=a")
    worked = shop.ys("worker", "--until-idle")

    assert (triggered.returncode, worked.returncode) == (0, 0)
    assert shop.show("a")["status"] == "completed"
    assert "not UTF-8" in worked.stderr


@pytest.mark.parametrize(
    "words", [("init",), ("trigger", "hello"), ("worker",), ("list",), ("doctor",)]
)
def test_a_directory_whose_name_is_not_utf8_is_a_usage_error(
    shop: Shop, words: tuple[str, ...]
) -> None:
    """spec V3: a sentence and a remedy, and nothing was made."""
    folder = os.fsencode(shop.folder) + b"/odd\xff"
    os.mkdir(folder, 0o755)
    os.mkdir(folder + b"/workflows", 0o755)

    refused = shop.ys(*words, "-C", os.fsdecode(folder))

    assert refused.returncode == 2
    assert "is not UTF-8" in refused.stderr
    assert os.listdir(folder) == [b"workflows"]
