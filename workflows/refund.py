"""Somebody has to say yes: an approval with a reminder and a deadline.

ys trigger refund --id refund-7 -p order=7 -p cents=1250
ys worker --until-idle
ys approve refund-7 --note "known customer"     # or: ys reject refund-7
ys worker --until-idle
"""

import msgspec

from yieldstar_cli import Step, this_step, workflow


class Refund(msgspec.Struct):
    """What is asked for."""

    order: int
    cents: int
    patience: str = "1d"
    """How long to wait for an answer before asking once more."""
    times: int = 3
    """How often to ask."""


class Decision(msgspec.Struct):
    """What `ys approve` and `ys reject` send."""

    ok: bool
    by: str
    note: str = ""


def ask_approvers(p: Refund, time: int) -> str:
    """Ask for a decision; a real shop mails this text."""
    again = "" if time == 1 else f" (asked {time} times)"
    return (
        f"Refund {p.cents} cents of order {p.order}? ys approve {this_step().execution_id}{again}"
    )


def pay_back(order: int, cents: int) -> str:
    """Give the money back; the same key is never paid twice."""
    return f"{cents} cents of order {order} under {this_step().idempotency_key[:8]}"


@workflow
async def refund(step: Step, p: Refund) -> str:
    """Refund an order if somebody approves it in time."""
    answer = step.message("decision", Decision)
    for time in range(1, p.times + 1):
        await step.run(ask_approvers, p, time)
        if await step.select(answer, step.timer(p.patience)) is not answer:
            continue  # the same handle is awaited again: no answer is missed
        decision = answer.result()
        if not decision.ok:
            return f"rejected by {decision.by}"
        await step.run(pay_back, p.order, p.cents)
        return f"approved by {decision.by}"
    return "expired"
