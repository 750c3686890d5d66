"""What the engine alone costs: a driver over a history in memory, without storage, loop or worker.

.venv/bin/python benchmarks/micro_driver.py [--repeats N] [--count N]

Prints microseconds of this process's CPU: of an execution of one step, of one step of ten, and of
one recorded operation that is replayed. The least of several runs is printed, since whatever else
the machine does only ever adds to it.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

from flows import measured

from yieldstar_cli import failures
from yieldstar_cli.engine import assembly, attempts, values
from yieldstar_cli.engine.attempts import StepEnd
from yieldstar_cli.engine.authoring import Workflow
from yieldstar_cli.engine.driver import Driver
from yieldstar_cli.model import Claimed, Completed, Delivery, Entry, Kind

BEGAN_AT = 1_000_000_000_000
LIMIT = 1 << 24
SEED = bytes(range(16))


def claimed(
    workflow: Workflow[..., Any], params: str = "{}", history: Sequence[Entry] = ()
) -> Claimed:
    """A delivery of one execution, with all that a driver needs of it."""
    return Claimed(
        delivery=Delivery("measured", 1, 1),
        workflow_id=workflow.workflow_id,
        version=1,
        params_json=params,
        context_json="{}",
        incarnation=1,
        seed=SEED,
        started_at=BEGAN_AT,
        status_value_json=None,
        history=tuple(history),
        first_position=0,
        retries=(),
        log_count=0,
        operations=len(history),
        last_moment=None,
        deaths=0,
    )


def deliver(workflow: Workflow[..., Any], delivery: Claimed) -> Driver:
    """Carry one execution to where it ends or only waits, as a worker does, but in one thread."""
    driver = assembly.assemble(workflow.definition, delivery)
    fault = assembly.damage(delivery)
    assert fault is None
    assembly.run(driver, delivery)
    while driver.performing:
        for handle in list(driver.performing):
            _perform(driver, handle)
    driver.touched = {}
    return driver


def _perform(driver: Driver, handle: Any) -> None:
    """One step: run it, judge how it ended, record that, and let the function go on."""
    work = handle.work
    if work.asynchronous:
        made = work.fn(*work.args, **work.kwargs)
        try:
            made.send(None)
        except StopIteration as stop:
            value = stop.value
    else:
        value = work.fn(*work.args, **work.kwargs)
    end = StepEnd(value, None, BEGAN_AT, BEGAN_AT)
    verdict = attempts.judge(driver, handle, end, BEGAN_AT)
    assert isinstance(verdict, attempts.Final)
    ok, text = values.encode_result(value, work.result_type, f"result of {handle.key}", LIMIT)
    entry = Entry(
        position=driver.position,
        kind=handle.kind,
        step_key=handle.key,
        ok=ok,
        value=text,
        at=max(BEGAN_AT, driver.moment),
        started_at=BEGAN_AT,
        attempt=1,
        label=handle.label,
        withdrawn=False,
    )
    driver.apply(handle, entry)


def outcome(driver: Driver, workflow: Workflow[..., Any]) -> Completed:
    """What the execution came to, encoded; fails loudly for anything but a result."""
    assert driver.fault is None, driver.fault
    if driver.error is not None:
        raise AssertionError(failures.encode_error(driver.error))
    ok, text = values.encode_result(driver.value, workflow.definition.result_type, "result", LIMIT)
    assert ok
    return Completed(text)


def whole(workflow: Workflow[..., Any], params: str) -> Completed:
    """One execution from its claim to its outcome."""
    driver = deliver(workflow, claimed(workflow, params))
    ended = outcome(driver, workflow)
    driver.drop()
    return ended


def recorded(steps: int) -> list[Entry]:
    """The history of `steps` steps of `steps_then_sleep`."""
    keys = ["add-one", *(f"add-one#{n}" for n in range(2, steps + 1))]
    return [
        Entry(n, Kind.STEP.value, key, True, str(n + 1), BEGAN_AT, BEGAN_AT)
        for n, key in enumerate(keys)
    ]


def cpu_us(work: Callable[[], object], count: int, repeats: int) -> float:
    """Microseconds of CPU of one of the `count` things that a call of `work` does: the least."""
    found = []
    for _ in range(repeats):
        gc.collect()
        began = time.process_time_ns()
        work()
        found.append((time.process_time_ns() - began) / count / 1000)
    return min(found)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7, help="runs of each (default 7)")
    parser.add_argument("--count", type=int, default=2_000, help="executions of a run")
    parser.add_argument("--only", choices=("one", "sync", "ten", "replay"), help="one of them")
    asked = parser.parse_args(argv)
    count, repeats = asked.count, asked.repeats
    # As a worker sets them.
    gc.set_threshold(50_000, 20, 100)

    def times(workflow: Workflow[..., Any], params: str) -> Callable[[], object]:
        return lambda: [whole(workflow, params) for _ in range(count)]

    def replay() -> Driver:
        return deliver(measured.steps_then_sleep, history)

    tens = max(count // 10, 1)
    history = claimed(measured.steps_then_sleep, f'{{"steps":{2 * count}}}', recorded(2 * count))
    assert whole(measured.one_step, '{"n":1}') == Completed("2")
    assert whole(measured.many_steps, '{"steps":10}') == Completed("10")
    assert replay().operations == 2 * count
    lines: dict[str, tuple[str, Callable[[], object], int]] = {
        "one": ("an execution of one async step", times(measured.one_step, '{"n":1}'), count),
        "sync": ("an execution of one sync step", times(measured.one_sync_step, '{"n":1}'), count),
        "ten": (
            "a step of ten",
            lambda: [whole(measured.many_steps, '{"steps":10}') for _ in range(tens)],
            10 * tens,
        ),
        "replay": ("a replayed operation", replay, 2 * count),
    }
    for name, (said, work, each) in lines.items():
        if asked.only in (None, name):
            print(f"{said:32} {cpu_us(work, each, repeats):7.2f} us", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
