"""Numbers beyond what SQLite counts with are numbers all the same."""

from __future__ import annotations

import pytest

from tests.process.shop import Shop


@pytest.mark.parametrize("limit", [2**31, 2**63, 10**30])
def test_a_list_may_be_asked_for_more_than_any_file_holds(shop: Shop, limit: int) -> None:
    """spec V3: no traceback for what a user can type."""
    shop.ys("trigger", "simple", "--id", "a", "-p", "name=a", check=True)

    listed = shop.ys("list", "-q", "-n", str(limit))

    assert (listed.returncode, listed.stdout) == (0, "a\n")
