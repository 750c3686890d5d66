"""The fixtures of the command line's tests, and a process that serves calls the short way."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Said, charge_order, plain_environment, shop

__all__ = ["charge_order", "plain_environment", "shop"]

SERVER = Path(__file__).with_name("server.py")


class ShortWay:
    """A process whose nouns are light; serves one call after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def serve(self, root: Path, now_ms: int, *words: str, columns: int = 0) -> Said | None:
        """What the call said; None where it was left to typer. `columns`: on a terminal."""
        asked = {"words": words, "root": str(root), "now": now_ms, "columns": columns}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        said: Any = json.loads(self._process.stdout.readline())
        return None if said is None else Said(**said)

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="session")
def short_way() -> Iterator[ShortWay]:
    serving = ShortWay()
    yield serving
    serving.close()
