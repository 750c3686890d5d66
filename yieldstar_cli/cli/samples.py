"""The sample workflows that `ys init` writes, each with the calls that show it."""

from __future__ import annotations

from enum import StrEnum

from yieldstar_cli.nouns import dataclass


class Example(StrEnum):
    """What `--example` may be."""

    HELLO = "hello"
    APPROVAL = "approval"
    FANOUT = "fanout"


@dataclass(frozen=True, slots=True)
class Sample:
    """One module for `workflows/`."""

    file: str
    text: str
    #: What to type, to see it at work.
    calls: tuple[str, ...]


HELLO = '''\
"""Say hello: one step, and what it returned is the result."""

from yieldstar_cli import Step, workflow


def greet(name: str) -> str:
    return f"Hello, {name}!"


@workflow
async def hello(step: Step, name: str = "world") -> str:
    """Greet somebody."""
    return await step.run(greet, name)
'''

APPROVAL = '''\
"""An approval: somebody says yes or no, or nobody answers in time."""

import msgspec

from yieldstar_cli import Step, workflow


class Decision(msgspec.Struct):
    """What `ys approve` and `ys reject` send."""

    ok: bool
    by: str
    note: str = ""


def ask(what: str) -> str:
    return f"Somebody should be mailed: {what}?"


def do_it(what: str) -> str:
    return f"done: {what}"


@workflow
async def approval(step: Step, what: str = "buy a chair", patience: str = "1d") -> str:
    """Ask, wait for a decision, and act on it."""
    answer = step.message("decision", Decision)
    await step.run(ask, what)
    if await step.select(answer, step.timer(patience)) is not answer:
        return "nobody answered"
    decision = answer.result()
    if not decision.ok:
        return f"rejected by {decision.by}"
    return await step.run(do_it, what)
'''

FANOUT = '''\
"""A fan-out: a child for each item, ten at once; one that fails does not sink the rest."""

from yieldstar_cli import Step, workflow


def multiply(n: int) -> int:
    if n == 7:
        raise ValueError("seven is not in the mood")
    return n * n


@workflow
async def square(step: Step, n: int) -> int:
    """One item: an execution of its own, with its own record and retries."""
    return await step.run(multiply, n)


@workflow
async def squares(step: Step, most: int = 12) -> list[int | str]:
    """Square all numbers up to `most`."""
    items = [{"n": n} for n in range(1, most + 1)]
    ends = await step.map(square, items, limit=10, errors="keep")
    return [end if isinstance(end, int) else str(end) for end in ends]
'''

SAMPLES = {
    Example.HELLO: Sample(
        "hello.py",
        HELLO,
        (
            "ys trigger hello --id first -p name=Ann",
            "ys worker --until-idle",
            "ys show first",
        ),
    ),
    Example.APPROVAL: Sample(
        "approval.py",
        APPROVAL,
        (
            "ys trigger approval --id first",
            "ys worker --until-idle",
            "ys approve first",
            "ys worker --until-idle",
            "ys show first",
        ),
    ),
    Example.FANOUT: Sample(
        "fanout.py",
        FANOUT,
        (
            "ys trigger squares --id first",
            "ys worker --until-idle",
            "ys show first --tree",
        ),
    ),
}
