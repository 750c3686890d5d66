"""Installs the peers, each into an environment of its own under .bench/; never into the project's.

.venv/bin/python benchmarks/peers/install.py [NAME ...]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOME = HERE.parent.parent / ".bench"

#: Where a built checkout of Yieldstar is, if not in .bench/yieldstar; it is in no registry.
CHECKOUT = "YIELDSTAR"


@dataclass(frozen=True, slots=True)
class Peer:
    """One system that is measured beside ours."""

    name: str
    program: str
    #: What pip is asked for; empty where it is not a Python package.
    package: str = ""
    #: Kinds of work: "one" step or "ten".
    works: tuple[str, ...] = ("one", "ten")
    #: A hundred executions take it seconds.
    slow: bool = False

    @property
    def home(self) -> Path:
        """Its environment."""
        return HOME / self.name

    def command(self) -> list[str] | None:
        """How its program is started, or None where it is not installed."""
        program = str(HERE / self.program)
        if self.package:
            python = self.home / "bin" / "python"
            return [str(python), program] if python.exists() else None
        bun = HOME / "bun" / "node_modules" / ".bin" / "bun"
        return [str(bun), program] if bun.exists() and checkout().is_dir() else None


PEERS = (
    # A bare queue: ten steps would be one task like any other.
    Peer("huey", "huey_peer.py", "huey>=3.5,<4", works=("one",)),
    Peer("dbos", "dbos_peer.py", "dbos>=3.4,<4", slow=True),
    Peer("duroxide", "duroxide_peer.py", "duroxide>=0.2.2,<0.3", slow=True),
    Peer("yieldstar", "yieldstar_peer.ts"),
)


def checkout() -> Path:
    """Yieldstar's own source."""
    return Path(os.environ.get(CHECKOUT) or HOME / "yieldstar")


def main(names: Sequence[str]) -> int:
    """Install those named, or all; says what could not be had, and goes on."""
    unknown = sorted(set(names) - {peer.name for peer in PEERS})
    if unknown:
        print(f"no peer {', '.join(unknown)}; there are {', '.join(p.name for p in PEERS)}")
        return 2
    for peer in PEERS:
        if not names or peer.name in names:
            install = _python if peer.package else _bun
            print(f"{peer.name}: {install(peer)}", flush=True)
    return 0


def _python(peer: Peer) -> str:
    if not peer.home.is_dir():
        subprocess.run([sys.executable, "-m", "venv", str(peer.home)], check=True)
    pip = [str(peer.home / "bin" / "python"), "-m", "pip", "install"]
    done = subprocess.run(
        [*pip, "--quiet", "--disable-pip-version-check", peer.package],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        shutil.rmtree(peer.home)
        return f"not to be had: {done.stderr.strip().splitlines()[-1]}"
    return f"{peer.package} is in {peer.home}"


def _bun(peer: Peer) -> str:
    home = HOME / "bun"
    if shutil.which("npm") is None:
        return "not to be had: there is no npm"
    if not home.is_dir():
        home.mkdir(parents=True)
        (home / "package.json").write_text('{"private": true}\n')
        done = subprocess.run(
            ["npm", "install", "--silent", "bun@1"], cwd=home, capture_output=True, check=False
        )
        if done.returncode != 0:
            shutil.rmtree(home)
            return "not to be had: npm did not install Bun"
    if not checkout().is_dir():
        return f"Bun is there; set {CHECKOUT} to a built checkout of Yieldstar"
    return f"Bun and {checkout()} are there"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
