"""The bell: heard by living workers, harmless for everybody else."""

from __future__ import annotations

import select
import stat
from pathlib import Path

from yieldstar_cli.doorbell import Bell, bell_path, ring


def is_ringing(bell: Bell) -> bool:
    readable, _, _ = select.select([bell.descriptor], [], [], 0)
    return bool(readable)


def test_a_bell_is_heard_by_the_worker_whose_slot_was_rung(db_path: Path) -> None:
    """spec K3; case 92: whatever rang before it was heard is heard once."""
    first, second = Bell(str(db_path), 0), Bell(str(db_path), 1)

    ring(str(db_path), [1])
    ring(str(db_path), [1])

    assert not is_ringing(first)
    assert is_ringing(second)
    second.heard()
    assert not is_ringing(second)
    first.close()
    second.close()


def test_a_bell_is_private_and_leaves_nothing_behind(db_path: Path) -> None:
    """spec K5; security S41: mode 0600; gone with its worker."""
    bell = Bell(str(db_path), 3)
    path = Path(bell_path(str(db_path), 3))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    bell.close()

    assert not path.exists()


def test_ringing_where_nobody_is_left_is_no_error(db_path: Path) -> None:
    """spec K3: a dead worker's bell, none at all, and a path too long for a socket."""
    bell = Bell(str(db_path), 0)
    assert bell._socket is not None
    bell._socket.close()

    ring(str(db_path), [0, 1, 2])
    taken_over = Bell(str(db_path), 0)
    ring(str(db_path), [0])
    assert is_ringing(taken_over)
    taken_over.close()

    deep = str(db_path) + "x" * 200
    silent = Bell(deep, 0)
    ring(deep, [0])
    assert silent.descriptor is None
    silent.close()
