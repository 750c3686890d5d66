"""What was generated from the typer app is what it says now."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "quick_table.py"


def test_the_table_and_the_pages_are_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remedy: python scripts/quick_table.py"""
    monkeypatch.setenv("COLUMNS", "80")
    spec = importlib.util.spec_from_file_location("quick_table", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "quick_table", script)
    spec.loader.exec_module(script)

    made = script.modules()

    present = {name: (script.ROOM / name).read_text() for name in made}
    assert present == made
    pages = {f"pages/{path.name}" for path in (script.ROOM / "pages").iterdir()}
    assert pages == {name for name in made if name.startswith("pages/")}
