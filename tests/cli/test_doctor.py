"""`ys doctor`: each finding with its fix; exit 7 when there is one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import MINUTE, NOON, Shop
from tests.cli.family import WORKFLOWS, rest, tagged, timer
from yieldstar_cli.cli import mounts


def codes(shop: Shop) -> list[str]:
    return [finding["code"] for finding in shop.ys("doctor", "--json").json["findings"]]


def test_a_healthy_project_has_no_findings(shop: Shop) -> None:
    shop.sleeping()

    said, document = shop.screen("doctor"), shop.ys("doctor", "--json")

    assert said.code == 0
    assert "Nothing is wrong." in said.out
    assert "1 live worker: shop:4412" in said.out
    assert document.json == {"schema": "ys.findings/1", "ok": True, "findings": []}
    assert shop.ys("doctor").out == ""


def test_a_missing_database_is_a_finding(shop: Shop) -> None:
    said = shop.ys("doctor", "--json")

    assert said.code == 7
    assert codes(shop) == ["NO_DATABASE"]


def test_a_foreign_file_is_a_finding_and_stays_as_it_was(shop: Shop) -> None:
    shop.db.write_bytes(b"not ours" * 100)
    shop.db.chmod(0o600)

    assert codes(shop) in (["FOREIGN_FILE"], ["CORRUPT_FILE"])
    assert shop.db.read_bytes() == b"not ours" * 100


def test_a_database_open_to_others_is_a_finding(shop: Shop) -> None:
    """S11."""
    shop.admit()
    shop.db.chmod(0o644)

    assert "OPEN_TO_OTHERS" in codes(shop)


def test_due_executions_without_a_worker_are_a_finding(shop: Shop) -> None:
    shop.admit()
    shop.clock.advance(6 * MINUTE)

    said = shop.screen("doctor")

    assert said.code == 7
    assert "1 execution is due, the oldest (order-42) for 6m, and no worker is running." in said.out
    assert "→ ys worker" in said.out


def test_held_executions_are_findings(shop: Shop) -> None:
    shop.admit()
    claimed = shop.claim()
    shop.storage.executions.release(claimed.delivery, problem=("DIVERGED", "x"), held=True)

    assert codes(shop) == ["HELD"]


def test_broken_modules_of_live_workers_are_findings(shop: Shop) -> None:
    worker = shop.start_worker()
    shop.storage.workers.describe(worker, [("charge-order", 1)], [("bad.py", "line 1: no")])

    (finding,) = shop.ys("doctor", "--json").json["findings"]

    assert finding["code"] == "WORKFLOW_IMPORT_FAILED"
    assert finding["file"] == "bad.py"


def test_executions_whose_workflow_nobody_has_are_a_finding(shop: Shop) -> None:
    shop.start_worker(workflows=[("hello", 1)])
    shop.admit()

    assert "UNKNOWN_WORKFLOW" in codes(shop)


def test_the_third_worker_on_one_host_is_a_finding(shop: Shop) -> None:
    for number in range(2):
        shop.start_worker(f"shop:{number}")
    assert codes(shop) == []

    shop.start_worker("shop:2")

    assert codes(shop) == ["MANY_WORKERS"]


def test_a_clock_that_jumped_is_a_finding(shop: Shop) -> None:
    """B34."""
    shop.clock.advance(60 * MINUTE)
    shop.admit(at=shop.clock.now_ms() + 100 * MINUTE)
    shop.clock.advance(-60 * MINUTE)

    assert "CLOCK" in codes(shop)


def test_a_directory_that_others_may_write_is_a_finding(shop: Shop) -> None:
    """S3."""
    shop.admit()
    shop.start_worker()
    (shop.root / "workflows").mkdir()
    (shop.root / "workflows").chmod(0o777)

    said = shop.ys("doctor", "--json").json["findings"]

    assert [finding["code"] for finding in said] == ["UNTRUSTED_PATH"]


HOLDER = """
import sys
from yieldstar_cli.storage.sqlite.storage import SqliteStorage
storage = SqliteStorage(sys.argv[1])
with storage.atomic():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_stopped_process_that_holds_the_write_lock_is_named(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B26: "held longer than", by whom; locked, not damaged; not "clean"."""
    monkeypatch.setattr("yieldstar_cli.cli.checkup._LONGEST_LOCK_MS", 50)
    shop.admit()
    shop.start_worker()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(shop.db)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        os.kill(process.pid, signal.SIGSTOP)

        (finding,) = shop.ys("doctor", "--json").json["findings"]
    finally:
        os.kill(process.pid, signal.SIGCONT)
        process.communicate()

    assert finding["code"] == "WRITE_LOCK_HELD"
    assert f"by process {process.pid}" in finding["text"]
    assert "locked, not damaged" in finding["text"]


def test_reading_works_and_writing_fails_once_on_a_read_only_file(shop: Shop) -> None:
    """B25: reading commands work, writing ones fail with one line and 10."""
    if os.geteuid() == 0:
        _read_only_as_root(shop)
        return
    shop.admit()
    shop.close()
    shop.db.chmod(0o400)

    assert shop.ys("list", "-q").out == "order-42\n"
    assert shop.ys("trigger", "charge-order").code == 10


def _read_only_as_root(shop: Shop) -> None:
    """Root may write whatever the mode says; what is read is the same."""
    shop.admit()
    shop.close()
    shop.db.chmod(0o400)

    assert shop.ys("list", "-q").out == "order-42\n"
    assert shop.ys("show", "order-42").code == 0


MOUNTS = r"""
22 27 0:20 / /sys rw - sysfs sysfs rw
27 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw
90 27 0:50 / /mnt/nfs rw shared:1 - nfs4 server:/export rw
91 27 0:51 / /mnt/my\040share rw - cifs //server/share rw
92 90 254:9 / /mnt/nfs/local rw - xfs /dev/vdb rw
""".strip()


@pytest.mark.parametrize(
    ("path", "place", "network"),
    [
        ("/srv/shop", "/", False),
        ("/mnt/nfs", "/mnt/nfs", True),
        ("/mnt/nfs/shop", "/mnt/nfs", True),
        ("/mnt/nfs/local/shop", "/mnt/nfs/local", False),
        ("/mnt/my share/x", "/mnt/my share", True),
    ],
)
def test_a_network_file_system_is_known_by_its_type(path: str, place: str, network: bool) -> None:
    """B24: simulated by the table of mounts."""
    found = mounts.mount_of(Path(path), MOUNTS)

    assert found is not None
    assert (found.place, found.is_network) == (place, network)


def test_a_network_file_system_is_a_finding(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """B24."""
    shop.admit()
    shop.start_worker()
    monkeypatch.setattr(
        "yieldstar_cli.cli.mounts.mount_of", lambda path: mounts.Mount("/mnt/nfs", "nfs4")
    )

    said = shop.screen("doctor")

    assert said.code == 7
    assert "/mnt/nfs is a network file system (nfs4)" in said.out


def test_no_module_is_loaded(shop: Shop) -> None:
    """S1."""
    marker = shop.root / "loaded"
    shop.module("charge_order.py", f"open({str(marker)!r}, 'w')\n")
    shop.admit()

    for words in (
        ("show", "order-42"),
        ("list",),
        ("explain", "order-42"),
        ("wait", "order-42", "--timeout", "1ms"),
        ("wake", "order-42"),
        ("doctor",),
    ):
        shop.ys(*words)
        shop.screen(*words)

    assert not marker.exists()


def test_a_durability_that_was_chosen_is_no_finding_and_says_what_it_gives_up(shop: Shop) -> None:
    """spec E13: `normal` is never the default."""
    shop.admit()
    full = shop.screen("doctor")
    (shop.root / "ys.toml").write_text('durability = "normal"\n')

    normal = shop.screen("doctor")

    assert "power cut" not in full.out
    assert "· durability normal: a power cut may take the last commits with it\n" in normal.out
    assert normal.code == full.code


# --- what people have stopped, and what nobody can take up ----------------------------------------


def findings(shop: Shop, code: str) -> list[tuple[str, str]]:
    """Texts and remedies of the findings with this code."""
    found = shop.ys("doctor", "--json").json["findings"]
    return [(one["text"], one["remedy"]) for one in found if one["code"] == code]


def test_what_is_paused_is_found_with_who_when_and_why(shop: Shop) -> None:
    """spec E14: a pause that somebody forgot is no longer a riddle."""
    rest(shop, "a", [timer(NOON + MINUTE)])
    steering = shop.storage.steering
    steering.pause(execution_id="a", by="ann", reason="audit")
    steering.pause(workflow_id="report", by="bob")
    steering.pause(by="eve")

    since = "since 2026-11-30T12:00:00.000Z"
    assert set(findings(shop, "PAUSED")) == {
        (f"Everything here is paused by eve {since}", "ys resume --all"),
        (f"The workflow report is paused by bob {since}", "ys resume --workflow report"),
        (f"a is paused by ann {since}: audit", "ys resume a"),
    }


def test_many_paused_executions_are_counted(shop: Shop) -> None:
    for number in range(9):
        shop.admit(f"a{number}")
        shop.storage.steering.pause(execution_id=f"a{number}", by="ann")

    found = findings(shop, "PAUSED")

    assert len(found) == 6
    assert found[-1] == ("4 more executions are paused.", "ys list")


def test_what_is_paused_is_not_late(shop: Shop) -> None:
    """spec E14: it is due, and nobody is to take it."""
    shop.start_worker(lease_until_at=NOON + 60 * MINUTE)
    shop.admit("a")
    shop.storage.steering.pause(execution_id="a", by="ann")
    shop.clock.advance(10 * MINUTE)

    assert findings(shop, "LATE") == []


def test_what_needs_a_tag_that_nobody_has_is_found(shop: Shop) -> None:
    """spec O5."""
    rest(shop, "a", [tagged("gpu")], needs=("gpu",))

    without = findings(shop, "NO_TAGGED_WORKER")
    shop.start_worker("shop:9", WORKFLOWS, tags=("gpu",))

    assert without == [
        (
            "a of charge-order needs a worker with the tag gpu, and no live one has it.",
            "ys worker --tag gpu",
        )
    ]
    assert findings(shop, "NO_TAGGED_WORKER") == []
