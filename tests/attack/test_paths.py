"""Paths that lead nowhere, in circles or where one may not go are told of in a sentence."""

from __future__ import annotations

import os

import pytest

from tests.process.shop import Shop

LONG = "x" * 300
ODD = ["loop/ys.db", "loop.db", "file/ys.db", LONG, f"{LONG}/ys.db", "/", "nowhere/ys.db"]
COMMANDS = [("list",), ("trigger", "simple", "-p", "name=a"), ("worker", "--until-idle")]


@pytest.fixture
def maze(shop: Shop) -> Shop:
    """A project with links that lead to themselves."""
    os.symlink("loop", shop.folder / "loop")
    os.symlink("loop.db", shop.folder / "loop.db")
    (shop.folder / "file").write_text("no directory")
    return shop


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("path", ODD, ids=lambda path: path[:12])
def test_a_database_path_that_leads_nowhere_is_a_sentence(
    maze: Shop, path: str, words: tuple[str, ...]
) -> None:
    """case 34: one-line error, its own exit code, no traceback, nothing created."""
    before = sorted(os.listdir(maze.folder))

    refused = maze.ys(*words, "--db", path)

    assert refused.returncode == 10
    assert refused.stderr.startswith("✗ ")
    assert "bug" not in refused.stderr
    assert sorted(os.listdir(maze.folder)) == before


@pytest.mark.parametrize("path", [*ODD[:5], "nowhere"], ids=lambda path: path[:12])
def test_doctor_finds_such_a_database_path(maze: Shop, path: str) -> None:
    """cli.md `ys doctor`: each finding with its fix."""
    found = maze.ys("doctor", "--db", path)

    assert found.returncode in (0, 7)
    assert "bug" not in found.stderr


@pytest.mark.parametrize("option", ["--workflows", "-C"])
@pytest.mark.parametrize("path", ["loop", "file", LONG, "nowhere"], ids=lambda path: path[:12])
def test_a_directory_that_is_none_is_a_sentence(maze: Shop, option: str, path: str) -> None:
    """spec V3, K8."""
    refused = maze.ys("trigger", "simple", "-p", "name=a", option, path)

    assert refused.returncode == 2
    assert refused.stderr.startswith("✗ ")
    assert "bug" not in refused.stderr


@pytest.mark.parametrize("path", ["loop", "file", LONG, "nowhere"], ids=lambda path: path[:12])
def test_a_trusted_directory_that_is_none_trusts_nothing(maze: Shop, path: str) -> None:
    """spec K5."""
    done = maze.ys("trigger", "simple", "-p", "name=a", "--trust-dir", path)

    assert done.returncode == 0


def test_a_link_to_itself_among_the_modules_costs_nothing(maze: Shop) -> None:
    """spec S7: the other workflows load."""
    os.symlink("again.py", maze.folder / "workflows" / "again.py")

    done = maze.ys("trigger", "simple", "-p", "name=a")

    assert done.returncode == 0


def test_a_setting_beyond_its_greatest_is_told_of_with_that(shop: Shop) -> None:
    """spec K8: what was wrong and what to do."""
    (shop.folder / "ys.toml").write_text("max_value = 9999999999999\n")

    refused = shop.ys("list")

    assert refused.returncode == 2
    assert "expected at most 2147483647" in refused.stderr
