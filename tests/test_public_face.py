"""What authors and programs import: all is there, and nothing is loaded before it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import yieldstar_cli
from yieldstar_cli import this_step
from yieldstar_cli.engine.this_step import ThisStep, current
from yieldstar_cli.errors import MisplacedCall


@pytest.mark.parametrize("name", yieldstar_cli.__all__)
def test_every_public_name_is_there(name: str):
    """authoring.md: names."""
    assert getattr(yieldstar_cli, name) is not None
    assert name in dir(yieldstar_cli)


def test_other_names_are_not():
    """A misspelt import fails as in any module."""
    with pytest.raises(AttributeError, match="workflw"):
        yieldstar_cli.workflw  # noqa: B018


def test_importing_the_package_loads_none_of_its_rooms():
    """design.md: every command imports the package, also those that need nothing of it."""
    script = (
        "import sys, yieldstar_cli\n"
        "print(sorted(m for m in sys.modules if m.startswith('yieldstar_cli')))\n"
        "print(sorted({'asyncio', 'msgspec', 'apsw', 'rich', 'typer'} & set(sys.modules)))\n"
    )

    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )

    assert ran.stdout == "['yieldstar_cli', 'yieldstar_cli._version']\n[]\n"


def test_the_version_is_that_of_the_package():
    """It is written twice so that saying it reads no metadata; the two agree."""
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text()

    assert f'version = "{yieldstar_cli.__version__}"' in text


def test_this_step_is_known_inside_a_step_and_refused_outside():
    """spec O7, R9."""
    cancelled = False
    step = ThisStep("order-42", "charge-card", 2, "abc", lambda: cancelled)

    with pytest.raises(MisplacedCall, match="outside a step"):
        this_step()
    token = current.set(step)
    try:
        found = this_step()
        assert (found.execution_id, found.step_key, found.attempt) == ("order-42", "charge-card", 2)
        assert found.idempotency_key == "abc"
        assert not found.cancelled
        cancelled = True
        assert found.cancelled
    finally:
        current.reset(token)
