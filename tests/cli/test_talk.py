"""What a worker tells: lines, JSON lines, failures; never an escape, never a forged line."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest

from tests.cli.conftest import NOON, Screen
from yieldstar_cli.cli.call import Call, Settings
from yieldstar_cli.cli.render.talk import WorkerTalk
from yieldstar_cli.worker.ports import Event

EVENTS = [
    Event(NOON, "started", "", text="shop:4412 · ys.db · 1 workflow, 4 slots"),
    Event(NOON + 4, "claimed", "order-42", "charge-order", attempt=2),
    Event(NOON + 5, "step_started", "order-42", "charge-order", "load-order", 1),
    Event(NOON + 46, "step_completed", "order-42", "charge-order", "load-order", 1, 41),
    Event(
        NOON + 996, "step_failed", "order-42", "charge-order", "charge-card", 1, 950, NOON + 2_996,
        "CardTimeout: no answer",
    ),
    Event(NOON + 997, "suspended", "order-42", "charge-order", due_at=NOON + 2_996),
    Event(NOON + 998, "claimed", "order-43", "charge-order", attempt=1),
    Event(NOON + 999, "failed", "order-43", "charge-order", took_ms=1, text="ValueError: no"),
    Event(NOON + 999, "broken module", "", text="bad.py:3: no"),
]  # fmt: skip


def told(
    monkeypatch: pytest.MonkeyPatch, *events: Event, screen: bool = False, **settings: Any
) -> tuple[str, str]:
    """What stands on stdout and stderr after these events."""
    out: io.StringIO = Screen() if screen else io.StringIO()
    err = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    talk = WorkerTalk(Call(settings=Settings(color="never", **settings)))
    for event in events:
        talk(event)
    talk.close()
    return out.getvalue(), err.getvalue()


def lines(text: str) -> list[str]:
    """What stays: the status line is erased before each line."""
    return [part.rpartition("\x1b[K")[2] for part in text.split("\n") if part]


def test_a_terminal_gets_a_line_for_each_event(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = told(monkeypatch, *EVENTS, screen=True)

    assert err == ""
    assert lines(out)[:-1] == [
        "ys worker shop:4412 · ys.db · 1 workflow, 4 slots · Ctrl-C stops",
        "12:00:00.004  order-42     ▶ charge-order     delivery 2",
        "12:00:00.046  order-42       load-order         41 ms",
        (
            "12:00:00.996  order-42     ✗ charge-card       950 ms  CardTimeout: no answer;"
            " again in 2.0 s"
        ),
        "12:00:00.997  order-42     ⏸ suspended        wakes in 2.0 s",
        "12:00:00.998  order-43     ▶ charge-order     delivery 1",
        "12:00:00.999  order-43     ✗ failed           ValueError: no",
        "12:00:00.999  broken module: bad.py:3: no",
    ]
    assert "── 0 running · 1 ended · 1 failed ──" in out
    assert out.endswith("\r\x1b[K")


def test_a_pipe_gets_failures_only_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = told(monkeypatch, *EVENTS)

    assert out == ""
    assert [line.split("  ", 1)[1] for line in err.splitlines()] == [
        "order-43     x failed           ValueError: no",
        "broken module: bad.py:3: no",
    ]


def test_verbose_brings_the_lines_back_with_utc_times(monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = told(monkeypatch, *EVENTS, verbose=1)
    all_of_it, _ = told(monkeypatch, *EVENTS, verbose=2)

    assert "2026-11-30T12:00:00.046Z  order-42" in out
    assert "began" not in out
    assert "began" in all_of_it


def test_programs_get_one_document_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = told(monkeypatch, *EVENTS, json=True)

    found = [json.loads(line) for line in out.splitlines()]
    assert err == ""
    assert [event["kind"] for event in found][:3] == ["started", "claimed", "step_started"]
    assert found[3] == {
        "schema": "ys.event/1",
        "at": "2026-11-30T12:00:00.046Z",
        "execution_id": "order-42",
        "workflow_id": "charge-order",
        "kind": "step_completed",
        "step_key": "load-order",
        "attempt": 1,
        "took_ms": 41,
        "due_at": None,
        "worker": "shop:4412",
        "text": None,
    }


@pytest.mark.parametrize("how", [{"screen": True}, {}, {"verbose": 2}, {"json": True}])
def test_no_data_forges_a_line_or_reaches_the_terminal(
    monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]
) -> None:
    """S22, K6."""
    evil = "\n2026-11-30 INFO admitted order-1 \x1b[2J\x9b\u202e"
    event = Event(NOON, "failed", f"a{evil}", f"w{evil}", f"k{evil}", text=f"E: {evil}")

    text = "".join(told(monkeypatch, event, **how)).replace("\r\x1b[K", "")

    assert text.count("\n") == 1
    assert not set(text) & set("\x1b\x9b\u202e")


def test_a_reader_that_went_away_stops_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    talk = WorkerTalk(Call(settings=Settings(verbose=1)))
    monkeypatch.setattr(sys, "stdout", Gone())
    monkeypatch.setattr(sys, "stderr", Gone())

    for event in EVENTS:
        talk(event)
    talk.close()

    assert talk._ended == 1
