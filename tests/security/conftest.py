"""A project to attack."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shop, plain_environment, shop
from tests.security.scene import Scene

__all__ = ["plain_environment", "shop"]


@pytest.fixture
def scene(shop: Shop) -> Scene:
    """A project whose database holds something in every table."""
    return Scene(shop)
