"""The lock file: who holds which byte, and what a free one proves. Real processes throughout."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from dataclasses import replace

import pytest

from yieldstar_cli.errors import StorageError, UntrustedPath
from yieldstar_cli.model import WorkerRow
from yieldstar_cli.worker import liveness
from yieldstar_cli.worker.liveness import LockFile

HOLDER = """
import sys
from yieldstar_cli.worker.liveness import LockFile
lock = LockFile(sys.argv[1])
print(lock.acquire(bytes.fromhex(sys.argv[2])), flush=True)
sys.stdin.read()
"""


class Holder:
    """A process that holds a byte until it is killed, or its stdin is closed."""

    def __init__(self, path: str, nonce: bytes = b"other") -> None:
        self.nonce = nonce
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, path, nonce.hex()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.slot = int(self.process.stdout.readline())

    def end(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        self.process.communicate(timeout=20)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "ys.db-lock")


@pytest.fixture
def start(path):
    holders: list[Holder] = []

    def start_holder(nonce: bytes = b"other") -> Holder:
        holders.append(Holder(path, nonce))
        return holders[-1]

    yield start_holder
    for holder in holders:
        if holder.process.returncode is None:
            holder.end()


def row(lock: LockFile, slot: int, nonce: bytes, number: int = 1, **changed: object) -> WorkerRow:
    made = WorkerRow(
        number=number,
        name="w",
        host="h",
        pid=1,
        slot=slot,
        nonce=nonce,
        boot_id=lock.boot_id,
        device=lock.device,
        inode=lock.inode,
        started_at=0,
        lease_until_at=10,
        stopped_at=None,
        how=None,
        workflows=(),
        broken=(),
    )
    return replace(made, **changed)


def test_the_lock_file_is_its_owners_alone_and_stays(path):
    """spec K5, L3: mode 0600, never deleted."""
    lock = LockFile(path)
    lock.release(lock.acquire(b"a"))

    found = os.stat(path)
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert (lock.device, lock.inode) == (found.st_dev, found.st_ino)


def test_a_lock_file_that_others_may_use_becomes_private(path):
    """spec K5."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o666))
    os.chmod(path, 0o666)

    LockFile(path)

    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_a_symbolic_link_is_refused_and_what_it_names_untouched(path, tmp_path):
    """spec K5: never followed elsewhere."""
    os.symlink(tmp_path / "elsewhere", path)

    with pytest.raises(UntrustedPath):
        LockFile(path)

    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_file_in_a_directory_that_is_not_there_is_a_storage_error(tmp_path):
    """style: never a traceback for what a user can cause."""
    with pytest.raises(StorageError):
        LockFile(str(tmp_path / "nowhere" / "ys.db-lock"))


def test_each_worker_gets_a_byte_of_its_own_also_within_one_process(path, start):
    """spec L3: one byte per worker."""
    first, second = LockFile(path), LockFile(path)
    mine = [first.acquire(b"a"), second.acquire(b"b")]
    theirs = [start().slot, start().slot]

    assert sorted(mine + theirs) == [0, 1, 2, 3]


def test_a_slot_to_be_avoided_is_not_taken_though_it_is_free(path):
    """A dead worker's claims are ended before its place is anyone's."""
    lock = LockFile(path)

    assert lock.acquire(b"a", avoid={0, 2}) == 1
    assert lock.acquire(b"b", avoid={0, 2}) == 3


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_a_process_that_has_ended_is_dead_however_it_ended(path, start, number):
    """spec L3: the kernel lets go of its byte."""
    lock = LockFile(path)
    holder = start()
    assert not lock.is_dead(holder.slot)

    holder.end(number)

    assert lock.is_dead(holder.slot)
    # The look itself holds nothing: others find the same.
    assert probe_from_outside(path, holder.slot) == "dead"
    assert lock.find_dead([row(lock, holder.slot, b"other")]) == [row(lock, holder.slot, b"other")]


def test_a_stopped_process_is_not_dead(path, start):
    """case 85; spec L3: of a SIGSTOPped one only the lease tells."""
    lock = LockFile(path)
    holder = start()

    holder.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, holder.process.pid, os.WSTOPPED | os.WNOWAIT)

    assert not lock.is_dead(holder.slot)
    assert lock.find_dead([row(lock, holder.slot, b"other")]) == []


def test_looking_at_ones_own_byte_does_not_lose_it(path):
    """spec L3: workers of one's own process are known from memory."""
    lock, other = LockFile(path), LockFile(path)
    slot = lock.acquire(b"a")

    assert not other.is_dead(slot)
    assert other.find_dead([row(lock, slot, b"a")]) == []

    assert probe_from_outside(path, slot) == "alive"


def test_a_second_opening_of_the_file_in_one_process_drops_no_lock(path):
    """Closing any descriptor would: so there is one, and it is never closed."""
    lock = LockFile(path)
    slot = lock.acquire(b"a")

    before = lowest_free_descriptor()
    for _ in range(3):
        again = LockFile(path)
        del again

    assert lowest_free_descriptor() == before
    assert probe_from_outside(path, slot) == "alive"


def test_a_released_byte_is_free_at_once(path):
    """spec K2: a worker that stopped in order."""
    lock = LockFile(path)
    slot = lock.acquire(b"a")
    lock.release(slot)
    lock.release(slot)

    assert probe_from_outside(path, slot) == "dead"
    assert lock.is_dead(slot)


def test_a_forked_child_holds_nothing_and_takes_nothing_from_its_parent(path):
    """B19; spec L3: taken after any fork."""
    lock = LockFile(path)
    slot = lock.acquire(b"a")

    for _ in range(10):
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            said = f"{lock.is_dead(slot)} {lock.holds(slot, b'a')} {lock.acquire(b'child')}"
            os.write(write_end, said.encode())
            os._exit(0)
        os.close(write_end)
        with os.fdopen(read_end) as answers:
            assert answers.read() == f"False False {slot + 1}"
        os.waitpid(pid, 0)

    assert lock.holds(slot, b"a")
    assert probe_from_outside(path, slot) == "alive"


def test_rows_of_another_boot_file_or_device_are_never_dead_by_a_look(path):
    """spec L3: in every other case only the lease counts."""
    lock = LockFile(path)
    free = row(lock, 5, b"gone")

    assert lock.find_dead([free]) == [free]
    assert (
        lock.find_dead(
            [
                replace(free, boot_id="before the reboot"),
                replace(free, inode=lock.inode + 1),
                replace(free, device=lock.device + 1),
            ]
        )
        == []
    )


def test_a_dead_worker_is_found_though_a_newer_one_has_taken_its_byte(path, start):
    """B101: same host, name and slot; rows and nonces tell them apart, never names."""
    lock = LockFile(path)
    dead = row(lock, 0, b"dead", number=1)
    newer = start(b"newer")
    assert newer.slot == 0

    found = lock.find_dead([row(lock, 0, b"newer", number=2), dead])

    assert found == [dead]


def test_a_dead_worker_is_found_though_this_process_has_taken_its_byte(path):
    """B101; spec L3: at once when a worker starts, before its own row is there."""
    lock = LockFile(path)
    slot = lock.acquire(b"mine")
    dead = row(lock, slot, b"dead", number=1)

    assert lock.find_dead([dead]) == [dead]
    assert lock.find_dead([row(lock, slot, b"mine", number=2), dead]) == [dead]


def test_a_lock_file_that_was_replaced_is_another_file(path, start):
    """spec L3: the row holds the file's device and inode."""
    before = LockFile(path)
    slot = before.acquire(b"a")
    os.unlink(path)
    after = LockFile(path)

    assert after.inode != before.inode
    assert after.find_dead([row(before, slot, b"a")]) == []
    assert after.acquire(b"b") == slot


def test_the_boot_id_stays_the_same_and_is_not_empty():
    """spec L3."""
    assert liveness.boot_id() == liveness.boot_id() != ""


def test_slots_run_out_with_an_error_that_says_so(path, monkeypatch):
    """style: errors say what to do."""
    monkeypatch.setattr(liveness, "MOST_SLOTS", 2)
    lock = LockFile(path)
    lock.acquire(b"a")
    lock.acquire(b"b")

    with pytest.raises(StorageError, match="no free place"):
        lock.acquire(b"c")


def lowest_free_descriptor() -> int:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(descriptor)
    return descriptor


PROBE = """
import sys
from yieldstar_cli.worker.liveness import LockFile
print("dead" if LockFile(sys.argv[1]).is_dead(int(sys.argv[2])) else "alive")
"""


def probe_from_outside(path: str, slot: int) -> str:
    return subprocess.run(
        [sys.executable, "-c", PROBE, path, str(slot)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.strip()
