"""Waiting for something that only answers when asked: a poll, with a limit.

ys trigger await-parcel -p parcel=P-7
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from yieldstar_cli import Step, StepTimeout, workflow


@dataclass
class Parcel:
    """Which parcel to follow."""

    parcel: str
    """Its number."""
    takes: float = 3.0
    """How many seconds the carrier needs; longer than 8 and we give up."""


def where_is(parcel: str, sent: datetime, takes: float, now: datetime) -> str | None:
    """The carrier's answer: a signature, or nothing yet."""
    return f"{parcel} signed by A. Neighbour" if now - sent >= timedelta(seconds=takes) else None


def ask_carrier(parcel: str, sent: datetime, takes: float) -> str | None:
    """What a real one would do over the network."""
    return where_is(parcel, sent, takes, datetime.now(sent.tzinfo))


@workflow
async def await_parcel(step: Step, p: Parcel) -> str:
    """Ask the carrier every second until the parcel has arrived, for eight seconds at most."""
    try:
        found = await step.poll(ask_carrier, p.parcel, step.now(), p.takes, every="1s", until="8s")
    except StepTimeout:
        return f"{p.parcel} is lost"
    assert found is not None
    return found
