"""A stock that orders share: each waits for its pieces, and none is promised twice.

ys trigger order-article --id order-7 -p article=chair -p pieces=2
ys worker --until-idle
ys trigger restock -p article=chair -p pieces=10      # or: ys store set Stock chair left:=10
ys worker --until-idle
ys store get Stock chair
"""

from collections.abc import Callable

import msgspec

from yieldstar_cli import Cancelled, Step, StepTimeout, Store, workflow


class Stock(msgspec.Struct):
    """A store, one for each article."""

    left: int = 0
    held: dict[str, int] = {}
    """What orders have taken and not paid yet, by their execution's ID."""


class OrderArticle(msgspec.Struct):
    """What is ordered."""

    article: str
    pieces: int = 1
    card: str = "good"
    patience: str = "7d"
    """How long to wait for the pieces."""


class CardDeclined(Exception):
    """The bank said no."""


def charge(card: str, pieces: int) -> str:
    """Ask the bank."""
    if card != "good":
        raise CardDeclined(f"a {card} card")
    return f"{pieces} paid"


async def surely(stock: Store[Stock], change: Callable[[Stock], None]) -> None:
    """Make a change even if a cancellation is told just there: it is told only once."""
    try:
        await stock.update(change)
    except Cancelled:
        await stock.update(change)
        raise


@workflow
async def restock(step: Step, article: str, pieces: int) -> int:
    """Put pieces on the shelf; orders that now can have theirs are woken by the same commit."""

    def add(stock: Stock) -> None:
        stock.left += pieces

    stock = await step.store(Stock, article, initial=Stock())
    return await stock.update(add)


@workflow
async def order_article(step: Step, p: OrderArticle) -> str:
    """Hold the pieces as soon as there are enough; give them back if they are not paid."""
    order = step.event.execution_id

    def enough(stock: Stock) -> int | None:
        return p.pieces if stock.left >= p.pieces else None

    def hold(stock: Stock, pieces: int) -> None:
        stock.left -= pieces
        stock.held[order] = pieces

    def give_back(stock: Stock) -> None:
        stock.left += stock.held.pop(order)

    def sell(stock: Stock) -> None:
        del stock.held[order]

    stock = await step.store(Stock, p.article, initial=Stock())
    try:
        await step.timeout(stock.take(enough, hold), p.patience)
    except StepTimeout:
        return "sold out"
    paid = False
    try:
        await step.run(charge, p.card, p.pieces)
        paid = True
    except CardDeclined as error:
        return f"not paid: {error}"
    finally:  # also when it is cancelled: nobody else would put them back
        await surely(stock, sell if paid else give_back)
    return "sold"
