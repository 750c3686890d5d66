"""Who else can read or replace what we write: modes, links, places that others may write (K5)."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.effort import rounds
from tests.process.shop import Shop as Works
from yieldstar_cli.cli.crash import write_report
from yieldstar_cli.errors import CorruptFile, StorageError, UntrustedPath, YieldstarError
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.worker.private_file import open_private

#: A step that starts a program, which tells which files it got from us.
STARTING = """
    import subprocess
    import sys

    from yieldstar_cli import Step, workflow

    LOOK = "import os; print(sorted(os.listdir('/proc/self/fd')))"

    def look() -> str:
        done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True)
        return done.stdout + done.stderr

    @workflow
    async def starting(step: Step) -> str:
        return await step.run(look)
"""


@pytest.fixture
def works(tmp_path: Path) -> Works:
    """A project whose worker has a directory for temporary files of its own."""
    (tmp_path / "temporary").mkdir(mode=0o755)
    return Works(tmp_path / "shop")


@pytest.fixture
def open_umask() -> Iterator[None]:
    """A umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(*folders: Path) -> dict[str, int]:
    """What lies there, and what others may do with it."""
    found = [
        path for folder in folders for path in folder.rglob("*") if "workflows" not in str(path)
    ]
    return {path.name: stat.S_IMODE(path.lstat().st_mode) & 0o077 for path in found}


def test_a_running_and_a_killed_worker_leave_nothing_that_others_can_read(
    works: Works, tmp_path: Path, open_umask: None
) -> None:
    """security S11, S41; spec K5: database, log, index, lock, marks, bell; also after SIGKILL."""
    temporary = tmp_path / "temporary"
    os.chmod(works.folder, 0o700)
    works.gate("a")
    works.ys("trigger", "gated", "--id", "a", "-p", "name=a", check=True)
    before = set(modes(works.folder, temporary))

    worker = subprocess.Popen(
        [sys.executable, "-m", "yieldstar_cli", "worker"],
        cwd=works.folder,
        env={**works._env(), "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    works.wait_entered("a")
    running = modes(works.folder, temporary)
    worker.kill()
    worker.wait()
    killed = modes(works.folder, temporary)

    ours = {name for name in running if name.startswith("ys.db") or name not in before}
    ours -= {"ledger.txt", "a.entered", f"a.{worker.pid}.go"}
    assert ours >= {"ys.db", "ys.db-wal", "ys.db-shm", "ys.db-lock"}
    assert {name: running[name] for name in ours if running[name]} == {}
    assert {name: mode for name, mode in killed.items() if name in ours and mode} == {}
    assert modes(temporary) == {}


def test_a_crash_report_is_its_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_umask: None
) -> None:
    """security S25, S41: a file of 0600 in a directory of 0700, without messages and values."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    path = Path(write_report(["trigger", "w", "-p", "note=hunter2"], ValueError("hunter3")))

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    text = path.read_text()
    assert "ValueError" in text
    assert "hunter" not in text


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777])
def test_modules_in_a_directory_that_others_may_write_are_not_run(works: Works, mode: int) -> None:
    """security S3; spec K5: with the reason and what to type; the sticky bit helps nothing."""
    works.ys("trigger", "simple", "--id", "a", "-p", "name=a", check=True)
    os.chmod(works.folder / "workflows", mode)

    refused = works.ys("worker", "--until-idle")
    trusted = works.ys(
        "--trust-dir", str(works.folder / "workflows"), "worker", "--until-idle", check=True
    )

    assert refused.returncode == 10
    assert "can be written by everybody" in " ".join(refused.stderr.split())
    assert "Traceback" not in refused.stderr
    assert trusted.returncode == 0
    assert works.lines() == ["a"]


@pytest.mark.parametrize("verb", [("list",), ("trigger", "simple", "-p", "name=a"), ("worker",)])
def test_a_database_where_others_may_put_another_is_refused(
    works: Works, verb: tuple[str, ...]
) -> None:
    """security S11; spec K5: a directory that all may write, without the sticky bit."""
    works.ys("trigger", "simple", "--id", "a", "-p", "name=a", check=True)
    os.chmod(works.folder, 0o777)

    said = works.ys(*verb)

    assert said.returncode == 10
    assert "can be written by everybody" in " ".join(said.stderr.split())


def test_a_file_beside_the_database_is_never_followed_elsewhere(tmp_path: Path) -> None:
    """security S10: the lock and the marks are no links either."""
    target = tmp_path / "target"
    target.write_bytes(b"mine")
    (tmp_path / "ys.db-lock").symlink_to(target)

    with pytest.raises(UntrustedPath, match="symbolic link"):
        open_private(str(tmp_path / "ys.db-lock"))

    assert target.read_bytes() == b"mine"


def test_a_file_of_ten_gigabytes_of_nothing_is_refused_without_being_read(tmp_path: Path) -> None:
    """security S13."""
    path = tmp_path / "ys.db"
    with path.open("wb") as file:
        file.truncate(10 * 1024**3)

    with pytest.raises(CorruptFile, match="not a database"):
        SqliteStorage(path, create=True)

    assert path.stat().st_blocks == 0


def test_whoever_swaps_the_file_while_it_is_opened_gains_nothing(tmp_path: Path) -> None:
    """security S14: file, link, file, link …: what the link leads to is never opened."""
    target, real, path = (tmp_path / name for name in ("target.db", "real.db", "ys.db"))
    for file in (target, real):
        SqliteStorage(file, create=True).close()
    before = target.read_bytes()
    over, swaps, done = rounds(500), [0], threading.Event()

    def swap() -> None:
        for name in ("as-link", "as-file"):
            (tmp_path / name).unlink(missing_ok=True)
        while not done.is_set():
            os.symlink(target, tmp_path / "as-link")
            os.replace(tmp_path / "as-link", path)
            os.link(real, tmp_path / "as-file")
            os.replace(tmp_path / "as-file", path)
            swaps[0] += 1

    os.link(real, path)
    other = threading.Thread(target=swap)
    other.start()
    opened = refused = 0
    try:
        for number in range(over):
            with contextlib.suppress(UntrustedPath, StorageError):
                storage = SqliteStorage(path, create=True, busy_timeout_ms=1)
                opened += 1
                with contextlib.suppress(YieldstarError):
                    storage.executions.admit(workflow_id="w", execution_id=f"a-{number}")
                storage.close()
                continue
            refused += 1
    finally:
        done.set()
        other.join()

    assert opened + refused == over
    assert swaps[0] > 0
    assert target.read_bytes() == before
    assert not list(tmp_path.glob("target.db-*"))


def test_a_program_that_a_step_starts_inherits_none_of_our_files(works: Works) -> None:
    """security S39: neither the database, its log, the lock nor the marks."""
    works.module("starting", STARTING)
    works.ys("trigger", "starting", "--id", "a", check=True)

    works.ys("worker", "--until-idle", check=True)

    # The three that every program has, and the one by which it looks.
    assert works.show("a")["outcome"]["result"] == "['0', '1', '2', '3']\n"
