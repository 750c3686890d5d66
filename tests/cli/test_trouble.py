"""Storage that refuses, fails or is newer; processes that are killed; who may write."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from tests.cli.conftest import Shop
from tests.storage.faulty_vfs import broken, faulty_disk, full
from yieldstar_cli.cli.verbs import NAMES
from yieldstar_cli.clock import SystemClock
from yieldstar_cli.model import Completed, Suspended, Wait

Place = Callable[[], Path]

ONE = ("trigger", "charge-order", "--id", "order-42", "-p", "order=42")


def test_a_commit_of_unknown_fate_is_eleven_and_said_to_be_unknown(
    shop: Shop, charge_order: Place
) -> None:
    """case 31: never "failed"; `ys show` then tells."""
    charge_order()
    shop.ys("trigger", "charge-order", "--id", "before", "-p", "order=1")
    with faulty_disk() as disk:
        disk.arm(broken, at=1, times=10_000, only=("sync", "-wal"))
        said = shop.ys(*ONE)
        disk.disarm()

    assert said.code == 11
    assert said.out == ""
    assert "ys show order-42" in said.err
    assert "failed" not in said.err
    shown, again = shop.ys("show", "order-42").code, shop.ys(*ONE).code
    assert (shown, again) in ((0, 3), (4, 0))


@pytest.mark.parametrize(
    ("words", "said", "look"),
    [
        (("send", "order-42", "cancel"), "the message was sent", "ys messages order-42"),
        (("approve", "order-42"), "the decision was sent", "ys messages order-42"),
        (("cancel", "order-42"), "the cancel stands", "ys show order-42"),
        (("pause", "order-42"), "the mark stands", "ys show order-42"),
        (("pause", "--all"), "the mark stands", "ys list"),
    ],
)
def test_what_is_asked_in_a_commit_of_unknown_fate_is_said_to_be_unknown(
    shop: Shop, words: tuple[str, ...], said: str, look: str
) -> None:
    """case 31: never "failed", and what tells is named."""
    shop.admit()
    now = shop.clock.now_ms()
    wait = Wait("message", "decision", "", now, None, "waiting", queue="decision")
    shop.deliver(waits=[wait], outcome=Suspended())
    with faulty_disk() as disk:
        disk.arm(broken, at=1, times=10_000, only=("sync", "-wal"))
        answer = shop.ys(*words)
        disk.disarm()

    assert (answer.code, answer.out) == (11, "")
    assert f"it is not known whether {said}" in answer.err
    assert f"→ This tells: {look}\n" in answer.err


def test_a_full_disk_is_ten_and_the_same_id_is_free_after(shop: Shop, charge_order: Place) -> None:
    """case 32."""
    charge_order()
    shop.ys("trigger", "charge-order", "--id", "before", "-p", "order=1")
    with faulty_disk() as disk:
        disk.arm(full, at=1, times=10_000, only=("write", "-wal"))
        said = shop.ys("--json", *ONE)
        disk.disarm()

    assert (said.code, said.error["code"]) == (10, "DISK_FULL")
    assert shop.ys("show", "order-42").code == 4
    assert shop.ys(*ONE).code == 0


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in ("help", "init", "completion")]
)
def test_a_newer_file_is_refused_by_every_command_and_stays_as_it_is(
    shop: Shop, charge_order: Place, name: str
) -> None:
    """B30: one line, what is needed, ten; nothing written."""
    charge_order()
    shop.admit()
    shop.ys("backup", "copy.db")
    shop.close()
    connection = apsw.Connection(str(shop.db))
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {version + 1}")
    connection.close()
    before = shop.db.read_bytes()
    words = {
        "trigger": ONE[1:],
        "show": ("order-42",),
        "explain": ("order-42",),
        "wait": ("order-42",),
        "wake": ("order-42",),
        "worker": ("--until-idle",),
        "messages": ("order-42",),
        "send": ("order-42", "cancel"),
        "approve": ("order-42",),
        "reject": ("order-42",),
        "cancel": ("order-42",),
        "pause": ("order-42",),
        "resume": ("order-42",),
        "store": ("list",),
        "prune": ("--older", "1d"),
        "delete": ("order-42",),
        "backup": ("other.db",),
        "restore": ("copy.db", "--yes"),
    }

    said = shop.ys("--json", name, *words.get(name, ()))

    if name == "doctor":
        assert said.code == 7
        assert said.json["findings"][0]["code"] == "SCHEMA_TOO_NEW"
    else:
        assert (said.code, said.error["code"]) == (10, "SCHEMA_TOO_NEW")
    assert shop.db.read_bytes() == before


def test_a_damaged_file_is_ten_without_a_traceback(shop: Shop) -> None:
    """B28."""
    for number in range(200):
        shop.admit(f"o{number}", params={"t": "x" * 500})
    shop.close()
    data = bytearray(shop.db.read_bytes())
    data[4096 : len(data)] = b"\xff" * (len(data) - 4096)
    shop.db.write_bytes(data)

    for words in (("list",), ("show", "o1"), ("doctor",)):
        said = shop.ys(*words)
        assert said.code in (7, 10), words
        assert "Traceback" not in said.err
        assert "bug" not in said.err


def test_a_trigger_killed_after_its_answer_has_admitted(shop: Shop, charge_order: Place) -> None:
    """case 29."""
    charge_order()
    process = subprocess.Popen(
        [sys.executable, "-m", "yieldstar_cli", *ONE, "--wait"],
        cwd=shop.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"order-42\n"
    process.kill()
    process.wait()
    process.stdout.close()

    assert shop.ys("show", "order-42").code == 0


def test_a_killed_wait_begun_again_settles_from_the_record(shop: Shop, charge_order: Place) -> None:
    """case 109."""
    charge_order()
    shop.clock.set(SystemClock().now_ms())
    shop.admit()
    process = subprocess.Popen(
        [sys.executable, "-m", "yieldstar_cli", "wait", "order-42"],
        cwd=shop.root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    assert b"No worker is running" in process.stderr.readline()
    process.kill()
    process.wait()
    process.stderr.close()
    shop.deliver(outcome=Completed("1"))

    assert shop.process("wait", "order-42").out == "order-42\tcompleted\t1\n"


def test_many_triggers_of_one_id_admit_one(shop: Shop, charge_order: Place) -> None:
    """case 26, B21: one accepted, the others conflicts, no lock error."""
    charge_order()
    shop.ys("workflows")
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "yieldstar_cli", *ONE],
            cwd=shop.root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(6)
    ]

    statuses = sorted(process.wait() for process in processes)

    assert statuses == [0, 3, 3, 3, 3, 3]


SLOW = '''
import os

from yieldstar_cli import Step, workflow


def hold() -> str:
    os.close(os.open("begun", os.O_CREAT))
    with open("go") as pipe:
        return pipe.read()


@workflow
async def slow(step: Step) -> str:
    """Holds until told to go."""
    return await step.run(hold)
'''


@pytest.fixture
def working(shop: Shop) -> Iterator[subprocess.Popen[bytes]]:
    """A worker in the middle of the step `hold` of the execution `s`."""
    shop.module("slow.py", SLOW)
    shop.clock.set(SystemClock().now_ms())
    assert shop.process("trigger", "slow", "--id", "s").code == 0
    os.mkfifo(shop.root / "go")
    process = subprocess.Popen(
        [sys.executable, "-m", "yieldstar_cli", "worker"],
        cwd=shop.root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _until(lambda: (shop.root / "begun").exists())
    yield process
    process.kill()
    process.wait()


def _until(true: Callable[[], bool]) -> None:
    """Look until it is true; a minute at most."""
    clock = SystemClock()
    last = clock.now_ms() + 60_000
    while not true():
        assert clock.now_ms() < last
        os.sched_yield()


def test_a_running_step_is_shown_from_the_marks(
    shop: Shop, working: subprocess.Popen[bytes]
) -> None:
    """spec E5, L5: which step runs, and since when."""
    shop.clock.set(SystemClock().now_ms())

    document = shop.ys("show", "s", "--json").json
    (step,) = document["steps"]
    listed = shop.screen("list").out

    assert (step["step_key"], step["state"]) == ("hold", "running")
    assert document["delivery"]["worker"].endswith(f":{working.pid}")
    assert "running" in listed
    assert shop.ys("list", "--running", "-q").out == "s\n"
    assert "hold" in listed
    assert "It is running hold (for " in shop.screen("explain", "s").out


def test_a_killed_worker_is_seen_at_once_and_the_next_one_goes_on(
    shop: Shop, working: subprocess.Popen[bytes]
) -> None:
    """B02: by its lock, not by its lease; no repair by hand."""
    working.send_signal(signal.SIGKILL)
    working.wait()
    shop.clock.set(SystemClock().now_ms())

    assert "delivery expired" in shop.screen("show", "s").out
    assert shop.ys("list", "--running", "-q").out == ""
    assert "is dead" in shop.screen("explain", "s").out
    (shop.root / "go").unlink()
    (shop.root / "go").write_text("went")
    assert shop.process("worker", "--until-idle").code == 0
    assert shop.process("show", "s", "--result").out == '"went"\n'


def test_whoever_may_only_read_reads_and_fails_once_when_writing(shop: Shop) -> None:
    """B25: reading commands work; writing ones fail with one line and ten."""
    assert shop.process("init").code == 0
    assert shop.process("trigger", "hello", "--id", "a").code == 0
    shop.db.chmod(0o444)
    shop.root.chmod(0o555)
    try:
        for words in (("list", "-q"), ("show", "a"), ("explain", "a")):
            said = bound_by_modes(shop, *words)
            assert said.returncode == 0, (words, said.stderr)
        for words in (("trigger", "hello", "--id", "b"), ("wake", "a"), ("worker", "--once")):
            said = bound_by_modes(shop, *words)
            assert said.returncode == 10, (words, said.stderr)
            assert said.stderr.decode().count("✗") == 1
            assert b"Traceback" not in said.stderr
    finally:
        shop.root.chmod(0o755)


def bound_by_modes(shop: Shop, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Call `ys` without root's right to pass over the modes of files."""
    prctl = ctypes.CDLL(None).prctl
    drop_from_bounding_set, may_pass_over_modes, may_read_all = 24, 1, 2

    def drop() -> None:
        for right in (may_pass_over_modes, may_read_all):
            prctl(drop_from_bounding_set, right, 0, 0, 0)

    return subprocess.run(
        [sys.executable, "-m", "yieldstar_cli", *words],
        cwd=shop.root,
        env={**os.environ, "PYTHONUTF8": "1"},
        preexec_fn=drop,
        capture_output=True,
        timeout=60,
    )


FAILS = '''
from yieldstar_cli import workflow


@workflow
def fails() -> None:
    """Fails."""
    raise ValueError("no funds")
'''


def test_trigger_and_wait_gives_the_outcome_and_its_status(
    shop: Shop, working: subprocess.Popen[bytes], charge_order: Place
) -> None:
    """cases 109, 110: 0 for a completed one, 7 for a failed one, with a live worker."""
    charge_order()
    shop.module("fails.py", FAILS)

    fine = shop.process("trigger", "charge-order", "-p", "order=1", "--wait", "--json")
    failed = shop.process("trigger", "fails", "--id", "f", "--wait")

    assert (fine.code, fine.json["status"], fine.json["result"]) == (0, "completed", "order 1")
    assert failed.code == 7
    assert failed.out == "f\nf\tfailed\tValueError: no funds\n"
    assert "No worker is running" not in failed.err
