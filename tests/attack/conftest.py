"""A project in a folder of its own for each attack."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.process.shop import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "shop")
