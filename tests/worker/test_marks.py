"""The marks: what runs in which worker, read by whoever outlives it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading

import pytest

from yieldstar_cli.errors import UntrustedPath
from yieldstar_cli.worker import marks as marks_module
from yieldstar_cli.worker.marks import RECORDS, Mark, MarksFile, NoMarks

NONCE = b"sixteen bytes of"


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "ys.db-marks")


@pytest.fixture
def marks(path):
    made = MarksFile(path)
    made.take(0, NONCE)
    yield made
    made.close()


def test_what_is_entered_is_read_until_it_is_left(path, marks):
    """spec L5; spec E5: which step runs and since when."""
    reader = MarksFile(path)
    first = marks.enter(42, "charge-card", 1_000)
    second = marks.enter(43, "send-mail#2", 2_000)

    assert reader.read(0, NONCE) == [
        Mark(42, 1_000, "charge-card"),
        Mark(43, 2_000, "send-mail#2"),
    ]

    marks.leave(first)
    assert reader.read(0, NONCE) == [Mark(43, 2_000, "send-mail#2")]
    marks.leave(second)
    assert reader.read(0, NONCE) == []


def test_marks_outlive_a_killed_process(path):
    """spec L5; case 292: a step that is killed is counted for its execution, and only for it."""
    script = (
        "import sys, os\n"
        "from yieldstar_cli.worker.marks import MarksFile\n"
        "marks = MarksFile(sys.argv[1])\n"
        f"marks.take(2, {NONCE!r})\n"
        "marks.leave(marks.enter(41, 'ended', 900))\n"
        "marks.enter(42, 'charge-card', 1000)\n"
        "print('entered', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"entered\n"
        process.send_signal(signal.SIGKILL)

    assert MarksFile(path).read(2, NONCE) == [Mark(42, 1_000, "charge-card")]


def test_another_workers_marks_are_not_taken_for_those_of_a_dead_one(path, marks):
    """spec L5: others are unaffected; a slot that is used again says whose it is."""
    marks.enter(42, "charge-card", 1_000)

    assert MarksFile(path).read(0, b"of a dead worker") == []


def test_a_region_taken_anew_is_empty(path, marks):
    """A worker begins without marks."""
    marks.enter(42, "charge-card", 1_000)
    newer = MarksFile(path)
    newer.take(0, b"newer")

    assert newer.read(0, b"newer") == []
    assert newer.read(0, NONCE) == []


def test_regions_do_not_touch_each_other(path, marks):
    """One region per slot; a later one grows the file under the earlier ones."""
    later = MarksFile(path)
    marks.enter(42, "first", 1_000)
    later.take(7, b"later")
    later.enter(43, "later", 2_000)
    marks.enter(44, "second", 3_000)

    assert [mark.number for mark in later.read(0, NONCE)] == [42, 44]
    assert [mark.number for mark in marks.read(7, b"later")] == [43]
    assert marks.read(3, b"") == []


def test_an_earlier_region_taken_later_does_not_shorten_the_file(path):
    """A shorter file under a mapping kills the process that writes to it."""
    later, earlier = MarksFile(path), MarksFile(path)
    later.take(7, b"later")
    size = os.path.getsize(path)
    earlier.take(0, NONCE)
    later.enter(43, "later", 2_000)

    assert os.path.getsize(path) == size
    assert [mark.number for mark in earlier.read(7, b"later")] == [43]


def test_a_full_region_marks_nothing_more_and_goes_on(path, marks):
    """A mark too many is no error; a thousand async steps and many threads fit."""
    slots = [marks.enter(number + 1, "step", number) for number in range(RECORDS)]
    assert RECORDS > 1_000
    assert -1 not in slots
    assert len(set(slots)) == RECORDS

    assert marks.enter(9_999, "one too many", 1) == -1
    marks.leave(-1)
    assert len(marks.read(0, NONCE)) == RECORDS

    marks.leave(slots[5])
    assert marks.enter(9_999, "fits again", 1) == slots[5]


def test_a_long_key_is_cut_at_a_whole_character(path, marks):
    """About a hundred bytes are kept; a branch's key can be longer."""
    marks.enter(1, "ä" * 80, 1)
    marks.enter(2, "a" + "€" * 80, 2)
    marks.enter(3, "k" * 100, 3)

    keys = [mark.step_key for mark in marks.read(0, NONCE)]

    assert keys[0] == "ä" * 55
    assert keys[1] == "a" + "€" * 36
    assert keys[2] == "k" * 100


def test_marks_of_many_threads_do_not_mix(path, marks):
    """Threads enter and leave at once; each record is one call's."""
    torn: list[Mark] = []

    def work(worker: int) -> None:
        for turn in range(2_000):
            number = worker * 10_000 + turn + 1
            slot = marks.enter(number, f"key-{number}", number)
            if turn % 100 == 0:
                torn.extend(
                    mark for mark in marks.read(0, NONCE) if mark.number == number
                    and mark != Mark(number, number, f"key-{number}")
                )  # fmt: skip
            marks.leave(slot)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert torn == []
    assert marks.read(0, NONCE) == []
    assert len({marks.enter(1, "k", 1) for _ in range(RECORDS)}) == RECORDS


def test_the_file_is_its_owners_alone(path, marks, tmp_path):
    """spec K5, L5: 0600, and never through a link."""
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600

    link = tmp_path / "link-marks"
    os.symlink(path, link)
    with pytest.raises(UntrustedPath):
        MarksFile(str(link)).take(0, NONCE)
    assert MarksFile(str(link)).read(0, NONCE) == []


def test_readers_make_no_file(path):
    """`ys show` only reads."""
    assert MarksFile(path).read(0, NONCE) == []
    MarksFile(path).clear(0)
    assert not os.path.exists(path)


def test_a_cleared_region_is_empty(path, marks):
    """Once a dead worker's claims are ended."""
    marks.enter(42, "charge-card", 1_000)
    MarksFile(path).clear(0)
    MarksFile(path).clear(9)

    assert MarksFile(path).read(0, NONCE) == []
    assert os.path.getsize(path) == marks_module.REGION_BYTES


def test_a_disk_that_is_full_is_said_at_the_start_and_kills_nobody_later(path, marks):
    """The region's blocks are taken when it is: a store into a hole could end the process."""
    allocated = os.stat(path).st_blocks * 512

    assert allocated >= marks_module.REGION_BYTES


def test_after_closing_nothing_is_marked_and_a_late_leave_is_harmless(path):
    """A step's thread may end after its worker did; what it left marked stays."""
    marks = MarksFile(path)
    marks.take(0, NONCE)
    slot = marks.enter(42, "endless", 1_000)
    marks.close()

    marks.leave(slot)

    assert marks.enter(43, "late", 2_000) == -1
    assert marks.read(0, NONCE) == [Mark(42, 1_000, "endless")]


def test_without_a_region_nothing_is_marked(path):
    """Reading needs no region, and neither do the test kit's marks."""
    for nothing in (MarksFile(path), NoMarks()):
        slot = nothing.enter(42, "step", 1_000)
        nothing.leave(slot)
        assert slot == -1
    assert not os.path.exists(path)
