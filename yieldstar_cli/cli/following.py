"""Waits for changes of the database: nearly free, quick at first, then once a second."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TypeVar

from yieldstar_cli.cli.call import Call
from yieldstar_cli.storage.contract import Storage

T = TypeVar("T")

_SHORTEST_MS = 20.0
_LONGEST_MS = 1_000.0
#: A look at the records themselves at least this often: leases end without a commit.
_LOOK_AGAIN_MS = 1_000.0


def follow(
    call: Call,
    storage: Storage,
    look: Callable[[], T | None],
    *,
    timeout_ms: int | None = None,
    least_ms: float = 0.0,
) -> T | None:
    """Call `look` now and after every change until it gives something; None when time is up.

    `least_ms` is the least pause between two looks. Reading costs nothing while nothing changes:
    one pragma every 20 ms at first, every second later.
    """
    began = call.monotonic_ms()
    seen = -1
    looked = -_LOOK_AGAIN_MS
    pause = _SHORTEST_MS
    while True:
        now = call.monotonic_ms() - began
        changed = storage.changes()
        if changed != seen or now - looked >= _LOOK_AGAIN_MS:
            pause = _SHORTEST_MS if changed != seen else pause
            seen, looked = changed, now
            found = look()
            if found is not None:
                return found
        left = None if timeout_ms is None else timeout_ms - (call.monotonic_ms() - began)
        if left is not None and left <= 0:
            return None
        # A hot command begins without it; what waits may run for weeks.
        gc.enable()
        rest = max(pause, least_ms)
        call.pause(rest if left is None else min(rest, left))
        pause = min(pause * 1.5, _LONGEST_MS)
