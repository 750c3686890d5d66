"""The guard: user code in a worker cannot open the database's files. In processes of their own,
because an audit hook stays until the process ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

from yieldstar_cli.worker.guard import Guard, guarded_paths

SCRIPT = """
import json, os, shutil, sqlite3, sys, pathlib
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
from yieldstar_cli.worker.guard import guarded_paths, install_guard
from yieldstar_cli.worker.liveness import LockFile

path = sys.argv[1]
os.chdir(os.path.dirname(path))
storage = SqliteStorage(path, create=True)
lock = LockFile(path + "-lock")
slot = lock.acquire(b"mine")
storage.executions.admit(workflow_id="charge-order", execution_id="order-1")
guard = install_guard(guarded_paths(path))
said = {}

def tried(name, attempt):
    try:
        attempt()
        said[name] = "let through"
    except PermissionError as error:
        said[name] = str(error)
    except Exception as error:
        said[name] = type(error).__name__
"""


def run_guarded(path: str, body: str) -> dict[str, str]:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT + textwrap.dedent(body) + "\nprint(json.dumps(said))", path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, str] = json.loads(ended.stdout)
    return found


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "ys.db")


def test_every_file_of_the_database_is_refused_by_every_door_with_the_way_out(path):
    """spec K5: `open` and `sqlite3.connect` of the database, its WAL, shm or lock file."""
    said = run_guarded(
        path,
        """
        for suffix in ("", "-wal", "-shm", "-lock"):
            tried("open" + suffix, lambda: open(path + suffix))
            tried("write" + suffix, lambda: open(path + suffix, "wb"))
            tried("os.open" + suffix, lambda: os.open(path + suffix, os.O_RDONLY))
        tried("bytes", lambda: open(os.fsencode(path)))
        tried("pathlib", lambda: pathlib.Path(path).read_bytes())
        tried("relative", lambda: open("./ys.db"))
        tried("copy", lambda: shutil.copy(path, path + ".copy"))
        tried("sqlite3", lambda: sqlite3.connect(path))
        tried("sqlite3 path", lambda: sqlite3.connect(pathlib.Path(path)))
        tried("sqlite3 uri", lambda: sqlite3.connect(f"file:{path}?mode=ro", uri=True))
        tried("sqlite3 uri //", lambda: sqlite3.connect(f"file://{path}", uri=True))
        tried("sqlite3 uri %", lambda: sqlite3.connect("file:ys%2Edb", uri=True))
        """,
    )

    assert len(said) == 21
    for name, text in said.items():
        assert "open_runtime()" in text, (name, text)


def test_other_names_of_the_files_are_refused_too(path, tmp_path):
    """spec K5: a link names the same file."""
    (tmp_path / "elsewhere").mkdir()
    said = run_guarded(
        path,
        """
        os.symlink(path, "soft")
        os.link(path, "hard")
        os.symlink(path + "-wal", "elsewhere/wal")
        os.symlink(".", "here")
        for name in ("soft", "hard", "elsewhere/wal", "here/ys.db-lock", "elsewhere/../ys.db"):
            tried(name, lambda: open(name))
        """,
    )

    for name, text in said.items():
        assert "open_runtime()" in text, (name, text)


def test_files_of_the_same_name_elsewhere_and_everything_else_are_let_through(path, tmp_path):
    """spec K5: only these files."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "ys.db").write_text("mine")
    said = run_guarded(
        path,
        """
        tried("elsewhere/ys.db", lambda: open("elsewhere/ys.db").close())
        tried("new", lambda: open("new", "w").close())
        tried("descriptor", lambda: open(os.open("new", os.O_RDONLY)).close())
        tried("memory", lambda: sqlite3.connect(":memory:").close())
        tried("own database", lambda: sqlite3.connect("own.db").close())
        tried("missing", lambda: open("missing"))
        tried("our own", lambda: SqliteStorage(path).close())
        tried("our lock", lambda: LockFile(path + "-lock"))
        """,
    )

    assert said.pop("missing") == "FileNotFoundError"
    assert set(said.values()) == {"let through"}, said


def test_a_refused_open_costs_no_lock(path):
    """case 85, B19: what it is all for: the worker's byte is still its own."""
    said = run_guarded(
        path,
        """
        import subprocess
        tried("open", lambda: open(path + "-lock").close())
        probe = (
            "import sys; from yieldstar_cli.worker.liveness import LockFile; "
            "print(LockFile(sys.argv[1]).is_dead(int(sys.argv[2])))"
        )
        arguments = [sys.executable, "-c", probe, path + "-lock", str(slot)]
        said["dead"] = subprocess.run(arguments, capture_output=True, text=True).stdout.strip()
        """,
    )

    assert said["dead"] == "False"


def test_a_forked_child_and_a_lifted_guard_refuse_nothing(path):
    """A child has no locks to lose, and a worker that has ended none either."""
    said = run_guarded(
        path,
        """
        pid = os.fork()
        if pid == 0:
            try:
                open(path).close()
            except PermissionError:
                os._exit(1)
            os._exit(0)
        said["child"] = str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        guard.lift()
        tried("lifted", lambda: open(path).close())
        """,
    )

    assert said == {"child": "0", "lifted": "let through"}


def test_events_that_open_nothing_and_odd_arguments_pass(path):
    """Python raises hundreds of audit events a second, some with strange arguments."""
    guard = Guard(guarded_paths(path))

    guard.hook("import", ("os",))
    guard.hook("open", ())
    for named in (3, None, object(), "a\0b", b"\xff", os.devnull):
        guard.hook("open", (named, "r", 0))
        guard.hook("sqlite3.connect", (named,))

    with pytest.raises(PermissionError, match="open_runtime"):
        guard.hook("open", (path, "r", 0))
