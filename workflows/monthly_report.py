"""Fan-out: one child for each shop, ten at a time; one that fails does not sink the rest.

ys trigger monthly-report --id may -p month=2026-05 -p shops=25
ys worker --until-idle
ys show may --tree
"""

import msgspec

from yieldstar_cli import ChildFailed, Step, workflow


class Month(msgspec.Struct):
    """What to report."""

    month: str
    shops: int = 12
    """How many shops there are."""


class ShopMonth(msgspec.Struct):
    """One shop's share of it."""

    shop: str
    month: str


class Summary(msgspec.Struct):
    """What one shop has sold."""

    shop: str
    cents: int


class Report(msgspec.Struct):
    """What all have sold."""

    month: str
    cents: int
    missing: list[str]
    """What went wrong, shop by shop."""


class BooksAreLocked(Exception):
    """The shop's books cannot be read now."""


def list_shops(shops: int) -> list[str]:
    """Ask the head office."""
    return [f"shop-{number}" for number in range(1, shops + 1)]


def read_books(shop: str, month: str) -> Summary:
    """Ask the shop. That of shop 7 never answers."""
    if shop == "shop-7":
        raise BooksAreLocked(f"the books of {shop} are locked")
    return Summary(shop, cents=100 * len(shop) + len(month))


@workflow
async def shop_report(step: Step, p: ShopMonth) -> Summary:
    """Report one shop's month: an execution of its own, with its own record and retries."""
    return await step.run(read_books, p.shop, p.month)


@workflow
async def monthly_report(step: Step, p: Month) -> Report:
    """Report all shops' month; what could not be read is named."""
    name = step.event.execution_id
    shops = await step.run(list_shops, p.shops)
    work = [ShopMonth(shop, p.month) for shop in shops]
    ends = await step.map(
        shop_report, work, id=lambda one: f"{name}/{one.shop}", limit=10, errors="keep"
    )
    return Report(
        p.month,
        cents=sum(end.cents for end in ends if isinstance(end, Summary)),
        missing=[str(end) for end in ends if isinstance(end, ChildFailed)],
    )
