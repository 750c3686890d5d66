"""The sample workflows that `ys init` writes, each with the calls that show it."""

from __future__ import annotations

from enum import StrEnum

from yieldstar_cli.nouns import dataclass


class Example(StrEnum):
    """What `--example` may be."""

    HELLO = "hello"
    APPROVAL = "approval"
    FANOUT = "fanout"
    CHARGE_ONCE = "charge-once"


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

CHARGE_ONCE = '''\
"""An effect: a card is charged once, though the bank's first answer is lost."""

from pathlib import Path

from yieldstar_cli import EffectAnswer, Step, not_found, settled, workflow

BANK = Path("bank.txt")


def find_charge(effect_id: str, cents: int) -> EffectAnswer[str]:
    """Ask the bank, which is a file here, whether it has charged."""
    lines = BANK.read_text().splitlines() if BANK.exists() else []
    charged = f"{effect_id} {cents}"
    return settled(f"charged {charged}") if charged in lines else not_found


def charge(effect_id: str, cents: int) -> str:
    """It charges, and says nothing: was it done?"""
    with BANK.open("a") as bank:
        bank.write(f"{effect_id} {cents}\\n")
    raise TimeoutError("the bank gave no answer")


@workflow
async def charge_once(step: Step, order: int = 7, cents: int = 1250) -> str:
    """Charge an order; after any doubt it is looked up before it is done again."""
    return await step.effect(
        f"order-{order}",
        operation="charge",
        input=cents,
        lookup=find_charge,
        perform=charge,
        retry_in="1s",
    )
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
    Example.CHARGE_ONCE: Sample(
        "charge_once.py",
        CHARGE_ONCE,
        (
            "ys trigger charge-once --id first",
            "ys worker --until-idle --linger 5s",
            "ys show first",
        ),
    ),
}
