"""Errors and values whose own methods raise whatever they like: theirs alone is the trouble."""

from __future__ import annotations

from typing import NoReturn

import pytest

from tests.process.shop import Shop
from yieldstar_cli.failures import encode_error, view_error

MODULE = """
    from typing import Any

    from yieldstar_cli import Step, workflow

    class Silent(Exception):
        def __str__(self):
            raise SystemExit(4)

        __repr__ = __str__

    class Veiled:
        def __getattribute__(self, name):
            raise SystemExit(5)

    class Undecided:
        def __bool__(self):
            raise SystemExit(6)

    def refuse() -> None:
        raise Silent("x")

    def give() -> Any:
        return Veiled()

    def waver() -> Any:
        return Undecided()

    @workflow
    async def refusing(step: Step) -> None:
        await step.run(refuse)

    @workflow
    async def giving(step: Step) -> None:
        await step.run(give)

    @workflow
    async def wavering(step: Step) -> None:
        await step.poll(waver, every="1s")

    @workflow
    async def ending(step: Step) -> Any:
        return Veiled()

    @workflow
    async def raising(step: Step) -> None:
        raise Silent("x")

    @workflow
    def plain() -> None:
        raise Silent("x")
"""
HOSTILE = ["refusing", "giving", "wavering", "ending", "raising", "plain"]


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_class_of_the_authors_raises_in_our_hands_ends_only_its_execution(
    shop: Shop, name: str
) -> None:
    """case 104; spec R8, E11: none kills the worker, and each is a failed outcome."""
    shop.module("hostile", MODULE)
    shop.ys("trigger", name, "--id", "a", check=True)
    shop.ys("trigger", "simple", "--id", "b", "-p", "name=b", check=True)

    worked = shop.ys("worker", "--until-idle")

    assert worked.returncode == 0
    assert shop.show("a")["status"] == "failed"
    assert shop.show("b")["status"] == "completed"


def deny(self: object) -> NoReturn:
    raise SystemExit(1)


#: Denies everything about itself.
Denying = type(
    "Denying",
    (Exception,),
    {"__str__": deny, "__notes__": property(deny), "__context__": property(deny)},
)


def test_an_error_that_denies_everything_is_recorded_by_its_name() -> None:
    """spec E11: at least the name, and why there is no more."""
    view = view_error(encode_error(Denying("x")))

    assert view.name == "Denying"
    assert view.message == "<str() of Denying raised SystemExit>"
    assert view.notes == ("no more can be told: reading the error raised SystemExit",)
