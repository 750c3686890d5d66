"""The fixtures of the cases: rigs of the engine's tests, and shops of the process tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.conftest import rig
from tests.process.shop import Shop

__all__ = ["rig"]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A project of its own with gated workflows, for real processes."""
    return Shop(tmp_path / "shop")
