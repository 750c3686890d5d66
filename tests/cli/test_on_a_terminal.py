"""The real `ys` on a real terminal of 80 columns."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pyte

from tests.cli.conftest import Shop
from tests.cli.family import fan_out
from yieldstar_cli.clock import SystemClock
from yieldstar_cli.model import Completed, Suspended, Wait


def started(shop: Shop, *words: str) -> pexpect.spawn:
    env = {**os.environ, "TERM": "xterm", "PYTHONUTF8": "1"}
    return pexpect.spawn(
        sys.executable,
        ["-m", "yieldstar_cli", *words],
        cwd=str(shop.root),
        env=env,
        dimensions=(24, 80),
        timeout=30,
    )


def shown(data: bytes) -> list[str]:
    """What stands on the screen after `data`."""
    screen = pyte.Screen(80, 24)
    pyte.ByteStream(screen).feed(data)
    return [line.rstrip() for line in screen.display]


def test_show_fits_the_terminal_and_is_coloured(shop: Shop) -> None:
    shop.clock.set(SystemClock().now_ms())
    shop.sleeping()

    process = started(shop, "show", "order-42")
    data = process.read()

    lines = shown(data)
    assert b"\x1b[33m" in data
    assert lines[0].startswith("order-42    charge-order    ⏸ suspended")
    assert any("━" in line or "┄" in line for line in lines)
    assert any(line.startswith("Next: ys explain order-42") for line in lines)


def test_watch_redraws_in_place_until_the_end_and_leaves_the_last_picture(shop: Shop) -> None:
    shop.clock.set(SystemClock().now_ms())
    shop.admit()
    now = shop.clock.now_ms()
    wait = Wait("timer", "sleep", "10m", now, now + 600_000, "waiting")
    shop.deliver(waits=[wait], outcome=Suspended(now))

    process = started(shop, "show", "order-42", "--watch", "-n", "0.01")
    process.expect(b"sleep 10m")
    shop.deliver(outcome=Completed('"done"'))
    data = process.before + process.after + process.read()
    process.close()

    lines = shown(data)
    assert process.exitstatus == 0
    assert lines[0].startswith("order-42    charge-order    ✓ completed")
    assert not [line for line in lines if "suspended" in line]


def test_ctrl_c_in_watch_is_130_without_a_traceback(shop: Shop) -> None:
    shop.clock.set(SystemClock().now_ms())
    shop.sleeping()

    process = started(shop, "show", "order-42", "--watch")
    process.expect(b"Next:")
    process.sendintr()
    data = process.read()
    process.close()

    assert process.exitstatus == 130
    assert b"Traceback" not in data


def test_a_worker_on_a_terminal_tells_each_event_and_clears_its_status_line(
    shop: Shop, charge_order: Callable[[], Path]
) -> None:
    charge_order()
    shop.process("trigger", "charge-order", "--id", "order-42", "-p", "order=42")

    process = started(shop, "worker", "--until-idle")
    lines = [line for line in shown(process.read()) if line]

    assert lines[0].startswith("ys worker ")
    assert any("▶ charge-order" in line for line in lines)
    assert "✓ completed" in lines[-1]
    assert "──" not in lines[-1]


def test_a_watched_list_is_redrawn_in_place(shop: Shop) -> None:
    shop.clock.set(SystemClock().now_ms())
    shop.admit("order-41")

    process = started(shop, "list", "--watch")
    process.expect(b"1 of 1")
    data = process.before + process.after
    shop.admit("order-42")
    process.expect(b"2 of 2")
    data += process.before + process.after
    process.sendintr()
    data += process.read()
    process.close()

    lines = [line for line in shown(data) if line and not line.startswith("^C")]
    assert process.exitstatus == 130
    assert len(lines) == 4
    assert lines[-1].startswith("2 of 2")


def test_a_tree_and_its_explanation_fit_the_terminal(shop: Shop) -> None:
    """A fan-out on a real terminal: nothing wraps, statuses are coloured."""
    shop.clock.set(SystemClock().now_ms())
    fan_out(shop, left=3)
    shop.close()

    tree, explained = (
        started(shop, "show", "report-nov", "--tree"),
        started(shop, "explain", "report-nov"),
    )
    for child in (tree, explained):
        child.expect(pexpect.EOF)

    lines = shown(tree.before)
    assert lines[0] == "report-nov   report   ⏸ suspended   waiting for 3 of 100 children"
    assert lines[1].startswith("├─ ✓ 96 × square")
    assert "\x1b[31m✗\x1b[0m report-nov/sq-40" in tree.before.decode()
    assert shown(explained.before)[0].endswith("It waits for 3 of 100 children:")
