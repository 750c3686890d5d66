"""Charge a card once, though the bank's answer is lost and whoever asks again.

    ys trigger charge-once --id bill-13 -p order=13
    ys worker --until-idle --linger 10s
    ys show bill-13

The bank is a text file with a line for each charge. It loses its answer to orders that end in 13:
they are charged, and nobody is told. So the charge is looked up before anything is done again.
"""

from pathlib import Path

import msgspec

from yieldstar_cli import EffectAnswer, Fatal, Step, not_found, settled, workflow


class Charge(msgspec.Struct):
    """What the bank is asked for."""

    order: int
    cents: int = 1250
    bank: str = "bank.txt"
    """The file that plays the bank."""


class Receipt(msgspec.Struct):
    """What the bank answers."""

    charge_id: str
    cents: int


class CardDeclined(Fatal):
    """The bank said no: it has not charged, and never will."""


def find_charge(effect_id: str, charge: Charge) -> EffectAnswer[Receipt]:
    """Ask the bank whether it has charged already."""
    bank = Path(charge.bank)
    for line in bank.read_text().splitlines() if bank.exists() else ():
        charge_id, cents = line.split()
        if charge_id == effect_id:
            return settled(Receipt(charge_id, int(cents)))
    return not_found


def charge_card(effect_id: str, charge: Charge) -> Receipt:
    """Ask the bank to charge, under this ID. Order 666's card is bad."""
    if charge.order == 666:
        raise CardDeclined("card declined")
    with open(charge.bank, "a") as bank:
        bank.write(f"{effect_id} {charge.cents}\n")
    if charge.order % 100 == 13:
        raise TimeoutError("the bank gave no answer")
    return Receipt(effect_id, charge.cents)


@workflow
async def charge_once(step: Step, charge: Charge) -> Receipt:
    """Charge an order; whichever execution does it, it is one charge."""
    return await step.effect(
        f"charge-order-{charge.order}",
        operation="charge",
        input=charge,
        lookup=find_charge,
        perform=charge_card,
        retry_in="5s",
    )
