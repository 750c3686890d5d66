"""How much the tests try: a little each time, and much more under `make torture`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from hypothesis import settings

#: `make torture` tries this many times as much.
HARDER = 20

#: Where hypothesis keeps the settings of a test; there is no public way to them.
_SETTINGS = "_hypothesis_internal_use_settings"


def torturing() -> bool:
    """Whether this is the long form."""
    return bool(os.environ.get("YS_TORTURE"))


def rounds(few: int) -> int:
    """How many rounds a test of its own making goes."""
    return few * HARDER if torturing() else few


def try_harder(tests: Iterable[Any]) -> None:
    """Let property tests and state machines try HARDER times as many examples, each once."""
    done: set[int] = set()
    for test in tests:
        for holder, name in ((getattr(test, "__func__", test), _SETTINGS), (test, "settings")):
            few = getattr(holder, name, None)
            if isinstance(few, settings) and id(holder) not in done:
                done.add(id(holder))
                setattr(holder, name, settings(few, max_examples=few.max_examples * HARDER))
