"""`make demo` does the main jobs for real: an order is charged once, a refund waits for a yes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def demo() -> subprocess.CompletedProcess[str]:
    """The script as `make demo` calls it, with the `ys` that is under test."""
    return subprocess.run(
        ["sh", "scripts/demo.sh", str(Path(sys.executable).parent)],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )


def after(output: str, command: str, *, last: bool = False) -> str:
    """What was printed after `$ command`, up to the next command."""
    parts = output.split(f"$ {command}")
    return parts[-1 if last else 1].split("\n$ ")[0]


def test_the_demo_charges_an_order_and_shows_its_record(
    demo: subprocess.CompletedProcess[str],
) -> None:
    """The three calls of README.md: admitted without a worker, run by one, completed."""
    admitted = after(demo.stdout, "ys show order-42")
    shown = after(demo.stdout, "ys show order-42", last=True)

    assert demo.returncode == 0, demo.stderr
    assert "status\tadmitted\n" in admitted
    assert "status\tcompleted\n" in shown
    assert 'result\t{"order":42,"charged":1250}\n' in shown
    steps = re.findall(r"(?m)^step\t\d\t([\w-]+)\t\w+\tcompleted", shown)
    assert steps == ["sleep", "load-order", "charge-card"]


def test_the_demo_shows_what_the_worker_did(demo: subprocess.CompletedProcess[str]) -> None:
    """Suspended for the wait, then delivered a second time to its end."""
    ran = after(demo.stdout, "ys worker")

    told = re.findall(r"order-42\s+(▶|⏸|✓|load-order|charge-card)", ran)
    assert told == ["▶", "⏸", "▶", "load-order", "charge-card", "✓"]


def test_the_demo_shows_that_the_same_trigger_is_refused(
    demo: subprocess.CompletedProcess[str],
) -> None:
    """spec E3: an ID is used once, for ever."""
    refused = after(demo.stdout, "ys trigger charge-order", last=True)

    assert "(exit 3)\n" in refused
    assert "order-42 already exists" in demo.stderr
    assert "Nothing was changed." in demo.stderr


def test_the_demo_waits_for_a_decision_and_goes_on_with_it(
    demo: subprocess.CompletedProcess[str],
) -> None:
    """An approval: nothing is paid before somebody says yes."""
    asked, _, answered = demo.stdout.partition("$ ys approve refund-7")
    explained = after(asked, "ys explain refund-7")
    shown = after(answered, "ys show refund-7")

    assert "pay-back" not in asked
    assert "ys approve refund-7" in explained
    assert "refund-7\tdelivered\n" in answered
    assert re.search(r'(?m)^result\t"approved by [^"]+"$', shown)


def test_make_demo_needs_no_more_than_python_and_runs_this_script() -> None:
    """A newcomer's first call: no tool of the developers' is installed for it."""
    planned = subprocess.run(
        ["make", "--dry-run", "--always-make", "demo"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout

    assert "sh scripts/demo.sh" in planned
    assert "install" in planned
    assert "[dev]" not in planned
