"""The engine's fixture: one execution of one workflow, on the real driver and a real file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.helpers import Body, MakeRig, Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[MakeRig]:
    """Makes rigs, each on a file of its own, and closes them."""
    made: list[Rig] = []

    def make(body: Body, **more: object) -> Rig:
        made.append(Rig(tmp_path / f"{len(made)}.db", body, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()
