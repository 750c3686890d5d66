"""What the hot commands load: nothing heavy, so that they start at once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Shop
from yieldstar_cli.clock import SystemClock
from yieldstar_cli.failures import encode_error
from yieldstar_cli.model import Completed, Failed

PROBE = """
import json, sys
before = set(sys.modules)
from yieldstar_cli.cli.entry import main
status = main(sys.argv[1:])
sys.stdout.flush()
sys.stderr.write("\\n" + json.dumps([status, sorted(set(sys.modules) - before)]))
"""
HEAVY = {
    *("typer", "rich", "click", "msgspec", "asyncio", "dataclasses", "inspect", "sqlite3", "ast"),
    *("difflib", "traceback", "subprocess", "threading", "hashlib", "secrets", "uuid", "decimal"),
    *("durationpy", "whenever", "importlib.metadata", "logging", "tempfile", "random"),
}
#: Of Python's and ours; a hundred more would be felt.
MOST_MODULES = 150


@pytest.fixture
def project(shop: Shop, charge_order: Callable[[], Path]) -> Shop:
    """Executions that have ended, and a catalog that is up to date."""
    (shop.root / "ys.toml").unlink()
    charge_order()
    shop.clock.set(SystemClock().now_ms())
    shop.admit("done", params={"order": 1, "note": "none"})
    shop.deliver("done", outcome=Completed('{"a":1}'))
    shop.admit("failed")
    shop.deliver("failed", outcome=Failed(encode_error(ValueError("no"))))
    shop.sleeping("asleep")
    shop.close()
    shop.ys("workflows")
    return shop


def loaded(shop: Shop, *words: str) -> tuple[int, set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words], cwd=shop.root, capture_output=True, check=True
    )
    status, names = json.loads(done.stderr.decode().splitlines()[-1])
    return status, set(names)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, ("show", "done")),
        (0, ("show", "done", "--json")),
        (0, ("show", "failed")),
        (0, ("show", "asleep", "--color", "always")),
        (0, ("show", "done", "--result")),
        (0, ("list",)),
        (0, ("list", "--json", "--failed", "charge-order")),
        (0, ("trigger", "charge-order", "--id", "new", "-p", "order=42")),
        (0, ("trigger", "charge-order", "-p", "order=42", "-p", "note=Zoë", "--json")),
        (0, ("wait", "done")),
        (7, ("wait", "failed", "--json")),
        (0, ("--version",)),
        (0, ("--help",)),
        (0, ("store", "get", "--help")),
        (0, ("_complete", "bash", "")),
        (0, ("_complete", "zsh", "show", "d")),
        (0, ("_complete", "fish", "trigger", "")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_a_hot_command_loads_nothing_heavy(
    project: Shop, status: int, words: tuple[str, ...]
) -> None:
    """No parser, no codec, no loop, nothing that generates code (the guard of the start-up)."""
    found, names = loaded(project, *words)

    assert found == status
    assert names & HEAVY == set()
    assert {name.partition(".")[0] for name in names} & HEAVY == set()
    assert len(names) <= MOST_MODULES


@pytest.mark.parametrize("words", [("show", "done", "--step=x"), ("show", "done", "--id", "-h")])
def test_words_that_are_not_plain_go_to_typer_as_if_nothing_had_been(
    project: Shop, words: tuple[str, ...]
) -> None:
    """Even the nouns are Python's then: the call may become a worker that runs for weeks."""
    status, names = loaded(project, *words)

    assert status == 2
    assert "typer" in names
    assert "yieldstar_cli.nouns_light" not in names
