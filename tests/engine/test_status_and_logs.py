"""`set_status` and `log`: ride on the next commit, once each (spec R7, operations table)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.engine.helpers import START, MakeRig
from yieldstar_cli import codec
from yieldstar_cli.engine.step import Step
from yieldstar_cli.testing import Killed


def give(value: Any = None) -> Any:
    return value


def status(x: Any) -> Any:
    text = x.record.status_value_json
    return None if text is None else codec.decode(text)


def lines(x: Any) -> list[tuple[int, int, str]]:
    return [
        (line.at - START, line.level, line.text)
        for line in x.bench.storage.reader.logs(x.record.number)
    ]


async def a_b_c(step: Step) -> None:
    step.log.info("A")
    await step.run(give, 1)
    step.log.info("B")
    await step.sleep("1h")
    step.log.info("C")


@pytest.mark.parametrize("residents", [0, 10])
def test_each_line_is_kept_once_in_order_with_its_moment(rig: MakeRig, residents: int) -> None:
    """cases 132, 133, B59, B61; spec, operations table: silent during replay."""
    x = rig(a_b_c, residents=residents, duration=lambda call: 1_000)
    x.to(60_000)
    assert x.logs == ["A", "B"]
    x.restart()
    x.go()

    assert lines(x) == [
        (0, logging.INFO, "A"),
        (1_000, logging.INFO, "B"),
        (3_601_000, logging.INFO, "C"),
    ]
    said = [(e.text, e.attempt) for e in x.result.events if e.kind == "log"]
    assert said == [("A", 20), ("B", 20), ("C", 20)]


def test_lines_are_kept_once_wherever_the_worker_is_killed(rig: MakeRig) -> None:
    """case 133, B61; spec R2: no line leaves the process before what went before is durable."""
    x = rig(a_b_c)
    x.go()
    points = len(x.bench.points.names)
    for index in range(points):
        y = rig(a_b_c)
        y.bench.points.kill_at(index)
        with pytest.raises(Killed):
            y.go()
        y.bench.points.reset()
        y.restart()
        y.go()

        assert y.logs == ["A", "B", "C"], index


def test_levels_and_arguments_and_exceptions(rig: MakeRig) -> None:
    """spec, operations table: it is a `logging.Logger`."""

    async def w(step: Step) -> bool:
        step.log.debug("d %s", 1)
        step.log.warning("w %(a)s", {"a": 2})
        try:
            raise ValueError("x")
        except ValueError:
            step.log.exception("e")
        step.log.setLevel(logging.ERROR)
        step.log.info("not this")
        return isinstance(step.log, logging.Logger)

    x = rig(w)
    found = x.go()
    kept = lines(x)

    assert found.result is True
    assert [level for _, level, _ in kept] == [10, 30, 40]
    assert kept[0][2] == "d 1"
    assert kept[1][2] == "w 2"
    assert "ValueError: x" in kept[2][2]


@pytest.mark.parametrize(
    ("args", "kept"),
    [
        (("a %s %s", 1), "a %s %s (its arguments do not fit: not enough arguments"),
        (("\ud83d",), "\\ud83d"),
        (("a\x00b",), "a\x00b"),
        (("\x1b[31m",), "\x1b[31m"),
        (("",), ""),
        (("x" * 100_000,), "x" * 100_000),
    ],
)
def test_a_line_that_is_odd_does_no_harm(rig: MakeRig, args: Any, kept: str) -> None:
    """B84, B85: kept as text; nothing loops, nothing fails."""

    async def w(step: Step) -> int:
        step.log.info(*args)
        await step.sleep(1)
        return 1

    x = rig(w)

    assert x.go().result == 1
    assert len(x.logs) == 1
    assert x.logs[0].startswith(kept)


def test_lines_of_branches_come_in_the_order_they_ran(rig: MakeRig) -> None:
    """spec R1, R4: deterministic, so each line is told from its replay."""

    async def branch(step: Step, n: int) -> None:
        step.log.info("begins %d", n)
        await step.sleep(3 - n)
        step.log.info("ends %d", n)

    async def w(step: Step) -> None:
        await step.all([branch(step, n) for n in range(3)])

    x = rig(w, residents=0)
    x.to(1_500)
    x.restart()
    x.go()

    assert x.logs == ["begins 0", "begins 1", "begins 2", "ends 2", "ends 1", "ends 0"]


def test_a_status_is_kept_with_the_next_commit(rig: MakeRig) -> None:
    """spec R7, operations table: any value that can be stored; the last one stands."""

    async def w(step: Step) -> None:
        step.set_status("begun")
        await step.sleep("1m")
        for n in range(3):
            step.set_status({"done": n, "of": 3})
            await step.sleep("1m")
        step.set_status(None)

    x = rig(w)
    x.to(1_000)
    assert status(x) == "begun"
    x.to(61_000)
    assert status(x) == {"done": 0, "of": 3}
    x.restart()
    x.to(182_000)
    assert status(x) == {"done": 2, "of": 3}
    x.go()
    assert x.record.status_value_json == "null"


def test_a_replayed_status_needs_no_commit(rig: MakeRig) -> None:
    """spec R4, R7: a look that finds nothing writes a suspension and nothing else."""

    async def w(step: Step) -> None:
        step.set_status("waits")
        await step.sleep("1h")

    x = rig(w)
    x.to(1_000)
    x.restart()
    x.bench.points.reset()
    x.bench.storage.executions.request_wake("x", START + 2_000)
    x.to(3_000)

    assert status(x) == "waits"
    assert [n for n in x.bench.points.names if n.endswith(":after")] == [
        "commit:1:after",
        "commit:2:after",
    ]


@pytest.mark.parametrize("value", [object(), "\ud83d", {1: 2}, "x" * 5_000])
def test_a_status_that_cannot_be_stored_is_an_error_at_the_call(rig: MakeRig, value: Any) -> None:
    """spec V1, operations table: a small progress value."""

    async def w(step: Step) -> str:
        try:
            step.set_status(value)
        except Exception as error:
            return type(error).__name__
        return "taken"

    x = rig(w)

    assert x.go().result == "UnserializableValue"
    assert x.record.status_value_json is None


def test_logs_and_status_of_a_failed_function_are_kept(rig: MakeRig) -> None:
    """spec R7: they ride on the commit of the outcome."""

    async def w(step: Step) -> None:
        step.set_status("nearly")
        step.log.error("about to fail")
        raise ValueError("no")

    x = rig(w)
    x.go()

    assert x.logs == ["about to fail"]
    assert status(x) == "nearly"
