"""A project in a folder of its own, and the real `ys` run in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
KILLED = -9


class Scene:
    """One project with the example workflows, and a ledger in which steps note their calls."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        os.chmod(folder, 0o755)
        shutil.copytree(ROOT / "workflows", folder / "workflows")
        self.ledger = folder / "ledger.txt"
        self.points = folder / "points.txt"

    def ys(self, *words: str, check: bool = False) -> subprocess.CompletedProcess[str]:
        """Run `ys` to its end."""
        return subprocess.run(
            [sys.executable, "-m", "yieldstar_cli", *words],
            cwd=self.folder,
            env=self._env(),
            text=True,
            capture_output=True,
            timeout=120,
            check=check,
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start `ys` and leave it running."""
        return subprocess.Popen(
            [sys.executable, "-m", "yieldstar_cli", *words],
            cwd=self.folder,
            env=self._env(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def killed_at(self, point: int, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `ys` with SIGKILL at its Nth point."""
        return subprocess.run(
            [sys.executable, "-m", "tests.kill.harness", str(point), str(self.points), *words],
            cwd=self.folder,
            env=self._env(),
            text=True,
            capture_output=True,
            timeout=120,
            check=False,
        )

    def show(self, execution_id: str) -> dict[str, Any]:
        """`ys show --json`."""
        shown = self.ys("show", execution_id, "--json", check=True)
        document: dict[str, Any] = json.loads(shown.stdout)
        return document

    def calls(self) -> list[str]:
        """The step calls that the ledger holds, without their idempotency keys."""
        if not self.ledger.exists():
            return []
        return [line.split()[0] for line in self.ledger.read_text().splitlines()]

    def keys(self) -> set[str]:
        """The idempotency keys that the gateway saw."""
        if not self.ledger.exists():
            return set()
        lines = [line.split() for line in self.ledger.read_text().splitlines()]
        return {words[2] for words in lines if words[0] == "charge-card"}

    def points_passed(self) -> list[str]:
        """The points of all killed runs, in order."""
        return self.points.read_text().splitlines() if self.points.exists() else []

    def _env(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("YS_", "PYTEST"))}
        return {**kept, "PYTHONPATH": str(ROOT), "HOME": str(self.folder.parent)}
