"""Charge an order some time after it was placed, unless the customer cancelled meanwhile.

    ys trigger charge-order --id order-42 -p order=42
    ys worker --until-idle --linger 10s
    ys show order-42

The shop and the payment gateway are played by plain functions: they can be tested alone, and
with `-p ledger=FILE` they write down each time they really run.
"""

from pathlib import Path

import msgspec

from yieldstar_cli import RetryPolicy, Step, this_step, workflow


class ChargeOrder(msgspec.Struct):
    """What to charge, and when."""

    order: int
    """The order number to charge."""
    wait: str = "2s"
    """How long the customer may change their mind; a real shop says 10m."""
    ledger: str | None = None
    """A file in which every call of a step is noted."""


class Order(msgspec.Struct):
    """An order as the shop knows it."""

    id: int
    total: int
    open: bool = True


class Receipt(msgspec.Struct):
    """What the gateway answers."""

    order: int
    charged: int


class CardDeclined(Exception):
    """The bank said no: trying again will not help."""


PATIENT = RetryPolicy(attempts=5, first="2s", factor=2, max="5m", never=(CardDeclined,))


def load_order(order: int, ledger: str | None) -> Order:
    """Ask the shop. Orders that end in 13 were cancelled."""
    _note(ledger, f"load-order {order}")
    return Order(id=order, total=1250, open=order % 100 != 13)


def charge_card(order: Order, ledger: str | None) -> Receipt:
    """Ask the gateway, which charges once for one idempotency key. Order 666's card is bad."""
    _note(ledger, f"charge-card {order.id} {this_step().idempotency_key}")
    if order.id == 666:
        raise CardDeclined("the bank declined the card")
    return Receipt(order=order.id, charged=order.total)


def _note(ledger: str | None, line: str) -> None:
    if ledger is not None:
        with Path(ledger).open("a") as file:
            file.write(line + "\n")


@workflow
async def charge_order(step: Step, p: ChargeOrder) -> Receipt | None:
    """Charge an order a while after it was placed.

    Ends with nothing when the customer cancelled in time.
    """
    await step.sleep(p.wait)
    order = await step.run(load_order, p.order, p.ledger)
    if not order.open:
        return None
    return await step.using(retry=PATIENT).run(charge_card, order, p.ledger)
